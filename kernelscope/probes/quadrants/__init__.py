"""The probe of Quadrants: kernel calls with their phases, compiles with their caches, and graphs.

One call of a Quadrants kernel launches a CUDA kernel for each of its top-level loops, with grids and blocks that Python
does not see: a launch has no dimensions here, and the activities that belong to it do.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Patches, Probe, untried
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.sink import Sink

if TYPE_CHECKING:
    from kernelscope.probes.quadrants.hooks import Hooks

#: Versions that the probe was tried with.
KNOWN_VERSIONS = ("1.3.3", "1.4.0")

_GETTERS = ("get_graph_total_builds", "get_graph_cache_size", "get_graph_cache_used_on_last_call",
            "get_graph_num_nodes_on_last_call", "get_graph_num_checkpoints_on_last_call")
_ATTRIBUTES = ("materialized_kernels", "mapper", "arg_metas", "use_graph", "runtime", "_last_launch_key")


class QuadrantsProbe(Probe):
    """Hooks Quadrants where it is imported, or as soon as it is."""

    name = "quadrants"
    fix = "pip install 'quadrants==1.4.0'"

    def __init__(self) -> None:
        super().__init__()
        self._hooks: Hooks | None = None
        self._impl: Any = None

    @property
    def is_hooked(self) -> bool:
        """Whether anything was launched. See `Probe.is_hooked`."""
        return self._hooks is not None and bool(self._hooks.targets)

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
        super().unhook()

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two calls of a kernel. See `Probe.trial`."""
        from kernelscope.probes.quadrants.hooks import Hooks, KernelRows

        plain, hooked = _stand_in(), _stand_in()
        hooks = Hooks(sink, KernelRows(sink))
        hooks.targets[id(hooked.compiled)] = 0
        hooks.install(patches, type(hooked), type(hooked.compiled), type(hooked.program))
        return plain, hooked

    def synchronize(self) -> str | None:
        """Wait for what Quadrants launched, if it launched anything. See `ProbeProtocol.synchronize`."""
        if self.sink is None or not self.is_hooked:
            return None
        if self.sink.is_capturing():
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
        """Hand over what was seen of graphs. See `ProbeProtocol.describe`."""
        if self._hooks is not None:
            self._hooks.graphs.publish()

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the calls of kernels, their compiles and their launches. See `Probe.hook`."""
        version = str(getattr(module, "__version_str__", "unknown"))
        # `quadrants.lang.kernel` as an attribute is the decorator.
        kernels, self._impl = sys.modules["quadrants.lang.kernel"], sys.modules["quadrants.lang.impl"]
        kernel, compiled, program = kernels.Kernel, kernels.KernelCxx, self._impl.Program
        problems = self_check(kernel, compiled, program)
        if problems:
            raise ProbeUnavailableError(
                f"quadrants {version} is unknown: {'; '.join(problems)}; none of its launches is recorded")
        from kernelscope.probes.quadrants.hooks import Hooks, KernelRows

        hooks = Hooks(sink, KernelRows(sink))
        hooks.install(self.patches, kernel, compiled, program)
        self._hooks = hooks
        self._state_gaps(sink, version, kernel, program)

    def _state_gaps(self, sink: Sink, version: str, kernel: Any, program: Any) -> None:
        """State in health what this Quadrants lacks, or that nobody knows."""
        assert self._hooks is not None
        missing = [name for name in _GETTERS if not hasattr(program, name)]
        message = None
        if missing:
            self._hooks.graphs.missing = True
            message = f"quadrants {version} has no {', '.join(missing)}: its graphs are not recorded"
        elif "_try_load_fastcache" not in vars(kernel):
            message = (f"quadrants {version} has no Kernel._try_load_fastcache: the time of its front end is not "
                    "recorded")
        elif version not in KNOWN_VERSIONS:
            message = untried("quadrants", version, " and ".join(KNOWN_VERSIONS))
        if message is not None:
            self.report(sink, message)


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


def _stand_in() -> Any:
    """Return a kernel, of a class of its own: the calls between the hooks, and nothing else."""
    class Program:
        def launch_kernel(self, data: Any, context: Any) -> None:
            other_work()

        def compile_kernel(self, config: Any, capabilities: Any, kernel: Any) -> None:
            return None

    class Compiled:
        def make_launch_context(self) -> None:
            return None

    class Kernel:
        use_graph = False

        def __init__(self) -> None:
            self.compiled, self.program = Compiled(), Program()

        def __call__(self, *py_args: Any, **kwargs: Any) -> Any:
            context = self.compiled.make_launch_context()
            self.program.launch_kernel(None, context)

    return Kernel()
