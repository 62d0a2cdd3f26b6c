"""Time a case in a loop, after a warm-up; and ask the machine for its clock, its noise, and how fast a core is."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gc
import importlib
import itertools
import linecache
import os
import re
import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

# Bound before a target's code runs, which may put another one in its place.
_now = time.perf_counter_ns

#: How many of the last batches must agree with as many before them, and within what share.
_WINDOW, _AGREE = 3, 0.03
_LIMIT_S = 2.0
#: A wait for the device that is a longer share of the host's time than this may be that of a full queue.
_SYNC_SHARE = 0.2
_FEW_LOOPS = 32


class Warm(NamedTuple):
    """The result of warming up.

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
#: More than two readings of the time that was waited take, even with cold caches.
_READING_NS = 300_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Unavailable(Exception):
    """Raised when a case cannot run in this target; the message says why."""


class CaseError(Exception):
    """Raised when a case's text raises; the message is one line with the place, the cause is the exception."""


class Batch(NamedTuple):
    """The times of a batch.

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
            if not (self._codes["before"] or self._codes["after"]):  # nothing runs around a batch
                # Other processes have run on this core meanwhile: its caches hold their code, and what the first loops
                # take says so (75, 30, 26 and then 24 us). A fifth of a batch brings it back, on another core half.
                self._timed(function, values, max(2, loops // (2 if moved else 5)))
                self._wait()
            before_ns = time_reference_ns()
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
            return Batch(host_ns, sync_ns, waited_ns, max(before_ns, time_reference_ns()))
        finally:
            if was_on:
                gc.enable()

    def _timed(self, function: Callable[..., int], values: list[Any], loops: int) -> tuple[int, int]:
        """Return the host's time of the loops, and how long another process had the processor meanwhile."""
        own_ns = other_threads_ns()
        # Nothing else between the clock and this: a wait there would count as one outside of the loops.
        outer_ns, waited_ns = _now(), time_waited_ns()
        try:
            passed_ns = function(itertools.repeat(None, loops), _now, *values)
        except (Exception, SystemExit) as error:
            raise self._explained("statement", error) from error
        waited_ns = time_waited_ns() - waited_ns
        # The loops have not waited what was waited for between the two readings and the loops.
        outside_ns = _now() - outer_ns - passed_ns - _READING_NS
        # What threads of this process did meanwhile is the target's own doing, on whichever core it was.
        own_ns = other_threads_ns() - own_ns
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
        lines = self._texts[where].splitlines()
        quoted = "" if line is None or not 0 < line <= len(lines) else f", line {line} ({lines[line - 1].strip()[:80]})"
        return CaseError(f"case {self.name!r}, {where}{quoted}: {_first(error)}")


@contextlib.contextmanager
def frozen_garbage() -> Any:
    """Freeze all existing objects, so that collecting garbage before each batch takes microseconds.

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
    """Collect garbage and freeze all remaining objects permanently."""
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


# The machine.

_ROUND_NS = 20_000


def clock() -> tuple[int, float]:
    """Return the clock's resolution, and what a reading of it costs, in nanoseconds.

    The resolution is the smallest step that was seen; the cost is the median of many short loops.
    """
    read = _now
    times = [read() for _ in range(2000)]
    steps = [later - earlier for earlier, later in zip(times, times[1:]) if later > earlier]
    costs: list[float] = []
    for _ in range(31):
        start = read()
        for _ in itertools.repeat(None, 100):
            read()
        costs.append((read() - start) / 101)
    return min(steps, default=1), round(statistics.median(costs), 1)


def noise(milliseconds: float) -> float:
    """Return which share of its time a loop that does nothing loses to others, from 0 to 1.

    Rounds of some 20 µs are timed, clock reading to clock reading. What a round should take is what the fastest
    twentieth of them took at most.
    """
    read, rounds = _now, 50
    while _spin(rounds) < _ROUND_NS:
        rounds *= 2
    took: list[int] = []
    last = read()
    end = last + int(milliseconds * 1e6)
    while last < end:
        for _ in itertools.repeat(None, rounds):
            pass
        now = read()
        took.append(now - last)
        last = now
    fast = sorted(took)[len(took) // 20]
    return max(0.0, 1.0 - fast * len(took) / sum(took))


def time_waited_ns() -> int:
    """Return how long this thread could have run and another had the processor, since it began; 0 where unknown.

    Linux counts it for each thread, in nanoseconds from switch to switch and not in ticks: the second number of
    ``schedstat``. What a thread sleeps or waits for, such as a lock or the device, is not in it; what it waits for the
    processor after that has come, is.
    """
    return (*_schedstat(), 0, 0)[1]


def counts_waits() -> bool:
    """Return whether the kernel counts `time_waited_ns`; otherwise this thread's processor time is 0 as well."""
    return any(_schedstat()[:1])


def other_threads_ns() -> int:
    """Return how long this process' other threads had a processor, since it began."""
    return time.process_time_ns() - time.thread_time_ns()


def may_pin(cores: list[int] | None) -> tuple[list[int] | None, str | None]:
    """Try whether this process may run on some cores only, and undo it.

    Returns
    -------
    tuple
        The cores in their order, or None; and why not, if there were any asked for.
    """
    if not cores:
        return None, None
    if not hasattr(os, "sched_setaffinity"):
        return None, "this system has no processor affinity"
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(0, before)
    except (OSError, ValueError) as error:
        return None, f"cores {cores} are refused: {getattr(error, 'strerror', None) or error}"
    return list(cores), None


def gpu(is_dry_run: bool) -> dict[str, Any]:
    """Return what the current context's device is; what cannot be found out is left out.

    Returns
    -------
    dict
        ``name``; ``driver``, NVIDIA's version; ``cuda``, the newest CUDA that it supports; ``clocks_mhz``, with ``sm``
        as it is and ``sm_max`` as it may be. On a dry run the device's name says so, and there is neither driver nor
        clock.
    """
    try:
        found, bus = _from_cuda()
    except (OSError, AttributeError):
        return {}
    if is_dry_run:
        return found
    with contextlib.suppress(OSError, AttributeError):  # no NVML: a container without it, or a Jetson
        found.update(_from_nvml(bus))
    return found


def _schedstat() -> list[int]:
    """Return the kernel's counters of this thread: nanoseconds it ran and waited to run; empty if not available."""
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return []
    try:
        return [int(word) for word in os.read(descriptor, 100).split()]
    except (OSError, ValueError):
        return []
    finally:
        os.close(descriptor)


def _spin(rounds: int) -> int:
    """Return how long so many rounds take at best."""
    read, best = _now, 1 << 62
    for _ in range(20):
        start = read()
        for _ in itertools.repeat(None, rounds):
            pass
        best = min(best, read() - start)
    return best


def _from_cuda() -> tuple[dict[str, Any], bytes]:
    """Ask the CUDA driver that is loaded, in C, so that it does not matter which bindings a version has."""
    library = ctypes.CDLL("libcuda.so.1")
    device, version, text = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    found: dict[str, Any] = {}
    if library.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if library.cuCtxGetDevice(ctypes.byref(device)) != 0:
        return found, b""
    if library.cuDeviceGetName(text, len(text), device) == 0:
        found["name"] = text.value.decode(errors="replace")
    bus = text.value if library.cuDeviceGetPCIBusId(text, len(text), device) == 0 else b""
    return found, bus


def _from_nvml(bus: bytes) -> dict[str, Any]:
    library = ctypes.CDLL("libnvidia-ml.so.1")
    if library.nvmlInit_v2() != 0:
        return {}
    found: dict[str, Any] = {}
    try:
        text, handle, value = ctypes.create_string_buffer(96), ctypes.c_void_p(), ctypes.c_uint()
        if library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            found["driver"] = text.value.decode(errors="replace")
        if bus and library.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)) == 0:
            clocks: dict[str, int] = {}
            for name, ask in (("sm", library.nvmlDeviceGetClockInfo), ("sm_max", library.nvmlDeviceGetMaxClockInfo)):
                if ask(handle, 1, ctypes.byref(value)) == 0:  # 1: NVML_CLOCK_SM
                    clocks[name] = value.value
            found["clocks_mhz"] = clocks
    finally:
        library.nvmlShutdown()
    return found


# Quiet moments: when nobody else slows this thread's processor core down.
#
# A core can be slow without being taken away: its physical core's other thread is at work for somebody else, which on
# a virtual machine nothing tells. On the host of an H100 with 16 virtual cores a launch took 12.2 µs at some
# moments and 17.7 at others, for tens of milliseconds to seconds at a time, on whichever core. A short loop
# beside it took 1.0 to 1.2 and 1.6 to 2 times as long as at best (correlation of the two 0.95): it tells which
# moment it is.
#
# So there is such a *reference* before and after each batch, and a study's processes go on to another core,
# together, where one finds it slow. They stay as long as they can: while targets were on different cores, or came
# to another one for each batch, their differences varied twice as much as on one core that was left alone.
#
# Standard library only; Python 3.9 and later.

_NUMBERS = range(1200)
#: How long a quiet core is looked for, and how many references in turn must say that it is one.
_LONGEST_NS, _IN_TURN = 10_000_000, 4
# How many references, over all cores, tell what one takes at best; and which of them does, from the fastest.
_SAMPLES, _BEST = 192, 0.1


def time_reference_ns() -> int:
    """Return how long a short loop took just now: some 50 microseconds."""
    start = _now()
    total = 0
    for number in _NUMBERS:
        total += number * number
    return _now() - start


class Quiet:
    """The processor cores that this thread may run on, one at a time.

    Parameters
    ----------
    cores : list of int or None
        None where it is not put on any.
    """

    def __init__(self, cores: list[int] | None) -> None:
        self._cores = list(cores or [])
        self.core: int | None = None

    def go(self, core: int | None) -> None:
        """Move to a core; None: stay on the current one, or move to the first."""
        if not self._cores:
            return
        wanted = core if core in self._cores else self._cores[0] if self.core is None else self.core
        if wanted != self.core:
            os.sched_setaffinity(0, {wanted})
            self.core = wanted

    def seek(self, core: int | None, limit_ns: int | None) -> bool:
        """Go to a core, and from there on to others until the reference takes at most so long, or time is up.

        Parameters
        ----------
        core : int or None
            Where to begin, as `go` takes it.
        limit_ns : int or None
            None: the first core is as good as any.

        Returns
        -------
        bool
            Whether it is another core than before, whose caches know nothing of this thread.
        """
        before = self.core
        self.go(core)
        if limit_ns:
            until = _now() + _LONGEST_NS
            while any(time_reference_ns() > limit_ns for _ in range(_IN_TURN)) and _now() < until:
                self._go_on()
        return self.core != before

    def best_ns(self) -> int:
        """Return what the reference takes at quiet moments, as far as some milliseconds on each core tell."""
        before = self.core
        times: list[int] = []
        for _ in range(max(1, len(self._cores))):
            self._go_on()
            times += [time_reference_ns() for _ in range(max(12, _SAMPLES // max(1, len(self._cores))))]
        self.go(before)
        return sorted(times)[int(_BEST * len(times))]

    def _go_on(self) -> None:
        if self._cores:
            place = self._cores.index(self.core) + 1 if self.core is not None else 0
            self.go(self._cores[place % len(self._cores)])
