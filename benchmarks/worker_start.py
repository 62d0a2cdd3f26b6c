"""Measures how much later a process that records itself reaches its user's code, and prints it.

    python benchmarks/worker_start.py [--processes N] [--imports numba.cuda] [--python PYTHON ...]

A process with `KERNELSCOPE_RECORD` in its environment and one without run in turn, and both import what launches
kernels: the difference is what recording adds from the interpreter's start to the line after. Processor time and wall
time are medians of the pairs' differences, with bootstrap intervals. With several interpreters their environments'
versions of KernelScope are measured in turn too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import difference

#: Ends at once, so that nothing of the recording's end counts.
CHILD = "import {imports}, os, time; print(time.process_time_ns(), time.monotonic_ns(), flush=True); os._exit(0)"


def started(python: str, imports: str, folder: str | None) -> tuple[float, float]:
    """Return the processor time and the wall time of a start, in milliseconds."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("KERNELSCOPE_RECORD", "PYTHONDONTWRITEBYTECODE")}
    if folder is not None:
        environment["KERNELSCOPE_RECORD"] = folder
    begin = time.monotonic_ns()
    ran = subprocess.run([python, "-c", CHILD.format(imports=imports)], env=environment, check=True, text=True,
                         stdout=subprocess.PIPE)
    processor, end = map(int, ran.stdout.split())
    return processor / 1e6, (end - begin) / 1e6


def main() -> int:
    """Measure, and print a line for each interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--imports", default="numba.cuda", help="what the program imports (default: numba.cuda)")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters (default: this one)")
    given = parser.parse_args()
    found: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(-1, given.processes):
            for python in given.python:
                for on in ((False, True) if turn % 2 else (True, False)):
                    times = started(python, given.imports, str(Path(folder, "run")) if on else None)
                    if turn >= 0:  # the first of each fills the caches
                        found.setdefault((python, on), []).append(times)
    for python in given.python:
        off, on = found[python, False], found[python, True]
        for number, what in enumerate(("processor", "wall")):
            plain, recorded = [each[number] for each in off], [each[number] for each in on]
            middle, low, high = difference(plain, recorded)
            print(f"{python}: {what} time {statistics.median(plain):.0f} ms without, {middle:.0f} more with "
                  f"({low:.0f} to {high:.0f}); the fastest {min(recorded) - min(plain):.0f} more")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
