"""The machine that a study ran on: its processor, what governs its clock, how busy it is."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelscope.calibration.here import processor

_SAMPLE_S = 0.1
_MOST_CORES = 16  # that are tried in turn
_IDLE = (3, 4)  # the places of idle and iowait among a core's times in /proc/stat


def describe(cores: Sequence[int], root: Path = Path("/")) -> dict[str, Any]:
    """Return what is known of this machine, as `Measured.host` has it.

    Parameters
    ----------
    cores : sequence of int
        The cores that processes are put on; none where they are not.
    root : Path
        Where ``/proc`` and ``/sys`` are.
    """
    usable = usable_cores()
    first = [*cores, *usable, 0][0]
    return {
        "processor": processor(root),
        "cores": os.cpu_count(),
        "usable_cores": len(usable) or None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "governor": _read(root / f"sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor"),
        "load_before": load(),
    }


def load() -> float | None:
    """Return how many processes ran or waited to run, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def usable_cores() -> list[int]:
    """Return the processor cores that this process may use; none where the system does not tell."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return []


def choose_cores(root: Path = Path("/")) -> tuple[int, ...]:
    """Return cores to be on, the one first that was idle most just now; none where processes cannot be put on a core.

    Not the first core, which serves interrupts, where there are others; and those only that are as near to memory and
    devices as the first that is returned: the others of its NUMA node.
    """
    cores = usable_cores()
    if not cores:
        return ()
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        return ()
    before = idle_times(root)
    time.sleep(_SAMPLE_S)
    after = idle_times(root)
    choice = cores[1:] or cores
    choice.sort(key=lambda core: (before.get(core, 0) - after.get(core, 0), -core))
    near = _node(choice[0], root)
    return tuple(core for core in choice if near is None or core in near)[:_MOST_CORES]


def together(targets: int) -> int:
    """Return of how many generations the processes of so many targets may start side by side.

    A process keeps one core busy while it starts. More than four generations would save little, and each process holds
    some hundred megabytes of the GPU.
    """
    return max(1, min(4, len(usable_cores()) // max(1, targets)))


def idle_times(root: Path = Path("/")) -> dict[int, int]:
    """Return how long each core was idle, in the system's ticks."""
    times: dict[int, int] = {}
    for line in (_read(root / "proc/stat") or "").splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(numbers) > max(_IDLE):
            with suppress(ValueError):
                times[int(name[3:])] = sum(int(numbers[place]) for place in _IDLE)
    return times


def _node(core: int, root: Path) -> set[int] | None:
    """The cores of a core's NUMA node, or None where the system does not tell."""
    for path in sorted((root / "sys/devices/system/node").glob("node[0-9]*/cpulist")):
        held: set[int] = set()
        for part in (_read(path) or "").split(","):
            first, _, last = part.partition("-")
            with suppress(ValueError):
                held.update(range(int(first), int(last or first) + 1))
        if core in held:
            return held
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
