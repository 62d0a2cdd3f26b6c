"""Lanes of a GPU's counters in a real browser: areas as high as their values, and what is said of a sample."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import US, Script

from kernelscope.palette import SAMPLE_COLOR

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def sampled(many: int = 1) -> Script:
    """Samples of 100 µs from the cell's start on: all, a half, lost, none, a quarter; each `many` times."""
    made = Script()
    made.device(name="H200")
    made.cell(wall_ns=600 * US * many)
    made.launchable()
    made.launch()
    made.now = made.rows["cells"][0]["start_ns"]
    made.activity(duration_ns=200 * US)
    made.counter([value for value in (100, 50, None, 0, 25) for _ in range(many)])
    return made


def high(timeline: Any, time: int, color: str = SAMPLE_COLOR) -> float:
    """How much of the lane's row has its color at a time, 0 to 1."""
    return timeline.tell("""
        const row = v.layout.lanes.flatMap((lane) => lane.rows).find(({ track }) => track.spec.table === "samples");
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [k.canvas.width, k.canvas.height];
        const context = copy.getContext("2d");
        context.drawImage(k.canvas, 0, 0);
        const x = Math.round(v.x(a[0]) * v.dpr), tall = Math.round(row.height * v.dpr);
        const { data } = context.getImageData(x, Math.round((row.y - v.scroll) * v.dpr), 1, tall);
        const hex = (at) => "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
        let found = 0;
        if (!a[1]) return new Set(Array.from({ length: tall }, (_, at) => hex(4 * at))).size;
        for (let at = 0; at < data.length; at += 4) found += hex(at) === a[1];
        return found / tall;
    """, [time, color])


def colors(timeline: Any, time: int) -> int:
    """How many colors the lane's row has at a time."""
    return int(high(timeline, time, ""))


@pytest.mark.parametrize("many", [1, 4000])
@pytest.mark.parametrize("dark", [False, True])
def test_areas_are_as_high_as_their_values(opened_timeline: Any, many: int, dark: bool) -> None:
    timeline = opened_timeline(sampled(many).recording(), dark=dark)
    for at, value in ((50, 1), (150, 0.5), (250, 0), (350, 0), (450, 0.25), (550, 0)):
        assert high(timeline, at * US * many) == pytest.approx(value, abs=0.06), at
    assert colors(timeline, 250 * US * many) > 1 == colors(timeline, 350 * US * many), "stripes where samples are lost"
    timeline.show(140 * US * many, 160 * US * many)
    assert high(timeline, 150 * US * many) == pytest.approx(0.5, abs=0.06)


def test_what_is_said_of_a_sample(opened_timeline: Any) -> None:
    timeline = opened_timeline(sampled().recording())
    page = timeline.page
    labels = page.eval_on_selector_all(".kst-label", "all => all.map((each) => each.innerText.replaceAll('\\n', ' '))")
    assert any("GPU 0" in each and "SM busy, 100 µs lost" in each for each in labels)
    for at, said in ((150, "50.0 %"), (250, "samples of this time are missing")):
        text = timeline.tell("""
            const row = v.layout.lanes.flatMap((lane) => lane.rows).find(({ track }) => track.spec.table === "samples");
            k.goTo("samples", row.track.id(row.track.begunBy(a[0]) - 1));
            return document.querySelector(".kst-pin").innerText;
        """, [at * US])
        assert said in text and "sm__cycles_active.avg.pct_of_peak_sustained_elapsed" in text and "GPU 0" in text
    assert "the GPU's counters, 0 to 100 %" in page.inner_text("body")
