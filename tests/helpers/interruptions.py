"""Signal handlers that raise at every line of the package that something runs, one run for each."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import kernelscope

_PACKAGE = str(Path(kernelscope.__file__).parent)

#: A file of the package, and a line of it.
Line = tuple[str, int]


class OutOfTime(Exception):
    """What a user's own signal handler raises; Ctrl-C raises `KeyboardInterrupt`."""


def lines_of(action: Callable[[], object]) -> list[Line]:
    """Run something; return the lines of the package that it has run, in the order in which they were first met.

    Those of finalizers are left out: Python itself drops what is raised there.
    """
    met: dict[Line, None] = {}

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            met[frame.f_code.co_filename, frame.f_lineno] = None
        return each

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        is_ours = frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_code.co_name != "__del__"
        return each if is_ours else None

    _traced(action, begin)
    return list(met)


def interrupted_at(line: Line, action: Callable[[], object], kind: int = signal.SIGINT) -> bool:
    """Run something, and have a signal come right before a line of it runs for the first time.

    Returns
    -------
    bool
        Whether what the signal's handler raises came out of it; False where the line was not run.
    """
    reached = False

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal reached
        if event == "line" and frame.f_lineno == line[1]:
            reached = True
            sys.settrace(None)
            signal.raise_signal(kind)
        return each

    try:
        _traced(action, lambda frame, event, argument: each if frame.f_code.co_filename == line[0] else None)
    except (KeyboardInterrupt, OutOfTime):
        return True
    assert not reached, f"what was raised at line {line[1]} of {line[0]} has gone"
    return False


def handlers() -> Iterator[None]:
    """For a fixture: SIGALRM raises `OutOfTime`, SIGINT `KeyboardInterrupt`."""
    def raises(*_: object) -> None:
        raise OutOfTime

    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, raises),
              signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _traced(action: Callable[[], object], trace: Callable[..., Any]) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
