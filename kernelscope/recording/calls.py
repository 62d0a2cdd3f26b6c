"""Which driver call a correlation id stands for, and which launch a call submitted; vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelscope.recording.columns import THREAD_BITS, distinct
from kernelscope.schema import UNKNOWN

#: How many ids a table may have for each call.
_MOST_SPARSE = 8


class CallFinder:
    """Finds the first call that has a correlation id: of a runtime call and the driver call inside, the runtime's."""

    def __init__(self, correlation: np.ndarray) -> None:
        self._least = int(correlation.min()) if len(correlation) else 0
        self._table: np.ndarray | None = None
        span = int(correlation.max()) - self._least + 1 if len(correlation) else 0
        if span <= _MOST_SPARSE * len(correlation):  # ids count up, and so are places in a table
            self._table = np.full(span, UNKNOWN)
            if (correlation[1:] > correlation[:-1]).all():
                self._table[correlation - self._least] = np.arange(len(correlation))
            else:
                self._table[correlation[::-1] - self._least] = np.arange(len(correlation))[::-1]
        else:
            self._order = np.argsort(correlation, kind="stable")
            self._sorted = correlation[self._order]

    def find(self, correlation: np.ndarray) -> np.ndarray:
        """Return the call's row for each id, -1 for none."""
        if self._table is not None:
            place = correlation - self._least
            if not len(place) or (place.min() >= 0 and place.max() < len(self._table)):
                return self._table[place]
            outside = (place < 0) | (place >= len(self._table))
            return np.where(outside, UNKNOWN, self._table[np.where(outside, 0, place)]) if len(
                self._table) else np.full(len(correlation), UNKNOWN)
        at = np.minimum(np.searchsorted(self._sorted, correlation), len(self._sorted) - 1)
        return np.where(self._sorted[at] == correlation, self._order[at], UNKNOWN)


def launches_of(calls: dict[str, np.ndarray], first: np.ndarray, names: Sequence[str], launches: dict[str, Any],
                threads: Sequence[dict[str, Any]], several: np.ndarray | None = None) -> np.ndarray:
    """Return the launch that each call submitted, -1 for none.

    Parameters
    ----------
    calls : dict of str to ndarray
        Driver and runtime calls in order of their start.
    first : ndarray of int64
        For each call the first one with the same correlation id, which is the one that the launch is given to.
    names : sequence of str
        What the calls' ``name`` stands for.
    launches : dict of str to array
        The launches' columns, in order of start.
    threads : sequence of dict
        Rows of the table ``threads``.
    several : ndarray of bool, optional
        Which launches are calls that launch several kernels or graphs: all of them from their start to their end.
    """
    result = np.full(len(calls["ident"]), UNKNOWN)
    if not len(result) or not len(launches["start_ns"]):
        return result
    submits = np.array([_is_launch(name) for name in names], bool)[calls["name"]]
    graphs = None if several is None else np.array([is_graph_launch(name) for name in names], bool)[calls["name"]]
    submits = (submits if graphs is None else submits | graphs) & (calls["result"] == 0)
    begin = _known(launches["submit_start_ns"], launches["start_ns"])
    end = _known(_known(launches["submit_end_ns"], launches["end_ns"]), np.iinfo(np.int64).max)
    if several is not None:
        begin = np.where(several, launches["start_ns"], begin)
        end = np.where(several, _known(launches["end_ns"], np.iinfo(np.int64).max), end)
    numbers = np.array([(row.get("ident") or 0) & THREAD_BITS for row in threads], np.int64)
    for ident in distinct(calls["ident"][selected(submits)])[0]:
        rows = selected(submits & (calls["ident"] == ident))
        own = selected((numbers == ident)[launches["thread_id"]])
        middle = (calls["start_ns"][rows] + calls["end_ns"][rows]) >> 1
        result[rows] = _around(middle, begin, end, own, launches.get("parent_launch_id"))
    # Several calls in one launch: the last is the kernel's, what came before prepared its arguments.
    joined = np.flatnonzero(result != UNKNOWN)
    made_several = np.empty(0, np.int64)
    if several is not None:
        is_one_of_them = several[result[joined]]
        made_several, joined = joined[is_one_of_them], joined[~is_one_of_them]
        joined = joined if graphs is None else joined[~graphs[joined]]
    of_several = result[made_several]
    last = np.full(len(launches["start_ns"]), UNKNOWN)
    last[result[joined]] = joined  # of several assignments to one place NumPy keeps the last
    made = np.flatnonzero(last != UNKNOWN)
    result.fill(UNKNOWN)
    result[first[last[made]]] = made
    result[first[made_several]] = of_several
    return result


def is_graph_launch(name: str) -> bool:
    """Whether a driver or runtime call launches a graph."""
    return name.startswith(("cuGraphLaunch", "cudaGraphLaunch"))


def _around(times: np.ndarray, begin: np.ndarray, end: np.ndarray, own: np.ndarray | slice,
            parents: np.ndarray | None) -> np.ndarray:
    """Which of a thread's own launches was in its submit phase at each of the times, -1 for none."""
    begins = begin[own]
    order: np.ndarray | None = None
    if (begins[1:] < begins[:-1]).any():
        order = np.argsort(begins, kind="stable")
        begins = begins[order]
    if len(times) == len(begins) and (times >= begins).all() and (times[:-1] < begins[1:]).all():
        at = np.arange(len(times))  # one call a launch, as it mostly is: no search
    else:
        at = np.searchsorted(begins, times, side="right") - 1
    if order is not None:
        at = np.where(at >= 0, order[at], UNKNOWN) if len(order) else at
    candidate = at if isinstance(own, slice) else np.where(at >= 0, own[at], UNKNOWN) if len(own) else at
    while True:  # what ended before the call may stand inside of a launch that did not
        over = (candidate != UNKNOWN) & ((end[candidate] < times) | (begin[candidate] > times))
        if not over.any():
            return candidate
        candidate[over] = UNKNOWN if parents is None else parents[candidate[over]]


def _known(values: np.ndarray, otherwise: Any) -> np.ndarray:
    missing = values == UNKNOWN
    return np.where(missing, otherwise, values) if missing.any() else values


def selected(mask: np.ndarray) -> np.ndarray | slice:
    """Return the rows where a mask is true: a slice where that is all of them, which copies nothing."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _is_launch(name: str) -> bool:
    return name.startswith(("cuLaunchKernel", "cuLaunchCooperative", "cudaLaunchKernel", "cudaLaunchCooperative",
                            "cuda.core.launch"))

