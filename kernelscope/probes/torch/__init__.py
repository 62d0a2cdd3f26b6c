"""The probe of torch.compile: compiles with stages, guards that failed, graph breaks, caches, and CUDA graph trees.

Everything that is hooked runs when something is compiled, loaded from a cache, or recorded as a CUDA graph. A call of a
compiled function that finds its code runs no hook. ATen's kernels, and those of compiled code, are CUPTI's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import ImportHook, Probe, numbers_of, refuse_older, signature_problems, untried
from kernelscope.probes.sink import Sink
from kernelscope.probes.torch.compile import FRAMEWORK, CompileHooks
from kernelscope.probes.torch.cudagraphs import CudaGraphHooks

__all__ = ["TorchProbe", "self_check"]

#: The first version that the hooks were tried with, and all of them by their first two numbers.
OLDEST_VERSION = "2.11"
KNOWN_VERSIONS = ("2.11",)

_OUTPUT, _TREES, _SKIPS = (f"torch._inductor.{name}" for name in ("output_code", "cudagraph_trees", "cudagraph_utils"))
_COMPILE = ("code", "globals", "locals")
_EVENT = ("self", "event_name", "time_ns", "metadata", "start_time_ns")


class TorchProbe(Probe):
    """Hooks torch.compile where ``torch._dynamo`` is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "torch._dynamo"
    fix = "pip install 'torch==2.11.*'"

    def __init__(self) -> None:
        super().__init__()
        self._compiles: CompileHooks | None = None
        self._imports: list[ImportHook] = []

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook compiles, and inductor as soon as it is imported. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("torch"), "__version__", ""))
        refuse_older("torch", version, OLDEST_VERSION)
        problems = self_check()
        if problems:
            raise ProbeUnavailableError(
                f"torch {version or 'of an unknown version'} has other functions than this probe knows, and its "
                f"compiles are not recorded; those of {', '.join(KNOWN_VERSIONS)} are: {'; '.join(problems)}")
        self._compiles = compiles = CompileHooks(sink)
        compiles.install(self.patches, *(sys.modules[f"torch._dynamo.{name}"]
                                         for name in ("convert_frame", "guards", "utils")))
        graphs = CudaGraphHooks(sink, compiles)
        self._imports = [
            ImportHook(_OUTPUT, lambda module: self._hook_more(sink, module, "CompiledFxGraph", "post_compile",
                                                               compiles.make_post_compile)),
            ImportHook(_SKIPS, lambda module: self._hook_more(sink, module, "", "log_cudagraph_skip_and_bump_counter",
                                                              graphs.make_skip)),
            ImportHook(_TREES, lambda module: self._hook_more(sink, module, "CUDAGraphTreeManager", "record_function",
                                                              graphs.make_record)),
        ]
        for each in self._imports:
            each.arm()
        if numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("torch", version, ", ".join(KNOWN_VERSIONS)).replace("launches", "compiles"))

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        for each in self._imports:
            each.disarm()
        if self._compiles is not None:
            self._compiles.enabled = False
        super().unhook()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Add to the compiles what happened after them: CUDA graphs and autotuning. See `ProbeProtocol.describe`."""
        if self._compiles is not None:
            self._compiles.publish()

    def _hook_more(self, sink: Sink, module: Any, owner: str, name: str, make: Any) -> None:
        """Hook a function of inductor, which is imported with the first compile that needs it."""
        with self.lock:
            if not self.is_installed:
                return
            missing = self.patches.hook_all([(getattr(module, owner, None) if owner else module, name, make)])
            if missing:
                self.report(sink, f"torch has no {module.__name__}.{missing[0]}: what it tells is not recorded")


def self_check() -> list[str]:
    """Return how the functions that hooks rely on differ from what they should be."""
    names = ("convert_frame", "guards", "utils")
    missing = [f"there is no torch._dynamo.{name}" for name in names if f"torch._dynamo.{name}" not in sys.modules]
    if missing:
        return missing
    frames, guards, utils = (sys.modules[f"torch._dynamo.{name}"] for name in names)
    problems = signature_problems(guards, (
        ("get_and_maybe_log_recompilation_reasons", ["cache_entry", "frame", "backend", "skip_logging"], ()),))
    for owner, name, wanted in ((frames, "_compile", _COMPILE),
                                (getattr(utils, "ChromiumEventLogger", None), "log_event_end", _EVENT)):
        function = vars(owner).get(name) if owner is not None else None
        if not inspect.isfunction(function):
            problems.append(f"there is no function {name}")
        elif tuple(inspect.signature(function).parameters)[:len(wanted)] != wanted:
            problems.append(f"{name} does not take ({', '.join(wanted)}, ...)")
    return problems + [f"torch._dynamo.utils has no {name}" for name in ("counters", "graph_break_reasons")
                       if not hasattr(utils, name)]
