"""The roofline: how many floating-point operations kernels make of each byte, and how far they are from their roofs.

The roofs, and what is counted as operations, are those of Nsight Compute's roofline charts: operations are those of
instructions that executed, a fused multiply-add is two, and an instruction on half-precision numbers works on a pair
of them. A peak is what all multiprocessors do in a cycle, times the cycles in a second while the kernel ran. What a
copy on the device reached is a roof too, lower than the memory's peak: few kernels read and write faster than a copy.

A kernel that could do everything at once would take as long as the one roof that needs the most time for its
operations or its bytes. That is the roof that limits it; the share is this time over the kernel's own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernelscope.features.metrics.analyse import DURATION, KernelCounters, arguments_of, measured
from kernelscope.recording.model import Recording
from kernelscope.units import cut, scaled

_OP = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
_SM_CLOCK = "sm__cycles_elapsed.avg.per_second"

#: Instructions of the tensor cores: how many operations one does depends on its shape, which no counter tells.
TENSOR = "sm__inst_executed_pipe_tensor.sum"
#: The share of a roof from which on nothing else can be gained, and below which no roof explains a kernel's time:
#: those of Nsight Compute's rule SOLBottleneck.
AT_ROOF, FAR = 0.8, 0.6


class Precision(NamedTuple):
    """What counts the operations of one precision.

    Attributes
    ----------
    operations : mapping of str to int
        Metrics that count instructions, with the operations of each.
    peak : str
        The metric of the instructions of all multiprocessors in a cycle at most.
    of_peak : int
        The operations of each of those.
    """

    operations: Mapping[str, int]
    peak: str
    of_peak: int


class Level(NamedTuple):
    """What counts the bytes of one level of memory: metrics of bytes, of bytes a cycle at most, and of its clock."""

    moved: str
    peak: str
    clock: str


def _precision(letter: str, pair: int) -> Precision:
    operations = {_OP.format(f"{letter}{kind}"): count * pair for kind, count in (("add", 1), ("mul", 1), ("fma", 2))}
    return Precision(operations, f"{_OP.format(f'{letter}fma')}.peak_sustained", 2 * pair)


#: By name as a roof has it.
PRECISIONS = {"FP32": _precision("f", 1), "FP64": _precision("d", 1), "FP16": _precision("h", 2)}
#: By name as a roof has it.
LEVELS = {
    "DRAM": Level("dram__bytes.sum", "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second"),
    "L2": Level("lts__t_bytes.sum", "lts__t_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second"),
}


@dataclass(frozen=True)
class Roofs:
    """What a device does in a second at most.

    Attributes
    ----------
    flops : mapping of str to float
        Operations a second, by precision (`PRECISIONS`); those that were not measured are left out.
    bytes : mapping of str to float
        Bytes a second, by level (`LEVELS`), at the clock that was measured.
    copy : float or None
        What a copy on the device reached, read plus written, in bytes a second; None where none was made.
    is_copy_roof : bool
        Whether the copy's is the roof of DRAM: it is not where a kernel was faster.
    """

    flops: Mapping[str, float]
    bytes: Mapping[str, float]
    copy: float | None
    is_copy_roof: bool

    @property
    def dram(self) -> float | None:
        """Return the roof of DRAM: what a copy reached, else the peak."""
        return self.copy if self.is_copy_roof else self.bytes.get("DRAM")

    def of_level(self, level: str) -> float | None:
        """Return the roof of a level of memory."""
        return self.dram if level == "DRAM" else self.bytes.get(level)


@dataclass(frozen=True)
class Point:
    """One specialization of a kernel: medians of its measured launches.

    Attributes
    ----------
    measured : KernelCounters
        What was measured.
    arguments : str
        Its argument types in brief; empty for a kernel that no probe recorded.
    flops, bytes : mapping of str to float
        Operations by precision, and bytes by level, of a launch; what was not measured is left out.
    tensor : float or None
        Instructions of the tensor cores of a launch, whose operations are not in `flops`.
    limits : mapping of str to float
        The nanoseconds that each roof needs at least, at the clocks of this kernel.
    missing : tuple of str
        What is not known, and why, as sentences.
    """

    measured: KernelCounters
    arguments: str
    flops: Mapping[str, float]
    bytes: Mapping[str, float]
    tensor: float | None
    limits: Mapping[str, float]
    missing: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """Return the kernel's name."""
        return self.measured.kernel

    @property
    def duration_ns(self) -> float | None:
        """Return how long a launch ran."""
        return self.measured.duration_ns

    @property
    def precision(self) -> str | None:
        """Return the precision whose roof needs the most time; None where there is no operation."""
        used = [name for name, count in self.flops.items() if count]
        return max(used, key=lambda name: (self.limits.get(name, 0.0), self.flops[name]), default=None)

    @property
    def flops_per_second(self) -> float | None:
        """Return the operations of `precision` in a second; 0 without any, None where that is not known."""
        if not self.duration_ns or not self.flops:
            return None
        return self.flops.get(self.precision or "", 0.0) / self.duration_ns * 1e9

    def bytes_per_second(self, level: str = "DRAM") -> float | None:
        """Return the bytes of a level in a second; None where they or the time are not known."""
        if not self.duration_ns or level not in self.bytes:
            return None
        return self.bytes[level] / self.duration_ns * 1e9

    def intensity(self, level: str = "DRAM") -> float | None:
        """Return the operations of `precision` for each byte of a level; None where either is not known, or no byte."""
        if not self.flops or not self.bytes.get(level):
            return None
        return self.flops.get(self.precision or "", 0.0) / self.bytes[level]

    @property
    def roof(self) -> str | None:
        """Return the roof that limits it: DRAM, L2, FP32, FP64 or FP16; None where what could be it is not known.

        It is not known either where tensor cores worked, unless memory is the roof that it is at.
        """
        if not self.limits or not self.duration_ns:
            return None
        name = max(self.limits, key=lambda name: self.limits[name])
        is_certain = {*LEVELS, *(each for each, count in self.flops.items() if count)} <= {*self.limits}
        is_certain = is_certain and len(self.flops) == len(PRECISIONS) and not self.tensor
        is_at = name in LEVELS and self.limits[name] >= AT_ROOF * self.duration_ns
        return name if is_certain or is_at else None

    @property
    def share(self) -> float | None:
        """Return how much of the roof that limits it is reached, from 0 to 1."""
        return None if self.roof is None or not self.duration_ns else self.limits[self.roof] / self.duration_ns

    @property
    def bound(self) -> str | None:
        """Return whether it is bound by ``memory`` or by ``compute``; None where that is not known."""
        return None if self.roof is None else "memory" if self.roof in LEVELS else "compute"


@dataclass(frozen=True)
class Roofline:
    """The kernels that were measured on one device, and its roofs.

    Attributes
    ----------
    recording : str
        The recording's name.
    device : str
        The device's name.
    roofs : Roofs
        Its roofs: medians of what was measured.
    points : tuple of Point
        A point a specialization, in the order in which they were measured.
    notes : tuple of str
        What must be said of all of them, as sentences.
    """

    recording: str
    device: str
    roofs: Roofs
    points: tuple[Point, ...]
    notes: tuple[str, ...]


def rooflines(recording: Recording) -> list[Roofline]:
    """Return a roofline of each device on which kernels were measured."""
    devices = recording.rows("devices")
    by_device: dict[int | None, list[KernelCounters]] = {}
    for each in measured(recording):
        by_device.setdefault(each.device_id, []).append(each)
    found: list[Roofline] = []
    for number, kernels in by_device.items():
        arguments = [arguments_of(recording, each) for each in kernels]
        found.append(roofline_of(kernels, arguments, {} if number is None else devices[number], recording.name))
    return found


def roofline_of(kernels: Sequence[KernelCounters], arguments: Sequence[str], device: Mapping[str, Any],
                name: str = "") -> Roofline:
    """Return the roofline of kernels that were measured on one device.

    Parameters
    ----------
    kernels : sequence of KernelCounters
        What was measured.
    arguments : sequence of str
        The argument types of each in brief.
    device : mapping
        The row of ``devices``; empty where it is not known.
    name : str
        The recording's.
    """
    own = [_peaks(each) for each in kernels]
    copy, notes = device.get("copy_bytes_per_second"), []
    is_roof = copy is not None
    fastest = max((each for each in kernels if _dram_rate(each)), key=_dram_rate, default=None)
    if copy is None:
        notes.append("The bandwidth of a copy on this device was not measured: DRAM's roof is its peak.")
    elif fastest is not None and _dram_rate(fastest) > copy:
        is_roof = False
        notes.append(f"A copy on this device reached {scaled(copy, 'B/s')}, and {cut(fastest.kernel)} "
                     f"{scaled(_dram_rate(fastest), 'B/s')}: DRAM's roof is its peak.")
    points = [_point(each, text, Roofs(*peaks, copy, is_roof))
              for each, text, peaks in zip(kernels, arguments, own, strict=True)]
    flops, rates = ({roof: statistics.median(each[side][roof] for each in own if roof in each[side]) for roof in roofs
                     if any(roof in each[side] for each in own)} for side, roofs in enumerate((PRECISIONS, LEVELS)))
    return Roofline(name, device.get("name") or "GPU", Roofs(flops, rates, copy, is_roof), tuple(points), tuple(notes))


def _dram_rate(each: KernelCounters) -> float:
    moved, lasted = each.value(LEVELS["DRAM"].moved), each.duration_ns
    return moved / lasted * 1e9 if moved and lasted else 0.0


def _peaks(each: KernelCounters) -> tuple[dict[str, float], dict[str, float]]:
    """Return the peaks while a kernel ran: of precisions, and of levels; what was not measured is left out."""
    flops = {name: _product(each.value(of.peak), each.value(_SM_CLOCK), of.of_peak) for name, of in PRECISIONS.items()}
    moved = {name: _product(each.value(of.peak), each.value(of.clock)) for name, of in LEVELS.items()}
    return ({name: value for name, value in flops.items() if value},
            {name: value for name, value in moved.items() if value})


def _product(*values: float | None) -> float:
    found = 1.0
    for each in values:
        found *= each or 0.0
    return found


def _point(each: KernelCounters, arguments: str, roofs: Roofs) -> Point:
    flops = {name: sum(count * each.values[metric] for metric, count in of.operations.items())
             for name, of in PRECISIONS.items() if each.total([*of.operations]) is not None}
    moved = {name: each.values[of.moved] for name, of in LEVELS.items() if of.moved in each.values}
    limits = {name: moved[name] / rate * 1e9 for name in moved if (rate := roofs.of_level(name))}
    limits |= {name: flops[name] / roofs.flops[name] * 1e9 for name in flops if name in roofs.flops and flops[name]}
    tensor = each.value(TENSOR)
    return Point(each, arguments, flops, moved, tensor, limits, tuple(_missing(each, flops, moved, limits, tensor)))


def _missing(each: KernelCounters, flops: Mapping[str, float], moved: Mapping[str, float], limits: Mapping[str, float],
             tensor: float | None) -> list[str]:
    said: list[str] = []
    lacking = [name for name in (*PRECISIONS, *LEVELS) if name not in flops and name not in moved]
    if each.duration_ns is None:
        said.append(f"its time was not measured ({DURATION})")
    if lacking:
        metrics = {name: [*PRECISIONS[name].operations] if name in PRECISIONS else [LEVELS[name].moved]
                   for name in lacking}
        refused = [name for name in lacking if {*metrics[name]} & {*each.missing}]
        if refused:
            said.append(f"the GPU did not give its {_and(refused)} counts")
        if len(refused) < len(lacking):
            said.append(f"its {_and([name for name in lacking if name not in refused])} counts were not measured: "
                        "measure the set roofline")
    roofless = [name for name in (*flops, *moved) if name not in limits and (flops.get(name) or name in moved)]
    if roofless:
        said.append(f"the peak of {_and(roofless)} was not measured")
    if tensor:
        said.append(f"{tensor:,.0f} tensor instructions a launch: their operations depend on the instruction's shape, "
                    "which is not counted, so they are left out")
    elif tensor is None and flops:
        said.append("instructions of tensor cores were not measured")
    return said


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
