"""The numba-cuda-mlir probe: every launch that ends in ``_ArgMarshaller.__call__``, and every compile."""

from __future__ import annotations

import importlib
import inspect
import json
import statistics
import sys
import threading
from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

from kernelscope.clock import now
from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import ImportHook, Patches
from kernelscope.probes.driver import device, synchronize
from kernelscope.probes.numba_cuda_mlir.compile import CompileHooks
from kernelscope.probes.numba_cuda_mlir.kernels import FRAMEWORK, STATED, CodeCapture, Facts
from kernelscope.probes.numba_cuda_mlir.launch import LaunchHooks
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

#: The first version whose launches go through ``_ArgMarshaller._launch`` with all that the hooks read.
OLDEST_VERSION = (0, 5)
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ((0, 5), (0, 6))

_MODULES = {
    "descriptor": "numba_cuda_mlir.descriptor",
    "optimization": "numba_cuda_mlir.mlir_optimization",
    "driver": "numba_cuda_mlir.numba_cuda.cudadrv.driver",
    "devices": "numba_cuda_mlir.numba_cuda.cudadrv.devices",
}
_FIX = "pip install 'numba-cuda-mlir>=0.5.2,<0.7'"
_OTHER_WORK = {"numbers": [1, 2.5, "x"] * 3, "nested": {"nothing": None, "flags": [True] * 4}}


class NumbaCudaMlirProbe:
    """Hooks numba-cuda-mlir where it is imported, or as soon as it is."""

    name = FRAMEWORK

    def __init__(self) -> None:
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        self._hooks: LaunchHooks | None = None
        self._compiles: CompileHooks | None = None
        self._facts: Facts | None = None
        self._code: CodeCapture | None = None
        self._modules: Any = None
        # Another thread may import numba-cuda-mlir while one uninstalls.
        self._lock = threading.RLock()
        self._installed = False

    def install(self, sink: Sink, detail: str) -> None:
        """Hook the launch path, or wait for numba-cuda-mlir's import. See `Probe.install`."""
        self._installed = True
        self._import_hook = ImportHook(_MODULES["descriptor"], lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        with self._lock:
            self._installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            self._patches.undo()
            if self._hooks is not None:
                self._hooks.disable()
            if self._compiles is not None:
                self._compiles.enabled = False

    def synchronize(self) -> str | None:
        """Synchronize every device that was launched on, unless a capture is under way. See `Probe.synchronize`."""
        if self._facts is None or not any(row["framework"] == FRAMEWORK for row in self._facts.sink.dispatchers.rows):
            return None
        if len(self._modules.devices.gpus) > 1:  # which of them a launch went to is not known
            for gpu in range(len(self._modules.devices.gpus)):
                device(self._facts.sink, gpu)
        return synchronize(self._facts.sink, self._modules)

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Read sizes from the machine code, and ask the driver for occupancy. See `Probe.describe`."""
        if self._facts is None:
            return
        used = list(used)
        self._facts.describe(used)
        if not sink.captures_code:
            sink.stated.pop(STATED, None)  # of another recording, which ended earlier
        elif self._code is not None:
            launched = {sink.targets.rows[target]["specialization_id"] for target, _ in used}
            compiled = {row.get("specialization_id", UNKNOWN) for row in sink.compilations}
            self._code.capture(sorted((launched | compiled) - {UNKNOWN, None}))
        driver = self._modules.driver.driver
        if driver.is_initialized and driver.initialization_error is None:
            sink.metadata["driver_version"] = ".".join(map(str, driver.get_version()))

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to: numba-cuda-mlir has no documented seam. See `Probe.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure the hooks around functions that do nothing. See `Probe.cost_per_launch_ns`."""
        return None if self._hooks is None else measure_cost(detail)

    def _imported(self, module: ModuleType, sink: Sink) -> None:
        """Hook a module that has just been imported; what goes wrong is a fact for health, not for the user."""
        try:
            with self._lock:
                if self._installed:
                    self._hook(module, sink)
        except ProbeUnavailableError as problem:
            self._patches.undo()
            sink.health.append({"probe": self.name, "status": "unavailable", "message": str(problem), "fix": _FIX})
        except Exception as problem:
            self._patches.undo()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _hook(self, descriptor: ModuleType, sink: Sink) -> None:
        version = installed_version()
        shown = ".".join(map(str, version)) or "of an unknown version"
        if version and version < OLDEST_VERSION:
            raise ProbeUnavailableError(f"numba-cuda-mlir {shown} is too old: 0.5.2 or newer is needed")
        problems = self_check(descriptor)
        if problems:
            raise ProbeUnavailableError(f"numba-cuda-mlir {shown} has another launch path than this probe knows, and "
                                        f"its launches are not recorded: {'; '.join(problems)}")
        self._modules = load_modules()
        self._facts = Facts(sink, self._modules)
        self._code = CodeCapture(sink, self._facts)
        self._hooks = LaunchHooks(sink, self._facts.target, self._facts.configuration)
        self._hooks.install(self._patches, descriptor)
        self._compiles = CompileHooks(sink, self._facts, self._modules)
        missing = self._compiles.install(self._patches)
        if missing:
            sink.health.append({"probe": self.name, "status": "degraded", "fix": _FIX,
                                "message": f"numba-cuda-mlir {shown} has no {', '.join(missing)}: compiles are "
                                           "incomplete"})
        elif version[:2] not in KNOWN_VERSIONS:
            sink.health.append({"probe": self.name, "status": "degraded", "fix": _FIX,
                                "message": f"numba-cuda-mlir {shown} is not one that this probe was tried with: its "
                                           "functions look the same, and are recorded"})


def load_modules() -> Any:
    """Import what the probe works with: modules by short names, the linker's class, and the compiler lock."""
    loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
    lock = importlib.import_module("numba_cuda_mlir.numba_cuda.core.compiler_lock").global_compiler_lock
    return SimpleNamespace(lock=lock, **loaded)


def installed_version() -> tuple[int, ...]:
    """Return the version of the numba-cuda-mlir that is imported, or ()."""
    package = sys.modules.get("numba_cuda_mlir")
    text = str(getattr(package, "__version__", ""))
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def self_check(descriptor: Any) -> list[str]:
    """Compare the private names that the launch hooks rely on with what they should be; return what differs."""
    problems = []
    for path, wanted, uses in (
        ("_ArgMarshaller.__call__", ["self", "args"], ()),
        ("_ArgMarshaller._launch", ["self", "argtypes", "launch_args", "launch_values"],
         ("_launcher", "_launch_config", "_dispatcher")),
        ("_ArgMarshaller.__init__", None, ("_available_launch_config", "_launch_stream", "_stream_ref")),
        ("MLIRDispatcher._can_reuse_overload", None, ()),
        ("MLIRDispatcher._resolve_overload", None, ()),
    ):
        owner, name = path.split(".")
        function = vars(getattr(descriptor, owner, object)).get(name)
        function = getattr(function, "__func__", function)
        if not inspect.isfunction(function):
            problems.append(f"numba_cuda_mlir.descriptor has no function {path}")
            continue
        function = inspect.unwrap(function)
        if function.__module__ != descriptor.__name__:
            continue  # somebody's wrapper: it takes what callers give it, or their launches fail without us too
        found = list(inspect.signature(function).parameters)
        lacking = [each for each in uses if each not in function.__code__.co_names]
        if wanted is not None and found != wanted:
            problems.append(f"{path} takes ({', '.join(found)}), not ({', '.join(wanted)})")
        elif lacking:
            problems.append(f"{path} has no {', '.join(lacking)}")
    if not callable(getattr(descriptor, "_launch_config_key", None)):
        problems.append("numba_cuda_mlir.descriptor has no function _launch_config_key")
    return problems


def measure_cost(detail: str, rounds: int = 20, launches: int = 30) -> float:
    """Measure what the hooks add to one launch, in nanoseconds: the median of A B A B rounds.

    The launch that they wrap does some JSON instead, so that the hooks find the processor's caches as a launch leaves
    them. ``benchmarks/`` compares the result with real launches.
    """
    hooks = LaunchHooks(Sink(detail=detail), lambda *_: 0, lambda *_: 0)
    module = SimpleNamespace(_ArgMarshaller=_FakeMarshaller)
    launch = _FakeMarshaller()
    differences = []
    for _ in range(rounds):
        times = []
        for recorded in (False, True):
            patches = Patches()
            if recorded:
                hooks.install(patches, module)
            try:
                launch(1.0)
                start = now()
                for _ in range(launches):
                    launch(1.0)
                times.append(now() - start)
            finally:
                patches.undo()
        differences.append(times[1] - times[0])
    return max(0.0, statistics.median(differences) / launches)


class _FakeMarshaller:
    """What `measure_cost` launches with: its calls are those that numba-cuda-mlir makes."""

    def __init__(self) -> None:
        self._launcher = object()
        self._types = [float]

    def __call__(self, *args: Any) -> Any:
        json.loads(json.dumps(_OTHER_WORK))
        return self._launch(self._types, args)

    def _launch(self, argtypes: Any, launch_args: Any, launch_values: Any = None) -> Any:
        return None
