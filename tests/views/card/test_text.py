"""The card as text: how wide it is, and what is not known; tests/snapshots has what it says."""

from __future__ import annotations

from typing import Any

import pytest
from graph_stories import rebuilt, with_builds

from kernelscope.units import MISSING
from kernelscope.views.base import width_of
from kernelscope.views.card.text import summary


@pytest.mark.parametrize("width", [60, 72, 80, 100, 140])
def test_no_line_is_wider_than_asked(story: Any, long: Any, width: int) -> None:
    # A table is never narrower than its numbers: they are not cut.
    for made, least in ((story(), 80), (long(), 104), (with_builds(rebuilt()), 97)):
        lines = summary(made.recording(), width).splitlines()
        assert max(width_of(line) for line in lines) <= max(width, least)


def test_the_width_is_the_terminals(story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = story().recording()
    for columns, width in (("118", 118), ("20", 80)):
        monkeypatch.setenv("COLUMNS", columns)
        assert summary(recording) == summary(recording, width)


def test_what_was_not_recorded_is_a_dash(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.specialization(regs=14)
    made.configuration()
    made.launch(phases=None, specialization=None, end_ns=None, cache=None, error="TypingError")
    text = summary(made.recording(), 100)
    assert f"{MISSING} in launches" in text
    assert "Host time by phase" not in text
    assert "Recording's own cost: not known" in text
    # Registers are those of specializations that were launched.
    assert "0 specializations, 1 launch failed" in text
