"""Ranges of the real nvtx: without a tool here, and with one attached in interpreters of their own."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import nvtx
import pytest
from nvtx.nvtx import dummy_domain
from nvtx_ranges import HELD, by_name, no_errors, shown

import kernelscope


def test_annotate_as_a_context_manager() -> None:
    with (
        kernelscope.record() as r,
        nvtx.annotate("outer", color="red", domain="d", category="c", payload=3) as given,
    ):
        with nvtx.annotate("inner", 0xFF123456, category=7):
            pass
        with nvtx.annotate():
            pass
    assert isinstance(given, nvtx.annotate)
    assert shown(r.recording, "name", "domain", "category", "color", "payload", "kind", "depth", "parent_range_id") == [
        ("outer", "d", "c", "#ff0000", "3", "push_pop", 0, None),
        ("inner", None, "7", "#123456", None, "push_pop", 1, 0),
        ("", None, None, None, None, "push_pop", 1, 0),
    ]
    for row in r.recording.rows("ranges"):
        assert row["cell_id"] == 0
        cell = r.recording.rows("cells")[0]
        assert cell["start_ns"] < row["start_ns"] < row["end_ns"] < cell["end_ns"]
    no_errors(r.recording)


def test_annotate_as_a_decorator() -> None:
    with kernelscope.record() as r:
        @nvtx.annotate(color="green")
        def work(number: int, *, more: int = 0) -> int:
            """Add."""
            return number + more

        @nvtx.annotate("named", domain="d")
        def other() -> int:
            return work(1)

        assert (work(1, more=2), other()) == (3, 1)
    assert shown(r.recording, "name", "domain", "color", "depth") == [
        ("work", None, "#008000", 0), ("named", "d", None, 0), ("work", None, "#008000", 1)]
    assert (work.__name__, work.__doc__) == ("work", "Add.")
    assert str(inspect.signature(work)) == "(number: 'int', *, more: 'int' = 0) -> 'int'"
    assert work(4) == 4  # nothing records
    with kernelscope.record() as later:
        work(1)
    assert shown(later.recording, "name") == [("work",)]


def test_what_is_no_plain_function_stays_itself() -> None:
    class Kernel:
        def __call__(self) -> None:
            pass

    async def coroutine() -> None:
        pass

    def generator() -> Any:
        yield 1

    with kernelscope.record():
        for each in (Kernel(), Kernel, len, coroutine, generator):
            assert nvtx.annotate("x")(each) is each


def test_function_decorated_before_recording_is_not_seen() -> None:
    @nvtx.annotate("early")
    def early() -> int:
        return 1

    with kernelscope.record() as r:
        assert early() == 1
    assert r.recording.rows("ranges") == []


def test_push_and_pop_and_mark() -> None:
    with kernelscope.record() as r:
        assert nvtx.push_range("a") is None
        nvtx.push_range("b", domain="d", payload=2.5)
        assert nvtx.mark("m", "orange", category="c") is None
        assert nvtx.pop_range(domain="d") is None
        nvtx.pop_range()
    assert shown(r.recording, "name", "kind", "color", "payload", "parent_range_id", "depth") == [
        ("a", "push_pop", "#0000ff", None, None, 0), ("b", "push_pop", "#0000ff", "2.5", 0, 1),
        ("m", "mark", "#ffa500", None, 1, 2)]
    marked = by_name(r.recording)["m"]
    assert marked["start_ns"] == marked["end_ns"]
    assert by_name(r.recording)["b"]["end_ns"] < by_name(r.recording)["a"]["end_ns"]


def test_pop_closes_the_newest_of_its_domain() -> None:
    with kernelscope.record() as r:
        nvtx.push_range("a", domain="one")
        nvtx.push_range("b", domain="two")
        nvtx.pop_range("one")
        nvtx.push_range("c")
        nvtx.pop_range()
        nvtx.pop_range("two")
    rows = by_name(r.recording)
    assert rows["a"]["end_ns"] < rows["c"]["start_ns"] < rows["b"]["end_ns"]
    assert rows["c"]["parent_range_id"] == rows["b"]["range_id"]


def test_start_and_end_overlap_and_cross_threads() -> None:
    held: dict[str, Any] = {}

    with kernelscope.record() as r:
        held["a"] = nvtx.start_range("a", color="cyan")
        held["b"] = nvtx.start_range("b", domain="d")
        thread = threading.Thread(target=lambda: nvtx.end_range(held["a"]))
        thread.start()
        thread.join()
        nvtx.mark("between")
        nvtx.end_range(held["b"])
        nvtx.end_range(None)
    rows = by_name(r.recording)
    assert rows["a"]["end_ns"] < rows["between"]["start_ns"] < rows["b"]["end_ns"]
    assert (rows["a"]["kind"], rows["a"]["thread_id"], rows["a"]["depth"]) == ("start_end", 0, 0)
    # After recording nvtx takes the ids that were given meanwhile.
    nvtx.end_range(held["b"])
    assert nvtx.start_range("c") is None


def test_ids_of_an_earlier_recording_end_nothing() -> None:
    with kernelscope.record() as first:
        early = nvtx.start_range("early")
    with kernelscope.record() as second:
        nvtx.start_range("late")
        nvtx.end_range(early)
    assert shown(first.recording, "name", "end_ns") == [("early", None)]
    assert shown(second.recording, "name", "end_ns") == [("late", None)]


def test_domains() -> None:
    with kernelscope.record() as r:
        domain = nvtx.get_domain("d")
        assert nvtx.get_domain("d") is domain
        assert isinstance(domain, type(dummy_domain))
        assert nvtx.get_domain() is dummy_domain
        attributes = domain.get_event_attributes("a", color="red", category="c", payload=[1, 2])
        domain.push_range(attributes)
        domain.push_range(attributes, message="b")
        domain.set_event_attributes(attributes, payload=9)
        domain.mark(attributes)
        domain.pop_range()
        domain.pop_range()
        number = domain.start_range(message="s")
        domain.end_range(number)
        HELD.push_range(message="held")
        HELD.pop_range()
    assert shown(r.recording, "name", "domain", "category", "color", "payload", "kind") == [
        ("a", "d", "c", "#ff0000", "[1, 2]", "push_pop"), ("b", "d", "c", "#ff0000", "[1, 2]", "push_pop"),
        ("a", "d", "c", "#ff0000", "9", "mark"), ("s", "d", None, None, None, "start_end"),
        ("held", None, None, None, None, "push_pop")]
    assert all(row["end_ns"] for row in r.recording.rows("ranges"))
    # What is held from the recording goes on working, and nothing is recorded.
    domain.push_range(attributes)
    domain.pop_range()
    domain.end_range(number)
    domain.set_event_attributes(attributes, message="x")
    assert nvtx.get_domain("d") is dummy_domain
    no_errors(r.recording)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exceptions_pass_and_close(error: type[BaseException]) -> None:
    with pytest.raises(error) as caught, kernelscope.record() as r:
        @nvtx.annotate("decorated")
        def fail() -> None:
            raise error("x")

        with nvtx.annotate("block"):
            fail()
    assert all(row["end_ns"] for row in r.recording.rows("ranges"))
    assert all("kernelscope/probes" not in str(entry.path) for entry in caught.traceback)


def test_range_never_closed_has_no_end() -> None:
    with kernelscope.record() as r:
        nvtx.push_range("open")
        with nvtx.annotate("inside"):
            pass
    nvtx.pop_range()
    rows = by_name(r.recording)
    assert rows["open"]["end_ns"] is None
    assert rows["inside"]["depth"] == 1


def test_range_opened_before_recording_has_no_start() -> None:
    outer, inner = nvtx.annotate("outer"), nvtx.annotate("inner")
    outer.__enter__()
    inner.__enter__()
    nvtx.push_range("unknown", domain="d")
    with kernelscope.record() as r:
        with nvtx.annotate("now"):
            pass
        nvtx.pop_range("d")
        inner.__exit__(None, None, None)
        outer.__exit__(None, None, None)
    assert [(name, start is None, depth) for name, start, depth in shown(r.recording, "name", "start_ns", "depth")] == [
        ("outer", True, 0), ("inner", True, 1), ("now", False, 2)]


def test_nested_recordings_share_ranges() -> None:
    with kernelscope.record() as outer:
        with nvtx.annotate("over"):
            pass
        with nvtx.annotate("around"), kernelscope.record() as inner, nvtx.annotate("inside"):
            pass
    assert shown(outer.recording, "name") == [("over",), ("around",), ("inside",)]
    assert shown(inner.recording, "name", "depth") == [("around", 0), ("inside", 1)]
    around = by_name(inner.recording)["around"]
    assert around["end_ns"] is None
    assert around["start_ns"] < inner.recording.rows("cells")[0]["start_ns"]


def test_threads_have_stacks_of_their_own() -> None:
    def work() -> None:
        with nvtx.annotate("thread"):
            pass

    with kernelscope.record() as r, nvtx.annotate("main"):
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    rows = r.recording.rows("ranges")
    assert [row["depth"] for row in rows] == [0] * 4
    assert len({row["thread_id"] for row in rows}) == 4


@pytest.mark.parametrize(("payload", "text"), [
    (True, "True"), (2**63, str(2**63)), (10**400, "int"), (0.5, "0.5"), ("p", "p"), (range(3), "range(0, 3)"),
    (b"abc", "bytes[3]"), ((1, 2.5), "(1, 2.5)"), ([0] * 100, "list[100]"), ([object()], "list[1]"),
    (np.zeros((2, 3), np.float32), "float32[2, 3]"), (np.float64(1.5), "1.5"), ({}, "dict"), (object(), "object"),
])
def test_payloads(payload: Any, text: str) -> None:
    with kernelscope.record() as r, nvtx.annotate("a", payload=payload):
        nvtx.mark("m", payload=payload)
    assert shown(r.recording, "payload") == [(text,), (text,)]
    no_errors(r.recording)


@pytest.mark.parametrize("color", ["no such color", "#ABCDEF", (1, 2)])
def test_odd_colors_and_messages(color: Any) -> None:
    with kernelscope.record() as r, nvtx.annotate("\ud800" + "x" * 2000, color=color):
        nvtx.mark(5)  # type: ignore[arg-type]
    row = r.recording.rows("ranges")[0]
    assert row["color"] == ("#abcdef" if color == "#ABCDEF" else None)
    assert row["name"].startswith("\\ud800x")
    assert len(row["name"]) < 1010


def test_messages_that_have_no_text_are_called_as_their_type_is() -> None:
    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with kernelscope.record() as r:
        with nvtx.annotate(Hostile()):  # type: ignore[arg-type]
            nvtx.push_range(Hostile())  # type: ignore[arg-type]
            nvtx.pop_range()
        HELD.mark(message=Hostile())
    assert shown(r.recording, "name", "depth") == [("Hostile", 0), ("Hostile", 1), ("Hostile", 0)]
    no_errors(r.recording)


def test_our_own_failures_stay_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no label")

    monkeypatch.setattr("kernelscope.probes.nvtx.label_row", fail)
    with kernelscope.record() as r:
        with nvtx.annotate("a"):
            nvtx.push_range("b")
            nvtx.pop_range()
        HELD.mark(message="c")
    health = [row for row in r.recording.rows("health") if row["errors"]]
    assert [row["probe"] for row in health] == ["nvtx"] and health[0]["errors"] >= 3
    assert "no label" in health[0]["message"]


def test_wrong_arguments_are_nvtx_s_errors() -> None:
    with kernelscope.record():
        for call in (lambda: nvtx.push_range(1, 2, 3, 4, 5, 6), lambda: nvtx.pop_range(nothing=1),  # type: ignore
                     lambda: nvtx.get_domain([]), lambda: HELD.end_range("x")):  # type: ignore
            with pytest.raises(TypeError):
                call()
