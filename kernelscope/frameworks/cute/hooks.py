"""The probe of CuTe DSL: what ``cute.compile`` and calls of ``@cute.jit`` functions compile. CUPTI has the launches."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.compiles import CompileHooks, CompileProbe, code_hash, short_text
from kernelscope.probes.sink import Sink

FRAMEWORK = "cute"
_GENERATE = ["self", "funcBody", "function_name", "gpu_module_attrs", "args", "kwonlyargs", "sig"]

# ``BaseDSL.generate_mlir`` traces a function, at each ``cute.compile`` and at each call of one that is decorated with
# ``@cute.jit`` only. It looks the code up in memory by a hash of what came of that; where it is not there, the
# compiler's back end is asked, which looks into its folder on disk first. A trace whose code is in memory has no row.


class CuteProbe(CompileProbe):
    """Hooks CuTe DSL where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "cutlass.cute"
    versions = ("4.8",)
    fix = "pip install 'nvidia-cutlass-dsl>=4.8,<4.9'"

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("cutlass"), "__version__", ""))
        dsl: Any = getattr(sys.modules.get("cutlass.base_dsl.dsl"), "BaseDSL", None)
        backend: Any = getattr(sys.modules.get("cutlass.base_dsl.compile_backend"), "CompilerBackend", None)
        problems: list[str] = []
        for owner, name, parameters in ((dsl, "generate_mlir", _GENERATE), (backend, "compile", ["self", "ctx"]),
                                        (backend, "_resolve_compile_cache", ["self", "ctx"])):
            function = inspect.unwrap(vars(owner).get(name, len)) if owner is not None else None
            if (not inspect.isfunction(function)
                    or [*inspect.signature(function).parameters][:len(parameters)] != parameters):
                problems.append(f"no {name}({', '.join(parameters)}, ...)")
        if problems:
            raise ProbeUnavailableError(self.other_version("cutlass", version, ", ".join(problems)))
        self._hooks = hooks = CuteHooks(sink)
        self.patches.hook(dsl, "generate_mlir", hooks.make_compile)
        self.patches.hook(backend, "compile", hooks.make_backend)
        self.patches.hook(backend, "_resolve_compile_cache", hooks.make_resolve)
        self.report_version(sink, "cutlass", version)


class CuteHooks(CompileHooks):
    """Records every compile, and every load from the folder on disk, while enabled."""

    framework = FRAMEWORK

    def begin(self, *args: Any) -> dict[str, Any]:
        """Return the target and the options of a compile, which may change them. See `CompileHooks.begin`."""
        try:
            return {"target": _target(args[0]), "options": options_of(args[0])}
        except Exception as problem:
            self._sink.guard(FRAMEWORK, problem)
            return {"target": None, "options": {}}

    def _read(self, owner: Any, name: str) -> Any:
        """Return the attribute of an object, or None."""
        try:
            return getattr(owner, name, None)
        except Exception as problem:
            self._sink.guard(FRAMEWORK, problem)
            return None

    def make_backend(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the back end's ``compile``."""
        def compile_(backend: Any, ctx: Any) -> Any:
            notes = self.compile
            if notes is None or not self.enabled:
                return original(backend, ctx)
            notes |= {"failed": True, "compile_ns": self._sink.clock(), "hash": self._read(ctx, "module_hash")}
            try:
                result = original(backend, ctx)
                notes["failed"] = False
                return result
            finally:
                notes["end_ns"] = self._sink.clock()

        return compile_

    def make_resolve(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the look into the folder on disk."""
        def resolve(backend: Any, ctx: Any) -> Any:
            state, notes = original(backend, ctx), self.compile
            if notes is not None:
                notes["is_hit"] = bool(self._read(state, "load_from_file_cache"))
            return state

        return resolve

    def write(self, bind: Callable[[], dict[str, Any]], result: Any, error: BaseException | None, start: int, end: int,
              notes: dict[str, Any]) -> None:
        """Write the row of a function, unless its code was in memory. See `CompileHooks.write`."""
        if "end_ns" not in notes and error is None:
            return
        if "end_ns" in notes and not notes["failed"]:
            error = None  # it was compiled, and failed when it ran
        end = notes.get("end_ns", end)
        given = bind()
        key = {**key_of(given), "target": notes["target"], "options": notes["options"]}
        function = given["funcBody"]
        code: Any = getattr(inspect.unwrap(function), "__code__", None)
        name = str(getattr(function, "__name__", given["function_name"]))
        filename, lineno = getattr(code, "co_filename", None), getattr(code, "co_firstlineno", None)
        backend = notes.get("compile_ns", end)
        self.add(
            (name, filename, lineno),
            {"name": name, "module": getattr(function, "__module__", None), "filename": filename, "lineno": lineno,
             "arguments": ", ".join((*key["arguments"], *key["constants"])),
             "attributes": json.dumps({"owner": "user"})},
            key, signature_text(key), start, end,
            "failed" if error is not None else "disk" if notes.get("is_hit") else "compiled", error,
            [{"kind": "phase", "name": phase, "start_ns": since, "duration_ns": until - since}
             for phase, since, until in (("trace", start, backend), ("compile", backend, end)) if until > since],
            target=key["target"], cache_key=notes.get("hash"))


def key_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return what decides about the code: arguments' types and constants by name, and a hash of the function's code.

    Parameters
    ----------
    given : dict
        The arguments of ``BaseDSL.generate_mlir``.
    """
    arguments: dict[str, dict[str, Any]] = {}
    constants: dict[str, str] = {}
    values = {**dict(zip(given["sig"].parameters, given["args"], strict=False)), **given["kwonlyargs"]}
    for name, value in values.items():
        annotation = getattr(given["sig"].parameters.get(name), "annotation", None)
        if "Constexpr" in str(annotation):
            constants[name] = short_text(value)
        else:
            arguments[name] = {"type": _type(value, annotation)}
    code = getattr(inspect.unwrap(given["funcBody"]), "__code__", None)
    return {"arguments": arguments, "constants": constants, "code": None if code is None else code_hash(code)}


def options_of(dsl: Any) -> dict[str, str]:
    """Return the compiler's options by name that are not as they come."""
    found = getattr(getattr(dsl, "compile_options", None), "options", {})
    return {kind.__name__: short_text(option.value) for kind, option in found.items()
            if getattr(option, "value", None) != getattr(kind, "_default", None)}


def signature_text(held: dict[str, Any]) -> str:
    """Return arguments by their types, and constants with their values."""
    parts = [each["type"] for each in held["arguments"].values()]
    return f"({', '.join(parts + [f'{name}={value}' for name, value in held['constants'].items()])})"


def _target(dsl: Any) -> str | None:
    arch = getattr(getattr(dsl, "compile_options", None), "gpu_arch", None)
    return str(arch or getattr(getattr(dsl, "envar", None), "arch", None) or "") or None


def _type(value: Any, annotation: Any) -> str:
    if getattr(value, "type", None) is not None and not isinstance(value, type):
        return " ".join(str(value.type).split())
    if isinstance(value, bool | int | float) and isinstance(annotation, type):
        return annotation.__name__
    return type(value).__name__
