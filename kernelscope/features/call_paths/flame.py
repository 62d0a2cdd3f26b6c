"""A flame graph of call paths: Python frames below each other, outermost on top, with the kernels that they launched.

A `Flame` is a `CallTree` as it is shown: with one node for the whole of it, names and kinds of frames, and no more
nodes than a page can hold. Every form prints it: `text`, the static SVG (`svg`) and the live view (`wire`).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.columns import Floats, Ints, sum_by
from kernelscope.analysis.lines import line_texts
from kernelscope.features.call_paths.analyse import METRICS, CallTree, call_tree, has_stacks
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import count, counted, duration
from kernelscope.views.base import clean, cut
from kernelscope.views.frames import Frame, frame_of_line

#: The most nodes of a flame graph; what is lighter is summed into the nodes that called it.
MOST_NODES = 20_000
#: What to call each metric, and what it is.
LABELS = {"host": "Host time", "gpu": "GPU time", "compile": "Compile time", "launches": "Launches"}
MEANINGS = {
    "host": "host time inside launches, from each call to its return, compiles included",
    "gpu": "time of kernels, copies and memsets on the GPU, at the call that asked for them",
    "compile": "time of compiles and of loads from the disk cache, in launches and outside",
    "launches": "launches that ran",
}
#: Kinds of frames with what they are called, in the order of their colors.
KINDS = {"user": "your code", "library": "library", "kernel": "kernel or copy", "unknown": "no known call path"}
#: What to say where there is nothing to show.
HOW_TO = ("no call paths were recorded: record them with  %%kernelscope --stacks,  kernelscope run --stacks  or  "
          "kernelscope.record(stacks=True)")
_WHOLE = "all"
#: What stands for the callers of what has no known call path.
UNKNOWN_PATH = "no known call path"


@dataclass(frozen=True)
class Flame:
    """A flame graph; arrays have one value a node, parents come before children, and node 0 is the whole.

    Attributes
    ----------
    frames : tuple of Frame
        Each that there is, once.
    frame : ndarray of int64
        The place of each node's frame in `frames`.
    parent : ndarray of int64
        The node above; -1 for the whole.
    own : mapping of str to ndarray of int64
        What each node weighs without those below it, by metric: what is left out below a node is its own.
    phases : mapping of str to ndarray of int64
        Host time by phase, likewise.
    left_out : int
        How many nodes are left out.
    paths : int
        From how many call paths something was launched, compiled or given to the GPU.
    """

    frames: tuple[Frame, ...]
    frame: Ints
    parent: Ints
    own: Mapping[str, Ints]
    phases: Mapping[str, Ints]
    left_out: int
    paths: int

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of which there is anything, in order."""
        return tuple(name for name in METRICS if name in self.own and self.own[name].any())

    @property
    def remark(self) -> str:
        """Return what is left out, or an empty string."""
        if not self.left_out:
            return ""
        return f"{counted(self.left_out, 'lighter node')} {'is' if self.left_out == 1 else 'are'} summed into callers"

    @cached_property
    def totals(self) -> Mapping[str, Ints]:
        """What each node and those below it weigh, by metric."""
        found: dict[str, Ints] = {}
        above = self.parent.tolist()
        for name in self.metrics:
            sums = self.own[name].tolist()
            for at in range(len(sums) - 1, 0, -1):
                sums[above[at]] += sums[at]
            found[name] = np.array(sums, dtype=np.int64)
        return found

    @cached_property
    def depth(self) -> Ints:
        """How many nodes are above each."""
        found = [0] * len(self.parent)
        for at, above in enumerate(self.parent.tolist()):
            found[at] = found[above] + 1 if above >= 0 else 0
        return np.array(found, dtype=np.int64)

    def left(self, metric: str) -> Floats:
        """Return how much of the whole is left of each node, 0 to 1: of one caller's, the heaviest comes first."""
        total = self.totals[metric]
        order = np.lexsort((-total, self.parent))
        before = np.cumsum(total[order]) - total[order]
        first = np.append(True, self.parent[order][1:] != self.parent[order][:-1])
        within = np.empty_like(total)
        within[order] = before - np.maximum.accumulate(np.where(first, before, 0))
        found: list[int] = within.tolist()
        for at, above in enumerate(self.parent.tolist()):
            if above >= 0:
                found[at] += found[above]
        return np.array(found) / max(int(total[0]), 1)

    def said(self, metric: str, value: int) -> str:
        """Return a value with its unit."""
        return counted(value, "launch", "launches") if metric == "launches" else duration(value)

    def short(self, metric: str, value: int) -> str:
        """Return a value as a column of a table has it."""
        return "" if not value else count(value) if metric == "launches" else duration(value)


# A card, its text and the timeline below it show one recording's, which is made once.
_flames: weakref.WeakKeyDictionary[Recording, Flame | None] = weakref.WeakKeyDictionary()


def flame_of(recording: Recording) -> Flame | None:
    """Return the flame graph of a recording as it may be shared; None where no call paths were recorded."""
    if not has_stacks(recording):
        return None
    if recording not in _flames:
        _flames[recording] = made(recording)
    return _flames[recording]


def made(recording: Recording, most: int = MOST_NODES) -> Flame | None:
    """Return the flame graph with at most so many nodes; None where there is nothing to show."""
    tree = call_tree(recording)
    if tree is None or not tree.metrics:
        return None
    weight = np.max([tree.total(name) / tree.own[name].sum() for name in tree.metrics], axis=0)
    shown = np.flatnonzero(weight > 0)
    paths = len(np.unique(tree.parent[tree.frames:]))
    kept = shown
    if len(shown) >= most:  # a node is no heavier than its parent, which comes first where both weigh the same
        kept = np.sort(shown[np.argsort(-weight[shown], kind="stable")[:most - 1]])
    place = np.full(len(tree) + 1, 0, dtype=np.int64)
    place[kept] = np.arange(1, len(kept) + 1)
    parent = np.append(UNKNOWN, place[tree.parent[kept]])
    frames, frame = _frames(recording, tree, kept)
    own = {name: _own(tree.total(name)[kept], parent, int(tree.own[name].sum())) for name in tree.metrics}
    phases = {name: _own(tree.summed(values)[kept], parent, int(values.sum())) for name, values in tree.phases.items()}
    return Flame(frames, frame, parent, own, phases, len(shown) - len(kept), paths)


def _own(total: Ints, parent: Ints, whole: int) -> Ints:
    """Return what nodes weigh without the kept ones below them, the whole first."""
    total = np.append(whole, total)
    return total - sum_by(parent[1:], total[1:], len(total))


def _frames(recording: Recording, tree: CallTree, kept: Ints) -> tuple[tuple[Frame, ...], Ints]:
    """Return the frames that there are, each once, and the place of each node's, that of the whole first."""
    lines, texts = recording.rows("lines"), line_texts(recording)
    made: dict[Frame, int] = {Frame(_WHOLE, kind="all"): 0}
    places: list[int] = [0]
    by_line: dict[int, int] = {}
    for line, leaf in zip(tree.line[kept].tolist(), tree.leaf[kept].tolist(), strict=True):
        if leaf >= 0:
            frame = Frame(clean(cut(tree.leaves[leaf])), kind="kernel")
        elif line < 0:
            frame = Frame(UNKNOWN_PATH, kind="unknown")
        else:
            if line not in by_line:
                by_line[line] = made.setdefault(frame_of_line(lines[line], texts.get(line, "")), len(made))
            places.append(by_line[line])
            continue
        places.append(made.setdefault(frame, len(made)))
    return tuple(made), np.array(places, dtype=np.int64)


