"""The numba-cuda probe: every launch that ends in ``CUDADispatcher.call``, and every compile."""

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
from kernelscope.probes.base import ImportHook, Patches, without_hook
from kernelscope.probes.driver import synchronize
from kernelscope.probes.numba_cuda.compile import CompileHooks
from kernelscope.probes.numba_cuda.events import EventTimer
from kernelscope.probes.numba_cuda.kernels import FRAMEWORK, STATED, CodeCapture, Facts
from kernelscope.probes.numba_cuda.launch import Attachments, LaunchHooks
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

#: The first version with a public `launchconfig` and `pre_launch_callbacks`.
OLDEST_VERSION = (0, 30, 0)

_MODULES = {
    "dispatcher": "numba.cuda.dispatcher",
    "codegen": "numba.cuda.codegen",
    "driver": "numba.cuda.cudadrv.driver",
    "devices": "numba.cuda.cudadrv.devices",
    "launchconfig": "numba.cuda.launchconfig",
}
_ADAPTED = 100  # launches until the interpreter has adapted to most of what has changed
_OTHER_WORK = {"numbers": [1, 2.5, "x"] * 3, "nested": {"nothing": None, "flags": [True] * 4}}
_LOST = ("only kernels given to recorder.attach(kernel) are recorded: when they start, not how long they take; "
         "phases, cache hits and kernels inside libraries are lost")


class NumbaCudaProbe:
    """Hooks numba-cuda where it is imported, or as soon as it is.

    Parameters
    ----------
    timer : EventTimer, optional
        Times kernels with CUDA events.
    """

    name = FRAMEWORK

    def __init__(self, timer: EventTimer | None = None) -> None:
        self._timer = timer
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        self._hooks: LaunchHooks | None = None
        self._compiles: CompileHooks | None = None
        self._facts: Facts | None = None
        self._code: CodeCapture | None = None
        self._attachments: Attachments | None = None
        self._modules: Any = None
        self._follows_devices = False
        # Other threads import numba-cuda and launch on a second device while one uninstalls.
        self._lock = threading.RLock()
        self._installed = False

    @property
    def is_hooked(self) -> bool:
        """Whether the launch path is or was hooked: a kernel that is only attached has none of its cost."""
        return self._hooks is not None

    def install(self, sink: Sink, detail: str) -> None:
        """Hook the launch path, or wait for numba-cuda's import. See `Probe.install`."""
        self._installed = True
        self._import_hook = ImportHook("numba.cuda.dispatcher", lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        with self._lock:
            self._installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            if self._attachments is not None:
                self._attachments.detach()
            self._patches.undo()
            if self._hooks is not None:
                self._hooks.disable()
            if self._compiles is not None:
                self._compiles.enabled = False

    def synchronize(self) -> str | None:
        """Synchronize every device that was launched on, unless a capture is under way. See `Probe.synchronize`."""
        if self._facts is None or not len(self._facts.sink.devices):
            return None
        return synchronize(self._facts.sink, self._modules)

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Ask the driver for registers, sizes, occupancy, and the timed kernels' times. See `Probe.describe`."""
        if self._timer is not None:
            self._timer.describe(sink)
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
        if self._compiles is not None:
            self._compiles.hits.check()
        driver = self._modules.driver.driver
        if driver.is_initialized and driver.initialization_error is None:
            sink.metadata["driver_version"] = ".".join(map(str, driver.get_version()))

    def attach(self, kernel: Any) -> str | None:
        """Follow one dispatcher through the documented seam. See `Probe.attach`."""
        if self._hooks is not None and self._hooks.enabled:
            return None
        if self._attachments is None:
            raise ProbeUnavailableError("numba-cuda is not imported, or is older than "
                                        f"{'.'.join(map(str, OLDEST_VERSION))}: there is nothing to attach to")
        self._attachments.attach(kernel)
        return _LOST

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure the hooks around functions that do nothing. See `Probe.cost_per_launch_ns`."""
        return None if self._hooks is None else measure_cost(detail)

    def _imported(self, module: ModuleType, sink: Sink) -> None:
        """Hook a module that has just been imported; what goes wrong is a fact for health, not for the user."""
        if module.__name__ != _MODULES["dispatcher"]:
            return  # the simulator's, put in its place
        try:
            with self._lock:
                if self._installed:
                    self._hook(sink)
        except ProbeUnavailableError as problem:
            sink.health.append({"probe": self.name, "status": "unavailable", "message": str(problem),
                                "fix": "pip install --upgrade 'numba-cuda>=0.30.4'"})
        except Exception as problem:
            self._patches.undo()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _hook(self, sink: Sink) -> None:
        version = installed_version()
        if version < OLDEST_VERSION:
            shown = ".".join(map(str, version)) or "none"
            raise ProbeUnavailableError(f"numba-cuda {shown} is too old: 0.30.4 or newer is needed")
        self._modules = load_modules()
        self._facts = Facts(sink, self._modules)
        self._code = CodeCapture(sink, self._facts)
        self._attachments = Attachments(sink, self._facts, self._modules)
        # Imported while `cuda.core.launch` was hooked, it has the hook: its launches would be recorded twice.
        sink.recorded_elsewhere.add(_MODULES["dispatcher"])
        if hasattr(self._modules.dispatcher, "launch"):
            self._modules.dispatcher.launch = without_hook(self._modules.dispatcher.launch)
        problems = self_check(self._modules.dispatcher)
        if problems:
            sink.health.append({"probe": self.name, "status": "degraded",
                                "message": f"{'; '.join(problems)}: {_LOST}",
                                "fix": "call recorder.attach(kernel), or install a version that is known to work: "
                                       "pip install 'numba-cuda==0.30.4'"})
            return
        self._hook_launches(sink)
        self._compiles = CompileHooks(sink, self._facts, self._modules)
        missing = self._compiles.install(self._patches)
        if missing:
            sink.health.append({"probe": self.name, "status": "degraded",
                                "message": f"this numba-cuda has no {', '.join(missing)}: compiles are incomplete",
                                "fix": "pip install 'numba-cuda==0.30.4'"})

    def _hook_launches(self, sink: Sink) -> None:
        assert self._facts is not None
        if self._timer is not None:
            self._timer.start(sink, self._modules.driver.binding)
        self._hooks = LaunchHooks(sink, self._target, self._facts.configuration, self._timer)
        self._hooks.install(self._patches, self._modules.dispatcher)
        self._follow_devices()

    def _target(self, dispatcher: Any, kernel: Any, error: str | None) -> int:
        """`Facts.target`; at a kernel's first launch CUDA has started, and may turn out to have several devices."""
        self._follow_devices()
        assert self._facts is not None
        return self._facts.target(dispatcher, kernel, error)

    def _follow_devices(self) -> None:
        """Put the hook in that tells devices apart, once there is more than one."""
        if self._hooks is None or self._follows_devices:
            return
        driver = self._modules.driver.driver
        if driver.is_initialized and driver.initialization_error is None and len(self._modules.devices.gpus) > 1:
            with self._lock:
                if self._installed and not self._follows_devices:
                    self._follows_devices = True
                    self._hooks.install_load(self._patches, self._modules.codegen.CUDACodeLibrary)


def load_modules() -> Any:
    """Import what the probe works with of numba-cuda: its modules by short names, and its compiler lock as ``lock``."""
    loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
    lock = importlib.import_module("numba.cuda.core.compiler_lock").global_compiler_lock
    return SimpleNamespace(lock=lock, **loaded)


def installed_version() -> tuple[int, ...]:
    """Return the version of the numba-cuda that is imported, or ()."""
    package = sys.modules.get("numba_cuda")
    text = str(getattr(package, "__version__", ""))
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def self_check(dispatcher: Any) -> list[str]:
    """Compare the private names that the hooks rely on with what they should be; return what differs."""
    problems = []
    for path, wanted, calls in (
        ("CUDADispatcher.call", ["self", "args", "launch_config"], "_update_launch_config_sensitivity"),
        ("CUDADispatcher._update_launch_config_sensitivity", ["self", "kernel", "launch_config"], None),
        ("_Kernel.launch", ["self", "args", "griddim", "blockdim", "stream", "sharedmem"], "launch"),
        ("_LaunchConfiguration.__call__", ["self", "args"], "call"),
        ("CUDADispatcher.compile", ["self", "sig"], None),
    ):
        owner, name = path.split(".")
        function = vars(getattr(dispatcher, owner, object)).get(name)
        if not inspect.isfunction(function):
            problems.append(f"numba.cuda.dispatcher has no function {path}")
            continue
        function = inspect.unwrap(function)
        if function.__module__ != dispatcher.__name__:
            continue  # somebody's wrapper: it takes what callers give it, or their launches fail without us too
        found = list(inspect.signature(function).parameters)
        if found != wanted:
            problems.append(f"{path} takes ({', '.join(found)}), not ({', '.join(wanted)})")
        elif calls is not None and calls not in function.__code__.co_names:
            problems.append(f"{path} does not call {calls}()")
    if not callable(getattr(dispatcher, "launch", None)):
        problems.append("numba.cuda.dispatcher has no function launch")
    return problems


def measure_cost(detail: str, rounds: int = 20, launches: int = 30) -> float:
    """Measure what the hooks add to one launch, in nanoseconds: the median difference of rounds A B B A.

    The launch that they wrap here does some JSON instead, so that the hooks find the processor's caches as a launch
    leaves them: full of other things. Where no difference is seen, the result is how large one could be: two standard
    errors of that median. ``benchmarks/`` compares the result with real launches.
    """
    hooks = LaunchHooks(Sink(detail=detail), lambda *_: 0, lambda *_: 0)
    # Two of a kind, one of them hooked throughout: where hooks come and go, the interpreter adapts its instructions
    # anew, which a recording's later launches pay nothing for.
    plain, hooked = _stand_in(), _stand_in()
    patches = Patches()
    hooks.install(patches, hooked)
    try:
        for each in (plain, hooked):
            _launches_ns(each, _ADAPTED)
        differences = []
        for place in range(max(2, rounds)):
            times = [(_launches_ns(each, launches), each is hooked)
                     for each in ((plain, hooked) if place % 2 else (hooked, plain))]
            differences.append(sum(time if recorded else -time for time, recorded in times) / launches)
    finally:
        patches.undo()
    first, _, third = statistics.quantiles(differences)
    return max(statistics.median(differences), 2 * 0.93 * (third - first) / len(differences) ** 0.5, 1.0)


def _launches_ns(module: Any, launches: int) -> int:
    start = now()
    for _ in range(launches):
        module.dispatcher.call((), module)
    return now() - start


def _stand_in() -> Any:
    """Return what `measure_cost` launches with: the dispatcher's module, and the launch configuration as well.

    Its calls are those that numba-cuda makes, of functions that are no other stand-in's.
    """
    class Kernel:
        launch_config_sensitive = False

    class Dispatcher:
        def call(self, args: Any, launch_config: Any) -> None:
            json.loads(json.dumps(_OTHER_WORK))
            self._update_launch_config_sensitivity(launch_config.kernel, launch_config)
            launch_config.launch(0, 0, 0)

        def _update_launch_config_sensitivity(self, kernel: Any, launch_config: Any) -> None:
            if getattr(kernel, "launch_config_sensitive", False):
                raise ValueError("a launch that does nothing has no such kernel")

    module: Any = ModuleType("dispatcher")
    module.CUDADispatcher, module.dispatcher, module.kernel = Dispatcher, Dispatcher(), Kernel()
    module.launch = max  # no Python function, as the driver call is none
    return module
