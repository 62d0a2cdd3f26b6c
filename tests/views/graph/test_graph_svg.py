"""Graphs as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from counting import lines_run
from drawn_graphs import chain, every_kind, nested, script, strange, tangle

from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import drawing_of
from kernelscope.views.graph.model import KINDS, OTHER
from kernelscope.views.graph.svg import MOST_SMALL, draw, graph_svg, small

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


@pytest.mark.parametrize("recording", [
    pytest.param(make(), id=name) for name, make in {
        "every kind": every_kind, "untimed": lambda: every_kind(0), "strange": strange, "tangle": lambda: tangle(300),
    }.items()
])
@pytest.mark.parametrize("function", [graph_svg, small])
def test_it_is_well_formed_and_runs_nothing(recording: Recording, function: object) -> None:
    drawn = function(recording)  # type: ignore[operator]
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "g", "path", "rect", "text", "tspan"}
    # Edges that close a cycle are dashed.
    assert ("stroke-dasharray='5 4'" in drawn) is recording.name.startswith("</script>")
    names = {name for each in root.iter() for name in each.attrib}
    assert not {name for name in names if name.startswith("on") or "href" in name or name == "style"}
    assert max(map(len, texts(drawn))) < 120
    assert "\u202e" not in drawn
    assert "\x1b" not in drawn


def test_nodes_say_kernel_configuration_and_time() -> None:
    drawn = graph_svg(every_kind())
    said = texts(drawn)
    for text in ("axpy", "kernel · [4, 128]", "20.0 µs", "copy HtoD", "memcpy · 1.0 MiB", "print_result",
                 "host function", "while · 2 nodes", "if · 3 nodes", "body", "then", "else", "90.0 µs"):
        assert text in said, text
    assert said[-1].startswith("graph 0 · 14 nodes, 13 edges · instantiated once, launched 20 times · ")


def test_shares_are_bars() -> None:
    made = script()
    graph = made.graph()
    for lasted in (3_000, 1_000):
        made.activity(duration_ns=lasted, graph_node_id=made.graph_node(graph))
    bars = [float(width) for width in re.findall(r"h([\d.]+)' stroke='#fff'", graph_svg(made.recording()))]
    assert bars[0] / bars[1] == pytest.approx(3, rel=0.01)


def test_boxes_open_and_close() -> None:
    recording = every_kind()
    closed = texts(graph_svg(recording, opened=()))
    assert "reduce_blocks" not in closed
    assert "while" in closed
    assert "2 nodes" in closed
    alone = texts(draw(drawing_of(recording), at=(7, 1), foot=False))
    assert alone == ["scale", "kernel · [4, 128]", "empty"]
    one = texts(graph_svg(recording, opened=[4]))
    assert "reduce_blocks" in one
    assert "then" not in one


@pytest.mark.parametrize("nodes", [1, MOST_SMALL, MOST_SMALL + 1, 500])
def test_a_small_picture_fits_a_card(nodes: int) -> None:
    root = ElementTree.fromstring(small(tangle(nodes)))
    assert float(root.get("width", 0)) <= 1_100
    assert float(root.get("height", 0)) <= 560
    assert len(small(tangle(nodes))) < 60_000


def test_a_small_picture_can_be_read() -> None:
    assert "nodes in" in small(tangle(40))
    assert "reduce_blocks" in small(every_kind())
    assert small(chain(40)).count("axpy") == 40
    # Too much for a card with all boxes open; closed, it fits.
    closed = texts(small(nested(12, 3)))
    assert closed == ["step", "kernel"] * 3 + ["while", "4 nodes"]


def test_many_nodes_are_drawn_with_little_more_work_for_each() -> None:
    few, many = tangle(300), tangle(600)
    assert len(graph_svg(many)) < 750_000
    assert lines_run(lambda: graph_svg(many)) < 3 * lines_run(lambda: graph_svg(few))


@pytest.mark.parametrize("kind", [*KINDS.values(), OTHER], ids=lambda kind: kind.word)
def test_white_is_readable_on_every_kind(kind: object) -> None:
    color = kind.color  # type: ignore[attr-defined]
    parts = [int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    light = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert 1.05 / (light + 0.05) >= 4.5
