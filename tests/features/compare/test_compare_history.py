"""The runs of a cell, as a chart and as a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from two_runs import run

import kernelscope
from kernelscope import Recording
from kernelscope.errors import RecordingFileError, UnknownCellError

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"


def at(seconds: int, **options: object) -> Recording:
    return run(seconds, 40, clock={"host_ns": 1_000_000_000, "wall_ns": seconds * 10**9}, **options)  # type: ignore[arg-type]


def runs() -> list[Recording]:
    slower = {"prepare": 3.0}
    return [at(1, cell=1), at(2, cell=2), at(3, cell=3, changed=slower), at(4, cell=4, changed=slower)]


def test_a_regression_is_seen_where_it_began() -> None:
    view = kernelscope.history("4", recordings=runs())
    frame = view.to_frame()
    assert frame.cell.tolist() == ["In [1]", "In [2]", "In [3]", "In [4]"]
    assert frame.slower.tolist() == [0, 0, 4, 0] and frame.faster.tolist() == [0, 0, 0, 0]
    text = repr(view)
    assert text.splitlines()[0] == "KernelScope: In [4]: 4 runs"
    assert "4 slower: launches " in text


def test_the_bars_of_a_run_add_up_to_its_wall_time() -> None:
    view = kernelscope.history(recordings=runs())
    figure = view.figure()
    bars = [trace for trace in figure.data if trace.type == "bar"]
    walls = [each.wall_ns for each in view.runs]
    for place, wall in enumerate(walls):
        assert sum(trace.y[place] for trace in bars) * 1e6 == pytest.approx(wall)
    (slower,) = [trace for trace in figure.data if trace.name == "slower than the run before"]
    assert list(slower.x) == [2]
    assert "plotly" in view._repr_html_().lower()


def test_compiles_are_a_line_of_their_own() -> None:
    view = kernelscope.history("first launches", RECORDINGS, [])
    (line,) = [trace for trace in view.figure().data if trace.name == "compiles (right)"]
    assert list(line.y) == [1, 2, 1, 2]
    assert [each.source for each in view.runs] == [
        "quickstart.kscope", "specializations.kscope", "numba_cuda_mlir.kscope", "quadrants.kscope"]


def test_a_folder_and_a_session_together(tmp_path: Path) -> None:
    one, two, *_ = runs()
    one.save(tmp_path / "one")
    (tmp_path / "torn.kscope").write_bytes(b"nothing")
    view = kernelscope.history("2", tmp_path, [one, two])
    assert [each.source for each in view.runs] == ["one.kscope", ""]
    assert len(view.missing) == 1 and view.missing[0].startswith("torn.kscope: ")
    assert "not read: torn.kscope" in repr(view) and "this session" in repr(view)
    page = view.to_html(tmp_path / "out.html").read_text(encoding="utf-8")
    assert "In [2]" in page


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownCellError, match="known: 1"):
        kernelscope.history("9", recordings=runs()[:1])
    with pytest.raises(RecordingFileError, match="there is no folder"):
        kernelscope.history("1", tmp_path / "nowhere", [])
    with pytest.raises(RecordingFileError, match="can be read"):
        kernelscope.history("1", tmp_path, [])
