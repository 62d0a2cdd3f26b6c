"""Lanes of the timeline and their tracks: which rows there are, in which order, and what each is called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.widgets.packing_rows import rows_of

Ints = NDArray[np.int64]
#: Groups of lanes, from the top of the picture down.
GROUPS = ("cells", "nvtx", "host", "graphs", "gpu")


@dataclass
class Lane:
    """A lane: tracks under one label.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    key : tuple
        Orders lanes of a group.
    label, note : str
        What it is called, and in smaller type what else there is to say.
    tracks : list of dict
        The number and the table of each track, from the top down.
    """

    group: str
    key: tuple[Any, ...]
    label: str
    note: str = ""
    tracks: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Lanes:
    """Hands out tracks."""

    _lanes: dict[tuple[Any, ...], Lane] = field(default_factory=dict)
    _count: int = 0

    def lane(self, group: str, key: tuple[Any, ...], label: str, note: str = "") -> Lane:
        """Return the lane with that key, a new one where there is none yet."""
        return self._lanes.setdefault((group, *key), Lane(group, key, label, note))

    def place(self, lane: Lane, table: str, start: Ints, end: Ints, at: Any, track: Ints, kind: str = "") -> None:
        """Give tracks of a lane to the rows `at` of a table: as many as it takes for none to overlap.

        Parameters
        ----------
        lane : Lane
            Which one.
        table : str
            The table on the wire.
        start, end : ndarray of int64
            Of the whole table.
        at : ndarray of int64, or slice
            Its rows, in order of start.
        track : ndarray of int64
            Of the whole table: where the tracks' numbers go.
        kind : str
            What the front end is told of those tracks.
        """
        row, count = rows_of(start[at], end[at])
        track[at] = row + self._count
        for depth in range(count):
            entry: dict[str, Any] = {"track": self._count + depth, "table": table, "depth": depth}
            if kind:
                entry["kind"] = kind
            lane.tracks.append(entry)
        self._count += count

    def ordered(self) -> list[dict[str, Any]]:
        """Return all lanes as JSON values, from the top down."""
        order = sorted(self._lanes.values(), key=lambda lane: (GROUPS.index(lane.group), lane.key))
        return [
            {"group": lane.group, "label": lane.label, "note": lane.note, "tracks": lane.tracks}
            for lane in order if lane.tracks
        ]
