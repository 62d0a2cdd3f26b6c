"""How long it takes to merge the files of many workers, how much memory it needs, and how large the file is.

``python benchmarks/merging.py 64 100000`` makes a worker's file, as many of it as there are workers (each with its own
pid and start), and merges them in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.file import save
from kernelscope.recording.merge import merge_files
from kernelscope.recording.model import Recording


def worker(number: int, launches: int) -> Recording:
    """Return what a worker records: launches with jitter of two kernels from one thread, and their compiles."""
    rng = np.random.default_rng(number)
    durations = [rng.gamma(shape, scale, launches).astype(np.int64)
                 for shape, scale in ((6, 250), (6, 400), (8, 500), (4, 150))]
    # Launches of one thread follow one another.
    start = 5 * 10**12 + number * 1_000 + np.cumsum(
        rng.gamma(4, 2500, launches).astype(np.int64) + np.concatenate(([0], sum(durations)[:-1])))
    times = [start, *(start + spent for spent in np.cumsum(durations, axis=0))]
    raw = RawRecording()
    names = ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")
    raw.launches |= dict(zip(names, times, strict=True)) | {
        "thread_id": np.zeros(launches, np.int32), "line_id": rng.integers(0, 2, launches).astype(np.int32),
        "stack_id": np.full(launches, -1, np.int32), "target": rng.integers(0, 2, launches).astype(np.int32),
        "configuration": rng.integers(0, 4, launches).astype(np.int32)}
    raw.threads = [{"ident": 140_000, "name": "MainThread"}]
    raw.lines = [{"file": "train.py", "line": 10 + at, "function": "step", "user_code": True} for at in range(2)]
    raw.cells = [{"start_ns": int(start[0]) - 10**9, "end_ns": int(start[-1]) + 10**6, "status": "ok"}]
    raw.dispatchers = [{"framework": "numba-cuda", "name": name} for name in ("axpy", "scale")]
    raw.specializations = [{"dispatcher_id": at, "signature": "(array(float32, 1d, C),)", "origin": "compiled"}
                           for at in range(2)]
    raw.configurations = [{"griddim_x": at + 1, "griddim_y": 1, "griddim_z": 1, "blockdim_x": 32, "blockdim_y": 1,
                           "blockdim_z": 1, "sharedmem_bytes": 0, "stream": 0} for at in range(4)]
    raw.devices = [{"ordinal": 0, "uuid": f"GPU-{number % 8}", "name": "NVIDIA H200"}]
    raw.targets = [{"dispatcher_id": at, "specialization_id": at, "device_id": 0, "error": None} for at in range(2)]
    raw.compilations = [{"dispatcher_id": at, "specialization_id": at, "thread_id": 0, "trigger": "eager",
                         "signature": "(array(float32, 1d, C),)", "start_ns": int(start[0]) - 9 * 10**8 + at * 10**6,
                         "end_ns": int(start[0]) - 4 * 10**8, "outcome": "compiled"} for at in range(2)]
    raw.metadata = {"name": "train", "clock": {"host_ns": 0, "wall_ns": 10**18, "error_ns": 1, "boot": "one"},
                    "process": {"host": f"node{number // 8}", "pid": 1000 + number, "rank": number, "start_ns": number,
                                "launcher": "torchrun"}}
    return build(raw)


def main() -> None:
    """Make the files and merge them, or merge those of a folder."""
    if sys.argv[1] == "merge":
        files = sorted(Path(sys.argv[2]).glob("worker*.kscope"))
        begun = time.perf_counter()
        made = merge_files(files, Path(sys.argv[2]) / "all.kscope")
        took = time.perf_counter() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10
        size = sum(each.stat().st_size for each in files)
        print(f"{len(files)} files, {size / 1e6:.1f} MB: {took:.1f} s by the clock, {time.process_time():.1f} s of "
              f"processor time with imports, peak {peak / 1e6:.0f} MB, file {made.path.stat().st_size / 1e6:.1f} MB "
              f"(pyarrow {pa.__version__})")
        return
    workers, launches = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(workers):
            save(worker(number, launches), Path(folder) / f"worker{number:05}.kscope")
        subprocess.run([sys.executable, __file__, "merge", folder], check=True)


if __name__ == "__main__":
    main()
