"""What the GPU's counters said of kernels: one row a specialization, with the median of its measured launches."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.columns import row_count
from kernelscope.recording.model import Recording

_Row = Mapping[str, Any]

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
