"""The probe of Triton: launches with their grids, compiles with stages and their causes, and the autotuner's runs."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Patches, Probe, numbers_of, refuse_older, signature_problems, untried
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.driver import with_context
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.autotune import AutotuneHooks
from kernelscope.probes.triton.compile import CompileHooks
from kernelscope.probes.triton.kernels import FRAMEWORK, KernelRows, TritonCodeCapture
from kernelscope.probes.triton.launch import LaunchHooks
from kernelscope.schema import UNKNOWN
from kernelscope.units import listed

#: The first version with ``triton.knobs``, whose listener tells of a compile's stages.
OLDEST_VERSION = "3.4"
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ("3.4", "3.5", "3.6", "3.7", "3.9")

_LAUNCHER = ["self", "gridX", "gridY", "gridZ", "stream", "function"]
_INTERPRETED = ("TRITON_INTERPRET is set: kernels run in Triton's interpreter, nothing is compiled or launched, and "
                "nothing is recorded")


class TritonProbe(Probe):
    """Hooks Triton where it is imported, or as soon as it is."""

    name = FRAMEWORK
    fix = "pip install 'triton>=3.4,<3.10'"

    def __init__(self) -> None:
        super().__init__()
        self._rows: KernelRows | None = None
        self._launches: LaunchHooks | None = None
        self._compiles: CompileHooks | None = None
        self._code: TritonCodeCapture | None = None
        self._tunings: AutotuneHooks | None = None

    @property
    def is_hooked(self) -> bool:
        """Whether anything was launched. See `Probe.is_hooked`."""
        return self._launches is not None and self._launches.has_launched

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook launches and compiles. See `Probe.hook`."""
        version = str(getattr(module, "__version__", ""))
        refuse_older("triton", version, OLDEST_VERSION)
        problems = self_check(module)
        if problems:
            raise ProbeUnavailableError(
                f"triton {version or 'of an unknown version'} has other functions than this probe knows, and is not "
                f"recorded; {', '.join(KNOWN_VERSIONS)} are: {'; '.join(problems)}")
        jit, compiler = (importlib.import_module(f"triton.{name}") for name in ("runtime.jit", "compiler.compiler"))
        launcher = importlib.import_module("triton.backends.nvidia.driver").CudaLauncher
        self._rows = KernelRows(sink)
        self._code = TritonCodeCapture(sink)
        self._launches = LaunchHooks(sink, self._rows)
        self._launches.install(self.patches, jit.JITFunction, launcher)
        self._compiles = CompileHooks(sink, self._rows, self._launches.run_code, module.knobs)
        self._compiles.install(self.patches, compiler)
        tuner, errors = (importlib.import_module(f"triton.runtime.{name}") for name in ("autotuner", "errors"))
        self._tunings = AutotuneHooks(sink, self._rows)
        missing = self._tunings.install(self.patches, tuner.Autotuner, errors)
        if missing:
            self.report(sink, f"there is no {listed(missing)}: tuning runs are not recorded, or lack something")
        if module.knobs.runtime.interpret:
            self.report(sink, _INTERPRETED, fix="unset TRITON_INTERPRET, and restart the kernel")
        elif numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("triton", version, ", ".join(KNOWN_VERSIONS)))

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._launches is not None:
            self._launches.disable()
        if self._compiles is not None:
            self._compiles.uninstall()
        if self._tunings is not None:
            self._tunings.enabled = False
        super().unhook()

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two launches. See `Probe.trial`."""
        plain, hooked = _stand_in(), _stand_in()
        rows: Any = SimpleNamespace(target=lambda *_: 0, compiled=lambda kernel: kernel, shape=lambda _: (1, 0, None))
        LaunchHooks(sink, rows).install(patches, type(hooked), type(hooked.launcher))
        return (lambda: plain.run(1.0, grid=(4,), warmup=False)), (lambda: hooked.run(1.0, grid=(4,), warmup=False))

    def synchronize(self) -> str | None:
        """Wait for the current device, if anything was launched. See `ProbeProtocol.synchronize`."""
        if self.sink is None or not self.is_hooked:
            return None
        if self.sink.is_capturing():
            return "a stream is capturing a graph: synchronizing would break the capture"
        driver = with_context()
        if driver is None:
            return None
        error = driver.cuCtxSynchronize()
        return f"the driver reports error {error}" if error else None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Read sizes from machine code, ask for occupancy, and read code. See `ProbeProtocol.describe`."""
        if self._rows is None or self._code is None:
            return
        used = list(used)
        self._rows.describe(used)
        if not sink.captures_code:
            self._code.forget_problems()
            return
        launched = {sink.targets.rows[target]["specialization_id"] for target, _ in used}
        compiled = {row.get("specialization_id", UNKNOWN) for row in sink.compilations}
        self._code.capture(sorted((launched | compiled) - {UNKNOWN, None}))


def self_check(triton: Any) -> list[str]:
    """Return how the functions that hooks rely on differ from what they should be."""
    problems: list[str] = []
    if not hasattr(getattr(getattr(triton, "knobs", None), "compilation", None), "listener"):
        problems.append("there is no triton.knobs.compilation.listener")
    names = ("triton.runtime.jit", "triton.compiler.compiler", "triton.backends.nvidia.driver")
    jit, compiler, driver = (sys.modules.get(name) for name in names)
    if jit is None or compiler is None or driver is None:
        return [*problems, "there is no " + " or ".join(name for name in names if name not in sys.modules)]
    problems += signature_problems(jit, (
        ("JITFunction.run", ["self", "args", "grid", "warmup", "kwargs"], ("device_caches", "launch_metadata", "run")),
    ))
    for module, path, wanted in ((compiler, "compile", ["src", "target", "options"]),
                                 (driver, "CudaLauncher.__call__", _LAUNCHER)):
        owner, _, name = path.rpartition(".")
        function = vars(getattr(module, owner, object) if owner else module).get(name)
        if not inspect.isfunction(function):
            problems.append(f"{module.__name__} has no function {path}")
        elif [*inspect.signature(inspect.unwrap(function)).parameters][:len(wanted)] != wanted:
            problems.append(f"{path} does not take ({', '.join(wanted)}, ...)")
    return problems


def _stand_in() -> Any:
    """Return a kernel, of a class of its own: the calls between the hooks, and nothing else."""
    class Launcher:
        def __call__(self, gridX: Any, gridY: Any, gridZ: Any, stream: Any, function: Any, *args: Any) -> None:
            other_work()

    class Function:
        def __init__(self) -> None:
            self.launcher = Launcher()

        def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
            self.launcher(grid[0], 1, 1, 0, 0, *args)
            return self

    return Function()
