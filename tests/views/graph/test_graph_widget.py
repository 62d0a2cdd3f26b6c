"""A graph as a widget: what it sends, what a saved notebook shows, and what it writes."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
from drawn_graphs import chain, every_kind, nested, script, strange, tangle

import kernelscope
from kernelscope.errors import RecordingFileError, UnknownGraphError
from kernelscope.recording.model import Recording
from kernelscope.views.graph import widget as graph_widget
from kernelscope.views.graph.layout import drawing_of
from kernelscope.views.graph.svg import graph_svg, small
from kernelscope.views.graph.text import graph_text, to_dot
from kernelscope.views.graph.widget import GraphWidget

IMAGE = re.compile(r'src="data:image/svg\+xml;base64,([^"]*)"')


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    yield
    ipywidgets.Widget.close_all()


def unpacked(data: bytes) -> dict[str, Any]:
    return json.loads(zlib.decompress(data, -zlib.MAX_WBITS))


def packed(recording: Recording) -> dict[str, Any]:
    return unpacked(graph_widget.pack(drawing_of(recording)))


def static(recording: Recording) -> str:
    return graph_widget.static_html(drawing_of(recording))


def images(html: str) -> list[str]:
    return [base64.b64decode(found).decode() for found in IMAGE.findall(html)]


def images_of(recording: Recording) -> list[str]:
    html = static(recording)
    assert "<script" not in html and "<img src=x" not in html and "onclick" not in html
    drawn = images(html)
    assert all("<img" not in each and "<script" not in each for each in drawn)
    return drawn


def test_it_is_the_public_function() -> None:
    recording, notice = chain(3, dry_run=True), "dry run: kernels did not execute"
    assert packed(recording)["notes"] == [notice]
    assert graph_text(recording).startswith(f"*** {notice} ***\n") and f">{notice}</text>" in graph_svg(recording)
    assert images_of(strange())
    recording = every_kind()
    shown = kernelscope.graph(recording, 0, height=300)
    assert isinstance(shown, GraphWidget)
    assert (shown.graph_id, shown.height) == (0, 300)
    assert str(shown) == repr(shown) == graph_text(recording)
    assert shown.to_dot().startswith('digraph "graph 0"')


def test_no_such_graph() -> None:
    with pytest.raises(UnknownGraphError, match="graph 0"):
        kernelscope.graph(chain(2), 5)


def test_what_is_sent() -> None:
    facts = packed(every_kind())
    assert facts["title"] == "graph 0"
    assert len(facts["nodes"]) == 14
    assert [level["place"] for level in facts["levels"]] == [[-1, 0], [4, 0], [7, 0], [7, 1]]
    assert facts["opened"] == [4, 7]


def test_what_is_sent_is_clean_and_of_bounded_size() -> None:
    facts = packed(strange())
    text = json.dumps(facts, ensure_ascii=False)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert len(text) < 12_000
    assert len(graph_widget.pack(drawing_of(tangle(500)))) < 60_000


def test_every_kind_that_is_there_is_described() -> None:
    for recording in (every_kind(), strange()):
        facts = packed(recording)
        assert {node[0] for node in facts["nodes"]} == set(facts["kinds"])
        for level in facts["levels"]:
            for number, *_ in level["spots"]:
                assert f"{facts['nodes'][number][0]}/{level['width']}" in facts["outlines"]


def test_the_static_version_of_a_small_graph_has_its_boxes_open() -> None:
    html = static(every_kind())
    [drawn] = images(html)
    assert "reduce_blocks" in drawn
    assert "<details" not in html
    assert 'alt="graph 0 · 14 nodes' in html


def test_closed_boxes_open_without_a_script() -> None:
    html = static(nested(20, 4))
    assert html.count("<details") == min(graph_widget.MOST_BOXES, 16)
    assert "step" in images(html)[1]
    assert "<script" not in html
    assert "onclick" not in html


def test_the_static_version_of_a_large_graph_is_a_summary() -> None:
    html = static(tangle(1_500))
    [drawn] = images(html)
    assert "nodes in" in drawn
    assert "to_html()" in html
    assert len(html) < 30_000
    assert len(static(tangle(400))) < 700_000


def test_a_graph_without_nodes_can_be_shown() -> None:
    made = script()
    made.graph()
    recording = made.recording()
    assert graph_text(recording) == "graph 0 · 0 nodes, 0 edges"
    assert "n0" not in to_dot(recording)
    assert packed(recording)["levels"] == []
    for drawn in (graph_svg(recording), small(recording), images(static(recording))[0]):
        assert "graph 0 · 0 nodes, 0 edges · nothing to draw" in drawn


def test_pictures_and_pages_are_written(tmp_path: Path) -> None:
    shown = kernelscope.graph(every_kind())
    drawn = shown.to_svg(tmp_path / "graph")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == drawn == shown.to_svg()
    path = shown.to_html(tmp_path / "graph")
    assert path == tmp_path / "graph.html"
    assert "Content-Security-Policy" in path.read_text(encoding="utf-8")
    with pytest.raises(RecordingFileError):
        shown.to_svg(tmp_path / "graph.kscope")
    with pytest.raises(RecordingFileError):
        shown.to_html(tmp_path / "missing" / "graph.html")
