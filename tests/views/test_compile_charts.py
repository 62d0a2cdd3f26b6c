from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from handmade import MS, Script

from kernelscope import load
from kernelscope.analysis.compile_time import compile_times
from kernelscope.views import charts
from kernelscope.views.charts import MOST_MARKS, split

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
PASSES = ["cuda_translate_bytecode", "nopython_type_inference", "cuda_native_lowering"]


def story(kernels: int = 2, names: int = 3) -> Script:
    script = Script()
    for at in range(kernels):
        script.kernel(f"kernel_{at}")
        script.compilation(at, (100 + at) * MS)
        for name in (PASSES + [f"pass_{each}" for each in range(names)])[:names]:
            script._add("passes", None, {"compilation_id": at, "kind": "pass", "name": name,
                                         "duration_ns": 15 * MS // names})
        for name, start, length in (("nvvm", 40, 20), ("link", 60, 30), ("lto", 65, 10), ("odd", 95, 1)):
            script._add("passes", None, {"compilation_id": at, "kind": "phase", "name": name,
                                         "start_ns": script.now + start * MS, "duration_ns": length * MS})
        script.now += 500 * MS
    return script


def bars(figure: Any, axis: str) -> dict[str, list[float]]:
    return {trace.name: list(trace.x) for trace in figure.data if trace.xaxis == axis}


def test_parts_of_a_bar_add_up() -> None:
    figure = charts.compile_time(story().recording())
    whole, kernels = bars(figure, "x"), bars(figure, "x2")
    assert whole == {"type inference": [10], "lowering": [10], "other passes": [10], "nvvm": [40], "lto": [20],
                     "link": [40], "other": [71]}
    assert list(figure.layout.yaxis.ticktext) == ["all 2 kernels"]
    assert list(figure.layout.yaxis2.ticktext) == ["kernel_1", "kernel_0"]
    assert [sum(values[at] for values in kernels.values()) for at in (0, 1)] == [101, 100]
    assert kernels["other"] == [36, 35]
    assert list(bars(figure, "x3")["passes"]) == [10, 10, 10]
    assert [trace.name for trace in figure.data if trace.showlegend is not False] == list(whole)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.kscope")), ids=lambda path: path.stem)
def test_recordings_of_a_gpu_add_up(path: Path) -> None:
    times = compile_times(load(path))
    assert sum(split(times).values()) == sum(each.duration_ns for each in times)


def test_many_kernels_and_passes_are_cut() -> None:
    figure = charts.compile_time(story(60, 40).recording())
    assert sum(len(trace.x) for trace in figure.data) <= MOST_MARKS
    assert len(figure.layout.yaxis2.ticktext) == 20
    assert figure.layout.xaxis2.title.text == "ms, the 20 longest"
    assert list(figure.layout.yaxis.ticktext) == ["all 60 kernels"]
    assert figure.layout.yaxis3.ticktext[-1] == "28 other passes"
    assert sum(bars(figure, "x3")["passes"]) == pytest.approx(sum(sum(bars(figure, "x")[name]) for name in (
        "type inference", "lowering", "other passes")) * 1_000)


def test_parts_do_not_overlap() -> None:
    for script in (story(1), story(1, 0), story(30)):
        layout = charts.compile_time(script.recording()).layout
        domains = [getattr(layout, name).domain for name in ("yaxis", "yaxis2", "yaxis3") if name in layout]
        assert all(0 <= low < high <= 1 for low, high in domains)
        assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))
    assert list(charts.compile_time(story(1).recording()).layout.yaxis.ticktext) == ["all"]


def test_nothing_compiled_is_a_sentence() -> None:
    assert "Nothing was compiled" in charts.compile_time(Script().recording()).layout.annotations[0].text
