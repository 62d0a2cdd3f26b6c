"""The clocks of a cluster: each process asks the scheduler for its own, and keeps that as pings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kernelscope.clock import Clock, now
from kernelscope.native.journal import boot_id
from kernelscope.recorder.clocks import mirrored

#: So often the scheduler is asked: the fastest round trip counts. One of this host is only checked.
_TRIES, _CHECKS = 16, 3
#: No longer than this, all together.
_PATIENCE_S = 5.0


async def pings_of_scheduler(scheduler: Any, clock: Clock | None = None) -> dict[str, Any]:
    """Return when the scheduler read its clock and this process its own, as `recording.clocks.pings_of` has it.

    Parameters
    ----------
    scheduler : rpc
        The worker's or the client's connection to it.
    clock : callable, optional
        This process's clock.

    Returns
    -------
    dict
        ``pings``, as if the scheduler had sent them; ``boot``, the scheduler's; ``is_shared``, whether that is this
        machine, and its clock this process's as far as the pings can tell. Without pings it does not answer.
    """
    clock, own = clock or now, boot_id()
    pings: list[tuple[int, int, int]] = []
    boot: str | None = None
    is_shared = own is not None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while len(pings) < (_CHECKS if is_shared else _TRIES):
                before = clock()
                answer: Mapping[str, Any] = await scheduler.kernelscope_clock()
                after = clock()
                there, boot = int(answer["now"]), answer["boot"]
                pings.append(mirrored(before, there, after))
                is_shared = is_shared and boot == own and before <= there <= after
    except Exception:  # it has gone, or does not know the question: nothing is known of its clock
        is_shared = False
    return {"pings": pings, "boot": boot, "is_shared": is_shared}


def kept(begin: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recording's metadata have as ``pings``, of both ends: nothing where the clock is one."""
    if not (begin.get("pings") or end.get("pings")) or (begin.get("is_shared") and end.get("is_shared", True)):
        return {}
    return {"begin": list(begin.get("pings", ())), "end": list(end.get("pings", ())),
            "boot": begin.get("boot") or end.get("boot")}


def oddity(pings: Mapping[str, Any]) -> str:
    """Return what is odd with a process's clock: it differs from the scheduler's on the same machine; or nothing."""
    if pings.get("pings") and pings.get("boot") == boot_id() is not None and not pings.get("is_shared"):
        return "its clock is not that of the scheduler, on the same machine: its times were moved by pings"
    return ""
