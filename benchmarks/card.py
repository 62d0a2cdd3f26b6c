"""How long cards take of many launches, and of very many kernels of different names: no GPU and no framework is needed.

    python benchmarks/card.py

Processor time, medians of interleaved rounds in one process; each card is of a new recording, because a recording's
card is made once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.views.card.html import card
from kernelscope.views.card.text import summary

STEP_NS = 30_000


def main() -> None:
    """Print a row for each recording."""
    for label, recording, rounds in (
        ("100,000 launches of 20 kernels in 20 cells", recording_of(100_000, 20, 20, compiles=100), 9),
        ("20,000 launches of 20,000 kernels", recording_of(20_000, 20_000), 5),
        ("200,000 launches of 200,000 kernels", recording_of(200_000, 200_000), 3),
        ("1e6 launches of 1e6 kernels", recording_of(1_000_000, 1_000_000), 1),
        ("200 kernels with names of 100 kB", recording_of(1_000, 200, name="long" * 25_000), 3),
    ):
        times: dict[str, list[float]] = {"HTML": [], "text": []}
        sizes: dict[str, int] = {}
        for _ in range(rounds):
            for form, make in (("HTML", card), ("text", summary)):
                sizes[form] = len(measured(make, recording, times[form]).encode())
        print(f"| card of {label}, each with its run on the GPU | " + " | ".join(
            f"{form} {statistics.median(times[form]):.2f} s, {sizes[form] / 1e3:.0f} kB" for form in times) + " |")


def measured(make: Callable[[Recording], str], recording: Recording, times: list[float]) -> str:
    """Make a card of a copy, and note the processor's time."""
    copy = Recording(dict(recording.tables), recording.metadata)
    begin = time.process_time()
    made = make(copy)
    times.append(time.process_time() - begin)
    return made


def recording_of(launches: int, kernels: int, cells: int = 1, compiles: int = 0, name: str = "kernel_") -> Recording:
    """Make a recording by columns: launches in turn of each kernel, each with its run on the GPU."""
    random = np.random.default_rng(7)
    ids, numbers = np.arange(launches), np.arange(kernels)
    of = ids % kernels
    start = 10**9 + ids * STEP_NS
    bounds = np.cumsum(random.integers(1_000, 5_000, (launches, 4)), axis=1) + start[:, None]
    cell = ids * cells // launches
    edges = 10**9 + np.arange(cells + 1) * launches // cells * STEP_NS
    names = [f"{name}{at:07}" for at in range(kernels)]
    zeros = np.zeros(launches, dtype=np.int64)
    begun = bounds[:, 2] + 5_000
    tables: dict[str, dict[str, Any]] = {
        "cells": {"cell_id": np.arange(cells), "execution_count": np.arange(cells) + 1, "start_ns": edges[:-1],
                  "end_ns": edges[1:], "status": ["ok"] * cells},
        "threads": {"thread_id": [0], "ident": [1], "name": ["MainThread"]},
        "dispatchers": {"dispatcher_id": numbers, "framework": ["numba-cuda"] * kernels, "name": names,
                        "module": ["__main__"] * kernels, "lineno": numbers + 1},
        "specializations": {"specialization_id": numbers, "dispatcher_id": numbers,
                            "signature": ["(array(float32, 1d, C),)"] * kernels, "origin": ["compiled"] * kernels},
        "configurations": {
            "configuration_id": numbers, "sharedmem_bytes": numbers * 0, "stream": numbers * 0,
            **{f"{what}_{axis}": numbers * 0 + 1 for what in ("griddim", "blockdim") for axis in "xyz"},
            "griddim_x": numbers + 1},
        "launches": {
            "launch_id": ids, "cell_id": cell, "thread_id": zeros, "dispatcher_id": of, "specialization_id": of,
            "configuration_id": of, "start_ns": start, "dispatch_end_ns": bounds[:, 0], "submit_start_ns": bounds[:, 1],
            "submit_end_ns": bounds[:, 2], "end_ns": bounds[:, 3], "compile_ns": zeros, "cache": ["memory"] * launches},
        "activities": {
            "activity_id": ids, "kind": ["kernel"] * launches, "name": [names[at] for at in of.tolist()],
            "start_ns": begun, "end_ns": begun + random.integers(2_000, 9_000, launches), "launch_id": ids,
            "stream": zeros + 7, "cell_id": cell, "thread_id": zeros, "specialization_id": of,
            "submit_start_ns": bounds[:, 1], "submit_end_ns": bounds[:, 2]},
        "compilations": {
            "compilation_id": np.arange(compiles), "dispatcher_id": np.arange(compiles) % kernels,
            "cell_id": [0] * compiles, "thread_id": [0] * compiles, "trigger": ["launch"] * compiles,
            "outcome": ["compiled"] * compiles,
            "signature": [f"(array(float32, 1d, C), int{at})" for at in range(compiles)],
            "start_ns": start[:compiles], "end_ns": start[:compiles] + 900},
    }
    return Recording({table: make_table(table, columns) for table, columns in tables.items()},
                     {"gpu": {"source": "cupti"}})


if __name__ == "__main__":
    main()
