"""Names in a recording of several processes: what two of them have says whose it is, and nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from worker_recordings import on_gpu, worker

from kernelscope.analysis.owners import device_names, process_names, processes_of
from kernelscope.analysis.wall_time import wall_times
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows


def ranks(*places: tuple[str, int, str]) -> Recording:
    """Merged workers: the machine, device and GPU of each."""
    return merge([worker(at, rank=at, host=host, device={"ordinal": ordinal, "uuid": uuid, "name": "H200"})
                  for at, (host, ordinal, uuid) in enumerate(places)])


@pytest.mark.parametrize(("places", "names"), [
    ([("a", 0, "g0"), ("b", 0, "g1")], ["device 0 of a", "device 0 of b"]),
    ([("a", 0, "g0"), ("a", 1, "g1")], ["device 0", "device 1"]),
    ([("a", 0, "g0"), ("a", 0, "g1")], ["device 0 of rank 0", "device 0 of rank 1"]),
    ([("a", 0, "g0"), ("a", 0, "g0")], ["device 0"]),
    ([("a", 0, "g0"), ("a", 0, "g1"), ("b", 0, "g2")],
     ["device 0 of rank 0", "device 0 of rank 1", "device 0 of b"]),
])
def test_a_device_says_whose_it_is_where_its_number_does_not_tell(places: list[Any], names: list[str]) -> None:
    assert device_names(ranks(*places)) == names


def test_names_of_processes_are_told_apart() -> None:
    named = merge([worker(1, worker="w"), worker(1, worker="w", host="other"), worker(3), worker(4, rank=2)])
    assert process_names(named) == ["w of node17", "w of other", "pid 3", "rank 2"]
    assert device_names(worker(1)) == ["device 0"]


def test_what_has_no_thread_is_of_the_process_of_its_cell() -> None:
    made = on_gpu(worker(2), ("kernel", "axpy", 1_000, 1_100), ("kernel", "body", 1_100, 1_200))
    rows = [{**row, "process_id": None, "cell_id": 0, "thread_id": at and None}
            for at, row in enumerate(made.rows("activities"))]
    merged = merge([worker(1), Recording({**made.tables, "activities": table_of_rows("activities", rows)},
                                         made.metadata)])
    assert processes_of(merged, "activities").tolist() == [1, 1]


def test_other_threads_are_those_of_the_same_process(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the workers launches from a second thread too; the other's main thread is no other thread of it."""
    monkeypatch.setenv("COLUMNS", "110")
    two = worker(2, launches=3)
    threads = [*two.rows("threads"), {**two.rows("threads")[0], "thread_id": 1, "ident": 8, "name": "feeder"}]
    columns = {name: two.column("launches", name) for name in two.arrow("launches").schema.names
               if two.arrow("launches").column(name).null_count == 0}
    columns["thread_id"] = np.array([0, 0, 1])
    merged = merge([worker(1), Recording({**two.tables, "threads": table_of_rows("threads", threads),
                                          "launches": make_table("launches", columns)}, two.metadata)])
    first, second = wall_times(merged)
    assert first.threads == () and first.parts["python"] < first.wall_ns
    assert [(each.name, each.total_ns) for each in second.threads] == [("feeder", 50)]
    assert "Another thread (feeder)" in merged.summary()
