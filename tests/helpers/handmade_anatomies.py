"""Anatomies with given times and noise, for tests of what is worked out from them and shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernelscope.studies.breakdown import LAUNCH, MeasuredBreakdown, PartReport
from kernelscope.studies.result import CaseReport, Measured, TargetReport

#: A launch with two arguments: each part's boundaries, and its time in nanoseconds.
PARTS: dict[str, tuple[str, str, float]] = {
    "configure": ("statement", "entered", 200.0), "dispatch": ("entered", "launched", 2500.0),
    "set-up": ("launched", "preparing", 1000.0), "argument 0": ("preparing", "prepared", 3000.0),
    "argument 1": ("preparing", "prepared", 3000.0), "configuration object": ("prepared", "submit", 700.0),
    "submit": ("submit", "submitted", 1400.0), "finish": ("submitted", "end", 400.0),
}
#: The same launch in a framework that prepares arguments where nobody sees it.
NATIVE: dict[str, tuple[str, str, float]] = {
    "configure": ("statement", "entered", 200.0), "dispatch": ("entered", "launched", 2500.0),
    "set-up": ("launched", "submit", 1000.0), "submit": ("submit", "submitted", 6000.0),
    "finish": ("submitted", "end", 400.0),
}
STAMPS_NS = 60.0
CASE = "2 arrays"


def anatomy(targets: Mapping[str, Mapping[str, float]], processes: int = 8, *, noise_ns: float = 10.0,
            left_over_ns: float = 50.0, native: Sequence[str] = (), unseen: Mapping[str, str] | None = None,
            case: str = CASE, is_dry_run: bool = False) -> MeasuredBreakdown:
    """Make an anatomy.

    Parameters
    ----------
    targets : mapping
        By label, what each part takes more than in `PARTS`, in nanoseconds; the first is the baseline.
    processes : int
        Of each target.
    noise_ns : float
        The standard deviation of a part between processes.
    left_over_ns : float
        What the launch takes more than its parts.
    native : sequence of str
        The targets that have the parts of `NATIVE`.
    unseen : mapping of str to str, optional
        Parts of the last target that cannot be timed, with the reason.
    """
    chance = np.random.default_rng(1)
    measured = Measured(
        [TargetReport(label, "current", "this environment", "numba-cuda", {"numba-cuda": "0.30.4"}, processes=processes)
         for label in targets],
        [CaseReport(case, "held(a, b)", "held = k[1, 1]", 2)], is_dry_run=is_dry_run,
        gpu={"name": "NVIDIA H100"}, host={"cores": 4, "pinned_to": [2], "noise": 0.01}, seconds=12.0)
    made = MeasuredBreakdown(measured)
    for place, (label, more) in enumerate(targets.items()):
        hidden = (unseen or {}) if place == len(targets) - 1 else {}
        parts = NATIVE if label in native else PARTS
        for key, (begin, end, _) in parts.items():
            note = f"{'ab'[int(key[-1])]}: array(float32, 1d, C)" if key.startswith("argument") else ""
            made.parts.append(PartReport(label, case, key, begin, end, note, hidden.get(key)))
        if label in native:
            made.parts.append(PartReport(label, case, "arguments", "submit", "submitted",
                                         reason="prepared in native code"))
        for process in range(processes):
            values = {key: value + more.get(key, 0.0) + float(chance.normal(0, noise_ns))
                      for key, (_, _, value) in parts.items()}
            for number in range(3):
                where = (label, case, process, number)
                bare = sum(values.values()) + left_over_ns
                made.times.append((*where, LAUNCH, bare, 0.0))
                made.times += [(*where, key, value + STAMPS_NS, STAMPS_NS) for key, value in values.items()
                               if key not in hidden]
                measured.batches.append((label, case, process, number, len(measured.batches), 0, 50,
                                         round(bare * 50), 0, 0, 0))
    return made
