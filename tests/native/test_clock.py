"""The times of launches are those of Python's clock, whatever they are read from."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


def test_launches_lie_between_readings_of_pythons_clock(core: Any) -> None:
    ring = core.Ring()
    state = core.State(ring, 0)
    ring.new_state = lambda: state
    hook = core.Hook("call", lambda dispatcher, args, config: None, ring, lambda *_: (0, 0), lambda *_: (0, 0))
    config = object()
    hook.know("configurations", config, 0, 0)
    around = []
    until = time.monotonic() + 1.0  # a thousand times the interval after which the counter is put right
    while time.monotonic() < until:
        before = time.perf_counter_ns()
        hook(None, (), config)
        around.append((before, time.perf_counter_ns()))
    columns = {name: np.frombuffer(column, np.int64) for name, column in ring.columns(0).items()
               if name in ("start_ns", "end_ns")}
    before, after = np.array(around).T
    early, late = before - columns["start_ns"], columns["end_ns"] - after
    assert len(before) == len(columns["start_ns"]) > 1000
    # Readings may pass each other in the processor, and the two are put together more finely than a call is timed.
    call_ns = np.median(after - before)
    assert np.quantile(early, 0.999) < call_ns and np.quantile(late, 0.999) < call_ns, (early.max(), late.max())
    assert (np.diff(columns["start_ns"]) >= 0).all()
    assert (columns["end_ns"] >= columns["start_ns"]).all()
