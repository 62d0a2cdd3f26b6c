"""The option ``stacks``, on a line ``--stacks``."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.recorder.core_options import CoreOptions
from kernelscope.recorder.option import AROUND, flag, option


def _problem(options: CallPathsOptions) -> str | None:
    if options.stacks and not options.lines:
        return "stacks True needs lines: a call path is one of lines of code; leave lines=False, --no-lines, out"
    return None


@dataclass(frozen=True, kw_only=True)
class CallPathsOptions(CoreOptions):
    """Adds ``stacks`` to the options of a recording."""

    stacks: bool = field(default=False, metadata=option(
        "record the call path of each launch and compile too: all Python frames from the outermost of your code on",
        flag("--stacks", action="store_true"), check=_problem, inside=lambda _, around: (
            f"recorded {'call paths' if around.stacks else 'no call paths'}, {AROUND}")))

    @property
    def records_call_paths(self) -> bool:
        """Whether the call paths of launches and compiles are recorded."""
        return self.stacks or super().records_call_paths
