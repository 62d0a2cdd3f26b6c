"""What the GPU's counters said of kernels: one row a specialization, with the median of its measured launches."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.code import CodeRows
from kernelscope.analysis.columns import row_count
from kernelscope.analysis.sass import SassLines, instruction_text, source_lines
from kernelscope.analysis.signatures import argument_names, named_arguments, short_arguments
from kernelscope.features.metrics.sets import EXECUTED
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import cut

_Row = Mapping[str, Any]

#: What threads executed of double-precision additions, multiplications and fused ones, among `Instructions`.
DOUBLE = "double-precision operations"
_IS_DOUBLE = re.compile(r"(?:@\S+\s+)?D(?:ADD|MUL|FMA)\b")

#: How long a launch ran on the GPU, in nanoseconds.
DURATION = "gpu__time_duration.sum"


@dataclass(frozen=True)
class KernelCounters:
    """The measured launches of one specialization on one device.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    dispatcher_id, specialization_id : int or None
        Its rows; None for a kernel that no probe recorded.
    configuration_id : int or None
        The launch configuration that most of the launches have.
    device_id : int or None
        The device.
    count : int
        How many launches were measured.
    values : mapping of str to float
        Metrics by Nsight Compute's names: the median of the launches.
    missing : tuple of str
        Metrics that were asked for and could not be had of any launch.
    """

    kernel: str
    dispatcher_id: int | None
    specialization_id: int | None
    configuration_id: int | None
    device_id: int | None
    count: int
    values: Mapping[str, float]
    missing: tuple[str, ...]

    def value(self, name: str) -> float | None:
        """Return a metric; None where it was not measured, or could not be had."""
        return self.values.get(name)

    def total(self, names: Sequence[str]) -> float | None:
        """Return the sum of metrics; None where one of them is not known."""
        known = [self.values[name] for name in names if name in self.values]
        return sum(known) if len(known) == len(names) else None

    @property
    def duration_ns(self) -> float | None:
        """Return how long a launch ran on the GPU."""
        return self.value(DURATION)


def measured(recording: Recording) -> list[KernelCounters]:
    """Return what was measured of each specialization, in the order in which they were measured first."""
    if not row_count(recording, "measurements"):
        return []
    return by_specialization(recording.rows("measurements"), recording.rows("metrics"),
                             [row["dispatcher_id"] for row in recording.rows("specializations")])


def arguments_of(recording: Recording, each: KernelCounters) -> str:
    """Return the argument types of a specialization in brief; empty for a kernel that no probe recorded."""
    if each.specialization_id is None or each.dispatcher_id is None:
        return ""
    signature = recording.rows("specializations")[each.specialization_id]["signature"]
    names = argument_names(recording.rows("dispatchers")[each.dispatcher_id]["arguments"])
    return short_arguments(named_arguments(signature, names))


def by_specialization(measurements: Iterable[_Row], metrics: Iterable[_Row],
                      owners: Sequence[int]) -> list[KernelCounters]:
    """Return what was measured of each specialization, kernels that no probe recorded by their names.

    Parameters
    ----------
    measurements, metrics : iterable of mapping
        Rows of the tables.
    owners : sequence of int
        The dispatcher of each specialization.
    """
    found: dict[int, list[_Row]] = {}
    for row in metrics:
        if row.get("pc_offset") is not None:
            continue
        found.setdefault(row["measurement_id"], []).append(row)
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for row in measurements:
        number = row["specialization_id"]
        name = (row["name"], row["entry_name"]) if number is None else None
        groups.setdefault((row["device_id"], number, name), []).append(row)
    return [_median(rows, [each for row in rows for each in found.get(row["measurement_id"], ())], owners)
            for rows in groups.values()]


@dataclass(frozen=True)
class Place:
    """Where in a kernel an instruction came from: a line of source, or itself where none is known.

    Attributes
    ----------
    file : str or None
        The line's file; None for the kernel's own.
    line : int or None
        The line, from 1; None where it is not known.
    text : str or None
        The line, or the instruction; None where it was not recorded.
    pc_offset : int or None
        The instruction's offset in bytes, where no line is known.
    """

    file: str | None
    line: int | None
    text: str | None
    pc_offset: int | None

    @property
    def label(self) -> str:
        """Return it in words."""
        name = "" if self.file is None else " of " + self.file.replace("\\", "/").rpartition("/")[2]
        where = f"instruction {self.pc_offset:#x}" if self.line is None else f"line {self.line}{name}"
        return f"{where}, `{cut(self.text)}`" if self.text else where


#: What instructions of a kernel did: metrics, and `DOUBLE`, by place.
Instructions = Mapping[Place, Mapping[str, float]]


def instructions_of(recording: Recording) -> dict[int | None, Instructions]:
    """Return by specialization what its instructions did, by line, in the first launch of which that was counted."""
    launches = {row["measurement_id"]: row for row in reversed(recording.rows("measurements"))
                if row["specialization_id"] is not None}
    rows: dict[int, dict[int, dict[str, float]]] = {}
    for row in recording.rows("metrics"):
        if row["pc_offset"] is not None and row["value"] is not None and row["measurement_id"] in launches:
            rows.setdefault(row["measurement_id"], {}).setdefault(row["pc_offset"], {})[row["name"]] = row["value"]
    code = CodeRows(recording)
    return {launches[number]["specialization_id"]: _by_place(recording, code, launches[number], counts)
            for number, counts in sorted(rows.items(), reverse=True)}


def _by_place(recording: Recording, code: CodeRows, launch: _Row, counts: Mapping[int, Mapping[str, float]]
              ) -> Instructions:
    number = launch["specialization_id"]
    owner = recording.rows("specializations")[number]["dispatcher_id"]
    row = code.row(owner, number, "sass")
    sass = None if row is None else SassLines.of(str(row["text"]), launch["entry_name"] or "",
                                                recording.rows("dispatchers")[owner])
    texts = [] if row is None else str(row["text"]).split("\n")
    source = source_lines(code, owner, [number])
    found: dict[Place, dict[str, float]] = {}
    offsets = np.array([*counts], np.int64)
    ties = np.full(len(offsets), UNKNOWN) if sass is None else sass.places(offsets)
    for offset, tie in zip(offsets.tolist(), ties.tolist(), strict=True):
        text = None if sass is None or offset not in sass.lines else instruction_text(texts[sass.lines[offset]])
        if sass is None or tie < 0:
            place = Place(None, None, text, offset)
        else:
            file, line = sass.chains[tie][0]
            place = Place(file or None, line, source.get((file, line)), None)
        held = found.setdefault(place, {})
        for name, value in counts[offset].items():
            held[name] = held.get(name, 0.0) + value
        if text is not None and _IS_DOUBLE.match(text):
            held[DOUBLE] = held.get(DOUBLE, 0.0) + counts[offset].get(f"{EXECUTED}.sum", 0.0)
    return found


def _median(rows: Sequence[_Row], metrics: Sequence[_Row], owners: Sequence[int]) -> KernelCounters:
    known: dict[str, list[float]] = {}
    for row in metrics:
        held = known.setdefault(row["name"], [])
        if row["value"] is not None:
            held.append(row["value"])
    number = rows[0]["specialization_id"]
    configurations = Counter(row["configuration_id"] for row in rows)
    return KernelCounters(
        rows[0]["name"], None if number is None else owners[number], number, configurations.most_common(1)[0][0],
        rows[0]["device_id"], len({row["launch_id"] if row["launch_id"] is not None else -1 - row["measurement_id"]
                                   for row in rows}),
        {name: statistics.median(values) for name, values in known.items() if values},
        tuple(name for name, values in known.items() if not values))
