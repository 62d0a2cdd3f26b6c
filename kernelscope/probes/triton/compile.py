"""Hooks on Triton's compiles: outcome, stages, files in its disk cache, and what tells their cause."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Patches, error_text
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.kernels import (
    FRAMEWORK,
    KernelRows,
    definition,
    facts,
    signature_text,
    value_text,
    values,
)

# ``triton.compile`` is what every kernel function, autotuner, warm-up and ahead-of-time build asks for a compiled
# kernel that it does not have in memory; it is hooked for its times and failures. Triton tells its listener of stages
# and of hits of the disk cache. The listener is a single slot: what was there is called first, and put back.
#
# Types and options of a compile are in what it is given and returns. Values (an integer's, a pointer's alignment) are
# not: they are in the frame of ``JITFunction.run``, which is looked at here and nowhere else.

#: So many frames around a compile are looked at for ``JITFunction.run``.
_MOST_FRAMES = 24
_LISTENER = "listener"


class Compile:
    """A compile under way in one thread: when it began, and what the listener was told of it."""

    __slots__ = ("cache_hit", "group", "start", "times", "wall")

    def __init__(self, start: int) -> None:
        self.start = start
        self.wall = time.time()
        self.cache_hit: bool | None = None
        self.times: Any = None
        self.group: dict[str, str] = {}


class CompileHooks:
    """Records every compile and every load from the disk cache while installed.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    rows : KernelRows
        Makes the rows of kernels and specializations.
    run_code : CodeType
        The code of Triton's own ``JITFunction.run``.
    knobs : module
        ``triton.knobs``.
    """

    def __init__(self, sink: Sink, rows: KernelRows, run_code: CodeType, knobs: Any) -> None:
        self._sink = sink
        self._rows = rows
        self._run_code = run_code
        self._knobs = knobs.compilation
        self.enabled = True
        self._before: Any = None
        self._was_set = False
        self._listener: Any = None
        self._is_unheard = False
        #: What ``run`` itself adds to the options of a launch.
        self._added = frozenset(each for each in run_code.co_consts if isinstance(each, str))

    def install(self, patches: Patches, compiler: Any) -> None:
        """Put the hook and the listener in: `compiler` is the module ``triton.compiler.compiler``."""
        patches.hook(compiler, "compile", self._make_compile)
        self._was_set = _LISTENER in vars(self._knobs)
        before = self._before = self._knobs.listener

        def listener(*args: Any, **kwargs: Any) -> None:
            if before is not None:
                before(*args, **kwargs)
            if self.enabled:
                self._told(kwargs)

        self._knobs.listener = self._listener = listener

    def uninstall(self) -> None:
        """Take the listener back, unless another one has taken its place; a later one may still call it."""
        self.enabled = False
        if self._listener is not None and vars(self._knobs).get(_LISTENER) is self._listener:
            if self._was_set:
                self._knobs.listener = self._before
            else:
                del self._knobs.listener

    def _told(self, told: dict[str, Any]) -> None:
        try:
            under_way = self._sink.state().compilation
            if isinstance(under_way, Compile):
                under_way.cache_hit = bool(told.get("cache_hit"))
                under_way.times = told.get("times")
                under_way.group = dict(told.get("metadata_group") or {})
        except Exception as problem:
            self._guard(problem)

    def _make_compile(self, original: Any) -> Callable[..., Any]:
        def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(src, *args, **kwargs)
            state = self._sink.state()
            outer = state.compilation
            under_way = state.compilation = Compile(self._sink.clock())
            self._begin(src)
            try:
                kernel = original(src, *args, **kwargs)
            except BaseException as error:
                state.compilation = outer
                self._end(under_way, src, args, kwargs, None, error)
                raise
            state.compilation = outer
            self._end(under_way, src, args, kwargs, kernel, None)
            return kernel

        return compile

    def _begin(self, src: Any) -> None:
        try:
            function = getattr(src, "fn", None)
            if function is not None:
                self._rows.note_known(function)
        except Exception as problem:
            self._guard(problem)

    def _end(self, under_way: Compile, src: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kernel: Any,
             error: BaseException | None) -> None:
        """Write the compile that has ended."""
        end = self._sink.clock()
        try:
            self._write(under_way, src, args, kwargs, kernel, error, end)
        except Exception as problem:
            self._guard(problem)

    def _write(self, under_way: Compile, src: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kernel: Any,
               error: BaseException | None, end: int) -> None:
        if kernel is not None:
            src = kernel.src
            held = facts(src, kernel.metadata._asdict())
        elif isinstance(src, str):
            held = {"types": {}, "constexprs": {}, "equal_to_1": [], "divisible_by_16": []}
        else:
            options = kwargs.get("options", args[1] if len(args) > 1 else None)
            held = facts(src, {**(options or {}), "target": kwargs.get("target", args[0] if args else None)})
        function = getattr(src, "fn", None)
        outcome = "failed" if error is not None else self._outcome(under_way, kernel)
        name = os.path.basename(src) if isinstance(src, str) else src.name
        specialization = None if kernel is None else self._rows.specialization(function, kernel, outcome)
        attributes: dict[str, Any] = {} if kernel is not None else {"requested": held}
        frame = self._frame(function)
        if frame is not None and isinstance(frame.get("bound_args"), dict):
            attributes |= values(frame["bound_args"], held)
            given = {name: value_text(value) for name, value in frame.get("kwargs", {}).items()
                     if name not in frame["bound_args"] and name not in self._added}
            attributes |= {"given": given} if given else {}
        if function is not None and error is None:
            attributes["definition"], before = definition(function)
            if before is not None:
                attributes["previous"] = before
        if self._knobs.always_compile:
            attributes["always_compile"] = True
        group = under_way.group or dict(getattr(kernel, "metadata_group", {}))
        files = {path.rpartition(".")[2]: path for path in group.values()}
        by_launch = frame is not None and not frame.get("warmup")
        dispatcher = self._rows.dispatcher_of_file(name) if function is None else self._rows.dispatcher(function)
        self._sink.add_compile({
            "dispatcher_id": dispatcher,
            "specialization_id": specialization, "thread_id": self._sink.state().thread_id,
            "trigger": "launch" if by_launch else "compile", "signature": signature_text(src, held),
            "start_ns": under_way.start, "end_ns": end, "outcome": outcome,
            "error": None if error is None else _error_text(error), "cache_file": files.get("json"),
            "cache_data_file": files.get("cubin"), "cache_key": None if kernel is None else str(kernel.hash),
            "attributes": json.dumps(attributes),
        }, _phases(under_way))

    def _outcome(self, under_way: Compile, kernel: Any) -> str:
        """``compiled`` or ``disk``: as the listener was told, else by the age of the file in the cache."""
        if under_way.cache_hit is None:
            if not self._is_unheard:
                self._is_unheard = True
                self._sink.health.append({
                    "probe": FRAMEWORK, "status": "degraded",
                    "message": "another listener has taken the place of KernelScope's in "
                               "triton.knobs.compilation.listener: stages of compiles are not recorded",
                    "fix": "set the listener before the recording begins, or call the one that was there from it"})
            files = [path for path in getattr(kernel, "metadata_group", {}).values() if path.endswith(".json")]
            return "disk" if files and os.stat(files[0]).st_mtime < under_way.wall else "compiled"
        return "disk" if under_way.cache_hit else "compiled"

    def _frame(self, function: Any) -> dict[str, Any] | None:
        """The local variables of the ``JITFunction.run`` that this thread compiles `function` for; None without one."""
        frame = sys._getframe(1)
        for _ in range(_MOST_FRAMES):
            if frame is None:
                return None
            if frame.f_code is self._run_code and frame.f_locals.get("self") is function:
                return dict(frame.f_locals)
            frame = frame.f_back
        return None

    def _guard(self, problem: Exception) -> None:
        """Swallow what is our own; raise what the user's signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(FRAMEWORK, problem)


def _error_text(error: BaseException) -> str:
    """Return what is wrong: the text of Triton's errors begins with the place, and has it below the source."""
    told = getattr(error, "error_message", None)
    if not isinstance(told, str) or not told.strip():
        return error_text(error)
    line = getattr(getattr(error, "node", None), "lineno", None)
    place = "" if line is None else f" (line {line})"
    return f"{type(error).__name__}: {told.strip().splitlines()[0][:300]}{place}"


def _phases(under_way: Compile) -> Iterator[dict[str, Any]]:
    """The stages one after the other, as Triton measures them; none of a load from the disk cache."""
    times = under_way.times
    if times is None or under_way.cache_hit:
        return
    start = under_way.start
    for name, microseconds in (("ir_initialization", times.ir_initialization), *times.lowering_stages,
                               ("store_results", times.store_results)):
        duration = int(microseconds) * 1000
        yield {"kind": "phase", "name": str(name), "start_ns": start, "duration_ns": duration}
        start += duration
