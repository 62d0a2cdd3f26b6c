"""Quadrants' compiles: the front end once a specialization, and machine code that is made or found in a cache.

Two caches can spare work. The fast cache (``src_ll_cache``, for kernels that say ``fastcache=True``) knows a kernel by
its source and arguments, and spares the front end too. The offline cache (``fe_ll_cache``) knows it by what the front
end made, and spares the machine code. Both are disk caches; a Program keeps in memory what it has used.
"""

from __future__ import annotations

import json
from typing import Any

from kernelscope.probes.launch_log import ThreadState
from kernelscope.probes.quadrants.facts import Facts
from kernelscope.probes.sink import Sink

_FAST = "loaded from Quadrants' fast cache, which knows the kernel by its source and arguments: nothing was compiled"
_OFFLINE = ("its machine code was in Quadrants' offline cache; the front end ran, which finds out which kernel it is")
_OFFLINE_FIX = "@qd.kernel(fastcache=True) spares the front end too, where the kernel reads no globals that change"


class Compile:
    """A compile under way in one thread.

    Attributes
    ----------
    key
        Quadrants' key of the specialization; None where the front end had done its part before.
    start : int
        When the front end began, in nanoseconds; `front_end_end` when it had ended.
    code : tuple of int or None
        When the machine code was asked for, and when it was there.
    """

    __slots__ = ("cache_key", "code", "fast", "front_end_end", "hit", "key", "start")

    def __init__(self, key: Any, start: int) -> None:
        self.key = key
        self.start = start
        self.front_end_end: int | None = None
        self.fast = False
        self.code: tuple[int, int] | None = None
        self.hit: bool | None = None
        self.cache_key: str | None = None


class Compiles:
    """Writes ``compilations`` and ``passes``."""

    def __init__(self, sink: Sink, facts: Facts) -> None:
        self._sink = sink
        self._facts = facts

    def front_end_done(self, state: ThreadState) -> None:
        """The thread's launch has its specialization."""
        state.compilation.front_end_end = self._sink.clock()

    def code_made(self, state: ThreadState, start: int, result: Any) -> None:
        """The machine code, which was asked for at `start`, is there."""
        under_way = state.compilation
        under_way.code = start, self._sink.clock()
        under_way.hit = bool(result.cache_hit)
        under_way.cache_key = str(result.cache_key)

    def finish(self, state: ThreadState, kernel: Any, error: BaseException | None = None) -> None:
        """Write the thread's compile, which was for `kernel`; `error` is what ended its launch."""
        under_way: Compile = state.compilation
        state.compilation = None
        now = self._sink.clock()
        key = kernel._last_launch_key if under_way.key is None else under_way.key
        under_way.fast = under_way.hit is None and kernel.compiled_kernel_data_by_key.get(key) is not None
        ends = [under_way.code[1] if under_way.code else None, under_way.front_end_end, now]
        end = next(each for each in ends if each is not None)
        # What failed after the machine code was there, failed to launch.
        failed = error is not None and under_way.hit is None and not under_way.fast
        outcome = "failed" if failed else _outcome(under_way, kernel)
        specialization = None
        if not failed:
            specialization = self._facts.specialization(kernel, key, outcome)
        row = {
            "dispatcher_id": self._facts.dispatcher(kernel), "specialization_id": specialization,
            "thread_id": state.thread_id, "trigger": "launch",
            "signature": self._facts.signature(kernel, key), "start_ns": under_way.start,
            "end_ns": now if failed else end, "outcome": outcome,
            "error": _shown(error) if failed else None,
            "cache_key": under_way.cache_key, "cache_file": self._facts.cache_folder(kernel),
            "attributes": json.dumps(_caches(under_way, kernel)),
            **self._reason(under_way, outcome, kernel, key),
        }
        phases = [("front end", under_way.start, under_way.front_end_end)]
        if under_way.code is not None:
            phases.append(("code", *under_way.code))
        with self._sink.lock:
            position = len(self._sink.compilations)
            self._sink.compilations.append(row)
        self._sink.passes.extend(
            {"compilation_id": position, "specialization_id": specialization, "kind": "phase", "name": name,
             "start_ns": start, "duration_ns": end - start}
            for name, start, end in phases if end is not None and end > start)
        self._sink.flush()

    def _reason(self, under_way: Compile, outcome: str, kernel: Any, key: Any) -> dict[str, str]:
        """Reasons that the arguments' types do not tell; what they tell is found out when recording has ended."""
        if outcome == "disk" and under_way.fast:
            return {"reason_code": "disk", "reason": _FAST}
        if outcome == "disk":
            return {"reason_code": "disk", "reason": _OFFLINE, "fix": _OFFLINE_FIX}
        return self._facts.reason(kernel, key) if outcome == "compiled" else {}


def _outcome(under_way: Compile, kernel: Any) -> str:
    if under_way.hit is not None:
        return "disk" if under_way.hit else "compiled"
    if under_way.fast:
        return "disk" if kernel.src_ll_cache_observations.cache_loaded else "wait"
    return "compiled"


def _shown(error: BaseException | None) -> str:
    """The exception's type and last line: Quadrants puts a traceback of its own before it."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def _caches(under_way: Compile, kernel: Any) -> dict[str, Any]:
    """What Quadrants' caches did, in its own words."""
    held: dict[str, Any] = {}
    fast = kernel.src_ll_cache_observations
    if fast.cache_key_generated:
        held["src_ll_cache"] = "loaded" if under_way.fast else "stored" if fast.cache_stored else "missed"
    if under_way.hit is not None:
        held["fe_ll_cache"] = "hit" if under_way.hit else "missed"
    return held
