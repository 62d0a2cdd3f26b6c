"""Times of a recording, counted from its first instant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kernelscope.recording.model import Recording
from kernelscope.widgets.packing_columns import EXACT

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_TIMES = {
    "cells": ("start_ns", "end_ns"),
    "launches": ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"),
    "activities": ("start_ns", "end_ns", "submit_start_ns", "submit_end_ns"),
    "api_calls": ("start_ns", "end_ns"),
    "compilations": ("start_ns", "end_ns"),
    "passes": ("start_ns",),
    "ranges": ("start_ns", "end_ns"),
    "graph_events": ("start_ns", "end_ns"),
    "builds": ("start_ns", "end_ns"),
}


class Clock:
    """The recording's first and last instant, and its columns of times from the first on.

    Attributes
    ----------
    first : int
        The first instant, in host-clock nanoseconds.
    span : int
        From the first to the last, in nanoseconds; 0 for an empty recording.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording: Any = recording
        bounds = [each for table, names in _TIMES.items() for name in names for each in self._bounds(table, name)]
        self.first = min(bounds, default=0)
        # What a file says can be anything; exact numbers end there.
        self.span = min(max(bounds, default=0) - self.first, EXACT // 2)
        self._is_odd = self.span == EXACT // 2
        self._held: dict[tuple[str, str], tuple[Ints, Bools]] = {}

    def times(self, table: str, name: str) -> tuple[Ints, Bools]:
        """Return a column of times from the first instant on (0 for null), and which of them are known."""
        if (table, name) not in self._held:
            column = self._recording.arrow(table).column(name)
            known = ~_nulls(column)
            if column.null_count:
                column = column.fill_null(self.first)
            values = np.asarray(column.to_numpy(), dtype=np.int64)
            if self._is_odd:
                values = np.clip(values, self.first, self.first + self.span)
            self._held[table, name] = values - self.first, known
        return self._held[table, name]

    def _bounds(self, table: str, name: str) -> list[int]:
        column = self._recording.arrow(table).column(name)
        if column.null_count == len(column):
            return []
        values = column.drop_null().to_numpy() if column.null_count else column.to_numpy()
        return [int(values.min()), int(values.max())]


def _nulls(column: pa.ChunkedArray) -> Bools:
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(column.is_null().to_numpy(), dtype=np.bool_)
