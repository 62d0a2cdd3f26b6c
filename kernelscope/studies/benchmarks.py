"""A study's cases as benchmarks in the formats of other programs: see `kernelscope.views.benchmarks`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from kernelscope.studies.files import load_study, write
from kernelscope.studies.result import Measured, StudyResult
from kernelscope.studies.statistics import samples
from kernelscope.views.base import clean
from kernelscope.views.benchmarks import Benchmark, bmf, pytest_benchmark


def case_benchmarks(result: StudyResult) -> list[Benchmark]:
    """Return each case of each target as a benchmark: a time for each process, and the interval of their median."""
    found = samples(result.measured)
    only = len(result.targets) == 1
    return [Benchmark(
        clean(each.case if only else f"{each.case} [{each.target}]"), clean(each.case),
        found[each.target, each.case].medians() * 1e3,
        (each.low_us * 1e3, each.high_us * 1e3) if math.isfinite(each.high_us - each.low_us) else None,
        facts={"target": clean(each.target), "case": clean(each.case), "batches": each.batches},
    ) for each in result.estimates]


def to_bmf(path: str, output: str) -> Path:
    """Write a saved study in Bencher Metric Format, and return where.

    Raises
    ------
    StudyFileError
        The file is no study, or nothing can be written there.
    """
    return _written(path, output, lambda result: bmf(case_benchmarks(result)))


def to_pytest_benchmark(path: str, output: str) -> Path:
    """Write a saved study as pytest-benchmark writes benchmarks, and return where; raises as `to_bmf` does."""
    return _written(path, output, lambda result: pytest_benchmark(
        case_benchmarks(result), _machine(result.measured), result.measured.created or None))


def _written(path: str, output: str, encode: Callable[[StudyResult], str]) -> Path:
    return write(output, encode(StudyResult(load_study(path))).encode("ascii"), ".json")


def _machine(measured: Measured) -> dict[str, object]:
    host = measured.host
    return {"machine": "measured", "system": host.get("system"),
            "cpu": {"brand_raw": host.get("processor"), "count": host.get("cores")}, "gpu": measured.gpu.get("name"),
            "dry_run": measured.is_dry_run}
