"""Stands in for cuda.compute, which has no wheel for every Python: its caches, two algorithms, and nothing of CUDA.

What the probe relies on is shaped as in cuda-cccl 1.2.1; the tests in ``tests/frameworks/cuda_compute`` use the real
one. A "build" calls the function in the package's ``BUILDS``, which tests replace.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_CACHING = '''
import functools, threading
from typing import NamedTuple

_process_wide_cache_registry = {}
_process_wide_build_results_cache = {}
_thread_local = threading.local()
_MISSING = object()

class Target(NamedTuple):
    cc_key: int

class Device(NamedTuple):
    device_id: int
    cc: tuple

class _InFlightBuild:
    def __init__(self):
        self.event, self.result, self.exception = threading.Event(), None, None

def key_of(value):
    return getattr(value, "__name__", None) or getattr(value, "dtype", None) or repr(value)

def _get_thread_caches():
    if not hasattr(_thread_local, "caches"):
        _thread_local.caches = {}
    return _thread_local.caches

def _cache_single_flight(cache, cache_key, builder):
    entry = cache.get(cache_key, _MISSING)
    if entry is _MISSING:
        mine = _InFlightBuild()
        entry = cache.setdefault(cache_key, mine)
        if entry is mine:
            try:
                mine.result = cache[cache_key] = builder()
            except BaseException as error:
                mine.exception = error
                cache.pop(cache_key, None)
                raise
            finally:
                mine.event.set()
            return mine.result
    if isinstance(entry, _InFlightBuild):
        entry.event.wait()
        if entry.exception is not None:
            raise entry.exception
        return entry.result
    return entry

def cache_factory(func):
    cache_name = func.__qualname__

    @functools.wraps(func)
    def inner(*args, **kwargs):
        key = tuple(sorted((name, key_of(value)) for name, value in kwargs.items()))
        _thread_local.factory_device_info = Device(0, (9, 0))
        cache = _get_thread_caches().setdefault(cache_name, {})
        if key not in cache:
            cache[key] = func(*args, **kwargs)
        return cache[key]

    inner.cache_clear = lambda: _get_thread_caches().pop(cache_name, None)
    _process_wide_cache_registry[cache_name] = inner
    return inner

def clear_all_caches():
    _get_thread_caches().clear()
    _process_wide_build_results_cache.clear()
'''
_INTEROP = '''
def call_build(build, *args, cc=None, **kwargs):
    return build(*args, **kwargs)

def call_compile(build, *args, cc, **kwargs):
    return build(*args, **kwargs)
'''
_REDUCE = '''
from cuda.compute import BUILDS
from cuda.compute._caching import _cache_single_flight, _process_wide_build_results_cache, cache_factory, Target, key_of
from cuda.compute._cccl_interop import call_build

class _Reduce:
    __slots__ = ("build_results",)

    def __init__(self, op, d_in):
        self.build_results = _cache_single_flight(
            _process_wide_build_results_cache, (_Reduce, Target(90), (key_of(op), key_of(d_in))),
            lambda: {90: call_build(BUILDS["build"], cc=(9, 0))})

    def __call__(self, *, temp_storage, d_in, d_out, num_items, op, h_init=None, stream=None):
        BUILDS["calls"].append((temp_storage, num_items))
        if temp_storage is not None:
            BUILDS["run"]()
        return 256

@cache_factory
def make_reduce_into(*, d_in, d_out, op, h_init=None, **kwargs):
    """Make it."""
    return _Reduce(op, d_in)

def reduce_into(*, d_in, d_out, num_items, op, h_init=None, stream=None, **kwargs):
    """Reduce it."""
    reducer = make_reduce_into(d_in=d_in, d_out=d_out, op=op, h_init=h_init, **kwargs)
    size = reducer(temp_storage=None, d_in=d_in, d_out=d_out, num_items=num_items, op=op, stream=stream)
    reducer(temp_storage=size, d_in=d_in, d_out=d_out, num_items=num_items, op=op, stream=stream)
    return num_items
'''
_SELECT = '''
from cuda.compute._caching import cache_factory
from cuda.compute.algorithms._reduce import make_reduce_into

class _Select:
    def __init__(self, d_in, cond):
        self.partitioner = make_reduce_into(d_in=d_in, d_out=d_in, op=cond)

    def __call__(self, *, temp_storage, d_in, cond, num_items, stream=None):
        return self.partitioner(temp_storage=temp_storage, d_in=d_in, d_out=d_in, num_items=num_items, op=cond)

@cache_factory
def make_select(*, d_in, cond):
    return _Select(d_in, cond)

def select(*, d_in, cond, num_items, stream=None):
    make_select(d_in=d_in, cond=cond)(temp_storage=1, d_in=d_in, cond=cond, num_items=num_items)
'''
_ALGORITHMS = '''
from cuda.compute.algorithms._reduce import make_reduce_into, reduce_into
from cuda.compute.algorithms._select import make_select, select

__all__ = ["make_reduce_into", "reduce_into", "make_select", "select"]
'''


class Array:
    """What the stand-in takes for an array."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.shape = (4,)


@contextmanager
def compute(old: bool = False) -> Iterator[Any]:
    """Have a fresh stand-in where ``cuda.compute`` is imported from; an `old` one has one cache for all threads."""
    texts = {"_caching": _CACHING, "_cccl_interop": _INTEROP, "algorithms._reduce": _REDUCE,
             "algorithms._select": _SELECT, "algorithms": _ALGORITHMS}
    if old:
        for name in ("_caching", "algorithms._reduce"):
            texts[name] = _older(texts[name])
    package = ModuleType("cuda.compute")
    package.__path__ = []
    vars(package).update(BUILDS={"build": object, "run": lambda: None, "calls": []}, _BINDINGS_AVAILABLE=True)
    before = {name: module for name, module in sys.modules.items() if name.partition(".compute")[0] == "cuda"
              and name.startswith("cuda.compute")}
    for name in before:
        del sys.modules[name]
    sys.modules["cuda.compute"] = package
    try:
        for name, text in texts.items():
            module = ModuleType(f"cuda.compute.{name}")
            sys.modules[module.__name__] = module
            exec(compile(text, f"<{module.__name__}>", "exec"), vars(module))
        algorithms = sys.modules["cuda.compute.algorithms"]
        for name in vars(algorithms)["__all__"]:
            setattr(package, name, getattr(algorithms, name))
        package.clear_all_caches = sys.modules["cuda.compute._caching"].clear_all_caches  # type: ignore[attr-defined]
        yield package
    finally:
        for name in [name for name in sys.modules if name.startswith("cuda.compute")]:
            del sys.modules[name]
        sys.modules.update(before)


def _older(text: str) -> str:
    """The text with other names, and without a cache of builds."""
    return (text.replace("_get_thread_caches", "_caches").replace("threading.local()", "lambda: None")
            .replace("_process_wide_build_results_cache", "_nothing").replace("_cache_single_flight", "_always_build")
            .replace("def _always_build(cache, cache_key, builder):",
                     "def _always_build(cache, cache_key, builder):\n    return builder()"))
