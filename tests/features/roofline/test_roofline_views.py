"""The roofline as a figure, a picture and a table: what each holds, and where dots and labels are."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import measured
import pytest
from handmade import Script

import kernelscope
from kernelscope.commands.cli import main
from kernelscope.commands.session import _charts
from kernelscope.features.roofline.command import VERBS
from kernelscope.features.roofline.model import HEIGHT, LABEL, SIDES, WIDTH, _box, decades, shown_of
from kernelscope.features.roofline.text import roofline_text
from kernelscope.views.base import drawn_width


def _two() -> tuple[Any, Any]:
    return (measured.recording(only=(2, 3), name="before"), measured.recording(only=(1, 4, 0), name="after"))


def test_dots_are_where_their_numbers_are() -> None:
    shown = shown_of([measured.recording()])
    (panel,) = shown.panels
    assert [dot.label for dot in panel.dots] == [
        "axpy (a: float32) 82 %", "axpy (a: float64) 80 %", "naive_product 2.0 %", "tiled_product 12 %",
        "reduction 66 %"]
    points = [each for each in shown.rooflines[0].points if each.flops_per_second]
    for dot, point in zip(panel.dots, points, strict=True):
        assert (dot.intensity, dot.flops_per_second) == (point.intensity(), point.flops_per_second)
        assert dot.roof is not None and dot.flops_per_second / dot.roof[1] == pytest.approx(point.share)
        x, y = shown.place((dot.intensity, dot.flops_per_second))
        assert 0 < x < WIDTH and 0 < y < HEIGHT
    assert panel.notes[0] == (
        "copy has no floating-point operation: 2.15 TB/s of DRAM (memory-bound: 59 % of the DRAM roof, 1.7 times "
        "below; no roof explains its time)")


def test_the_distance_ends_on_the_roof() -> None:
    shown = shown_of([measured.recording(only=(1,), launches=1)])
    (panel,) = shown.panels
    (dot,) = panel.dots
    copy = next(roof for roof in panel.roofs if roof.kind == "copy")
    assert dot.roof is not None and dot.roof[1] / dot.roof[0] == pytest.approx(copy.end[1] / copy.end[0])


@pytest.mark.parametrize("copy", [measured.COPY, 1.8e12])
def test_labels_cover_neither_each_other_nor_dots(copy: float) -> None:
    shown = shown_of([measured.recording(copy=copy)])
    (panel,) = shown.panels
    boxes = [_box(shown, dot, dot.side) for dot in panel.dots]
    places = [shown.place((dot.intensity, dot.flops_per_second)) for dot in panel.dots]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and right <= WIDTH and top >= 0 and bottom <= HEIGHT
        # Letters do not fill their boxes.
        assert all(right <= other[0] or other[2] <= left or bottom - 2 <= other[1] or other[3] - 2 <= top
                   for other in boxes[at + 1:])
        assert not any(left < x < right and top < y < bottom for x, y in places)
    assert {dot.side for dot in panel.dots} <= {*SIDES}


def test_two_recordings_are_side_by_side_on_the_same_axes() -> None:
    view = kernelscope.roofline(*_two())
    figure = view.figure()
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]
    first, second = shown_of(_two()).panels
    assert first.dots[0].color == second.dots[0].color, "a kernel has one color"
    assert (first.title, second.title) == ("before · NVIDIA H200", "after · NVIDIA H200")
    text = roofline_text(shown_of(_two()), 120)
    assert text.index("before · NVIDIA H200") < text.index("naive_product") < text.index("after · NVIDIA H200")


def test_the_figure_holds_the_numbers() -> None:
    figure = measured.recording().roofline().figure()
    (dots,) = [trace for trace in figure.data if trace.name == "by bytes of DRAM"]
    shown = shown_of([measured.recording()])
    assert list(dots.x) == [dot.intensity for dot in shown.panels[0].dots]
    assert list(dots.y) == [dot.flops_per_second for dot in shown.panels[0].dots]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    level = [trace for trace in figure.data if trace.mode == "lines+text"]
    assert [trace.text[1].strip() for trace in level] == ["FP32 50.4 TFLOP/s", "FP64 25.2 TFLOP/s"]
    assert "tiled_product" in dots.customdata[3] and "compute-bound: 12 % of the FP32 roof" in dots.customdata[3]


@pytest.mark.parametrize("recordings", [(measured.recording(),), _two()], ids=["one", "two"])
def test_the_picture_is_whole(recordings: tuple[Any, ...]) -> None:
    drawn = ElementTree.fromstring(kernelscope.roofline(*recordings).to_svg())
    width, height = float(drawn.get("width") or 0), float(drawn.get("height") or 0)

    def walk(element: Any, x: float, y: float) -> None:
        moved = re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\)", element.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        if element.tag.endswith("}text"):
            wide = drawn_width(element.text or "", float(element.get("font-size", LABEL)),
                               bold=element.get("font-weight") == "600")
            left = x + float(element.get("x", 0)) - wide * {"end": 1, "middle": 0.5}.get(element.get("text-anchor"), 0)
            assert left >= 0 and left + wide <= width, element.text
            assert 0 < y + float(element.get("y", 0)) < height, element.text
        for each in element:
            walk(each, x, y)

    walk(drawn, 0, 0)
    assert "prefers-color-scheme:dark" in ElementTree.tostring(drawn, encoding="unicode")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # names are cut to the terminal's width


def test_names_are_escaped() -> None:
    made = measured.script(only=(1,))
    made.rows["dispatchers"][1]["name"] = "<img src=x>"
    for row in made.rows["measurements"]:
        row["name"] = "<img src=x>"
    view = made.recording().roofline()
    assert "<img src=x>" not in view.to_svg() and "<img src=x>" not in str(view.figure().to_json())


def test_what_is_not_known_is_said() -> None:
    made = measured.script(only=(4,))
    made.rows["metrics"] = [row for row in made.rows["metrics"] if "ffma" not in row["name"]]
    said = "its FP32 counts were not measured: measure the set roofline"
    (panel,) = shown_of([made.recording()]).panels
    assert panel.dots == [] and f"tiled_product: {said}" in panel.notes
    assert said in " ".join(str(made.recording().roofline()).split())


def test_nothing_measured() -> None:
    made = Script()
    made.cell()
    view = made.recording().roofline()
    assert view.rooflines == [] and "No kernel's counters were measured" in str(view)
    assert "No kernel" in view.to_svg() and view.figure().layout.annotations
    with pytest.raises(ValueError, match="needs a recording"):
        kernelscope.roofline()


def test_decades() -> None:
    assert decades((-1.2, 2.3)) == [-1, 0, 1, 2]
    assert len(decades((-9, 15))) < 12


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(each.save(tmp_path / each.name)) for each in _two()]
    assert main(["roofline", *files]) == 0
    assert "after · NVIDIA H200" in capsys.readouterr().out
    assert main(["roofline", *files, "--svg", str(tmp_path / "out")]) == 0
    assert ElementTree.parse(tmp_path / "out.svg").getroot().tag.endswith("svg")
    assert main(["roofline", *files, "--html", str(tmp_path / "out")]) == 0
    assert "FLOP/byte" in (tmp_path / "out.html").read_text()


def test_the_magic_shows_cells_side_by_side(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = _two()
    # Elsewhere than in a notebook, whether or not another test has started IPython.
    monkeypatch.setattr(type(before.roofline()), "_ipython_display_", lambda shown: print(shown))
    session: Any = SimpleNamespace(recordings=[before, after])
    magic = VERBS["roofline"].magic
    assert magic is not None
    magic(session, Namespace(cells=[]))
    shown = capsys.readouterr().out
    assert "after · NVIDIA H200" in shown and "before" not in shown
    magic(session, Namespace(cells=["3", "3"]))
    assert "after 1 · NVIDIA H200" in capsys.readouterr().out


def test_charts_have_the_roofline_below() -> None:
    assert "FP32 50.4 TFLOP/s" in _charts(measured.recording())
    assert "FLOP" not in _charts(Script().recording())


@pytest.mark.parametrize("value", [5e-324, 1e-9, 2.0**61])
@pytest.mark.parametrize("metric", [
    "gpu__time_duration.sum", "dram__bytes.sum", "lts__t_bytes.sum", "dram__bytes.sum.peak_sustained",
    "sm__cycles_elapsed.avg.per_second"])
def test_any_number_of_a_file_can_be_shown(metric: str, value: float) -> None:
    view = kernelscope.roofline(measured.recording(only=(2, 4), **{metric: value}), measured.recording())
    ElementTree.fromstring(view.to_svg())
    assert view.figure().to_json() and "tiled_product" in str(view)
