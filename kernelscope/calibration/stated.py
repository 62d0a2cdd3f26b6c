"""What a recording states of its own cost: the calibrated cost where it is known, an estimate otherwise."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernelscope.calibration import here
from kernelscope.calibration.files import Stored, stored
from kernelscope.calibration.model import Calibration


@dataclass(frozen=True)
class Stated:
    """The cost that a probe's launches are counted with.

    Attributes
    ----------
    cost_ns : float
        A launch.
    message : str
        What health says.
    facts : dict
        What the recording's metadata have of it as ``own_cost``: ``kind``, which is ``calibrated`` or ``estimated``; of
        a calibration also ``measured``, ``low_ns``, ``high_ns`` and whether a difference ``is_seen``.
    """

    cost_ns: float
    message: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


def estimated(cost_ns: float, detail: str) -> Stated:
    """Return what is stated of a cost that comes from a stand-in for a launch."""
    return Stated(cost_ns, f"estimated: {cost_ns:.0f} ns a launch with detail '{detail}'", {"kind": "estimated"})


def calibrated(calibration: Calibration) -> Stated:
    """Return what is stated of a cost that was measured on this machine."""
    added, detail = calibration.worst.added, calibration.setting.detail
    when = calibration.measured.date().isoformat()
    if added.is_seen:
        said = f"{added.middle_ns:.0f} ns a launch with detail '{detail}' ({added.low_ns:.0f} to {added.high_ns:.0f})"
    else:
        said = (f"no difference seen with detail '{detail}' ({added.low_ns:.0f} to {added.high_ns:.0f} ns a launch), "
                f"counted as {added.counted_ns:.0f} ns")
    return Stated(added.counted_ns, f"calibrated on this machine on {when}: {said}", {
        "kind": "calibrated", "measured": calibration.to_json()["measured"], "low_ns": added.low_ns,
        "high_ns": added.high_ns, "is_seen": added.is_seen})


def known(gpus: Collection[str | None], backend: str, detail: str, held: Stored | None = None,
          today: datetime | None = None) -> Calibration | None:
    """Return the calibration that holds for a recording of this process, the worst of several GPUs'; None without one.

    Parameters
    ----------
    gpus : collection of str or None
        The names of those that were launched on, None for the dry run's; where one of them was not calibrated,
        nothing is known.
    backend, detail : str
        As `Setting` has them.
    held : Stored, optional
        By default what the file held when this process first asked.
    today : datetime, optional
        The present.
    """
    held = of_process() if held is None else held
    found = [held.find(here.setting(gpu, backend, detail), today) for gpu in sorted(gpus, key=str)]
    sure = [each for each in found if each is not None]
    return max(sure, key=lambda each: each.worst.added.counted_ns) if sure and len(sure) == len(found) else None


@functools.cache
def of_process() -> Stored:
    """Return what is stored, read once a process."""
    return stored()
