"""The option ``lanes``, on a line ``--lanes``."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.recorder.core_options import COUNTERS, CoreOptions
from kernelscope.recorder.option import AROUND, flag, option


def _problem(options: LanesOptions) -> str | None:
    if options.lanes and options.gpu != "cupti":
        return f"lanes True needs CUPTI, and so gpu 'cupti', not {options.gpu!r}"
    return None


@dataclass(frozen=True, kw_only=True)
class LanesOptions(CoreOptions):
    """Adds ``lanes`` to the options of a recording."""

    lanes: bool = field(default=False, metadata=option(
        "sample ten thousand times a second how busy each GPU's multiprocessors, memory and tensor cores are: lanes "
        "under its kernels in the timeline", flag("--lanes", action="store_true"), check=_problem,
        exclusive=COUNTERS,
        inside=lambda _, around: (
            f"recorded {'lanes' if around.lanes else 'no lanes'} of the GPU's counters, {AROUND}")))
