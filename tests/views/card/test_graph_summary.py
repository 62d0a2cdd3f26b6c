from __future__ import annotations

import pytest
from graph_stories import rebuilt, with_builds

from kernelscope.views.card.text import launches_table, summary


def test_graphs_as_text() -> None:
    lines = summary(rebuilt().recording(), 110).splitlines()
    lines = lines[lines.index("Graphs (2 graphs, 7 builds, 12 launches)"):]
    assert lines[2].split() == ["graphs", "0,", "1", "7", "402", "µs", "6", "2.42", "ms", "1", "1", "12", "8.00", "µs",
                                "43.0", "µs"]
    assert lines[3].strip() == "4 nodes (3 kernels, 1 copy), 3 edges · axpy"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_its_width(width: int) -> None:
    recording = with_builds(rebuilt()).recording()
    text = summary(recording, width)
    for line in text[text.index("Build caches"):text.index("Launch configurations")].splitlines():
        assert len(line) <= max(width, 76), line


def test_captured_launches_are_marked_in_the_list_of_launches() -> None:
    lines = launches_table(rebuilt().recording(), width=150).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["captured"] * 3 + ["memory"] * 4
