"""The flame graph in a recording's page: what is drawn, search, zoom, keys, and its static picture without scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from browsing import FRAME
from stacked import many_paths, simulation

from kernelscope.features.call_paths.analyse import METRICS
from kernelscope.features.call_paths.flame import flame_of
from kernelscope.palette import FRAME_COLORS
from kernelscope.recording.model import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]


class Flame:
    """Drives the flame graph of a page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.locator("details[data-ks-part=call_paths] > summary").click()
        page.wait_for_function("() => document.querySelector('.ks-flame').kernelscope?.view")
        self.settle()

    def tell(self, code: str, argument: Any = None) -> Any:
        """Run code in which `k` is the view, `s` what it shows, `t` its tree, and `a` the argument."""
        return self.page.evaluate(
            "(a) => { const k = document.querySelector('.ks-flame').kernelscope, s = k.sight, t = k.tree; "
            f"{code} }}", argument)

    def settle(self) -> Flame:
        self.page.evaluate(FRAME)
        return self

    def place(self, label: str) -> tuple[float, float]:
        """The middle of the widest frame of that label, on the page."""
        x, y = self.tell("""
            const { left, total, rows } = s.layout, box = k.canvas.getBoundingClientRect();
            const all = rows.flatMap((row) => [...row]).filter((node) => t.frameOf(node).label === a);
            const node = all.sort((one, other) => total[other] - total[one])[0], scale = s.width / (s.to - s.from);
            const from = Math.max(0, (left[node] - s.from) * scale);
            const to = Math.min(s.width, (left[node] + total[node] - s.from) * scale);
            return [box.left + (from + to) / 2, box.top + t.depth[node] * 19 + 9 - s.scroll];
        """, label)
        return x, y

    @property
    def shown(self) -> str:
        return self.tell("return t.frameOf(s.zoomed).label;")

    @property
    def chosen(self) -> str | None:
        return self.tell("return s.chosen < 0 ? null : t.frameOf(s.chosen).label;")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()


@pytest.fixture
def opened_flame(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Flame]:
    """Open the page of a recording at its flame graph."""

    def make(recording: Recording, **options: Any) -> Flame:
        watched = watch(**options)
        watched.page.goto(recording.to_html(tmp_path / "report.html").as_uri())
        watched.page.wait_for_function("() => window.kernelscope?.frames.whole")
        return Flame(watched.page)

    return make


def test_frames_are_drawn_searched_zoomed_and_reached_by_keys(opened_flame: Any, artifacts: Path) -> None:
    recording = simulation()
    flame, known = opened_flame(recording), flame_of(recording)
    page = flame.page
    assert known is not None
    assert not page.locator(".ks-flame > img").first.is_visible()
    for metric in METRICS:  # the page sums up as Python does
        page.locator(".ksf-metric").nth(METRICS.index(metric)).click()
        assert flame.tell("return [...s.layout.total];") == known.totals[metric].tolist()
        left = flame.tell("return [...s.layout.left];")
        total = known.totals[metric]
        expected = (known.left(metric) * total[0])[total > 0]
        assert [at for at, weight in zip(left, total, strict=True) if weight] == pytest.approx(expected.tolist())
    page.locator(".ksf-metric", has_text="GPU time").click()
    flame.settle()
    pixels = flame.tell("""
        const { data } = k.canvas.getContext("2d").getImageData(0, 0, k.canvas.width, k.canvas.height), found = {};
        for (let at = 0; at < data.length; at += 4) {
          const color = "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
          found[color] = (found[color] ?? 0) + 1;
        }
        return found;""")
    assert all(pixels.get(color, 0) > 100 for color in FRAME_COLORS.values())

    page.locator(".ksf .ksv-search").fill("apply")
    assert page.locator(".ksf-said").inner_text() == "35 % in 2 frames"
    page.keyboard.press("Enter")
    assert flame.chosen == "apply core.py:77"
    page.keyboard.press("Escape")

    page.mouse.move(*flame.place("step sim.py:12"))
    tip = page.locator(".ksf-tip").inner_text()
    assert tip.startswith("step\nsim.py:12 · your code") and "59 %" in tip and "itself\n0 ns" in tip
    page.mouse.click(*flame.place("step sim.py:12"))
    assert flame.shown == "step sim.py:12"
    assert page.locator(".ksf-crumb").all_inner_texts()[-2:] == ["Loop.run sim.py:30", "step sim.py:12"]
    page.locator(".ksf-crumb", has_text="Loop.run").click()
    assert flame.shown == "Loop.run sim.py:30"
    page.locator(".ksf-body").focus()
    flame.press("Backspace")
    assert flame.shown == "step sim.py:12"
    flame.press("ArrowDown", "ArrowDown")
    assert flame.chosen == "apply core.py:77"
    flame.press("ArrowRight", "ArrowLeft", "ArrowDown", "Enter")
    assert flame.shown == "project"
    assert "project" in page.locator(".ksf .ksv-live").first.inner_text()
    flame.press("Escape", "Escape", "Escape")
    assert flame.shown == "all"
    assert page.evaluate("() => document.activeElement.classList.contains('ksf-body')")
    flame.press("Escape")
    flame.press("Escape")
    assert not page.evaluate("() => document.activeElement.classList.contains('ksf-body')")
    assert violations(page, ".ksf") == []
    page.locator(".ksf").screenshot(path=f"{artifacts}.png")


def test_twenty_thousand_nodes_in_the_dark_at_any_width(opened_flame: Any, artifacts: Path) -> None:
    flame = opened_flame(many_paths(60_000, 30_000), dark=True, width=700)
    assert flame.tell("return t.size;") == 20_000
    page = flame.page
    assert "lighter nodes are summed into callers" in page.locator(".ksf-legend").inner_text()
    for width in (700, 1_100):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("(width) => { const k = document.querySelector('.ks-flame').kernelscope; "
                               "return k.canvas.width === k.canvas.parentElement.clientWidth; }", arg=width)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("() => document.querySelector('.ksf-body').scrollTo(0, 100)")
    flame.settle()
    assert flame.tell("return s.scroll;") == 100
    assert violations(page, ".ksf") == []
    page.locator(".ksf").screenshot(path=f"{artifacts}.png")


def test_without_scripts_there_is_a_picture(chromium: Any, tmp_path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(simulation().to_html(tmp_path / "report.html").as_uri())
    page.locator("details[data-ks-part=call_paths] > summary").click()
    pictures = page.locator(".ks-flame > img")
    assert [pictures.nth(at).is_visible() for at in range(2)] == [True, True]
    assert pictures.first.bounding_box()["width"] > 700
    context.close()
