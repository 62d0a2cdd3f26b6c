"""What shows how far a study is: a line on a terminal, an output in a notebook, nothing elsewhere."""

from __future__ import annotations

import io
import os
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from kernelscope.studies import progress
from kernelscope.studies.progress import NotebookBar, TerminalBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")


class Clock:
    def __init__(self) -> None:
        self.seconds = 10.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


def test_a_line_is_written_over_and_taken_away() -> None:
    terminal = Terminal()
    bar = TerminalBar(terminal, Clock())
    bar(0.5, "process 8 of 16: round 1 of 5")
    bar(1.0, "done")
    assert terminal.getvalue().split("\r")[1] == "[##########..........] process 8 of 16: round 1 of 5"
    assert terminal.getvalue().split("\r")[2].rstrip() == "[####################] done"
    bar.close()
    bar.close()
    screen = ""
    for piece in terminal.getvalue().split("\r"):
        screen = piece + screen[len(piece):]
    assert screen.strip() == ""
    assert "\n" not in terminal.getvalue()


def test_a_line_fits_the_terminal_and_shows_no_escape_sequence() -> None:
    terminal = Terminal()
    TerminalBar(terminal, Clock())(7.0, "\x1b[2J" + "long " * 60)
    line = terminal.getvalue()[1:]
    assert len(line) == 79
    assert r"] \x1b[2Jlong " in line


def test_not_every_change_is_shown() -> None:
    terminal = Terminal()
    bar = TerminalBar(terminal, lambda: 10.0)
    for number in range(100):
        bar(number / 100, "working")
    assert terminal.getvalue().count("\r") == 1


def test_a_terminal_that_goes_away_does_not_end_the_study() -> None:
    terminal = Terminal()
    bar = TerminalBar(terminal, Clock())
    bar(0.1, "one")
    terminal.close()
    bar(0.2, "two")
    bar.close()


def test_a_terminal_without_a_window_is_none_of_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "fileno", lambda self: 2)
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda handle: os.terminal_size((0, 0)))
    terminal = Terminal()
    TerminalBar(terminal, Clock())(0.5, "process 8 of 16: round 1 of 5")
    assert terminal.getvalue().split("\r")[1].endswith("process 8 of 16: round 1 of 5")


def test_a_notebook_s_output_is_replaced_and_in_the_end_empty() -> None:
    InteractiveShell.instance()
    bar = NotebookBar(Clock())
    with capture_output() as captured:
        bar(0.25, "case <b>x</b>")
        bar(0.5, "more")
        bar.close()
    first, second, last = [output.data for output in captured.outputs]
    assert first["text/plain"] == "case <b>x</b>"
    assert "&lt;b&gt;x&lt;/b&gt;" in first["text/html"]
    assert 'value="0.500"' in second["text/html"]
    assert last == {"text/plain": "", "text/html": ""}


def test_it_suits_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell.instance()
    before = list(shell.display_formatter.active_types)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    try:
        shell.display_formatter.active_types = ["text/plain"]
        assert progress.default_bar() is None
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert isinstance(progress.default_bar(), TerminalBar)
        monkeypatch.setattr(sys, "stderr", None)
        assert progress.default_bar() is None
        shell.display_formatter.active_types = ["text/plain", "text/html"]
        assert isinstance(progress.default_bar(), NotebookBar)
    finally:
        shell.display_formatter.active_types = before


def test_it_is_taken_away_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress, "default_bar", lambda: TerminalBar(terminal, Clock()))
    with pytest.raises(KeyboardInterrupt), progress.showing_progress(None) as tell:
        tell(0.5, "half")
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r" + " " * 27 + "\r")
