from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cards import HOSTILE, Reader
from counting import lines_run
from handmade import many_launches

from kernelscope.recording.file import load
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.schema import TABLES
from kernelscope.views.card import labels
from kernelscope.views.card.html import card
from kernelscope.views.card.model import overview
from kernelscope.views.card.text import summary


def test_both_outputs_say_the_same(gpu_story: Any) -> None:
    recording = gpu_story().recording()
    shown = overview(recording)
    read, text = Reader(card(recording)), " ".join(summary(recording, 200).split())
    for line in labels.gpu_lines(shown):
        assert line in read.texts
        assert line in text
    assert shown.gpu is not None
    idle = labels.idle_line(shown.gpu.idle[0], shown.gpu.busy[0].window_ns)
    assert idle in read.texts
    assert idle in text
    assert "GPU busy" in read.texts
    assert "GPU busy: 13 % (1.32 ms of 10.0 ms)" in text
    assert "kernel 1.22 ms (12 %), copy 100 µs (1.0 %), idle 8.68 ms (87 %)" in text
    axpy = next(row for row in read.rows if row and row[0].startswith("axpy"))
    assert axpy[6] == "320 µs 80.0 µs"
    path = next(row for row in read.rows if row and row[0].startswith("step"))
    assert path[4] == "150 µs 0 ns"
    assert re.search(r"step +1 +1 +10\.0 µs +150 µs", summary(recording, 110))


def test_bars_add_up(gpu_story: Any) -> None:
    recording = gpu_story().recording()
    labels = [value for name, value in Reader(card(recording)).attributes if name == "aria-label"]
    gpu = next(label for label in labels if label.startswith("kernel "))
    idle = next(label for label in labels if label.startswith("while idle: "))
    spent = [sum(int(found.replace(",", "")) for found in re.findall(r"\(([\d,]+) ns", label)) for label in (gpu, idle)]
    shown = overview(recording)
    assert shown.gpu is not None
    assert spent == [shown.gpu.busy[0].window_ns, shown.gpu.idle[0].idle_ns]


def test_nothing_of_it_where_the_gpu_was_not_recorded(story: Any) -> None:
    made = story()
    made.health("cupti", "unavailable", message="no CUPTI library", fix="pip install kernelscope[cupti]")
    made.range("step", start_ns=0)
    for output in (card(made.recording()), summary(made.recording())):
        assert "GPU" not in re.sub(r"<style>.*?</style>", "", output, flags=re.DOTALL)
        assert "no CUPTI library" in output
        assert "pip install kernelscope[cupti]" in output


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_run_nothing(hostile: Any, name: str) -> None:
    made = hostile(name)
    made.metadata["gpu"] = {"source": name}
    made.activity(name=name)
    made.activity("memcpy", name, memory=name)
    html, text = card(made.recording()), summary(made.recording())
    read = Reader(html)
    assert not {"script", "img", "a", "b x"} & read.tags
    assert "<script" not in html
    assert "\x1b" not in html + text
    assert "\u202e" not in html + text


def test_several_cells_have_their_busy_share(gpu_story: Any) -> None:
    made = gpu_story()
    made.now += 10_000_000
    made.cell(execution_count=8)
    read = Reader(card(made.recording()))
    rows = [row for row in read.rows if row and row[0].startswith("In [")]
    assert [row[4] for row in rows] == ["13 %", "0 %"]
    assert re.search(r"cell +launches .* wall +GPU +status", summary(made.recording(), 120))


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
    read = Reader(card(recording))
    for line in labels.gpu_lines(shown):
        assert line in read.texts
