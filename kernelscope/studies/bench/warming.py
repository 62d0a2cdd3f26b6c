"""Warming a case up, and finding how many loops make a batch."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

from .timed import TimedCase

#: How many of the last batches must agree with as many before them, and within what share.
_WINDOW, _AGREE = 3, 0.03
_LIMIT_S = 2.0
#: A wait for the device that is a longer share of the host's time than this may be that of a full queue.
_SYNC_SHARE = 0.2
_FEW_LOOPS = 32


class Warm(NamedTuple):
    """What warming up found.

    Attributes
    ----------
    loops : int
        How many make a batch.
    warm_batches : int
        How many batches it took.
    stable : bool
        Whether the last ones agreed; else they still differed when the time was over.
    ns_per_loop : float
        The median of the last ones.
    sync_share : float
        How long the device was waited for after a batch of `loops`, as a share of the host's time.
    limited : str
        What made the loops fewer than the batch's time would: ``most_loops``, ``queue`` (the device had more to do than
        its queue holds, so the host would wait for it), or empty.
    """

    loops: int
    warm_batches: int
    stable: bool
    ns_per_loop: float
    sync_share: float
    limited: str


def warm_up(case: TimedCase, batch_ms: float) -> Warm:
    """Run batches until they agree, and find how many loops make `batch_ms` milliseconds.

    The batches are a quarter as long. It is over when the median of the last three is within 3 % of that of the three
    before, or after two seconds.
    """
    case.batch(1)  # compiles
    deadline = time.monotonic() + _LIMIT_S
    most = case.most_loops or 1_000_000_000
    short_ns = batch_ms * 1e6 / 4
    loops = 1
    host_ns = case.batch(loops)[0]
    while host_ns < short_ns / 2 and loops < most and time.monotonic() < deadline:
        # Not more than eightfold: the first loops are slower than those that follow.
        loops = min(most, loops * max(2, min(8, int(short_ns / max(host_ns, 1)))))
        host_ns = case.batch(loops)[0]
    took: list[float] = []
    stable = False
    while not stable and (len(took) < 2 * _WINDOW or time.monotonic() < deadline):
        took.append(case.batch(loops)[0] / loops)
        stable = len(took) >= 2 * _WINDOW and _agree(took[-_WINDOW:], took[-2 * _WINDOW:-_WINDOW])
    ns_per_loop = statistics.median(took[-_WINDOW:])
    wanted = max(1, round(batch_ms * 1e6 / max(ns_per_loop, 1.0)))
    found, sync_share = _without_a_full_queue(case, min(wanted, most))
    limited = "queue" if found < min(wanted, most) else "most_loops" if most < wanted else ""
    return Warm(found, len(took), stable, ns_per_loop, sync_share, limited)


def _agree(one: list[float], other: list[float]) -> bool:
    first, second = statistics.median(one), statistics.median(other)
    return abs(first - second) <= _AGREE * max(first, second)


def _without_a_full_queue(case: TimedCase, loops: int) -> tuple[int, float]:
    """Return as many loops as the device's queue takes without making the host wait, and the share of the wait.

    The queue holds about a thousand launches. Where the device is slower than the host it fills, and from then on a
    launch takes the host as long as the device: that shows as a launch that is dearer in many loops than in few.
    """
    host_ns, sync_ns, *_ = case.batch(loops)
    share = sync_ns / max(host_ns, 1)
    if share <= _SYNC_SHARE or loops <= _FEW_LOOPS:
        return loops, share
    few = statistics.median(case.batch(_FEW_LOOPS)[0] / _FEW_LOOPS for _ in range(5))
    while loops > _FEW_LOOPS and host_ns / loops > 1.15 * few:
        loops = max(_FEW_LOOPS, loops // 2)
        host_ns, sync_ns, *_ = case.batch(loops)
    return loops, sync_ns / max(host_ns, 1)
