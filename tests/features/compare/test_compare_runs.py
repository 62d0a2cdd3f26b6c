"""The runs of a cell."""

from __future__ import annotations

from two_runs import run

from kernelscope.errors import RecordingFileError
from kernelscope.features.compare.runs import Source, is_same_cell, previous_run, runs_of
from kernelscope.recording.model import Recording


def at(seconds: int, seed: int = 0, **options: object) -> Recording:
    """A run that began so many seconds after 1970."""
    return run(seed, 20, clock={"host_ns": 1_000_000_000, "wall_ns": seconds * 1_000_000_000}, **options)  # type: ignore[arg-type]


def test_cells_are_the_same_by_name_or_by_source() -> None:
    cell = {"name": None, "source_sha256": "a"}
    assert is_same_cell(cell, {"name": "x", "source_sha256": "a"})
    assert not is_same_cell(cell, {"name": None, "source_sha256": None})
    assert not is_same_cell(cell, {"name": None, "source_sha256": "b"})
    assert is_same_cell({"name": "x", "source_sha256": "b"}, {"name": "x", "source_sha256": "a"})


def test_the_run_before_is_the_newest_one() -> None:
    one, two, three = at(1), at(2), at(3)
    assert previous_run([one, two, three], three) is two
    assert previous_run([], one) is None
    assert previous_run([one], Recording({}, {})) is None


def source(name: str, recording: Recording, opened: list[str] | None = None) -> Source:
    """A file of which only cells and metadata are read; `opened` gets its name when it is loaded."""
    def load() -> Recording:
        if opened is not None:
            opened.append(name)
        if name.startswith("torn"):
            raise RecordingFileError("is torn")
        return recording

    return Source(name, Recording({"cells": recording.arrow("cells")}, recording.metadata), load)


def test_only_the_files_of_runs_that_are_shown_are_loaded() -> None:
    opened: list[str] = []
    sources = [source(f"{second}.kscope", at(second, cell=second), opened) for second in range(1, 21)]
    result = runs_of(sources[0].cells.rows("cells")[0], sources, most=3)
    assert [run.source for run in result.runs] == ["18.kscope", "19.kscope", "20.kscope"]
    assert all(run.changes is not None for run in result.runs) and result.earlier == 17
    assert sorted(opened) == ["17.kscope", "18.kscope", "19.kscope", "20.kscope"]


def test_a_run_that_cannot_be_loaded_gives_way_to_the_one_before() -> None:
    sources = [source(f"{name}.kscope", at(second, cell=second))
               for second, name in enumerate(("a", "b", "torn", "c"), 1)]
    result = runs_of(sources[0].cells.rows("cells")[0], sources, most=2)
    assert [run.source for run in result.runs] == ["b.kscope", "c.kscope"] and result.earlier == 1
    assert result.unreadable == ["torn.kscope: is torn"]


def test_a_clock_beyond_all_calendars_is_unknown() -> None:
    odd = run(1, 20, clock={"host_ns": 0, "wall_ns": 10**40})
    (only,) = runs_of(odd.rows("cells")[0], [source("odd.kscope", odd)]).runs
    assert only.began_ns is None


def test_runs_are_in_the_order_of_time_and_once() -> None:
    one, two = at(10, cell=1), at(20, 1, cell=2, changed={"prepare": 2.0})
    runs = runs_of(one.rows("cells")[0], [source("b.kscope", two), source("a.kscope", one), source("", two)]).runs
    assert [(each.label, each.source, each.began_ns) for each in runs] == [
        ("In [1]", "a.kscope", 10_000_000_000), ("In [2]", "b.kscope", 20_000_000_000)]
    assert runs[0].changes is None
    assert runs[1].changes is not None and {each.measure for each in runs[1].changes.seen} == {"host", "prepare"}
    assert [each.launches for each in runs] == [40, 40]
    for each in runs:
        assert sum(each.parts.values()) == each.wall_ns
