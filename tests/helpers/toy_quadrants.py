"""A stand-in for Quadrants: the classes, calls and attributes that the probe goes by, and nothing behind them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Config:
    def __init__(self, arch: str, offline_cache: bool = True) -> None:
        self.arch = f"Arch.{arch}"
        self.offline_cache = offline_cache
        self.offline_cache_file_path = "/home/u/.cache/quadrants"


class Annotation:
    """An argument's annotation, or a template."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def to_string(self) -> str:
        return self._name


class NdarrayType:
    pass


class Template:
    pass


class Array:
    """An ndarray, told by its element type and dimensions."""

    def __init__(self, element: str, dimensions: int = 1) -> None:
        self.feature = Annotation(element), dimensions


def make(version: str = "1.4.0", arch: str = "x64") -> ModuleType:
    """Return a package ``quadrants`` whose classes are new; `install` puts it into `sys.modules`."""
    runtime = SimpleNamespace(_prog=None, src_ll_cache=True)

    class KernelCxx:
        def __init__(self, kernel: Any) -> None:
            self.kernel = kernel

        def make_launch_context(self) -> Any:
            return SimpleNamespace()

    class Program:
        def __init__(self) -> None:
            self.arch = arch
            self.cache: dict[int, bool] = {}
            self.offline: set[str] = set()
            self.builds = 0
            self.used = False
            self.synchronized = 0

        def config(self) -> Config:
            return Config(self.arch)

        def compile_kernel(self, config: Any, capabilities: Any, compiled: Any) -> Any:
            name = compiled.kernel.func.__qualname__
            hit = name in self.offline
            self.offline.add(name)
            return SimpleNamespace(compiled_kernel_data=object(), cache_hit=hit, cache_key=f"key-{name}")

        def launch_kernel(self, data: Any, context: Any) -> None:
            kernel = context.kernel
            self.used = kernel.use_graph and self.arch == "cuda"
            if self.used and id(data) not in self.cache:
                self.cache[id(data)] = True
                self.builds += 1
            if kernel.on_device is not None:
                kernel.on_device()

        def synchronize(self) -> None:
            self.synchronized += 1

        def get_graph_total_builds(self) -> int:
            return self.builds

        def get_graph_cache_size(self) -> int:
            return len(self.cache)

        def get_graph_cache_used_on_last_call(self) -> bool:
            return self.used

        def get_graph_num_nodes_on_last_call(self) -> int:
            return 3 if self.used else 0

        def get_graph_num_checkpoints_on_last_call(self) -> int:
            return 0

    class Kernel:
        def __init__(self, func: Callable[..., Any], graph: bool = False, arguments: tuple[Any, ...] = (),
                     fastcache: bool = False) -> None:
            self.func = func
            self.use_graph = graph
            self.use_checkpoints = False
            self.autodiff_mode = SimpleNamespace(name="NONE")
            self.quadrants_callable = SimpleNamespace(is_pure=fastcache)
            self.graph_do_while_levels: list[Any] = []
            self.arg_metas = [SimpleNamespace(name=name, annotation=annotation) for name, annotation in arguments]
            self.mapper = SimpleNamespace(mapping={})
            self.runtime = runtime
            self.on_device: Callable[[], Any] | None = None
            self.fast_cached = False
            self.lock = threading.RLock()
            self.reset()

        def reset(self) -> None:
            self.materialized_kernels: dict[Any, Any] = {}
            self.compiled_kernel_data_by_key: dict[Any, Any] = {}
            self._last_launch_key: Any = None
            self.src_ll_cache_observations = SimpleNamespace(
                cache_key_generated=False, cache_validated=False, cache_loaded=False, cache_stored=False)

        def _try_load_fastcache(self, args: Any, key: Any) -> Any:
            if self.fast_cached:
                self.compiled_kernel_data_by_key[key] = object()
                self.src_ll_cache_observations.cache_loaded = True
                self.src_ll_cache_observations.cache_key_generated = True
            return None

        def materialize(self, key: Any, py_args: Any, arg_features: Any = None) -> None:
            if key in self.materialized_kernels:
                return
            with self.lock:
                self._try_load_fastcache(py_args, key)
                if self.func.__name__ == "wrong":
                    raise SyntaxError("a traceback of its own\n\nNo such name")
                self.materialized_kernels[key] = KernelCxx(self)

        def launch_kernel(self, key: Any, t_kernel: Any, compiled_kernel_data: Any, *args: Any,
                          qd_stream: Any = None) -> Any:
            context = t_kernel.make_launch_context()
            context.kernel = self
            t_kernel.make_launch_context()  # for the cache of launch contexts
            program = runtime._prog
            if compiled_kernel_data is None:
                compiled_kernel_data = program.compile_kernel(None, None, t_kernel).compiled_kernel_data
                self.compiled_kernel_data_by_key[key] = compiled_kernel_data
            program.launch_kernel(compiled_kernel_data, context)
            return args

        def __call__(self, *py_args: Any, **kwargs: Any) -> Any:
            stream = kwargs.pop("qd_stream", None)
            py_args += tuple(kwargs.values())
            features = tuple(map(feature, py_args))
            instance = self.mapper.mapping.setdefault(features, len(self.mapper.mapping))
            key = (self.func, instance, "NONE")
            self.materialize(key, py_args)
            self._last_launch_key = key
            return self.launch_kernel(key, self.materialized_kernels[key], self.compiled_kernel_data_by_key.get(key),
                                      *py_args, qd_stream=stream)

    package, lang = ModuleType("quadrants"), ModuleType("quadrants.lang")
    kernel, impl = ModuleType("quadrants.lang.kernel"), ModuleType("quadrants.lang.impl")
    package.__version_str__ = version  # type: ignore[attr-defined]
    package.lang = lang  # type: ignore[attr-defined]
    vars(kernel).update(Kernel=Kernel, KernelCxx=KernelCxx, _GRAPH_ENABLED=True)
    vars(impl).update(Program=Program, get_runtime=lambda: runtime)
    vars(package).update(Kernel=Kernel, KernelCxx=KernelCxx, Program=Program, runtime=runtime,
                         modules={"quadrants": package, "quadrants.lang": lang, "quadrants.lang.kernel": kernel,
                                  "quadrants.lang.impl": impl})
    init(package)
    return package


def init(package: Any) -> None:
    """``qd.init``: a new Program, which has no kernels."""
    package.runtime._prog = package.Program()


def install(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``import quadrants`` find the stand-in."""
    for name, module in package.modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def feature(value: Any) -> Any:
    """Arrays are told by their type and dimensions, scalars by nothing, templates by their value."""
    return getattr(value, "feature", "#" if isinstance(value, float) else value)
