from __future__ import annotations

from typing import Any

import pytest
from cards import HOSTILE, Reader
from graph_stories import GraphScript, rebuilt, with_builds

from kernelscope.units import MISSING
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


def test_the_card_shows_builds_rebuilds_and_launches() -> None:
    read = Reader(card(rebuilt().recording()))
    row = next(row for row in read.rows if row and row[0].startswith("graphs 0, 1"))
    assert row[1:] == ["7 402 µs", "6 2.42 ms", "1 1 refused", "12 8.00 µs", "516 µs 43.0 µs"]
    for line in ("4 nodes (3 kernels, 1 copy), 3 edges", "3 launches captured in 1 capture, 120 µs",
                 "6 rebuilds, 2.42 ms: 4 with nothing changed, 2 with other arguments (argument 1 of axpy)",
                 "2 uploads, 1 of them though it was there"):
        assert line in read.texts
    one_by_one = [row[0].split(" axpy")[0] for row in read.rows if row and row[0].startswith("graph ")]
    assert one_by_one == ["graph 0", "graph 1"]


def test_captured_launches_are_shown_and_not_counted() -> None:
    read = Reader(card(rebuilt().recording()))
    at = read.texts.index("Launches")
    assert read.texts[at + 1:at + 3] == ["4", "2 configurations, 3 captured, 12 graph launches"]
    axpy = next(row for row in read.rows if row and row[0].startswith("axpy"))
    assert axpy[0].endswith("3 launches captured")
    assert axpy[1].split()[0] == "0"
    assert "3 captured" in " ".join(read.texts)


def test_both_outputs_say_the_same_of_build_caches() -> None:
    recording = with_builds(rebuilt()).recording()
    read, text = Reader(card(recording)), " ".join(summary(recording, 200).split())
    assert "Build caches" in [text.strip() for text in read.texts]
    row = next(row for row in read.rows if row and row[0].startswith("reduce_into cuda.compute, 40.0 KiB"))
    assert row[1:] == ["3", "1 80.0 µs", "2 1.35 s", "2.70 s 2.55 s"]
    assert "4 requests, 3.20 s in all" in text
    for part in ("reduce_into 3 1 80.0 µs 2 1.35 s 2.70 s 2.55 s", f"merge_sort 1 0 {MISSING} 0 {MISSING} 500 ms",
                 "why: only the operator's name `add2` differs", "fix: define the operator once",
                 "another thread was building the same"):
        assert part in text
    assert "another thread was building the same" in read.texts


def test_kernels_are_named_with_their_framework_where_there_are_several() -> None:
    alone, several = (summary(made.recording(), 120) for made in (rebuilt(), with_builds(rebuilt())))
    assert "numba-cuda" not in alone
    assert "numba-cuda · k.py:7" in several
    assert "cuda.compute · 1 configuration" in several


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
