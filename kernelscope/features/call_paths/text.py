"""The call paths as text: a tree with a line a frame, and a figure for each metric."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.features.call_paths.flame import HOW_TO, LABELS, Flame, flame_of
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import counted
from kernelscope.views.base import columns, shorten, table, with_notice

#: What weighs less than this share by every metric has no line.
LEAST_SHARE = 0.01
#: The most lines of a text.
MOST_LINES = 60


def call_paths_text(recording: Recording, width: int | None = None) -> str:
    """Return the heaviest call paths as a tree; where none were recorded, how to record them.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    flame = flame_of(shareable(recording))
    if flame is None:
        return with_notice(recording.notice, HOW_TO)
    shown = list(rows(flame, MOST_LINES))
    lines = table(["call path", *[LABELS[name].lower() for name in flame.metrics]],
                  [["  " * depth + shorten(label, 70), *values] for depth, label, values in shown], columns(width))
    said = rest(flame, len(shown))
    return with_notice(recording.notice, f"{lines}\n  and {said}" if said else lines)


def rows(flame: Flame, most: int) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield depth, label and figures of the nodes that weigh most, callers first: at most so many."""
    metrics = flame.metrics
    totals = {name: flame.totals[name].tolist() for name in metrics}
    share = [max(totals[name][at] / totals[name][0] for name in metrics) for at in range(len(flame.parent))]
    heavy = {at for at in sorted(range(1, len(share)), key=lambda at: (-share[at], at))[:most]
             if share[at] >= LEAST_SHARE}
    below: dict[int, list[int]] = {}
    for at in heavy:
        below.setdefault(int(flame.parent[at]), []).append(at)
    # A stack of its own: recursion of the user's code is deeper than Python's may be.
    left = sorted(below.get(0, []), key=lambda at: share[at])
    while left:
        at = left.pop()
        values = tuple(flame.short(name, totals[name][at]) for name in metrics)
        yield int(flame.depth[at]) - 1, flame.frames[int(flame.frame[at])].label, values
        left += sorted(below.get(at, []), key=lambda each: share[each])


def rest(flame: Flame, shown: int) -> str:
    """Return how many nodes have no line, or an empty string."""
    more = len(flame.parent) - 1 + flame.left_out - shown
    return counted(more, "lighter frame") if more > 0 else ""
