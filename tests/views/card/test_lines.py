"""Code with a gutter: what is folded, what is left out of much, which columns there are, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import MS, Script

from kernelscope.recording.model import Recording
from kernelscope.units import MISSING
from kernelscope.views.card.blocks import CodeLine, FoldedLines, Listing, Section
from kernelscope.views.card.html import card
from kernelscope.views.card.sections import CONTEXT, MOST_CODE, MOST_LETTERS, MOST_LINES, WHOLE_CELL, card_of
from kernelscope.views.card.text import summary


def coded(lines: int, active: list[int], gpu: bool = False, width: int = 20) -> Script:
    script = Script(**({"gpu": {"source": "cupti"}} if gpu else {}))
    script.cell(source="\n".join("x" * width for _ in range(lines)), execution_count=3)
    script._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    script.launchable()
    for line in active:
        number = script._add("lines", "line_id", {"file": "In[3]", "cell_id": 0, "line": line})
        script.launch(line_id=number)
    return script


def section_of(recording: Recording) -> Section | None:
    return next((each for each in card_of(recording).sections if each.key == "lines"), None)


def listing_of(recording: Recording) -> Listing:
    section = section_of(recording)
    assert section is not None
    return next(each for each in section.blocks if isinstance(each, Listing))


def test_a_long_cell_is_cut_to_the_lines_that_did_something() -> None:
    (name, lines), = listing_of(coded(200, [50, 52, 120]).recording()).sources
    assert name == ""  # it is the card's
    found = [f"{each.summary}: {len(each.lines)}" if isinstance(each, FoldedLines) else each.number for each in lines]
    assert CONTEXT == 2 and found == [
        "… 47 lines that did nothing: 47", *range(48, 55), "… 63 lines that did nothing: 63", *range(118, 123),
        "… 78 lines that did nothing: 78"]
    held = [each for each in lines if isinstance(each, CodeLine)]
    assert [each.number for each in held if each.values] == [50, 52, 120]
    assert {each.at for each in held if each.values} == {"line:0", "line:1", "line:2"}
    (_, short), = listing_of(coded(WHOLE_CELL, [1]).recording()).sources
    assert [each.number for each in short if isinstance(each, CodeLine)] == [*range(1, WHOLE_CELL + 1)]


def test_of_many_long_lines_as_many_are_shown_as_a_notebook_bears_and_the_sums_are_of_all() -> None:
    recording = coded(2_000, [*range(1, 1_200, 2)], width=3_000).recording()
    shown = listing_of(recording)
    (_, lines), = shown.sources
    held = [each for each in lines if isinstance(each, CodeLine)]
    folded = [line for each in lines if isinstance(each, FoldedLines) for line in each.lines]
    assert sum(bool(each.values) for each in held) == MOST_LINES
    assert all(len(each.text) <= MOST_CODE for each in (*held, *folded))
    assert sum(len(each.text) for each in folded) <= MOST_LETTERS
    assert {each.text: each.values["launches"] for each in shown.sums} == {"400 more lines": "400", "total": "600"}
    assert len(card(recording)) < 500_000
    assert sum("In[3]:" in line for line in summary(recording, 100).splitlines()) == 6  # the heading, and the first


def test_only_columns_with_anything_in_them_and_why_a_value_is_missing() -> None:
    assert [each.key for each in listing_of(coded(3, [1]).recording()).columns] == ["launches", "host"]
    script = coded(3, [1, 2], gpu=True)
    script.compilation(line_id=0)
    script.activity(line_id=0)
    for line in (0, None):
        script.activity("sync", line_id=line)
    script.activity(duration_ns=5, start_ns=None, line_id=1)
    shown = listing_of(script.recording())
    assert [each.key for each in shown.columns] == ["launches", "host", "compile", "gpu", "wait"]
    (_, lines), = shown.sources
    first, second, *_ = [each for each in lines if isinstance(each, CodeLine)]
    assert first.values["wait"] == "20.0 µs" and "wait" not in first.meanings
    assert (second.values["compile"], second.values["gpu"], second.values["wait"]) == ("", MISSING, MISSING)
    assert {key for key, text in second.meanings.items() if text.startswith("not known")} == {"call", "gpu", "wait"}
    assert [each.text for each in shown.sums] == ["no known line", "total"]


@pytest.mark.parametrize(("waited", "is_open"), [(80, True), (1, False)])
def test_it_is_unfolded_where_most_of_the_time_was_waiting(waited: int, is_open: bool) -> None:
    script = coded(3, [1, 2], gpu=True)
    script.activity("sync", "cuCtxSynchronize", waited * MS, line_id=1)
    section = section_of(script.recording())
    assert section is not None and section.is_open == is_open


def test_without_lines_there_is_no_section(script: Any) -> None:
    made = script()
    made.cell(source="k()")
    made.launchable()
    made.launch()
    assert section_of(made.recording()) is None
