"""Times as benchmarks, for programs that follow them over commits: Bencher Metric Format, and pytest-benchmark's JSON.

A `Benchmark` is a name with its measured times in nanoseconds and further measures. Kernels of a recording are
benchmarks here, cases of a study in `kernelscope.studies.benchmarks`; both are encoded by `bmf` and `pytest_benchmark`.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import ids
from kernelscope.analysis.launches import by_kernel, launch_phases
from kernelscope.errors import KernelScopeError
from kernelscope.progress import Progress
from kernelscope.recording.driver import FRAMEWORK as DRIVER
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.base import clean, shorten, write_text
from kernelscope.views.card.model import Overview

#: The benchmark of all kernels together.
WHOLE = "(whole recording)"
#: Bencher's own measure, in nanoseconds.
LATENCY = "latency"
_SUFFIX = ".json"
#: pytest-benchmark's version whose files these are like: 4 and 5 read them.
_VERSION = "4.0.0"
# Bencher takes 1024 letters.
_NAME = 1000
_NOT_ASKED = {"id": "unversioned", "time": None, "author_time": None, "dirty": False, "branch": "(unknown)",
              "error": "KernelScope does not ask for the commit"}


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes
    ----------
    name, group : str
        What is measured, and what it is compared with.
    times_ns : ndarray of float64
        What it took, once for each launch, or for each process of a study; none where it has no times of its own.
    interval_ns : tuple of float or None
        Where the median is, or most times are.
    measures : mapping of str to float
        Further values by Bencher's names of measures: times end in ``-time`` and are in nanoseconds.
    facts : mapping
        What else there is to know, by name.
    """

    name: str
    group: str
    times_ns: NDArray[np.float64]
    interval_ns: tuple[float, float] | None = None
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


def bmf(benchmarks: Sequence[Benchmark]) -> str:
    """Return benchmarks in Bencher Metric Format (https://bencher.dev/docs/reference/bencher-metric-format), as JSON.

    ``latency`` is the median time in nanoseconds with its interval; the other measures have their name's unit.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for each in benchmarks:
        measures: dict[str, dict[str, float]] = {}
        if len(each.times_ns):
            measures[LATENCY] = {"value": float(np.median(each.times_ns))}
            if each.interval_ns is not None:
                low, high = each.interval_ns
                measures[LATENCY] |= {"lower_value": low, "upper_value": high}
        found[each.name] = measures | {name: {"value": value} for name, value in each.measures.items()}
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def pytest_benchmark(benchmarks: Sequence[Benchmark], machine: Mapping[str, Any], created: str | None) -> str:
    """Return benchmarks that have times as ``pytest --benchmark-json`` writes them, in seconds, without each time.

    Parameters
    ----------
    benchmarks : sequence of Benchmark
        What to write.
    machine : mapping
        The member ``machine_info``.
    created : str or None
        When it was measured, in ISO 8601.
    """
    rows = [{
        "group": each.group, "name": each.name, "fullname": f"kernelscope::{each.name}", "params": None, "param": None,
        "extra_info": {**each.facts, **each.measures}, "options": {"timer": "kernelscope", "warmup": False},
        "stats": _stats(each.times_ns / 1e9),
    } for each in benchmarks if len(each.times_ns)]
    return json.dumps({"machine_info": dict(machine), "commit_info": _NOT_ASKED, "benchmarks": rows,
                       "datetime": created, "version": _VERSION}, indent=1, allow_nan=False) + "\n"


def _stats(times_s: NDArray[np.float64]) -> dict[str, Any]:
    """Return pytest-benchmark's statistics of times in seconds."""
    known: list[float] = np.sort(times_s).tolist()
    size, total = len(known), float(times_s.sum())
    mean, deviation = total / size, float(times_s.std(ddof=1)) if size > 1 else 0.0
    q1, q3 = _quartile(known), _quartile(known[::-1])
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    inside = known[bisect_left(known, low):bisect_right(known, high)]
    far = sum(not mean - deviation <= each <= mean + deviation for each in known)
    return {
        "min": known[0], "max": known[-1], "mean": mean, "stddev": deviation, "rounds": size,
        "median": float(np.median(known)), "iqr": q3 - q1, "q1": q1, "q3": q3, "iqr_outliers": size - len(inside),
        "stddev_outliers": far, "outliers": f"{far};{size - len(inside)}", "ld15iqr": inside[0], "hd15iqr": inside[-1],
        "ops": size / total if total else 0.0, "total": total, "iterations": 1,
    }


def _quartile(known: Sequence[float]) -> float:
    """Return the first quartile of sorted values, or the third of values sorted downwards, as pytest-benchmark does.

    Of an even number of values it is the median of a half; of an odd one it is interpolated: methods 2 and 3 of
    https://en.wikipedia.org/wiki/Quartile#Computing_methods.
    """
    size, place = len(known), len(known) // 4
    if size == 1:
        return known[0]
    if size % 2 == 0:
        return float(np.median(known[:size // 2]))
    if size % 4 == 1:
        return 0.25 * known[place - 1] + 0.75 * known[place]
    return 0.75 * known[place] + 0.25 * known[place + 1]


def kernel_benchmarks(recording: Recording) -> list[Benchmark]:
    """Return each kernel's launches as a benchmark, and all of them together as `WHOLE`, which comes first.

    Times are those of the host inside a launch, without compiles, as the card has them; the interval has the middle
    half of them.
    """
    shown = Overview(recording)
    phases = launch_phases(recording)
    dispatcher, launching = ids(recording, "launches", "dispatcher_id"), phases.launching_ns
    order = np.argsort(dispatcher, kind="stable")
    starts = np.searchsorted(dispatcher[order], np.arange(recording.arrow("dispatchers").num_rows + 1))
    gpu = shown.gpu
    measures = {"launches": shown.launches, "compiles": shown.compiles, "compile-time": shown.compile_ns,
                "graph-launches": shown.graph_launches, "launch-time": shown.totals.host_ns, "wall-time": shown.wall_ns,
                "gpu-time": gpu.execute.total_ns if gpu is not None and gpu.execute is not None else None}
    found = [Benchmark(WHOLE, "recording", np.empty(0), measures=_known(measures))]
    taken: dict[str, int] = {WHOLE: 1}
    for kernel in by_kernel(recording, phases):
        at = kernel.dispatcher_id
        own = launching[order[starts[at]:starts[at + 1]]]
        times = own[own >= 0].astype(np.float64)
        run = None if gpu is None else gpu.execution.by_id([at]).get(at)
        is_hooked = kernel.framework != DRIVER
        measures = {"launches": kernel.launches, "compiles": kernel.compiles if is_hooked else None,
                    "compile-time": kernel.compile_ns if is_hooked else None,
                    "gpu-time": run.execute.p50_ns if run is not None and run.execute is not None else None}
        low, high = (float(each) for each in np.percentile(times, (25, 75))) if len(times) else (0.0, 0.0)
        # A name that no benchmark has yet: kernels of one name are numbered in order of their time.
        said = shorten(clean(kernel.name), _NAME)
        taken[said] = taken.get(said, 0) + 1
        found.append(Benchmark(
            said if taken[said] == 1 else f"{said} #{taken[said]}", kernel.framework, times,
            (low, high) if len(times) else None,
            _known(measures), {"framework": kernel.framework}))
    return found


def _known(measures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in measures.items() if value is not None}


def to_bmf(recording: Recording, path: str | Path, *, paths: bool = False, progress: Progress | None = None) -> Path:
    """Write a recording's kernels in Bencher Metric Format, and return the path.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to; ``.json`` is added to a name without a suffix. An existing file is replaced.
    paths : bool
        Of no effect: there are none in it.
    progress : callable, optional
        Of no effect: it takes no time to speak of.

    Raises
    ------
    RecordingFileError
        It cannot be written.
    """
    return write_text(path, _SUFFIX, bmf(kernel_benchmarks(shareable(recording))))


def to_pytest_benchmark(recording: Recording, path: str | Path, *, paths: bool = False,
                        progress: Progress | None = None) -> Path:
    """Write a recording's kernels that were launched as pytest-benchmark writes benchmarks, and return the path.

    Parameters and errors are those of `to_bmf`.

    Raises
    ------
    KernelScopeError
        No launch was timed.
    """
    shown = shareable(recording)
    found = kernel_benchmarks(shown)
    if not any(len(each.times_ns) for each in found):
        raise KernelScopeError("there is no benchmark to write: the recording has no launch whose time is known")
    held: Any = shown.metadata
    machine = {"machine": "recorded", "system": held.get("platform"), "python_version": held.get("python"),
               "cpu": {"count": held.get("cpus")}, "gpu": [row["name"] for row in shown.rows("devices")],
               "dry_run": shown.is_dry_run}
    return write_text(path, _SUFFIX, pytest_benchmark(found, machine, held.get("created")))
