"""What is recovered after SIGKILL, for benchmarks/native.py.

A child launches and acknowledges each launch through a pipe once it has returned, with its number and the time before
and after it. The parent kills it at a random moment and compares what it was told with the journal's slots, which are
read here by their published layout and not by the package, so that both sides are tested.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from native_ways import WARM_UP, Part, Way, journal_way, kernel_of, launch

ACKNOWLEDGED = struct.Struct("<3q")  # number, before, after
HEADER_BYTES = 4096
HEADER = b"kernelscope ring" + struct.pack("<2I", 2, 64)
SLOT = np.dtype([("sequence", "<u8"), ("start_ns", "<i8"), ("dispatch_end_ns", "<i8"), ("submit_start_ns", "<i8"),
                 ("submit_end_ns", "<i8"), ("end_ns", "<i8"), ("target", "<i4"), ("configuration", "<i4"),
                 ("site", "<i4"), ("kind", "<u2"), ("check", "<u2")])
UNDER_WAY = np.uint64(1 << 63)


def kills(count: int = 50, longest: float = 0.4, at_once: int = 0, seconds: float = 600.0, seed: int = 0) -> Part:
    """Kill children at random moments, and count the acknowledged launches that the journal does not have.

    Parameters
    ----------
    count : int
        How many children.
    longest : float
        The latest moment, in seconds after the child asked for the recorder.
    at_once : int
        How many run beside each other; 0: a third of the cores.
    seconds : float
        After how long no further one is started.
    seed : int
        Of the moments.
    """
    part = Part()
    with tempfile.TemporaryDirectory() as folder:
        if journal_way(folder, "launches lost to SIGKILL", part.missing) is None:
            return part
    moments = [random.Random(seed + number).uniform(0.0, longest) for number in range(count)]
    with ThreadPoolExecutor(at_once or max(1, (os.cpu_count() or 1) // 3)) as pool:
        until = time.monotonic() + seconds
        ran = pool.map(lambda moment: killed(moment) if time.monotonic() < until else None, moments)
        each = [found for found in ran if found is not None]
    told = sum(found["acknowledged"] for found in each)
    lost, recovered, wrong, by_package = (sum(found[name] for found in each)
                                          for name in ("lost", "recovered", "wrong", "lost_by_package"))
    part.add(f"acknowledged launches lost to {len(each)} SIGKILLs", f"{lost:,} of {told:,}", "0", lost=lost,
             acknowledged=told)
    part.add("of them lost by the package's own recovery", f"{by_package:,}", "0", lost=by_package)
    part.add("launches out of order, or with other times than the child saw", f"{wrong:,} of {told:,}", "0",
             wrong=wrong)
    part.add("launches recovered, and of them under way when the process was killed",
             f"{recovered:,}, {sum(found['under_way'] for found in each):,}", "", recovered=recovered)
    part.values["kills"] = each
    return part


def killed(moment: float) -> dict[str, Any]:
    """Run a child, kill it, and compare."""
    def run(folder: str) -> dict[str, Any]:
        child = subprocess.Popen([sys.executable, __file__, folder], stdout=subprocess.PIPE)
        assert child.stdout is not None
        got = child.stdout.fileno()
        os.read(got, ACKNOWLEDGED.size)  # it is about to record
        until, told = time.monotonic() + moment, bytearray()
        os.set_blocking(got, False)
        while (left := until - time.monotonic()) > 0 and child.poll() is None:
            told += _read(got)
            time.sleep(min(left, 0.001))
        died = child.poll()
        child.kill()
        os.set_blocking(got, True)
        while more := os.read(got, 1 << 16):
            told += more
        child.wait()
        child.stdout.close()
        if died is not None:
            raise RuntimeError(f"the child ended by itself, exit status {died}: what it said is above")
        rows = np.frombuffer(bytes(told[:len(told) // ACKNOWLEDGED.size * ACKNOWLEDGED.size]), "<i8").reshape(-1, 3)
        journals = [path for path in Path(folder).iterdir() if (path / "slots").exists()]
        slots = read_slots(journals[0] / "slots") if journals else np.zeros(0, SLOT)
        by_package = lost_by_package(Path(folder), rows)
        return {"moment": moment, **compare(rows, slots), "lost_by_package": by_package}

    with tempfile.TemporaryDirectory() as folder:
        return run(folder)


def _read(file: int) -> bytes:
    try:
        return os.read(file, 1 << 20)
    except BlockingIOError:
        return b""


def read_slots(path: Path) -> np.ndarray:
    """The slots of a file that are not empty, without the last one if the kill tore it.

    ValueError where the check of another one is wrong, or the file is no ring of this version.
    """
    data = path.read_bytes()
    if data[:len(HEADER)] != HEADER:
        raise ValueError(f"{path}: neither a ring nor version 2 of it: begins with {data[:len(HEADER)]!r}")
    body = data[HEADER_BYTES:len(data) - (len(data) - HEADER_BYTES) % SLOT.itemsize]
    slots = np.frombuffer(body, SLOT)
    slots = slots[slots["sequence"] != 0]
    torn = checks(slots) != slots["check"]
    if torn[:-1].any():
        raise ValueError(f"{path}: the check of slot {int(np.flatnonzero(torn)[0])} is wrong")
    return slots[~torn]


def checks(slots: np.ndarray) -> np.ndarray:
    """What each slot's check should be."""
    words = np.ascontiguousarray(slots).view("<u8").reshape(-1, 8).copy()
    words[:, 7] &= np.uint64(0x0000_FFFF_FFFF_FFFF)  # without the check
    words[(words[:, 0] & UNDER_WAY) != 0, 2:6] = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    found = np.zeros(len(words), np.uint64)
    for place in range(8):
        found = ((found << np.uint64(9)) | (found >> np.uint64(55))) ^ words[:, place]
    found ^= found >> np.uint64(32)
    found ^= found >> np.uint64(16)
    return (found & np.uint64(0xFFFF)).astype("<u2")


def compare(rows: np.ndarray, slots: np.ndarray) -> dict[str, int]:
    """Count the acknowledged launches that are not among the slots, and those that are otherwise than the child saw.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, 3)
        Number, before, after.
    slots : ndarray of SLOT
        Those that are not empty.
    """
    under_way = (slots["sequence"] & UNDER_WAY) != 0
    done = slots[~under_way]
    at = np.searchsorted(done["start_ns"], rows[:, 1])  # of one thread: they began in the order of their numbers
    here = at < len(done)
    found = done[at[here]]
    kept = np.zeros(len(rows), bool)
    kept[here] = (found["start_ns"] >= rows[here, 1]) & (found["end_ns"] <= rows[here, 2])
    numbers = np.diff((done["sequence"] & ~UNDER_WAY).astype(np.int64))
    wrong = int((numbers != 1).sum()) + int((np.diff(done["start_ns"]) <= 0).sum()) + int((np.diff(at) != 1).sum())
    return {"acknowledged": len(rows), "recovered": len(slots), "lost": int((~kept).sum()), "wrong": wrong,
            "under_way": int(under_way.sum())}


def lost_by_package(folder: Path, rows: np.ndarray) -> int:
    """How many acknowledged launches are not in what the package itself recovers from a folder of journals."""
    from kernelscope.recording.journal import find_journals, read_journal

    starts = np.zeros(0, np.int64)
    for found in find_journals(folder):
        launches = read_journal(found.folder).launches
        starts = np.append(starts, launches.start_ns[launches.end_ns.notna()].to_numpy(np.int64))
    starts.sort()
    return int(len(rows) - (np.searchsorted(starts, rows[:, 2]) > np.searchsorted(starts, rows[:, 1])).sum())


def child(folder: str) -> None:
    """Launch and acknowledge until killed."""
    kernel, given = kernel_of(0)
    launch(kernel, given, WARM_UP)
    clock, pack, tell = time.perf_counter_ns, ACKNOWLEDGED.pack, os.write
    tell(1, pack(-1, 0, 0))
    Way("killed", "phases", journal=folder).start()
    number = 0
    while True:
        before = clock()
        kernel()
        after = clock()
        tell(1, pack(number, before, after))
        number += 1


if __name__ == "__main__":
    child(sys.argv[1])
