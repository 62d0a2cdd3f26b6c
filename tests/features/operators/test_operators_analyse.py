"""PyTorch's operators by name."""

from __future__ import annotations

from typing import Any

from counting import lines_run

from kernelscope.features.operators.analyse import operator_summaries
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows


def recording_of(*paths: str, host_ns: int = 10) -> Recording:
    """A recording of operators with these paths."""
    rows: list[dict[str, Any]] = [
        {"operator_id": at, "name": path.rpartition(" / ")[2], "path": path, "calls": 1, "host_ns": host_ns,
         "own_ns": 1} for at, path in enumerate(paths)]
    return Recording({"operators": table_of_rows("operators", rows)}, {})


def host_of(recording: Recording) -> dict[str | None, int | None]:
    return {row.operator: row.host_ns for row in operator_summaries(recording)}


def test_an_operator_inside_itself_counts_once() -> None:
    assert host_of(recording_of("a", "a / b", "a / b / a", "c / a")) == {"a": 20, "b": 10}
    # The one around it gave the GPU no work, and is no row.
    assert host_of(recording_of("a / b / a")) == {"a": 10}


def test_of_a_long_path_the_names_that_are_left_count() -> None:
    begin, end = " / ".join(f"o{at}" for at in range(16)), " / ".join(f"o{at}" for at in range(85, 100))
    assert host_of(recording_of(f"{begin} / (69 more) / {end} / o3", f"{begin} / (69 more) / {end} / new")) == {
        "o3": 0, "new": 10}


def test_work_grows_as_the_length_of_paths_does() -> None:
    """Also in files that were made before paths were cut."""
    def work(depth: int) -> int:
        recording = recording_of(*[" / ".join(f"o{at}" for at in range(depth))] * 20)
        return lines_run(lambda: operator_summaries(recording))

    assert work(2_000) < 2.2 * work(1_000)
