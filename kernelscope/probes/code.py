"""Kernels' code as rows of the table ``code``: what ran, read when recording stops; nothing is compiled for it."""

from __future__ import annotations

import base64
import inspect
import json
import linecache
import os
import time
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from kernelscope.errors import DisassemblerError
from kernelscope.probes.functions import code_sha256, functions_of
from kernelscope.probes.sink import Sink
from kernelscope.units import listed

#: Seconds that disassembling may hold a stop in all; from the machine code it can be done whenever SASS is shown.
SASS_BUDGET_S = 5.0

_WORKERS = 4
_MOST_NAMES = 8


class CodeCapture:
    """Adds the rows of each function and each specialization once; a framework's own says what these are.

    Parameters
    ----------
    sink : Sink
        Where the rows go.
    """

    #: The name that health states what could not be captured under.
    framework: str

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._done: set[int] = set()
        self._sources: set[int] = set()
        self._functions: dict[str, frozenset[tuple[str, int, str]]] = {}
        self._problems: dict[str, list[str]] = {}

    @property
    def _stated_as(self) -> str:
        """Under which `Sink.stated` holds what could not be captured."""
        return f"{self.framework} code"

    def forget_problems(self) -> None:
        """Take what could not be captured out of health: it was of another recording, which ended earlier."""
        self._sink.stated.pop(self._stated_as, None)

    def capture(self, specializations: Iterable[int], *, sass: bool = True) -> None:
        """Add the code of these specializations and of their functions; what fails is said in ``health``."""
        try:
            cubins: list[tuple[int, int, bytes]] = []
            for number in specializations:
                row = self._sink.specializations.rows[number]
                if number in self._done or not self._is_own(number):
                    continue
                self._done.add(number)
                owner: int = row["dispatcher_id"]
                code = self._read(owner, number, self._sink.dispatchers.rows[owner]["name"],
                                  self._sink.specializations.objects[number])
                if code is not None:
                    cubins.append((owner, number, code))
            if sass:
                self._add_sass(cubins)
        except BaseException:
            self._failed("it was interrupted while it was read", "the rest")
            raise
        finally:
            self._state()

    def _is_own(self, number: int) -> bool:
        """Whether a specialization is the framework's."""
        raise NotImplementedError

    def _read(self, owner: int, number: int, name: str, live: Any) -> bytes | None:
        """Add all but SASS of a specialization; return its machine code, if that can be had."""
        raise NotImplementedError

    def _add(self, owner: int, number: int | None, kind: str, text: str, lineno: int | None = None,
             **attributes: Any) -> None:
        self._sink.code.append({"dispatcher_id": owner, "specialization_id": number, "kind": kind, "text": text,
                                "lineno": lineno, "attributes": json.dumps(attributes) if attributes else None})

    def _add_cubin(self, owner: int, number: int, code: bytes) -> None:
        self._add(owner, number, "cubin", base64.b64encode(code).decode("ascii"))

    def _failed(self, what: str, name: str) -> None:
        names = self._problems.setdefault(what, [])
        if name not in names:
            names.append(name)

    def _add_source(self, owner: int, name: str, function: Any, called: Iterable[Any] = ()) -> None:
        """Add the source of a kernel function, and of those that it calls as far as that can be found."""
        if owner in self._sources:
            return
        self._sources.add(owner)
        found = self._text_of(function.__code__)
        if isinstance(found, str):
            self._failed(found, name)
            return
        # As line information names the file, so that lines of other files can be told from this one's.
        self._add(owner, None, "source", found["text"], found["lineno"], file=found["file"])
        others = [{"name": each.__name__, **source} for each in called
                  if isinstance(source := self._text_of(each.__code__), dict)]
        if others:
            self._add(owner, None, "functions", json.dumps(others))

    def _text_of(self, code: CodeType) -> dict[str, Any] | str:
        """Return the text of a function with its place, or why there is none."""
        try:
            # Of its code, not of what it may wrap: that is what was compiled.
            lines, first = inspect.getsourcelines(code)
        except Exception:  # made by exec(), typed at a plain prompt, or its file is gone
            return "source is not to be found"
        if not self._is_unchanged(code):
            return "source has changed since it was imported"
        return {"file": os.path.abspath(code.co_filename), "lineno": first, "text": "".join(lines)}

    def _is_unchanged(self, code: CodeType) -> bool:
        """Whether the text that its source is taken from still makes the function's code."""
        file = code.co_filename
        if file not in self._functions:
            self._functions[file] = functions_of("".join(linecache.getlines(file)), code)
        return (code.co_name, code.co_firstlineno, code_sha256(code)) in self._functions[file]

    def _tried(self, what: str, name: str, read: Callable[[], Any]) -> Any:
        """Return what `read` does; None where it fails, which health says."""
        try:
            return read()
        except Exception as problem:
            self._failed(f"{what} cannot be read ({type(problem).__name__}: {problem})", name)
            return None

    def _add_sass(self, cubins: Sequence[tuple[int, int, bytes]]) -> None:
        """Disassemble as many as the time allows, several at once; without nvdisasm none."""
        from concurrent.futures import ThreadPoolExecutor

        from kernelscope import cubin

        if not cubins or cubin.find() is None:
            return
        until = time.monotonic() + SASS_BUDGET_S

        def disassembled(code: bytes) -> str | DisassemblerError | None:
            left = until - time.monotonic()
            try:
                return cubin.disassemble(code, timeout_s=left) if left > 0 else None
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
        message = "; ".join(f"{what}: {listed(names, _MOST_NAMES)}" for what, names in self._problems.items())
        self._sink.stated[self._stated_as] = {
            "probe": self.framework, "status": "degraded",
            "message": f"the code of some kernels is incomplete: {message}"}
