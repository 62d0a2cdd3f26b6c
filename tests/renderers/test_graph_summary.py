from __future__ import annotations

import pytest
from graph_stories import rebuilt, with_builds

from kernelscope.views.card.model import overview
from kernelscope.views.card.text import builds_lines, graphs_lines, launches_table, summary


def test_graphs_as_text() -> None:
    lines = graphs_lines(overview(rebuilt().recording()), 110).splitlines()
    assert lines[0] == "Graphs (2 graphs, 7 builds, 12 launches; host and GPU: median of a launch)"
    assert lines[2].split() == ["graphs", "0,", "1", "7", "402", "µs", "6", "2.42", "ms", "1", "1", "12", "8.00", "µs",
                                "43.0", "µs"]
    assert lines[3].strip() == "4 nodes (3 kernels, 1 copy), 3 edges · axpy"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_its_width(width: int) -> None:
    recording = with_builds(rebuilt()).recording()
    shown = overview(recording)
    for line in builds_lines(shown, width).splitlines():
        assert len(line) <= max(width, 76), line
    assert "Graphs (" in summary(recording, width)


def test_captured_launches_are_marked_in_the_list_of_launches() -> None:
    lines = launches_table(rebuilt().recording(), width=150).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["captured"] * 3 + ["memory"] * 4
