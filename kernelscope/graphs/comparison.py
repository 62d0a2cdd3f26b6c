"""What if these launches were a graph: run them again, capture them, replay them, and compare."""

from __future__ import annotations

import functools
import gc
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

import __main__
from kernelscope import clock, dryrun
from kernelscope.analysis.advice import plain_loop
from kernelscope.errors import GraphError
from kernelscope.graphs.cell_source import prepared
from kernelscope.graphs.memory import Region, core, driver, numba_module, region_of, require_cuda
from kernelscope.graphs.streams import core_stream
from kernelscope.graphs.watching import Obstacle, Step, Watch
from kernelscope.recorder.session import Session
from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.units import counted, duration, listed, size
from kernelscope.views.base import clean, escape, shorten
from kernelscope.views.html import style, style_element, table_of, two

if TYPE_CHECKING:
    import pandas as pd

    from kernelscope.recording.model import Recording


_CAPTURING = "; a stream is in the middle of capturing a graph, which must end before"

@dataclass(frozen=True)
class _Piece:
    start: int
    nbytes: int
    copy: int

    @property
    def end(self) -> int:
        return self.start + self.nbytes


class Snapshot:
    """The contents of some device memory at one time. As a context manager it frees its copies.

    Arrays may overlap: every byte is copied once, when it is first covered.
    """

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []

    @property
    def nbytes(self) -> int:
        """Return the bytes that the snapshot holds."""
        return sum(each.nbytes for each in self._pieces)

    def cover(self, start: int, nbytes: int) -> None:
        """Copy what is in this memory now, except what was covered before. It waits for the device.

        Raises
        ------
        GraphError
            There is no room on the device, or the memory cannot be read.
        """
        missing: list[tuple[int, int]] = []
        place, end = start, start + nbytes
        for piece in self._pieces:
            if piece.end <= place or piece.start >= end:
                continue
            if piece.start > place:
                missing.append((place, piece.start))
            place = max(place, piece.end)
        if place < end:
            missing.append((place, end))
        for first, last in missing:
            self._pieces.append(_copied(first, last - first))
        self._pieces.sort(key=lambda piece: piece.start)

    def again(self) -> Snapshot:
        """Return a snapshot of the same memory as it is now."""
        with ExitStack() as stack:
            snapshot = stack.enter_context(Snapshot())
            for piece in self._pieces:
                snapshot.cover(piece.start, piece.nbytes)
            stack.pop_all()
        return snapshot

    def restore(self) -> None:
        """Put the contents back. It waits for the device before and after."""
        synchronize()
        for piece in self._pieces:
            _do("cuMemcpyDtoD", piece.start, piece.copy, piece.nbytes)
        synchronize()

    def read(self, start: int, nbytes: int) -> np.ndarray:
        """Return bytes of the snapshot, as an array of uint8; all of them must have been covered."""
        found = np.empty(nbytes, np.uint8)
        place = start
        first = bisect_right([piece.start for piece in self._pieces], start) - 1
        for piece in self._pieces[max(first, 0):]:
            if place >= start + nbytes:
                break
            last = min(piece.end, start + nbytes)
            _read(found[place - start:last - start], piece.copy + place - piece.start)
            place = last
        return found

    def free(self) -> None:
        """Free the copies."""
        while self._pieces:
            _do("cuMemFree", self._pieces.pop().copy)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.free()


def present(start: int, nbytes: int) -> np.ndarray:
    """Return what is in device memory now, as an array of uint8."""
    found = np.empty(nbytes, np.uint8)
    _read(found, start)
    return found


def synchronize() -> None:
    """Wait for the device."""
    _do("cuCtxSynchronize")


def _copied(start: int, nbytes: int) -> _Piece:
    synchronize()
    error, copy = driver().cuMemAlloc(nbytes)
    if error:
        raise GraphError(f"no room on the device for a copy of {size(nbytes)} of its arrays ({error.name}), which "
                         "comparing results needs: try it with smaller arrays")
    piece = _Piece(start, nbytes, int(copy))
    try:
        _do("cuMemcpyDtoD", piece.copy, piece.start, nbytes)
    except BaseException:
        _do("cuMemFree", piece.copy)
        raise
    synchronize()
    return piece


def _read(into: np.ndarray, start: int) -> None:
    if into.size:
        _do("cuMemcpyDtoH", into.ctypes.data, start, into.size)


def _do(name: str, *args: Any) -> None:
    """Call the driver, past numba's layer and its hooks."""
    error = getattr(driver(), name)(*args)[0]
    if error:
        capturing = _CAPTURING if error.name.startswith("CUDA_ERROR_STREAM_CAPTURE") else ""
        raise GraphError(f"{name}: {error.name}{capturing}")


# The result of a what-if, as data.

_RESAMPLES = 2000
_SHARE = (2.5, 97.5)


@dataclass(frozen=True)
class Timing:
    """A median and its bootstrap interval.

    Attributes
    ----------
    median_ns : float
        In nanoseconds.
    low_ns, high_ns : float
        The ends of its bootstrap interval of 95 %.
    """

    median_ns: float
    low_ns: float
    high_ns: float

    @property
    def covers_zero(self) -> bool:
        """Return whether the interval covers zero; for a difference this means that no difference is seen."""
        return self.low_ns <= 0 <= self.high_ns


@dataclass(frozen=True)
class Comparison:
    """Eager launches against a graph of them, by one kind of time.

    Attributes
    ----------
    eager, graph : Timing
        Of all launches together, and of one launch of the graph.
    saved : Timing
        Eager minus graph.
    """

    eager: Timing
    graph: Timing
    saved: Timing


@dataclass(frozen=True)
class Unequal:
    """An array that the graph left with other contents than the eager launches.

    Attributes
    ----------
    name : str
        The array's variable where it has one, and which argument of which kernel it is.
    differing, elements : int
        How many of its elements differ, of how many.
    largest : float or None
        The largest difference; None where the elements are no numbers, or not finite.
    """

    name: str
    differing: int
    elements: int
    largest: float | None


@dataclass(frozen=True)
class WhatIf:
    """What launches cost eagerly, and what they would cost as a graph. Displaying it shows a card.

    A dry run has no kernels' times and results: there it says what was captured, and all that needs a GPU is None.

    Attributes
    ----------
    label : str
        What was run: a cell, or a function.
    rounds : int or None
        How many times the cell made these launches one after another, where they are one round of a loop; None where
        they are all that was run.
    launches, copies : int
        Kernel launches, and copies and fills on the device between them.
    nodes : int
        Nodes of the graph that was captured from them.
    kernels : tuple of str
        The kernels, by name.
    streams : int
        How many streams they went to; the graph has them in one order.
    samples : int
        How many times each way was timed; 0 in a dry run.
    host : Comparison or None
        From the first launch's call to the last one's return; of the graph, one call.
    gpu : Comparison or None
        From the first launch's beginning to the last one's end, by CUDA events.
    unequal : tuple of Unequal
        Arrays whose contents differ; empty where the results are equal.
    eager_repeats : bool
        Whether running the eager launches a second time gave the same results; True where nothing differs.
    arrays, compared_bytes : int
        How many device arrays the launches got, and their memory together.
    capture_ns, instantiate_ns : int or None
        What it cost the host once to capture the graph and to instantiate it.
    left_out : tuple of str
        What the code did before its first launch and after its last, or outside of the round: it is in neither time.
    notes : tuple of str
        What else limits what was found.
    run_again : str
        What was run, how often and where; empty for nothing.
    is_dry_run : bool
        Whether there was no GPU.
    """

    label: str
    rounds: int | None
    launches: int
    copies: int
    nodes: int
    kernels: tuple[str, ...]
    streams: int
    samples: int
    host: Comparison | None
    gpu: Comparison | None
    unequal: tuple[Unequal, ...]
    eager_repeats: bool
    arrays: int
    compared_bytes: int
    capture_ns: int | None
    instantiate_ns: int | None
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    run_again: str
    is_dry_run: bool

    @property
    def equal(self) -> bool | None:
        """Return whether all arrays have the same contents, bit for bit, after the graph as after the eager launches.

        None where nothing was compared: in a dry run, and where the launches got no device array.
        """
        return None if self.is_dry_run or not self.arrays else not self.unequal

    @property
    def replays_to_pay_off(self) -> int | None:
        """Return after how many launches the graph breaks even; None if it saves no host time."""
        if self.host is None or self.host.saved.low_ns <= 0:
            return None
        return int(np.ceil(((self.capture_ns or 0) + (self.instantiate_ns or 0)) / self.host.saved.median_ns))

    @property
    def times(self) -> list[tuple[str, str, Comparison]]:
        """Return what was timed: its name, its span, and both ways; empty in a dry run."""
        named = (("host", "call to return", self.host), ("GPU", "first to last", self.gpu))
        return [(name, of, compared) for name, of, compared in named if compared is not None]

    def to_frame(self) -> pd.DataFrame:
        """Return the times as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            Columns ``time`` (host, gpu), ``way`` (eager, graph, saved), ``median_ns``, ``low_ns`` and ``high_ns``: a
            median and its bootstrap interval of 95 %. It is empty in a dry run.
        """
        import pandas as pd

        rows = [(time.lower(), way, timing.median_ns, timing.low_ns, timing.high_ns)
                for time, _, compared in self.times
                for way, timing in (("eager", compared.eager), ("graph", compared.graph), ("saved", compared.saved))]
        return pd.DataFrame(rows, columns=["time", "way", "median_ns", "low_ns", "high_ns"])

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card(self)


def compare(eager: Sequence[float], graph: Sequence[float]) -> Comparison:
    """Return medians of both and of their difference, with bootstrap intervals.

    Parameters
    ----------
    eager, graph : sequence of float
        Samples in nanoseconds, taken in turn: the n-th of both belong together, so that what slows both down for a
        while does not count as a difference.
    """
    first, second = np.asarray(eager, float), np.asarray(graph, float)
    chosen = np.random.default_rng(0).integers(0, len(first), (_RESAMPLES, len(first)))

    def timing(samples: np.ndarray) -> Timing:
        low, high = np.percentile(np.median(samples[chosen], axis=1), _SHARE)
        return Timing(float(np.median(samples)), float(low), float(high))

    return Comparison(timing(first), timing(second), timing(first - second))


def unequal(name: str, eager: np.ndarray, graph: np.ndarray, dtype: np.dtype | None) -> Unequal | None:
    """Compare an array's bytes after the eager launches and after the graph; None where they are equal.

    Parameters
    ----------
    name : str
        What to call it.
    eager, graph : numpy.ndarray of uint8
        The bytes.
    dtype : numpy.dtype or None
        The elements' dtype, where the bytes are whole elements.
    """
    if np.array_equal(eager, graph):
        return None
    if dtype is None or dtype.itemsize == 0 or len(eager) % dtype.itemsize:
        dtype = np.dtype(np.uint8)
    differing = (eager.reshape(-1, dtype.itemsize) != graph.reshape(-1, dtype.itemsize)).any(axis=1)
    largest = None
    if dtype.kind in "fiu":
        first, second = eager.view(dtype)[differing], graph.view(dtype)[differing]
        with np.errstate(all="ignore"):
            gap = float(np.abs(first.astype(float) - second.astype(float)).max())
        largest = gap if np.isfinite(gap) else None
    return Unequal(name, int(differing.sum()), len(differing), largest)


# A what-if as text and as a card.

_MOST_LISTED = 5
_NAME_WIDTH = 60
# Four columns of two short words fit where the card's own tables would scroll.
_STYLE = """
.kscope .ks-whatif table.ks-table :is(th, td) { white-space: normal; }
"""
NOTICE = f"{DRY_RUN_NOTICE}: there are no times and no results to compare"


def text(result: WhatIf) -> str:
    """Return the result as lines of text."""
    times = [(name, _interval(compared.eager), _interval(compared.graph), _difference(compared))
             for name, _, compared in result.times]
    rows = [("", "eager", "as a graph", "difference"), *times] if times else []
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(4)]
    table = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    notice = [f"*** {NOTICE} ***"] if result.is_dry_run else []
    return "\n".join([title(result), *notice, *table, *(f"  {each}" for each in messages(result))])


def card(result: WhatIf) -> str:
    """Return the result as a self-contained fragment of HTML, for notebooks."""
    notice = f'<div class="ks-notice">{escape(NOTICE)}</div>' if result.is_dry_run else ""
    columns = [("", "", ""), ("", "eager", "median, interval"), ("", "as a graph", "median, interval"),
               ("", "difference", "")]
    body = [_card_row(*timed) for timed in result.times]
    table = table_of(columns, body) if body else ""
    said = "".join(f"<li>{escape(each)}</li>" for each in messages(result))
    head = f'<div class="ks-top"><span class="ks-title">{escape(title(result))}</span></div>{notice}'
    return (f'{style_element(style(), _STYLE)}<div class="kscope"><div class="ks-whatif">{head}'
            f'{table}<ul class="ks-list">{said}</ul></div></div>')


def title(result: WhatIf) -> str:
    """Return what was compared."""
    work = counted(result.launches, "launch", "launches")
    copies = f", and {counted(result.copies, 'device copy', 'device copies')}" if result.copies else ""
    kernels = listed([shorten(clean(name), _NAME_WIDTH) for name in result.kernels], _MOST_LISTED)
    what = clean(result.label) if result.rounds is None else f"a round of {clean(result.label)}"
    return f"What if {what} were a graph: {work} of {kernels}{copies}"


def messages(result: WhatIf) -> list[str]:
    """Return the lines below the times: results, what was left out, and limits."""
    said = _captured(result) if result.is_dry_run else _compared(result)
    if result.rounds is not None:
        made = f"{clean(result.label)} made {result.rounds:,} such rounds one after another."
        said.append(made[:1].upper() + made[1:])
    if result.streams > 1:
        said.append(f"The launches went to {result.streams} streams. The graph has them one after the other: what "
                    "could overlap does not.")
    if result.left_out:
        where = "outside of the round" if result.rounds is not None else "before the first launch or after the last"
        said.append(f"Left out, because it comes {where}: {', '.join(clean(each) for each in result.left_out)}.")
    said += [clean(each) for each in result.notes]
    if result.samples:
        said.append(f"Medians of {result.samples} samples, taken in turn, with bootstrap intervals of 95 %.")
    if result.run_again:
        said.append(clean(result.run_again))
    return said


def _captured(result: WhatIf) -> list[str]:
    """Return what a dry run shows of a captured graph."""
    on = f", on {counted(result.arrays, 'array')} of {size(result.compared_bytes)}" if result.arrays else ""
    return [f"Captured and instantiated: {counted(result.nodes, 'node')}{on}.",
            "What the graph would save, and whether it gives the same results, takes a GPU to tell."]


def _compared(result: WhatIf) -> list[str]:
    said = [_equality(result)]
    if result.unequal:
        said += [_unequal(each) for each in result.unequal[:_MOST_LISTED]]
        if len(result.unequal) > _MOST_LISTED:
            said.append(f"and {counted(len(result.unequal) - _MOST_LISTED, 'more array')}")
    made = (f"Capturing the graph took {duration(result.capture_ns)}, and instantiating it "
            f"{duration(result.instantiate_ns)}")
    replays = result.replays_to_pay_off
    if replays is None:
        return [*said, f"{made}; no host time is saved that would pay for it."]
    return [*said, f"{made}: it breaks even after {counted(replays, 'launch', 'launches')} of the graph."]


def _card_row(name: str, of: str, compared: Comparison) -> str:
    """Return a row of the card's table; the second line of its cells is small."""
    saved, _, faster = _difference(compared).partition(", ")
    times = "".join(two(duration(each.median_ns), f"{duration(each.low_ns)} to {duration(each.high_ns)}")
                    for each in (compared.eager, compared.graph))
    return f'<td class="ks-left">{escape(name)} <small>{escape(of)}</small></td>{times}{two(saved, faster)}'


def _interval(timing: Timing) -> str:
    return f"{duration(timing.median_ns)} ({duration(timing.low_ns)} to {duration(timing.high_ns)})"


def _difference(compared: Comparison) -> str:
    if compared.saved.covers_zero:
        return "no difference seen"
    slower, faster = compared.eager.median_ns, compared.graph.median_ns
    if compared.saved.median_ns < 0:
        return f"{duration(-compared.saved.median_ns)} longer as a graph"
    times = f", {slower / faster:.1f} times faster" if faster > 0 else ""
    return f"{duration(compared.saved.median_ns)} saved{times}"


def _equality(result: WhatIf) -> str:
    if result.equal is None:
        return "Results were not compared: the launches got no device array."
    what = f"{counted(result.arrays, 'array')}, {size(result.compared_bytes)}"
    if result.equal:
        return f"Results are equal bit for bit ({what})."
    why = "" if result.eager_repeats else (" Running the launches eagerly a second time gave other results too, so "
                                           "that the graph need not be the reason.")
    return f"Results are NOT equal: {len(result.unequal)} of {what}.{why}"


def _unequal(each: Unequal) -> str:
    gap = "" if each.largest is None else f", by at most {each.largest:.3g}"
    return f"{clean(each.name)}: {each.differing:,} of {counted(each.elements, 'element')} differ{gap}"


# Launches made again, eagerly and as a graph.

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


def timed(steps: Sequence[Step], captured: Captured, before: Snapshot, samples: int) -> Samples:
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
        How many of each; after `LIMIT_S` seconds no more are taken than 5.
    """
    calls = [(step.function, step.args) for step in steps]
    streams = [core_stream(handle) for handle in dict.fromkeys(step.stream for step in steps)]
    first = streams[0]
    graph = captured.graph

    def eager() -> None:
        for function, args in calls:
            function(*args)

    launched = functools.partial(graph.launch, first)  # no Python frame is added to the time of so short a call
    stopwatch = _Stopwatch(streams)
    taken = Samples([], [], [], [])
    begun = clock.now()
    with _no_garbage_collection():
        for place in range(-_WARM_UPS, samples):
            if place >= _LEAST_SAMPLES and clock.now() - begun > LIMIT_S * 1e9:
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
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# What if these launches were a graph: run them again, capture them, replay them, and compare.
#
# Of a recorded cell that is plainly a loop the launches are those of one round, as the advice on the cell has it.
# In a dry run they are captured, and nothing is replayed or compared: no kernel executes there.

#: How many samples each way is timed with, and after how many seconds it must do with fewer.
SAMPLES = 50
LIMIT_S = 10.0
_MOST_NAMED = 3


def whatif(function: Callable[[], Any], *, samples: int = SAMPLES, name: str | None = None) -> WhatIf:
    """Compare the launches that a function makes with one graph of them, those of a loop too.

    The function is called once. Its launches of numba kernels are then repeated by themselves, eagerly and as a graph
    that is captured from them; before each repetition the device arrays that they got are put back to what they were.
    In the end those arrays are as after the one call.

    Parameters
    ----------
    function : callable
        Called without arguments.
    samples : int
        How many times each way is timed, at least 5.
    name : str, optional
        What to call it.

    Returns
    -------
    WhatIf
        Host time, GPU time, and whether the results are equal; in a dry run what was captured.

    Raises
    ------
    GraphError
        It launched nothing, or did something between launches that a graph cannot hold: an allocation, a copy from or
        to the host, waiting for the device. What the function raises passes.
    """
    called = name or str(getattr(function, "__qualname__", repr(function))).rpartition("<locals>.")[2]
    return _measured(function, called, None, None, samples, f"{called} was called once.")


def from_recording(recording: Recording, cell: int | str | None = None, namespace: dict[str, Any] | None = None, *,
                   samples: int = SAMPLES, tell: Callable[[str], None] = print) -> WhatIf:
    """Run a recorded cell's source again, and compare its launches with one graph of them, or a round of its loop.

    Where the cell makes the same launches again and again (20 rounds or more of 2 to 32 launches one after another, as
    the advice on it says), the graph is one of these rounds: the first in which nothing happens that a graph cannot
    hold. Otherwise it is all launches of the cell.

    The source runs once more, in the given namespace, and what it does to variables, files and arrays happens again.
    Then as `whatif`. It is the source that the recording has: use it with recordings that you trust only.

    Parameters
    ----------
    recording : Recording
        Where the cell is.
    cell : int or str, optional
        Its execution count or name; the recording's last cell without one.
    namespace : dict, optional
        The globals to run it in. The notebook's own without one, or those of ``__main__`` outside of IPython.
    samples : int
        How many times each way is timed, at least 5.
    tell : callable
        Called with a line that says what is going to be run.

    Returns
    -------
    WhatIf
        Host time, GPU time, and whether the results are equal; in a dry run what was captured.

    Raises
    ------
    UnknownCellError
        There is no such cell.
    GraphError
        The recording does not have its source; it is not Python alone; it launched kernels of other frameworks; or as
        `whatif`. What the source raises passes.
    """
    names, where = _namespace() if namespace is None else (namespace, "the namespace given")
    source = prepared(recording, cell)
    tell(f"kernelscope: {source.label} is run again, in {where}: what it does to variables, files and arrays happens "
         "again")

    def again() -> None:
        builtins = "__builtins__" in names
        try:
            exec(source.code, names)
        finally:
            if not builtins:
                names.pop("__builtins__", None)

    label = source.label[:1].upper() + source.label[1:]
    said = f"{label} was run again once, in {where}; its arrays are as after that run."
    return _measured(again, source.label, source.code.co_filename, names, samples, said, is_cell=True)


def _measured(function: Callable[[], Any], label: str, filename: str | None, names: Mapping[str, Any] | None,
              samples: int, run_again: str, *, is_cell: bool = False) -> WhatIf:
    if samples < 5:
        raise GraphError(f"samples is {samples}, and must be 5 or more")
    require_cuda()
    numba_module("api").current_context()
    with Snapshot() as before:

        def cover(arrays: tuple[tuple[str, Any], ...]) -> None:
            for _, array in arrays:
                region = region_of(array)
                if region is not None and region.nbytes:
                    before.cover(region.address, region.nbytes)

        with Watch(cover, filename) as watch:
            function()
        part = _part_of(watch, label, is_cell)
        steps = part.steps
        arrays = {region: _called(name, array, names) for region, (name, array) in arrays_of(steps).items()}
        with before.again() as after:
            captured = Captured(steps)
            try:
                found = None if dryrun.is_enabled() else _compare(part, captured, before, after, arrays, samples)
            finally:
                synchronize()
                captured.close()
                after.restore()
    launches = [step for step in steps if step.dispatcher is not None]
    taken = None if found is None else found.samples
    return WhatIf(
        label=label, rounds=part.rounds, launches=len(launches), copies=len(steps) - len(launches),
        nodes=captured.nodes, kernels=tuple(dict.fromkeys(step.name for step in launches)),
        streams=len({step.stream for step in steps}), samples=0 if taken is None else len(taken.eager_host),
        host=None if taken is None else compare(taken.eager_host, taken.graph_host),
        gpu=None if taken is None else compare(taken.eager_gpu, taken.graph_gpu),
        unequal=() if found is None else found.unequal, eager_repeats=found is None or found.repeats,
        arrays=len(arrays), compared_bytes=_bytes(arrays), capture_ns=None if found is None else captured.capture_ns,
        instantiate_ns=None if found is None else captured.instantiate_ns, left_out=part.left_out,
        notes=_notes(watch, part), run_again=run_again, is_dry_run=found is None)


@dataclass(frozen=True)
class _Part:
    """The steps that are compared: all, or one of several rounds. `others` are launches in none of these rounds."""

    steps: list[Step]
    rounds: int | None
    others: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    unequal: tuple[Unequal, ...]
    repeats: bool
    samples: Samples


def _compare(part: _Part, captured: Captured, before: Snapshot, after: Snapshot, arrays: Mapping[Region, str],
              samples: int) -> _Found:
    """Launch the graph, compare the arrays with what the same steps leave eagerly, and time both."""
    steps = part.steps
    with ExitStack() as stack:
        if part.rounds is not None:
            # What all rounds left is not what one leaves.
            before.restore()
            run(steps)
            synchronize()
            after = stack.enter_context(Snapshot())
            for region in arrays:
                after.cover(region.address, region.nbytes)
        before.restore()
        captured.graph.launch(core_stream(steps[0].stream))
        unequal = differences(after, arrays)
        repeats = True
        if unequal:
            before.restore()
            run(steps)
            repeats = not differences(after, arrays)
        return _Found(tuple(unequal), repeats, timed(steps, captured, before, samples))


def _part_of(watch: Watch, label: str, is_cell: bool) -> _Part:
    """Return the part that is compared; raise `GraphError` where it cannot be a graph."""
    steps = watch.steps
    if watch.problem is not None:
        raise watch.problem
    launches = [place for place, step in enumerate(steps) if step.dispatcher is not None]
    if not launches:
        raise GraphError(f"{label} launched no kernel of numba-cuda in this thread, so that there is nothing to "
                         "capture")
    everywhere = [each for each in watch.obstacles if each.steps_before is None]
    if everywhere:
        _refuse(label, everywhere)
    placed = [each for each in watch.obstacles if each.steps_before is not None]
    loop = plain_loop(_keys([steps[place] for place in launches])) if is_cell else None
    if loop is None:
        first, last, rounds, others = 0, len(steps), None, 0
    else:
        begin, size, rounds = loop
        others = len(launches) - size * rounds
        ends = [*launches, launches[-1] + 1]
        before = [each.steps_before or 0 for each in placed]
        parts = [(ends[at], ends[at + size]) for at in range(begin, begin + size * (rounds - 1) + 1)]
        first, last = next((part for part in parts if not _inside(before, *part)), parts[0])
    inside = [each for each in placed if first < (each.steps_before or 0) < last]
    if inside:
        _refuse(label if rounds is None else f"a round of {label}", inside)
    calls = (f"{each.call} at {each.where}" for each in placed)
    return _Part(steps[first:last], rounds, others, tuple(dict.fromkeys(calls)))


def _keys(steps: Sequence[Step]) -> np.ndarray:
    """Return a number for each launch, equal for equal ones."""
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(step.key, len(numbers)) for step in steps], dtype=np.int64)


def _inside(places: Sequence[int], first: int, last: int) -> bool:
    """Return whether any of the places, which are in order, is between two others."""
    at = bisect_right(places, first)
    return at < len(places) and places[at] < last


def _refuse(what: str, found: Sequence[Obstacle]) -> None:
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for each in found:
        reasons.setdefault((each.call, each.where), {})[each.what] = None
    said = [f"{call} at {where} {' and '.join(whats)}" for (call, where), whats in reasons.items()]
    hint = "" if found[0].steps_before is None else "; that must come before the first launch or after the last"
    raise GraphError(f"{what} cannot be a graph as it is: {listed(said, _MOST_NAMED, between='; ')}{hint}")


def _notes(watch: Watch, part: _Part) -> tuple[str, ...]:
    notes: list[str] = []
    for count, which in ((part.others, "outside of the rounds"), (watch.elsewhere, "of other threads")):
        if count:
            notes.append(f"{counted(count, 'launch', 'launches')} {which} {'is' if count == 1 else 'are'} left out.")
    # A dry run has no times.
    if Session.active is not None and not dryrun.is_enabled():
        notes.append("A recording was under way: the times contain what it costs.")
    return tuple(notes)


def _called(name: str, array: Any, names: Mapping[str, Any] | None) -> str:
    """Return an array's variable, if it has one, and which argument it is."""
    fitting = (each for each, value in (names or {}).items() if value is array and not each.startswith("_"))
    variable = next(fitting, None)
    return name if variable is None else f"{variable} ({name})"


def _bytes(arrays: Mapping[Region, str]) -> int:
    return sum(region.nbytes for region in arrays)


def _namespace() -> tuple[dict[str, Any], str]:
    """Return the notebook's or the script's variables, and what to call them."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return __main__.__dict__, "the namespace of __main__"
    return shell.user_ns, "this notebook's namespace"
