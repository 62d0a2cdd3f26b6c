"""The hooks on numba-cuda's launch path, and recording by its documented callbacks only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import NativeHooks, Patches, hide_frame, ids
from kernelscope.probes.numba_cuda.kernels import KernelRows
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    from kernelscope.probes.numba_cuda.events import EventTimer

# The hooks on numba-cuda's launch path are in C (``launch.c``); here is where they are put, and what they leave to
# Python: what is new, and what fails.
#
# ``CUDADispatcher.call`` begins and ends a launch. ``CUDADispatcher._update_launch_config_sensitivity``, which it
# calls as soon as it has a specialization, ends its dispatch and names that. The global ``launch`` of
# ``numba.cuda.dispatcher`` is the driver call; ``--detail launch`` leaves it alone. Where there are several devices,
# ``CUDACodeLibrary.get_cufunc`` is hooked too: each device has a function of its own, while the ``cuda.core.Kernel``
# behind it is one for all. They talk through the thread's `ThreadState`. A launch's slot is written where the launch
# begins, with its kernel and its launch configuration, so that a recording whose process dies has it.

_PROBE = "numba-cuda"


class LaunchHooks(NativeHooks):
    """The hooks on the launch path.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    target_of : callable
        ``(dispatcher, kernel or None, error or None) -> target id``, asked once a kernel, and once a launch
        configuration without a kernel. The kernel is a ``_Kernel``, or the function that it was loaded as on one
        device.
    configuration_of : callable
        ``(launch configuration) -> configuration id``, asked once an object.
    timer : EventTimer, optional
        Stands around the driver call.
    check_arguments : callable, optional
        ``(dispatcher, arguments) -> whether every launch of it is to be checked``.
    """

    outermost = "call"
    most = 1024  # a launch configuration object may live for one launch only

    def __init__(self, sink: Sink, target_of: Callable[[Any, Any, str | None], int],
                 configuration_of: Callable[[Any], int], timer: EventTimer | None = None,
                 check_arguments: Callable[[Any, Any], bool] = lambda *_: False) -> None:
        super().__init__(sink)
        self.enabled = True
        self.target_of = target_of
        self.configuration_of = configuration_of
        self.timer = timer
        self.check_arguments = check_arguments
        #: Launches whose arguments were checked after the kernel's first, and how long that took.
        self.checks = self.checks_ns = 0
        #: Ids of launches of kernels that are checked, with what the keys are the addresses of.
        self._checked: dict[tuple[int, int], tuple[tuple[Any, ...], Any, Any]] = {}

    def install(self, patches: Patches, dispatcher: Any) -> None:
        """Put the hooks in: `dispatcher` is the module ``numba.cuda.dispatcher``."""
        patches.put(dispatcher.CUDADispatcher, "call", self._make("call"))
        patches.put(dispatcher.CUDADispatcher, "_update_launch_config_sensitivity", self._make("found"))
        if self.sink.detail == "phases":
            submit, timer = self._make("submit"), self.timer
            patches.put(dispatcher, "launch", take=timer is None, make=submit if timer is None else (
                lambda original: submit(timer.around(original))))
        elif self.timer is not None:
            patches.hook(dispatcher, "launch", self.timer.around, lend=False)

    def install_load(self, patches: Patches, library: Any) -> None:
        """Put the hook in that tells devices apart: `library` is ``CUDACodeLibrary``."""
        patches.put(library, "get_cufunc", self._make("load"))

    def disable(self) -> None:
        """Turn the hooks into pass-throughs. See `NativeHooks.disable`."""
        self.enabled = False
        self._checked.clear()
        super().disable()

    def begin(self, dispatcher: Any, launch_config: Any) -> tuple[int, int] | None:
        """Return the ids of a launch configuration that is new and of the kernel as far as it is known.

        None where they cannot be had: the launch is not recorded then.
        """
        return self._begun(_PROBE, launch_config, lambda: (
            self.configuration_of(launch_config), self.target_of(dispatcher, None, None)))

    def end(self, dispatcher: Any, kernel: Any, launch_config: Any, arguments: Any,
            error: str | None) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has failed, or whose kernel is not known; None where they cannot be had.

        What the user's signal handler raised meanwhile is a third value. A kernel whose arguments are to be checked at
        every launch never becomes known.
        """
        checked = self._checked.get((id(kernel), id(launch_config)))
        if checked is not None and error is None:
            begun = self.sink.clock()
            self._is_checked(dispatcher, arguments)
            self.checks += 1
            self.checks_ns += self.sink.clock() - begun
            return checked[0]
        found = ids(_PROBE, self.sink, lambda: (
            self.target_of(dispatcher, kernel, error), self.configuration_of(launch_config)))
        if found is None or error is not None or kernel is None or (
                "load" in self._hooks and not hasattr(kernel, "kernel")):
            return found
        if not self._is_checked(dispatcher, arguments):
            self._know("targets", kernel, found[0], 0)
        elif len(found) == 2:
            if len(self._checked) >= self.most:
                self._checked.clear()
            self._checked[id(kernel), id(launch_config)] = found, kernel, launch_config
        return found

    def _is_checked(self, dispatcher: Any, arguments: Any) -> bool:
        try:
            return self.check_arguments(dispatcher, arguments)
        except Exception as problem:
            self.sink.swallow(_PROBE, problem)
            return False


# Recording one kernel by numba-cuda's documented seam only: `pre_launch_callbacks` and `capture_compile_config`.

class Attachments:
    """Dispatchers that were given to ``recorder.attach``, and how to let go of them."""

    def __init__(self, sink: Sink, rows: KernelRows, modules: Any) -> None:
        self._sink = sink
        self._rows = rows
        self._modules = modules
        self._undo = ExitStack()
        self.attached: set[int] = set()

    def attach(self, dispatcher: Any) -> None:
        """Add a callback to every launch that is configured from now on.

        Raises
        ------
        ProbeUnavailableError
            `dispatcher` is no kernel made by ``cuda.jit``.
        """
        if not hasattr(dispatcher, "configure") or not hasattr(dispatcher, "py_func"):
            raise ProbeUnavailableError(f"{dispatcher!r} is not a kernel made by numba.cuda.jit")
        if id(dispatcher) in self.attached:
            return
        self.attached.add(id(dispatcher))
        capture = self._undo.enter_context(self._modules.launchconfig.capture_compile_config(dispatcher))
        capture["hits"] = sum(dispatcher.stats.cache_hits.values())
        configured: list[Any] = []
        original = dispatcher.configure

        def launched(kernel: Any, launch_config: Any) -> None:
            try:
                self._launched(dispatcher, kernel, launch_config, capture)
            except Exception as problem:
                self._sink.guard("numba-cuda", problem)

        def configure(*args: Any, **kwargs: Any) -> Any:
            try:
                launch_config = original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            callbacks: list[Any] = launch_config.pre_launch_callbacks
            if all(each is not launched for each in callbacks):  # another's ``==`` may raise
                launch_config.pre_launch_callbacks.append(launched)
                configured.append(launch_config)
            return launch_config

        def release() -> None:
            if vars(dispatcher).get("configure") is configure:
                del dispatcher.configure
            for launch_config in configured:
                callbacks: list[Any] = launch_config.pre_launch_callbacks
                callbacks[:] = [each for each in callbacks if each is not launched]

        dispatcher.configure = configure
        self._undo.callback(release)

    def detach(self) -> None:
        """Let go of every dispatcher, in reverse order."""
        self.attached.clear()
        self._undo.close()

    def _launched(self, dispatcher: Any, kernel: Any, launch_config: Any, capture: dict[str, Any]) -> None:
        """One launch is about to be made: its start is all that the callback can see. It must not call CUDA."""
        instant = self._sink.clock()
        specialization = self._rows.specialization(dispatcher, kernel)
        configuration = self._rows.configuration(launch_config)
        if capture["config"] is launch_config:
            capture["config"] = None
            hits = sum(dispatcher.stats.cache_hits.values())
            outcome = "disk" if hits > capture["hits"] else "compiled"
            capture["hits"] = hits
            self._sink.compilations.append({
                "dispatcher_id": self._rows.dispatcher(dispatcher), "specialization_id": specialization,
                "thread_id": self._sink.state().thread_id, "configuration_id": configuration,
                "trigger": "launch", "signature": self._rows.signature_text(kernel.argument_types),
                "start_ns": instant, "outcome": outcome,
            })
        target = self._sink.target(self._rows.dispatcher(dispatcher), specialization)
        self._sink.launch(instant, UNKNOWN, target, configuration)
