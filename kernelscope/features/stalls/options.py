"""The option ``stalls``, on a line ``--stalls`` and ``--stalls-by-launch``."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.recorder.core_options import COUNTERS, CoreOptions
from kernelscope.recorder.option import AROUND, flag, option

#: The value with which kernels run one by one.
LAUNCHES = "launches"


def _problem(options: StallsOptions) -> str | None:
    if not (isinstance(options.stalls, bool) or options.stalls == LAUNCHES):
        return f"stalls {options.stalls!r} is none of True, False and {LAUNCHES!r}"
    if options.stalls and options.gpu != "cupti":
        return f"stalls {options.stalls!r} needs CUPTI, and so gpu 'cupti', not {options.gpu!r}"
    return None


def _inside(options: StallsOptions, around: StallsOptions) -> str:
    if options.stalls and around.stalls:
        how = "kernels one by one" if around.stalls == LAUNCHES else "kernels as they came"
        return f"recorded stall reasons of {how}, {AROUND}"
    return f"recorded {'the' if around.stalls else 'no'} stall reasons of warps, {AROUND}"


@dataclass(frozen=True, kw_only=True)
class StallsOptions(CoreOptions):
    """Adds ``stalls`` to the options of a recording."""

    stalls: bool | str = field(default=False, metadata=option(
        "have the GPU sample at which line of which kernel its warps are, and why they wait; the kernels' code is "
        "recorded with it. With 'launches' kernels run one by one, so that each sample has its launch",
        flag("--stalls", action="store_const", const=True,
             help="sample at which lines of kernels the GPU's warps wait, and why; records the kernels' code too"),
        flag("--stalls-by-launch", action="store_const", const=LAUNCHES,
             help="the same with kernels one by one, so that each sample has its launch"),
        check=_problem, inside=_inside, exclusive=COUNTERS))

    @property
    def needs_code(self) -> bool:
        """Whether the code of kernels is recorded: it says of which line an instruction is."""
        return bool(self.stalls) or super().needs_code
