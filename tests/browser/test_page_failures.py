"""Odd and hostile recordings on a page, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from everything import everything
from handmade import MS, US, Script

from kernelscope.recording.model import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_minimap_moves_what_is_shown(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.show(100_000, 400_000)
    box = timeline.page.locator(".kst-map").bounding_box()
    timeline.page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 20)
    timeline.page.mouse.down()
    timeline.settle()
    start, end = timeline.shown
    assert end - start == pytest.approx(300_000)
    assert start < timeline.tell("const [least, most] = v.limits(); return least + 0.7 * (most - least);") < end
    timeline.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=3)
    timeline.page.mouse.up()
    assert timeline.shown[0] < start


HOSTILE = (
    "</script><script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", '"onmouseover="hurt=1',
    "'; window.hurt = 1; //", "javascript:window.hurt=1", "<!--<script>", "\u202egnp.exe\u2028",
    "{{7*7}}${window.hurt=1}",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_run_nothing(opened_timeline: Any, name: str) -> None:
    script = Script(name=name, dry_run=True)
    script.cell(execution_count=1, name=name, source=name, error=name, status="error")
    script.device(name=name)
    script.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": name}]
    script.kernel(name)
    script.specialization(signature=name)
    script.configuration()
    script.launch(error=name)
    script.compilation(reason=name, fix=name, error=name, start_ns=script.now, end_ns=script.now + MS)
    script.range(name, domain=name, color="red;background:url(//x)", payload=name, start_ns=script.now - 5 * US,
                 end_ns=script.now)
    script.activity(name=name, entry_name=name, api=name, submit_start_ns=script.now, submit_end_ns=script.now + 5)
    script.api_call(name)
    timeline = opened_timeline(script.recording())
    assert timeline.page.locator(".kst-chip").inner_text() == "dry run: kernels did not execute"
    for table in ("cells", "ranges", "launches", "compiles", "gpu", "calls"):
        timeline.tell("k.go(v.find(a, 0));", table)
        timeline.settle()
    timeline.tell("k.search(a); k.select(0, v.model.span);", name)
    timeline.settle()
    assert timeline.page.evaluate("window.hurt") is None
    assert timeline.page.locator(".kst img, .kst script").count() == 0
    assert len(timeline.watched.requests) == 1


def odd(kind: str) -> Recording:
    script = Script()
    if kind == "one mark":
        script.range("only", kind="mark", start_ns=7, end_ns=7)
    if kind in ("no ends", "overlapping"):
        script.cell()
        script.device()
        script.kernel()
        script.specialization()
        script.configuration()
        for at in range(4):
            script.launch(end_ns=None, submit_end_ns=None, dispatch_end_ns=None, submit_start_ns=None, compile_ns=None)
            script.activity(start_ns=script.now - 3 * US * at, end_ns=None if kind == "no ends" else script.now + MS)
            script.rows["activities"].sort(key=lambda row: row["start_ns"])
        for at, row in enumerate(script.rows["activities"]):
            row["activity_id"] = at
    if kind == "before":
        script.range("before", start_ns=None, end_ns=script.now + MS)
        script.cell()
    return script.recording()


@pytest.mark.parametrize("kind", ["empty", "one mark", "no ends", "overlapping", "before"])
def test_odd_recordings_are_drawn(opened_timeline: Any, kind: str, artifacts: Path) -> None:
    timeline = opened_timeline(odd(kind))
    assert timeline.page.locator(".kst-problem").count() == 0
    timeline.page.locator(".kst-body").focus()
    for key in ("Enter", "Tab", "ArrowDown", "ArrowUp", "f", "w", "w", "Escape", "s"):
        timeline.page.keyboard.press(key)
    timeline.tell("k.select(0, 10); k.search('a'); k.step(true); k.fit();")
    timeline.settle()
    timeline.page.locator(".kst").screenshot(path=f"{artifacts}.png")


def test_damaged_data_are_told(watch: Any, known_page: Path, tmp_path: Path) -> None:
    path, text = tmp_path / "report.html", known_page.read_text(encoding="utf-8")
    at = text.index('id="kernelscope-payload">') + 400
    path.write_text(text[:at] + "AAAA" + text[at + 4:], encoding="utf-8")
    page = watch().page
    page.goto(path.as_uri())
    page.wait_for_selector(".kst-problem")
    assert "cannot be shown" in page.locator(".kst-problem").inner_text()


def test_its_theme_follows_the_page_and_it_leaves_nothing_behind(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.page.emulate_media(color_scheme="dark")
    timeline.page.wait_for_function("() => window.kernelscope.view.theme.isDark")
    timeline.settle()
    assert timeline.colors()["#16191d"] > 50_000
    timeline.tell("k.destroy();")
    assert timeline.page.locator(".kst").count() == 0
    timeline.page.emulate_media(color_scheme="light")
    timeline.page.keyboard.press("w")
    timeline.page.set_viewport_size({"width": 700, "height": 500})
    timeline.page.evaluate("() => new Promise((done) => setTimeout(done, 50))")


def test_events_that_no_pixel_can_hold_are_not_lost(opened_timeline: Any) -> None:
    script = Script()
    script.cell(wall_ns=3_000 * MS)
    script.device()
    start = script.now
    for at in range(3_000):
        script.activity(start_ns=start + at * MS, duration_ns=at % 3)
    timeline = opened_timeline(script.recording())
    counts = timeline.tell("""
        const found = [...v.tracks.values()].find((track) => track.spec.table === "gpu"), row = v.layout.rowOf(found);
        const data = k.canvas.getContext("2d").getImageData(0, Math.round((row.y + row.height) * v.dpr) - 1,
          k.canvas.width, 1).data;
        let ink = 0; for (let at = 0; at < data.length; at += 4) if (data[at + 1] < 200) ink += 1;
        return [ink, k.canvas.width];
    """)
    assert counts[0] > counts[1] * 0.96


def test_the_header_may_hold_nothing_that_ends_its_element(tmp_path: Path) -> None:
    page = everything(name="</script><!--").to_html(tmp_path / "odd").read_text(encoding="utf-8")
    assert page.count("</script>") == 3
    held = page.split('id="kernelscope-header">')[1].split("</script>")[0]
    assert json.loads(held)["title"].startswith("</script>")
