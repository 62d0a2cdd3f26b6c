"""The page at ten events, a thousand and a million: pictures of each, and that a million stays small and quick."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline
from unpack import packed

from kernelscope.palette import PHASE_COLORS

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


@pytest.fixture
def timeline(pages: Any, watch: Any) -> Callable[..., Timeline]:
    """Open one of the pages."""
    def show(events: int, **options: Any) -> Timeline:
        page = watch(**options).page
        page.goto(pages(events).as_uri())
        return Timeline(page).wait()

    return show


@pytest.mark.parametrize(("events", "dark"), [(10, False), (1_000, True), (1_000_000, False)])
def test_lanes_are_painted_however_many_events_there_are(timeline: Any, artifacts: Path, events: int,
                                                         dark: bool) -> None:
    shown = timeline(events, dark=dark)
    assert shown.tell("return v.model.events;") == pytest.approx(events, abs=1)
    shown.page.locator(".kst").screenshot(path=f"{artifacts}.png")
    whole = shown.colors()
    ground = "#16191d" if dark else "#ffffff"
    # Lanes are painted from their first pixel to their last, whatever an event measures.
    assert sum(whole.values()) - whole[ground] > 0.2 * sum(whole.values())
    sums, launched, lasted = shown.tell("""
        k.select(0, v.model.span);
        const total = (table) => v.model.table(table).col("dur").reduce((sum, each) => sum + each, 0);
        return [k.sums(), total("launches"), total("gpu")];
    """)
    assert [sums[name] for name in ("launches", "kernels", "host", "kernelTime")] == [
        events // 2, events // 2, launched, lasted]
    span = shown.tell("return v.model.span;")
    shown.show(span * 0.5, span * 0.5 + 120_000)
    names = shown.tell("const [from, to] = v.tracks.get(v.find('gpu', 0).track.spec.track).visible(v.t0, v.t1);"
                       "return to - from;")
    assert 0 < names < 40
    shown.page.mouse.move(2, 2)
    shown.settle()
    # A large one is painted before its data are decoded, and much as it is then.
    if events == 1_000_000:
        first, decoded = shown.tell("return [k.frames.first, k.frames.whole];")
        assert first < decoded
        shown.tell("k.select(null); k.fit();")
        shown.settle()
        shown.tell("v.overview = JSON.parse(document.getElementById('kernelscope-header').textContent).overview;"
                   "k.draw();")
        small = shown.colors()
        shown.tell("delete v.overview; k.draw();")
        large = shown.colors()
        for phase in ("dispatch", "prepare", "submit"):
            color = PHASE_COLORS[phase]
            assert small[color] == pytest.approx(large[color], rel=0.4), phase  # edges of bars are mixed colors
    shown.settle()
    drawn = shown.tell("return k.frames.count;")
    shown.page.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    assert shown.tell("return k.frames.count;") == drawn, "it draws while nothing changes"


def test_columns_that_were_moved_by_a_pan_are_as_if_drawn_anew(pages: Any, timeline: Any) -> None:
    shown = timeline(100_000)
    assert pages(100_000).stat().st_size < 2_000_000
    span = shown.tell("return v.model.span;")
    shown.show(span * 0.2, span * 0.7)
    before = shown.image()
    for by in (7, 3, -40, 11, 200, -90):
        shown.tell("v.pan(a); k.draw();", by)
    moved = shown.image()
    shown.tell("v.rasters.clear(); k.draw();")
    drawn = shown.image()
    assert before != drawn
    differing = sum(one != other for one, other in zip(moved, drawn, strict=True))
    # A pixel's height may be rounded otherwise; the rest is the same.
    assert differing < 0.002 * len(drawn)
