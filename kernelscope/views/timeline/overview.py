"""A large timeline in small, which its front end draws before it has decoded the rest."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Floats
from kernelscope.views.timeline.model import Timeline, Track
from kernelscope.views.timeline.svg import busy_shares, shares
from kernelscope.views.timeline.wire import Packed

#: A timeline of fewer events is drawn at once.
LEAST_EVENTS = 100_000
#: Columns of the whole time, and of how many processes at most there are as many; of more a quarter.
COLUMNS, MANY_PROCESSES = 1024, 64
#: Bytes that an overview takes at most: where tracks are so many that it would take more, there is none.
MOST_BYTES = 300_000
#: Idle time between cells of more than this share of the whole is folded away by the front end.
_MOST_IDLE = 0.03


def with_overview(packed: Packed, timeline: Timeline) -> Packed:
    """Return what is sent with ``header["overview"]`` where that is of use.

    By track number, and for each process by its place as ``p0``, it has colors, and for each of them a byte a column,
    as base64: the share of the column's time that the color takes, 255 for all of it; what is there, but for less than
    that, is 1. Launches have the colors of their phases; of other tracks a column has the color of its longest event,
    as where all of them are drawn. Where the groups of processes begin folded, their tracks are left out.
    """
    if packed.events < LEAST_EVENTS or _has_breaks(timeline):
        return packed
    found: dict[str, Any] = {}
    size = 0
    for name, colors in _colors(timeline):
        rows = [np.where(share > 0, np.maximum(np.round(share * 255), 1), 0).astype(np.uint8)
                for share in colors.values()]
        texts = [base64.b64encode(row.tobytes()).decode("ascii") for row in rows]
        size += sum(map(len, texts))
        if size > MOST_BYTES:
            return packed
        found[name] = [list(pair) for pair in zip(colors, texts, strict=True)]
    return replace(packed, header=packed.header | {"overview": found})


def _colors(timeline: Timeline) -> Iterator[tuple[str, dict[str, Floats]]]:
    """Yield the name of each track, and process, with the share of each column that its colors take."""
    columns = COLUMNS if len(timeline.processes) <= MANY_PROCESSES else COLUMNS // 4
    for at, colors in enumerate(busy_shares(timeline, columns)):
        yield f"p{at}", colors
    if not timeline.is_folded:
        for track, parts in shares(timeline, COLUMNS):
            is_split = track.table in ("launches", "samples")
            yield str(track.number), parts if is_split else _by_longest(timeline, track, sum(parts.values()))


def _by_longest(timeline: Timeline, track: Track, busy: Any) -> dict[str, Floats]:
    """Return the share of each column in which a track is busy, as that of its longest event's color."""
    slices, which = timeline.tables[track.table], timeline.rows(track)
    inks, start = slices.look().colors.codes[which], slices.start[which]
    colors = slices.look().colors.values
    key = (slices.end[which] - start) * len(colors) + inks
    place = np.clip(start * (COLUMNS / max(timeline.span_ns, 1)), 0, COLUMNS - 1).astype(np.int64)
    first = np.searchsorted(place, np.arange(COLUMNS + 1))
    longest = np.maximum.reduceat(key, np.minimum(first[:-1], len(key) - 1))
    # Where none begins, the one before goes on.
    longest = np.where(np.diff(first) > 0, longest, key[np.maximum(first[:-1] - 1, 0)]) % len(colors)
    return {colors[ink]: np.where(longest == ink, busy, 0.0) for ink in np.unique(longest).tolist()}


def _has_breaks(timeline: Timeline) -> bool:
    cells = timeline.tables["cells"]
    order = np.argsort(cells.start, kind="stable")
    start, reach = cells.start[order], np.maximum.accumulate(cells.end[order])
    return bool((start[1:] - reach[:-1] > _MOST_IDLE * timeline.span_ns).any())
