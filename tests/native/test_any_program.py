"""Whatever a program launches, from wherever, is recorded as what it was: against a list of what began, in order."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from kernelscope.clock import FakeClock
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording

#: On each Python others are drawn.
EXAMPLES = 10
CONFIGURATIONS = [(1, 1), (2, 32), ((1, 2, 3), (4, 5))]
#: Of a launch within which others are made.
OUTER = 3, 64


@cuda.jit
def one(x):
    x[0] = 1


@cuda.jit
def two(x, y):
    x[0] = y


@cuda.jit
def three():
    pass


launch = st.tuples(st.just("launch"), st.integers(0, 2), st.integers(0, 2))
fail = st.tuples(st.just("fail"), st.sampled_from(["dispatch", "submit", "callback"]), st.integers(0, 2))
thread = st.tuples(st.just("thread"), st.lists(launch | fail, max_size=3))


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    steps = st.lists(inner, max_size=4)
    return (st.tuples(st.just("within"), st.integers(0, 2), steps) | st.tuples(st.just("recorder"), steps)
            | st.tuples(st.just("cell"), steps))


FLAT = st.lists(launch | fail | thread, max_size=30)
ANY = st.lists(st.recursive(launch | fail | thread, deeper, max_leaves=20), max_size=8)


@dataclass
class Made:
    """A launch that has begun: what a row says of it. `parent` is the number of the one around it."""

    kernel: str
    shape: Any
    thread: str
    cell: int | None
    parent: int | None = None
    error: str | None = None


class Program:
    """Runs steps while it records, and notes each launch when it begins."""

    def __init__(self, **options: Any) -> None:
        self.made: list[Made] = []
        #: The recordings, those of inner recorders first, each with the numbers of the first launch of it and of the
        #: first after it.
        self.recordings: list[tuple[Recording, int, int]] = []
        self.around: list[int] = []
        self.cells = 0
        array = cuda.to_device(np.zeros(8))
        self.kernels = [(one, (array,)), (two, (array, 2.0)), (three, ())]
        for kernel, arguments in self.kernels:
            kernel[1, 1](*arguments)  # compiled before
        self.recorder = Recorder(clock=FakeClock(1_000_000, tick_ns=1000), synchronize=False, gpu="none", **options)

    def record(self, steps: list[Any]) -> None:
        self.recorder.start()
        try:
            self.run(steps)
        finally:
            self.recordings.append((self.recorder.stop(), 0, len(self.made)))

    def run(self, steps: list[Any]) -> None:
        for kind, *arguments in steps:
            getattr(self, f"do_{kind}")(*arguments)

    def begin(self, kernel: Any, shape: Any, error: str | None = None) -> None:
        worker = threading.current_thread() is not threading.main_thread()
        self.made.append(Made(kernel.py_func.__name__, shape, "worker" if worker else "MainThread",
                              self.cells - 1 if self.cells else None,
                              self.around[-1] if self.around and not worker else None, error))

    def do_launch(self, number: int, configuration: int) -> None:
        kernel, arguments = self.kernels[number]
        self.begin(kernel, CONFIGURATIONS[configuration])
        kernel[CONFIGURATIONS[configuration]](*arguments)

    def do_fail(self, how: str, configuration: int) -> None:
        shape = (1, 2048) if how == "submit" else CONFIGURATIONS[configuration]
        self.begin(one if how == "dispatch" else three, shape,
                   {"dispatch": "ValueError", "submit": "CUDAError", "callback": "ZeroDivisionError"}[how])
        configured = three[shape]
        try:
            if how == "dispatch":
                one[shape](object())
            elif how == "callback":
                configured.pre_launch_callbacks.append(lambda *_: 1 / 0)
            with contextlib.suppress(Exception):
                configured()
        except ValueError:
            assert how == "dispatch"
        finally:
            configured.pre_launch_callbacks.clear()  # numba-cuda keeps configured kernels

    def do_within(self, number: int, steps: list[Any]) -> None:
        """Launch, and run the steps in the middle of it."""
        kernel, arguments = self.kernels[number]
        configured = kernel[OUTER]

        def callback(*_: Any) -> None:
            configured.pre_launch_callbacks.clear()  # a launch within is of the same object: numba-cuda keeps it
            self.run(steps)

        configured.pre_launch_callbacks.append(callback)
        self.begin(kernel, OUTER)
        self.around.append(len(self.made) - 1)
        configured(*arguments)
        self.around.pop()

    def do_thread(self, steps: list[Any]) -> None:
        worker = threading.Thread(target=self.run, args=(steps,), name="worker")
        worker.start()
        worker.join()

    def do_recorder(self, steps: list[Any]) -> None:
        recorder, first = Recorder(synchronize=False, gpu="none").start(), len(self.made)
        try:
            self.run(steps)
        finally:
            self.recordings.append((recorder.stop(), first, len(self.made)))

    def do_cell(self, steps: list[Any]) -> None:
        self.recorder.begin_cell("steps")
        self.cells += 1
        self.run(steps)

    def expected(self, first: int, end: int, kept: slice) -> list[Made]:
        """The launches from one number on, but for those that were not kept; their parents are places among them."""
        numbers = [number for number in range(len(self.made))[kept] if first <= number < end]
        return [Made(**{**vars(self.made[number]),
                        "parent": numbers.index(parent) if parent in numbers else None})
                for number in numbers for parent in [self.made[number].parent]]


def found(recording: Recording) -> list[Made]:
    names, shapes = recording.rows("dispatchers"), recording.rows("configurations")
    threads = recording.rows("threads")
    return [Made(names[row["dispatcher_id"]]["name"], shapes[row["configuration_id"]],
                 threads[row["thread_id"]]["name"], row["cell_id"], row["parent_launch_id"], row["error"])
            for row in recording.rows("launches")]


def dimensions(shape: Any) -> list[int]:
    return [count for each in shape for count in (*(each if isinstance(each, tuple) else (each,)), 1, 1)[:3]]


def check(program: Program, kept: slice = slice(None), parts: slice = slice(None)) -> None:
    for recording, first, end in program.recordings[parts]:
        rows, wanted = found(recording), program.expected(first, end, kept)
        outermost = recording is program.recordings[-1][0]
        for row, made in zip(rows, wanted, strict=True):
            row.shape = [row.shape[f"{name}_{axis}"] for name in ("griddim", "blockdim") for axis in "xyz"]
            made.shape = dimensions(made.shape)
            if not outermost:  # it has no cells
                made.cell = None
        assert rows == wanted
        times = recording.launches[["start_ns", "end_ns"]].to_numpy()
        assert (times[:, 0] < times[:, 1]).all() and (np.diff(times[:, 0]) > 0).all()
        assert recording.health.errors.isna().all()


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(ANY, st.sampled_from(["phases", "launch"]))
def test_whatever_is_launched(steps: list[Any], detail: str) -> None:
    program = Program(detail=detail)
    program.record(steps)
    check(program)


@settings(max_examples=EXAMPLES, deadline=None)
@given(FLAT, st.sampled_from(["ring", "stop"]), st.integers(1, 12))
def test_with_little_room(steps: list[Any], mode: str, capacity: int) -> None:
    program = Program(mode=mode, capacity=capacity)
    program.record(steps)
    check(program, slice(-capacity, None) if mode == "ring" else slice(capacity))
    recording, _, made = program.recordings[-1]
    assert recording.metadata["recorder"]["lost"] == max(made - capacity, 0)


@settings(max_examples=EXAMPLES, deadline=None)
@given(ANY, st.integers(1, 12))
def test_the_first_ones_of_nested_launches(steps: list[Any], capacity: int) -> None:
    program = Program(mode="stop", capacity=capacity)
    program.record(steps)
    check(program, slice(capacity), slice(-1, None))
