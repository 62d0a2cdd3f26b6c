"""Hooks on Triton's autotuner: what a tuning run tried, how long each configuration took, and what it chose."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Patches, error_text
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.kernels import FRAMEWORK, KernelRows, value_text

# A launch of a kernel that is tuned, and whose key was tuned before, calls none of these functions: it costs nothing.
# ``Autotuner.prune_configs`` is called first where a key is new, ``_bench`` once for each configuration, and
# ``check_disk_cache`` around these where results are kept on disk. Triton's listener of the autotuner (3.9) tells
# neither of failures nor of what was pruned, and older versions have none.
#
# A configuration that cannot run is no error: ``_bench`` catches what it raised and returns infinity. What it was is
# known of the compile that failed, or of the `OutOfResources` that was made.

#: So many keys that were tuned before the recording are noted of an autotuner.
_MOST_KEYS = 50
#: Frames between `AutotuneHooks` and who calls the autotuner's method, at most.
_MOST_FRAMES = 4


class TuningRun:
    """A tuning run under way in one thread."""

    __slots__ = ("compiled", "count", "error", "key", "on_disk", "outer", "pruned", "start", "tried", "tuner")

    def __init__(self, tuner: Any, key: dict[str, str], start: int, compiled: int, outer: TuningRun | None) -> None:
        self.tuner = tuner
        self.key = key
        self.start = start
        #: How many compiles the recording had when it began.
        self.compiled = compiled
        self.outer = outer
        self.count: int | None = None
        self.pruned: list[dict[str, Any]] = []
        self.tried: list[dict[str, Any]] = []
        self.on_disk = False
        self.error: str | None = None


class AutotuneHooks:
    """Records every tuning run while installed.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    rows : KernelRows
        Makes the rows of kernels.
    """

    def __init__(self, sink: Sink, rows: KernelRows) -> None:
        self._sink = sink
        self._rows = rows
        self.enabled = True
        self._runs: dict[int, TuningRun] = {}
        #: Autotuners of which it was noted what they had tuned before.
        self._noted: weakref.WeakSet[Any] = weakref.WeakSet()

    def install(self, patches: Patches, autotuner: Any, errors: Any) -> list[str]:
        """Put the hooks in: `autotuner` is the class, `errors` the module. Return the names of missing functions."""
        return patches.hook_all((
            (autotuner, "prune_configs", self._make_prune),
            (autotuner, "_bench", self._make_bench),
            (autotuner, "check_disk_cache", self._make_check),
            (getattr(errors, "OutOfResources", None), "__init__", self._make_error),
        ))

    def _make_prune(self, original: Any) -> Callable[..., Any]:
        def prune_configs(self: Any, kwargs: Any) -> Any:
            if not hooks.enabled:
                return original(self, kwargs)
            run = hooks.begin(self, kwargs)
            chosen = original(self, kwargs)
            if run is not None:
                hooks.chosen(run, chosen)
            return chosen

        hooks = self
        return prune_configs

    def _make_bench(self, original: Any) -> Callable[..., Any]:
        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
            run = hooks.run_of(self)
            if run is None:
                return original(self, *args, config=config, **meta)
            start, compiled, run.error = hooks.now(), hooks.compiles(), None
            try:
                result = original(self, *args, config=config, **meta)
            except BaseException as error:
                hooks.failed(run, error)
                raise
            hooks.benched(run, config, result, start, compiled)
            return result

        hooks = self
        return bench

    def _make_check(self, original: Any) -> Callable[..., Any]:
        def check_disk_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
            run = hooks.run_of(self)
            if run is None:
                return original(self, *args, **kwargs)
            run.on_disk = True
            try:
                is_hit = original(self, *args, **kwargs)
            except BaseException as error:
                hooks.failed(run, error)
                raise
            hooks.checked(run, bool(is_hit))
            return is_hit

        hooks = self
        return check_disk_cache

    def _make_error(self, original: Any) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            hooks.refused(self)

        hooks = self
        return init

    def now(self) -> int:
        """Return the time on the host clock."""
        return self._sink.clock()

    def compiles(self) -> int:
        """Return how many compiles the recording has."""
        return len(self._sink.compilations)

    def run_of(self, tuner: Any) -> TuningRun | None:
        """Return the run of an autotuner that is under way in this thread."""
        run = self._runs.get(get_ident()) if self.enabled else None
        return run if run is not None and run.tuner is tuner else None

    def begin(self, tuner: Any, kwargs: Mapping[str, Any]) -> TuningRun | None:
        """Begin a run, unless who calls is not about to tune."""
        try:
            if not _is_tuning():
                return None
            ident = get_ident()
            outer = self._runs.get(ident)
            while outer is not None and (outer.tuner is tuner or outer.count is None):
                outer = outer.outer  # it was given up: what it called raised
            run = TuningRun(tuner, _key(tuner, kwargs), self._sink.clock(), self.compiles(), outer)
            self._runs[ident] = run
            return run
        except Exception as problem:
            self._guard(problem)
            return None

    def chosen(self, run: TuningRun, configs: Any) -> None:
        """Note which configurations are tried, and which are not."""
        try:
            run.count = len(configs)
            kept = {id(each) for each in configs}
            run.pruned = [_described(each) for each in run.tuner.configs if id(each) not in kept]
        except Exception as problem:
            self._guard(problem)

    def benched(self, run: TuningRun, config: Any, result: Any, start: int, compiled: int) -> None:
        """Note the time of a configuration; write the run where it was the last."""
        try:
            times = [_milliseconds(each) for each in (result if isinstance(result, list | tuple) else [result])]
            row: dict[str, Any] = {**_described(config), "ms": times[0], "host_ns": self._sink.clock() - start,
                                   "compile_ns": self._compile_ns(compiled)}
            if len(times) > 2:
                row |= {"low_ms": times[1], "high_ms": times[2]}
            if row["ms"] is None:
                row["error"] = run.error or self._failed_compile(compiled)
            run.tried.append(row)
            if not run.on_disk and len(run.tried) == run.count:
                self._write(run, "miss")
        except Exception as problem:
            self._guard(problem)

    def checked(self, run: TuningRun, is_hit: bool) -> None:
        """Write a run whose results are kept on disk, or were there."""
        try:
            if is_hit:
                timings = run.tuner.configs_timings
                run.tried = [{**_described(config), "ms": _milliseconds(times[0] if isinstance(times, list) else times)}
                             for config, times in timings.items()]
            self._write(run, "disk" if is_hit else "miss")
        except Exception as problem:
            self._guard(problem)

    def failed(self, run: TuningRun, error: BaseException) -> None:
        """Write a run that raised, once."""
        try:
            if self._runs.get(get_ident()) is run:
                self._write(run, "failed", error)
        except Exception as problem:
            self._guard(problem)

    def refused(self, error: BaseException) -> None:
        """Note that a kernel needs more than the device has."""
        try:
            run = self._runs.get(get_ident()) if self.enabled else None
            if run is not None:
                run.error = error_text(error)
        except Exception as problem:
            self._guard(problem)

    def _write(self, run: TuningRun, outcome: str, error: BaseException | None = None) -> None:
        ident = get_ident()
        if run.outer is None:
            self._runs.pop(ident, None)
        else:
            self._runs[ident] = run.outer
        tuner, end = run.tuner, self._sink.clock()
        timed = [at for at, each in enumerate(run.tried) if each["ms"] is not None]
        attributes: dict[str, Any] = {
            "configurations": run.tried, "pruned": run.pruned,
            "best": None if outcome == "failed" else min(timed or range(len(run.tried)), default=None,
                                                         key=lambda at: run.tried[at]["ms"] or 0.0),
            "cache_results": bool(getattr(tuner, "cache_results", False)),
            "has_pre_hook": any(getattr(each, "pre_hook", None) is not None for each in tuner.configs),
        }
        if tuner not in self._noted:
            self._noted.add(tuner)
            attributes["before"] = _known(tuner, run.key)
        self._sink.builds.append({
            "thread_id": self._sink.state().thread_id, "framework": FRAMEWORK, "algorithm": _function(tuner).__name__,
            "dispatcher_id": self._rows.dispatcher(_function(tuner)),
            "start_ns": run.start, "end_ns": end, "build_ns": self._compile_ns(run.compiled), "outcome": outcome,
            "key_parts": json.dumps(run.key), "error": None if error is None else error_text(error),
            "attributes": json.dumps(attributes),
        })
        self._sink.flush()

    def _compile_ns(self, first: int) -> int:
        """Time in this thread's compiles and loads since there were `first` compiles."""
        return sum(row["end_ns"] - row["start_ns"] for row in self._mine(first))

    def _failed_compile(self, first: int) -> str | None:
        return next((row["error"] for row in reversed(self._mine(first)) if row["outcome"] == "failed"), None)

    def _mine(self, first: int) -> list[dict[str, Any]]:
        thread = self._sink.state().thread_id
        return [row for row in self._sink.compilations[first:] if row["thread_id"] == thread]

    def _guard(self, problem: Exception) -> None:
        """Swallow what is our own; raise what the user's signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(FRAMEWORK, problem)


def _is_tuning() -> bool:
    """Whether configurations are pruned for a launch, and not for a warm-up, which compiles all of them."""
    frame = sys._getframe(2)
    for _ in range(_MOST_FRAMES):
        if frame is None or frame.f_code.co_name == "warmup":
            return False
        if frame.f_code.co_name == "run":
            return True
        frame = frame.f_back
    return False


def _key(tuner: Any, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """The key that a launch is tuned for, as Triton makes it: values by argument name, and the arrays' dtypes."""
    given = {**tuner.nargs, **kwargs}
    arguments = {name: value for name, value in given.items() if name in tuner.arg_names}
    key = {name: _plain(arguments[name]) for name in tuner.keys if name in arguments}
    return key | {f"{name} dtype": str(value.dtype) for name, value in arguments.items() if hasattr(value, "dtype")}


def _known(tuner: Any, key: Mapping[str, str]) -> list[dict[str, str]]:
    """Earlier keys of an autotuner that have the same parts, the newest last."""
    found: list[dict[str, str]] = []
    for each in [*tuner.cache][-_MOST_KEYS:]:
        if len(each) == len(key):
            values = [value if " " in name else _plain(value) for name, value in zip(key, each, strict=True)]
            if values != [*key.values()]:
                found.append(dict(zip(key, map(str, values), strict=True)))
    return found


def _plain(value: Any) -> str:
    """A value of the key as text: what is no number, text or dtype may be large, or on the GPU, and has its type."""
    if value is None or isinstance(value, bool | int | float | str | tuple | frozenset):
        return value_text(value)
    is_dtype = type(value).__module__.partition(".")[0] in ("torch", "triton") and "dtype" in type(value).__name__
    return str(value) if is_dtype else type(value).__name__


def _described(config: Any) -> dict[str, Any]:
    """A ``triton.Config``: the constexprs that it gives, and its options."""
    options = {name: value for name, value in config.all_kwargs().items() if name not in config.kwargs}
    return {"arguments": {str(name): value_text(value) for name, value in config.kwargs.items()},
            "options": {name: value if isinstance(value, int) else value_text(value)
                        for name, value in options.items()}}


def _milliseconds(value: Any) -> float | None:
    """A time that a benchmark returned; None where there is none."""
    number = float(value)
    return number if 0 <= number < float("inf") else None


def _function(tuner: Any) -> Any:
    """The ``JITFunction`` under an autotuner, heuristics and what else is around it."""
    function = tuner.fn
    while not hasattr(function, "device_caches"):
        function = function.fn
    return function
