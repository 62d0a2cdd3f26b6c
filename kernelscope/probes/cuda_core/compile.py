"""The hook on ``cuda.core.Program.compile``: compiles of C++, PTX and NVVM IR that a program asks cuda.core for.

`Program` is a compiled type without hooks. What its method compiles with is a function of its module, made to be
replaced: ``cuda.core._program._program_compile_uncached``. What ``compile(cache=...)`` finds in its cache does not come
there, and neither does a `Linker` that is called by itself.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Patches, error_text, hide_frame
from kernelscope.probes.cuda_core.launch import FRAMEWORK
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.sink import Sink

MODULE, FUNCTION = "cuda.core._program", "_program_compile_uncached"
_PARAMETERS = ["program", "target_type", "name_expressions", "logs"]
#: Packages that call it inside of compiles that their own probes record.
_RECORDED = ("numba", "numba_cuda_mlir")
#: Options that are paths of this machine, or say only what the result is called.
_LEFT_OUT = ("name", "include_path", "pre_include", "pch_dir", "use_pch", "create_pch", "time")
#: What a cubin has for each of its kernels, and PTX at the head of each.
_IN_CUBIN, _IN_PTX = re.compile(rb"\.nv\.constant0\.([\w$]+)\x00"), re.compile(rb"\.entry\s+([\w$]+)")


class CompileHook:
    """Records every compile of a `Program` while enabled.

    Parameters
    ----------
    sink : Sink
        Where rows go.

    Attributes
    ----------
    compiled : dict of str to (int, set of int)
        By the mangled name of a kernel its dispatcher, and the specializations that were compiled of it.
    """

    def __init__(self, sink: Sink) -> None:
        self.compiled: dict[str, tuple[int, set[int]]] = {}
        self._enabled = False
        self._sink = sink

    def install(self, patches: Patches) -> str | None:
        """Put the hook in; return what is in its way, or None."""
        module = sys.modules.get(MODULE)
        function = None if module is None else vars(module).get(FUNCTION)
        try:
            found = [] if function is None else [*inspect.signature(function).parameters]
        except (TypeError, ValueError):
            found = []
        if found != _PARAMETERS:
            return f"there is no function {MODULE}.{FUNCTION}({', '.join(_PARAMETERS)})"
        self._enabled = True
        patches.hook(module, FUNCTION, self._make)
        return None

    def end(self) -> None:
        """Record nothing any more, whoever still holds the hook."""
        self._enabled = False

    def _make(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _program_compile_uncached(program: Any, target_type: Any, name_expressions: Any, logs: Any) -> Any:
            if not self._enabled or str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] in _RECORDED:
                return original(program, target_type, name_expressions, logs)
            failure: str | None = None  # its text alone: the exception would hold this frame, and the program with it
            made = None
            start = self._sink.clock()
            try:
                made = original(program, target_type, name_expressions, logs)
            except BaseException as error:
                failure = error_text(error)
                hide_frame(error)
                raise
            finally:
                end = self._sink.clock()
                try:
                    self._write(program, str(target_type), name_expressions, made, failure, start, end)
                except Exception as problem:
                    if from_signal_handler(problem):
                        raise
                    self._sink.swallow(FRAMEWORK, problem)
            return made

        return _program_compile_uncached

    def _write(self, program: Any, target: str, expressions: Any, made: Any, error: str | None, start: int,
               end: int) -> None:
        """Write a row for each kernel of what was compiled, of which the first has the time."""
        name, options = _options(program)
        code = b"" if made is None else bytes(made.code)
        entries = kernels(code, target) or [str(each) for each in expressions] or [name]
        held = {"options": {**options, "target_type": target}, "target": options.get("arch"), "generated": True,
                "code": hashlib.sha256(code).hexdigest()[:16]}
        backend = str(getattr(program, "backend", "") or "compiler").lower()
        for at, entry in enumerate(entries):
            called, _, types = readable(entry).partition("(")
            dispatcher = self._dispatcher(entry, called)
            row: dict[str, Any] = {
                "dispatcher_id": dispatcher, "thread_id": self._sink.state().thread_id, "trigger": "compile",
                "signature": f"({types}" if types else "()", "start_ns": start, "end_ns": end if at == 0 else start,
                "outcome": "compiled" if error is None else "failed",
                "error": error}
            attributes: dict[str, Any] = {"in_one_module": len(entries)} if len(entries) > 1 else {}
            if error is None:
                row["specialization_id"] = self._specialization(dispatcher, entry, row["signature"], held)
            else:
                attributes["requested"] = held
            row["attributes"] = json.dumps(attributes) if attributes else None
            phase = {"kind": "phase", "name": backend, "start_ns": start, "duration_ns": end - start}
            self._sink.add_compile(row, [phase] if at == 0 else [])

    def _dispatcher(self, entry: str, name: str) -> int:
        if entry not in self.compiled:
            self.compiled[entry] = self._sink.dispatchers.intern((FRAMEWORK, "compiled", entry), lambda: {
                "framework": FRAMEWORK, "name": name}), set()
        return self.compiled[entry][0]

    def _specialization(self, dispatcher: int, entry: str, signature: str, held: dict[str, Any]) -> int:
        text = json.dumps(held)
        digits = str(held["target"] or "").removeprefix("sm_").rstrip("af")
        number = self._sink.specializations.intern((FRAMEWORK, "compiled", entry, text), lambda: {
            "dispatcher_id": dispatcher, "signature": signature, "origin": "compiled", "entry_name": entry,
            "compute_capability": f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() else None, "attributes": text})
        self.compiled[entry][1].add(number)
        return number


def kernels(code: bytes, target: str) -> list[str]:
    """Return the mangled names of the kernels in a cubin or in PTX, in its order; none for LTO-IR."""
    pattern = {"cubin": _IN_CUBIN, "ptx": _IN_PTX}.get(target.lower())
    return [] if pattern is None else list(dict.fromkeys(name.decode() for name in pattern.findall(code)))


def _options(program: Any) -> tuple[str, dict[str, Any]]:
    """Return a program's name, and its options that were given or chosen, by name; lists are texts.

    It keeps its options to itself: they are looked for among the objects that it refers to.
    """
    held = next((each for each in gc.get_referents(program) if type(each).__name__ == "ProgramOptions"), None)
    if held is None:
        return "program", {}
    values = {field.name: getattr(held, field.name, None) for field in dataclasses.fields(held)}
    plain = {name: value if isinstance(value, bool | int | str) else str(value) for name, value in values.items()
             if value is not None and name not in _LEFT_OUT}
    return str(values.get("name") or "program"), plain
