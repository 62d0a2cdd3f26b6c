"""Studies that nobody measured: their costs are given, and their noise is like that of real ones.

A process of a target has its own speed (a factor), its batches scatter around that, and the machine drifts slowly for
all of them. The same arguments make the same study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelscope.studies.result import BatchRow, CaseReport, Measured, TargetReport

#: What a launch costs in microseconds, by target and number of arguments: a study like those of the field.
COSTS: dict[str, dict[int | str, float]] = {
    "baseline": {0: 4.10, 1: 4.85, 2: 5.40, 3: 5.95, 4: 6.50},
    "contextvar": {0: 6.20, 1: 6.95, 2: 7.50, 3: 8.05, 4: 8.60},
    "v2": {0: 4.15, 1: 4.87, 2: 5.41, 3: 5.95, 4: 6.51},
    "mlir": {0: 2.05, 1: 2.42, 2: 2.70, 3: 2.97, 4: 3.25},
}
#: Names that must neither run, nor break a table, nor show themselves as something else.
HOSTILE = ("<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "two\nlines\tand a tab", "gnp\u202egpj.exe",
           "'\"><img src=x onerror=alert(1)>", "long " * 40 + "end", "\u0645\u0631\u062d\u0628\u0627", "宽宽宽宽")


def measured(
    costs: Mapping[str, Mapping[Any, float]] = COSTS, *, processes: int = 16, repeats: int = 5, between: float = 0.012,
    within: float = 0.02, loops: int = 2000, seed: int = 0, cases: Sequence[CaseReport] | None = None, **changes: Any,
) -> Measured:
    """Return a study with these costs, in microseconds by target and case.

    A case that is a number is an empty kernel with so many arguments. A case that a target lacks is unavailable there.

    Parameters
    ----------
    costs : mapping
        Target to case to microseconds a launch.
    processes, repeats, loops : int
        Processes of each target, batches of a case in each, and launches of a batch.
    between, within : float
        Relative standard deviation between processes, and of the batches of one.
    seed : int
        Of the noise.
    cases : sequence of CaseReport, optional
        How the cases look; by default as their names say.
    **changes
        Fields of `Measured` that are to be others.
    """
    rng = np.random.default_rng(seed)
    names = list(dict.fromkeys(name for of in costs.values() for name in of))
    held = list(cases) if cases is not None else [case(name) for name in names]
    labels = dict(zip(names, (each.name for each in held), strict=True))
    batches: list[BatchRow] = []
    start, drift = 0, 0.0
    for process in range(processes):
        speed = {target: 1 + between * rng.standard_normal() for target in costs}
        for turn in range(repeats):
            drift += 0.001 * rng.standard_normal()
            for name in rng.permutation(np.array(names, dtype=object)):
                for target in rng.permutation(np.array(list(costs), dtype=object)):
                    if name not in costs[target]:
                        continue
                    scatter = 1 + within * abs(rng.standard_normal())
                    host_ns = round(costs[target][name] * 1000 * loops * speed[target] * scatter * (1 + drift))
                    batches.append((target, labels[name], process, turn, len(batches), start, loops, host_ns, 9000, 0,
                                    0))
                    start += host_ns + 40_000
    values: dict[str, Any] = {
        "targets": [_target(label, [labels[name] for name in names if name not in of], processes)
                    for label, of in costs.items()],
        "cases": held,
        "batches": batches,
        "host": {"processor": "Example CPU 9000", "cores": 8, "pinned_to": [3], "system": "Linux 6.8",
                 "governor": "performance", "clock_resolution_ns": 1, "clock_read_ns": 38, "load_before": 0.21,
                 "load_after": 1.04, "noise": 0.004},
        "gpu": {"name": "NVIDIA H100 80GB HBM3", "driver": "580.95.05", "cuda": "13.0", "clocks_mhz": {"sm": 1980}},
        "settings": {"args": "0-4", "loops": None, "repeats": repeats, "processes": processes, "half_width": 0.01,
                     "limit_s": None, "seed": seed, "install": True},
        "created": "2026-11-22T02:30:00+00:00",
        "seconds": start / 1e9 + 2.5 * processes,
        "ended": "all processes",
        **changes,
    }
    return Measured(**values)


def case(name: int | str) -> CaseReport:
    """Return a case as it is reported: an empty kernel for a number, else one of one's own."""
    if isinstance(name, int):
        arguments = ", ".join(f"a{place}" for place in range(name))
        called = f"{name} arg" if name == 1 else f"{name} args"
        return CaseReport(called, f"held({arguments})", args=name, group="empty")
    return CaseReport(name, "work[1, 1](a)", setup="a = cuda.to_device(np.zeros(4))")


def dry_run(**changes: Any) -> Measured:
    """Return a study of two targets on the dry run."""
    costs = {label: COSTS[label] for label in ("baseline", "v2")}
    return measured(costs, **{"is_dry_run": True, "gpu": {"name": "dry run", "driver": "", "cuda": "13.0"}, **changes})


def troubled() -> Measured:
    """Return a study in which something went wrong with each target but the baseline."""
    costs: dict[str, dict[Any, float]] = {
        "baseline": {**COSTS["baseline"], "graph launch": 2.4},
        "old": dict(COSTS["v2"]),  # it has no graphs
        "gone": {},
    }
    study = measured(costs, ended="time limit", notes=["A recording was under way in this process."])
    old, gone = study.targets[1:]
    old.unavailable = {"graph launch": "numba-cuda 0.20.0 has no cuda.graph"}
    old.warnings = ["its processes were killed twice and started again"]
    gone.unavailable, gone.framework, gone.versions, gone.processes = {}, "", {}, 0
    gone.error = "pip install numba-cuda==99 failed: no matching distribution found"
    return study


def hostile() -> Measured:
    """Return a study whose labels, cases and messages are hostile names."""
    costs = {name: {other: 4.0 + place / 10 for other in HOSTILE} for place, name in enumerate(HOSTILE[:4])}
    study = measured(costs, processes=4, notes=list(HOSTILE), host={"processor": HOSTILE[0], "governor": HOSTILE[4]},
                     gpu={"name": HOSTILE[0]})
    for target in study.targets:
        target.error = target.source = target.revision = HOSTILE[0]
        target.versions = {HOSTILE[0]: HOSTILE[4]}
        target.warnings = list(HOSTILE)
    return study


def _target(label: str, missing: Sequence[str], processes: int) -> TargetReport:
    return TargetReport(
        label, "requirement", f"numba-cuda=={label}", "numba-cuda",
        {"python": "3.12.1", "numba": "0.62.1", "numba-cuda": "0.30.4", "cuda-bindings": "13.0.1", "numpy": "2.4.1"},
        unavailable={name: "it is not in this version" for name in missing}, processes=processes)
