"""The probe of Dask's workers: each task is a range of domain ``dask`` on the thread that runs it.

It is called as the task's key prefix, and its payload is the key, so that launches have the task that made them as they
have NVTX ranges: by thread and time, with nothing on the launch path.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Probe
from kernelscope.probes.nvtx import RangeWriter
from kernelscope.probes.sink import RANGE_EXIT, RANGE_PUSH, Sink

#: The domain of tasks' ranges.
DOMAIN = "dask"
#: What runs a task, or an actor's method, on a thread of the worker's. Tasks that are coroutines share one thread.
_RUNS = ("_run_task", "_run_actor")

Label = tuple[Any, ...]


class DaskProbe(Probe):
    """Hooks what runs a task in a worker's thread, where `distributed` is imported, or as soon as it is."""

    name = "dask"
    module = "distributed.worker"
    fix = "pip install -U distributed"

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the functions that run tasks. See `Probe.hook`."""
        places = {name: _place_of_key(vars(module).get(name)) for name in _RUNS}
        missing = [name for name, place in places.items() if place is None]
        if missing:
            raise ProbeUnavailableError(f"this distributed is unknown: {', '.join(missing)} of {module.__name__} "
                                        "is not what it should be; which task launched is not recorded")
        for name, place in places.items():
            self.patches.hook(module, name, self._make(RangeWriter(sink, self.name), place or 0))

    def _make(self, writer: RangeWriter, place: int) -> Callable[[Any], Any]:
        def begin(args: Any, kwargs: Any) -> Label:
            key = args[place] if len(args) > place else kwargs["key"]
            label = (prefix_of(key), None, DOMAIN, None, str(key))
            writer.event(RANGE_PUSH, label)
            writer.sink.flush()  # to the journal, which a worker that is killed leaves
            return label

        def end(label: Label) -> None:
            writer.event(RANGE_EXIT, label)
            writer.labels.pop(label, None)  # a key comes once: nobody asks for it again
            writer.sink.flush()

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                label = writer.guarded(lambda: begin(args, kwargs)) if self.is_installed else None
                try:
                    return original(*args, **kwargs)
                finally:
                    if label is not None:
                        writer.guarded(lambda: end(label))

            return run

        return make


def prefix_of(key: Any) -> str:
    """Return what Dask calls the group of tasks that a key belongs to."""
    return str(sys.modules["dask.utils"].key_split(key))


def _place_of_key(function: Any) -> int | None:
    """Return which argument of a function is the task's key; None where it has none, or is no function."""
    names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
    return names.index("key") if "key" in names else None
