"""Launches made again, eagerly and as a graph: captured, compared and timed, and the arrays put back as they were."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kernelscope import clock
from kernelscope.errors import GraphError
from kernelscope.graphs.libraries import core, numba_module
from kernelscope.graphs.memory import Region, region_of
from kernelscope.graphs.result import Unequal, unequal
from kernelscope.graphs.snapshots import Snapshot, present, synchronize
from kernelscope.graphs.streams import core_stream
from kernelscope.graphs.watching import Step

_WARM_UPS = 2
_LEAST_SAMPLES = 5


@dataclass(frozen=True)
class Samples:
    """Times in nanoseconds; the n-th of all four belong together."""

    eager_host: list[float]
    graph_host: list[float]
    eager_gpu: list[float]
    graph_gpu: list[float]


class Captured:
    """The steps as an executable graph; `close` destroys it.

    Parameters
    ----------
    steps : sequence of Step
        In order.

    Attributes
    ----------
    graph : cuda.core.graph.Graph
        The graph.
    nodes : int
        How many nodes the steps became.
    capture_ns, instantiate_ns : int
        What making it cost the host.

    Raises
    ------
    GraphError
        A step cannot be captured; the message says which, and where it is. No capture is left open.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        begun = clock.now()
        builder = core().Device().create_graph_builder()
        try:
            builder.begin_building()
            step = steps[0]
            try:
                for step in steps:
                    function, args = step.onto(builder.stream)
                    function(*args)
                builder.end_building()
            except Exception as error:
                why = " ".join(str(error).split())
                raise GraphError(f"{step.name} at {step.where} cannot be captured: {why}") from error
            captured = clock.now()
            self.graph = builder.complete()
            self.instantiate_ns = clock.now() - captured
            self.capture_ns = captured - begun
            self.nodes = len(builder.graph_definition.nodes())
        finally:
            _close(builder)

    def close(self) -> None:
        """Destroy the graph."""
        self.graph.close()


def arrays_of(steps: Sequence[Step]) -> dict[Region, tuple[str, Any]]:
    """Return the memory of all arrays of the steps, with what to call each and the array; each once."""
    found: dict[Region, tuple[str, Any]] = {}
    for step in steps:
        for name, array in step.arrays:
            region = region_of(array)
            if region is not None and region.nbytes:
                found.setdefault(region, (name, array))
    return found


def run(steps: Sequence[Step]) -> None:
    """Make the steps as they were made."""
    for step in steps:
        step.function(*step.args)


def differences(after: Snapshot, arrays: Mapping[Region, str]) -> list[Unequal]:
    """Return the arrays whose memory differs now from the snapshot."""
    synchronize()
    found: list[Unequal] = []
    for region, name in arrays.items():
        dtype = region.dtype if region.contiguous else None
        eager, now = after.read(region.address, region.nbytes), present(region.address, region.nbytes)
        differs = unequal(name, eager, now, dtype)
        if differs is not None:
            found.append(differs)
    return found


def timed(steps: Sequence[Step], captured: Captured, before: Snapshot, samples: int, limit_s: float) -> Samples:
    """Time the steps and the graph in turn; before each, the arrays are as they were before the first.

    Parameters
    ----------
    steps : sequence of Step
        The eager way.
    captured : Captured
        The other.
    before : Snapshot
        Of the arrays before the steps.
    samples : int
        How many of each.
    limit_s : float
        After this many seconds no more are taken than 5.
    """
    calls = [(step.function, step.args) for step in steps]
    streams = [core_stream(handle) for handle in dict.fromkeys(step.stream for step in steps)]
    first = streams[0]
    graph = captured.graph

    def eager() -> None:
        for function, args in calls:
            function(*args)

    launched = functools.partial(graph.launch, first)  # no Python frame of ours is in the time of so short a call
    stopwatch = _Stopwatch(streams)
    taken = Samples([], [], [], [])
    begun = clock.now()
    with _no_garbage_collection():
        for place in range(-_WARM_UPS, samples):
            if place >= _LEAST_SAMPLES and clock.now() - begun > limit_s * 1e9:
                break
            # The host's time is taken without events around it: the launches after one find the GPU at work.
            for time, work, found in ((stopwatch.on_host, eager, taken.eager_host),
                                      (stopwatch.on_host, launched, taken.graph_host),
                                      (stopwatch.on_gpu, eager, taken.eager_gpu),
                                      (stopwatch.on_gpu, launched, taken.graph_gpu)):
                before.restore()
                spent = time(work, streams if work is eager else [first])
                if place >= 0:
                    found.append(spent)
    return taken


class _Stopwatch:
    """Times work on the host or, by events around it, on the GPU, which must be idle before; in nanoseconds."""

    def __init__(self, streams: Sequence[Any]) -> None:
        cuda = numba_module("api")
        self._start: Any = cuda.event()
        self._ends = {int(stream.handle): cuda.event() for stream in streams}

    def on_host(self, work: Callable[[], None], streams: Sequence[Any]) -> float:
        """Return how long `work` took on the host until it returned."""
        begun = clock.now()
        work()
        ended = clock.now()
        synchronize()
        return float(ended - begun)

    def on_gpu(self, work: Callable[[], None], streams: Sequence[Any]) -> float:
        """Return how long it was on the GPU from the beginning of `work` until all was done."""
        self._start.record(streams[0])
        work()
        ends = [self._ends[int(stream.handle)] for stream in streams]
        for stream, end in zip(streams, ends, strict=True):
            end.record(stream)
        synchronize()
        return max(float(self._start.elapsed_time(end)) for end in ends) * 1e6


def _close(builder: Any) -> None:
    """End a capture that is under way, after a Ctrl-C for instance; one that has become invalid ends with an error."""
    with suppress(Exception):  # cuda.core's CUDAError has no public name
        builder.close()


@contextmanager
def _no_garbage_collection() -> Generator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
