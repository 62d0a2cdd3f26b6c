"""Measures the recorder and prints markdown tables.

    python benchmarks/native.py [--output FILE] [--only PART ...] [--minutes N] [--quick]

Without a GPU the launches are those of a dry run (KERNELSCOPE_DRYRUN=1). Parts, in their order:

    launches   added to a launch by recording: each detail, 0 to 4 arrays
    single     the time of each single launch: p50, p99, p99.9, maximum; with a journal too
    kills      acknowledged launches lost to SIGKILL
    memory     bytes a launch, in memory and in the journal's file
    profilers  added to a launch by viztracer, cProfile and torch.profiler, where they are installed
    tables     from the ring to finished tables, 1e6 and 1e7 events

Only the host's side is recorded (gpu="none") unless a row says otherwise. What is compared is interleaved in one
process, in a random order each round; figures are medians of paired differences with their 95 % bootstrap intervals.
What cannot be measured here is named under the table. Each part is a process of its own, so that none meets what
another has left behind; the file is written anew after each. With --minutes, parts repeat less often, and are ended
where they take longer than their share of the time: benchmarks/native_on_gpu.sh uses that.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figures import machine
from native_kills import kills
from native_launches import added, single
from native_profilers import profilers
from native_tables import finished, memory
from native_ways import Part, microseconds

PARTS: dict[str, Callable[..., Part]] = {
    "launches": added, "single": single, "kills": kills, "memory": memory, "profilers": profilers, "tables": finished,
}
#: Each part's share of the time, if there is a limit.
SHARES = {"launches": 0.26, "single": 0.1, "kills": 0.14, "memory": 0.12, "profilers": 0.26, "tables": 0.12}
#: The share of a part's own time in which it repeats, if it does; the rest is for what it has to do at least.
REPEATS = 0.6
QUICK: dict[str, dict[str, Any]] = {
    "launches": {"most": 2, "launches": 20, "arguments": (0, 4)},
    "single": {"most": 2, "launches": 1000},
    "kills": {"count": 2, "longest": 0.1},
    "memory": {"count": 2000},
    "profilers": {"most": 1, "launches": 100, "arguments": (0,)},
    "tables": {"counts": (1000,), "repeats": 1},
}


def main() -> int:
    """Run the parts that were asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write what was found to this file too, as JSON")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--minutes", type=float, help="how long all parts together take at most")
    parser.add_argument("--events", type=float, nargs="+", help="how many events the part tables has (1e6 1e7)")
    parser.add_argument("--quick", action="store_true",
                        help="tiny numbers, to see that everything runs; only the first part has a process of its own")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # the process of one part
    parser.add_argument("--repeat-for", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        Part.output = options.output
        part = PARTS[options.only[0]](**arguments(options.only[0], options))
        options.output.write_text(json.dumps(asdict(part)))
        return 0
    found: dict[str, Any] = {"machine": machine(), "quick": options.quick, "parts": {}}
    failed = 0
    print(found["machine"], flush=True)
    for name in options.only:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        if options.quick and name != options.only[0]:  # most of such a part's time would be its process's
            part, problem = PARTS[name](**arguments(name, options)), None
        else:
            part, problem = alone(name, limit_s(name, options))
        if problem:
            part.missing.append(f"{name} {problem}")
            failed += 1
        took = time.monotonic() - began
        found["parts"][name] = {"seconds": took, **asdict(part)}
        print(f"\n## {name} ({took:.0f} s)\n\n{markdown(part)}", flush=True)
        found["against"] = against(found["parts"]).rows
        if options.output:
            partly = options.output.with_suffix(".partly")
            partly.write_text(json.dumps(found, indent=1))
            partly.replace(options.output)
    compared = against(found["parts"])
    if compared.rows:
        print(f"\n## other profilers, beside the figures of the part launches\n\n{markdown(compared)}", flush=True)
    return 1 if failed else 0


def against(parts: dict[str, Any]) -> Part:
    """How many times as much as KernelScope other profilers add, by the sharper figures of `launches`."""
    table = Part()
    rows = parts.get("launches", {}).get("rows", [])
    ours = {(row["arguments"], row["way"]): row["added_ns"] for row in rows}
    for row in parts.get("profilers", {}).get("rows", []):
        own = ours.get((row["arguments"], "phases"))
        if not row["compared"] or own is None:
            continue
        added = row["added_ns"]
        words = f"{microseconds(added)}, ours {microseconds(own)}"
        least = added["low"] / own["high"] if own["high"] > 0 else None
        if own["median"] > 0 and least is not None:
            words += f": {added['median'] / own['median']:.0f} times as much, at least {least:.0f}"
        table.add(f"{row['way']}: {row['arguments']} arrays, against phases", words, "50 times ours",
                  arguments=row["arguments"], way=row["way"], least=least)
    return table


def limit_s(name: str, options: argparse.Namespace) -> float | None:
    """How long a part may take, in seconds; None: as long as it does."""
    shares = sum(SHARES[each] for each in options.only)
    return None if options.minutes is None else 60 * options.minutes * SHARES[name] / shares


def alone(name: str, limit: float | None) -> tuple[Part, str | None]:
    """Run a part in a process of its own; return what it found until it ended, and what was wrong with its end."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "part.json"
        command = [sys.executable, *(f"-W{option}" for option in sys.warnoptions), __file__, *sys.argv[1:],
                   "--only", name, "--output", str(output), "--here"]
        if limit is not None:
            command += ["--repeat-for", str(REPEATS * limit)]
        ran = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
        try:
            status = ran.wait(limit)
            problem = f"failed with exit status {status}: its stderr says why" if status else None
        except subprocess.TimeoutExpired:
            problem = f"was not finished within {limit:.0f} s"
        finally:
            if ran.poll() is None:
                os.killpg(ran.pid, signal.SIGKILL)  # with the processes that it has started
                ran.wait()
        return Part(**json.loads(output.read_text())) if output.exists() else Part(), problem


def arguments(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a part is called with."""
    given = dict(QUICK[name]) if options.quick else {}
    if options.repeat_for is not None and name != "memory":
        given["seconds"] = options.repeat_for
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
