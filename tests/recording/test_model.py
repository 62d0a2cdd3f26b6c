from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kernelscope.recording.model import DRY_RUN_NOTICE, SIMULATOR_NOTICE, Recording
from kernelscope.schema import TABLES, UNKNOWN


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_an_attribute(name: str, full: Recording) -> None:
    frame = getattr(full, name)
    assert isinstance(frame, pd.DataFrame)
    if name == "specializations":  # which tells more than its table
        frame = frame[list(TABLES[name].names)]
    assert tuple(frame.columns) == TABLES[name].names
    assert len(frame) == full.arrow(name).num_rows
    pd.testing.assert_frame_equal(frame, full.table(name))
    for row, expected in zip(frame.to_dict("records"), full.rows(name), strict=True):
        for column, value in expected.items():
            found: Any = row[column]
            assert bool(pd.isna(found)) if value is None else found == value, f"{name}.{column}"


def test_frames_keep_exact_integers_beside_nulls(full: Recording) -> None:
    assert full.specializations["static_shared_bytes"].dtype == "Int64"
    assert full.specializations["static_shared_bytes"][0] == 2**53
    assert full.launches["start_ns"].dtype == "int64"
    assert full.specializations["launch_config_sensitive"].dtype == "boolean"


def test_changing_a_frame_does_not_change_the_recording(full: Recording) -> None:
    before = {name: full.rows(name) for name in TABLES}
    for name in TABLES:
        frame = full.table(name)
        for column in frame.columns:
            frame[column] = frame[column].iloc[0]
        numbers = full.table(name)
        for column in numbers.select_dtypes("number").columns:
            numbers.loc[0, column] = 1
    assert {name: full.rows(name) for name in TABLES} == before


def test_changing_metadata_does_not_change_the_recording() -> None:
    given: dict[str, Any] = {"name": "a", "deep": {"x": [1]}}
    recording = Recording({}, given)
    given["name"] = "b"
    given["deep"]["x"].append(2)
    assert dict(recording.metadata) == {"name": "a", "deep": {"x": [1]}}
    with pytest.raises(TypeError):
        recording.metadata["name"] = "c"  # type: ignore[index]


def test_columns_are_arrays_with_nulls_marked(full: Recording) -> None:
    assert full.column("launches", "cell_id").tolist() == [0, UNKNOWN, 1]
    assert full.column("launches", "launch_id").tolist() == [0, 1, 2]
    assert np.isnan(full.column("occupancies", "occupancy")[1])
    assert full.column("specializations", "launch_config_sensitive").tolist() == [True, False]
    assert full.column("launches", "cache").tolist() == ["compiled", None, "memory"]
    assert full.column("threads", "name").tolist() == ["MainThread", None]


@pytest.mark.parametrize("name", TABLES)
def test_columns_cannot_be_used_to_change_the_recording(name: str, full: Recording) -> None:
    before = full.rows(name)
    for column in TABLES[name].columns:
        array = full.column(name, column.name)
        if array.flags.writeable:
            array[...] = array[0]
    assert full.rows(name) == before


def test_columns_of_several_chunks_are_whole(full: Recording) -> None:
    launches = full.arrow("launches")
    chunked = pa.concat_tables([launches.slice(0, 2), launches.slice(2)])
    recording = Recording({"launches": chunked}, {})
    for column in TABLES["launches"].names:
        assert recording.column("launches", column).tolist() == full.column("launches", column).tolist()
    assert len(recording.launches) == 3


def test_tables_left_out_are_empty() -> None:
    recording = Recording({}, {})
    for name in TABLES:
        assert recording.rows(name) == []
        assert len(recording.table(name)) == 0
        for column in TABLES[name].names:
            assert recording.column(name, column).tolist() == []
    assert recording.name == ""


def test_unknown_and_wrong_tables_are_refused(full: Recording) -> None:
    with pytest.raises(ValueError, match="no table is called plants; known: processes, cells, threads"):
        Recording({"plants": full.arrow("cells")}, {})
    with pytest.raises(ValueError, match="table 'cells' does not have the columns of its schema"):
        Recording({"cells": full.arrow("threads")}, {})
    with pytest.raises(KeyError):
        full.arrow("plants")
    with pytest.raises(KeyError):
        full.table("plants")


@pytest.mark.parametrize(("metadata", "notice", "dry", "simulated"), [
    ({}, "", False, False),
    ({"dry_run": False, "simulator": None}, "", False, False),
    ({"dry_run": True}, DRY_RUN_NOTICE, True, False),
    ({"simulator": True}, SIMULATOR_NOTICE, False, True),
    ({"dry_run": True, "simulator": True}, DRY_RUN_NOTICE, True, True),
])
def test_notice_says_what_is_not_real(metadata: Any, notice: str, dry: bool, simulated: bool) -> None:
    recording = Recording({}, metadata)
    assert (recording.notice, recording.is_dry_run, recording.is_simulated) == (notice, dry, simulated)
