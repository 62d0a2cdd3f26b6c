"""Launches that were measured with the GPU's counters: joined with the launch that they are of."""

from __future__ import annotations

from typing import Any

import pytest

from kernelscope.counters.sets import SETS, is_counted_by_code, metrics_of, unit_of
from kernelscope.recorder.options import RecordingOptions


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
    ({"metrics": "basic", "stalls": True}, "leave out stalls"), ({"metrics": "basic", "gpu": "events"}, "events")])
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RecordingOptions(**options)
