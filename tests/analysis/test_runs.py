"""The runs of a cell."""

from __future__ import annotations

from two_runs import run

from kernelscope.analysis.runs import is_same_cell, previous_run, runs_of
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


def test_runs_are_in_the_order_of_time_and_once() -> None:
    one, two = at(10, cell=1), at(20, 1, cell=2, changed={"prepare": 2.0})
    runs = runs_of(one.rows("cells")[0], [("b.kscope", two), ("a.kscope", one), ("", two)])
    assert [(each.label, each.source, each.began_ns) for each in runs] == [
        ("In [1]", "a.kscope", 10_000_000_000), ("In [2]", "b.kscope", 20_000_000_000)]
    assert runs[0].changes is None
    assert runs[1].changes is not None and {each.measure for each in runs[1].changes.seen} == {"host", "prepare"}
    assert [each.launches for each in runs] == [40, 40]
    for each in runs:
        assert sum(each.parts.values()) == each.wall_ns
