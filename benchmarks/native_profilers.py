"""KernelScope against other profilers on the same launches, for benchmarks/native.py.

Each group of profilers is a process of its own, because some leave traces in their process: CUPTI makes launches slower
for good once it was used. Only what a profiler adds while it records counts, and not what it saves.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from native_ways import (
    AGAIN,
    OFF,
    WARM_UP,
    Moments,
    Part,
    Way,
    estimate,
    kernel_of,
    launch,
    microseconds,
    paired,
    per_launch_ns,
    rounds,
    ways,
)

from kernelscope import dryrun

#: KernelScope's own ways begin so.
OURS = ("launch", "phases")
Recording = Callable[[], AbstractContextManager[Any]]


def profilers(most: int = 20, launches: int = 10_000, seconds: float = 150.0,
              arguments: tuple[int, ...] = (0, 4)) -> Part:
    """What each profiler adds to a launch, in its usual way of use, and how many times what KernelScope adds."""
    part = Part()
    ours: dict[int, float] = {}
    groups = [name for name, (needs, on_gpu, _) in GROUPS.items() if not _lacks(part, name, needs, on_gpu)]
    for name in groups:
        # Half of the time for the group that has most to compare.
        allowed = seconds if len(groups) == 1 else seconds / 2 if name == "python" else seconds / 2 / (len(groups) - 1)
        options = ["--group", name, "--rounds", most, "--launches", launches, "--seconds", allowed,
                   "--arguments", *arguments]
        with subprocess.Popen([sys.executable, *(f"-W{option}" for option in sys.warnoptions), __file__,
                               *map(str, options)], stdout=subprocess.PIPE, text=True) as ran:
            assert ran.stdout is not None
            for line in ran.stdout:  # as they come: what is there stays, should time be up
                if line.startswith("{"):
                    _rows(part, json.loads(line), ours)
        if ran.returncode:
            part.missing.append(f"profilers, {name}: exit status {ran.returncode}, its stderr says why")
    return part


def _lacks(part: Part, name: str, needs: str | None, on_gpu: bool) -> bool:
    """Whether a group cannot be measured here, which is noted."""
    reason = None
    if needs and find_spec(needs) is None:
        reason = f"{needs} is not installed"
    elif on_gpu and dryrun.is_enabled():
        reason = "a dry run has no GPU"
    if reason:
        part.missing.append(f"profilers, {name}: {reason}")
    return reason is not None


def _rows(part: Part, answer: dict[str, Any], ours: dict[int, float]) -> None:
    count = answer["arguments"]
    part.missing += [text for text in answer["missing"] if text not in part.missing]
    for way, found in answer["ways"].items():
        added = found["added_ns"]
        if way == "phases":
            ours[count] = added["median"]
        words = f"{microseconds(added)} of {found['base_ns'] / 1e3:.2f} µs"
        own = ours.get(count, 0.0)
        ratio = added["median"] / own if found["compared"] and own > 0 else None
        words += "" if ratio is None else f"; {ratio:.0f} times what KernelScope adds"
        part.add(f"added to a launch by {way}: {count} arrays, {answer['launches']:,} launches", words,
                 "no difference" if way == AGAIN.name else "",
                 arguments=count, way=way, ratio=ratio, fresh_ns=answer["fresh_ns"], **found)


def python_group(missing: list[str]) -> dict[str, Recording]:
    """KernelScope, viztracer and cProfile."""
    from cProfile import Profile

    found: dict[str, Recording] = {way.name: partial(_recorded, way) for way in ways()}
    if find_spec("viztracer") is None:
        missing.append("viztracer: it is not installed")
    else:
        found[f"viztracer {importlib.metadata.version('viztracer')}"] = _viztracer
    found["cProfile"] = Profile
    return found


def torch_group(missing: list[str]) -> dict[str, Recording]:
    """torch.profiler's CPU side: as it is, and with Python's calls, as is usual for Python code."""
    from torch.profiler import ProfilerActivity, profile

    return {"torch.profiler, CPU": lambda: profile(activities=[ProfilerActivity.CPU]),
            "torch.profiler, CPU, with_stack": lambda: profile(activities=[ProfilerActivity.CPU], with_stack=True)}


def torch_gpu_group(missing: list[str]) -> dict[str, Recording]:
    """torch.profiler with the GPU's side, which needs CUPTI."""
    from torch.profiler import ProfilerActivity, profile

    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    return {"torch.profiler, CPU and CUDA": lambda: profile(activities=both),
            "torch.profiler, CPU and CUDA, with_stack": lambda: profile(activities=both, with_stack=True)}


def cupti_group(missing: list[str]) -> dict[str, Recording]:
    """KernelScope with the GPU's side, which needs CUPTI."""
    return {"phases, with CUPTI": partial(_recorded, Way("with CUPTI", "phases", gpu="cupti"))}


#: What each needs: a package, a GPU.
GROUPS: dict[str, tuple[str | None, bool, Callable[[list[str]], dict[str, Recording]]]] = {
    "python": (None, False, python_group),
    "torch": ("torch", False, torch_group),
    "torch-gpu": ("torch", True, torch_gpu_group),
    "cupti": (None, True, cupti_group),
}


@contextmanager
def _recorded(way: Way) -> Iterator[None]:
    recorder = way.start()
    try:
        yield
    finally:
        if recorder is not None:
            recorder.stop()


@contextmanager
def _viztracer() -> Iterator[None]:
    """What ``with VizTracer(output_file=...)`` does to the block; saving, which takes seconds, is left out."""
    from viztracer import VizTracer

    with tempfile.TemporaryDirectory() as folder:
        tracer = VizTracer(output_file=str(Path(folder) / "result.json"), verbose=0)
        tracer.start()
        try:
            yield
        finally:
            tracer.stop()
            tracer.clear()
            tracer.terminate()


def measure(group: str, most: int, launches: int, seconds: float, arguments: int) -> dict[str, Any]:
    """Measure one group in this process; with the first arguments, the first batches are before any of it has run."""
    from numba import cuda

    missing: list[str] = []
    kernel, given = kernel_of(arguments)
    times: dict[str, list[float]] = {}
    quiet: dict[str, list[bool]] = {}
    with Moments(pinned=True) as moments:
        fresh = [_batch(kernel, given, None, launches, moments)[0] for _ in range(3)]
        cuda.synchronize()
        ways_of: dict[str, Recording | None] = {OFF.name: None, AGAIN.name: None, **GROUPS[group][2](missing)}
        orders = np.random.default_rng(0)
        for _ in rounds(most, seconds, least=3):
            moments.seek()
            for name in orders.permutation(list(ways_of)).tolist():
                taken, still = _batch(kernel, given, ways_of[name], launches, moments)
                times.setdefault(name, []).append(taken)
                quiet.setdefault(name, []).append(still)
    found: dict[str, Any] = {}
    for name in list(ways_of)[1:]:
        both = [one and other for one, other in zip(quiet[OFF.name], quiet[name], strict=True)]
        found[name] = {**paired(times[OFF.name], times[name], both),
                       "compared": not name.startswith(OURS) and name != AGAIN.name}
    return {"ways": found, "missing": missing, "launches": launches, "arguments": arguments,
            "fresh_ns": estimate(fresh)}


def _batch(kernel: Any, given: tuple[Any, ...], recording: Recording | None, launches: int,
           moments: Moments) -> tuple[float, bool]:
    """Nanoseconds a launch, and whether before and after it were quiet moments; the garbage collector is on."""
    from numba import cuda

    gc.collect()
    before = moments.is_quiet()
    if recording is None:
        launch(kernel, given, WARM_UP)
        cuda.synchronize()
        taken = per_launch_ns(kernel, given, launches)
    else:
        with recording():
            launch(kernel, given, WARM_UP)
            cuda.synchronize()
            taken = per_launch_ns(kernel, given, launches)
    quiet = before and moments.is_quiet()
    cuda.synchronize()
    return taken, quiet


def main() -> int:
    """Measure one group, for `profilers`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", choices=list(GROUPS), default="python")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--arguments", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    allowed = options.seconds / len(options.arguments)
    for count in options.arguments:
        found = measure(options.group, options.rounds, options.launches, allowed, count)
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
