"""PyTorch's operators, where they were recorded: what each of them launched, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.columns import Ints, count_by, data_frame, ids, ran, row_count, unique_pairs
from kernelscope.analysis.launches import LaunchPhases, launch_phases
from kernelscope.analysis.lines import gpu_by, kernels_by
from kernelscope.recording.model import Recording
from kernelscope.recording.paths import LEFT_OUT, SEPARATOR
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class OperatorSummary:
    """One of PyTorch's operators, or what none of them did.

    Attributes
    ----------
    operator : str or None
        Its name, such as ``aten::addmm``; None for what no operator did.
    calls : int or None
        How often it was called where that gave the GPU work, in whichever operators around it; None for no operator.
    host_ns : int or None
        Host time of these calls, what they call included.
    launches : int
        Launches of which it was the innermost operator, and that ran.
    kernels : tuple of str
        Names of what it launched, in order of their first launch in the recording.
    launch_ns : int or None
        Own host time of the launches.
    gpu_ns : int or None
        How long its kernels, copies and memsets ran; None where the GPU was not recorded.
    """

    operator: str | None
    calls: int | None
    host_ns: int | None
    launches: int
    kernels: tuple[str, ...]
    launch_ns: int | None
    gpu_ns: int | None


def operator_summaries(recording: Recording, phases: LaunchPhases | None = None) -> list[OperatorSummary]:
    """Summarize operators by name, in order of the time of the GPU, then of the host; what none did comes last.

    No rows where operators were not recorded. `phases` is what `launch_phases` returns, where it is at hand.
    """
    rows = recording.rows("operators")
    if not rows:
        return []
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    size = len(names) + 1  # the last stands for none
    places = {name: at for at, name in enumerate(names)}
    group = np.array([*(places[row["name"]] for row in rows), size - 1], np.int64)
    launches, activities = (group[ids(recording, table, "operator_id")] for table in ("launches", "activities"))
    counts = count_by(launches, size, ran(recording))
    totals = (phases or launch_phases(recording)).totals_by(launches, size)
    gpu = gpu_by(recording, launches, activities, size)
    kernels = kernels_by(recording, launches, activities, size)
    calls, host = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for row, is_in_itself in zip(rows, _in_themselves(rows), strict=True):
        at = places[row["name"]]
        calls[at] += row["calls"]
        if not is_in_itself:
            host[at] += row["host_ns"]
    of_group = [*names, None]
    found = [
        OperatorSummary(
            operator=of_group[at], calls=int(calls[at]) if at < size - 1 else None,
            host_ns=int(host[at]) if at < size - 1 else None, launches=int(counts[at]), kernels=kernels[at],
            launch_ns=totals[at].host_ns, gpu_ns=gpu[at][0])
        for at in range(size)
        if at < size - 1 or counts[at] or kernels[at]
    ]
    return sorted(found, key=lambda each: (each.operator is None, -(each.gpu_ns or 0), -(each.host_ns or 0)))


def by_operator(recording: Recording) -> pd.DataFrame:
    """Return what PyTorch's operators did: a new DataFrame, one row an operator, such as ``aten::addmm``.

    Columns are the operator, how often it was called and its host time, what it calls included; its kernels,
    launches with their host time, and the time of the GPU. Work belongs to the innermost operator that gave it to
    the GPU; what none did is the last row. Operators are recorded on request only: ``record(torch_ops=True)``.
    Times are in nanoseconds.
    """
    texts = ("operator", "kernels")
    names = ("operator", "calls", "host_ns", "launches", "kernels", "launch_ns", "gpu_ns")
    return data_frame(operator_summaries(recording), {name: "object" if name in texts else "Int64" for name in names},
                      {"kernels": lambda each: ", ".join(each.kernels)})


def operators_of_kernels(recording: Recording) -> dict[int, tuple[str, ...]]:
    """Return the names of the operators that launched each kernel, by dispatcher, the most frequent first."""
    if not row_count(recording, "operators"):
        return {}
    names: list[str] = recording.arrow("operators").column("name").to_pylist()
    operator: Ints = ids(recording, "launches", "operator_id")
    known = operator >= 0
    pairs, pair = unique_pairs(ids(recording, "launches", "dispatcher_id")[known], operator[known])
    found: dict[int, dict[str, int]] = {}
    for (kernel, at), number in zip(pairs.tolist(), count_by(pair, len(pairs)).tolist(), strict=True):
        of_one = found.setdefault(kernel, {})
        of_one[names[at]] = of_one.get(names[at], 0) + number
    return {kernel: tuple(sorted(each, key=lambda name: -each[name])) for kernel, each in found.items()}


def _in_themselves(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Return which operators are called by one of their name that counts already.

    Of a path that is not whole every name that it has is taken to count.
    """
    numbers: dict[tuple[int, str], int] = {}
    around: list[list[tuple[str, int]]] = []
    counted: set[tuple[int, Any, Any]] = set()
    for row in rows:
        number, path = UNKNOWN, list[tuple[str, int]]()
        for name in row["path"].split(SEPARATOR):
            number = numbers.setdefault((number, name), len(numbers))
            path.append((name, number))
        counted.add((number, row["cell_id"], row["process_id"]))
        around.append(path[:len(path) - row["name"].count(SEPARATOR) - 1])
    return [any(name == row["name"] and (not is_whole or (number, row["cell_id"], row["process_id"]) in counted)
                for name, number in path)
            for row, path in zip(rows, around, strict=True)
            for is_whole in [not any(LEFT_OUT.fullmatch(name) for name, _ in path)]]
