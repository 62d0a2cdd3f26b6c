"""The benchmark of growth: its recordings are sound, and whatever shows them does so however deep they are."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope import Recording, load

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
growth: Any = importlib.import_module("growth")
sys.path.remove(str(FOLDER))

#: So deep is what is inside each other: Python's own stack has 1,000 levels.
DEEP = 20_000


@pytest.mark.parametrize("dimension", growth.DIMENSIONS)
def test_recordings_of_each_dimension_can_be_loaded_and_shown(dimension: str, tmp_path: Path) -> None:
    recording = growth.recording_of(growth.DIMENSIONS[dimension](120))
    again = load(recording.save(tmp_path / "out"))
    assert all(again.arrow(name).num_rows == table.num_rows for name, table in recording.tables.items())
    for work in growth.WORK.values():
        work(again, tmp_path)


@pytest.mark.parametrize("dimension", ["nested_ranges", "nested_launches", "nested_operators", "graph_chain"])
def test_what_is_inside_each_other_by_the_thousand_is_shown_everywhere(dimension: str, tmp_path: Path) -> None:
    """Nothing walks it by Python's stack, and nothing has the names around each thing in it: that would be 2 GB."""
    recording: Recording = growth.recording_of(growth.DIMENSIONS[dimension](DEEP))
    for name, work in growth.WORK.items():
        folder = tmp_path / name
        folder.mkdir()
        work(recording, folder)
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 60_000_000
