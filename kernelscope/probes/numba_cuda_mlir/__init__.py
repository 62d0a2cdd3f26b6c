"""The numba-cuda-mlir probe: every launch that ends in ``_ArgMarshaller.__call__``, and every compile."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Patches, numbers_of, refuse_older, signature_problems, untried
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.driver import device, synchronize
from kernelscope.probes.numba_cuda import NumbaProbe
from kernelscope.probes.numba_cuda_mlir.compile import CompileHooks
from kernelscope.probes.numba_cuda_mlir.kernels import FRAMEWORK, KernelRows, MlirCodeCapture
from kernelscope.probes.numba_cuda_mlir.launch import LaunchHooks
from kernelscope.probes.sink import Sink

#: The first version whose launches go through ``_ArgMarshaller._launch`` with all that the hooks read.
OLDEST_VERSION = "0.5"
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ("0.5", "0.6")

_MODULES = {
    "descriptor": "numba_cuda_mlir.descriptor",
    "optimization": "numba_cuda_mlir.mlir_optimization",
    "driver": "numba_cuda_mlir.numba_cuda.cudadrv.driver",
    "devices": "numba_cuda_mlir.numba_cuda.cudadrv.devices",
}


class NumbaCudaMlirProbe(NumbaProbe):
    """Hooks numba-cuda-mlir where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = _MODULES["descriptor"]
    fix = "pip install 'numba-cuda-mlir>=0.5.2,<0.7'"

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two configured launches. See `Probe.trial`."""
        plain, hooked = _stand_in(), _stand_in()
        LaunchHooks(sink, lambda *_: 0, lambda *_: 0).install(patches, SimpleNamespace(_ArgMarshaller=type(hooked)))
        return (lambda: plain(1.0)), (lambda: hooked(1.0))

    def synchronize(self) -> str | None:
        """Synchronize every device that was launched on, unless a capture is under way.

        See `ProbeProtocol.synchronize`.
        """
        if self._rows is None or not any(row["framework"] == FRAMEWORK for row in self._rows.sink.dispatchers.rows):
            return None
        if len(self._modules.devices.gpus) > 1:  # which of them a launch went to is not known
            for gpu in range(len(self._modules.devices.gpus)):
                device(self._rows.sink, gpu)
        return synchronize(self._rows.sink, self._modules)

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the launch path and compiles. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("numba_cuda_mlir"), "__version__", ""))
        shown = version or "of an unknown version"
        refuse_older("numba-cuda-mlir", version, OLDEST_VERSION)
        problems = self_check(module)
        if problems:
            raise ProbeUnavailableError(f"numba-cuda-mlir {shown} has another launch path than this probe knows, and "
                                        f"its launches are not recorded: {'; '.join(problems)}")
        self._modules = load_modules()
        self._rows = KernelRows(sink, self._modules)
        self._code = MlirCodeCapture(sink, self._rows)
        self._hooks = LaunchHooks(sink, self._rows.target, self._rows.configuration)
        self._hooks.install(self.patches, module)
        self._compiles = CompileHooks(sink, self._rows, self._modules)
        missing = self._compiles.install(self.patches)
        if missing:
            self.report(sink, f"numba-cuda-mlir {shown} has no {', '.join(missing)}: compiles are incomplete")
        elif numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("numba-cuda-mlir", version, " and ".join(KNOWN_VERSIONS)))


def load_modules() -> Any:
    """Import what the probe works with: modules by short names, the linker's class, and the compiler lock."""
    loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
    lock = importlib.import_module("numba_cuda_mlir.numba_cuda.core.compiler_lock").global_compiler_lock
    return SimpleNamespace(lock=lock, **loaded)


def self_check(descriptor: Any) -> list[str]:
    """Return how the private names that the launch hooks rely on differ from what they should be."""
    problems = signature_problems(descriptor, (
        ("_ArgMarshaller.__call__", ["self", "args"], ()),
        ("_ArgMarshaller._launch", ["self", "argtypes", "launch_args", "launch_values"],
         ("_launcher", "_launch_config", "_dispatcher")),
        ("_ArgMarshaller.__init__", None, ("_available_launch_config", "_launch_stream", "_stream_ref")),
        ("MLIRDispatcher._can_reuse_overload", None, ()),
        ("MLIRDispatcher._resolve_overload", None, ()),
    ))
    if not callable(getattr(descriptor, "_launch_config_key", None)):
        problems.append("numba_cuda_mlir.descriptor has no function _launch_config_key")
    return problems


def _stand_in() -> Any:
    """Return what the cost of hooks is measured with: its calls are those that numba-cuda-mlir makes."""
    class ArgMarshaller:
        def __init__(self) -> None:
            self._launcher = object()
            self._types = [float]

        def __call__(self, *args: Any) -> Any:
            other_work()
            return self._launch(self._types, args)

        def _launch(self, argtypes: Any, launch_args: Any, launch_values: Any = None) -> Any:
            return None

    return ArgMarshaller()
