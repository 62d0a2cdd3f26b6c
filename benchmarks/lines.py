"""Measures what knowing each line costs: KernelScope, line_profiler and torch.profiler on the same cells.

    python benchmarks/lines.py [--only CELL ...] [--rounds N] [--seconds S] [--output FILE] [--quick]

Each cell runs under nothing, twice, and under each tool, in a random order each round, all in one process.
torch.profiler has a process of its own with its own runs under nothing, because it takes CUPTI over for the rest of its
process. In each recording the cell runs twice: the first run has what a tool does at the first sight of a line or of a
kernel, and the second what it does from then on. Starting, stopping and reading what was recorded are a column of their
own. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np
from figures import machine
from native_ways import Moments, estimate, paired, rounds

import kernelscope
from kernelscope import dryrun
from kernelscope.recorder.options import RecordingOptions

Estimate = dict[str, float]
#: What is compared with, and the names of ours.
OFF, AGAIN, OURS = "nothing", "nothing, again", "KernelScope, lines"


# The cells. What the host does between launches is `relax`, three lines that are called: line_profiler watches them as
# it does the cell's, torch.profiler sees the call.

def relax(value: float, number: int) -> float:
    value = value * 0.999
    value += number & 3
    return value


def launching(kernel: Any, array: Any, wait: Callable[[], None], launches: int, between: int) -> float:
    value = 0.0
    for _ in range(launches):
        kernel(array)
        for number in range(between):
            value = relax(value, number)
    wait()
    return value


def training(net: Any, optimizer: Any, batch: Any, wait: Callable[[], None], steps: int, between: int) -> float:
    value = 0.0
    for _ in range(steps):
        loss = net(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for number in range(between):
            value = relax(value, number)
    wait()
    return value


@dataclass(frozen=True)
class Cell:
    """One cell: what runs, and how it is described.

    Attributes
    ----------
    about : str
        What it does.
    needs : str
        The package that it is of.
    prepare : callable
        Takes whether it is to be quick, and returns what runs the cell once.
    """

    about: str
    needs: str
    prepare: Callable[[bool], Callable[[], Any]]


def loop(launches: int, between: int) -> Callable[[bool], Callable[[], Any]]:
    """Launches of an empty numba kernel with calls of `relax` between them."""
    def prepare(quick: bool) -> Callable[[], Any]:
        from numba import cuda

        @cuda.jit
        def empty(array):
            pass

        kernel, array = empty[1, 32], cuda.device_array(1024, np.float32)
        many = (min(launches, 20), min(between, 50)) if quick else (launches, between)
        return lambda: launching(kernel, array, cuda.synchronize, *many)

    return prepare


def step(steps: int, between: int) -> Callable[[bool], Callable[[], Any]]:
    """Training steps of a network of three small layers with calls of `relax` between them."""
    def prepare(quick: bool) -> Callable[[], Any]:
        import torch

        torch.manual_seed(0)
        layers = (torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU())
        net = torch.nn.Sequential(*layers, torch.nn.Linear(256, 1)).cuda()
        optimizer, batch = torch.optim.SGD(net.parameters(), lr=1e-4), torch.randn(64, 256, device="cuda")
        many = (min(steps, 5), min(between, 50)) if quick else (steps, between)
        return lambda: training(net, optimizer, batch, torch.cuda.synchronize, *many)

    return prepare


CELLS = {
    "lines": Cell("100 launches of an empty numba kernel, and 2,000 calls of a function of three lines after each",
                  "numba", loop(100, 2000)),
    "launches": Cell("5,000 launches of an empty numba kernel in a loop, and nothing between them", "numba",
                     loop(5000, 0)),
    "training": Cell("100 training steps in torch (three linear layers, batch 64, SGD), and 400 calls of a function of "
                     "three lines after each", "torch", step(100, 400)),
}


# The tools.

Recording = Callable[[], AbstractContextManager[Any]]


def own_tools(missing: list[str]) -> dict[str, Recording]:
    """Ours, and line_profiler, which shares a process with it."""
    gpu = "none" if dryrun.is_enabled() else "cupti"
    found: dict[str, Recording] = {
        "KernelScope, no lines": lambda: kernelscope.record(gpu=gpu, lines=False),
        OURS: lambda: kernelscope.record(gpu=gpu),
    }
    if "stacks" in {each.name for each in fields(RecordingOptions)}:
        options: dict[str, Any] = {"gpu": gpu, "stacks": True}
        found["KernelScope, stacks"] = lambda: kernelscope.record(**options)
    if find_spec("line_profiler") is None:
        missing.append("line_profiler: it is not installed")
    else:
        found[f"line_profiler {importlib.metadata.version('line_profiler')}"] = line_profiled
    return found


@contextmanager
def line_profiled() -> Iterator[None]:
    """line_profiler on the cell's function and on the one that it calls, as ``%lprun -f`` has them."""
    from line_profiler import LineProfiler

    profiler = LineProfiler(launching, training, relax)
    profiler.enable_by_count()
    try:
        yield
    finally:
        profiler.disable_by_count()
        profiler.get_stats()


def torch_tools(missing: list[str]) -> dict[str, Recording]:
    """torch.profiler with stacks, of the CPU and of CUDA."""
    if find_spec("torch") is None or dryrun.is_enabled():
        missing.append("torch.profiler: " + ("a dry run has no GPU" if dryrun.is_enabled() else "it is not installed"))
        return {}
    import torch
    from torch.profiler import ProfilerActivity, profile

    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    return {f"torch.profiler {torch.__version__.partition('+')[0]}, with_stack":
            lambda: profile(activities=both, with_stack=True)}


GROUPS = {"ours": own_tools, "torch": torch_tools}


# Measuring.

def measure(group: str, name: str, most: int, seconds: float, quick: bool) -> dict[str, Any]:
    """Times of one cell under nothing and under each tool of a group, in this process."""
    missing: list[str] = []
    run = CELLS[name].prepare(quick)
    tools: dict[str, Recording] = {OFF: nullcontext, AGAIN: nullcontext, **GROUPS[group](missing)}
    run()
    kernels: dict[str, int] = {}
    times: dict[str, list[tuple[float, float, float]]] = {}
    quiet: dict[str, list[bool]] = {}
    orders = np.random.default_rng(0)
    with Moments(pinned=False) as moments:  # autograd has threads of its own
        for number in rounds(most, seconds, least=2 if quick else 3):
            for tool in orders.permutation(list(tools)).tolist():
                run()  # none finds what another has left
                gc.collect()
                before = moments.is_quiet()
                taken, recording = timed(run, tools[tool])
                quiet.setdefault(tool, []).append(before and moments.is_quiet())
                times.setdefault(tool, []).append(taken)
                if tool == OURS and number == 0:
                    kernels = kernels_of(recording)
    found: dict[str, Any] = {}
    for tool in list(tools)[1:]:
        both = [one and other for one, other in zip(quiet[OFF], quiet[tool], strict=True)]
        found[tool] = {key: paired([each[at] for each in times[OFF]], [each[at] for each in times[tool]], both)
                       for at, key in enumerate(("first", "second"))}
        found[tool]["around_ns"] = estimate([each[2] for each in times[tool]])
    return {"cell": name, "group": group, "tools": found, "missing": missing, "lines": executed_lines(run), **kernels}


def timed(run: Callable[[], Any], tool: Recording) -> tuple[tuple[float, float, float], Any]:
    """Nanoseconds of the first and the second run under a tool, and of what the tool does around them."""
    clock = time.perf_counter_ns
    begin = clock()
    used = tool()
    used.__enter__()
    started = clock()
    run()
    between = clock()
    run()
    ended = clock()
    used.__exit__(None, None, None)
    done = clock()
    recording = used.recording if isinstance(used, kernelscope.Recorder) else None
    return (between - started, ended - between, (started - begin) + (done - ended)), recording


def executed_lines(run: Callable[[], Any]) -> int:
    """How many lines of the cell's functions one run executes, as Python's own tracing counts them."""
    codes, count = {each.__code__ for each in (launching, training, relax)}, 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code not in codes:
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return count


def kernels_of(recording: kernelscope.Recording) -> dict[str, int]:
    """How many kernels a run of the cell has launched, and how many of these have no line of this file."""
    kernels = [row["line_id"] for row in recording.rows("activities") if row["kind"] == "kernel"]
    found = kernels or [row["line_id"] for row in recording.rows("launches")]
    lines = recording.rows("lines")
    unknown = sum(line is None or Path(lines[line]["file"]).name != Path(__file__).name for line in found)
    return {"kernels": len(found) // 2, "unknown": unknown // 2}


# What a long loop costs, and its memory.

def spin(kernel: Any, array: Any, count: int) -> int:
    total = 0
    kernel(array)
    for number in range(count):
        total += number
    kernel(array)
    return total


def long_loop(quick: bool, most: int, seconds: float) -> dict[str, Any]:
    """A loop of 1e7 executed lines with and without recording: its time, and how much memory is more at its end."""
    from numba import cuda

    @cuda.jit
    def empty(array):
        pass

    kernel, array = empty[1, 32], cuda.device_array(1024, np.float32)
    count = 50_000 if quick else 5_000_000
    gpu = "none" if dryrun.is_enabled() else "cupti"
    times: dict[bool, list[float]] = {False: [], True: []}
    grown: list[float] = []
    unknown = 0
    spin(kernel, array, 1000)
    for _ in rounds(most, seconds, least=2):
        for is_recorded in (False, True):
            recorder = kernelscope.Recorder(gpu=gpu) if is_recorded else None
            if recorder is not None:
                recorder.start()
                spin(kernel, array, 1000)
            before, start = resident(), time.perf_counter_ns()
            spin(kernel, array, count)
            times[is_recorded].append(time.perf_counter_ns() - start)
            if recorder is not None:
                grown.append(resident() - before)
                unknown += kernels_of(recorder.stop())["unknown"]
    cuda.synchronize()
    return {"lines": 2 * count, "unknown": unknown, "grown": estimate(grown),
            **paired(times[False], times[True], [True] * len(grown))}


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# The report.

def report(found: list[dict[str, Any]], loop_of: dict[str, Any] | None) -> str:
    """Return the tables in Markdown."""
    text = [machine(), ""]
    for name in CELLS:
        of_cell = [each for each in found if each["cell"] == name]
        if of_cell:
            text += [*cell_table(name, of_cell), ""]
    if loop_of:
        text += [loop_text(loop_of), ""]
    missing = sorted({each for group in found for each in group["missing"]})
    return "\n".join([*text, *(f"Not measured: {each}." for each in missing)])


def cell_table(name: str, groups: list[dict[str, Any]]) -> list[str]:
    """One cell under all tools: a line of what it is, and a table."""
    lines, kernels = groups[0]["lines"], max(each.get("kernels", 0) for each in groups)
    unknown = max(each.get("unknown", 0) for each in groups)
    text = [f"**{name}**: {CELLS[name].about}: {lines:,} executed lines and {kernels:,} kernels, of which "
            f"{unknown or 'none'} {'has' if unknown == 1 else 'have'} no line in KernelScope's recording.", "",
            "| tool | added to the cell's first run | to its second run | a kernel | an executed line | start and stop "
            "| times ours, first run | second run |", "|---|---|---|---|---|---|---|---|"]
    ours = next((each["tools"][OURS] for each in groups if OURS in each["tools"]), None)
    for group in groups:
        for tool, each in group["tools"].items():
            second, is_nothing = each["second"]["added_ns"], tool == AGAIN
            label = f"{tool}, in the process of {group['group']}" if is_nothing else tool
            ratios = ["", ""]
            if ours and not is_nothing and not tool.startswith("KernelScope"):
                ratios = [times_ours(each[run]["added_ns"], ours[run]["added_ns"]) for run in ("first", "second")]
            text.append("| " + " | ".join((
                label, milliseconds(each["first"]), milliseconds(each["second"]),
                f"{second['median'] / max(kernels, 1) / 1e3:+.2f} µs", f"{second['median'] / max(lines, 1):+.1f} ns",
                "" if is_nothing else f"{each['around_ns']['median'] / 1e6:.1f} ms", *ratios)) + " |")
    return text


def loop_text(found: dict[str, Any]) -> str:
    """The long loop, in words."""
    added, grown, lines = found["added_ns"], found["grown"], found["lines"]
    factor = 1e8 / lines
    return (
        f"**A long loop**: `for number in range({lines // 2:,}): total += number` between two launches, {lines:,} "
        f"executed lines: {found['base_ns'] / 1e9:.3f} s under nothing, {added['median'] / 1e6:+.1f} ms "
        f"({added['low'] / 1e6:+.1f} to {added['high'] / 1e6:+.1f}) recorded, {added['median'] / lines:+.2f} ns a "
        f"line; memory {grown['median'] / 1e6:+.1f} MB ({grown['low'] / 1e6:+.1f} to {grown['high'] / 1e6:+.1f}); "
        f"launches without a line: {found['unknown']}. Extrapolated, not measured: 1e8 lines "
        f"{added['median'] * factor / 1e9:+.2f} s and at most {max(grown['high'], 0) * factor / 1e6:.0f} MB.")


def milliseconds(of: dict[str, Any]) -> str:
    added: Estimate = of["added_ns"]
    low, high = added["low"] / 1e6, added["high"] / 1e6
    return f"{added['median'] / 1e6:+.2f} ms ({low:+.2f} to {high:+.2f}) of {of['base_ns'] / 1e6:.1f}"


def times_ours(other: Estimate, ours: Estimate) -> str:
    """How many times as much, and at least by the intervals' ends; ours may not be seen at all."""
    least = f"at least {other['low'] / ours['high']:,.0f}" if ours["high"] > 0 else "ours was not seen"
    return f"{other['median'] / ours['median']:,.0f}, {least}" if ours["median"] > 0 else least


def main() -> int:
    """Measure all, each group in a process of its own, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*CELLS, "loop"], default=[*CELLS, "loop"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=45.0, help="at most, for a cell under the tools of a process")
    parser.add_argument("--output", type=Path, help="write the numbers to this file too, as JSON")
    parser.add_argument("--quick", action="store_true", help="two rounds of little: whether it runs")
    parser.add_argument("--group", choices=list(GROUPS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    most = 2 if options.quick else options.rounds
    if options.group:
        for name in options.only:
            found = (long_loop(options.quick, most, options.seconds) if name == "loop" else
                     measure(options.group, name, most, options.seconds, options.quick))
            print(json.dumps(found), flush=True)
        return 0
    found: list[dict[str, Any]] = []
    loop_of: dict[str, Any] | None = None
    failed: list[str] = []
    has_torch = find_spec("torch") is not None and not dryrun.is_enabled()
    for group in GROUPS:
        for name in options.only:
            if name == "loop" and group != "ours":
                continue
            if not has_torch and (group == "torch" or (name != "loop" and CELLS[name].needs == "torch")):
                failed.append(f"{name}, in the process of {group}: there is no torch with a GPU")
                continue
            print(f"measuring {name}, {group} ...", file=sys.stderr, flush=True)
            ran = subprocess.run(
                [sys.executable, __file__, "--group", group, "--only", name, "--rounds", str(most), "--seconds",
                 str(options.seconds), *(["--quick"] if options.quick else [])],
                stdout=subprocess.PIPE, text=True, check=False)
            answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
            if ran.returncode or not answers:
                failed.append(f"{name}, in the process of {group}: exit status {ran.returncode}, its stderr says why")
            elif name == "loop":
                loop_of = answers[0]
            else:
                found += answers
            if options.output:
                options.output.write_text(json.dumps({"cells": found, "loop": loop_of, "failed": failed}, indent=1))
    print(report(found, loop_of))
    for each in failed:
        print(f"Not measured: {each}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
