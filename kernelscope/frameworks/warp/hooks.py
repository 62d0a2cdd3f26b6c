"""The probe of Warp: compiles and loads of its modules. Its launches are those that CUPTI reports."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Probe, error_text, numbers_of, untried
from kernelscope.probes.sink import Sink

FRAMEWORK = "warp"
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ("1.19",)

_COMPILE = ["self", "device", "output_dir", "output_name", "output_arch", "use_ptx", "options"]
_BUILDS = {"build_cpu": "clang", "build_cuda": "nvrtc"}
_LONGEST = 100

# Warp compiles all kernels of a module together, and again where a hash of them, of the constants that they use and of
# options has changed. ``Module._compile`` is called when a module is not in memory, and returns whether it had to
# compile or found the binary on disk. ``Module.load``, which calls it, is on the path of each launch and is left alone.


class WarpProbe(Probe):
    """Hooks Warp's modules where it is imported, or as soon as it is."""

    name = FRAMEWORK
    fix = "pip install 'warp-lang>=1.19,<1.20'"

    def __init__(self) -> None:
        super().__init__()
        self._hooks: CompileHooks | None = None

    @property
    def is_hooked(self) -> bool:
        """Nothing is on the path of a launch. See `Probe.is_hooked`."""
        return False

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(module, "__version__", "") or getattr(getattr(module, "config", None), "version", ""))
        context, build = (sys.modules.get(f"warp._src.{name}") for name in ("context", "build"))
        kind: Any = getattr(context, "Module", None)
        function = inspect.unwrap(vars(kind).get("_compile", len)) if kind is not None else None
        if not inspect.isfunction(function) or [*inspect.signature(function).parameters] != _COMPILE:
            raise ProbeUnavailableError(
                f"warp {version or 'of an unknown version'} has another Module._compile than this probe knows, and its "
                f"compiles are not recorded; those of {', '.join(KNOWN_VERSIONS)} are")
        self._hooks = hooks = CompileHooks(sink)
        self.patches.hook(kind, "_compile", hooks.make_compile)
        for name, phase in _BUILDS.items():
            if inspect.isfunction(vars(build).get(name)):
                self.patches.hook(build, name, lambda original, phase=phase: hooks.make_phase(original, phase))
        if version and numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("warp", version, ", ".join(KNOWN_VERSIONS)))

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
        super().unhook()


class CompileHooks:
    """Records every compile of a module, and every load from the kernel cache, while enabled."""

    def __init__(self, sink: Sink) -> None:
        self.enabled = True
        self._sink = sink
        self._local = threading.local()

    def make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``Module._compile``."""
        def _compile(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(module, *args, **kwargs)
            outer = getattr(self._local, "phases", None)
            self._local.phases = phases = []
            failure: BaseException | None = None
            compiled = None
            start = self._sink.clock()
            try:
                compiled = original(module, *args, **kwargs)
                return compiled
            except BaseException as error:
                failure = error
                raise
            finally:
                end = self._sink.clock()
                self._local.phases = outer
                try:
                    given = inspect.signature(original).bind(module, *args, **kwargs).arguments
                    outcome = "failed" if failure is not None else "compiled" if compiled else "disk"
                    self._write(module, given, outcome, failure, start, end, phases)
                except Exception as problem:
                    if from_signal_handler(problem):
                        raise
                    self._sink.swallow(FRAMEWORK, problem)

        return _compile

    def make_phase(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return what is called in the place of a function that compiles a module's source."""
        def build(*args: Any, **kwargs: Any) -> Any:
            phases = getattr(self._local, "phases", None)
            if phases is None or not self.enabled:
                return original(*args, **kwargs)
            start = self._sink.clock()
            try:
                return original(*args, **kwargs)
            finally:
                phases.append({"kind": "phase", "name": name, "start_ns": start,
                               "duration_ns": self._sink.clock() - start})

        return build

    def _write(self, module: Any, given: dict[str, Any], outcome: str, error: BaseException | None, start: int,
               end: int, phases: list[dict[str, Any]]) -> None:
        held = held_of(module, given)
        name = str(module.name)
        kernels: dict[str, str] = held["kernels"]
        dispatcher = self._sink.dispatchers.intern((FRAMEWORK, name), lambda: {
            "framework": FRAMEWORK, "name": name, "module": name,
            "attributes": json.dumps({"owner": "library" if name.partition(".")[0] == "warp" else "user"})})
        signature = ", ".join(each for each in kernels if not each.endswith("()"))  # without functions
        row: dict[str, Any] = {
            "dispatcher_id": dispatcher, "thread_id": self._sink.state().thread_id, "trigger": "compile",
            "signature": signature or "no kernel", "start_ns": start, "end_ns": end, "outcome": outcome,
            "error": None if error is None else error_text(error)}
        if given.get("output_name") and given.get("output_dir"):
            row["cache_file"] = os.path.join(os.fspath(given["output_dir"]), str(given["output_name"]))
        if error is not None:
            row["attributes"] = json.dumps({"requested": held})
        else:
            text = json.dumps(held)
            digits = str(held["target"]).removeprefix("sm_")
            row["specialization_id"] = self._sink.specializations.intern((FRAMEWORK, dispatcher, text), lambda: {
                "dispatcher_id": dispatcher, "signature": row["signature"], "origin": outcome, "attributes": text,
                "compute_capability": f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() else None})
        self._sink.add_compile(row, phases)


def held_of(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what decides about a module's hash: its kernels, the constants that they use, options, and the target.

    Parameters
    ----------
    module : warp.Module
        After its hash has been made.
    given : dict
        The arguments of ``Module._compile``.
    """
    options = given.get("options") or {}
    hasher = module.hashers.get(options.get("block_dim", module.options["block_dim"]))
    kernels: dict[str, str] = {}
    constants: dict[str, str] = {}
    for kernel in getattr(hasher, "unique_kernels", {}).values():
        types = ", ".join(f"{name}: {_type(kind)}" for name, kind in kernel.adj.arg_types.items())
        kernels[f"{kernel.key}({types})"] = hashlib.sha256(kernel.adj.source.encode()).hexdigest()[:16]
        used, _, functions = kernel.adj.get_references()
        for function in functions:
            if not function.is_builtin() and getattr(function, "adj", None) is not None:
                kernels[f"{function.key}()"] = hashlib.sha256(function.adj.source.encode()).hexdigest()[:16]
                used = {**used, **function.adj.get_references()[0]}
        constants |= {str(name): _text(value) for name, value in used.items()}
    device, arch = given.get("device"), given.get("output_arch")
    target = "cpu" if device is None or not device.is_cuda else f"sm_{arch or device.arch}"
    return {"kernels": dict(sorted(kernels.items())), "arguments": {}, "constants": constants, "target": target,
            "options": {str(name): _text(value) for name, value in options.items()}}


def _type(kind: Any) -> str:
    dtype = getattr(kind, "dtype", None)
    name = str(getattr(dtype or kind, "__name__", dtype or kind))
    return f"array({name}, {getattr(kind, 'ndim', 1)}d)" if dtype is not None else name


def _text(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"
