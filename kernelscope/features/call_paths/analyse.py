"""The call tree of a recording: what each call path launched, compiled and had the GPU do.

A call path is the Python frames of a launch, a compile or an activity of the GPU, outermost first; below its innermost
frame the tree has a leaf for each kernel, and for copies and memsets by their direction. All weights are of leaves, so
that those of the whole tree add up to the recording's: what has no known call path is below a node of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kernelscope.analysis.activities import GRAPH, KERNEL, is_gpu_recorded
from kernelscope.analysis.columns import Ints, codes, ints, matches, ran, row_count, sum_by
from kernelscope.analysis.compiling import compile_times_of
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.analysis.lines import gpu_times
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: What a call tree is weighted by: own host time of launches, time of kernels, copies and memsets on the GPU, own time
#: of compiles and of loads from the disk cache, and launches that ran.
METRICS = ("host", "gpu", "compile", "launches")
#: The most places of a table of pairs; of more, the pairs are sorted.
_LARGEST_TABLE = 1 << 25


@dataclass(frozen=True)
class CallTree:
    """A tree of frames and leaves; arrays have one value a node, and parents come before their children.

    Attributes
    ----------
    parent : ndarray of int64
        The node that called it; -1 for an outermost one.
    line : ndarray of int64
        A frame's row in ``lines``; -1 for a leaf, and for the node of what has no known call path.
    leaf : ndarray of int64
        A leaf's place in `leaves`; -1 for others.
    leaves : list of str
        Names of kernels and kinds of copies.
    frames : int
        How many nodes are no leaves: these come first.
    own : mapping of str to ndarray of int64
        What leaves weigh, by those of `METRICS` that were recorded; times are in nanoseconds.
    phases : mapping of str to ndarray of int64
        The host time in each of ``PHASES`` that took any.
    """

    parent: Ints
    line: Ints
    leaf: Ints
    leaves: list[str]
    frames: int
    own: Mapping[str, Ints]
    phases: Mapping[str, Ints]
    _totals: dict[str, Ints] = field(default_factory=dict[str, Ints])

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.parent)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return those of `METRICS` of which anything is known and more than 0."""
        return tuple(name for name in METRICS if name in self.own and self.own[name].any())

    def total(self, metric: str) -> Ints:
        """Return what each node and all below it weigh together."""
        if metric not in self._totals:
            self._totals[metric] = self.summed(self.own[metric])
        return self._totals[metric]

    def summed(self, own: Ints) -> Ints:
        """Return the sums over each node and all below it, of what nodes have themselves."""
        first = self.frames
        below = sum_by(self.parent[first:], own[first:], first)
        total: list[int] = (own[:first] + below).tolist()
        for at, above in zip(range(first - 1, -1, -1), reversed(self.parent[:first].tolist()), strict=True):
            if above >= 0:
                total[above] += total[at]
        return np.concatenate((np.array(total, dtype=np.int64), own[first:]))


def has_stacks(recording: Recording) -> bool:
    """Return whether call paths were recorded."""
    return row_count(recording, "stacks") > 0


def call_tree(recording: Recording) -> CallTree | None:
    """Return the call tree; None where no call paths were recorded."""
    if not has_stacks(recording):
        return None
    node, parent, line = _frames(recording)
    unknown = len(parent)  # the node of what has no known call path
    launches, compiles, activities = (
        np.append(node, unknown)[ints(recording, table, "stack_id")]
        for table in ("launches", "compilations", "activities"))
    names, kernel, activity = _names(recording)
    dispatcher, compiled = (kernel[ints(recording, table, "dispatcher_id")] for table in ("launches", "compilations"))
    width = max(len(names), 1)
    pairs = [launches * width + dispatcher, compiles * width + compiled, activities * width + activity]
    keys, (launched, compiling, ran_on_gpu) = _distinct(pairs, (unknown + 1) * width)
    size = len(keys)
    phases = launch_phases(recording)
    weights = {"host": sum_by(launched, phases.own_ns, size),
               "compile": sum_by(compiling, compile_times_of(recording).own_ns, size),
               "launches": np.bincount(launched[ran(recording)], minlength=size)}
    if is_gpu_recorded(recording):
        lasted, executed = gpu_times(recording)
        lasted = np.where(matches(recording, "activities", "kind", "sync"), UNKNOWN, lasted)
        weights["gpu"] = sum_by(ran_on_gpu, lasted, size) + sum_by(launched, executed, size)
    weighs = np.logical_or.reduce([values > 0 for values in weights.values()])
    split = {name: sum_by(launched, phases.own_phases[name], size) for name in PHASES}
    keys = keys[weighs]
    around, leaf = keys // width, keys % width
    is_used = int((around == unknown).any())  # where all is known, there is no node of what is not
    none = np.full(unknown + is_used, UNKNOWN, dtype=np.int64)

    def of_leaves(weights: Mapping[str, Ints]) -> dict[str, Ints]:
        return {name: np.concatenate((none * 0, values[weighs])) for name, values in weights.items()}

    return CallTree(
        np.concatenate((parent, none[unknown:], around)), np.concatenate((line, none[unknown:], leaf * 0 - 1)),
        np.concatenate((none, leaf)), names, len(none), of_leaves(weights),
        of_leaves({name: values for name, values in split.items() if values.any()}))


def _frames(recording: Recording) -> tuple[Ints, Ints, Ints]:
    """Return the node of each row of ``stacks``, and of each node its parent and its line: equal paths are one."""
    parent, line = ints(recording, "stacks", "parent_stack_id"), ints(recording, "stacks", "line_id")
    key = (parent + 1) * (int(line.max()) + 1) + line
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(parent)), parent, line
    made: dict[tuple[int, int], int] = {}
    node: list[int] = []
    for above, at in zip(parent.tolist(), line.tolist(), strict=True):
        node.append(made.setdefault((node[above] if above >= 0 else UNKNOWN, at), len(made)))
    parents, lines = np.array([*made], dtype=np.int64).T
    return np.array(node, dtype=np.int64), parents, lines


def _names(recording: Recording) -> tuple[list[str], Ints, Ints]:
    """Return the leaves' names, and the name of each dispatcher and of each activity."""
    made: dict[str, int] = {}

    def name(text: str | None) -> int:
        return made.setdefault(text or "unnamed", len(made))

    kernels = [name(text) for text in recording.arrow("dispatchers").column("name").to_pylist()]
    kernel = np.array([*kernels, name(None)], dtype=np.int64)  # the last for what names none
    word, words = codes(recording, "activities", "name")
    kind, kinds = codes(recording, "activities", "kind")
    each, inverse = _distinct([kind * (len(words) + 1) + word + 1], len(kinds) * (len(words) + 1))
    named = np.array([name(_label(kinds[at // (len(words) + 1)], ([*words, None])[at % (len(words) + 1) - 1]))
                      for at in each.tolist()], dtype=np.int64)
    activity = named[inverse[0]] if len(named) else inverse[0]
    launch = ints(recording, "activities", "launch_id")
    own = np.flatnonzero((launch >= 0) & (activity >= 0))
    if len(own):
        is_kernel = kind[own] == (kinds.index("kernel") if "kernel" in kinds else UNKNOWN)
        own = own[is_kernel]
        activity[own] = kernel[ints(recording, "launches", "dispatcher_id")[launch[own]]]
    return [*made], kernel, activity


def _label(kind: str, name: str | None) -> str:
    """Return what a leaf of an activity is called: that of a kernel or a graph, or the kind with a copy's direction."""
    return (name or kind) if kind in (KERNEL, GRAPH) else " ".join(filter(None, (kind, name)))


def _distinct(parts: list[Ints], size: int) -> tuple[Ints, list[Ints]]:
    """Return the distinct values of arrays of numbers below `size`, in order, and the place of each value in them."""
    ends = np.cumsum([len(each) for each in parts])[:-1]
    together = np.concatenate(parts)
    if size > _LARGEST_TABLE:
        values, places = np.unique(together, return_inverse=True)
    else:
        is_used = np.zeros(size, dtype=np.bool_)
        is_used[together] = True
        values = np.flatnonzero(is_used)
        places = (np.cumsum(is_used) - 1)[together]
    return values, np.split(places.astype(np.int64, copy=False), ends)
