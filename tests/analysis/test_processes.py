"""What only all processes together show: imbalance, what several compiled, and what communication kernels hid."""

from __future__ import annotations

import pytest
from worker_recordings import on_gpu, worker

from kernelscope.analysis.processes import comparison, process_table
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording

NCCL = "ncclDevKernel_AllReduce_Sum_f32"


@pytest.fixture
def both() -> Recording:
    """Two ranks: one whose all-reduce is hidden in part, and one that was killed, and waited."""
    return merge([
        on_gpu(worker(1, rank=0, launcher="torchrun"), ("kernel", "axpy", 1_000, 1_500),
                ("kernel", NCCL, 1_400, 1_900), ("memcpy", "PtoP", 2_000, 2_100), ("memcpy", "HtoD", 2_100, 2_200)),
        on_gpu(worker(2, rank=1, launcher="torchrun", host="node18", status="killed", message="it was killed"),
                ("kernel", "axpy", 1_000, 1_200), ("sync", "stream synchronize", 1_300, 1_900),
                ("kernel", NCCL, 1_300, 1_800))])


def test_processes_stand_side_by_side(both: Recording) -> None:
    table = process_table(both)[["busy_ns", "gpu_ns", "wait_ns", "communication_ns", "hidden_ns", "exposed_ns"]]
    assert table.to_numpy().tolist() == [[1_100, 1_200, 0, 600, 100, 500], [700, 700, 600, 500, 0, 500]]
    found = comparison(both)
    assert found is not None and found.imbalance is not None
    # Who waits for the others in an all-reduce is not the slowest: exposed communication does not count.
    assert (found.imbalance.measure, found.imbalance.slowest.label, found.imbalance.fastest.label) == (
        "work", "rank 0", "rank 1")
    assert (found.imbalance.most_ns, found.imbalance.mean_ns, found.imbalance.share) == (600, 400, 1 / 3)


def test_a_redacted_recording_communicates_as_long(both: Recording) -> None:
    columns = ["gpu_ns", "communication_ns", "hidden_ns", "exposed_ns"]
    shown = both.redacted()
    assert process_table(shown)[columns].equals(process_table(both)[columns])
    assert set(shown.activities.name) == {"other_kernel_1", NCCL, "PtoP", "HtoD", "stream synchronize"}


def test_without_a_gpu_host_time_is_compared_and_one_process_is_not() -> None:
    found = comparison(merge([worker(1), worker(2, launches=6)]))
    assert found is not None and found.imbalance is not None
    assert (found.imbalance.measure, found.imbalance.slowest.label, found.imbalance.share) == ("host", "pid 2", 1 / 3)
    assert found.processes[0].busy_ns is None and found.processes[0].exposed_ns is None
    assert comparison(worker(1)) is None and comparison(Recording({}, {})) is None


def test_compiles_of_one_specialization_in_several_processes() -> None:
    found = comparison(merge([worker(1), worker(2, start_ns=1_002), worker(3, start_ns=2_000)]))
    assert found is not None
    repeated, = found.repeated
    assert (repeated.kernel, repeated.processes, repeated.compiles, repeated.at_once) == ("axpy", 3, 3, 2)
    assert (repeated.total_ns, repeated.median_ns, repeated.avoidable_ns, repeated.by) == (15, 5, 10, (0, 1))
    again = comparison(merge([worker(1), worker(1, start_ns=5_000), Recording(worker(2).tables, {})]))
    assert again is not None and [each.compiles for each in again.repeated] == [3]


def test_the_card_says_it(both: Recording) -> None:
    text = " ".join(both.summary().split())
    for said in (
            "Processes: 2, 2 machines, 1 killed (rank 1), imbalance 33 %",
            "slowest: rank 0, GPU busy without exposed communication 600 ns, 200 ns above the mean; fastest: rank 1, "
            "200 ns; imbalance (max - mean) / max 33 %",
            "2 processes compiled axpy, 2 x 5 ns: all at the same time; a shared NUMBA_CACHE_DIR and cache=True would "
            "leave one where one process compiles before the others",
            "communication: 1.10 µs in 2 processes, 100 ns of it hidden by kernels, 1.00 µs exposed; most in rank 0: "
            "500 ns",
            "rank 1 2 100 ns 1 5 ns 700 ns 600 ns 500 ns 0 ns 500 ns killed it was killed"):
        assert said in text
    page = both._repr_html_()
    for said in ("rank 1", "node18, pid 2", "1 killed (rank 1)", "exposed"):
        assert said in page
    assert "Processes" not in worker(1).summary()


def test_of_many_workers_the_card_shows_the_slowest_and_the_fastest_and_says_what_is_alike_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    recording = merge([on_gpu(worker(at, rank=at, host=f"node{at // 8}", launcher="torchrun", start_ns=1_000 + at,
                                     device={"ordinal": at % 8, "uuid": f"GPU-{at}", "name": "H200"}),
                              ("kernel", "axpy", 1_000, 1_100 + at)) for at in range(64)])
    text = recording.summary()
    section = text[text.index("Processes:"):text.index("Cells:")]
    assert section.startswith("Processes: 64, 8 machines, imbalance 19 %")
    rows = [line.split()[:2] for line in section.splitlines() if line.lstrip().startswith("rank ")]
    assert [int(number) for _, number in rows] == [63, 62, 61, 60, 59, 58, 5, 4, 3, 2, 1, 0]
    assert "52 more processes" in section and "64 processes compiled axpy, 64 x 5 ns: 5 at the same time (rank 0, " \
        "rank 1, rank 2 and 2 more);" in " ".join(section.split())
    assert "numba-cuda: ok (64 processes)" in text
    assert "least busy of 64, device 0 of node0" in text and "most busy of 64, device 7 of node7" in text
    assert "other thread" not in text.split("\n\n")[0]


def test_who_needs_attention_stands_first_and_equal_compiles_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    ended = {2: "terminated", 40: "cut off", 63: "killed"}
    text = merge([worker(at, rank=at, launches=2 + at, launcher="torchrun", start_ns=1_000 + at,
                         status=ended.get(at, "ok")) for at in range(64)]).summary()
    section = text[text.index("Processes:"):text.index("Cells:")]
    assert section.startswith(
        "Processes: 64, 1 killed (rank 63), 1 cut off (rank 40), 1 terminated (rank 2), imbalance")
    rows = [line.split()[1] for line in section.splitlines() if line.lstrip().startswith("rank ")]
    assert rows == ["63", "40", "2", "62", "61", "60", "59", "5", "4", "3", "1", "0"]
    compiles = text[text.index("Compiles:"):text.index("\n\nHost time")]
    assert compiles.startswith("Compiles: 64, ") and "axpy compiled 64 times, 320 ns:" in compiles
    assert "more compile" not in compiles and compiles.count("axpy") == 1
