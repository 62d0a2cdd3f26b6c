"""The cuda.compute probe: every call of an algorithm, and every request to the cache of what it builds for them."""

from __future__ import annotations

import importlib.metadata
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
from kernelscope.probes.cuda_compute.calls import FRAMEWORK, Calls
from kernelscope.probes.cuda_compute.requests import Requests
from kernelscope.probes.sink import Sink

#: The first version with the package ``cuda.compute``, and the newest one that was tried.
OLDEST_VERSION = (0, 4, 0)
NEWEST_VERSION = (1, 2)
#: The first version in which one thread builds and others wait.
_WAITS_SINCE = (1, 2, 0)

_PACKAGE = "cuda.compute"
_FIX = "pip install 'cuda-cccl==1.2.1'"


class CudaComputeProbe:
    """Hooks cuda.compute where it is imported, or as soon as it is."""

    name = FRAMEWORK

    def __init__(self) -> None:
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        self._is_hooked = False
        # Another thread imports cuda.compute while one uninstalls.
        self._lock = threading.RLock()
        self._installed = False

    def install(self, sink: Sink, detail: str) -> None:
        """Hook cuda.compute, or wait for its import. See `Probe.install`."""
        self._installed = True
        self._import_hook = ImportHook(_PACKAGE, lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        with self._lock:
            self._installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            self._patches.undo()

    def synchronize(self) -> str | None:
        """Leave waiting to the probes that see the device. See `Probe.synchronize`."""
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Have nothing to ask for. See `Probe.describe`."""

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to. See `Probe.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure the hooks around functions that do nothing. See `Probe.cost_per_launch_ns`."""
        return measure_cost(detail) if self._is_hooked else None

    def _imported(self, package: ModuleType, sink: Sink) -> None:
        """Hook cuda.compute, which has just been imported; what goes wrong is a fact for health, not for the user."""
        try:
            with self._lock:
                if self._installed:
                    self._hook(package, sink)
        except ProbeUnavailableError as problem:
            self._patches.undo()
            sink.health.append({"probe": self.name, "status": "unavailable", "message": str(problem), "fix": _FIX})
        except Exception as problem:
            self._patches.undo()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _hook(self, package: Any, sink: Sink) -> None:
        version, text = installed_version()
        if version and version < OLDEST_VERSION:
            raise ProbeUnavailableError(f"cuda-cccl {text} is too old: 0.4.0 or newer is needed")
        if not getattr(package, "_BINDINGS_AVAILABLE", True):
            raise ProbeUnavailableError("cuda.compute has no bindings here, for want of a CUDA driver")
        loaded = [sys.modules.get(f"{_PACKAGE}.{name}") for name in ("algorithms", "_caching", "_cccl_interop")]
        algorithms, caching, interop = loaded
        if algorithms is None:
            raise ProbeUnavailableError(f"cuda-cccl {text or 'of an unknown version'} has no cuda.compute.algorithms")
        lost: list[str] = []
        if version[:2] > NEWEST_VERSION:
            lost.append(f"cuda-cccl {text} is newer than {'.'.join(map(str, NEWEST_VERSION))}, the newest that was "
                        "tried: what is missing may go unnoticed")
        if not Calls(sink).install(self._patches, algorithms, _homes()):
            lost.append("no algorithm was found: calls are not recorded")
        lost += self._hook_requests(sink, caching, interop, version, text)
        self._is_hooked = True
        if lost:
            sink.health.append({"probe": self.name, "status": "degraded", "message": "; ".join(lost), "fix": _FIX})

    def _hook_requests(self, sink: Sink, caching: ModuleType | None, interop: ModuleType | None,
                       version: tuple[int, ...], text: str) -> list[str]:
        factories = {} if caching is None else find_factories(caching)
        if caching is None or interop is None or not factories:
            return ["the factories' caches are unknown: builds are not recorded"]
        requests = Requests(sink, caching, interop, by_thread=hasattr(caching, "_get_thread_caches"))
        lost = requests.install(self._patches, factories)
        if not lost:
            return []
        where = f"cuda-cccl {text} does not show " if version and version < _WAITS_SINCE else "this cuda.compute hides "
        return [where + ", ".join(lost)]


def installed_version() -> tuple[tuple[int, ...], str]:
    """Return the version of cuda-cccl, as numbers and as text; () and an empty text where it is not known."""
    try:
        text = importlib.metadata.version("cuda-cccl")
    except importlib.metadata.PackageNotFoundError:
        return (), ""
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit()), text


def find_factories(caching: ModuleType) -> dict[str, FunctionType]:
    """Return the cached ``make_*`` functions by name: those whose cache looks as the hooks need it."""
    registry = (vars(caching).get("_process_wide_cache_registry") or vars(caching).get("_cache_registry") or {})
    return {
        name: function for name, function in dict(registry).items()
        if isinstance(function, FunctionType) and isinstance(getattr(function, "__wrapped__", None), FunctionType)
        and name.lstrip("_").startswith("make_") and len(function.__closure__ or ()) == 2
        and function.__code__.co_freevars[1] == "func"
        and function.__code__.co_flags & inspect.CO_VARKEYWORDS
    }


def measure_cost(detail: str, rounds: int = 20, calls: int = 50) -> float:
    """Measure what the hooks add to one call, in nanoseconds: the median of A B A B rounds.

    The call is one such as ``reduce_into(...)`` that finds what was built: it asks the factory, and calls what it gets
    twice, for the size of the memory that it needs and for the work.
    """
    sink = Sink(detail=detail)
    recorder = Calls(sink)
    requests = Requests(sink, ModuleType("caching"), ModuleType("interop"), by_thread=True)
    differences: list[int] = []
    for _ in range(rounds):
        times: list[int] = []
        for recorded in (False, True):
            patches = Patches()
            if recorded:
                recorder.hook(patches, _algorithm, "nothing")
                recorder.hook(patches, _Built.__call__, "nothing", method=True)
                requests.hook_factory(patches, "make_nothing", _factory)
            try:
                _algorithm(d_in=None, d_out=None, num_items=0, op=len)
                start = now()
                for _ in range(calls):
                    _algorithm(d_in=None, d_out=None, num_items=0, op=len)
                times.append(now() - start)
            finally:
                patches.undo()
        differences.append(times[1] - times[0])
    return max(0.0, statistics.median(differences) / calls)


class _Built:
    """What `_factory` returns."""

    def __call__(self, *, temp_storage: Any, d_in: Any, d_out: Any, num_items: int, op: Any, h_init: Any = None,
                 stream: Any = None) -> int:
        return num_items


def _cached(cache_name: str, func: Any) -> Any:
    def inner(*args: Any, **kwargs: Any) -> Any:
        return _BUILT if cache_name else func(*args, **kwargs)

    return inner


def _algorithm(*, d_in: Any, d_out: Any, num_items: int, op: Any, h_init: Any = None, stream: Any = None) -> None:
    """What `measure_cost` calls: it takes and calls what an algorithm does."""
    built = _factory(d_in=d_in, d_out=d_out, op=op, h_init=h_init)
    for temp_storage in (None, 0):
        built(temp_storage=temp_storage, d_in=d_in, d_out=d_out, num_items=num_items, op=op, h_init=h_init,
              stream=stream)


_BUILT = _Built()
_factory = _cached("make_nothing", lambda *, d_in, d_out, op, h_init: _BUILT)


def _homes() -> list[ModuleType]:
    """The modules that define algorithms."""
    return [module for name, module in list(sys.modules.items())
            if name.startswith(f"{_PACKAGE}.algorithms._")]
