"""How far a study is: a line on a terminal, a bar in a notebook, nothing elsewhere; gone when it is over."""

from __future__ import annotations

import contextlib
import html
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Literal, TextIO

from kernelscope.views.base import clean, shorten, width_of

Progress = Callable[[float, str], None]
_BAR_WIDTH = 20
# A notebook gets a message for each change; between two batches there are some milliseconds.
_TERMINAL_S, _NOTEBOOK_S = 0.1, 0.4


@contextlib.contextmanager
def showing_progress(progress: Progress | Literal[False] | None) -> Generator[Progress]:
    """Yield the callable that is called with the progress.

    Parameters
    ----------
    progress : callable, False or None
        Called with the share that is done, 0 to 1, and a line of text; False: nothing is shown; None: what suits, a
        line on stderr where that is a terminal, a bar in a notebook, else nothing.
    """
    if progress is not None and progress is not False:
        yield progress
        return
    bar = None if progress is False else default_bar()
    if bar is None:
        yield lambda done, text: None
        return
    try:
        yield bar
    finally:
        bar.close()


def default_bar() -> TerminalBar | NotebookBar | None:
    """Return the bar for where this runs, None where nobody would see one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and "text/html" in getattr(shell.display_formatter, "active_types", ()):
        return NotebookBar()
    with contextlib.suppress(AttributeError, ValueError):  # no stderr, or a closed one
        if sys.stderr.isatty():
            return TerminalBar(sys.stderr)
    return None


class _Bar(ABC):
    """A progress bar that is not replaced more often than can be read.

    Parameters
    ----------
    clock : callable
        Seconds.
    every_s : float
        How often it is replaced.
    """

    def __init__(self, clock: Callable[[], float], every_s: float) -> None:
        self._clock = clock
        self._every_s = every_s
        self._next = 0.0

    def __call__(self, done: float, text: str) -> None:
        """Show how far it is."""
        now = self._clock()
        if now >= self._next:
            self._next = now + self._every_s
            self._show(min(max(done, 0.0), 1.0), clean(text))

    @abstractmethod
    def _show(self, done: float, text: str) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Take it away."""


class TerminalBar(_Bar):
    """A progress bar on one line of a terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock, _TERMINAL_S)
        self._stream = stream
        self._width = 0

    def _show(self, done: float, text: str) -> None:
        filled = round(_BAR_WIDTH * done)
        line = shorten(f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}", _columns(self._stream) - 1)
        self._write(line + " " * (self._width - width_of(line)))
        self._width = width_of(line)

    def close(self) -> None:
        """Take the line away."""
        if self._width:
            self._write(" " * self._width, "\r")
            self._width = 0

    def _write(self, line: str, end: str = "") -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone: the study goes on
            self._stream.write(f"\r{line}{end}")
            self._stream.flush()


class NotebookBar(_Bar):
    """A progress bar in the output of the running cell, which is empty in the end and in the saved notebook."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock, _NOTEBOOK_S)
        self._handle: Any = None

    def _show(self, done: float, text: str) -> None:
        markup = (f'<div style="font: 13px system-ui, sans-serif; opacity: .8"><progress max="1" '
                  f'value="{done:.3f}" style="width: 240px; vertical-align: middle"></progress> '
                  f"{html.escape(text)}</div>")
        self._display({"text/plain": text, "text/html": markup})

    def close(self) -> None:
        """Empty the output."""
        if self._handle is not None:
            self._display({"text/plain": "", "text/html": ""})
            self._handle = None

    def _display(self, bundle: dict[str, str]) -> None:
        with contextlib.suppress(Exception):  # what shows the progress must not end the study
            from IPython.display import DisplayHandle

            if self._handle is None:
                self._handle = DisplayHandle()
                self._handle.display(bundle, raw=True)
            else:
                self._handle.update(bundle, raw=True)


def _columns(stream: TextIO) -> int:
    try:
        known = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        known = 0
    # A terminal without a window, such as that of a job, says 0.
    return max(20, known) if known else 80
