"""The probe of the GPU's counters: measures launches of each kernel while a recording lasts."""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from kernelscope.clock import now
from kernelscope.counters.range_profiler import MOST, RangeProfiler
from kernelscope.cubin import INSTRUCTION_BYTES
from kernelscope.errors import RecorderStateError
from kernelscope.features.metrics.bandwidth import copy_bandwidth, current
from kernelscope.features.metrics.instructions import Checkpoints, Executed, InstructionCounts
from kernelscope.features.metrics.options import MetricsOptions
from kernelscope.features.metrics.sets import (
    EXECUTED,
    instruction_metric,
    is_counted_by_code,
    metrics_of,
    operation_of,
    unit_of,
)
from kernelscope.probes.base import Probe, ProbeProtocol
from kernelscope.probes.cupti import has_driver
from kernelscope.probes.cupti.contexts import Contexts
from kernelscope.probes.cupti.library import Cupti, CuptiError, Interruptions, find, raise_again
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.driver import device
from kernelscope.probes.sink import AFTER, BEFORE, CallData, Sink
from kernelscope.recorder.session import Session
from kernelscope.units import counted

if TYPE_CHECKING:
    from kernelscope.recorder.recorder import Recorder

_DRIVER = 1
_LAUNCHES = ("cuLaunchKernel", "cuLaunchCooperativeKernel")
#: What is measured where only instructions are counted: a replay has to have a metric.
_LEAST = ("gpu__time_duration.sum",)
#: The metric that a device's copy bandwidth is a roof of.
_OF_MEMORY = "dram__bytes.sum"
#: What CUPTI takes for each kernel, and more for each pass, in seconds; and how many times as long as a kernel itself
#: the code takes that counts instructions. Of five kernels of 0.08 to 2.3 ms on an H100.
_A_KERNEL, _A_PASS, _COUNTING = 0.2, 0.0125, 280
_pointer, _uint = ctypes.c_void_p, ctypes.c_uint


class _Config(ctypes.Structure):
    _fields_ = (("sizes", _uint * 7), ("stream", _pointer))


class _Launch(ctypes.Structure):
    _fields_ = (("function", _pointer), ("sizes", _uint * 7), ("stream", _pointer), ("arguments", _pointer),
                ("extra", _pointer))


class _LaunchEx(ctypes.Structure):
    _fields_ = (("config", ctypes.POINTER(_Config)), ("function", _pointer), ("arguments", _pointer),
                ("extra", _pointer))


#: Told what a measurement does: in words, and whether they are to stay, or to make room for the next ones.
Notify = Callable[[str, bool], object]


def _silent(text: str, is_to_stay: bool) -> None:
    """Say nothing."""


def probes(options: MetricsOptions) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Return the probe; where there is no GPU none, and a row of ``health`` that says so."""
    if options.metrics is None:
        return [], []
    if options.gpu == "none" or not has_driver():
        return [], [{"probe": MeasurementsProbe.name, "status": "unavailable",
                     "message": "the GPU's counters were not read: there is no GPU here"}]
    return [MeasurementsProbe(options.metrics, options.metrics_of, replay=options.replay, notify=options.notify)], []


#: Recorders whose passes were iterated over.
_measured: WeakSet[Recorder] = WeakSet()


def passes(recorder: Recorder) -> Iterator[int]:
    """Iterate over the passes of a measurement with ``metrics`` and ``replay="user"``.

    The body of the loop has to launch the same each time: what it launches is measured as one range, other metrics
    in each pass. Where nothing can be measured it runs once, and the table ``health`` says why.

    Raises
    ------
    RecorderStateError
        It is not recording, or without these options; or this was called before.

    Examples
    --------
    >>> with kernelscope.record(metrics="full", replay="user") as r:  # doctest: +SKIP
    ...     for _ in r.passes():
    ...         step()
    >>> kernelscope.metrics(r.recording)  # doctest: +SKIP
    """
    session = Session.active if recorder.is_recording else None
    asked: Any = recorder.options
    if session is None or asked.replay != "user":
        raise RecorderStateError("passes() is for a recorder that has started with metrics and replay='user'")
    if recorder in _measured:
        raise RecorderStateError("passes() was called before: a recording measures one range")
    _measured.add(recorder)
    used: Any = session.options
    if used.replay != "user":  # the recording around this one repeats kernels, or measures nothing
        return iter((0,))
    probe = next((probe for probe in session.installed if isinstance(probe, MeasurementsProbe)), None)
    return iter((0,)) if probe is None else probe.passes()


class MeasurementsProbe(Probe):
    """Measures the first launch of each kernel in one context, under replay, while a recording session lasts.

    Where instructions are counted, the launch runs once more before, with code that counts patched into it, and what
    it wrote is undone. With replay ``user`` nothing is repeated here: `passes` has the caller do it.

    Parameters
    ----------
    wanted : str
        A set of `kernelscope.features.metrics.sets.SETS`, or names of metrics with commas between.
    kernels : str, optional
        Only kernels of this name, or that match it (``*`` and ``?``); all without it.
    replay : str
        ``kernel`` or ``user``: who repeats launches.
    notify : callable, optional
        Told before the first launch how often each will run and how long that takes about, and of each measured one.
    path : str, optional
        CUPTI's library, instead of the one that is found.
    contexts : list of (int, int), optional
        Handles of contexts with the ordinals of their devices, instead of those of the process; both are for tests.
    """

    name = "metrics"

    def __init__(self, wanted: str, kernels: str | None = None, *, replay: str = "kernel",
                 notify: Notify | None = None, path: str | None = None,
                 contexts: list[tuple[int, int]] | None = None) -> None:
        super().__init__()
        self._wanted = wanted
        self._kernels = kernels
        self._replay = replay
        self._notify = notify or _silent
        self._names = metrics_of(wanted)
        self._counted = tuple(dict.fromkeys(filter(None, map(instruction_metric, self._names))))
        self._counts: InstructionCounts | None = None
        self._checkpoints: Checkpoints | None = None
        self._driver: Any = None
        self._counting: int | None = None
        self._cupti: Cupti | None = None
        self._interruptions = Interruptions()
        self._path = path
        self._contexts = None if contexts is None else Contexts(contexts)
        self._profiler: RangeProfiler | None = None
        self._context = self._device = 0
        self._launches: Counter[str] = Counter()
        self._elsewhere = self._captured = self._partly = self._unfinished = 0
        self._running: Generator[int] | None = None
        self._problem: CuptiError | None = None
        self._open: dict[str, Any] | None = None
        self._turn = threading.RLock()
        self._process = os.getpid()
        self._rows: list[dict[str, Any]] = []

    def install(self, sink: Sink, detail: str) -> None:
        """Begin to measure. See `ProbeProtocol.install`."""
        self.sink = sink
        try:
            path = self._path or find()
            self._contexts = self._contexts or Contexts.of_process()
            self._context, self._device = self._contexts.handles[0]
            self._cupti = Cupti(path)
            self._interruptions.begin()
            self._cupti.subscribe(self._called)
            self._driver = ctypes.CDLL("libcuda.so.1")
            self._profiler = RangeProfiler(
                path, self._context, self._device,
                [name for name in self._names if not is_counted_by_code(name)] or _LEAST, self._replay)
            if self._counted:
                self._checkpoints = Checkpoints(path) if self._replay == "kernel" else None
                with current(self._driver, self._context):
                    self._counts = InstructionCounts(path, self._context, self._device, self._counted)
            self._notify(self._plan(), True)
            for number, name in self._cupti.functions(_DRIVER).items():
                if name.startswith(_LAUNCHES):
                    self._cupti.watch(_DRIVER, number)
        except CuptiError as problem:
            self._end()
            self.report(sink, f"the GPU's counters were not read: {problem}", status="unavailable", fix=problem.fix)
        except BaseException:
            self._end()
            raise

    def uninstall(self) -> None:
        """Measure no more. See `ProbeProtocol.uninstall`."""
        if self._profiler is None or os.getpid() != self._process:
            return
        assert self.sink is not None
        with self._turn:
            try:
                if self._running is not None:  # passes that were left before their end: nothing of them stays on
                    self._running.close()
                self._take(self._profiler)
                self._add_bandwidth()
            finally:
                passes = self._passes
                self._end()
        message = self._measured(passes)
        self._notify(message, True)
        failed = 0 if self._replay == "user" else min(len(self._launches), MOST) - len(self._rows)
        unknown = [name for name in self._names if is_counted_by_code(name) and instruction_metric(name) is None]
        missing = [
            *([f"{', '.join(unknown)}, which is no sum over instructions"] if unknown else []),
            *([f"{counted(len(self._launches) - MOST, 'kernel')} more than the {MOST} that there is room for"]
              if len(self._launches) > MOST else []),
            *([f"{_launches(self._elsewhere)} in other contexts"] if self._elsewhere else []),
            *([f"{_launches(self._captured)} that graphs were captured of"] if self._captured else []),
            *([f"what the instructions of {counted(self._partly, 'kernel')} did, which call subroutines, as divisions "
               "do: CUPTI counts only a part of these"] if self._partly else []),
            *([f"{_launches(failed) if failed else 'a range'} that could not be measured: "
               f"{self._problem or 'its passes did not come to their end'}"] if failed or self._unfinished else []),
        ]
        self.sink.stated[self.name] = {
            "probe": self.name, "status": "degraded" if missing else "ok",
            "message": message + (f"; not measured were {', '.join(missing)}" if missing else ""),
            "fix": self._problem.fix if self._problem else None}

    def _called(self, address: int) -> None:
        # Launches of other threads wait: what they write is restored too, while one is replayed.
        call = CallData.from_address(address)
        if self._counting == threading.get_ident():
            return  # the launch that is run once more
        try:
            if call.site == BEFORE:
                self._turn.acquire()
                self._before(call)
            elif call.site == AFTER:
                self._leave()
        except BaseException as error:  # into C nothing may be raised
            if isinstance(error, CuptiError):
                self._problem = error
            elif not raise_again(error):
                assert self.sink is not None
                self.sink.swallow(self.name, error)
            elif call.site == AFTER:  # a Ctrl-C came into it
                with suppress(Exception):
                    self._leave(is_interrupted=True)

    def _leave(self, *, is_interrupted: bool = False) -> None:
        try:
            self._after(is_interrupted)
        finally:
            with suppress(RuntimeError):  # until it is not held: a call that a Ctrl-C comes into is heard of twice
                while True:
                    self._turn.release()

    def _before(self, call: CallData) -> None:
        entry = (call.symbol or b"").decode("utf-8", "replace")
        if not is_named(readable(entry), self._kernels):
            return
        if self._profiler is None or call.context != self._context:
            self._elsewhere += 1
            return
        if self._replay == "user":
            self._launches[entry] += 1
            return
        launch = (_LaunchEx if call.name.startswith(b"cuLaunchKernelEx") else _Launch).from_address(call.params)
        stream = launch.config.contents.stream if isinstance(launch, _LaunchEx) else launch.stream
        state = ctypes.c_int()
        ask = getattr(self._driver, "cuStreamIsCapturing" + ("_ptsz" if call.name.endswith(b"_ptsz") else ""))
        if ask(_pointer(stream), ctypes.byref(state)) or state.value:
            self._captured += 1
            return
        number = self._launches[entry]
        self._launches[entry] += 1
        if number or len(self._launches) > MOST:
            return
        began = now()
        executed = self._executed(launch, call) if self._counts is not None else []
        self._open = self._row(entry, began, executed)
        try:
            self._profiler.start()
        except CuptiError:
            self._open = None
            raise

    def _row(self, entry: str | None, began: int, executed: list[Executed]) -> dict[str, Any]:
        if executed and not (entry and is_whole(executed, entry)):
            self._partly += 1
            executed = []
        assert self.sink is not None
        return {"entry_name": entry, "name": None if entry is None else readable(entry), "number": 0,
                "start_ns": began, "end_ns": began, "thread_id": self.sink.state().thread_id, "executed": executed}

    def passes(self) -> Generator[int]:
        """Yield the number of each pass of a measurement with replay ``user``: what is done in it is measured.

        Yields once where nothing can be measured, and once more than there are passes where instructions are counted.
        All that is launched in this context in a pass is one range; the same has to be launched in each.
        """
        profiler = self._profiler
        if profiler is None:
            yield 0
            return
        self._unfinished = 1
        self._running = self._replayed(profiler)
        try:
            yield from self._running
            self._unfinished = 0
        except CuptiError as problem:
            self._problem = problem

    def _replayed(self, profiler: RangeProfiler) -> Generator[int]:
        began, number, is_last = now(), 0, False
        executed: list[Executed] = []
        self._launches.clear()
        while not is_last:
            self._waited("before it was measured")
            self._notify(f"pass {number + 1} of {self._passes}", False)
            profiler.start()
            yield number
            self._waited("while it was measured")
            is_last, number = profiler.stop(), number + 1
        names = [*self._launches]
        counts = self._counts
        if counts is not None:
            self._notify(f"pass {number + 1} of {self._passes}", False)
            with current(self._driver, self._context):
                counts.begin()
            try:
                yield number
                self._waited("while its instructions were counted")
                executed = counts.take()
            finally:
                counts.end()
        if names:
            row = self._row(names[0] if len(names) == 1 else None, began, executed)
            plain = dict.fromkeys(_plain(readable(each)) for each in names)
            self._rows.append(row | {"end_ns": now(), "name": " + ".join(plain)})

    def _executed(self, launch: _Launch | _LaunchEx, call: CallData) -> list[Executed]:
        """Run a launch, undo what it did to memory, and return what its instructions did."""
        assert self._counts is not None and self._checkpoints is not None
        run = getattr(self._driver, call.name.decode())
        self._waited("before it was counted")
        with self._checkpoints.undone(self._context):
            self._counting = threading.get_ident()
            try:
                self._counts.begin()
                try:
                    result = run(*_arguments(launch, has_extra=b"Cooperative" not in call.name))
                    if result:
                        raise CuptiError(f"the launch cannot be repeated to count its instructions (error {result})")
                    self._waited("while its instructions were counted")
                    return self._counts.take()
                finally:
                    self._counts.end()
            finally:
                self._counting = None

    def _waited(self, when: str) -> None:
        with current(self._driver, self._context):
            result = self._driver.cuCtxSynchronize()
        if result:
            raise CuptiError(f"a kernel failed {when} (error {result})", "see what CUDA says of the launch itself")

    @property
    def _passes(self) -> int:
        assert self._profiler is not None
        return self._profiler.passes + bool(self._counted)

    def _after(self, is_interrupted: bool) -> None:
        if self._open is None or self._profiler is None:
            return
        if not self._rows or self._rows[-1] is not self._open:
            try:
                self._profiler.stop()
            except CuptiError:  # it was stopped, where a Ctrl-C came right after
                if not is_interrupted:
                    self._open = None
                    raise
            self._rows.append(self._open)
        self._open["end_ns"] = now()
        self._notify(f"{_launches(len(self._rows))} measured, the last of {_plain(self._open['name'])}", False)
        self._open = None

    def _take(self, profiler: RangeProfiler) -> None:
        assert self.sink is not None
        found = profiler.values() if self._rows else []
        if len(found) != len(self._rows):
            raise CuptiError(f"CUPTI returned {_launches(len(found))} of {len(self._rows)} that were measured")
        number = device(self.sink, self._device)
        for row, values in zip(self._rows, found, strict=True):
            self.sink.rows["measurements"].append({
                **row, "device_id": number, "replay": self._replay,
                "metric_set": self._wanted, "passes": self._passes,
                "metrics": [(name, _value(name, values, row["executed"]), unit_of(name)) for name in self._names]})

    def _plan(self) -> str:
        runs = counted(self._passes, "pass", "passes")
        if self._replay == "user":
            return f"metrics {self._wanted}: {runs}, and so often it is called"
        seconds = _A_KERNEL + _A_PASS * self._passes
        times = self._passes + (_COUNTING if self._counted else 0)
        return (f"metrics {self._wanted}: the first launch of each kernel runs in {runs}, which takes about "
                f"{seconds:.1f} s and {counted(times, 'time', 'times')} as long as the kernel itself")

    def _measured(self, passes: int) -> str:
        runs = counted(passes, "pass", "passes")
        if self._replay == "user":
            return f"{counted(len(self._rows), 'range')} measured in {runs}: all that was launched meanwhile"
        return (f"{_launches(len(self._rows))} measured, each in {runs}: the first of each kernel; these took as long "
                "as their replay did")

    def _add_bandwidth(self) -> None:
        """Measure what a copy on the device reaches, where its memory was measured."""
        assert self.sink is not None
        if self._rows and _OF_MEMORY in self._names:
            found = copy_bandwidth(self._driver, self._context, self._device)
            if found is not None:
                self.sink.devices.rows[device(self.sink, self._device)]["copy_bytes_per_second"] = found

    def _end(self) -> None:
        cupti, self._cupti = self._cupti, None
        profiler, self._profiler = self._profiler, None
        self._counts = None
        contexts, self._contexts = self._contexts, None
        try:
            if cupti is not None:
                cupti.unsubscribe()
        finally:
            try:
                if profiler is not None:
                    profiler.end()
            finally:
                self._interruptions.end()
                if contexts is not None:
                    contexts.release()


def is_named(name: str, wanted: str | None) -> bool:
    """Return whether a kernel is meant: by its name, with or without its module or namespace, or by a pattern."""
    if wanted is None:
        return True
    return any(fnmatchcase(each, wanted) for each in (name, _plain(name).rpartition(".")[2]))


def _plain(name: str) -> str:
    """Return a kernel's readable name without its arguments."""
    return re.split(r"[<(\[]", name)[0].replace("::", ".")


def _arguments(launch: _Launch | _LaunchEx, *, has_extra: bool) -> list[Any]:
    if isinstance(launch, _LaunchEx):
        return [launch.config, *map(_pointer, (launch.function, launch.arguments, launch.extra))]
    return [_pointer(launch.function), *launch.sizes, _pointer(launch.stream), _pointer(launch.arguments),
            *([_pointer(launch.extra)] if has_extra else [])]


def _value(name: str, measured: Mapping[str, float], executed: Sequence[Executed]) -> float | None:
    """Return a metric; None for what could not be had, and for operations, which the machine code tells."""
    if not is_counted_by_code(name):
        return None if math.isnan(measured[name]) else measured[name]
    counted_of = instruction_metric(name)
    if counted_of is None or operation_of(name) or not executed:
        return None
    return sum(each.values.get(counted_of, 0) for each in executed)


def is_whole(executed: Sequence[Executed], entry: str) -> bool:
    """Return whether all instructions of a kernel were counted: of one that calls subroutines CUPTI may leave some out.

    It leaves out the branch to itself too that stands behind a kernel's last instruction, and which no thread executes.
    """
    counts: dict[int, int] = {}
    for each in executed:
        if each.function == entry:
            counts[each.offset] = counts.get(each.offset, 0) + each.values.get(EXECUTED, 0)
    missing = [at for at in range(0, max(counts, default=0), INSTRUCTION_BYTES) if at not in counts]
    return 0 in counts and (not missing or (
        len(missing) == 1 and not any(count for at, count in counts.items() if at > missing[0])))


def _launches(count: int) -> str:
    return counted(count, "launch", "launches")
