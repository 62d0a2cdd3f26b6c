"""Kernels and a namespace for the tests of graphs, on the dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope import dryrun


@pytest.fixture(scope="session")
def cuda() -> Any:
    from numba import cuda

    return cuda


@pytest.fixture(scope="session")
def step(cuda: Any) -> Any:
    @cuda.jit
    def step(a):
        a[0] += 1

    return step


@pytest.fixture(scope="session")
def scale(cuda: Any) -> Any:
    @cuda.jit
    def scale(a, factor, more):
        a[0] *= factor + more[0]

    return scale


@pytest.fixture
def array(cuda: Any) -> Any:
    return cuda.to_device(np.arange(4.0))


@pytest.fixture
def counted() -> Callable[[], tuple[int, int, int, int]]:
    """Return what was launched since the last call: launches, captured ones, graphs, kernels in graphs."""
    last = dryrun.counters()[:4]

    def since() -> tuple[int, int, int, int]:
        nonlocal last
        now = dryrun.counters()[:4]
        difference = tuple(a - b for a, b in zip(now, last, strict=True))
        last = now
        return difference  # type: ignore[return-value]

    return since


@pytest.fixture
def capturing() -> Callable[[], int]:
    """Captures that began and did not end since the test began."""
    def under_way() -> int:
        calls = dryrun.counters().calls
        return calls.get("cuStreamBeginCapture", 0) - calls.get("cuStreamEndCapture", 0)

    before = under_way()
    return lambda: under_way() - before


@pytest.fixture(autouse=True)
def captures_are_left_alone(no_garbage: None) -> None:
    """Nothing that an earlier test has left is freed in the middle of a capture."""


@pytest.fixture
def recorded() -> Callable[..., Any]:
    """Run a cell's source in a namespace, and return the recording of it."""
    def run(source: str, names: dict[str, Any], **cell: Any) -> Any:
        recorder = kernelscope.record(gpu="none")
        with recorder:
            recorder.begin_cell(cell.pop("name", None), execution_count=cell.pop("number", 5), source=source)
            exec(source.replace("%%kernelscope -q\n", "\n"), names)
        return recorder.recording

    return run


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A what-if compares and times on the null driver too, as it does where there is a GPU."""
    monkeypatch.setattr("kernelscope.graphs.comparison.dryrun", SimpleNamespace(is_enabled=lambda: False))


@pytest.fixture
def nothing_is_left(cuda, capturing) -> Iterator[None]:
    """No hook of ours and no capture outlives a what-if."""
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import driver

    owners = (dispatcher.CUDADispatcher, driver.Context, driver.Stream, driver.Event, driver)
    before = [dict(vars(owner)) for owner in owners]
    yield
    for owner, was in zip(owners, before, strict=True):
        changed = {name for name, value in was.items() if callable(value) and vars(owner).get(name) is not value}
        assert not changed, f"{owner}: {changed}"
    assert capturing() == 0
