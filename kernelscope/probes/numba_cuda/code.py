"""The code of numba-cuda's kernels as rows of the table ``code``: what ran, read from its caches.

Nothing is compiled for it: PTX and machine code are those of the compute capability that ran, types and LLVM those of
that compile. What is not there is left out; a kernel loaded from the disk cache has no types, for the cache keeps none.
"""

from __future__ import annotations

import base64
import inspect
import json
import linecache
import os
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

from kernelscope import nvdisasm
from kernelscope.errors import DisassemblerError
from kernelscope.probes.functions import code_sha256, functions_of
from kernelscope.probes.numba_cuda.facts import FRAMEWORK, Facts
from kernelscope.probes.sink import Sink

#: Under which `Sink.stated` holds what could not be captured.
STATED = f"{FRAMEWORK} code"
#: Seconds that disassembling may hold a stop in all; from the machine code it can be done whenever SASS is shown.
SASS_BUDGET_S = 5.0

_WORKERS = 4
_MOST_NAMES = 8
#: Constants such as arrays can be printed at any length.
_LONGEST_EXPRESSION = 300
# What says where this process keeps an object or a module, and nothing about the code.
_PLACES = re.compile(r" at 0x[0-9a-f]+| from '[^']*'")
# What numba prints of a call once more, behind its arguments.
_CALL_DETAILS = re.compile(r"(?:, |(?<=\())func=[^\s,]+, args=.*\)$", re.DOTALL)


class CodeCapture:
    """Adds the rows of each function and each specialization once.

    Parameters
    ----------
    sink : Sink
        Where the rows go.
    facts : Facts
        Knows the live objects behind the rows.
    """

    #: The name that what could not be captured is told under.
    framework = FRAMEWORK

    def __init__(self, sink: Sink, facts: Facts) -> None:
        self._sink = sink
        self._facts = facts
        self._done: set[int] = set()
        self._sources: set[int] = set()
        self._functions: dict[str, frozenset[tuple[str, int, str]]] = {}
        self._problems: dict[str, list[str]] = {}

    def capture(self, specializations: Iterable[int], *, sass: bool = True) -> None:
        """Add the code of these specializations and of their functions; what fails is said in ``health``."""
        try:
            cubins = self._read(specializations)
            if sass:
                self._add_sass(cubins)
        except BaseException:
            self._failed("it was interrupted while it was read", "the rest")
            raise
        finally:
            self._state()

    def _read(self, specializations: Iterable[int]) -> list[tuple[int, int, bytes]]:
        """Add all but SASS; return the machine code, with the ids of its function and its specialization."""
        cubins: list[tuple[int, int, bytes]] = []
        for number in specializations:
            live = self._sink.specializations.objects[number]
            row = self._sink.specializations.rows[number]
            if number in self._done or not isinstance(live, tuple) or not self._facts.is_own(row):
                continue
            self._done.add(number)
            dispatcher, kernel = live
            owner: int = row["dispatcher_id"]
            name: str = self._sink.dispatchers.rows[owner]["name"]
            self._add_source(owner, name, dispatcher.py_func)
            self._add_types(owner, number, name, kernel)
            self._add_llvm(owner, number, name, kernel)
            code = self._add_machine_code(owner, number, name, kernel)
            if code is not None:
                cubins.append((owner, number, code))
        return cubins

    def _add(self, owner: int, number: int | None, kind: str, text: str, lineno: int | None = None,
             **attributes: Any) -> None:
        self._sink.code.append({"dispatcher_id": owner, "specialization_id": number, "kind": kind, "text": text,
                                "lineno": lineno, "attributes": json.dumps(attributes) if attributes else None})

    def _failed(self, what: str, name: str) -> None:
        names = self._problems.setdefault(what, [])
        if name not in names:
            names.append(name)

    def _add_source(self, owner: int, name: str, function: Any) -> None:
        if owner in self._sources:
            return
        self._sources.add(owner)
        try:
            # Of its code, not of what it may wrap: that is what was compiled.
            lines, first = inspect.getsourcelines(function.__code__)
        except Exception:  # made by exec(), typed at a plain prompt, or its file is gone
            self._failed("source is not to be found", name)
            return
        if not self._is_unchanged(function.__code__):
            self._failed("source has changed since it was imported", name)
            return
        # As line information names the file, so that lines of other files can be told from this one's.
        self._add(owner, None, "source", "".join(lines), first, file=os.path.abspath(function.__code__.co_filename))

    def _is_unchanged(self, code: CodeType) -> bool:
        """Whether the text that its source is taken from still makes the function's code."""
        file = code.co_filename
        if file not in self._functions:
            self._functions[file] = functions_of("".join(linecache.getlines(file)), code)
        return (code.co_name, code.co_firstlineno, code_sha256(code)) in self._functions[file]

    def _add_types(self, owner: int, number: int, name: str, kernel: Any) -> None:
        annotation = getattr(kernel, "_type_annotation", None)
        if annotation is None:
            return
        try:
            self._add(owner, number, "types", json.dumps(inferred_types(annotation), ensure_ascii=False))
        except Exception as problem:
            self._failed(f"types cannot be read ({type(problem).__name__}: {problem})", name)

    def _add_llvm(self, owner: int, number: int, name: str, kernel: Any) -> None:
        try:
            self._add(owner, number, "llvm", kernel._codelibrary.get_llvm_str())
        except Exception as problem:
            self._failed(f"LLVM cannot be read ({type(problem).__name__}: {problem})", name)

    def _add_machine_code(self, owner: int, number: int, name: str, kernel: Any) -> bytes | None:
        try:
            library = kernel._codelibrary
            capability, code = self._facts.machine_code(kernel)
            texts = library._ptx_cache.get(capability)
            if texts:
                self._add(owner, number, "ptx", "\n\n".join(texts), **({"before_lto": True} if library._lto else {}))
            if code is not None:
                self._add(owner, number, "cubin", base64.b64encode(code).decode("ascii"))
        except Exception as problem:
            self._failed(f"machine code cannot be read ({type(problem).__name__}: {problem})", name)
            return None
        return code

    def _add_sass(self, cubins: Sequence[tuple[int, int, bytes]]) -> None:
        """Disassemble as many as the time allows, several at once; without nvdisasm none."""
        if not cubins or nvdisasm.find() is None:
            return
        until = time.monotonic() + SASS_BUDGET_S

        def disassembled(code: bytes) -> str | DisassemblerError | None:
            left = until - time.monotonic()
            try:
                return nvdisasm.disassemble(code, timeout_s=left) if left > 0 else None
            except DisassemblerError as problem:
                return problem if time.monotonic() < until else None

        pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="kernelscope-nvdisasm")
        try:
            # The smaller first: a big one would take the time of many.
            ordered = sorted(cubins, key=lambda each: len(each[2]))
            for (owner, number, _), sass in zip(ordered, pool.map(disassembled, [code for *_, code in ordered]),
                                                strict=True):
                if isinstance(sass, str):
                    self._add(owner, number, "sass", sass)
                else:
                    why = "to be made when it is shown, for disassembling all takes too long" if sass is None else sass
                    self._failed(f"SASS is missing ({why})", self._sink.dispatchers.rows[owner]["name"])
        finally:
            pool.shutdown(cancel_futures=True)

    def _state(self) -> None:
        if not self._problems:
            return
        message = "; ".join(f"{what}: {_listed(names)}" for what, names in self._problems.items())
        self._sink.stated[f"{self.framework} code"] = {
            "probe": self.framework, "status": "degraded",
            "message": f"the code of some kernels is incomplete: {message}"}


def inferred_types(annotation: Any) -> list[dict[str, Any]]:
    """Return numba's inferred types in order, as rows with ``line``, ``name``, ``type`` and ``expr``.

    What calls something, or stores into an array, has the chosen signature too, as ``call``. Of a function that was
    inlined from another file ``line`` is 0, and ``from`` says where it stands, as ``file.py:12``.

    Parameters
    ----------
    annotation : TypeAnnotation
        What numba keeps of a compile; it is walked as numba's own ``inspect_types`` does.
    """
    rows: list[dict[str, Any]] = []
    for label in sorted(annotation.blocks):
        for statement in annotation.blocks[label].body:
            value, target = getattr(statement, "value", None), getattr(statement, "target", None)
            if target is None or value is None:
                continue
            kind = type(statement).__name__
            if kind == "Assign":
                name, found = str(target), annotation.typemap.get(target.name)
                call = annotation.calltypes.get(value) if getattr(value, "op", None) == "call" else None
            elif kind in ("SetItem", "StaticSetItem"):
                name, call = f"{target}[{statement.index}]", annotation.calltypes.get(statement)
                found = annotation.typemap.get(getattr(value, "name", None))
            else:
                continue
            loc = statement.loc
            row = {"line": loc.line, "name": name, "type": _shown(found), "expr": _shown(value)}
            if loc.filename != annotation.filename:
                row |= {"line": 0, "from": f"{os.path.basename(loc.filename)}:{loc.line}"}
            rows.append(row if call is None else {**row, "call": _shown(call)})
    return rows


def _shown(value: Any) -> str:
    text = _CALL_DETAILS.sub(")", _PLACES.sub("", str(value)))
    return text if len(text) <= _LONGEST_EXPRESSION else f"{text[:_LONGEST_EXPRESSION]}…"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
