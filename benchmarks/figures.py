"""Measures every figure of benchmarks/README.md and prints them as a table.

    python benchmarks/figures.py [--json FILE] [--only NAME ...]

Without a GPU the launches are those of a dry run (KERNELSCOPE_DRYRUN=1). Figures are medians; what is compared is
interleaved A B A B in one process, with bootstrap intervals of the median's difference.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np
from gpu_analysis import gpu_analysis

import kernelscope
from kernelscope.recorder.recorder import Recorder

ROUNDS = 60
LAUNCHES = 200
WARM_UP = 300


def main() -> int:
    """Run the figures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file too")
    parser.add_argument("--only", nargs="*", choices=list(FIGURES), default=list(FIGURES))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.only:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += FIGURES[name]()
    print(f"\n{machine()}\n\n| figure | measured | at most |\n|---|---|---|")
    for row in rows:
        print(f"| {row['figure']} | {row['measured']} | {row['at_most']} |")
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine(), "figures": rows}, indent=1))
    return 0


def machine() -> str:
    """What was measured on."""
    from numba import cuda

    name = cuda.get_current_device().name
    name = name.decode() if isinstance(name, bytes) else name
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    return (f"{name}; {model}, {os.cpu_count()} cores; Python {platform.python_version()}; "
            f"{time.strftime('%Y-%m-%d')}")


def difference(plain: list[float], recorded: list[float]) -> tuple[float, float, float]:
    """Median of the paired differences and its 95% bootstrap interval."""
    paired = np.array(recorded) - np.array(plain)
    draws = np.random.default_rng(0).choice(paired, (2000, len(paired)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(np.median(paired)), float(low), float(high)


def launch_overhead() -> list[dict[str, Any]]:
    """What recording adds to a launch, for kernels of no argument and of four arrays; and an A/A comparison."""
    from numba import cuda

    @cuda.jit
    def noop():
        pass

    @cuda.jit
    def add3(out, a, b, c):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i] + c[i]

    array = cuda.device_array(1024, np.float32)
    rows = []
    for label, kernel, arguments in (("no argument", noop[1, 32], ()), ("4 arrays", add3[8, 128], (array,) * 4)):
        for _ in range(LAUNCHES):
            kernel(*arguments)
        times = interleaved(kernel, arguments, ("none", "none again", "launch", "phases", "phases with code"))
        base = statistics.median(times["none"])
        for detail, limit in (("none again", "no difference"), ("launch", "0.4 µs"), ("phases", "0.9 µs")):
            middle, low, high = difference(times["none"], times[detail])
            what = "A/A, not recording twice" if detail == "none again" else f"added by recording, detail {detail}"
            rows.append({
                "figure": f"{what}: {label} (launch of {base / 1e3:.1f} µs)",
                "measured": f"{middle / 1e3:+.2f} µs ({low / 1e3:+.2f} to {high / 1e3:+.2f})",
                "at_most": limit, "value_ns": middle,
            })
        middle, low, high = difference(times["phases"], times["phases with code"])
        rows.append({"figure": f"added to that by --code: {label}", "at_most": "nothing", "value_ns": middle,
                     "measured": f"{middle / 1e3:+.2f} µs ({low / 1e3:+.2f} to {high / 1e3:+.2f})"})
    return rows


def interleaved(kernel: Any, arguments: tuple[Any, ...], details: tuple[str, ...]) -> dict[str, list[float]]:
    """Nanoseconds a launch, one value a round; each round has every detail, in an order of its own."""
    from numba import cuda

    times: dict[str, list[float]] = {detail: [] for detail in details}
    orders = np.random.default_rng(0)
    for _ in range(ROUNDS):
        for detail in orders.permutation(details).tolist():
            kind, _, code = detail.partition(" with ")
            recorder = None if kind.startswith("none") else Recorder(detail=kind, gpu="none", code=bool(code)).start()
            try:
                for _ in range(WARM_UP):  # the first is looked at; the interpreter specializes during the next ones
                    kernel(*arguments)
                gc.disable()
                start = time.perf_counter_ns()
                for _ in range(LAUNCHES):
                    kernel(*arguments)
                times[detail].append((time.perf_counter_ns() - start) / LAUNCHES)
            finally:
                gc.enable()
                if recorder is not None:
                    recorder.stop()
            cuda.synchronize()
    return times


def idle() -> list[dict[str, Any]]:
    """Loaded and idle: the methods are the originals."""
    from numba.cuda import dispatcher

    functions = (dispatcher.CUDADispatcher.call, dispatcher._Kernel.launch)

    def path() -> list[Any]:
        return [dispatcher.launch, *functions, *[function.__code__ for function in functions]]

    before = path()
    with kernelscope.record():
        hooked = path() != before
    same = hooked and path() == before and (dispatcher.CUDADispatcher.call, dispatcher._Kernel.launch) == functions
    measured = "nothing: the original functions and code" if same else "HOOKED"
    return [{"figure": "added while loaded and idle", "measured": measured, "at_most": "nothing"}]


def memory() -> list[dict[str, Any]]:
    """Bytes that a recorded launch takes: in the buffer while recording, and in the finished recording."""
    rows = []
    for detail in ("launch", "phases"):
        count = 200_000
        kernel, arguments = _noop()
        kernel(*arguments)
        recorder = Recorder(detail=detail, gpu="none").start()
        kernel(*arguments)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(count):
            kernel(*arguments)
        buffered = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        recording = recorder.stop()
        finished = recording.arrow("launches").nbytes / count
        rows.append({"figure": f"memory a recorded launch, detail {detail}: buffer, finished table",
                     "measured": f"{buffered:.0f} B, {finished:.0f} B", "at_most": "110 B"})
    return rows


def stop() -> list[dict[str, Any]]:
    """From stop() to the finished recording, 100,000 launches."""
    times = []
    kernel, arguments = _noop()
    for _ in range(7):
        recorder = Recorder(gpu="none").start()
        for _ in range(100_000):
            kernel(*arguments)
        start = time.perf_counter()
        recorder.stop()
        times.append(time.perf_counter() - start)
    return [{"figure": "stop to a finished Recording, 100,000 launches", "measured": seconds(times),
             "at_most": "0.25 s"}]


def files() -> list[dict[str, Any]]:
    """Save and load of 1e6 real launches."""
    kernel, arguments = _noop()
    recorder = Recorder(gpu="none").start()
    recorder.begin_cell("a million launches", execution_count=1, source="for _ in range(1_000_000): noop[1, 32]()")
    for _ in range(1_000_000):
        kernel(*arguments)
    recording = recorder.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.kscope"
        saved = timed(lambda: recording.save(path), 7)
        loaded = timed(lambda: kernelscope.load(path), 7)
        size = path.stat().st_size / 1e6
    return [{"figure": "save 1e6 launches", "measured": seconds(saved), "at_most": "0.3 s"},
            {"figure": "load 1e6 launches", "measured": seconds(loaded), "at_most": "0.15 s"},
            {"figure": "file of 1e6 launches", "measured": f"{size:.1f} MB", "at_most": "20 MB"}]


def card() -> list[dict[str, Any]]:
    """The card of a cell with 100,000 launches, from the Recording."""
    kernel, arguments = _noop()
    with kernelscope.record("card") as r:
        for _ in range(100_000):
            kernel(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = r.recording.save(Path(folder) / "card.kscope")
        # The card of a recording is made once, for its text and its HTML: a new recording each time.
        html, text = (iter([kernelscope.load(path) for _ in range(8)]) for _ in range(2))
        return [{"figure": "the card of a cell with 100,000 launches: HTML", "at_most": "0.2 s",
                 "measured": seconds(timed(lambda: next(html)._repr_html_(), 7))},
                {"figure": "the same as text", "at_most": "0.2 s",
                 "measured": seconds(timed(lambda: next(text).summary(), 7))}]


def import_time() -> list[dict[str, Any]]:
    """`import kernelscope` over an empty interpreter, interleaved processes."""
    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "KERNELSCOPE_DRYRUN": ""})
        return time.perf_counter() - start

    pairs = [(run("pass"), run("import kernelscope")) for _ in range(15)]
    extra = statistics.median(after - before for before, after in pairs)
    return [{"figure": "importing kernelscope, over an empty interpreter", "measured": f"{extra * 1e3:.0f} ms",
             "at_most": "100 ms"}]


def timed(call: Callable[[], Any], times: int) -> list[float]:
    """Seconds of each of several calls, after one that does not count."""
    call()
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        measured.append(time.perf_counter() - start)
    return measured


def seconds(times: list[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"


def _noop() -> tuple[Any, tuple[Any, ...]]:
    from numba import cuda

    @cuda.jit
    def noop():
        pass

    return noop[1, 32], ()


FIGURES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "import": import_time, "idle": idle, "launch": launch_overhead, "memory": memory, "stop": stop, "files": files,
    "card": card, "gpu-analysis": gpu_analysis,
}

if __name__ == "__main__":
    sys.exit(main())
