"""Measures the native recorder beside the Python one and prints markdown tables.

    python benchmarks/native.py [--output FILE] [--only PART ...] [--quick] [--seconds N]

Without a GPU the launches are those of a dry run (KERNELSCOPE_DRYRUN=1). Parts, in their order:

    launches   added to a launch by recording: both recorders, each detail, 0 to 4 arrays
    single     the time of each single launch: p50, p99, p99.9, maximum; with a journal too
    kills      acknowledged launches lost to SIGKILL
    memory     bytes a launch, in memory and in the journal's file
    profilers  added to a launch by viztracer, cProfile and torch.profiler, where they are installed
    tables     from the ring to finished tables, 1e6 and 1e7 events

Only the host's side is recorded (gpu="none") unless a row says otherwise. What is compared is interleaved in one
process, in a random order each round; figures are medians of paired differences with their 95 % bootstrap intervals.
What cannot be measured here is named under the table. The file is written anew after each part.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from figures import machine
from native_kills import kills
from native_launches import added, single
from native_profilers import profilers
from native_tables import finished, memory
from native_ways import Part

PARTS: dict[str, Callable[..., Part]] = {
    "launches": added, "single": single, "kills": kills, "memory": memory, "profilers": profilers, "tables": finished,
}
#: Parts that repeat until so many seconds are up; the others do all they have to.
TIMED = ("launches", "single", "profilers", "tables")
QUICK: dict[str, dict[str, Any]] = {
    "launches": {"most": 2, "launches": 20, "arguments": (0, 4)},
    "single": {"most": 2, "launches": 1000},
    "kills": {"count": 2, "longest": 0.1},
    "memory": {"count": 2000},
    "profilers": {"most": 1, "launches": 100, "arguments": (0,)},
    "tables": {"counts": (1000,), "repeats": 1},
}


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write what was found to this file too, as JSON")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--seconds", type=float, help="how long a part repeats at most, about; by default its own")
    parser.add_argument("--events", type=float, nargs="+", help="how many events the part tables has (1e6 1e7)")
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that everything runs")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), "quick": options.quick, "parts": {}}
    failed = 0
    print(found["machine"], flush=True)
    for name in options.only:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            part = partial(PARTS[name], **arguments(name, options))()
        except Exception as error:
            failed += 1  # what the other parts find is worth having
            part = Part(missing=[f"{name} failed: {type(error).__name__}: {error}"])
        took = time.monotonic() - began
        found["parts"][name] = {"seconds": took, "rows": part.rows, "missing": part.missing, "values": part.values}
        print(f"\n## {name} ({took:.0f} s)\n\n{markdown(part)}", flush=True)
        if options.output:
            partly = options.output.with_suffix(".partly")
            partly.write_text(json.dumps(found, indent=1))
            partly.replace(options.output)
    return 1 if failed else 0


def arguments(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a part is called with."""
    given = dict(QUICK[name]) if options.quick else {}
    if options.seconds is not None and name in TIMED:
        given["seconds"] = options.seconds
    if options.events and name == "tables":
        given["counts"] = tuple(int(count) for count in options.events)
    return given


def markdown(part: Part) -> str:
    """The table of a part, and what is missing."""
    lines = ["| figure | at most | measured |", "|---|---|---|"]
    lines += [f"| {row['figure']} | {row['at_most']} | {row['measured']} |" for row in part.rows]
    if not part.rows:
        lines = []
    return "\n".join([*lines, *(f"\nNot measured: {text}" for text in part.missing)])


if __name__ == "__main__":
    sys.exit(main())
