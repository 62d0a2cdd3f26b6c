"""The numba-cuda probe: every launch that ends in ``CUDADispatcher.call``, and every compile."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Patches, Probe, refuse_older, signature_problems, without_hook
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.driver import synchronize
from kernelscope.probes.numba_cuda.compile import CompileHooks
from kernelscope.probes.numba_cuda.declared import DeclaredTypes
from kernelscope.probes.numba_cuda.kernels import FRAMEWORK, KernelRows, NumbaCodeCapture
from kernelscope.probes.numba_cuda.launch import Attachments, LaunchHooks
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    from kernelscope.probes.numba_cuda.events import EventTimer

#: The first version with a public `launchconfig` and `pre_launch_callbacks`.
OLDEST_VERSION = "0.30.0"

_MODULES = {
    "dispatcher": "numba.cuda.dispatcher",
    "codegen": "numba.cuda.codegen",
    "driver": "numba.cuda.cudadrv.driver",
    "devices": "numba.cuda.cudadrv.devices",
    "launchconfig": "numba.cuda.launchconfig",
}
_KNOWN = "pip install 'numba-cuda==0.30.4'"
_LOST = ("only kernels given to recorder.attach(kernel) are recorded: when they start, not how long they take; "
         "phases, cache hits and kernels inside libraries are lost")


class NumbaProbe(Probe):
    """What the probes of numba-cuda and numba-cuda-mlir share: what they stop, and what they describe."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks: Any = None
        self._compiles: Any = None
        self._rows: KernelRows | None = None
        self._code: NumbaCodeCapture | None = None
        self._modules: Any = None

    @property
    def is_hooked(self) -> bool:
        """Whether the launch path is or was hooked: a kernel that is only attached has none of its cost."""
        return self._hooks is not None

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        super().unhook()
        if self._hooks is not None:
            self._hooks.disable()
        if self._compiles is not None:
            self._compiles.enabled = False

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Ask the driver for registers, sizes and occupancy, and read code. See `ProbeProtocol.describe`."""
        if self._rows is None:
            return
        used = list(used)
        self._rows.describe(used)
        if self._code is not None and not sink.captures_code:
            self._code.forget_problems()
        elif self._code is not None:
            launched = {sink.targets.rows[target]["specialization_id"] for target, _ in used}
            compiled = {row.get("specialization_id", UNKNOWN) for row in sink.compilations}
            self._code.capture(sorted((launched | compiled) - {UNKNOWN, None}))
        driver = self._modules.driver.driver
        if driver.is_initialized and driver.initialization_error is None:
            sink.metadata["driver_version"] = ".".join(map(str, driver.get_version()))


class NumbaCudaProbe(NumbaProbe):
    """Hooks numba-cuda where it is imported, or as soon as it is.

    Parameters
    ----------
    timer : EventTimer, optional
        Times kernels with CUDA events.
    """

    name = FRAMEWORK
    module = _MODULES["dispatcher"]
    fix = "pip install --upgrade 'numba-cuda>=0.30.4'"

    def __init__(self, timer: EventTimer | None = None) -> None:
        super().__init__()
        self._timer = timer
        self._attachments: Attachments | None = None
        self._declared: DeclaredTypes | None = None
        self._follows_devices = False

    def unhook(self) -> None:
        """Undo every hook, and let go of attached kernels. See `Probe.unhook`."""
        if self._attachments is not None and self._attachments.attached:
            self._attachments.detach()
        super().unhook()

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two launches by a dispatcher. See `Probe.trial`."""
        plain, hooked = _stand_in(), _stand_in()
        LaunchHooks(sink, lambda *_: 0, lambda *_: 0).install(patches, hooked)
        return (lambda: plain.dispatcher.call((), plain)), (lambda: hooked.dispatcher.call((), hooked))

    def synchronize(self) -> str | None:
        """Synchronize every device that was launched on, unless a capture is under way.

        See `ProbeProtocol.synchronize`.
        """
        if self._rows is None or not self._rows.sink.devices.rows:
            return None
        return synchronize(self._rows.sink, self._modules)

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Ask the driver for registers, sizes, occupancy, and the timed kernels' times.

        See `ProbeProtocol.describe`.
        """
        if self._timer is not None:
            self._timer.describe(sink)
        super().describe(sink, used)
        if self._declared is not None:
            self._declared.describe()
        if self._compiles is not None and self._compiles.hits.waiting:
            self._compiles.hits.check()

    def checking_cost(self) -> tuple[int, int]:
        """Return the launches whose arguments were compared with a declared signature, and the nanoseconds it took."""
        return (0, 0) if self._hooks is None else (self._hooks.checks, self._hooks.checks_ns)

    def attach(self, kernel: Any) -> str | None:
        """Follow one dispatcher through the documented seam. See `ProbeProtocol.attach`."""
        if self._hooks is not None and self._hooks.enabled:
            return None
        if self._attachments is None:
            raise ProbeUnavailableError("numba-cuda is not imported, or is older than "
                                        f"{OLDEST_VERSION}: there is nothing to attach to")
        self._attachments.attach(kernel)
        return _LOST

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the launch path and compiles. See `Probe.hook`."""
        if module.__name__ != self.module:
            return  # the simulator's, put in its place
        version = getattr(sys.modules.get("numba_cuda"), "__version__", "none")
        refuse_older("numba-cuda", str(version), OLDEST_VERSION)
        self._modules = load_modules()
        self._rows = KernelRows(sink, self._modules)
        self._code = NumbaCodeCapture(sink, self._rows)
        self._attachments = Attachments(sink, self._rows, self._modules)
        # Imported while `cuda.core.launch` was hooked, it has the hook: its launches would be recorded twice.
        sink.recorded_elsewhere.add(_MODULES["dispatcher"])
        if hasattr(self._modules.dispatcher, "launch"):
            self._modules.dispatcher.launch = without_hook(self._modules.dispatcher.launch)
        problems = self_check(self._modules.dispatcher)
        if problems:
            self.report(sink, f"{'; '.join(problems)}: {_LOST}",
                        fix=f"call recorder.attach(kernel), or install a version that is known to work: {_KNOWN}")
            return
        self._hook_launches(sink)
        self._compiles = CompileHooks(sink, self._rows, self._modules)
        missing = self._compiles.install(self.patches)
        if missing:
            self.report(sink, f"this numba-cuda has no {', '.join(missing)}: compiles are incomplete", fix=_KNOWN)

    def _hook_launches(self, sink: Sink) -> None:
        assert self._rows is not None
        if self._timer is not None:
            self._timer.start(sink, self._modules.driver.binding)
        self._declared = DeclaredTypes(self._rows, self._modules.dispatcher.types)
        self._hooks = LaunchHooks(sink, self._target, self._rows.configuration, self._timer, self._declared.check)
        self._hooks.install(self.patches, self._modules.dispatcher)
        self._follow_devices()

    def _target(self, dispatcher: Any, kernel: Any, error: str | None) -> int:
        """`KernelRows.target`; at a kernel's first launch CUDA has started, and may have several devices."""
        self._follow_devices()
        assert self._rows is not None
        return self._rows.target(dispatcher, kernel, error)

    def _follow_devices(self) -> None:
        """Put the hook in that tells devices apart, once there is more than one."""
        if self._hooks is None or self._follows_devices:
            return
        driver = self._modules.driver.driver
        if driver.is_initialized and driver.initialization_error is None and len(self._modules.devices.gpus) > 1:
            with self.lock:
                if self.is_installed and not self._follows_devices:
                    self._follows_devices = True
                    self._hooks.install_load(self.patches, self._modules.codegen.CUDACodeLibrary)


def load_modules() -> Any:
    """Import what the probe works with of numba-cuda: its modules by short names, and its compiler lock as ``lock``."""
    loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
    lock = importlib.import_module("numba.cuda.core.compiler_lock").global_compiler_lock
    return SimpleNamespace(lock=lock, **loaded)


def self_check(dispatcher: Any) -> list[str]:
    """Return how the private names that the hooks rely on differ from what they should be."""
    problems = signature_problems(dispatcher, (
        ("CUDADispatcher.call", ["self", "args", "launch_config"], ("_update_launch_config_sensitivity",)),
        ("CUDADispatcher._update_launch_config_sensitivity", ["self", "kernel", "launch_config"], ()),
        ("_Kernel.launch", ["self", "args", "griddim", "blockdim", "stream", "sharedmem"], ("launch",)),
        ("_LaunchConfiguration.__call__", ["self", "args"], ("call",)),
        ("CUDADispatcher.compile", ["self", "sig"], ()),
    ))
    if not callable(getattr(dispatcher, "launch", None)):
        problems.append("numba.cuda.dispatcher has no function launch")
    return problems


def _stand_in() -> Any:
    """Return what the cost of hooks is measured with: the dispatcher's module, and the launch configuration as well.

    Its calls are those that numba-cuda makes, of functions that are no other stand-in's.
    """
    class Kernel:
        launch_config_sensitive = False

    class Dispatcher:
        def call(self, args: Any, launch_config: Any) -> None:
            other_work()
            self._update_launch_config_sensitivity(launch_config.kernel, launch_config)
            launch_config.launch(0, 0, 0)

        def _update_launch_config_sensitivity(self, kernel: Any, launch_config: Any) -> None:
            if getattr(kernel, "launch_config_sensitive", False):
                raise ValueError("a launch that does nothing has no such kernel")

    module: Any = ModuleType("dispatcher")
    module.CUDADispatcher, module.dispatcher, module.kernel = Dispatcher, Dispatcher(), Kernel()
    module.launch = max  # no Python function, as the driver call is none
    return module
