from __future__ import annotations

from typing import Any

import pytest
from cards import HOSTILE, Reader
from graph_stories import GraphScript, rebuilt, with_builds

from kernelscope.views.card.html import card, printed
from kernelscope.views.card.model import overview
from kernelscope.views.card.sections import (
    FIRST_GRAPHS,
    MOST_GRAPH_ROWS,
    builds_section,
    card_of,
    graphs_section,
)
from kernelscope.views.card.text import summary


def test_nothing_of_it_without_graphs_and_build_caches(story: Any) -> None:
    shown = overview(story().recording())
    assert graphs_section(shown) is builds_section(shown) is None


def test_graphs_without_the_gpu_have_no_column_of_it() -> None:
    made = GraphScript(gpu=None)
    executable = made.instantiate()
    made.graph_event("launch", 0, exec_id=executable)
    read = Reader(card(made.recording()))
    heads = ["Graph what happened", "Builds median", "Rebuilds all", "Updates median", "Launches host, median"]
    assert heads in read.rows


def test_a_picture_stands_in_the_card_where_one_is_drawn() -> None:
    asked: list[int] = []

    def draw(graph: int) -> str:
        asked.append(graph)
        return "<svg></svg>"

    assert "<svg></svg>" in printed(card_of(rebuilt().recording()), draw)
    assert asked == [0]


def test_many_graphs_are_folded_and_cut() -> None:
    made = GraphScript()
    for at in range(MOST_GRAPH_ROWS + FIRST_GRAPHS + 5):
        graph = made.graph(f"f{at}", f"t{at}")
        made.graph_event("launch", graph, exec_id=made.instantiate(graph))
    html = card(made.recording())
    assert f"{MOST_GRAPH_ROWS + 6:,} more graphs" in html
    assert "and 6 more" in html


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_run_nothing(name: str) -> None:
    made = with_builds(rebuilt())
    made.rows["graph_nodes"][0] |= {"name": name, "kind": name, "specialization_id": None}
    made.rows["dispatchers"][0]["name"] = name
    for row in made.rows["graph_events"]:
        row |= {"changes": name, "error": name, "api": name}
    for row in made.rows["builds"]:
        row |= {"algorithm": name, "framework": name, "reason": name, "fix": name, "error": name}
    html = card(made.recording())
    assert "<script" not in html
    assert not {"script", "img"} & Reader(html).tags
    for output in (html, summary(made.recording())):
        assert "\x1b" not in output
        assert "\u202e" not in output


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_its_width(width: int) -> None:
    text = summary(with_builds(rebuilt()).recording(), width)
    for line in text[text.index("Build caches"):text.index("Launch configurations")].splitlines():
        assert len(line) <= max(width, 76), line
