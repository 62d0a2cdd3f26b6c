"""Call paths in C: asked for once, found again, and forgotten where there are too many."""

from __future__ import annotations

import sys
import weakref
from types import CodeType, FrameType
from typing import Any

import pytest

from kernelscope.native import core

Path = list[tuple[CodeType, int]]
OWN = 7


def thread_state(ask: Any) -> core.State:
    ring = core.Ring()
    ring.new_site = lambda code, offset: -1
    ring.new_stack = ask
    return core.State(ring, OWN)


def frames_of(frame: FrameType | None) -> list[CodeType]:
    found: list[CodeType] = []
    while frame is not None:
        found.append(frame.f_code)
        frame = frame.f_back
    return found


def test_a_path_is_asked_for_once() -> None:
    asked: list[Path] = []

    def ask(path: Path) -> int:
        asked.append(path)
        return len(asked)

    state = thread_state(ask)

    def deep(depth: int) -> int:
        if depth:
            return deep(depth - 1)
        found = state.here()
        codes = frames_of(sys._getframe())
        assert [code for code, _ in asked[found - 1]] == codes[:core.MOST_FRAMES]
        return found

    depths = (0, 1, 2, 5, 20, 100, 600, 601, 700)
    found = [[deep(depth) for depth in depths] for _ in range(20)]
    # CPython puts a call at one of two instructions until it has made up its mind.
    assert found[-1] == found[-2] == found[-3] and len(asked) <= 3 * len(depths)
    assert len(set(found[-1])) == 7 and len(set(found[-1][-3:])) == 1  # the innermost frames are the same


@pytest.mark.parametrize("answer", [-1, -5, 1 << 40])
def test_a_path_without_an_id_is_that_of_the_thread(answer: int) -> None:
    state = thread_state(lambda path: answer)
    assert {state.here() for _ in range(3)} == {OWN}


def test_what_asking_raises_comes_later_and_is_asked_again() -> None:
    asked: list[int] = []

    def ask(path: Path) -> int:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return 3

    state, found = thread_state(ask), []
    with pytest.raises(KeyboardInterrupt):
        found.extend(state.here() for _ in range(100))
    while len(found) < 200:
        found.append(state.here())
    assert set(found) <= {OWN, 3} and found[-1] == 3


def test_who_is_asked_may_come_here_again() -> None:
    depth = [0]

    def ask(path: Path) -> int:
        depth[0] += 1
        inner = state.here() if depth[0] < 20 else 100
        return inner + 1

    state = thread_state(ask)
    assert state.here() == 101 + 19


def test_code_that_is_thrown_away_is_let_go() -> None:
    """A million frames are kept; when there are more, all of them are forgotten, in the middle of which code runs."""
    asked: list[int] = []
    codes: list[weakref.ref[CodeType]] = []

    def ask(path: Path) -> int:
        asked.append(len(path))
        return 1

    state = thread_state(ask)

    def gone(_: Any) -> None:
        state.here()

    def deep(depth: int) -> None:
        if depth:
            return deep(depth - 1)
        for number in range(2_400):
            code = compile("here()", f"<{number}>", "exec")
            codes.append(weakref.ref(code, gone))
            exec(code, {"here": state.here})
        return None

    deep(500)
    assert codes[0]() is None and codes[-2]() is not None
    assert sum(asked) > 1 << 20 > sum(asked) // 3
