"""What a what-if found, as data; `kernelscope.graphs.report` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_RESAMPLES = 2000
_SHARE = (2.5, 97.5)


@dataclass(frozen=True)
class Timing:
    """A median and what it could as well have been.

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
        """Whether zero is in the interval; of a difference: no difference is seen."""
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
        """Whether all arrays have the same contents, bit for bit, after the graph as after the eager launches.

        None where nothing was compared: in a dry run, and where the launches got no device array.
        """
        return None if self.is_dry_run or not self.arrays else not self.unequal

    @property
    def replays_to_pay_off(self) -> int | None:
        """After how many launches of the graph its making is paid off; None where no host time is seen to be saved."""
        if self.host is None or self.host.saved.low_ns <= 0:
            return None
        return int(np.ceil(((self.capture_ns or 0) + (self.instantiate_ns or 0)) / self.host.saved.median_ns))

    def to_frame(self) -> pd.DataFrame:
        """Return the times as a DataFrame.

        Returns
        -------
        pandas.DataFrame
            Columns ``time`` (host, gpu), ``way`` (eager, graph, saved), ``median_ns``, ``low_ns`` and ``high_ns``: a
            median and its bootstrap interval of 95 %. It is empty in a dry run.
        """
        import pandas as pd

        rows = [(time, way, timing.median_ns, timing.low_ns, timing.high_ns)
                for time, compared in (("host", self.host), ("gpu", self.gpu)) if compared is not None
                for way, timing in (("eager", compared.eager), ("graph", compared.graph), ("saved", compared.saved))]
        return pd.DataFrame(rows, columns=["time", "way", "median_ns", "low_ns", "high_ns"])

    def __str__(self) -> str:
        from kernelscope.graphs.report import text

        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from kernelscope.graphs.report import card

        return card(self)


def compare(eager: Sequence[float], graph: Sequence[float], seed: int = 0) -> Comparison:
    """Return medians of both and of their difference, with bootstrap intervals.

    Parameters
    ----------
    eager, graph : sequence of float
        Samples in nanoseconds, taken in turn: the n-th of both belong together, so that what slows both down for a
        while does not count as a difference.
    seed : int
        Of the resampling.
    """
    first, second = np.asarray(eager, float), np.asarray(graph, float)
    chosen = np.random.default_rng(seed).integers(0, len(first), (_RESAMPLES, len(first)))

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
