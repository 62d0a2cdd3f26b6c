"""What probes of frameworks have in common that compile in Python, and whose launches CUPTI reports.

`CompileProbe` checks the version and undoes the hooks; `CompileRows` writes the rows of a compile, and `CompileHooks`
times the function that compiles, with the phases inside it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Probe, error_text, numbers_of, untried
from kernelscope.probes.sink import Sink

#: Texts of values are cut here.
MAX_TEXT = 100


class CompileProbe(Probe):
    """Hooks the compiles of a framework; none of its hooks is on the path of a launch."""

    #: The versions that the hooks were tried with: their first numbers.
    versions: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self._hooks: CompileRows | None = None

    @property
    def is_hooked(self) -> bool:
        """Nothing is on the path of a launch. See `Probe.is_hooked`."""
        return False

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
        super().unhook()

    def report_version(self, sink: Sink, package: str, version: str) -> None:
        """Report a version that the hooks were not tried with."""
        tried = [numbers_of(known) for known in self.versions]
        if version and numbers_of(version)[:len(tried[0])] not in tried:
            self.report(sink, untried(package, version, ", ".join(self.versions)))

    def other_version(self, package: str, version: str, what: str) -> str:
        """Return why the compiles of a version cannot be recorded: it has, or lacks, `what`."""
        return (f"{package} {version or 'of an unknown version'} has {what}, and its compiles are not recorded; those "
                f"of {', '.join(self.versions)} are")


class CompileRows:
    """Writes the rows of compiles while enabled.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    """

    framework: ClassVar[str]

    def __init__(self, sink: Sink) -> None:
        self.enabled = True
        self._sink = sink
        self._local = threading.local()

    def swallow(self, problem: Exception) -> None:
        """Count an exception of ours; raise what a signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(self.framework, problem)

    def add(self, dispatcher: tuple[Any, ...], columns: dict[str, Any], key: dict[str, Any], signature: str, start: int,
            end: int, outcome: str, error: BaseException | None, phases: list[dict[str, Any]], *,
            target: str | None = None, entry_name: str | None = None, has_key: bool = True, **row: Any) -> None:
        """Write a compile, with its kernel and its specialization.

        Parameters
        ----------
        dispatcher : tuple
            What tells the kernel from others of the framework.
        columns : dict
            Columns of ``dispatchers``.
        key : dict
            What decided about the code: JSON values, of which reasons are made.
        signature : str
            The arguments as text.
        start, end : int
            When it began and ended, in ns.
        outcome : str
            compiled, disk or failed.
        error : BaseException or None
            What it raised: there is no specialization then, and the row has the key as what was requested.
        phases : list of dict
            Rows of ``passes``.
        target : str, optional
            The GPU that it was compiled for, such as sm_90.
        entry_name : str, optional
            The kernel's name in the machine code.
        has_key : bool
            False where the key is not known: the row has no specialization.
        row : dict
            Other columns of ``compilations``.
        """
        whole = (self.framework, *dispatcher)
        number = self._sink.dispatchers.intern(whole, lambda: {"framework": self.framework, **columns})
        attributes: dict[str, Any] = row.pop("attributes", {})
        row |= {"dispatcher_id": number, "thread_id": self._sink.state().thread_id, "trigger": "compile",
                "signature": signature, "start_ns": start, "end_ns": end, "outcome": outcome,
                "error": None if error is None else error_text(error)}
        if error is not None:
            attributes = {**attributes, "requested": key}
        elif has_key:
            text = json.dumps(key)
            row["specialization_id"] = self._sink.specializations.intern((*whole, entry_name, text), lambda: {
                "dispatcher_id": number, "signature": signature, "origin": outcome, "attributes": text,
                **({} if entry_name is None else {"entry_name": entry_name}),
                "compute_capability": capability(target)})
        row["attributes"] = json.dumps(attributes) if attributes else None
        self._sink.add_compile(row, phases)


class CompileHooks(CompileRows, ABC):
    """Times a function that compiles, and writes its rows; a subclass says what decides about the code."""

    @property
    def compile(self) -> dict[str, Any] | None:
        """What is noted of the compile that is under way on this thread; None outside of one."""
        return getattr(self._local, "compile", None)

    def begin(self, *args: Any) -> dict[str, Any]:
        """Return what is noted of a compile before it begins, from its arguments."""
        return {}

    @abstractmethod
    def write(self, bind: Callable[[], dict[str, Any]], result: Any, error: BaseException | None, start: int, end: int,
              notes: dict[str, Any]) -> None:
        """Write the rows of a compile that has ended.

        Parameters
        ----------
        bind : callable
            Returns the function's arguments by name.
        result : Any
            What the function returned; None where it raised.
        error : BaseException or None
            What it raised.
        start, end : int
            When it began and ended, in ns.
        notes : dict
            What `begin` and the hooks inside it noted; ``phases`` are those of `make_phase`.
        """

    def make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of a function that compiles."""
        def compile_(*args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(*args, **kwargs)
            outer = self.compile
            notes: dict[str, Any] = {"phases": [], **self.begin(*args)}
            self._local.compile = notes
            result: Any = None
            failure: BaseException | None = None
            start = self._sink.clock()
            try:
                result = original(*args, **kwargs)
                return result
            except BaseException as error:
                failure = error
                raise
            finally:
                end = self._sink.clock()
                self._local.compile = outer
                try:
                    self.write(lambda: inspect.signature(original).bind(*args, **kwargs).arguments, result, failure,
                               start, end, notes)
                except Exception as problem:
                    self.swallow(problem)

        return compile_

    def make_phase(self, original: Callable[..., Any], name: str, *,
                   counts: Callable[..., bool] = lambda *args: True) -> Callable[..., Any]:
        """Return what is called in the place of a function that is a phase of a compile.

        Parameters
        ----------
        original : callable
            The function.
        name : str
            The phase.
        counts : callable, optional
            Called with its arguments: whether this call is one.
        """
        def phase(*args: Any, **kwargs: Any) -> Any:
            notes = self.compile
            if notes is None or not self.enabled or not counts(*args):
                return original(*args, **kwargs)
            start = self._sink.clock()
            try:
                return original(*args, **kwargs)
            finally:
                notes["phases"].append({"kind": "phase", "name": name, "start_ns": start,
                                        "duration_ns": self._sink.clock() - start})

        return phase


def capability(target: str | None) -> str | None:
    """Return the compute capability of a target such as sm_90 or sm_103a; None of another one, such as cpu."""
    digits = re.search(r"\d{2,}", target or "")
    return None if digits is None else f"{digits[0][:-1]}.{digits[0][-1]}"


def short_text(value: Any) -> str:
    """Return a value as one line, cut after `MAX_TEXT`."""
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT - 1] + "…"


def code_hash(code: CodeType) -> str:
    """Return a hash of a function's code and of what is defined inside it, which line numbers do not change."""
    constants = [code_hash(constant) if isinstance(constant, CodeType) else repr(constant)
                 for constant in code.co_consts]
    return hashlib.sha256(repr((code.co_code, code.co_names, constants)).encode()).hexdigest()[:16]
