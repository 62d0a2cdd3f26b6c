"""Recordings of several processes: merged, told apart again, and what of a process is private."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_recordings import worker

import kernelscope
from kernelscope.errors import UnknownCellError, UnknownProcessError
from kernelscope.recording.merge import merge


def test_processes_stay_apart_and_what_they_share_becomes_one() -> None:
    merged = merge([worker(1, worker="a", launcher="dask"), worker(2, start_ns=1_050, launches=3, rank=1),
                    worker(1, start_ns=9_000)])
    assert [(row["pid"], row["worker"], row["rank"], row["end_ns"], row["own_cost_ns"])
            for row in merged.rows("processes")] == [(1, "a", None, 9_200, 40.0), (2, None, 1, 1_350, 30.0)]
    assert [row["process_id"] for row in merged.rows("threads")] == [0, 1]
    assert [row["process_id"] for row in merged.rows("cells")] == [0, 1, 0]
    assert [(row["process_id"], row["total_cost_ns"]) for row in merged.rows("health")] == [(0, 40.0), (1, 30.0)]
    assert [merged.arrow(name).num_rows for name in ("dispatchers", "specializations", "configurations", "lines",
                                                     "devices", "launches")] == [1, 1, 1, 1, 1, 7]
    assert merged.column("launches", "thread_id").tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert "process" not in merged.metadata
    table = merged.by_process()
    assert table[["launches", "host_ns", "compiles", "compile_ns", "first_ns", "last_ns"]].to_numpy().tolist() == [
        [4, 200, 2, 10, 990, 9_200], [3, 150, 1, 5, 1_040, 1_350]]
    assert table["gpu_ns"].isna().tolist() == [True, True]


def test_devices_are_the_same_by_uuid_and_others_by_machine() -> None:
    def device(ordinal: int, uuid: str | None) -> dict[str, Any]:
        return {"ordinal": ordinal, "uuid": uuid, "name": "H200"}

    merged = merge([worker(1, device=device(0, "GPU-a")), worker(2, device=device(1, "GPU-a")),
                    worker(3, device=device(0, "GPU-b")), worker(4, device=device(0, None)),
                    worker(5, device=device(0, None)), worker(6, device=device(0, None), host="node18")])
    assert [(row["ordinal"], row["uuid"]) for row in merged.rows("devices")] == [
        (0, "GPU-a"), (0, "GPU-b"), (0, None), (0, None)]
    assert merged.column("launches", "device_id").reshape(2, 6).tolist() == [[0, 0, 1, 2, 2, 3]] * 2


def test_a_process_is_selected_by_number_and_by_name() -> None:
    first, second = worker(1, worker="a", launcher="dask"), worker(2, start_ns=1_050, worker="b", launcher="dask")
    merged = merge([first, second])
    for process in (1, "b"):
        part = merged.select(process=process)
        assert part.rows("launches") == second.rows("launches")
        for name in ("processes", "threads", "cells", "compilations", "health", "devices"):
            assert part.rows(name) == second.rows(name)
    assert merged.select() is merged
    assert merged.select(cell=1).rows("launches") == merged.select(cell=1, process="b").rows("launches")
    assert merged.select(cell=1).rows("processes") == second.rows("processes")
    with pytest.raises(UnknownCellError, match="process 1 of recording 'worker 1' has no cell 0"):
        merged.select(process=1, cell=0)
    for process in (2, -1, "c"):
        with pytest.raises(UnknownProcessError, match=f"no process {process!r} in recording 'worker 1'; known: 0 to 1, "
                                                      "and workers 'a', 'b'"):
            merged.select(process=process)


def test_a_host_is_named_only_where_it_tells_processes_apart(tmp_path: Path) -> None:
    alone = worker(1)
    kept = kernelscope.load(alone.save(tmp_path / "alone"))
    assert [row["host"] for row in alone.rows("processes")] == ["node17"]
    assert [(row["host"], row["pid"]) for row in kept.rows("processes")] == [(None, 1)]
    for held in (kept.metadata["process"], kept.metadata["clock"]):
        assert not {"host", "boot"} & set(held)
    assert kernelscope.load(alone.save(tmp_path / "paths", paths=True)).rows("processes")[0]["host"] == "node17"
    merged = merge([worker(1, worker="secret", launcher="dask"), worker(2)])
    assert [row["host"] for row in kernelscope.load(merged.save(tmp_path / "both")).rows("processes")] == ["node17"] * 2
    redacted = merged.redacted().rows("processes")
    assert [(row["host"], row["worker"], row["launcher"]) for row in redacted] == [
        ("host_1", "worker_1", "dask"), ("host_1", None, None)]


def test_what_metadata_say_wrongly_of_a_process_is_left_out() -> None:
    row = worker(1, rank=-1, worker=3, status=None, gpu_uuid=["x"], parent_pid=True, local_rank=2**40).rows("processes")
    assert row == [{**dict.fromkeys(row[0]), "process_id": 0, "host": "node17", "pid": 1, "start_ns": 5,
                    "status": "ok", "end_ns": 1_200, "own_cost_ns": 20.0}]
