"""Recordings of two runs of one cell, made by columns: times are as noisy as real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from handmade import Script

from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows

#: Host time of a launch's phases, and its time on the GPU, in nanoseconds.
USUAL = {"dispatch": 1_500.0, "prepare": 9_000.0, "submit": 2_500.0, "finish": 400.0, "execute": 20_000.0}


def run(seed: int = 0, launches: int = 400, *, kernels: int = 2, pid: int = 10, noise: float = 0.15,
        drift: float = 0.03, offset: float = 0.02, cell: int | None = 3, gpu: bool = True,
        changed: dict[str, float] | None = None, reference: float | None = 1.0, **metadata: Any) -> Recording:
    """Return a run of a cell.

    Parameters
    ----------
    seed : int
        For the noise.
    launches, kernels : int
        How many of each kernel, in turn, and how many kernels.
    pid : int
        The process; runs of one pid are of one process.
    noise, drift, offset : float
        As shares: of a launch for itself, skewed as host times are; of a slow random walk in the run; of a whole run.
    cell : int or None
        Its execution count.
    gpu : bool
        Whether times on the GPU are known.
    changed : dict of str to float, optional
        By phase, how many times as long it takes.
    reference : float or None
        How slow the processor was; None where that was not timed.
    """
    random = np.random.default_rng([seed, pid, launches])
    script = Script(**metadata)
    script._add("processes", "process_id", {"pid": pid, "start_ns": 1_000 * pid, "status": "ok"})
    script._add("threads", "thread_id", {"ident": 1, "name": "MainThread", "process_id": 0})
    script._add("lines", "line_id", {"file": f"In[{cell}]", "line": 2, "cell_id": 0, "text": "axpy[4, 128](x)"})
    for at in range(kernels):
        script.launchable(f"kernel_{at}")
    count = launches * kernels
    walk = np.cumsum(random.normal(0, drift / np.sqrt(count), count))
    slow = (1 + random.normal(0, offset)) * np.exp(walk)
    times = {name: np.rint(usual * (changed or {}).get(name, 1.0) * slow * np.exp(
        np.abs(random.normal(0, noise, count)))).astype(np.int64) for name, usual in USUAL.items()}
    # The first launches of a cell take longer.
    times["prepare"][:kernels] *= 30
    host = np.stack([times[name] for name in ("dispatch", "prepare", "submit", "finish")])
    start = script.now + np.concatenate([[0], np.cumsum(host.sum(0) + 1_000)[:-1]])
    bounds = start + np.cumsum(host, axis=0)
    wall = int(bounds[-1, -1]) - script.now + 1_000
    script.cell(wall, execution_count=cell, name=None, source="axpy[4, 128](x)", source_sha256="s", process_id=0,
                reference_ns=None if reference is None else 15_000.0 * reference)
    which = np.tile(np.arange(kernels), launches)
    zeros = np.zeros(count, np.int32)
    held = {name: table_of_rows(name, rows) for name, rows in script.rows.items()}
    held["launches"] = make_table("launches", {
        "launch_id": np.arange(count), "cell_id": zeros, "thread_id": zeros, "line_id": zeros, "dispatcher_id": which,
        "specialization_id": which, "configuration_id": which, "start_ns": start, "dispatch_end_ns": bounds[0],
        "submit_start_ns": bounds[1], "submit_end_ns": bounds[2], "end_ns": bounds[3],
        "compile_ns": np.zeros(count, np.int64), "cache": ["memory"] * count,
        **({"execute_ns": times["execute"]} if gpu else {})})
    return Recording(held, metadata)
