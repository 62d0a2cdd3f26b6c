"""The recorder with nothing of Python's around it: a ring, its threads' states, and what they have written."""

from __future__ import annotations

import gc
import sys
import threading
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from kernelscope import native


class Launches:
    """A ring with a state for each thread that comes, and hooks that write to it."""

    def __init__(self, **options: Any) -> None:
        self.core: Any = native.core
        self.ring = self.core.Ring(**options)
        self.states: dict[int, Any] = {}
        self.ring.new_state = self.state

    def state(self) -> Any:
        """The calling thread's state."""
        ident = threading.get_ident()
        if ident not in self.states:
            self.states[ident] = self.core.State(self.ring, len(self.states))
        return self.states[ident]

    def hook(self, kind: str, original: Callable[..., Any], begin: Any = None, end: Any = None,
             tools: tuple[Any, ...] = ()) -> Any:
        return self.core.Hook(kind, original, self.ring, begin, end, 64, tools)

    def counts(self) -> tuple[int, int, int]:
        """Launches that have ended, that are under way, that were voided."""
        return self.ring.counts(0)[:3]

    def rows(self) -> list[dict[str, int]]:
        """The launches that have ended, in order of their beginnings."""
        columns = {name: array("q" if name.endswith("_ns") else "i", bytes(column))
                   for name, column in self.ring.columns(0).items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def ids(self) -> list[tuple[int, int]]:
        """Target and configuration of each of them."""
        return [(row["target"], row["configuration"]) for row in self.rows()]


def made(**options: Any) -> Launches:
    """Return `Launches`."""
    return Launches(**options)


def stays(counted: list[Any], call: Callable[[], Any]) -> None:
    """Check that a call, made often, leaves no reference behind."""
    for _ in range(70):
        call()
    gc.collect()
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(500):
        call()
    gc.collect()
    for each, count in zip(counted, before, strict=True):
        assert abs(sys.getrefcount(each) - count) < 100, each


def failing(call: Callable[[], Any]) -> Callable[[], None]:
    """Return what makes a call that raises."""

    def run() -> None:
        with pytest.raises(BaseException):  # noqa: B017
            call()

    return run
