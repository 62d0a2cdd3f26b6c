"""The probe of Warp: compiles and loads of its modules. Its launches are those that CUPTI reports."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.compiles import CompileHooks, CompileProbe, short_text
from kernelscope.probes.sink import Sink

FRAMEWORK = "warp"
_COMPILE = ["self", "device", "output_dir", "output_name", "output_arch", "use_ptx", "options"]
_BUILDS = {"build_cpu": "clang", "build_cuda": "nvrtc"}

# Warp compiles all kernels of a module together, and again where a hash of them, of the constants that they use and of
# options has changed. ``Module._compile`` is called when a module is not in memory, and returns whether it had to
# compile or found the binary on disk. ``Module.load``, which calls it, is on the path of each launch and is left alone.


class WarpProbe(CompileProbe):
    """Hooks Warp's modules where it is imported, or as soon as it is."""

    name = FRAMEWORK
    versions = ("1.19",)
    fix = "pip install 'warp-lang>=1.19,<1.20'"

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(module, "__version__", "") or getattr(getattr(module, "config", None), "version", ""))
        context, build = (sys.modules.get(f"warp._src.{name}") for name in ("context", "build"))
        kind: Any = getattr(context, "Module", None)
        function = inspect.unwrap(vars(kind).get("_compile", len)) if kind is not None else None
        if not inspect.isfunction(function) or [*inspect.signature(function).parameters] != _COMPILE:
            raise ProbeUnavailableError(
                self.other_version("warp", version, "another Module._compile than this probe knows"))
        self._hooks = hooks = WarpHooks(sink)
        self.patches.hook(kind, "_compile", hooks.make_compile)
        for name, phase in _BUILDS.items():
            if inspect.isfunction(vars(build).get(name)):
                self.patches.hook(build, name, lambda original, phase=phase: hooks.make_phase(original, phase))
        self.report_version(sink, "warp", version)


class WarpHooks(CompileHooks):
    """Records every compile of a module, and every load from the kernel cache, while enabled."""

    framework = FRAMEWORK

    def write(self, bind: Callable[[], dict[str, Any]], result: Any, error: BaseException | None, start: int, end: int,
              notes: dict[str, Any]) -> None:
        """Write the row of a module. See `CompileHooks.write`."""
        given = bind()
        module = given["self"]
        key, name = key_of(module, given), str(module.name)
        arguments = [kernel for kernel in key["kernels"] if not kernel.endswith("()")]  # without functions
        file: dict[str, Any] = {}
        if given.get("output_name") and given.get("output_dir"):
            file["cache_file"] = os.path.join(os.fspath(given["output_dir"]), str(given["output_name"]))
        owner = "library" if name.partition(".")[0] == "warp" else "user"
        self.add((name,), {"name": name, "module": name, "attributes": json.dumps({"owner": owner})}, key,
                 ", ".join(arguments) or "no kernel", start, end,
                 "failed" if error is not None else "compiled" if result else "disk", error, notes["phases"],
                 target=key["target"], **file)


def key_of(module: Any, given: dict[str, Any]) -> dict[str, Any]:
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
        constants |= {str(name): short_text(value) for name, value in used.items()}
    device, arch = given.get("device"), given.get("output_arch")
    target = "cpu" if device is None or not device.is_cuda else f"sm_{arch or device.arch}"
    return {"kernels": dict(sorted(kernels.items())), "arguments": {}, "constants": constants, "target": target,
            "options": {str(name): short_text(value) for name, value in options.items()}}


def _type(kind: Any) -> str:
    dtype = getattr(kind, "dtype", None)
    name = str(getattr(dtype or kind, "__name__", dtype or kind))
    return f"array({name}, {getattr(kind, 'ndim', 1)}d)" if dtype is not None else name
