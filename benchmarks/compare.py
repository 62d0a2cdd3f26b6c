"""Measures how often comparisons of a recording with its equal see no difference, and how long comparing takes.

    python benchmarks/compare.py [--processes N] [--cells N] [--launches N] [--quick]
    python benchmarks/compare.py --record FOLDER    on a GPU; then, anywhere, --runs FOLDER

What is compared is the same on both sides: the halves of each cell of the recordings in ``notebooks/recordings``, and
its sixteenths in turn; the ranks of a training, without the one whose batches are larger; and a cell that is run
again and again in some processes, under the dry run, whose host times are real. A comparison is right if it sees
nothing faster and nothing slower. The same cells with launches that take longer say what is found, and synthetic ones
by phase. Then two recordings of a million launches each are compared.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import kernelscope
from kernelscope.analysis.columns import ids
from kernelscope.features.compare.analyse import MEASURES, Changes
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.recording.model import Recording, _masks, _part
from kernelscope.schema import RECORD_TIMES, TABLES

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "notebooks" / "recordings"
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

Pair = tuple[Recording, Recording]
#: The rank of that training whose batches are larger: see record_workers.py.
LARGER = 3

_CELL = """
import sys, numpy as np, kernelscope
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a * x[i]

@cuda.jit
def scale(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] *= a

folder, cells, launches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x, y = cuda.device_array(1024, np.float32), cuda.device_array(1024, np.float32)
for cell in range(cells):
    with kernelscope.record("step") as recorder:
        for at in range(launches):
            axpy[8, 128](x, 2.0, y)
            if at % 3 == 0:
                scale[8, 128](x, 2.0)
    recorder.recording.save(f"{folder}/{cell:02}.kscope")
"""


def part(recording: Recording, launches: np.ndarray) -> Recording:
    """Return some launches of a recording, with what they use."""
    keep = _masks(recording, ("processes", "cells", "health"))
    keep["launches"] = launches
    return Recording(_part(recording, keep), recording.metadata)


def cells_of(recording: Recording) -> Iterator[Recording]:
    for cell in range(recording.arrow("cells").num_rows):
        yield recording.select(cell=cell)


def parted(recording: Recording, which: Callable[[np.ndarray], np.ndarray]) -> Pair:
    """Return two parts of a recording's launches, by kernel: their places are what `which` is given."""
    dispatcher = ids(recording, "launches", "dispatcher_id")
    first = np.zeros(len(dispatcher), bool)
    for kernel in np.unique(dispatcher):
        rows = np.flatnonzero(dispatcher == kernel)
        first[rows[which(np.arange(len(rows)) / len(rows))]] = True
    return part(recording, first), part(recording, ~first)


def saved(which: Callable[[np.ndarray], np.ndarray]) -> Iterator[Pair]:
    for file in sorted(RECORDINGS.glob("*.kscope")):
        for cell in cells_of(kernelscope.load(file)):
            yield parted(cell, which)


def ranks() -> Iterator[Pair]:
    whole = kernelscope.load(RECORDINGS / "workers_training.kscope")
    equal = [whole.select(process=row["process_id"]) for row in whole.rows("processes") if row["rank"] != LARGER]
    yield from itertools.permutations(equal, 2)


def repeated(folder: Path, processes: int, cells: int, launches: int) -> list[list[Recording]]:
    """Return the recordings of the cell, by process."""
    found: list[list[Recording]] = []
    for process in range(processes):
        own = folder / str(process)
        own.mkdir()
        subprocess.run([sys.executable, "-W", "ignore", "-c", _CELL, str(own), str(cells), str(launches)], check=True,
                       env=os.environ | {"KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": str(ROOT)})
        found.append([kernelscope.load(file) for file in sorted(own.glob("*.kscope"))])
    return found


def recorded(folder: Path) -> list[list[Recording]]:
    """Return the runs that a folder has, by process: what `record` wrote."""
    return [[kernelscope.load(file) for file in sorted(own.glob("*.kscope"))]
            for own in sorted(folder.iterdir()) if own.is_dir()]


def record(folder: Path, processes: int, cells: int, launches: int) -> None:
    """Record the cell on a GPU, into a folder a process; arrays of 4 MB keep the GPU busy for some microseconds."""
    cell = _CELL.replace("cuda.device_array(1024, np.float32)", "cuda.to_device(np.zeros(1 << 20, np.float32))")
    for process in range(processes):
        own = folder / str(process)
        own.mkdir(parents=True)
        subprocess.run([sys.executable, "-W", "ignore", "-c", cell.replace("[8, 128]", "[4096, 256]"), str(own),
                        str(cells), str(launches)], check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


def slowed(recording: Recording, times: float) -> Recording:
    """Return a recording whose launches take so many times as long."""
    launches = recording.arrow("launches")
    start = recording.column("launches", "start_ns")
    for name in RECORD_TIMES[1:]:
        at = launches.schema.get_field_index(name)
        later = start + np.rint((recording.column("launches", name) - start) * times).astype(np.int64)
        launches = launches.set_column(at, launches.schema.field(at), pa.array(later, pa.int64()))
    return Recording({**recording.tables, "launches": launches}, recording.metadata)


def tell_found(name: str, pairs: Iterable[Pair], times: float) -> None:
    """Print in how many comparisons every kernel is found slower, whose launches take so many times as long."""
    found = count = 0
    for before, after in pairs:
        host = [each.verdict for each in Changes(before, slowed(after, times)).differences if each.measure == "host"]
        count += 1
        found += host == [SLOWER] * len(host)
    print(f"{f'{name}, {times - 1:.0%} slower':44}  {found:>5} of {count:<5}  found", flush=True)


def tell_phases(times: float, pairs: int = 20) -> None:
    """Print in how many synthetic comparisons each measure is found slower, which takes so many times as long."""
    from two_runs import USUAL, run

    found, count = Counter[str](), Counter[str]()
    for at in range(pairs):
        for each in Changes(run(2 * at), run(2 * at + 1, changed=dict.fromkeys(USUAL, times))).differences:
            count[each.measure] += 1
            found[each.measure] += each.verdict == SLOWER
    words = ", ".join(f"{measure} {found[measure]}" for measure in MEASURES)
    print(f"{f'synthetic kernels, {times - 1:.0%} slower':44}  of {count['host']} each: {words}", flush=True)


def tell(name: str, pairs: Iterable[Pair]) -> tuple[int, int]:
    """Print what comparisons say, and return how many were right of how many."""
    verdicts: Counter[str] = Counter()
    right = count = 0
    for before, after in pairs:
        changes = Changes(before, after)
        if not changes.differences:
            continue
        count += 1
        right += not changes.seen
        verdicts.update(each.verdict for each in changes.differences)
    words = "  ".join(f"{verdicts[word]:>6}" for word in (NO_DIFFERENCE, TOO_NOISY, FASTER, SLOWER))
    print(f"{name:44}  {right:>5} of {count:<5}  {words}", flush=True)
    return right, count


def seconds(launches: int, kernels: int) -> float:
    """Return how long comparing two recordings takes, everything that a comparison has."""
    from handmade import many_launches

    pair = many_launches(launches, kernels), many_launches(launches, kernels)
    for each in pair:
        assert set(each.tables) == set(TABLES)
    begin = time.perf_counter()
    changes = Changes(*pair)
    assert changes.totals and changes.differences and changes.sections and changes.notes is not None
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--cells", type=int, default=5)
    parser.add_argument("--launches", type=int, default=600)
    parser.add_argument("--record", metavar="FOLDER", type=Path, help="only record runs of the cell on a GPU, into it")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="compare the runs that --record made, in place of "
                        "the dry run's")
    parser.add_argument("--quick", action="store_true", help="few processes and cells, and a hundredth of the launches")
    asked = parser.parse_args()
    if asked.record is not None:
        return record(asked.record, asked.processes, asked.cells, asked.launches)
    processes, cells = (2, 2) if asked.quick else (asked.processes, asked.cells)
    print(f"{'the same on both sides':44}  {'nothing seen':14}  {'no difference, too noisy, faster, slower'}")
    found = [tell("halves of a cell", saved(lambda at: at < 0.5)),
             tell("sixteenths of a cell in turn", saved(lambda at: (at * 16).astype(int) % 2 == 0)),
             tell("ranks of a training", ranks())]
    with tempfile.TemporaryDirectory() as folder:
        runs = (repeated(Path(folder), processes, cells, asked.launches) if asked.runs is None
                else recorded(asked.runs))
        found.append(tell("a cell again, in one process",
                          (pair for own in runs for pair in itertools.combinations(own, 2))))
        found.append(tell("the same cell of other processes", (
            pair for own in zip(*runs, strict=True) for pair in itertools.permutations(own, 2))))
        right, count = (sum(each) for each in zip(*found, strict=True))
        print(f"{'all':44}  {right:>5} of {count:<5}")
        for times in (1.2, 1.3, 1.5):
            tell_found("a cell again, in one process",
                       (pair for own in runs for pair in itertools.combinations(own[1:], 2)), times)
            tell_found("the same cell of other processes", (
                pair for own in zip(*runs, strict=True) for pair in itertools.permutations(own, 2)), times)
    for times in (1.2, 1.5, 2.0):
        tell_phases(times, 2 if asked.quick else 20)
    launches = 10_000 if asked.quick else 1_000_000
    for kernels in (8, 200):
        print(f"two recordings of {launches:,} launches, {kernels} kernels: {seconds(launches, kernels):.2f} s")


if __name__ == "__main__":
    main()
