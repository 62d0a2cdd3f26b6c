"""A case as a timed loop, warmed up first."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import itertools
import linecache
import re
import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from . import machine
from . import machine as bench_machine

#: How many of the last batches must agree with as many before them, and within what share.
_WINDOW, _AGREE = 3, 0.03
_LIMIT_S = 2.0
#: A wait for the device that is a longer share of the host's time than this may be that of a full queue.
_SYNC_SHARE = 0.2
_FEW_LOOPS = 32


class Warm(NamedTuple):
    """What warming up found.

    Attributes
    ----------
    loops : int
        How many make a batch.
    warm_batches : int
        How many batches it took.
    stable : bool
        Whether the last ones agreed; else they still differed when the time was over.
    ns_per_loop : float
        The median of the last ones.
    sync_share : float
        How long the device was waited for after a batch of `loops`, as a share of the host's time.
    limited : str
        What made the loops fewer than the batch's time would: ``most_loops``, ``queue`` (the device had more to do than
        its queue holds, so the host would wait for it), or empty.
    """

    loops: int
    warm_batches: int
    stable: bool
    ns_per_loop: float
    sync_share: float
    limited: str


def warm_up(case: TimedCase, batch_ms: float) -> Warm:
    """Run batches until they agree, and find how many loops make `batch_ms` milliseconds.

    The batches are a quarter as long. It is over when the median of the last three is within 3 % of that of the three
    before, or after two seconds.
    """
    case.batch(1)  # compiles
    deadline = time.monotonic() + _LIMIT_S
    most = case.most_loops or 1_000_000_000
    short_ns = batch_ms * 1e6 / 4
    loops = 1
    host_ns = case.batch(loops)[0]
    while host_ns < short_ns / 2 and loops < most and time.monotonic() < deadline:
        # Not more than eightfold: the first loops are slower than those that follow.
        loops = min(most, loops * max(2, min(8, int(short_ns / max(host_ns, 1)))))
        host_ns = case.batch(loops)[0]
    took: list[float] = []
    stable = False
    while not stable and (len(took) < 2 * _WINDOW or time.monotonic() < deadline):
        took.append(case.batch(loops)[0] / loops)
        stable = len(took) >= 2 * _WINDOW and _agree(took[-_WINDOW:], took[-2 * _WINDOW:-_WINDOW])
    ns_per_loop = statistics.median(took[-_WINDOW:])
    wanted = max(1, round(batch_ms * 1e6 / max(ns_per_loop, 1.0)))
    found, sync_share = _without_a_full_queue(case, min(wanted, most))
    limited = "queue" if found < min(wanted, most) else "most_loops" if most < wanted else ""
    return Warm(found, len(took), stable, ns_per_loop, sync_share, limited)


def _agree(one: list[float], other: list[float]) -> bool:
    first, second = statistics.median(one), statistics.median(other)
    return abs(first - second) <= _AGREE * max(first, second)


def _without_a_full_queue(case: TimedCase, loops: int) -> tuple[int, float]:
    """Return as many loops as the device's queue takes without making the host wait, and the share of the wait.

    The queue holds about a thousand launches. Where the device is slower than the host it fills, and from then on a
    launch takes the host as long as the device: that shows as a launch that is dearer in many loops than in few.
    """
    host_ns, sync_ns, *_ = case.batch(loops)
    share = sync_ns / max(host_ns, 1)
    if share <= _SYNC_SHARE or loops <= _FEW_LOOPS:
        return loops, share
    few = statistics.median(case.batch(_FEW_LOOPS)[0] / _FEW_LOOPS for _ in range(5))
    while loops > _FEW_LOOPS and host_ns / loops > 1.15 * few:
        loops = max(_FEW_LOOPS, loops // 2)
        host_ns, sync_ns, *_ = case.batch(loops)
    return loops, sync_ns / max(host_ns, 1)


# A case as a timed loop.
#
# The statement is compiled as timeit does it, into a function with the loop, and the names that it uses are the
# function's own parameters: they cost what local names cost, and what `before` binds is there as well.
#
# What is in every measurement: 4 ns a loop and 1 to 2 for each name, or 20 ns for a function in the place of a
# statement (CPython 3.11). Beyond the timed loops a batch takes 0.08 ms, the request and its answer included.

#: CPython 3.12 starts with 375 objects frozen, other versions with none: nobody has asked for those.
FROZEN_BY_PYTHON = 1_000

_LOOP = """\
def __kernelscope_batch__(__kernelscope_rounds__, __kernelscope_clock__):
    __kernelscope_start__ = __kernelscope_clock__()
    for __kernelscope_round__ in __kernelscope_rounds__:
        pass
    return __kernelscope_clock__() - __kernelscope_start__
"""
_LONGEST_ERROR = 500
# Bound before a target's code runs, which may put another one in its place.
_now = time.perf_counter_ns
#: More than two readings of the time that was waited take, even with cold caches.
_READING_NS = 300_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Unavailable(Exception):
    """A case cannot be had in this target; the text says why."""


class CaseError(Exception):
    """A case's text raised; the message is one line that says where, and the cause is what was raised."""


class Batch(NamedTuple):
    """What a batch took.

    Attributes
    ----------
    host_ns : int
        The host's time of all loops together: the time that passed, without `waited_ns`.
    sync_ns : int
        That of the wait for the device afterwards. If the case has a text for after the loops, the wait comes after
        that: a stream that captures cannot be waited for.
    waited_ns : int
        How long, during the loops, the thread could have run and another process had the processor. On a busy machine
        this is most of the noise: batches that took 7 to 17 us a launch had 7.3 to 7.9 us without it. A wait for
        something else than the processor, such as a lock or the device, is part of `host_ns`; and so is, where this
        process has other threads that are at work, such as the driver's, as much as they may have had the processor.
    reference_ns : int
        How long the loop of `quiet` took: the longer time of the one directly before the loops and the one after the
        wait.
    """

    host_ns: int
    sync_ns: int
    waited_ns: int
    reference_ns: int


class TimedCase:
    """A case that can be set up and timed in this process.

    Parameters
    ----------
    fields : dict
        The fields of `Case`, without those that have their default.
    names : dict
        What the case's texts can use: ``cuda``, ``np``, and so on. ``Unavailable`` is added.
    synchronize : callable
        Waits for the device.
    function : callable or None
        What to time in the place of the statement.

    Raises
    ------
    Unavailable
        If a module is missing that the case needs.
    CaseError
        If its statement is no Python.
    """

    def __init__(self, fields: dict[str, Any], names: dict[str, Any], synchronize: Callable[[], object],
                 function: Callable[[], Any] | None = None) -> None:
        self.name = str(fields["name"])
        self.most_loops: int | None = fields.get("most_loops")
        self.names: dict[str, Any] = {"__name__": "__kernelscope_case__", "Unavailable": Unavailable, **names}
        self._synchronize = synchronize
        self._loop: tuple[Callable[..., int], list[str]] | None = None
        self._texts = {part: str(fields.get(part) or "") for part in ("setup", "before", "statement", "after")}
        if function is not None:
            self._texts["statement"] = "__kernelscope_function__()"
            self.names["__kernelscope_function__"] = function
        if not self._texts["statement"].strip():
            raise CaseError(f"case {self.name!r} has no statement")
        for module in fields.get("needs") or ():
            _import(module)
        self._codes = {part: self._compile(part) for part in self._texts}

    @property
    def has_frame(self) -> bool:
        """Whether something comes before or after each batch."""
        return bool(self._codes["before"] or self._codes["after"])

    def set_up(self) -> None:
        """Run the setup."""
        self._run("setup")

    def batch(self, loops: int, moved: bool = False) -> Batch:
        """Time some loops.

        The device is idle before them and after them. The garbage collector has run before and is off meanwhile.

        Parameters
        ----------
        loops : int
            How many.
        moved : bool
            Whether this thread has just come to another processor core.
        """
        self._wait()
        was_on = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            self._run("before")
            if self._loop is None:
                self._loop = self._compile_loop()
            function, names = self._loop
            values = [self.names[name] for name in names]
            if not self.has_frame:
                # Other processes have run on this core meanwhile: its caches hold their code, and what the first loops
                # take says so (75, 30, 26 and then 24 us). A fifth of a batch brings it back, on another core half.
                self._timed(function, values, max(2, loops // (2 if moved else 5)))
                self._wait()
            reference_ns = bench_machine.reference_ns()
            try:
                host_ns, waited_ns = self._timed(function, values, loops)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._run("after")  # a capture that is not ended would fail every case that follows
                raise
            self._run("after")
            start_ns = _now()
            self._wait()
            sync_ns = _now() - start_ns
            return Batch(host_ns, sync_ns, waited_ns, max(reference_ns, bench_machine.reference_ns()))
        finally:
            if was_on:
                gc.enable()

    def _timed(self, function: Callable[..., int], values: list[Any], loops: int) -> tuple[int, int]:
        """Return the host's time of the loops, and how long another process had the processor meanwhile."""
        own_ns = machine.others_ns()
        # Nothing else between the clock and this: a wait there would count as one outside of the loops.
        outer_ns, waited_ns = _now(), machine.waited_ns()
        try:
            passed_ns = function(itertools.repeat(None, loops), _now, *values)
        except (Exception, SystemExit) as error:
            raise self._explained("statement", error) from error
        waited_ns = machine.waited_ns() - waited_ns
        # The loops have not waited what was waited for between the two readings and the loops.
        outside_ns = _now() - outer_ns - passed_ns - _READING_NS
        # What threads of this process did meanwhile is the target's own doing, on whichever core it was.
        own_ns = machine.others_ns() - own_ns
        waited_ns = min(max(0, waited_ns - max(0, outside_ns) - max(0, own_ns)), passed_ns)
        return passed_ns - waited_ns, waited_ns

    def _wait(self) -> None:
        try:
            self._synchronize()
        except Exception as error:
            raise CaseError(f"case {self.name!r}: the device failed: {_first(error)}") from error

    def _run(self, part: str) -> None:
        code = self._codes[part]
        if code is None:
            return
        try:
            exec(code, self.names)
        except (Exception, SystemExit) as error:
            raise self._explained(part, error) from error

    def _filename(self, part: str) -> str:
        return f"<case {self.name!r}: {part}>"

    def _compile(self, part: str) -> Any:
        """Compile a text; frameworks that read a kernel's source find it as that of any file."""
        text, filename = self._texts[part], self._filename(part)
        if not text.strip():
            return None
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        try:
            return compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise self._explained(part, error) from error

    def _compile_loop(self) -> tuple[Callable[..., int], list[str]]:
        """Return the function that times the statement, and the names of what it takes after loops and clock."""
        filename = self._filename("statement")
        statement = ast.parse(self._texts["statement"], filename)
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        declared = {name for node in ast.walk(statement) if isinstance(node, (ast.Global, ast.Nonlocal))
                    for name in node.names}
        names = sorted((used - declared) & set(self.names))
        module = ast.parse(_LOOP)
        definition: Any = module.body[0]
        definition.args.args += [ast.arg(arg=name) for name in names]
        definition.body[1].body = statement.body
        scope = self.names
        try:
            exec(compile(ast.fix_missing_locations(module), filename, "exec", dont_inherit=True), scope)
        except SyntaxError as error:
            raise self._explained("statement", error) from error
        return scope.pop("__kernelscope_batch__"), names

    def _explained(self, part: str, error: BaseException) -> Exception:
        """Return what to raise for what a text raised: the same for an `Unavailable`, else where and what."""
        if isinstance(error, (Unavailable, CaseError)):
            return error
        where, line = part, None
        if isinstance(error, SyntaxError) and error.filename == self._filename(part):
            line = error.lineno
        else:
            # The innermost of our frames: a function of the setup may be what the statement calls.
            files = {self._filename(name): name for name in self._texts}
            for frame, number in traceback.walk_tb(error.__traceback__):
                if frame.f_code.co_filename in files:
                    where, line = files[frame.f_code.co_filename], number
        return CaseError(f"case {self.name!r}, {where}{self._quoted(where, line)}: {_first(error)}")

    def _quoted(self, part: str, line: int | None) -> str:
        lines = self._texts[part].splitlines()
        if line is None or not 0 < line <= len(lines):
            return ""
        return f", line {line} ({lines[line - 1].strip()[:80]})"


@contextlib.contextmanager
def frozen_garbage() -> Any:
    """Keep what exists now out of the collector's sight, so that collecting before each batch costs microseconds.

    With numba loaded a collection takes some 50 ms, fifty times as long as a batch. What somebody else has frozen is
    left as it is.
    """
    free = gc.get_freeze_count() <= FROZEN_BY_PYTHON
    if free:
        freeze_garbage()
    try:
        yield
    finally:
        if free:
            gc.unfreeze()


def freeze_garbage() -> None:
    """Collect, and keep what is left out of the collector's sight for good."""
    gc.collect()
    gc.freeze()


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"needs {name}: {_first(error)}") from error
    except Exception as error:  # SyntaxError of a Python that is too old, and what else an import may raise
        raise Unavailable(f"needs {name}, whose import raised {_first(error)}") from error


def _first(error: BaseException) -> str:
    """Return an exception as one line: its type and its text, cut where it becomes a page."""
    text = " ".join(_COLOURS.sub("", str(error)).split())
    if len(text) > _LONGEST_ERROR:
        text = text[:_LONGEST_ERROR] + " ..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name
