"""The probe of Quadrants: kernel calls with their phases, compiles with their caches, and graphs.

One call of a Quadrants kernel launches a CUDA kernel for each of its top-level loops, with grids and blocks that Python
does not see: a launch has no dimensions here, and the activities that belong to it do.
"""

from __future__ import annotations

import inspect
import statistics
import sys
import threading
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from kernelscope.clock import now
from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import ImportHook, Patches
from kernelscope.probes.quadrants.hooks import Hooks
from kernelscope.probes.quadrants.kernels import FRAMEWORK, Facts
from kernelscope.probes.sink import Sink

#: Versions that the probe was tried with.
KNOWN_VERSIONS = ("1.3.3", "1.4.0")

_FIX = "pip install 'quadrants==1.4.0'"
_GETTERS = ("get_graph_total_builds", "get_graph_cache_size", "get_graph_cache_used_on_last_call",
            "get_graph_num_nodes_on_last_call", "get_graph_num_checkpoints_on_last_call")
_ATTRIBUTES = ("materialized_kernels", "mapper", "arg_metas", "use_graph", "runtime", "_last_launch_key")


class QuadrantsProbe:
    """Hooks Quadrants where it is imported, or as soon as it is."""

    name = FRAMEWORK

    def __init__(self) -> None:
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        # Another thread imports Quadrants while one uninstalls.
        self._lock = threading.RLock()
        self._installed = False
        self._hooks: Hooks | None = None
        self._sink: Sink | None = None
        self._impl: Any = None

    def install(self, sink: Sink, detail: str) -> None:
        """Hook Quadrants, or wait for its import. See `Probe.install`."""
        self._installed = True
        self._sink = sink
        self._import_hook = ImportHook("quadrants", lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        with self._lock:
            self._installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            if self._hooks is not None:
                self._hooks.enabled = False
            self._patches.undo()

    def synchronize(self) -> str | None:
        """Wait for what Quadrants launched, if it launched anything. See `Probe.synchronize`."""
        if self._hooks is None or self._sink is None or not self._hooks.targets:
            return None
        if self._sink.is_capturing():
            return "a stream is capturing a graph: synchronizing would break the capture"
        program = self._impl.get_runtime()._prog
        if program is None:
            return None
        try:
            program.synchronize()
        except Exception as error:  # a kernel's own failure: the recording tells, and the user's next call raises it
            return f"{type(error).__name__}: {error}"
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Hand over what was seen of graphs. See `Probe.describe`."""
        if self._hooks is not None:
            self._hooks.graphs.publish()

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to: everything is recorded. See `Probe.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure the hooks around functions that do nothing. See `Probe.cost_per_launch_ns`."""
        return None if self._hooks is None or not self._hooks.targets else measure_cost(detail)

    def _imported(self, package: ModuleType, sink: Sink) -> None:
        """Hook Quadrants, which has just been imported; what goes wrong is a fact for health, not for the user."""
        try:
            with self._lock:
                if self._installed:
                    self._hook(package, sink)
        except ProbeUnavailableError as problem:
            sink.health.append({"probe": self.name, "status": "unavailable", "message": str(problem), "fix": _FIX})
        except Exception as problem:
            self._patches.undo()
            self._hooks = None
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _hook(self, package: Any, sink: Sink) -> None:
        version = str(getattr(package, "__version_str__", "unknown"))
        # `quadrants.lang.kernel` as an attribute is the decorator.
        module, self._impl = sys.modules["quadrants.lang.kernel"], sys.modules["quadrants.lang.impl"]
        kernel, compiled, program = module.Kernel, module.KernelCxx, self._impl.Program
        problems = self_check(kernel, compiled, program)
        if problems:
            raise ProbeUnavailableError(
                f"quadrants {version} is unknown: {'; '.join(problems)}; none of its launches is recorded")
        hooks = Hooks(sink, Facts(sink))
        hooks.install(self._patches, kernel, compiled, program)
        self._hooks = hooks
        self._tell(sink, version, kernel, program)

    def _tell(self, sink: Sink, version: str, kernel: Any, program: Any) -> None:
        """State in health what this Quadrants lacks, or that nobody knows."""
        assert self._hooks is not None
        missing = [name for name in _GETTERS if not hasattr(program, name)]
        said = None
        if missing:
            self._hooks.graphs.missing = True
            said = f"has no {', '.join(missing)}: its graphs are not recorded"
        elif "_try_load_fastcache" not in vars(kernel):
            said = "has no Kernel._try_load_fastcache: the time of its front end is not recorded"
        elif version not in KNOWN_VERSIONS:
            said = (f"was not tried, {' and '.join(KNOWN_VERSIONS)} were: its launches are recorded, and may lack "
                    "something")
        if said is not None:
            sink.health.append({"probe": self.name, "status": "degraded", "fix": _FIX,
                                "message": f"quadrants {version} {said}"})


def self_check(kernel: Any, compiled: Any, program: Any) -> list[str]:
    """Compare what the hooks rely on with what it should be; return what differs."""
    problems: list[str] = []
    for name, wanted in (
        ("__call__", ["self", "py_args", "kwargs"]),
        ("launch_kernel", ["self", "key", "t_kernel", "compiled_kernel_data", "args"]),
    ):
        function = vars(kernel).get(name)
        if not callable(function):
            problems.append(f"Kernel has no {name}")
            continue
        plain = inspect.unwrap(function)
        if isinstance(plain, FunctionType) and list(inspect.signature(plain).parameters)[:len(wanted)] != wanted:
            problems.append(f"Kernel.{name} does not take ({', '.join(wanted)})")
    needed = ((compiled, "make_launch_context"), (program, "launch_kernel"), (program, "compile_kernel"))
    return problems + [f"{owner.__name__} has no {name}" for owner, name in needed if name not in vars(owner)]


def measure_cost(detail: str, rounds: int = 20, launches: int = 200) -> float:
    """Measure what the hooks add to one launch, in nanoseconds: the median of A B A B rounds."""
    sink = Sink(detail=detail)
    kernel = _Kernel()
    differences: list[int] = []
    for _ in range(rounds):
        times: list[int] = []
        for recorded in (False, True):
            patches = Patches()
            if recorded:
                hooks = Hooks(sink, Facts(sink))
                hooks.targets[id(kernel.compiled)] = 0
                hooks.install(patches, _Kernel, _Compiled, _Program)
            try:
                start = now()
                for _ in range(launches):
                    kernel()
                times.append(now() - start)
            finally:
                patches.undo()
        differences.append(times[1] - times[0])
    return max(0.0, statistics.median(differences) / launches)


class _Program:
    """What `measure_cost` launches with."""

    def launch_kernel(self, data: Any, context: Any) -> None:
        return None

    def compile_kernel(self, config: Any, capabilities: Any, kernel: Any) -> None:
        return None


class _Compiled:
    """What `measure_cost` has compiled."""

    def make_launch_context(self) -> None:
        return None


class _Kernel:
    """What `measure_cost` launches: the calls between the hooks, and nothing else."""

    use_graph = False
    program = _Program()

    def __init__(self) -> None:
        self.compiled = _Compiled()

    def __call__(self, *py_args: Any, **kwargs: Any) -> Any:
        context = self.compiled.make_launch_context()
        self.program.launch_kernel(None, context)
