from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from counting import lines_run
from handmade import many_launches

from kernelscope.recording.file import load
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.schema import TABLES
from kernelscope.views.card.html import card
from kernelscope.views.card.model import overview
from kernelscope.views.card.text import summary


def test_nothing_of_it_where_the_gpu_was_not_recorded(story: Any) -> None:
    made = story()
    made.health("cupti", "unavailable", message="no CUPTI library", fix="pip install kernelscope[cupti]")
    made.range("step", start_ns=0)
    for output in (card(made.recording()), summary(made.recording())):
        assert "GPU" not in re.sub(r"<style>.*?</style>", "", output, flags=re.DOTALL)
        assert "no CUPTI library" in output
        assert "pip install kernelscope[cupti]" in output


def large(count: int) -> Recording:
    """So many launches, each with its kernel on the GPU."""
    held = many_launches(count, 20)
    start = held.column("launches", "submit_end_ns") + np.random.default_rng(0).integers(-200, 4_000, count)
    names = [f"k{at % 20}" for at in range(count)]
    activities = make_table("activities", {
        "activity_id": np.arange(count), "kind": ["kernel"] * count, "name": names,
        "device_id": np.zeros(count, np.int32), "stream": 7 + np.arange(count) % 3, "start_ns": np.sort(start),
        "end_ns": np.sort(start) + 9_000, "launch_id": np.arange(count),
    })
    tables = {name: held.arrow(name) for name in TABLES} | {"activities": activities}
    return Recording(tables, {"gpu": {"source": "cupti"}})


def test_a_large_cell_is_no_more_work_than_a_smaller_one() -> None:
    few, many = large(10_000), large(100_000)
    assert "100,000 kernels ran" in card(many)
    assert lines_run(lambda: card(many)) < 1.2 * lines_run(lambda: card(few))


def test_a_recording_of_a_real_gpu() -> None:
    recording = load(Path(__file__).resolve().parents[3] / "notebooks" / "recordings" / "gpu.kscope")
    shown = overview(recording)
    gpu = shown.gpu
    assert gpu is not None
    kernels = int((recording.activities.kind == "kernel").sum())
    assert sum(each.kernels for each in gpu.execution) == gpu.kernels == kernels
    assert gpu.busy[0].busy_ns + gpu.idle[0].idle_ns == gpu.busy[0].window_ns
    assert sum(gpu.idle[0].by_state.values()) == gpu.idle[0].idle_ns
    assert (gpu.reversed, gpu.untimed) == (0, 0)
