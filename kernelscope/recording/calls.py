"""Which driver call a correlation id stands for, and which launch a call submitted; vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.schema import UNKNOWN

#: How many ids a table may have for each call.
_MOST_SPARSE = 8

#: The bits of a thread's ident that CUPTI gives.
THREAD_BITS = 0xFFFFFFFF


class CallFinder:
    """Finds the first call that has a correlation id: of a runtime call and the driver call inside, the runtime's."""

    def __init__(self, correlation: np.ndarray) -> None:
        self._least = int(correlation.min()) if len(correlation) else 0
        self._table: np.ndarray | None = None
        span = int(correlation.max()) - self._least + 1 if len(correlation) else 0
        if span <= _MOST_SPARSE * len(correlation):  # ids count up, and so are places in a table
            self._table = np.full(span, UNKNOWN)
            self._table[correlation[::-1] - self._least] = np.arange(len(correlation))[::-1]
        else:
            self._order = np.argsort(correlation, kind="stable")
            self._sorted = correlation[self._order]

    def find(self, correlation: np.ndarray) -> np.ndarray:
        """Return the call's row for each id, -1 for none."""
        if self._table is not None:
            place = correlation - self._least
            outside = (place < 0) | (place >= len(self._table))
            if outside.any():
                return np.where(outside, UNKNOWN, self._table[np.where(outside, 0, place)]) if len(
                    self._table) else np.full(len(correlation), UNKNOWN)
            return self._table[place]
        at = np.minimum(np.searchsorted(self._sorted, correlation), len(self._sorted) - 1)
        return np.where(self._sorted[at] == correlation, self._order[at], UNKNOWN)

def launches_of(calls: dict[str, np.ndarray], first: np.ndarray, names: Sequence[str], launches: dict[str, Any],
                 threads: Sequence[dict[str, Any]]) -> np.ndarray:
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
    """
    result = np.full(len(calls["ident"]), UNKNOWN)
    if not len(result) or not len(launches["start_ns"]):
        return result
    submits = np.array([_is_launch(name) for name in names], bool)[calls["name"]] & (calls["result"] == 0)
    idents = np.array([(row.get("ident") or 0) & THREAD_BITS for row in threads], np.int64)[launches["thread_id"]]
    begin = np.where(launches["submit_start_ns"] == UNKNOWN, launches["start_ns"], launches["submit_start_ns"])
    end = np.where(launches["submit_end_ns"] == UNKNOWN, launches["end_ns"], launches["submit_end_ns"])
    end = np.where(end == UNKNOWN, np.iinfo(np.int64).max, end)
    parents = launches.get("parent_launch_id")
    middle = (calls["start_ns"] + calls["end_ns"]) // 2
    for ident in distinct(calls["ident"][submits])[0]:
        rows = np.flatnonzero(submits & (calls["ident"] == ident))
        own = np.flatnonzero(idents == ident)
        own = own[np.argsort(begin[own], kind="stable")]
        if not len(own):
            continue
        at = np.searchsorted(begin[own], middle[rows], side="right") - 1
        candidate = np.where(at >= 0, own[np.maximum(at, 0)], UNKNOWN)
        while True:  # what ended before the call may stand inside of a launch that did not
            at = middle[rows]
            over = (candidate != UNKNOWN) & ((end[candidate] < at) | (begin[candidate] > at))
            if not over.any():
                break
            candidate[over] = UNKNOWN if parents is None else parents[candidate[over]]
        result[rows] = candidate
    # Several calls in one launch: the last is the kernel's, what came before prepared its arguments.
    joined = np.flatnonzero(result != UNKNOWN)
    last = np.full(len(launches["start_ns"]), UNKNOWN)
    last[result[joined]] = joined  # of several assignments to one place NumPy keeps the last
    made = np.flatnonzero(last != UNKNOWN)
    single = np.full(len(result), UNKNOWN)
    single[first[last[made]]] = made
    return single


def _is_launch(name: str) -> bool:
    return name.startswith(("cuLaunchKernel", "cuLaunchCooperative", "cudaLaunchKernel", "cudaLaunchCooperative",
                            "cuda.core.launch"))


def distinct(values: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the distinct values, and each row's place among them: by hashing, no sort."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
