"""Launch-overhead studies: what a launch costs the host, in several versions of a framework, and what differs.

::

    from kernelscope import studies

    result = studies.launch_overhead(["baseline=../numba-cuda-main", "v2=../numba-cuda"])
    result.plot()

Importing this package imports neither numba nor CUDA; its names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelscope.studies.benchmark_suite import read_benchmarks as read_benchmarks
    from kernelscope.studies.benchmark_suite import suite as suite
    from kernelscope.studies.breakdown import anatomy as anatomy
    from kernelscope.studies.calibration import calibrate as calibrate
    from kernelscope.studies.cases import Case as Case
    from kernelscope.studies.cases import built_in_cases as built_in_cases
    from kernelscope.studies.cases import case as case
    from kernelscope.studies.cases import select as select
    from kernelscope.studies.comparison import compare as compare
    from kernelscope.studies.environments import Workspace as Workspace
    from kernelscope.studies.environments import prepare as prepare
    from kernelscope.studies.overhead import StudyInterrupted as StudyInterrupted
    from kernelscope.studies.overhead import against as against
    from kernelscope.studies.overhead import launch_overhead as launch_overhead
    from kernelscope.studies.result import Measured as Measured
    from kernelscope.studies.result import StudyResult as StudyResult
    from kernelscope.studies.result import load as load
    from kernelscope.studies.statistics import judge as judge
    from kernelscope.studies.target import Target as Target
    from kernelscope.studies.target import parse_target as parse_target

_HOMES = {
    "Case": "cases",
    "Measured": "result",
    "StudyInterrupted": "overhead",
    "StudyResult": "result",
    "Target": "target",
    "Workspace": "environments",
    "against": "overhead",
    "anatomy": "breakdown",
    "calibrate": "calibration",
    "case": "cases",
    "built_in_cases": "cases",
    "compare": "comparison",
    "judge": "statistics",
    "launch_overhead": "overhead",
    "load": "result",
    "parse_target": "target",
    "prepare": "environments",
    "read_benchmarks": "benchmark_suite",
    "select": "cases",
    "suite": "benchmark_suite",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelscope.studies' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kernelscope.studies.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
