"""SIGKILL at random moments: every launch that had returned is in the file, in order, and whole."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMES = 8
UNDER_WAY = np.uint64(1 << 63)
SLOT = np.dtype([("sequence", "<u8"), ("start_ns", "<i8"), ("dispatch_end_ns", "<i8"), ("submit_start_ns", "<i8"),
                 ("submit_end_ns", "<i8"), ("end_ns", "<i8"), ("target", "<i4"), ("configuration", "<i4"),
                 ("site", "<i4"), ("kind", "<u2"), ("check", "<u2")])
#: Hooks as those of numba-cuda's launch path, on functions that do nothing: where they are installed in numba-cuda,
#: tests/recorder/test_recorder_journal.py kills processes.
CHILD = """
import os, sys, threading
from kernelscope.native import core

mode, capacity, path, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ring, states = core.Ring(mode=mode, capacity=capacity, path=path), threading.local()

def state_of_thread():
    if not hasattr(states, "state"):
        states.state = core.State(ring, numbers.pop())
    return states.state

ring.new_state = state_of_thread
numbers = list(range(threads))
hook = lambda kind, function: core.Hook(kind, function, ring, lambda *_: (1, 2), lambda *_: (3, 1))
found, submit = hook("found", lambda *_: None), hook("submit", lambda *_: None)
kernel, config = object(), object()

def launch(dispatcher, args, config):
    found(dispatcher, kernel, config)
    submit(args)

call = hook("call", launch)

def run(number):
    while True:
        call(None, (), config)
        os.write(1, bytes([number]))

for number in range(1, threads):
    threading.Thread(target=run, args=(number,)).start()
run(0)
"""


def check_of(slots: np.ndarray) -> np.ndarray:
    """The check field that each slot must have, as the layout says."""
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    words = slots.view("<u8").reshape(-1, 8).copy()
    words[is_open, 2:6] = np.uint64(2**64 - 1)
    words[:, 7] &= np.uint64((1 << 48) - 1)
    x = np.zeros(len(slots), np.uint64)
    for place in range(8):
        x = (x << np.uint64(9) | x >> np.uint64(55)) ^ words[:, place]
    x ^= x >> np.uint64(32)
    x ^= x >> np.uint64(16)
    return (x & np.uint64(0xffff)).astype("<u2")


def killed(script: Path, file: Path, mode: str, capacity: int, threads: int, after: float) -> list[int]:
    """Run the child and kill it some time after its first launch; return which threads said that a launch was over."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script, mode, str(capacity), file, str(threads)], env=environment,
                          stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        said = os.read(child.stdout.fileno(), 1)
        assert said, "the child ended by itself"
        until = time.monotonic() + after
        while time.monotonic() < until:
            said += os.read(child.stdout.fileno(), 1 << 16)
        child.send_signal(signal.SIGKILL)
        said += child.stdout.read()
    return list(said)


@pytest.mark.parametrize("number", range(TIMES))
def test_what_was_acknowledged_is_there(tmp_path: Path, number: int) -> None:
    draw = random.Random(number)
    mode, capacity = draw.choice([("grow", 0), ("ring", 100), ("ring", 5000), ("stop", 1000), ("stop", 10**6)])
    threads = draw.choice([1, 1, 4])
    (tmp_path / "child.py").write_text(CHILD)
    said = killed(tmp_path / "child.py", tmp_path / "slots", mode, capacity, threads, draw.uniform(0, 0.15))

    content = (tmp_path / "slots").read_bytes()
    magic, version, slot_bytes, segment, mode_number, kept, *_ = struct.unpack_from("<16s4IQQq", content)
    assert (magic, version, slot_bytes, segment, mode_number, kept) == (
        b"kernelscope ring", 2, 64, 4096, ["grow", "ring", "stop"].index(mode), capacity)
    told, lost = struct.unpack_from("<2Q", content, 64)
    slots = np.frombuffer(content, SLOT, offset=4096)
    slots = slots[(slots["sequence"] & ~UNDER_WAY) != 0]
    begun = int((slots["sequence"] & ~UNDER_WAY).max())
    assert begun - 2048 <= told <= begun + threads  # half a segment at most is not counted there yet
    assert begun + lost >= len(said)
    assert (lost == 0) or mode == "stop"

    right = check_of(slots) == slots["check"]
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    assert right[~is_open].all()
    # Killed between the check and the number that are written last, a launch is still under way by its number.
    assert right[is_open].all() or (slots["end_ns"][is_open & ~right] >= slots["start_ns"][is_open & ~right]).all()
    assert max(np.bincount(slots["site"][is_open]), default=0) <= 1
    assert (slots["end_ns"][~is_open] >= slots["start_ns"][~is_open]).all()

    # The n-th launch that a thread acknowledged is the n-th of the thread that began, where all are kept.
    numbers = np.sort(slots["sequence"] & ~UNDER_WAY).tolist()
    assert len(set(numbers)) == len(numbers)
    most = begun if mode != "ring" else min(begun, capacity)
    assert most - threads <= len(numbers) <= most
    rank = np.argsort(slots["sequence"] & ~UNDER_WAY)
    if mode == "ring":
        assert set(range(max(begun - capacity + 2 + threads, 1), begun - threads + 1)) <= set(numbers)
    for thread in set(slots["site"].tolist()):
        starts = slots["start_ns"][rank][slots["site"][rank] == thread]
        assert (np.diff(starts) >= 0).all()
    if mode != "ring" and lost == 0:
        done = np.sort(np.bincount(slots["site"][~is_open], minlength=threads))
        acknowledged = np.sort(np.bincount(said, minlength=threads))
        assert (done >= acknowledged).all() and (done <= acknowledged + 1).all()
