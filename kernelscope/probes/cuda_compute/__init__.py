"""The cuda.compute probe: every call of an algorithm, and every request to the cache of what it builds for them."""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
from types import FunctionType, ModuleType
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import Patches, Probe, numbers_of, refuse_older, untried
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.cuda_compute.calls import FRAMEWORK, Calls
from kernelscope.probes.sink import Sink

#: The first version with the package ``cuda.compute``, and the newest one that was tried.
OLDEST_VERSION = "0.4.0"
NEWEST_VERSION = "1.2"
#: The first version in which one thread builds and others wait.
_WAITS_SINCE = "1.2.0"

_PACKAGE = "cuda.compute"


class CudaComputeProbe(Probe):
    """Hooks cuda.compute where it is imported, or as soon as it is; what its calls run on, other probes wait for."""

    name = FRAMEWORK
    module = _PACKAGE
    fix = "pip install 'cuda-cccl==1.2.1'"

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two calls such as ``reduce_into(...)``. See `Probe.trial`."""
        from kernelscope.probes.cuda_compute.requests import Requests

        (plain, _, _), (hooked, built, factory) = _stand_in(), _stand_in()
        calls = Calls(sink)
        calls.hook(patches, hooked, "nothing")
        calls.hook(patches, vars(type(built))["__call__"], "nothing", method=True)
        Requests(sink, ModuleType("caching"), ModuleType("interop"), by_thread=True).hook_factory(
            patches, "make_nothing", factory)
        return (lambda: plain(d_in=None, d_out=None, num_items=0, op=len)), (
            lambda: hooked(d_in=None, d_out=None, num_items=0, op=len))

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the algorithms, and the caches of what is built for them. See `Probe.hook`."""
        version = _installed_version()
        refuse_older("cuda-cccl", version, OLDEST_VERSION)
        if not getattr(module, "_BINDINGS_AVAILABLE", True):
            raise ProbeUnavailableError("cuda.compute has no bindings here, for want of a CUDA driver")
        loaded = [sys.modules.get(f"{_PACKAGE}.{name}") for name in ("algorithms", "_caching", "_cccl_interop")]
        algorithms, caching, interop = loaded
        if algorithms is None:
            shown = version or "of an unknown version"
            raise ProbeUnavailableError(f"cuda-cccl {shown} has no cuda.compute.algorithms")
        lost: list[str] = []
        if numbers_of(version)[:2] > numbers_of(NEWEST_VERSION):
            lost.append(untried("cuda-cccl", version, f"{OLDEST_VERSION} to {NEWEST_VERSION}"))
        if not Calls(sink).install(self.patches, algorithms, _homes()):
            lost.append("no algorithm was found: calls are not recorded")
        lost += self._hook_requests(sink, caching, interop, version)
        if lost:
            self.report(sink, "; ".join(lost))

    def _hook_requests(self, sink: Sink, caching: ModuleType | None, interop: ModuleType | None,
                       version: str) -> list[str]:
        factories = {} if caching is None else find_factories(caching)
        if caching is None or interop is None or not factories:
            return ["the factories' caches are unknown: builds are not recorded"]
        from kernelscope.probes.cuda_compute.requests import Requests

        requests = Requests(sink, caching, interop, by_thread=hasattr(caching, "_get_thread_caches"))
        lost = requests.install(self.patches, factories)
        if not lost:
            return []
        is_early = version and numbers_of(version) < numbers_of(_WAITS_SINCE)
        where = f"cuda-cccl {version} does not show " if is_early else "this cuda.compute hides "
        return [where + ", ".join(lost)]


def _installed_version() -> str:
    """The version of cuda-cccl; an empty text where it is not known."""
    try:
        return importlib.metadata.version("cuda-cccl")
    except importlib.metadata.PackageNotFoundError:
        return ""


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


def _stand_in() -> tuple[FunctionType, Any, FunctionType]:
    """Return an algorithm, what is built for it, and the factory: what the cost of hooks is measured with.

    The call finds what was built: it asks the factory, and calls what it gets twice, for the size of the memory that it
    needs and for the work.
    """
    class Built:
        def __call__(self, *, temp_storage: Any, d_in: Any, d_out: Any, num_items: int, op: Any, h_init: Any = None,
                     stream: Any = None) -> int:
            return num_items

    def cached(cache_name: Any, func: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            return cache_name if cache_name is not None else func(*args, **kwargs)

        return inner

    built = Built()
    factory = cached(built, lambda **_: built)
    algorithm = FunctionType(_algorithm.__code__, {**globals(), "_factory": factory})
    algorithm.__kwdefaults__ = _algorithm.__kwdefaults__
    return algorithm, built, factory


def _algorithm(*, d_in: Any, d_out: Any, num_items: int, op: Any, h_init: Any = None, stream: Any = None) -> None:
    built = _factory(d_in=d_in, d_out=d_out, op=op, h_init=h_init)
    for temp_storage in (None, 0):
        built(temp_storage=temp_storage, d_in=d_in, d_out=d_out, num_items=num_items, op=op, h_init=h_init,
              stream=stream)
    other_work()


_factory: Any = None  # each stand-in has its own


def _homes() -> list[ModuleType]:
    """The modules that define algorithms."""
    return [module for name, module in list(sys.modules.items())
            if name.startswith(f"{_PACKAGE}.algorithms._")]
