"""Tries whether the GPU's counters may be read: for ``kernelscope doctor``, and before code is run to measure it."""

from __future__ import annotations

from typing import Any

from kernelscope.counters.permission import Verdict, read, verdict
from kernelscope.counters.range_profiler import RangeProfiler
from kernelscope.probes.cupti.contexts import Contexts
from kernelscope.probes.cupti.library import Cupti, CuptiError, find

_METRIC = "gpu__time_duration.sum"


def examine(path: str | None = None, contexts: list[tuple[int, int]] | None = None) -> dict[str, Any]:
    """Return whether counters may be read, having begun a measurement in this process, as plain JSON values.

    Parameters
    ----------
    path : str, optional
        CUPTI's library, instead of the one that is found.
    contexts : list of (int, int), optional
        Handles of contexts with the ordinals of their devices; both are for tests.

    Returns
    -------
    dict
        ``may_read``, ``why``, ``fix`` and ``note`` as in `Verdict`, and ``text``, all of it; ``libraries``: what was
        found of libcupti and libnvperf_host, with CUPTI's version; ``chip``, CUPTI's name of the first GPU.
    """
    libraries: dict[str, str] = {}
    chip: str | None = None
    used = None if contexts is None else Contexts(contexts)
    try:
        path = path or find()
        libraries[f"libcupti (API {Cupti(path).version})"] = path
        used = used or Contexts.of_process()
        context, device = used.handles[0]
        profiler = RangeProfiler(path, context, device, [_METRIC])
        try:
            chip, libraries["libnvperf_host"] = profiler.chip, profiler.nvperf
            profiler.start()
            profiler.stop()
        finally:
            profiler.end()
    except CuptiError as problem:
        found = Verdict(False, str(problem), problem.fix)
    else:
        found = verdict(read(), 0)
    finally:
        if used is not None:
            used.release()
    return {**found._asdict(), "text": found.text, "libraries": libraries, "chip": chip}
