"""Recording one kernel by numba-cuda's documented seam only: `pre_launch_callbacks` and `capture_compile_config`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import hide_frame
from kernelscope.probes.numba_cuda.facts import Facts
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN


class Attachments:
    """Dispatchers that were given to ``recorder.attach``, and how to let go of them."""

    def __init__(self, sink: Sink, facts: Facts, modules: Any) -> None:
        self._sink = sink
        self._facts = facts
        self._modules = modules
        self._undo = ExitStack()
        self._attached: set[int] = set()

    def attach(self, dispatcher: Any) -> None:
        """Add a callback to every launch that is configured from now on.

        Raises
        ------
        ProbeUnavailableError
            `dispatcher` is no kernel made by ``cuda.jit``.
        """
        if not hasattr(dispatcher, "configure") or not hasattr(dispatcher, "py_func"):
            raise ProbeUnavailableError(f"{dispatcher!r} is not a kernel made by numba.cuda.jit")
        if id(dispatcher) in self._attached:
            return
        self._attached.add(id(dispatcher))
        capture = self._undo.enter_context(self._modules.launchconfig.capture_compile_config(dispatcher))
        capture["hits"] = sum(dispatcher.stats.cache_hits.values())
        configured: list[Any] = []
        original = dispatcher.configure

        def launched(kernel: Any, launch_config: Any) -> None:
            try:
                self._launched(dispatcher, kernel, launch_config, capture)
            except Exception as problem:
                self._sink.swallow("numba-cuda", problem)

        def configure(*args: Any, **kwargs: Any) -> Any:
            try:
                launch_config = original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            if launched not in launch_config.pre_launch_callbacks:
                launch_config.pre_launch_callbacks.append(launched)
                configured.append(launch_config)
            return launch_config

        def release() -> None:
            if vars(dispatcher).get("configure") is configure:
                del dispatcher.configure
            for launch_config in configured:
                if launched in launch_config.pre_launch_callbacks:
                    launch_config.pre_launch_callbacks.remove(launched)

        dispatcher.configure = configure
        self._undo.callback(release)

    def detach(self) -> None:
        """Let go of every dispatcher, in reverse order."""
        self._attached.clear()
        self._undo.close()

    def _launched(self, dispatcher: Any, kernel: Any, launch_config: Any, capture: dict[str, Any]) -> None:
        """One launch is about to be made: its start is all that the callback can see. It must not call CUDA."""
        instant = self._sink.clock()
        specialization = self._facts.specialization(dispatcher, kernel)
        configuration = self._facts.configuration(launch_config)
        if capture["config"] is launch_config:
            capture["config"] = None
            hits = sum(dispatcher.stats.cache_hits.values())
            outcome = "disk" if hits > capture["hits"] else "compiled"
            capture["hits"] = hits
            self._sink.compilations.append({
                "dispatcher_id": self._facts.dispatcher(dispatcher), "specialization_id": specialization,
                "thread_id": self._sink.state().thread_id, "configuration_id": configuration,
                "trigger": "launch", "signature": self._facts.signature_text(kernel.argument_types),
                "start_ns": instant, "outcome": outcome,
            })
        target = self._sink.target(self._facts.dispatcher(dispatcher), specialization)
        self._sink.launch(instant, UNKNOWN, target, configuration)
