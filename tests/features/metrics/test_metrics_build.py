"""Launches that were measured with the GPU's counters: joined with the launch that they are of."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from many_cubins import cubin

from kernelscope.cubin import operations
from kernelscope.features.metrics.build import rows as rows_of
from kernelscope.features.metrics.instructions import Executed
from kernelscope.features.metrics.record import is_whole
from kernelscope.features.metrics.sets import EXECUTED, SETS, is_counted_by_code, metrics_of, unit_of
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recording.build import RawRecording


def test_sets_and_names_of_metrics() -> None:
    assert metrics_of("basic") == SETS["basic"]
    assert set(SETS["full"]) == {name for each in SETS.values() for name in each}
    assert metrics_of("dram__bytes.sum, lts__t_bytes.sum,dram__bytes.sum") == ("dram__bytes.sum", "lts__t_bytes.sum")
    for wrong, said in (("basi", "did you mean 'basic'"), ("", "'' is no set"), ("dram__bytes.sum,x", "'x' is no set")):
        with pytest.raises(ValueError, match=said):
            metrics_of(wrong)


@pytest.mark.parametrize(("name", "unit"), [
    ("gpu__time_duration.sum", "ns"), ("dram__bytes.sum", "byte"), ("lts__t_sector_hit_rate.pct", "%"),
    ("sm__cycles_elapsed.avg.per_second", "cycle/s"), ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
    ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", None)])
def test_units(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_what_the_range_profiler_cannot_count_is_known() -> None:
    assert is_counted_by_code("sm__sass_thread_inst_executed_op_ffma_pred_on.sum")
    assert not is_counted_by_code("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")


@pytest.mark.parametrize(("options", "said"), [
    ({"metrics": "basi"}, "did you mean"), ({"metrics": True}, "takes a text"),
    ({"metrics": "basic", "stalls": True}, "metrics .basic. cannot stand beside stalls True"),
    ({"metrics": "basic", "gpu": "events"}, "events")])
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RecordingOptions(**options)


def executed(*instructions: tuple[int, int, str]) -> list[Executed]:
    return [Executed(name, offset, {EXECUTED: count}) for offset, count, name in instructions]


def test_of_a_kernel_that_calls_subroutines_cupti_counts_a_part() -> None:
    assert is_whole(executed((0, 32, "k"), (16, 32, "k"), (32, 0, "k")), "k")
    assert is_whole(executed((0, 32, "k"), (16, 32, "k"), (48, 0, "k"), (64, 0, "k")), "k"), "the branch to itself"
    assert not is_whole(executed((0, 32, "k"), (32, 32, "k"), (48, 0, "k")), "k")
    assert not is_whole(executed((0, 32, "k"), (16, 32, "k"), (64, 0, "k")), "k")
    assert not is_whole(executed((64, 0, "k"), (80, 0, "k")), "k")
    assert not is_whole(executed((0, 32, "other"), (16, 32, "other")), "k")


def test_operations_are_counted_by_the_machine_code() -> None:
    code = cubin("plain")
    name, kinds = next(iter(operations(code).items()))
    raw = RawRecording(
        rows={"measurements": [{
            "entry_name": name, "name": "k", "number": 0, "start_ns": 5, "end_ns": 9, "thread_id": 0, "device_id": 0,
            "replay": "kernel", "metric_set": "roofline", "passes": 2,
            "executed": executed(*((16 * at, 32, name) for at in range(len(kinds)))),
            "metrics": [(f"sm__sass_thread_inst_executed_op_{each}_pred_on.sum", None, "inst")
                        for each in ("fadd", "ffma", "dadd")]}]},
        specializations=[{"dispatcher_id": 0, "entry_name": name}],
        dispatchers=[{"name": "k"}],
        code=[{"kind": "cubin", "specialization_id": 0, "dispatcher_id": 0,
               "text": base64.b64encode(code).decode("ascii")}])
    launches = {column: np.zeros(0, np.int64) for column in
                ("thread_id", "start_ns", "end_ns", "configuration_id", "cell_id")}
    rows = rows_of(raw, launches)["metrics"]
    whole = {row["name"].split("_op_")[1]: row["value"] for row in rows if row["pc_offset"] is None}
    expected = {kind: 32 * sum(each == (kind, 1) for each in kinds) for kind in ("fadd", "ffma", "dadd")}
    assert whole == {f"{kind}_pred_on.sum": count for kind, count in expected.items()} and any(expected.values())
    assert [row["pc_offset"] for row in rows if row["pc_offset"] is not None] == [16 * at for at in range(len(kinds))]
    raw.code.clear()
    rows = rows_of(raw, launches)["metrics"]
    assert {row["value"] for row in rows if row["pc_offset"] is None} == {None}, "no machine code, no operations"
