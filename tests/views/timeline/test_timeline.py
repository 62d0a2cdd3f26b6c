"""The widget: what it sends and keeps, what a notebook shows and saves, and what is closed when a cell runs again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ipywidgets
import pytest
from handmade import Script
from unpack import packed

import kernelscope
from kernelscope.commands import output as commands_output
from kernelscope.views import widget
from kernelscope.views.timeline import widget as timeline_widget
from kernelscope.views.timeline.widget import TimelineWidget

ROOT = Path(__file__).resolve().parents[3]
RECORDING = ROOT / "notebooks" / "recordings" / "threads.kscope"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def recording() -> Any:
    return kernelscope.load(RECORDING)


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
    monkeypatch.setattr(TimelineWidget, "send", lambda self, content, buffers=None: found.append((content, buffers)))
    return found


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    yield
    ipywidgets.Widget.close_all()
    widget._shown.clear()


def run_of(monkeypatch: pytest.MonkeyPatch, cell: str, run: str, deleted: tuple[str, ...] = ()) -> None:
    """Pretend that a run of a cell is going on."""
    monkeypatch.setattr(widget, "_running_cell", lambda: (cell, run, list(deleted)))


def test_it_is_the_public_function(recording: Any) -> None:
    shown = kernelscope.timeline(recording, height=300)
    assert isinstance(shown, TimelineWidget)
    assert (shown.recording, shown.height) == (recording, 300)
    assert kernelscope.timeline(recording).height == 0


@pytest.mark.parametrize("height", [0, -5])
def test_a_height_is_positive(recording: Any, height: int) -> None:
    with pytest.raises(ValueError, match=f"height {height} is no height"):
        kernelscope.timeline(recording, height)


def test_a_display_is_the_widget_and_a_picture(recording: Any, published: list[dict[str, Any]], sent: Any) -> None:
    shown = kernelscope.timeline(recording)
    shown._ipython_display_()
    view, picture = published
    assert view[VIEW]["model_id"] == shown.model_id
    assert (view["text/plain"], view["text/html"]) == ("", "<span hidden></span>")
    assert f'data-ks-picture="{shown.picture}"' in picture["text/html"]
    assert 'class="kscope"' not in picture["text/html"]
    assert picture["text/plain"].startswith("KernelScope timeline: 2,000 launches")
    assert VIEW not in picture


def test_the_data_are_sent_once_and_again_when_asked(recording: Any, published: Any, sent: list[Any]) -> None:
    shown = kernelscope.timeline(recording)
    assert sent == []
    shown._ipython_display_()
    made = packed(recording)
    # A page that has been told so waits for the data, however long packing takes.
    assert sent == [({"kind": "coming"}, None), ({"kind": "data", "header": made.header}, [made.payload])]
    shown._handle_custom_msg({"kind": "ask"}, [])
    assert sent[2:] == sent[1:2]
    for other in ({"kind": "other"}, "ask", None, ["ask"]):
        shown._handle_custom_msg(other, [])
    assert len(sent) == 3


def test_a_problem_is_sent_as_what_it_says(recording: Any, published: Any, sent: list[Any],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(recording: Any) -> Any:
        raise ValueError("no such column")

    monkeypatch.setattr(timeline_widget, "pack", fail)
    kernelscope.timeline(recording)._ipython_display_()
    assert sent[1:] == [({"kind": "error", "message": "ValueError: no such column"}, None)]
    assert len(published) == 2


def test_running_a_cell_again_closes_what_it_had_shown(recording: Any, published: Any,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(monkeypatch, "one", "run 1")
    first, same_run = kernelscope.timeline(recording), kernelscope.timeline(recording)
    first._ipython_display_()
    same_run._ipython_display_()
    run_of(monkeypatch, "two", "run 2")
    other = kernelscope.timeline(recording)
    other._ipython_display_()
    assert [each.comm is None for each in (first, same_run, other)] == [False, False, False]
    run_of(monkeypatch, "one", "run 3")
    again = kernelscope.timeline(recording)
    again._ipython_display_()
    assert [each.comm is None for each in (first, same_run, other, again)] == [True, True, False, False]
    run_of(monkeypatch, "one", "run 4", deleted=("two", "unknown"))
    kernelscope.timeline(recording)._ipython_display_()
    assert other.comm is None


def test_what_is_closed_is_not_kept(recording: Any, published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    for run in range(5):
        run_of(monkeypatch, "one", f"run {run}")
        made = kernelscope.load(RECORDING)
        kernelscope.timeline(made)._ipython_display_()
        held.append(weakref.ref(made))
        del made
    gc.collect()
    assert [reference() is None for reference in held] == [True, True, True, True, False]


def test_the_running_cell_is_what_the_front_end_says(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = {"header": {"msg_id": "m1"}, "metadata": {"cellId": "c1", "deletedCells": ["c0"]}}
    monkeypatch.setattr(widget, "get_ipython", lambda: type("Shell", (), {"parent_header": parent}))
    assert widget._running_cell() == ("c1", "m1", ["c0"])
    monkeypatch.setattr(widget, "get_ipython", lambda: None)
    assert widget._running_cell() == (None, "", [])


def test_a_terminal_gets_one_line(recording: Any, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = SimpleNamespace(display_formatter=SimpleNamespace(active_types=("text/plain",)))
    commands_output.show_timeline(terminal, recording, asked=True)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "to_html" in said
    commands_output.show_timeline(terminal, recording)
    assert capsys.readouterr().out == ""


def test_without_a_launch_there_is_none(capsys: pytest.CaptureFixture[str], published: list[dict[str, Any]]) -> None:
    notebook = SimpleNamespace(display_formatter=SimpleNamespace(active_types=("text/plain", "text/html")))
    commands_output.show_timeline(notebook, Script().recording())
    assert capsys.readouterr().out == ""
    commands_output.show_timeline(notebook, Script().recording(), asked=True)
    assert "nothing was launched" in capsys.readouterr().out
    assert published == []


def test_a_timeline_that_fails_does_not_fail_the_cell(recording: Any, capsys: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = SimpleNamespace(display_formatter=SimpleNamespace(active_types=("text/plain", "text/html")))
    monkeypatch.setattr(timeline_widget, "image", lambda recording: 1 / 0)
    commands_output.show_timeline(notebook, recording)
    assert "kernelscope: the timeline cannot be shown: ZeroDivisionError" in capsys.readouterr().err
