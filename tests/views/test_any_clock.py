"""What is said of a recording does not depend on where its host clock is zero: instants may be below zero, -1 or 0."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import perfetto_trace
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from everything import everything
from graph_stories import rebuilt, with_builds
from shown import OUTPUTS
from worker_recordings import on_gpu, worker

import kernelscope
import kernelscope.analysis
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.time import UNKNOWN_INSTANT, instants, is_known
from kernelscope.schema import INSTANTS, TABLES
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.charts import compile_time, gpu_busy, queue_and_execute, time_by_phase
from kernelscope.views.exports import exporters

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"


def two_workers() -> Recording:
    return merge([on_gpu(worker(1), ("kernel", "axpy", 1_060, 1_090), ("sync", "context", 1_060, 1_095)),
                  on_gpu(worker(2, start_ns=1_200), ("kernel", "ncclAllReduce", 1_250, 1_300))])


HANDMADE: dict[str, Callable[[], Recording]] = {
    "everything": everything, "rebuilt": lambda: rebuilt().recording(), "two_workers": two_workers,
    "builds": lambda: with_builds(rebuilt()).recording()}
#: The names of instants in what analyses return; they move with the clock.
MOVING = {*INSTANTS, "start", "end", "first_ns", "last_ns", "called", "returned", "edges_ns"}
TEXTS = ("card", "card_html", "listings", "inspector", "graphs")
#: Those of which traces of Perfetto's own format are read back, which takes long.
READ_BACK = ("everything", "rebuilt", "gpu")
#: Exporters whose files have no instants.
WITHOUT_INSTANTS = ("speedscope", "collapsed", "bmf", "pytest-benchmark")


@cache
def recording(name: str) -> Recording:
    return HANDMADE[name]() if name in HANDMADE else kernelscope.load(FOLDER / f"{name}.kscope")


def on_another_clock(recorded: Recording, by: int) -> Recording:
    """The recording of a clock that showed `by` nanoseconds more."""
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        table = recorded.arrow(name)
        for at, column in enumerate(table.column_names):
            if column in INSTANTS:
                times = [None if each is None else each + by for each in table.column(at).to_pylist()]
                table = table.set_column(at, table.schema.field(at), pa.array(times, pa.int64()))
        tables[name] = table
    metadata = dict(recorded.metadata)
    if isinstance(metadata.get("clock"), dict):
        metadata["clock"] = {**metadata["clock"], "host_ns": metadata["clock"]["host_ns"] + by}
    return Recording(tables, metadata)


def all_instants(recorded: Recording) -> np.ndarray:
    columns = [instants(recorded.arrow(name).column(each)) for name in TABLES for each in TABLES[name].names
               if each in INSTANTS]
    times = np.concatenate(columns)
    return np.unique(times[is_known(times)])


def in_the_middle(recorded: Recording, table: str, column: str) -> int:
    """An instant of the middle of a column."""
    times = instants(recorded.arrow(table).column(column))
    times = np.sort(times[is_known(times)])
    return int(times[len(times) // 2])


#: By name, how far clocks are apart.
SHIFTS: dict[str, Callable[[Recording], int]] = {
    "a little earlier": lambda each: -12_345,
    "all below zero": lambda each: -int(all_instants(each)[-1]) - 10**15,
    "far above zero": lambda each: 10**17,
    "the first at -1": lambda each: -int(all_instants(each)[0]) - 1,
    "the last at 0": lambda each: -int(all_instants(each)[-1]),
    "a launch's end at -1": lambda each: -in_the_middle(each, "launches", "end_ns") - 1,
    "a kernel's start at -1": lambda each: -in_the_middle(each, "activities", "start_ns") - 1,
    "a compile's end at 0": lambda each: -in_the_middle(each, "compilations", "end_ns"),
    "a build's end at 0": lambda each: -in_the_middle(each, "builds", "end_ns"),
    "a graph event's end at -1": lambda each: -in_the_middle(each, "graph_events", "end_ns") - 1,
    "a range's end at -1": lambda each: -in_the_middle(each, "ranges", "end_ns") - 1,
}
CASES = [
    *(("everything", each) for each in SHIFTS if not each.startswith(("a build", "a graph"))),
    ("gpu", "all below zero"), ("gpu", "a kernel's start at -1"), ("rebuilt", "a graph event's end at -1"),
    ("builds", "a build's end at 0"), ("two_workers", "the first at -1"),
    ("two_workers", "a kernel's start at -1"), ("triton_autotune", "a build's end at 0"),
    ("triton_compiles", "a compile's end at 0")]
#: Further recordings.
MORE = [(name, shift) for shift in ("all below zero", "the last at 0") for name in (
    "counters", "cuda_compute", "graphs", "lines_training", "quadrants", "stalls", "threads", "torch_compile",
    "torch_training")]


def leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """The path, the last name in it, and the value of everything that is in an object."""
    if isinstance(value, Recording):
        yield from leaves({table: value.arrow(table) for table in TABLES}, path)
    elif isinstance(value, pa.Table):
        for column in value.column_names:
            yield f"{path}.{column}", column, value.column(column).to_pylist()
    elif isinstance(value, pd.DataFrame):
        for column in value.columns:
            values = value[column].astype(object).where(value[column].notna(), None)
            yield f"{path}[{column}]", str(column), values.tolist()
    elif isinstance(value, np.ndarray):
        yield path, name, value
    elif isinstance(value, Mapping):
        yield f"{path} keys", "", [*map(str, value)]
        for key, each in value.items():
            yield from leaves(each, f"{path}[{key!r}]", str(key))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name != "recording":
                yield from leaves(getattr(value, field.name), f"{path}.{field.name}", field.name)
    elif isinstance(value, Iterator) or (isinstance(value, Sequence) and not isinstance(value, str)):
        rows = list(value)
        yield f"{path} count", "", len(rows)
        for at, each in enumerate(rows):
            yield from leaves(each, f"{path}[{at}]", name)
    else:
        yield path, name, value


def assert_same(before: Any, after: Any, by: int) -> None:
    """Both say the same, with instants that are `by` later."""
    for (path, name, one), (other_path, _, other) in zip(leaves(before), leaves(after), strict=True):
        assert path == other_path
        assert _is_same(one, other, by if name in MOVING else 0), (path, one, other)


def _is_same(one: Any, other: Any, by: int) -> bool:
    if isinstance(one, np.ndarray) and one.dtype.kind == "i":
        one, other = (np.where(each == UNKNOWN_INSTANT, None, each.astype(object) - more)
                      for each, more in ((one, 0), (other, by)))
    elif isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    elif isinstance(one, list) and by:
        other = [None if each is None else each - by for each in other]
    elif type(one) is int and by:
        other -= by
    elif isinstance(one, float) and one != one:
        return other != other
    elif not isinstance(one, int | float | str | list | None):
        return repr(one) == repr(other)
    return bool(np.all(one == other)) if isinstance(one, np.ndarray) else one == other


def analyses() -> dict[str, Callable[[Recording], Any]]:
    """Every public function of `kernelscope.analysis` that needs nothing but a recording."""
    found: dict[str, Callable[[Recording], Any]] = {}
    for each in pkgutil.iter_modules(kernelscope.analysis.__path__):
        module = importlib.import_module(f"kernelscope.analysis.{each.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            first, *others = [*inspect.signature(function).parameters.values(), None]
            is_own = function.__module__ == module.__name__ and not name.startswith("_")
            if is_own and first is not None and first.name == "recording" and all(
                    one is None or one.default is not one.empty for one in others):
                found[f"{each.name}.{name}"] = function
    return found


def chrome_events(recorded: Recording, folder: Path) -> str:
    """Events of a trace of Chrome's JSON, whose times are microseconds after that of the clock."""
    content = json.loads(recorded.to_perfetto(folder / "trace.json").read_text(encoding="utf-8"), parse_float=Decimal)
    events = [{**each, "ts": int(1000 * each["ts"])} if "ts" in each else each for each in content["traceEvents"]]
    zero = min(each["ts"] for each in events if "ts" in each)
    zero = content["otherData"]["clock"].get("host_ns", zero)
    assert zero >= 0
    return "\n".join(str({**each, "ts": each["ts"] - zero} if "ts" in each else each) for each in events)


def perfetto_slices(recorded: Recording, folder: Path) -> str:
    """Slices of a trace of Perfetto's own format, with times that are nanoseconds after that of the clock."""
    found = perfetto_trace.read(recorded.to_perfetto(folder / "trace.pftrace").read_bytes())
    hosts = [each.clocks[0].timestamp for each in found.snapshots if not any(one.is_incremental for one in each.clocks)
             and each.clocks]
    zero = hosts[0] if hosts else min(each.start for each in found.slices)
    return "\n".join(str((each.track, each.name, each.category, each.start - zero, each.end and each.end - zero,
                          each.instant, each.arguments, each.flows, each.arriving)) for each in found.slices)


@cache
def outputs(name: str, by: int, folder: Path) -> dict[str, Any]:
    recorded = recording(name)
    recorded = on_another_clock(recorded, by) if by else recorded
    made: dict[str, Any] = {each: function(recorded) for each, function in analyses().items()}
    made |= {each: OUTPUTS[each](recorded, folder) for each in TEXTS}
    made["timeline"] = [each for each in OUTPUTS["timeline"](recorded, folder).split("\n")
                        if not each.startswith("t0_ns")]
    made["answer"] = recording_answer(recorded)
    made["charts"] = [each(recorded).to_plotly_json() for each in (
        compile_time, gpu_busy, queue_and_execute, time_by_phase)]
    made["chrome"] = chrome_events(recorded, folder)
    if name in READ_BACK:
        made["perfetto"] = perfetto_slices(recorded, folder)
    for each in WITHOUT_INSTANTS:
        try:
            made[each] = exporters()[each].write(recorded, folder / each).read_text(encoding="utf-8")
        except kernelscope.KernelScopeError as error:
            made[each] = str(error)
    return made


@pytest.mark.parametrize(("name", "shift"), [
    *CASES, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)], ids=lambda each: each)
def test_what_is_said_is_the_same_on_any_clock(name: str, shift: str, tmp_path_factory: pytest.TempPathFactory,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    by = SHIFTS[shift](recording(name))
    folder = tmp_path_factory.getbasetemp()
    before, after = outputs(name, 0, folder), outputs(name, by, folder)
    assert before.keys() == after.keys() and len(analyses()) > 60
    for each in before:
        assert_same({each: before[each]}, {each: after[each]}, by)


def test_of_exported_tables_nothing_but_instants_differs(tmp_path: Path) -> None:
    recorded = everything()
    by = SHIFTS["a launch's end at -1"](recorded)
    found: list[dict[str, Any]] = []
    for at, each in enumerate((recorded, on_another_clock(recorded, by))):
        parquet, csv = each.to_parquet(tmp_path / f"{at}-parquet"), each.to_csv(tmp_path / f"{at}-csv")
        found.append({path.name: pq.read_table(path) for path in sorted(parquet.glob("*.parquet"))} | {
            path.name: pd.read_csv(path, dtype=dict.fromkeys(INSTANTS, "Int64")) for path in sorted(csv.glob("*.csv"))})
    assert len(found[0]) == 2 * len(TABLES)
    assert_same(*found, by)
