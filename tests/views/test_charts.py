"""Charts: what the figures hold, and that the fragment of HTML draws itself offline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import chromiums
from handmade import MS, Script, many_launches

from kernelscope import Recording
from kernelscope.analysis.columns import union
from kernelscope.views import charts
from kernelscope.views.charts import charts_html

FIGURES = [charts.time_by_phase, charts.queue_and_execute, charts.gpu_busy, charts.compile_time]


@pytest.fixture
def gpu() -> Recording:
    """Two kernels on two GPUs, and one that nothing recorded launched."""
    made = Script(gpu={"source": "cupti"})
    made.device(ordinal=0)
    made.device(ordinal=3)
    made.cell(wall_ns=10 * MS)
    for at, name in enumerate(("axpy", "total")):
        made.kernel(name)
        made.specialization(at)
    made.configuration()
    for at in range(10):
        launch = made.launch(at % 2, specialization=at % 2, queue_ns=at * 1_000, execute_ns=(at + 1) * 10_000)
        made.activity(name="axpy", launch_id=launch, duration_ns=(at + 1) * 10_000, device_id=at % 2)
    made.activity(name="other_kernel", duration_ns=7_000)
    made.activity("sync", duration_ns=90 * MS)
    return made.recording()


def marks(figure: Any) -> int:
    return sum(len(trace.q1 if trace.type == "box" else trace.x) for trace in figure.data)


def test_time_by_phase_adds_up(story: Any) -> None:
    figure = charts.time_by_phase(story().recording())
    assert list(figure.layout.yaxis.ticktext) == ["axpy", "block_sum"]
    values = {trace.name: list(trace.x) for trace in figure.data}
    assert list(values) == ["dispatch", "compile", "prepare", "submit", "finish"]
    assert values["compile"] == [300.0, 0.0]
    assert values["dispatch"] == [0.012, 0.003]
    assert figure.layout.xaxis.title.text == "ms"


def test_the_kernels_beyond_twenty_are_one_bar() -> None:
    recording = many_launches(5_000, 50)
    figure = charts.time_by_phase(recording)
    assert figure.layout.yaxis.ticktext[-1] == "30 other kernels"
    end, start = recording.column("launches", "end_ns"), recording.column("launches", "start_ns")
    shown = sum(sum(trace.x) for trace in figure.data)
    assert shown * 1e6 == pytest.approx((end - start).sum())
    assert marks(figure) == 21 * 4


def test_queue_and_execute(gpu: Recording) -> None:
    queue, execute = (trace for trace in charts.queue_and_execute(gpu).data if trace.type == "box")
    assert list(charts.queue_and_execute(gpu).layout.yaxis.ticktext) == ["total", "axpy", "other_kernel"]
    assert list(execute.median) == [60.0, 50.0, 7.0]
    assert list(queue.median) == [5.0, 4.0]
    assert list(queue.lowerfence)[1] == pytest.approx(np.percentile([0.1, 2, 4, 6, 8], 5))
    assert "0 drawn at 0.1" in charts.queue_and_execute(gpu).layout.xaxis.title.text


def test_gpu_busy(gpu: Recording) -> None:
    figure = charts.gpu_busy(gpu, bins=50)
    assert [trace.name for trace in figure.data] == ["GPU 0", "GPU 3"]
    length = 10 * MS / 50
    # A wait of the host is not work, and would have made the time longer.
    assert max(figure.data[0].x) < 10
    rows = [row for row in gpu.rows("activities") if row["device_id"] == 1]
    start, end = (np.array([row[name] for row in rows]) for name in ("start_ns", "end_ns"))
    assert sum(figure.data[1].y) / 100 * length == pytest.approx(union(start, end).total_ns)
    assert marks(charts.gpu_busy(gpu, bins=10**9)) == 2_000
    with pytest.raises(ValueError, match="bins must be at least 1, not 0"):
        charts.gpu_busy(gpu, bins=0)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("recording", [
    Recording({}, {}), Recording({}, {"dry_run": True}), Recording({}, {"gpu": {"source": "cupti"}})])
def test_what_is_missing_is_a_sentence(figure: Any, recording: Recording) -> None:
    made = figure(recording)
    assert not made.data
    text = made.layout.annotations[0].text
    assert text.endswith(".") and len(text) > 20
    if recording.is_dry_run and figure not in (charts.time_by_phase, charts.compile_time):
        assert "ry run" in text


@pytest.mark.parametrize("name", [
    "<img src=x onerror=alert(1)>", "<a href='javascript:alert(1)'>x</a>", "$x^2$", "%{y}", "a\x1b[31m", "&lt;b&gt;"])
@pytest.mark.parametrize("figure", FIGURES)
def test_names_are_shown_literally(hostile: Any, name: str, figure: Any) -> None:
    recording = hostile(name).recording()
    text = json.dumps(figure(recording).to_plotly_json(), default=list)
    assert "<img" not in text and "<a " not in text and "$x" not in text and "\\u001b" not in text
    assert all(name not in (trace.hovertemplate or "") for trace in figure(recording).data)


def test_figures_are_readable_on_any_ground(gpu: Recording) -> None:
    for figure in FIGURES:
        layout = figure(gpu).layout
        assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
        red, green, blue = (int(layout.font.color[at:at + 2], 16) / 255 for at in (1, 3, 5))
        light = sum(share * (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
                    for share, value in ((0.2126, red), (0.7152, green), (0.0722, blue)))
        assert 1.05 / (light + 0.05) > 3.5
        assert (light + 0.05) / 0.05 > 3.5


def test_at_most_two_thousand_marks() -> None:
    recording = many_launches(20_000, 400)
    assert all(marks(figure(recording)) <= charts.MOST_MARKS for figure in FIGURES)


def test_the_fragment_needs_nothing_from_outside(hostile: Any) -> None:
    html = charts_html(hostile("</script><script>alert(1)</script>").recording())
    without = re.sub(r'data-kind="plotly">[A-Za-z0-9+/=]+</script>', "", html)
    assert len(without) < 40_000 < len(html) < 2_600_000
    assert "http" not in without and "src=" not in without
    assert "<script>alert" not in without
    assert without.count("<script") == without.count("</script") + 1 == 3  # one end was cut out above


@pytest.mark.browser
@pytest.mark.slow
def test_the_fragment_draws_itself(gpu: Recording, hostile: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)><b>x</b> $y$"
    page_path = tmp_path / "page.html"
    page_path.write_text('<!DOCTYPE html><meta charset="utf-8"><body style="background:#111;color:#eee">'
                         + charts_html(gpu) + charts_html(hostile(evil).recording()), encoding="utf-8")
    with chromiums(tmp_path) as chromium:
        page = chromium("wide").new_page(color_scheme="dark")
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (problems.append("dialog"), dialog.dismiss()))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_path.as_uri())
        page.wait_for_function("document.querySelectorAll('[data-drawn=done]').length == 2", timeout=60_000)
        labels = page.locator(".kscope-charts .ytick text").all_text_contents()
        color = page.evaluate("getComputedStyle(document.querySelector('.kscope-charts .ytick text')).fill")
        leaked = page.evaluate("typeof window.Plotly")
    assert not problems
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    assert [label.strip() for label in labels].count(evil) == 1
    assert "other_kernel" in {label.strip() for label in labels}
    assert color == "rgb(228, 231, 235)"
    assert leaked == "undefined"
