"""Runs of an autotuner: what was tried, what was chosen, what it cost, and why it was needed again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.columns import (
    codes,
    count_by,
    data_frame,
    ids,
    instants,
    ints,
    items,
    json_object,
    mapping,
    matches,
    row_count,
    sum_by,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns, is_known, row_duration_ns, row_end_ns
from kernelscope.schema import UNKNOWN
from kernelscope.units import listed

if TYPE_CHECKING:
    import pandas as pd

# A run of an autotuner is a row of ``builds`` that names a kernel function. The codes of its causes:
#
# ``first_use``
#     No key of the kernel is known to be tuned.
# ``new_key``, ``new_dtype``
#     An argument that the key names has another value; an array is of another dtype, which every key has.
# ``redefined``
#     The definition ran again, which makes an autotuner that knows nothing.
# ``disk``
#     Nothing was tried: the results were on disk.
# ``unknown``
#     The same key was tuned before.

#: Ends the name of a part of a key that is the dtype of an array.
DTYPE = " dtype"
_NUMBER = re.compile(r"-?\d+")
_MOST = 3


#: Names of kernels that do nothing but fill memory, as torch's ``zero_()`` and ``fill_()`` launch them.
_FILLS = re.compile("FillFunctor|fill_kernel|memset", re.IGNORECASE)


@dataclass(frozen=True)
class TuningGpu:
    """What the GPU did for a run of an autotuner: sums of durations, in nanoseconds.

    Attributes
    ----------
    trials_ns : int
        Kernels of the function that is tuned.
    flush_ns : int
        Memsets and kernels that fill memory. A benchmark empties the GPU's L2 cache with them before each trial, as
        `triton.testing.do_bench` does; arrays that a configuration resets are among them.
    others_ns : int
        Copies and other kernels.
    """

    trials_ns: int
    flush_ns: int
    others_ns: int

    @property
    def total_ns(self) -> int:
        """Return all of it."""
        return self.trials_ns + self.flush_ns + self.others_ns


@dataclass(frozen=True)
class Trial:
    """One configuration that an autotuner had to choose from.

    Attributes
    ----------
    label : str
        What it is, as in ``BLOCK=128 num_warps=4``: options that are the same in all are left out, but for num_warps.
    arguments, options : mapping
        The constexprs that it gives, and ``num_warps`` and other options.
    ms : float or None
        How long the kernel took with it, in milliseconds, as the benchmark returned it; None where it failed.
    host_ns, compile_ns : int or None
        Host time of the benchmark, and of that in compiles; None where the result was on disk.
    error : str or None
        What it failed with.
    """

    label: str
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    ms: float | None
    host_ns: int | None
    compile_ns: int | None
    error: str | None


@dataclass(frozen=True)
class Tuning:
    """One run of an autotuner.

    Attributes
    ----------
    build_id, dispatcher_id : int
        Its row in ``builds``, and the kernel.
    cell_id : int or None
        The cell that ran.
    name : str
        The kernel's name.
    key : mapping of str to str
        What it was tuned for: values of arguments by name, and dtypes of arrays, as ``x dtype``.
    outcome : str
        miss (it was tuned), disk, or failed.
    trials : tuple of Trial
        The configurations that were tried, in order.
    best : Trial or None
        The one that was chosen.
    pruned : tuple of Trial
        Those that were not tried.
    launches : int
        Launches of the benchmarks, those of other kernels between them included.
    compiles, disk_hits : int
        Compiles in these, and loads from the compiler's disk cache.
    duration_ns, compile_ns : int
        Host time of the run, and of that in compiles.
    keeps_results, has_pre_hook : bool
        Whether results are kept on disk, and whether a configuration has a hook, which keeps them from it.
    reason_code, reason, fix, error : str or None
        Why it was needed, what would avoid it, and what it raised.
    differing : tuple of str
        The parts of the key that are new, against the nearest that is known.
    gpu : TuningGpu or None
        What the GPU did for it; None where that was not recorded.
    """

    build_id: int
    dispatcher_id: int
    cell_id: int | None
    name: str
    key: Mapping[str, str]
    outcome: str
    trials: tuple[Trial, ...]
    best: Trial | None
    pruned: tuple[Trial, ...]
    launches: int
    compiles: int
    disk_hits: int
    duration_ns: int
    compile_ns: int
    keeps_results: bool
    has_pre_hook: bool
    reason_code: str | None
    reason: str | None
    fix: str | None
    error: str | None
    differing: tuple[str, ...]
    gpu: TuningGpu | None = None

    @property
    def failed(self) -> int:
        """Return how many of the configurations that were tried failed."""
        return sum(each.ms is None for each in self.trials)

    @property
    def next_best(self) -> Trial | None:
        """Return the second fastest configuration; None where there is none."""
        others = [each for each in self.trials if each.ms is not None and each is not self.best]
        return min(others, key=lambda each: each.ms or 0.0, default=None)

    @property
    def bench_ns(self) -> int:
        """Return the time without compiles."""
        return max(self.duration_ns - self.compile_ns, 0)

    @property
    def key_text(self) -> str:
        """Return the values of the key as text, ``M=1024, N=512``; without dtypes."""
        return key_text(self.key)


def tunings(recording: Recording) -> list[Tuning]:
    """Return every run of an autotuner, in order of start."""
    rows = [row for row in recording.rows("builds") if row["dispatcher_id"] is not None]
    if not rows:
        return []
    size = row_count(recording, "builds")
    launches = count_by(ids(recording, "launches", "build_id"), size)
    asked_by = asking_runs(recording)
    counts = {word: [0] * size for word in ("compiled", "disk")}
    for word, counted in counts.items():
        for at, is_so in zip(asked_by, matches(recording, "compilations", "outcome", word).tolist(), strict=True):
            if is_so and at >= 0:
                counted[at] += 1
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    on_gpu = tuning_gpu(recording)
    found: list[Tuning] = []
    for row in rows:
        attributes, at = json_object(row["attributes"]), int(row["build_id"])
        held = [mapping(each) for each in items(attributes.get("configurations"))]
        left_out = [mapping(each) for each in items(attributes.get("pruned"))]
        tried = _trials(held, [*held, *left_out])
        best = attributes.get("best")
        differing = row["differing_parts"]
        found.append(Tuning(
            at, row["dispatcher_id"], row["cell_id"], names[row["dispatcher_id"]],
            {str(name): str(text) for name, text in json_object(row["key_parts"]).items()}, str(row["outcome"]),
            tried, tried[best] if isinstance(best, int) and 0 <= best < len(tried) else None,
            _trials(left_out, [*held, *left_out]), int(launches[at]), counts["compiled"][at], counts["disk"][at],
            row_duration_ns(row) or 0, row["build_ns"] or 0,
            attributes.get("cache_results") is True, attributes.get("has_pre_hook") is True,
            row["reason_code"], row["reason"], row["fix"], row["error"],
            tuple(differing.split(", ")) if differing else (), on_gpu.get(at)))
    return found


def tuning_gpu(recording: Recording) -> dict[int, TuningGpu]:
    """Return what the GPU did for each run of an autotuner, by its ``build_id``: empty where that was not recorded.

    What a run's launches started is its, and what other calls on its thread started while it lasted.
    """
    rows = [row for row in recording.rows("builds") if row["dispatcher_id"] is not None]
    count = row_count(recording, "activities")
    if not rows or not count:
        return {}
    launch = ids(recording, "activities", "launch_id")
    run = np.append(ids(recording, "launches", "build_id"), UNKNOWN)[launch].astype(np.int64)
    asked, start, end = instants(recording, "activities", "submit_start_ns", "start_ns", "end_ns")
    thread = ints(recording, "activities", "thread_id")
    alone = np.flatnonzero((launch < 0) & is_known(asked))
    alone = alone[np.argsort(asked[alone], kind="stable")]
    for row in rows:
        if row["end_ns"] is not None:
            inside = alone[slice(*np.searchsorted(asked[alone], (row["start_ns"], row["end_ns"])))]
            run[inside[thread[inside] == row["thread_id"]]] = row["build_id"]
    spent = duration_ns(start, end)
    chosen = np.flatnonzero((run >= 0) & (spent >= 0))
    kernel = np.append(ids(recording, "launches", "dispatcher_id"), UNKNOWN)[launch[chosen]]
    made = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)[
        ints(recording, "activities", "specialization_id")[chosen]]
    kernel = np.where(kernel >= 0, kernel, made)
    name, names = codes(recording, "activities", "name")
    fills = np.array([*(bool(_FILLS.search(each)) for each in names), False])[name[chosen]]
    is_memset, is_wait = (matches(recording, "activities", "kind", kind)[chosen] for kind in ("memset", "sync"))
    spent, run = spent[chosen], run[chosen]
    tuned = np.full(row_count(recording, "builds"), UNKNOWN)
    for row in rows:
        tuned[row["build_id"]] = row["dispatcher_id"]
    is_trial = kernel == tuned[run]
    is_flush = ~is_trial & (fills | is_memset)
    of_run = [sum_by(np.where(which & ~is_wait, run, UNKNOWN), spent, len(tuned)).tolist()
              for which in (is_trial, is_flush, ~is_trial & ~is_flush)]
    return {int(row["build_id"]): TuningGpu(*(times[row["build_id"]] for times in of_run)) for row in rows}


def tuned_for(recording: Recording) -> dict[int, str]:
    """Return what was tuned for, as ``M=1024, N=512``, by the compiles that an autotuner's benchmarks asked for."""
    keys = {int(row["build_id"]): key_text(json_object(row["key_parts"])) for row in recording.rows("builds")
            if row["dispatcher_id"] is not None}
    if not keys:
        return {}
    return {at: keys[run] for at, run in enumerate(asking_runs(recording)) if run in keys}


def asking_runs(recording: Recording) -> list[int]:
    """Return the ``build_id`` of the run whose benchmarks asked for each compile; -1 where none did."""
    of_launch, asked_by = ids(recording, "launches", "build_id"), ids(recording, "compilations", "launch_id")
    return [int(of_launch[launch]) if launch >= 0 else UNKNOWN for launch in asked_by.tolist()]


def key_text(key: Mapping[str, Any]) -> str:
    """Return the values of a key as text, ``M=1024, N=512``; without dtypes."""
    return ", ".join(f"{name}={value}" for name, value in key.items() if not name.endswith(DTYPE))


def _trials(rows: Sequence[Mapping[str, Any]], together: Sequence[Mapping[str, Any]]) -> tuple[Trial, ...]:
    """Read configurations; `together` are all that the label has to tell one of them from."""
    texts = [{str(name): str(value) for name, value in mapping(each.get("options")).items()} for each in together]
    told = {name for each in texts for name in each if name == "num_warps" or any(
        other.get(name) != each[name] for other in texts)}
    return tuple(_trial(each, told) for each in rows)


def _trial(row: Mapping[str, Any], told: set[str]) -> Trial:
    arguments, options = mapping(row.get("arguments")), mapping(row.get("options"))
    named = {**arguments, **{name: value for name, value in options.items() if name in told}}
    ms, error = row.get("ms"), row.get("error")
    host, compiling = (each if isinstance(each, int) else None for each in (row.get("host_ns"), row.get("compile_ns")))
    return Trial(" ".join(f"{name}={value}" for name, value in named.items()), arguments, options,
                 float(ms) if isinstance(ms, int | float) else None, host, compiling,
                 str(error) if error is not None else None)


def tuning_table(recording: Recording) -> pd.DataFrame:
    """Return `tunings` as a DataFrame, one row a run.

    Its columns are ``build_id``, ``cell_id``, ``kernel``, ``key``, ``outcome``, ``configurations`` (tried), ``failed``,
    ``pruned``, ``best``, ``best_ms``, ``next_ms``, ``duration_ns``, ``compile_ns``, ``bench_ns``, ``launches``,
    ``gpu_trials_ns``, ``gpu_flush_ns``, ``gpu_others_ns``, ``reason_code``, ``reason``, ``fix`` and ``error``.
    """
    texts = ("reason_code", "reason", "fix", "error")
    return data_frame(tunings(recording), {
        "build_id": "Int64", "cell_id": "Int64", "kernel": "object", "key": "object", "outcome": "object",
        **dict.fromkeys(("configurations", "failed", "pruned"), "Int64"), "best": "object", "best_ms": "Float64",
        "next_ms": "Float64", **dict.fromkeys(("duration_ns", "compile_ns", "bench_ns", "launches"), "Int64"),
        **dict.fromkeys(("gpu_trials_ns", "gpu_flush_ns", "gpu_others_ns"), "Int64"),
        **dict.fromkeys(texts, "object"),
    }, {"kernel": "name", "key": "key_text", "configurations": lambda each: len(each.trials),
        "pruned": lambda each: len(each.pruned), "best": "best.label", "best_ms": "best.ms",
        "next_ms": "next_best.ms", "gpu_trials_ns": "gpu.trials_ns", "gpu_flush_ns": "gpu.flush_ns",
        "gpu_others_ns": "gpu.others_ns"})


def trial_table(recording: Recording) -> pd.DataFrame:
    """Return every configuration that `tunings` have tried or pruned as a DataFrame.

    Its columns are ``build_id``, ``kernel``, ``key``, ``configuration``, ``ms``, ``is_best``, ``is_pruned``,
    ``host_ns``, ``compile_ns`` and ``error``.
    """
    rows = [(run, trial, is_pruned) for run in tunings(recording)
            for is_pruned, part in ((False, run.trials), (True, run.pruned)) for trial in part]
    return data_frame(rows, {
        "build_id": "Int64", "kernel": "object", "key": "object", "configuration": "object", "ms": "Float64",
        "is_best": "bool", "is_pruned": "bool", "host_ns": "Int64", "compile_ns": "Int64", "error": "object",
    }, {"build_id": lambda row: row[0].build_id, "kernel": lambda row: row[0].name,
        "key": lambda row: row[0].key_text, "configuration": lambda row: row[1].label, "ms": lambda row: row[1].ms,
        "is_best": lambda row: row[1] is row[0].best, "is_pruned": lambda row: row[2],
        "host_ns": lambda row: row[1].host_ns, "compile_ns": lambda row: row[1].compile_ns,
        "error": lambda row: row[1].error})


# Why a run was needed.

@dataclass
class _Autotuner:
    """What one kernel function's autotuner is known to have tuned, the latest last, with the run where it is known."""

    row: Mapping[str, Any]
    known: list[tuple[Mapping[str, str], int | None]] = field(
        default_factory=list[tuple[Mapping[str, str], "int | None"]])


def reasons(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return the columns of a reason for each run of an autotuner that has none, by its row in ``builds``.

    These are ``nearest_build_id``, ``differing_parts``, ``reason_code``, ``reason`` and ``fix``.
    """
    runs = [row for row in recording.rows("builds") if row["dispatcher_id"] is not None]
    if not runs:
        return {}
    kernels = recording.rows("dispatchers")
    known: dict[int, _Autotuner] = {}
    found: dict[int, dict[str, Any]] = {}
    for row in sorted(runs, key=row_end_ns):
        kernel, attributes = int(row["dispatcher_id"]), json_object(row["attributes"])
        own = known.setdefault(kernel, _Autotuner(kernels[kernel]))
        own.known[:0] = [({str(name): str(text) for name, text in mapping(each).items()}, None)
                         for each in items(attributes.get("before"))]
        key = {str(name): str(text) for name, text in json_object(row["key_parts"]).items()}
        if row["reason_code"] is None:
            found[int(row["build_id"])] = _reason(row, attributes, key, own, known.values())
        if row["outcome"] != "failed":
            own.known.append((key, int(row["build_id"])))
    return found


def _reason(row: Mapping[str, Any], attributes: Mapping[str, Any], key: Mapping[str, str], own: _Autotuner,
            others: Iterator[_Autotuner] | Any) -> dict[str, Any]:
    if row["outcome"] == "disk":
        return _columns("disk", "not tuned: the results were on disk", None)
    if not own.known:
        same = [each for each in others if each is not own and each.known
                and all(each.row[name] == own.row[name] for name in ("module", "name"))]
        if not same:
            return _columns("first_use", "no key of it is known to be tuned", None)
        if same[-1].row["code_sha256"] != own.row["code_sha256"]:
            return _columns("redefined", "the definition ran again with new source, which has to be tuned", None)
        # What keeps results for the next process; nothing where Triton cannot.
        fix = None if attributes.get("has_pre_hook") or attributes.get("cache_results") else KEEP
        return _columns("redefined", "the definition ran again, and its autotuner knows nothing of what was tuned "
                        "before", "keep the definition out of the cell, loop or function that runs again"
                        + (f"; or {fix}" if fix else ""))
    nearest, number = min(reversed(own.known), key=lambda each: len(differing(key, each[0])))
    names = differing(key, nearest)
    if not names:
        return _columns("unknown", "the same key was tuned before: by another thread at the same time, or the "
                        "autotuner's cache was cleared", None, number)
    first = names[0]
    told = [f"`{name.removesuffix(DTYPE)}` is {key.get(name)}" for name in names[:_MOST]]
    sentence = (f"{listed(told, more=len(names) - _MOST)}; the nearest key that was tuned has "
                f"{listed([str(nearest.get(name)) for name in names[:_MOST]])}")
    if first.endswith(DTYPE):
        return _columns("new_dtype", sentence, "keep to one dtype: each key of an autotuner has the dtypes of all "
                        "arrays", number, names)
    return _columns("new_key", sentence, _fix(names, key), number, names)


def _columns(code: str, sentence: str, fix: str | None, nearest: int | None = None,
             names: Sequence[str] = ()) -> dict[str, Any]:
    return {"nearest_build_id": nearest, "differing_parts": ", ".join(names) or None, "reason_code": code,
            "reason": sentence, "fix": fix}


def differing(key: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the parts in which two keys differ, values before dtypes."""
    names = [name for name in dict.fromkeys((*key, *other)) if key.get(name) != other.get(name)]
    return tuple(sorted(names, key=lambda name: name.endswith(DTYPE)))


#: What keeps the results of tuning.
KEEP = "triton.autotune(..., cache_results=True) keeps the results on disk"


def _fix(names: Sequence[str], key: Mapping[str, str]) -> str:
    values = [name for name in names if not name.endswith(DTYPE)]
    several = listed([f"`{name}`" for name in values[:_MOST]])
    if all(_NUMBER.fullmatch(key.get(name, "")) for name in values):
        first = values[0]
        return (f"leave {several} out of key=[...] where one configuration does for all values; or name an argument of "
                f"its own there, such as triton.next_power_of_2({first}), which changes less often")
    return f"leave {several} out of key=[...] where one configuration does for all values"
