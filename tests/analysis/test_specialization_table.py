from __future__ import annotations

import json

import pandas as pd
import pytest
from handmade import MS, Script

from kernelscope import Recording
from kernelscope.schema import TABLES
from kernelscope.views.inspector.model import inspect_kernels

MORE = ["kernel", "arguments", "launches", "captured", "compile_ns", "median_ns", "configurations", "occupancy",
        "limited_by", "cache_file", "reason_code"]


@pytest.fixture
def recording() -> Recording:
    script = Script()
    script.device()
    script.kernel("axpy", arguments="x, n")
    script.kernel("total")
    script.specialization(0, "(array(float32, 1d, C), int64)", regs=18, spill_store_bytes=0)
    script.specialization(1, "(int64,)", origin="before")
    script.configuration((4,))
    script.configuration((4,), stream=7)
    script.configuration((8,))
    script.occupancy(0, 0, 1.0)
    script.occupancy(0, 2, 0.5)
    for at in (0, 1, 2):
        script.launch(0, configuration=at)
    script.compilation(0, 50 * MS, specialization_id=0, outcome="wait")
    script.compilation(0, 30 * MS, specialization_id=0, cache_file="axpy.nbi")
    return script.recording()


def test_the_facts_stand_behind_the_table_s_columns(recording: Recording) -> None:
    frame = recording.specializations
    assert list(frame.columns) == [*TABLES["specializations"].names, *MORE]
    pd.testing.assert_frame_equal(frame[list(TABLES["specializations"].names)], recording.table("specializations"))
    axpy, total = frame.to_dict("records")
    assert (axpy["kernel"], axpy["arguments"]) == ("axpy", "x: float32[:] C, n: int64")
    assert (axpy["launches"], axpy["configurations"], axpy["occupancy"]) == (3, 2, 0.5)
    assert axpy["compile_ns"] == 30 * MS, "a thread that waited did not compile"
    assert axpy["cache_file"] == "axpy.nbi" and axpy["reason_code"]
    assert (total["kernel"], total["arguments"], total["launches"]) == ("total", "argument 0: int64", 0)
    assert all(pd.isna(total[name]) for name in ("compile_ns", "median_ns", "occupancy", "cache_file", "reason_code"))


def test_columns_have_their_types_in_an_empty_recording_too(recording: Recording) -> None:
    empty = Recording({}, {}).specializations
    assert len(empty) == 0
    assert empty[MORE].dtypes.to_dict() == recording.specializations[MORE].dtypes.to_dict()
    assert str(empty.dtypes["compile_ns"]) == "Int64" and str(empty.dtypes["launches"]) == "int64"


def test_it_says_what_the_inspector_says(recording: Recording) -> None:
    held = {each.specialization_id: each for kernel in inspect_kernels(recording) for each in kernel.specializations}
    for row in recording.specializations.to_dict("records"):
        assert row["launches"] == held[row["specialization_id"]].launches
        assert json.dumps(row["regs"] if pd.notna(row["regs"]) else None) == json.dumps(
            held[row["specialization_id"]].regs)
