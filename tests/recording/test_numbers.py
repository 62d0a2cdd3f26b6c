"""Numbers that no recorder writes are refused, and whatever loads can be shown."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from everything import everything

from kernelscope.analysis.compiles import compile_ns
from kernelscope.analysis.gpu import gpu_summary
from kernelscope.analysis.graphs import graph_runs
from kernelscope.analysis.launches import PHASES, by_cell, phase_totals
from kernelscope.commands.inspect import inspect
from kernelscope.errors import RecordingFileError
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.file import encode, load, save
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.schema import INSTANTS, REFERENCES, TABLES, Column
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_card, cells_text
from kernelscope.views.charts import compile_time, gpu_busy, queue_and_execute, time_by_phase
from kernelscope.views.timeline.widget import timeline

Rows = dict[str, list[dict[str, Any]]]

NUMBERS = [(table, column) for table in TABLES.values() for column in table.columns
           if column.dtype in ("int32", "int64", "float64")]
RECORDINGS = sorted((Path(__file__).parents[2] / "notebooks" / "recordings").glob("*.kscope"))
BITS = {"int32": 31, "int64": 63}


def _hostile(column: Column) -> list[float]:
    """What the column's type can hold and no recorder writes into it."""
    assert column.low is not None and column.high is not None
    if column.dtype == "float64":
        return [math.nan, math.inf, -math.inf, column.low - 0.5, column.high * 1.5]
    low, high = -(2 ** BITS[column.dtype]), 2 ** BITS[column.dtype] - 1
    return [value for value in (low, column.low - 1, column.high + 1, high)
            if low <= value <= high and not column.low <= value <= column.high]


def _with(recording: Recording, table: str, column: str, values: list[Any]) -> Recording:
    held = recording.arrow(table)
    at = held.schema.get_field_index(column)
    field = held.schema.field(at)
    made = held.set_column(at, field, pa.array(values, field.type))
    return Recording({**{name: recording.arrow(name) for name in TABLES}, table: made}, recording.metadata)


def test_every_column_of_numbers_has_a_range_and_no_other_has() -> None:
    for table in TABLES.values():
        for column in table.columns:
            is_number = column.dtype in ("int32", "int64", "float64")
            assert (column.low is not None) == (column.high is not None) == is_number, (table.name, column.name)
            assert not is_number or _hostile(column)


@pytest.mark.parametrize("table", sorted({table.name for table, _ in NUMBERS}))
def test_what_no_recorder_writes_is_refused_and_the_ends_of_a_range_are_in_it(table: str, full: Recording) -> None:
    for column in [column for of, column in NUMBERS if of.name == table]:
        values = full.arrow(table).column(column.name).to_pylist()
        for value in _hostile(column):
            made = _with(full, table, column.name, [*values[:-1], value])
            with pytest.raises(RecordingFileError, match=rf"^column {table}\.{column.name} has {re.escape(str(value))} "
                                                         rf"in row {len(values) - 1}\b"):
                check_tables({name: made.arrow(name) for name in TABLES})
        if column.name == TABLES[table].key or column.name in REFERENCES or table == "graphs" or column.name == "body":
            continue  # they name or count rows
        assert column.low is not None and column.high is not None
        for value in [column.low, column.high] if column.name != "start_ns" else [column.low]:
            # The first row, so that what is ordered by its start stays so.
            value = float(value) if column.dtype == "float64" else value
            made = _with(full, table, column.name, [value, *values[1:]])
            check_tables({name: made.arrow(name) for name in TABLES})


@pytest.mark.parametrize(("table", "column", "value"), [
    ("configurations", "griddim_y", -1), ("launches", "end_ns", 2**62), ("health", "cost_ns", math.nan)])
def test_such_numbers_are_refused_when_read_and_when_written(
        table: str, column: str, value: Any, full: Recording, path: Path, tmp_path: Path,
        rewrite: Callable[..., None]) -> None:
    hostile = _with(full, table, column, [value, *full.arrow(table).column(column).to_pylist()[1:]])
    message = rf"column {table}\.{column} has {re.escape(str(value))} in row 0\b"
    rewrite(path, **{table: bytes(encode(table, hostile.arrow(table)))})
    with pytest.raises(RecordingFileError, match=rf"^demo\.kscope: {message}"):
        load(path)
    with pytest.raises(RecordingFileError, match=rf"^other\.kscope was not written: {message}"):
        save(hostile, tmp_path / "other.kscope")
    assert not (tmp_path / "other.kscope").exists()


def test_times_that_add_up_to_too_much_are_refused(rows: Rows, recording_of: Callable[..., Recording]) -> None:
    rows["passes"] *= 5
    for row in rows["passes"]:
        row["duration_ns"] = 2**61
    recording = recording_of(rows)
    with pytest.raises(RecordingFileError, match=r"^column passes\.duration_ns adds up to more than \d+; it is "
                                                 rf"{2**61} in row 0$"):
        check_tables({name: recording.arrow(name) for name in TABLES})
    rows["passes"] = rows["passes"][:1]
    rows["api_calls"] = [{**rows["api_calls"][0], "api_call_id": at, "start_ns": -(2**60), "end_ns": 2**60 + at}
                         for at in range(3)]
    recording = recording_of(rows)
    with pytest.raises(RecordingFileError, match=r"^table 'api_calls': end_ns - start_ns adds up to more than \d+; it "
                                                 rf"is {2**61 + 2} in row 2$"):
        check_tables({name: recording.arrow(name) for name in TABLES})


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_recording_of_a_real_gpu_and_its_copy_of_another_clock_say_twice_as_much(file: Path, tmp_path: Path) -> None:
    recording = load(file)
    # As of a machine whose clock began decades later: its times are before 0.
    moved = Recording({name: recording.arrow(name) for name in TABLES}, {
        **recording.metadata, "clock": {"host_ns": 0, "wall_ns": 0, "error_ns": 0}})
    for order in ([recording, moved], [moved, recording]):
        merged = load(save(merge(order), tmp_path / "merged.kscope"))
        assert (merged.column("cells", "start_ns")[0] < 0) == (order[0] is recording)
        found, of_one = _amounts(merged), _amounts(recording)
        assert found == {name: 2 * amount for name, amount in of_one.items()}
        gpu, of_gpu = gpu_summary(merged), gpu_summary(recording)
        if gpu is not None and of_gpu is not None:
            assert [each.share for each in gpu.busy] == [each.share for each in of_gpu.busy]
            assert [each.dominant for each in gpu.idle] == [each.dominant for each in of_gpu.idle]
        assert [cell.wall_ns for cell in by_cell(merged)] == 2 * [cell.wall_ns for cell in by_cell(recording)]


def _amounts(recording: Recording) -> dict[str, int]:
    """Times that add up where recordings are merged: of launches, cells, compiles, graphs and the GPU, by name."""
    host, gpu, runs = phase_totals(recording), gpu_summary(recording), graph_runs(recording)
    found: dict[str, int] = {f"{name} of launches": value for name in ("host", *PHASES)
                             if (value := host.host_ns if name == "host" else host.phase(name)) is not None}
    found |= {"launches": recording.arrow("launches").num_rows, "compiles": compile_ns(recording),
              "graph launches": len(runs), "graphs": int(runs.execute.sum()),
              "cells": sum(cell.wall_ns or 0 for cell in by_cell(recording))}
    for each in () if gpu is None else gpu.busy:
        found |= {f"window of {each.device_id}": each.window_ns, f"busy of {each.device_id}": each.busy_ns}
    for each in () if gpu is None else gpu.idle:
        found |= {f"idle in {state} of {each.device_id}": spent for state, spent in each.by_state.items()}
    return found


def test_a_launch_that_no_gpu_can_make_is_recorded_without_the_impossible_numbers(tmp_path: Path) -> None:
    raw = RawRecording(
        threads=[{"ident": 2**64, "name": "MainThread"}],
        configurations=[{"griddim_x": -1, "griddim_y": 2**31, "griddim_z": 2**70, "blockdim_x": 32, "blockdim_y": 1,
                         "blockdim_z": 1, "sharedmem_bytes": -5, "stream": 0}],
        health=[{"probe": "numba-cuda", "status": "ok", "dropped": -1}])
    recording = load(save(build(raw), tmp_path / "odd.kscope"))
    row = recording.rows("configurations")[0]
    assert [row[f"griddim_{axis}"] for axis in "xyz"] == [None] * 3
    assert (row["blockdim_x"], row["sharedmem_bytes"]) == (32, None)
    assert recording.rows("threads")[0]["ident"] == TABLES["threads"].column("ident").high
    assert recording.rows("health")[0]["dropped"] is None
    assert recording.rows("health")[1]["message"] == (
        f"values that cannot be were left out: threads.ident {2**64}, configurations.griddim_x -1, "
        f"configurations.griddim_y {2**31} and 3 more")


def _views(recording: Recording, folder: Path) -> Iterator[Callable[[], object]]:
    yield recording._repr_html_
    yield recording.summary
    yield lambda: launches_table(recording)
    yield lambda: (cells_text([recording]), cells_card([recording]))
    yield lambda: recording.specializations
    yield recording.by_range
    yield lambda: recording.to_html(folder / "page.html")
    yield lambda: recording.to_perfetto(folder / "trace.json")
    yield lambda: recording.to_perfetto(folder / "trace.pftrace")
    yield lambda: recording.to_csv(folder / "csv")
    yield timeline(recording).static_version
    yield inspect(recording).static_version
    yield lambda: [each(recording) for each in (time_by_phase, compile_time, queue_and_execute, gpu_busy)]
    yield lambda: merge([recording, recording]).summary()


def _odd(recording: Recording, chance: random.Random) -> Recording:
    """The recording with numbers that are allowed and that no recorder has ever written, as far as it still loads."""
    for table, column in chance.sample(NUMBERS, 80):
        values = recording.arrow(table.name).column(column.name).to_pylist()
        if not values or column.name == TABLES[table.name].key:
            continue
        assert column.low is not None and column.high is not None
        some = [column.low, column.high, column.high // 2, -1, 0, 1, 2**31, 2**53]
        some = [each for each in some if column.low <= each <= column.high and column.name not in REFERENCES]
        some += [None] * column.nullable
        if some:
            share = chance.choice([0.3, 1.0])
            if column.dtype == "float64":
                some = [None if each is None else float(each) for each in some]
            odd = [chance.choice(some) if chance.random() < share else value for value in values]
            if column.name in INSTANTS and None not in odd and chance.random() < 0.5:
                odd.sort()
            made = _with(recording, table.name, column.name, odd)
            try:
                check_tables({name: made.arrow(name) for name in TABLES})
            except RecordingFileError:
                continue
            recording = made
    return recording


@pytest.mark.parametrize("seed", range(4))
def test_whatever_loads_can_be_shown(seed: int, full: Recording, tmp_path: Path) -> None:
    chance = random.Random(seed)
    odd = _odd(everything(1) if seed % 2 else full, chance)
    clock = {name: chance.choice([-2**61, -1, 0, 2**61]) for name in ("host_ns", "wall_ns") if chance.random() < 0.8}
    clock["error_ns"] = chance.choice([None, 0, 0.5, 2**61])
    odd = Recording({name: odd.arrow(name) for name in TABLES}, {**odd.metadata, "clock": clock})
    recording = load(save(odd, tmp_path / "odd.kscope"))
    for view in _views(recording, tmp_path):
        view()
