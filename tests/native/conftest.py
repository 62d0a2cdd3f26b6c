"""The extension module, and hooks on functions as the launch path has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from kernelscope import native


@pytest.fixture
def core() -> ModuleType:
    """The extension module."""
    return native.core


class Launches:
    """A ring, and hooks on functions that write to it.

    Attributes
    ----------
    begin, end : callable
        What hooks ask; tests put in others.
    state : State
        Of the thread that has asked last.
    """

    def __init__(self, core: Any, mode: str = "grow", capacity: int = 0, clock: Any = None) -> None:
        self.core = core
        self.ring = core.Ring(mode=mode, capacity=capacity, clock=clock)
        self.begin: Callable[..., Any] = lambda dispatcher, config: (1, 2)
        self.end: Callable[..., Any] = lambda dispatcher, kernel, config, arguments, error: (3, 1)
        self.hooks: list[Any] = []
        self.states = threading.local()
        self.new_state: Callable[[], Any] = lambda: core.State(self.ring, 0)
        self.ring.new_state = self.state_of_thread

    def state_of_thread(self) -> Any:
        """The calling thread's state."""
        if not hasattr(self.states, "state"):
            self.states.state = self.new_state()
        return self.states.state

    def hook(self, function: Callable[..., Any], kind: str = "call", *, takes: bool = True) -> Callable[..., Any]:
        """Hook a function; return what its callers call: the function itself where CPython lets it."""
        hook = self.core.Hook(kind, function, self.ring, lambda *arguments: self.begin(*arguments),
                              lambda *arguments: self.end(*arguments))
        self.hooks.append(hook)
        if takes and self.core.TAKES_FUNCTIONS and hasattr(function, "__code__"):
            hook.take()
            return function
        return hook

    def rows(self) -> list[dict[str, int]]:
        """The launches that have ended."""
        import numpy as np

        columns = {name: np.frombuffer(column, np.int64 if name.endswith("_ns") or name == "number" else np.int32)
                   for name, column in self.ring.columns(0).items()}
        return [dict(zip(columns, map(int, values), strict=True)) for values in zip(*columns.values(), strict=True)]

    def close(self) -> None:
        """Give the functions back."""
        for hook in self.hooks:
            hook.give_back()
            hook.forget()


@pytest.fixture
def make(core: ModuleType) -> Iterator[Callable[..., Launches]]:
    """Make rings with hooks; the functions are given back."""
    made: list[Launches] = []

    def one(**arguments: Any) -> Launches:
        made.append(Launches(core, **arguments))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def launches(make: Callable[..., Launches]) -> Launches:
    """A ring that grows, and hooks."""
    return make()
