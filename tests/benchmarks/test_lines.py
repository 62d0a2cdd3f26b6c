"""The benchmark of lines: its cells run under the tools that are there, and its tables say what was found."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("lines")


def test_cells_run_and_every_launch_has_its_line(lines: Any) -> None:
    cell = lines.measure("ours", "lines", 2, 0.0, True)
    loop = lines.long_loop(True, 2, 0.0)
    assert (cell["kernels"], cell["unknown"], loop["unknown"]) == (20, 0, 0)
    # 20 launches with 50 calls after each: the loop's line, the call's and the function's three; the loops end, too.
    assert cell["lines"] == 20 * (1 + 1 + 50 * 5 + 1) + 4
    text = lines.report([cell], loop)
    assert f"{cell['lines']:,} executed lines and 20 kernels, of which none have no line" in text
    assert "| KernelScope, lines |" in text and "100,000 executed" in text


def test_tools_are_compared_by_medians_and_by_the_ends_of_intervals(lines: Any) -> None:
    other = {"median": 600.0, "low": 400.0, "high": 700.0}
    assert lines.times_ours(other, {"median": 6.0, "low": 2.0, "high": 8.0}) == "100, at least 50"
    assert lines.times_ours(other, {"median": -1.0, "low": -2.0, "high": 8.0}) == "at least 50"
    assert lines.times_ours(other, {"median": -1.0, "low": -2.0, "high": -0.5}) == "ours was not seen"
