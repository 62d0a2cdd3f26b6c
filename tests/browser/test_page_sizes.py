"""The page at ten events, a thousand and a million: pictures of each, and that a million stays small and quick."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline
from unpack import packed

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "timeline.py"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Pages of the benchmark's recordings, each made once."""
    spec = importlib.util.spec_from_file_location("timeline_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page(events: int) -> Path:
        if events not in made:
            recording = benchmark.realistic(events // 2)
            assert packed(recording).size <= max(20_000, 5 * events)
            made[events] = recording.to_html(folder / f"{events}.html")
        return made[events]

    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("events", [10, 1_000, 1_000_000])
def test_pictures(pages: Any, watch: Any, artifacts: Path, events: int, dark: bool) -> None:
    watched = watch(dark=dark)
    watched.page.goto(pages(events).as_uri())
    timeline = Timeline(watched.page).wait()
    assert timeline.tell("return v.model.events;") == pytest.approx(events, abs=1)
    timeline.page.locator(".kst").screenshot(path=f"{artifacts}.png")
    whole = timeline.colors()
    ground = "#16191d" if dark else "#ffffff"
    # Lanes are painted from their first pixel to their last, whatever an event measures.
    assert sum(whole.values()) - whole[ground] > 0.2 * sum(whole.values())
    span = timeline.tell("return v.model.span;")
    timeline.show(span * 0.5, span * 0.5 + 120_000)
    names = timeline.tell("const [from, to] = v.tracks.get(v.find('gpu', 0).track.spec.track).visible(v.t0, v.t1);"
                          "return to - from;")
    assert 0 < names < 40
    timeline.page.locator(".kst").screenshot(path=f"{artifacts}-near.png")


def test_a_page_of_a_hundred_thousand_events_is_below_two_megabytes(pages: Any) -> None:
    assert pages(100_000).stat().st_size < 2_000_000


def test_columns_that_were_moved_by_a_pan_are_as_if_drawn_anew(pages: Any, watch: Any) -> None:
    watched = watch()
    watched.page.goto(pages(100_000).as_uri())
    timeline = Timeline(watched.page).wait()
    span = timeline.tell("return v.model.span;")
    timeline.show(span * 0.2, span * 0.7)
    before = timeline.image()
    for by in (7, 3, -40, 11, 200, -90):
        timeline.tell("v.pan(a); k.draw();", by)
    moved = timeline.image()
    timeline.tell("v.rasters.clear(); k.draw();")
    drawn = timeline.image()
    assert before != drawn
    differing = sum(one != other for one, other in zip(moved, drawn, strict=True))
    # A pixel's height may be rounded otherwise; the rest is the same.
    assert differing < 0.002 * len(drawn)


def test_nothing_is_drawn_while_nothing_changes(pages: Any, watch: Any) -> None:
    watched = watch()
    watched.page.goto(pages(1_000).as_uri())
    timeline = Timeline(watched.page).wait()
    watched.page.mouse.move(2, 2)
    timeline.settle()
    drawn = timeline.tell("return k.frames.count;")
    watched.page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    assert timeline.tell("return k.frames.count;") == drawn


def test_the_sums_of_a_million_events_are_exact(pages: Any, watch: Any) -> None:
    watched = watch()
    watched.page.goto(pages(1_000_000).as_uri())
    timeline = Timeline(watched.page).wait()
    told = timeline.tell("""
        k.select(0, v.model.span);
        const sums = k.sums(), gpu = v.model.table("gpu"), lasted = gpu.col("dur");
        let total = 0; for (let i = 0; i < lasted.length; i++) total += lasted[i];
        return [sums.launches, sums.kernels, sums.kernelTime - total, sums.host];
    """)
    assert told[:3] == [500_000, 500_000, 0]
    assert told[3] == timeline.tell("return v.model.table('launches').col('dur').reduce((sum, each) => sum + each, 0);")
