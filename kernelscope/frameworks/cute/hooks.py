"""The probe of CuTe DSL: what ``cute.compile`` and calls of ``@cute.jit`` functions compile. CUPTI has the launches."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Probe, error_text, numbers_of, untried
from kernelscope.probes.sink import Sink

FRAMEWORK = "cute"
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ("4.8",)

_GENERATE = ["self", "funcBody", "function_name", "gpu_module_attrs", "args", "kwonlyargs", "sig"]
_LONGEST = 100

# ``BaseDSL.generate_mlir`` traces a function, at each ``cute.compile`` and at each call of one that is decorated with
# ``@cute.jit`` only. It looks the code up in memory by a hash of what came of that; where it is not there, the
# compiler's back end is asked, which looks into its folder on disk first. A trace whose code is in memory has no row.


class CuteProbe(Probe):
    """Hooks CuTe DSL where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "cutlass.cute"
    fix = "pip install 'nvidia-cutlass-dsl>=4.8,<4.9'"

    def __init__(self) -> None:
        super().__init__()
        self._hooks: CompileHooks | None = None

    @property
    def is_hooked(self) -> bool:
        """Nothing is on the path of a launch. See `Probe.is_hooked`."""
        return False

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("cutlass"), "__version__", ""))
        dsl: Any = getattr(sys.modules.get("cutlass.base_dsl.dsl"), "BaseDSL", None)
        backend: Any = getattr(sys.modules.get("cutlass.base_dsl.compile_backend"), "CompilerBackend", None)
        problems: list[str] = []
        for owner, name, wanted in ((dsl, "generate_mlir", _GENERATE), (backend, "compile", ["self", "ctx"]),
                                    (backend, "_resolve_compile_cache", ["self", "ctx"])):
            function = inspect.unwrap(vars(owner).get(name, len)) if owner is not None else None
            if not inspect.isfunction(function) or [*inspect.signature(function).parameters][:len(wanted)] != wanted:
                problems.append(f"no {name}({', '.join(wanted)}, ...)")
        if problems:
            raise ProbeUnavailableError(
                f"cutlass {version or 'of an unknown version'} has {', '.join(problems)}, and its compiles are not "
                f"recorded; those of {', '.join(KNOWN_VERSIONS)} are")
        self._hooks = hooks = CompileHooks(sink)
        self.patches.hook(dsl, "generate_mlir", hooks.make_generate)
        self.patches.hook(backend, "compile", hooks.make_compile)
        self.patches.hook(backend, "_resolve_compile_cache", hooks.make_resolve)
        if version and numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("cutlass", version, ", ".join(KNOWN_VERSIONS)))

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
        super().unhook()


class CompileHooks:
    """Records every compile, and every load from the folder on disk, while enabled."""

    def __init__(self, sink: Sink) -> None:
        self.enabled = True
        self._sink = sink
        self._local = threading.local()

    def make_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``BaseDSL.generate_mlir``."""
        def generate_mlir(dsl: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(dsl, *args, **kwargs)
            outer = getattr(self._local, "seen", None)
            seen = self._settings(dsl)
            self._local.seen = seen
            failure: BaseException | None = None
            start = self._sink.clock()
            try:
                return original(dsl, *args, **kwargs)
            except BaseException as error:
                failure = error
                raise
            finally:
                self._local.seen = outer
                try:
                    end = self._sink.clock()
                    is_run = failure is not None and "end_ns" in seen and not seen["failed"]
                    if "end_ns" in seen or failure is not None:  # else the code was in memory
                        given = inspect.signature(original).bind(dsl, *args, **kwargs).arguments
                        self._write(given, None if is_run else failure, start, seen.get("end_ns", end), seen)
                except Exception as problem:
                    if from_signal_handler(problem):
                        raise
                    self._sink.swallow(FRAMEWORK, problem)

        return generate_mlir

    def _read(self, owner: Any, name: str) -> Any:
        """The attribute of an object, or None."""
        try:
            return getattr(owner, name, None)
        except Exception as problem:
            self._sink.guard(FRAMEWORK, problem)
            return None

    def _settings(self, dsl: Any) -> dict[str, Any]:
        """The target and the options of a compile, before it begins: it may change them."""
        try:
            return {"target": _target(dsl), "options": options_of(dsl)}
        except Exception as problem:
            self._sink.guard(FRAMEWORK, problem)
            return {"target": None, "options": {}}

    def make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the back end's ``compile``."""
        def compile_(backend: Any, ctx: Any) -> Any:
            seen = getattr(self._local, "seen", None)
            if seen is None or not self.enabled:
                return original(backend, ctx)
            seen["failed"] = True
            seen["compile_ns"] = self._sink.clock()
            seen["key"] = self._read(ctx, "module_hash")
            try:
                found = original(backend, ctx)
                seen["failed"] = False
                return found
            finally:
                seen["end_ns"] = self._sink.clock()

        return compile_

    def make_resolve(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the look into the folder on disk."""
        def resolve(backend: Any, ctx: Any) -> Any:
            state = original(backend, ctx)
            seen = getattr(self._local, "seen", None)
            if seen is not None:
                seen["is_hit"] = bool(self._read(state, "load_from_file_cache"))
            return state

        return resolve

    def _write(self, given: dict[str, Any], error: BaseException | None, start: int, end: int,
               seen: dict[str, Any]) -> None:
        held = {**held_of(given), "target": seen["target"], "options": seen["options"]}
        function = given["funcBody"]
        code: Any = getattr(inspect.unwrap(function), "__code__", None)
        name = str(getattr(function, "__name__", given["function_name"]))
        outcome = "failed" if error is not None else "disk" if seen.get("is_hit") else "compiled"
        arguments = ", ".join((*held["arguments"], *held["constants"]))
        key = (FRAMEWORK, name, getattr(code, "co_filename", None), getattr(code, "co_firstlineno", None))
        dispatcher = self._sink.dispatchers.intern(key, lambda: {
            "framework": FRAMEWORK, "name": name, "module": getattr(function, "__module__", None), "filename": key[2],
            "lineno": key[3], "arguments": arguments, "attributes": json.dumps({"owner": "user"})})
        row: dict[str, Any] = {
            "dispatcher_id": dispatcher, "thread_id": self._sink.state().thread_id, "trigger": "compile",
            "signature": signature_text(held), "start_ns": start, "end_ns": end, "outcome": outcome,
            "cache_key": seen.get("key"), "error": None if error is None else error_text(error)}
        if error is not None:
            row["attributes"] = json.dumps({"requested": held})
        else:
            text, digits = json.dumps(held), "".join(filter(str.isdigit, str(held["target"])))
            row["specialization_id"] = self._sink.specializations.intern((*key, text), lambda: {
                "dispatcher_id": dispatcher, "signature": row["signature"], "origin": outcome, "attributes": text,
                "compute_capability": f"{digits[:-1]}.{digits[-1]}" if digits else None})
        middle = seen.get("compile_ns", end)
        self._sink.add_compile(row, [
            {"kind": "phase", "name": each, "start_ns": since, "duration_ns": until - since}
            for each, since, until in (("trace", start, middle), ("compile", middle, end)) if until > since])


def held_of(given: dict[str, Any]) -> dict[str, Any]:
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
            constants[name] = _text(value)
        else:
            arguments[name] = {"type": _type(value, annotation)}
    code = getattr(inspect.unwrap(given["funcBody"]), "__code__", None)
    return {"arguments": arguments, "constants": constants, "code": None if code is None else _hash(code)}


def options_of(dsl: Any) -> dict[str, str]:
    """Return the compiler's options by name that are not as they come."""
    found = getattr(getattr(dsl, "compile_options", None), "options", {})
    return {kind.__name__: _text(option.value) for kind, option in found.items()
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


def _text(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST - 1] + "…"


def _hash(code: CodeType) -> str:
    nested = [_hash(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return hashlib.sha256(repr((code.co_code, code.co_names, nested)).encode()).hexdigest()[:16]
