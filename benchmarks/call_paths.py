"""What a call path adds to a launch that has its line, by depth: the hook's part alone, and launches of the dry run.

    KERNELSCOPE_DRYRUN=1 python benchmarks/call_paths.py [--rounds 40]

Both kinds of recording take turns within one process; figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

import kernelscope
from kernelscope.probes.lines import UserCode
from kernelscope.probes.sink import Sink

DEPTHS = (5, 20, 100)
CALLS, LAUNCHES = 20_000, 1_000


def main() -> int:
    """Print a row of a table for each depth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    print("| frames | hook, with its line | call path added | launch, with its line | call path added |\n"
          "|---|---|---|---|---|")
    for depth in DEPTHS:
        figures = [hook(depth, rounds), launch(depth, rounds)]
        print(f"| {depth} | " + " | ".join(f"{lines:.0f} ns | {stacks - lines:+.0f} ns" for lines, stacks in figures)
              + " |", flush=True)
    return 0


def hook(depth: int, rounds: int) -> tuple[float, float]:
    """The medians of one call of `State.here`, in ns: with lines only, with call paths."""
    states = [Sink(user_code=UserCode(), stacks=stacks).state() for stacks in (False, True)]
    found: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for times, state in zip(found, states, strict=True):
            times.append(at_depth(depth, repeated, state.here, CALLS))
    return statistics.median(found[0]), statistics.median(found[1])


def launch(depth: int, rounds: int) -> tuple[float, float]:
    """The medians of one launch of an empty kernel, in ns: with lines only, with call paths."""
    @cuda.jit
    def empty(x: Any) -> None:
        pass

    array = cuda.to_device(np.ones(4, np.float32))
    configured = empty[1, 32]
    configured(array)
    found: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for times, stacks in zip(found, (False, True), strict=True):
            with kernelscope.record(gpu="none", detail="launch", stacks=stacks):
                at_depth(depth, repeated, lambda: configured(array), 100)
                times.append(at_depth(depth, repeated, lambda: configured(array), LAUNCHES))
    return statistics.median(found[0]), statistics.median(found[1])


def at_depth(depth: int, call: Callable[..., float], *arguments: Any) -> float:
    """Return what `call` does so many frames deep."""
    return at_depth(depth - 1, call, *arguments) if depth > 1 else call(*arguments)


def repeated(call: Callable[[], Any], count: int) -> float:
    """The time of one call, in ns."""
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - begin) / count


if __name__ == "__main__":
    raise SystemExit(main())
