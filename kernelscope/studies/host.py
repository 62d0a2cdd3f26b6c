"""The machine that a study ran on: its processor, what governs its clock, how busy it is."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_SAMPLE_S = 0.1
_IDLE = (3, 4)  # the places of idle and iowait among a core's times in /proc/stat


def describe(core: int | None, root: Path = Path("/")) -> dict[str, Any]:
    """Return what is known of this machine, as `Measured.host` has it.

    Parameters
    ----------
    core : int or None
        The core that processes are put on; None where they are not.
    root : Path
        Where ``/proc`` and ``/sys`` are.
    """
    cores = usable_cores()
    first = core if core is not None else (cores or [0])[0]
    return {
        "processor": _processor(root),
        "cores": os.cpu_count(),
        "usable_cores": len(cores) or None,
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


def choose_core(root: Path = Path("/")) -> int | None:
    """Return the core that was idle most just now, and not the first, which serves interrupts, where there are others.

    None where there is no choice, or where processes cannot be put on a core.
    """
    cores = usable_cores()
    if not cores:
        return None
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        return None
    before = idle_times(root)
    time.sleep(_SAMPLE_S)
    after = idle_times(root)
    choice = cores[1:] or cores
    return max(choice, key=lambda core: (after.get(core, 0) - before.get(core, 0), core))


def idle_times(root: Path = Path("/")) -> dict[int, int]:
    """Return how long each core was idle, in the system's ticks."""
    times: dict[int, int] = {}
    for line in (_read(root / "proc/stat") or "").splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(numbers) > max(_IDLE):
            with suppress(ValueError):
                times[int(name[3:])] = sum(int(numbers[place]) for place in _IDLE)
    return times


def _processor(root: Path) -> str:
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
