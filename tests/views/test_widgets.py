"""What the widgets have in common: what they send, keep, save and close; no framework is needed."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ipywidgets
import pytest
from drawn_graphs import every_kind
from everything import everything
from handmade import Script
from inspected import inspected

import kernelscope
from kernelscope.commands import output as commands_output
from kernelscope.views import widget
from kernelscope.views.widget import FrontEnd, View, front_end

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "notebooks" / "recordings" / "threads.kscope"
VIEW = "application/vnd.jupyter.widget-view+json"
RECORDED = kernelscope.load(RECORDING)
INSPECTED = inspected(3_000)
# By front end: how a widget is made, the function that packs its data, and what its static version says as text.
MADE: dict[str, tuple[Callable[[], View], str, str]] = {
    "timeline": (lambda: kernelscope.timeline(RECORDED), "pack", "KernelScope timeline: 2,000 launches"),
    "inspector": (lambda: kernelscope.inspect(INSPECTED), "kernels_message", "2 kernels"),
    "graph": (lambda: kernelscope.graph(every_kind()), "pack", "graph 0 · 14 nodes"),
}
every_view = pytest.mark.parametrize("name", MADE)


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    yield
    ipywidgets.Widget.close_all()
    widget._shown.clear()


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The outputs that a display makes."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "publish_display_data", lambda data, metadata, **kept: found.append(data))
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], Any]]:
    """The messages that widgets send."""
    found: list[tuple[dict[str, Any], Any]] = []
    monkeypatch.setattr(View, "send", lambda self, content, buffers=None: found.append((content, buffers)))
    return found


def run_of(monkeypatch: pytest.MonkeyPatch, cell: str, run: str, deleted: tuple[str, ...] = ()) -> None:
    """Pretend that a run of a cell is going on."""
    monkeypatch.setattr(widget, "_running_cell", lambda: (cell, run, list(deleted)))


def shell(*types: str) -> Any:
    return SimpleNamespace(display_formatter=SimpleNamespace(active_types=types), parent_header={})


@every_view
def test_the_state_is_small_and_the_front_end_is_one_model(name: str) -> None:
    make = MADE[name][0]
    first, second = make(), make()
    assert len(json.dumps({key: str(value) for key, value in first.get_state().items()})) < 12_000
    assert first.front_end is second.front_end
    assert zlib.decompress(first.front_end.source, wbits=-zlib.MAX_WBITS).decode() == front_end(name)
    assert first.get_state()["front_end"] == f"IPY_MODEL_{first.front_end.model_id}"
    ipywidgets.Widget.close_all()
    again = make().front_end
    assert isinstance(again, FrontEnd) and again is not first.front_end


@every_view
def test_a_display_is_the_widget_its_data_and_a_static_version(name: str, published: Any, sent: Any) -> None:
    make, _, said = MADE[name]
    shown = make()
    assert sent == []
    shown._ipython_display_()
    view, static = published
    assert view[VIEW]["model_id"] == shown.model_id
    assert (view["text/plain"], view["text/html"]) == ("", "<span hidden></span>")
    assert f'data-ks-picture="{shown.picture}"' in static["text/html"]
    assert static["text/plain"].startswith(said) and VIEW not in static
    # A page that has been told so waits for the data, however long packing takes; one that was loaded anew asks.
    assert [content["kind"] for content, _ in sent] == ["coming", "data"]
    shown._handle_custom_msg({"kind": "ask"}, [])
    assert sent[2:] == sent[1:2]
    for other in ({"kind": "other"}, "ask", None, ["ask"], {}):
        shown._handle_custom_msg(other, [])
    assert len(sent) == 3


@every_view
def test_a_problem_is_sent_as_what_it_says(name: str, sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make, packing, _ = MADE[name]
    shown = make()
    monkeypatch.setattr(f"kernelscope.views.{name}.widget.{packing}", lambda *given: 1 / 0)
    shown.send_data()
    assert sent == [({"kind": "error", "message": "ZeroDivisionError: division by zero"}, None)]


@every_view
def test_a_terminal_gets_text(name: str, published: Any, sent: Any, monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(widget, "get_ipython", lambda: shell("text/plain"))
    make, _, said = MADE[name]
    make()._ipython_display_()
    assert capsys.readouterr().out.startswith(said)
    assert published == sent == []


@pytest.mark.parametrize("show", [kernelscope.timeline, kernelscope.graph])
def test_a_height_is_positive(show: Any) -> None:
    recording = every_kind()
    assert (show(recording, height=300).height, show(recording).height) == (300, 0)
    for height in (0, -5):
        with pytest.raises(ValueError, match=f"height {height} is no height"):
            show(recording, height=height)


def test_running_a_cell_again_closes_what_it_had_shown(published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(cell: str, run: str, deleted: tuple[str, ...] = ()) -> View:
        run_of(monkeypatch, cell, run, deleted)
        made = kernelscope.graph(every_kind())
        made._ipython_display_()
        return made

    first, same_run, other = show("one", "run 1"), show("one", "run 1"), show("two", "run 2")
    assert [each.comm is None for each in (first, same_run, other)] == [False, False, False]
    again = show("one", "run 3")
    assert [each.comm is None for each in (first, same_run, other, again)] == [True, True, False, False]
    show("one", "run 4", deleted=("two", "unknown"))
    assert other.comm is None


def test_what_is_closed_is_not_kept(published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    for run in range(3):
        run_of(monkeypatch, "one", f"run {run}")
        made = everything()
        kernelscope.timeline(made)._ipython_display_()
        held.append(weakref.ref(made))
        del made
    gc.collect()
    assert [reference() is None for reference in held] == [True, True, False]


def test_the_running_cell_is_what_the_front_end_says(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = {"header": {"msg_id": "m1"}, "metadata": {"cellId": "c1", "deletedCells": ["c0"]}}
    monkeypatch.setattr(widget, "get_ipython", lambda: type("Shell", (), {"parent_header": parent}))
    assert widget._running_cell() == ("c1", "m1", ["c0"])
    monkeypatch.setattr(widget, "get_ipython", lambda: None)
    assert widget._running_cell() == (None, "", [])


# What commands show of a timeline.

def test_a_timeline_in_a_terminal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    commands_output.show_timeline(shell("text/plain"), RECORDED, asked=True)
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "to_html" in said
    commands_output.show_timeline(shell("text/plain"), RECORDED)
    assert capsys.readouterr().out == ""


def test_without_a_launch_there_is_no_timeline(capsys: pytest.CaptureFixture[str], published: Any) -> None:
    notebook = shell("text/plain", "text/html")
    commands_output.show_timeline(notebook, Script().recording())
    assert capsys.readouterr().out == ""
    commands_output.show_timeline(notebook, Script().recording(), asked=True)
    assert "nothing was launched" in capsys.readouterr().out
    assert published == []


def test_a_timeline_that_fails_does_not_fail_the_cell(capsys: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.views.timeline.widget.image", lambda recording: 1 / 0)
    commands_output.show_timeline(shell("text/plain", "text/html"), RECORDED)
    assert "kernelscope: the timeline cannot be shown: ZeroDivisionError" in capsys.readouterr().err


def test_they_need_no_framework_and_no_kernel(tmp_path: Path) -> None:
    inspected().save(tmp_path / "inspected.kscope")
    every_kind().save(tmp_path / "graph.kscope")
    code = f"""
import sys
sys.modules.update(numba=None, cuda=None, cupti=None)
import kernelscope
print(type(kernelscope.timeline(kernelscope.load({str(RECORDING)!r}))).__name__)
shown = kernelscope.inspect({str(tmp_path / "inspected.kscope")!r}, "scale")
print(type(shown).__name__, shown.kernel, "def scale" in shown.static_version()[1])
graph = kernelscope.graph(kernelscope.load({str(tmp_path / "graph.kscope")!r}))
print("axpy" in graph.to_svg(), "axpy" in graph.to_dot(), "axpy" in str(graph))
graph.to_html({str(tmp_path / "graph.html")!r})
kernelscope.inspect(3)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600,
                         env={"PATH": "/usr/bin:/bin"})
    assert ran.stdout == "TimelineWidget\nInspectorWidget demo.scale True\nTrue True True\n", ran.stderr
    assert "TypeError: a value of type int cannot be inspected: give a kernel made by @cuda.jit" in ran.stderr
