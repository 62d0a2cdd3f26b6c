"""How much work something is, counted: the same on any machine, whatever else it does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(work: Callable[[], Any]) -> int:
    """Return how many lines of Python run while `work` does, in this thread.

    What NumPy, pyarrow or other C does counts as the line that calls it: of work that is done in arrays, twice as many
    rows are as many lines.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
