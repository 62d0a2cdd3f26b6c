"""The inspector's widget: what it sends, answers and keeps, what a notebook saves, and how it follows a session."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import ipywidgets
import numpy as np
import pytest
from inspected import SOURCE, inspected, many

from kernelscope.errors import KernelScopeError, UnknownKernelError
from kernelscope.recording.model import Recording
from kernelscope.views import widget
from kernelscope.views.inspector import widget as inspector_widget
from kernelscope.views.inspector.model import Kernel, inspect_kernels
from kernelscope.views.inspector.widget import InspectorWidget, RecordingSource
from kernelscope.views.keys import specialization_keys

Sent = list[tuple[dict[str, Any], Any]]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The outputs that a display makes, and with what."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "publish_display_data",
                        lambda data, metadata, **kept: found.append({**data, "kept": kept}))
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The messages that widgets send."""
    found: Sent = []
    monkeypatch.setattr(InspectorWidget, "send", lambda self, content, buffers=None: found.append((content, buffers)))
    return found


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    yield
    ipywidgets.Widget.close_all()
    widget._shown.clear()


class Growing(RecordingSource):
    """A source that has something new when it is told to."""

    is_live = True
    can_compile = True

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self.next: Recording | None = None
        self.compiled: list[str] = []

    def refresh(self) -> bool:
        if self.next is None:
            return False
        self.recording, self.next = self.next, None
        return True

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        self.compiled.append(key)
        return {"ptx": ".version 8"}


def facts_of(message: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    assert message[0] == {"kind": "data"}
    held: dict[str, Any] = json.loads(inflated(message[1][0]))
    return held


def inflated(data: bytes) -> bytes:
    return zlib.decompress(data, wbits=-zlib.MAX_WBITS)


def ask(shown: InspectorWidget, sent: Sent, **what: Any) -> tuple[dict[str, Any], Any]:
    shown._handle_custom_msg({"kind": "ask", "id": 7, **what}, [])
    return sent[-1]


def key_of(recording: Recording, row: int = 0) -> str:
    return specialization_keys(recording)[row]


def test_what_is_sent_and_saved(sent: Sent) -> None:
    shown = InspectorWidget(RecordingSource(inspected()))
    shown.send_data()
    held = facts_of(sent[0])
    assert [each["name"] for each in held["kernels"]] == ["demo.scale", "demo.plain"]
    assert (held["is_live"], held["can_compile"], held["first"]) == (False, False, None)
    assert all("demo.scale" in each for each in shown.static_version())


def test_it_begins_with_the_kernel_that_was_named(sent: Sent) -> None:
    for name in ("demo.plain", "plain"):
        shown = InspectorWidget(RecordingSource(inspected()), name)
        assert shown.kernel == "demo.plain"
        shown.send_data()
        held = facts_of(sent[-1])
        assert {each["key"]: each["name"] for each in held["kernels"]}[held["first"]] == "demo.plain"
    with pytest.raises(UnknownKernelError, match=r"no recorded kernel 'axpy'; known: 'demo.scale', 'demo.plain'"):
        InspectorWidget(RecordingSource(inspected()), "axpy")


def test_code_is_sent_when_it_is_asked_for(sent: Sent) -> None:
    recording = inspected(6)
    shown = InspectorWidget(RecordingSource(recording))
    content, buffers = ask(shown, sent, what="code", specialization=key_of(recording), form="source")
    assert (content["kind"], content["id"], content["first"], content["has_lines"]) == ("answer", 7, 7, False)
    assert inflated(buffers[0]).decode() == SOURCE
    content, buffers = ask(shown, sent, what="code", specialization=key_of(recording), form="ptx")
    text = inflated(buffers[0]).decode()
    lines = np.frombuffer(inflated(buffers[1]), "<i4")
    assert len(lines) == len(text.split("\n"))
    assert set(lines.tolist()) == {0, 9, 10, 11}
    content, buffers = ask(shown, sent, what="compiles", specialization=key_of(recording))
    assert json.loads(inflated(buffers[0]))[0]["ns"] == 120_000_000


@pytest.mark.parametrize(("what", "said"), [
    ({"what": "code", "specialization": "gone", "form": "ptx"}, "no longer there"),
    ({"what": "code", "form": "ptx"}, "no longer there"),
    ({"what": "code", "specialization": None, "form": "cubin"}, "no code is called 'cubin'"),
    ({"what": "code", "specialization": None, "form": "ptx", "copy": True}, "a recording holds no kernel"),
    ({"what": "nothing", "specialization": None}, "what is 'nothing'"),
    ({"what": ["list"], "specialization": None}, "what is"),
])
def test_a_problem_is_an_answer(what: dict[str, Any], said: str, sent: Sent) -> None:
    recording = inspected()
    shown = InspectorWidget(RecordingSource(recording))
    if "specialization" in what and what["specialization"] is None:
        what = {**what, "specialization": key_of(recording)}
    content, buffers = ask(shown, sent, **what)
    assert (content["kind"], content["id"], buffers) == ("answer", 7, [])
    assert said in content["error"]


def test_an_interrupt_is_an_answer(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = inspected()
    shown = InspectorWidget(RecordingSource(recording))

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspector_widget, "code_of", interrupted)
    content, _ = ask(shown, sent, what="code", specialization=key_of(recording), form="ptx")
    assert content["error"] == "Interrupted: choose the tab again."


def test_what_is_asked_while_it_grows_is_answered_from_what_is_shown(sent: Sent) -> None:
    source = Growing(inspected())
    shown = InspectorWidget(source)
    key = key_of(source.recording)
    # As in another thread, between the source's refresh and the widget's: ids mean other rows by then.
    source.recording = many(3)
    content, buffers = ask(shown, sent, what="code", specialization=key, form="ptx")
    assert "error" not in content
    assert b".entry scale" in zlib.decompress(buffers[0], wbits=-15)


def test_a_copy_is_compiled_once_and_for_each_form(sent: Sent) -> None:
    source = Growing(inspected())
    shown = InspectorWidget(source)
    key = key_of(source.recording)
    for form in ("ptx", "sass", "ptx"):
        content, _ = ask(shown, sent, what="code", specialization=key, form=form, copy=True)
        assert "error" not in content
    assert source.compiled == [key]
    assert content["has_text"]


def test_what_is_new_is_sent_and_the_static_version_is_replaced(published: list[dict[str, Any]], sent: Sent) -> None:
    source = Growing(inspected())
    shown = InspectorWidget(source, "demo.plain")
    shown._ipython_display_()
    shown.refresh()
    assert (len(sent), len(published)) == (2, 2)
    source.next = many(6)
    shown._after_cell(None)
    assert [each["name"] for each in facts_of(sent[2])["kernels"]] == ["lib.kernel_000"]
    again = published[2]
    assert "lib.kernel_000" in again["text/html"]
    assert again["kept"] == {**published[1]["kept"], "update": True}
    assert published[1]["kept"]["transient"] == {"display_id": f"kernelscope-{shown.picture}"}


def test_a_refresh_that_fails_is_said_and_harms_no_cell(sent: Sent) -> None:
    class Failing(Growing):
        def refresh(self) -> bool:
            raise OSError("no such device")

    InspectorWidget(Failing(inspected()))._after_cell(None)
    assert sent == [({"kind": "problem", "message": "OSError: no such device"}, None)]


class Events:
    """What the widget uses of IPython's events."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {"post_run_cell": []}

    def register(self, event: str, callback: Any) -> None:
        self.callbacks[event].append(callback)

    def unregister(self, event: str, callback: Any) -> None:
        self.callbacks[event].remove(callback)


def shell(*types: str) -> Any:
    return SimpleNamespace(display_formatter=SimpleNamespace(active_types=types), events=Events(), parent_header={})


def test_it_follows_cells_while_it_is_open(published: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = shell("text/plain", "text/html")
    monkeypatch.setattr(inspector_widget, "get_ipython", lambda: notebook)
    monkeypatch.setattr(widget, "get_ipython", lambda: notebook)
    callbacks = notebook.events.callbacks["post_run_cell"]
    InspectorWidget(RecordingSource(inspected()))._ipython_display_()
    assert callbacks == []
    live = InspectorWidget(Growing(inspected()))
    live._ipython_display_()
    live._ipython_display_()
    assert callbacks == [live._after_cell]
    live.close()
    assert callbacks == []
    live.close()


def test_running_the_cell_again_ends_the_first(published: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = shell("text/plain", "text/html")
    monkeypatch.setattr(inspector_widget, "get_ipython", lambda: notebook)
    shown = []
    for run in ("run 1", "run 2"):
        monkeypatch.setattr(widget, "_running_cell", lambda run=run: ("cell", run, []))
        shown.append(InspectorWidget(Growing(inspected())))
        shown[-1]._ipython_display_()
    assert [each.comm is None for each in shown] == [True, False]
    # Nor is anything else of it: its layout, its kernel, its recordings.
    assert [each.layout.comm is None for each in shown] == [True, False]
    assert (shown[0].recording.dispatchers.empty, shown[1].recording.dispatchers.empty) == (True, False)
    assert "scale" not in repr(shown[0])
    assert notebook.events.callbacks["post_run_cell"] == [shown[1]._after_cell]


def test_deleting_the_cell_ends_it(published: Any, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = shell("text/plain", "text/html")
    monkeypatch.setattr(inspector_widget, "get_ipython", lambda: notebook)
    shown = []
    for cell in ("one", "two"):
        monkeypatch.setattr(widget, "_running_cell", lambda cell=cell: (cell, "run", []))
        shown.append(InspectorWidget(Growing(inspected())))
        shown[-1]._ipython_display_()
    # The cell that runs next shows nothing of ours.
    monkeypatch.setattr(widget, "_running_cell", lambda: ("other", "run 2", ["one"]))
    for follow in list(notebook.events.callbacks["post_run_cell"]):
        follow(None)
    assert [each.comm is None for each in shown] == [True, False]
    assert notebook.events.callbacks["post_run_cell"] == [shown[1]._after_cell]


def test_only_the_kernels_of_the_source_are_shown(sent: Sent) -> None:
    class One(RecordingSource):
        def kernels(self) -> list[Kernel]:
            return [each for each in inspect_kernels(self.recording) if each.name == "demo.plain"]

    shown = InspectorWidget(One(inspected()))
    shown.send_data()
    assert [each["name"] for each in facts_of(sent[0])["kernels"]] == ["demo.plain"]
    with pytest.raises(KernelScopeError):
        shown.answer({"what": "compiles", "specialization": key_of(shown.recording)})
