"""The self-contained page, opened_timeline from disk in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import in_both_fonts
from everything import everything
from graph_stories import rebuilt, with_builds
from handmade import US, Script, many_launches

from kernelscope.analysis.launches import PHASES, phase_totals
from kernelscope.palette import PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.views.parts import phase_label
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.svg import picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]

KNOWN = everything()


def first_ns(recording: Recording) -> int:
    return min(int(recording.column(table, "start_ns").min()) for table in ("cells", "ranges", "launches"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_paints_without_a_request_or_a_complaint(opened_timeline: Any, artifacts: Path, dark: bool) -> None:
    timeline = opened_timeline(dark=dark)
    assert timeline.colors()[PHASE_COLORS["compile"]] > 5_000
    timeline.show(1_150_000, 1_400_000)
    colors = timeline.colors()
    for phase in ("dispatch", "prepare", "submit"):
        assert colors.get(PHASE_COLORS[phase], 0) > 20, phase
    assert colors["#16191d" if dark else "#ffffff"] > 50_000
    assert all(url.startswith("file:") for url in timeline.watched.requests)
    assert len(timeline.watched.requests) == 1
    timeline.page.locator(".kst").screenshot(path=f"{artifacts}.png")


def test_every_event_is_where_its_times_say(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.show(1_150_000, 1_500_000)
    gpu = KNOWN.activities[KNOWN.activities.kind != "sync"].reset_index()
    start, end = timeline.shown
    for row in (2, 3):
        left, _ = timeline.tell("const e = v.find('gpu', a), x = e.track.start[e.index]; return [v.x(x), x];", row)
        wanted = (gpu.start_ns[row] - first_ns(KNOWN) - start) / (end - start) * timeline.tell("return v.width;")
        assert left == pytest.approx(wanted, abs=1e-6)
    palette = timeline.tell("return v.colorsOf('gpu')(3).hex;")
    assert timeline.pixel("gpu", 3) == palette


def test_one_nanosecond_a_pixel_is_right_an_hour_in(opened_timeline: Any) -> None:
    script = Script()
    script.cell(wall_ns=7_200_000_000_000)
    script.device()
    hour = 3_600_000_000_000
    for at in (0, 7, 11):
        script.activity(start_ns=script.now + hour + at, duration_ns=4 if at else 5)
    timeline = opened_timeline(script.recording())
    timeline.show(hour - 50, hour + 950)
    width = timeline.tell("return v.width;")
    edges = timeline.tell("return [0, 1, 2].map((row) => v.x(v.find('gpu', row).track.start[row]));")
    assert np.diff(edges).tolist() == pytest.approx([7 * width / 1000, 4 * width / 1000], abs=1e-3)
    assert edges[0] == pytest.approx(50 * width / 1000, abs=1e-3)
    assert "3,600,000,000.007 µs" in timeline.tell("k.go(v.find('gpu', 1)); return k.part('pin').innerText;")


def test_the_wheel_scrolls_the_page_until_the_timeline_has_the_focus(opened_timeline: Any) -> None:
    timeline = opened_timeline(height=500)
    before = timeline.shown
    box = timeline.page.locator(".kst-canvas").bounding_box()
    timeline.page.mouse.move(box["x"] + 300, box["y"] + 20)
    at = timeline.page.evaluate("scrollY")
    timeline.page.mouse.wheel(0, -120)
    timeline.page.wait_for_function("(at) => scrollY < at", arg=at)
    assert timeline.shown == before
    assert "Ctrl" in timeline.page.locator(".kst-hint").inner_text()
    timeline.wait()
    box = timeline.page.locator(".kst-canvas").bounding_box()
    timeline.page.mouse.click(box["x"] + 300, box["y"] + 2)
    held = timeline.tell("return v.time(300);")
    timeline.page.mouse.wheel(0, -240)
    timeline.page.wait_for_function("(span) => { const v = window.kernelscope.view; return v.t1 - v.t0 < span; }",
                                    arg=before[1] - before[0])
    assert timeline.tell("return v.time(300);") == pytest.approx(held, rel=1e-9)


def test_drag_pans_and_shift_drag_zooms_into_a_box(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.show(1_000_000, 2_000_000)
    start, end = timeline.shown
    mouse, box = timeline.page.mouse, timeline.page.locator(".kst-canvas").bounding_box()
    x, y, width = box["x"], box["y"] + 4, timeline.tell("return v.width;")
    mouse.move(x + 400, y)
    mouse.down()
    mouse.move(x + 300, y, steps=4)
    mouse.up()
    shift = 100 / width * (end - start)
    assert timeline.shown == pytest.approx([start + shift, end + shift])
    start, end = timeline.shown
    timeline.page.keyboard.down("Shift")
    mouse.move(x + 200, y)
    mouse.down()
    mouse.move(x + 500, y, steps=4)
    mouse.up()
    timeline.page.keyboard.up("Shift")
    wanted = [start + place / width * (end - start) for place in (200, 500)]
    assert timeline.shown == pytest.approx(wanted, rel=1e-6)
    timeline.page.locator(".kst-fit").click()
    assert timeline.shown[0] < 0


def test_the_tooltip_tells_everything_of_a_launch(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.show(1_150_000, 1_400_000)
    told = timeline.hover("launches", 3)
    for text in ("reduce_sum", "launch", "duration\n26.0 µs (26,000 ns)", "dispatch\n18.0 µs", "submit\n4.00 µs",
                 "found in memory", "queue", "execute\n40.0 µs", "grid\n768", "block\n256", "stream\ndefault",
                 "(array(float32, 1d, C),)", "40 registers", "2.0 KiB static shared", "LC-S", "NVTX\nstep 0 / inner",
                 "thread\nMainThread", "cell\nIn [4] steps", "correlation 1003"):
        assert text in told, text
    told = timeline.hover("gpu", 3)
    for text in ("stencil", "kernel", "cuLaunchKernelEx", "driver call", "registers\n32", "_ZN8__main__1"):
        assert text in told, text
    timeline.show(0, 900_000)
    told = timeline.hover("compiles", 0)
    for text in ("compile axpy", "the kernel had no specialization yet", "@cuda.jit", "ir_processing", "90.0 µs"):
        assert text in told, text
    timeline.show(1_150_000, 1_400_000)
    for table, row, texts in (
        ("gpu", 1, ("HtoD", "copy", "4.0 MiB", "pinned to device", "host call\ncuMemcpyHtoDAsync_v2", "stream\n14",
                    "NVTX\nstep 0")),
        ("graphs", 0, ("CUPTI graph 5", "activities\n3", "cuGraphLaunch", "correlation 1050")),
        ("collections", 0, ("GC generation 0", "duration\n3.00 µs", "collected\n0 objects",
                            "thread\nMainThread", "cell\nIn [4] steps", "collection 0")),
        ("ranges", 1, ("NVTX loader", "loader")),
    ):
        told = timeline.hover(table, row) if table != "ranges" else timeline.page.locator(".kst-gutter").inner_text()
        for text in texts:
            assert text in told, (table, text)


def test_graphs_are_told_and_captured_launches_are_hollow(opened_timeline: Any) -> None:
    recording = with_builds(rebuilt()).recording()
    timeline = opened_timeline(recording)
    timeline.show(0, 140_000)
    hollow = timeline.colors()
    told = timeline.hover("launches", 0)
    for text in ("captured launch", "it did not run: it went into the capture graph 0 · 4 nodes"):
        assert text in told, text
    told = timeline.hover("events", 0)
    for text in ("capture graph 0 · 4 nodes", "outcome\nok", "stream\n0x11", "thread\nMainThread"):
        assert text in told, text
    begin = int(recording.graph_events.start_ns.min())
    ran = int(recording.launches[recording.launches.capture_event_id.isna()].start_ns.min()) - begin
    timeline.show(ran - 5_000, ran + 135_000)
    # As long launches as the captured ones, filled.
    color = PHASE_COLORS["prepare"]
    assert hollow[color] < timeline.colors()[color] / 3
    timeline.show(ran - 500_000, ran)
    rebuild = int(recording.graph_events[recording.graph_events.kind == "instantiate"].index[-1])
    told = timeline.hover("events", rebuild)
    for text in ("instantiate graph 0", "changed\narguments", "argument 1 of axpy", "a rebuild of"):
        assert text in told, text
    run = len(recording.graph_events[recording.graph_events.kind == "launch"]) - 1
    told = timeline.hover("graphs", run)
    for text in ("graph 0 · 4 nodes", "graph launch", "activities\n4", "cuGraphLaunch"):
        assert text in told, text
    timeline.show(0, 4e9)
    told = timeline.hover("builds", 2)
    for text in ("build reduce_into", "built now", "linker\n1.70 s", "the operator's name", "cuda.compute"):
        assert text in told, text


def test_search_finds_graphs_and_captured_launches_are_in_no_sum(opened_timeline: Any) -> None:
    recording = rebuilt().recording()
    timeline = opened_timeline(recording)
    page = timeline.page
    page.locator(".kst-body").focus()
    page.keyboard.press("/")
    page.keyboard.type("instantiate graph")
    assert page.locator(".kst-count").inner_text() == "7 matches"
    page.locator(".kst-search").press("Escape")
    sums = timeline.tell("k.select(a[0], a[1]); return k.sums();", [0, 6_000_000])
    assert (sums["launches"], sums["host"]) == (4, 40_000)
    assert [(each["name"], each["launches"]) for each in sums["byLaunch"]] == [("block_sum", 4)]


def test_a_click_pins_and_an_arrow_leads_to_the_kernel(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.show(1_150_000, 1_400_000)
    timeline.page.mouse.click(*timeline.place("launches", 3))
    timeline.page.mouse.move(5, 5)
    assert timeline.pinned == ["launches", 3]
    assert "reduce_sum" in timeline.page.locator(".kst-pin").inner_text()
    assert timeline.page.locator(".kst-pin dd").first.evaluate("(e) => getComputedStyle(e).userSelect") == "text"
    assert timeline.tell("""
        let seen = 0; const context = k.canvas.getContext("2d"), bezier = context.bezierCurveTo.bind(context);
        context.bezierCurveTo = (...place) => { seen += 1; bezier(...place); };
        k.draw(); delete context.bezierCurveTo; return seen;
    """) == 1
    assert timeline.page.locator(".kst-live").inner_text().startswith("launch reduce_sum: start")
    timeline.page.keyboard.press("Escape")
    assert timeline.pinned is None
    assert timeline.page.locator(".kst-pin").is_hidden()


def test_it_can_be_used_by_keyboard_alone(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    page, keys = timeline.page, timeline.page.keyboard
    page.locator(".kst-body").focus()
    full = timeline.shown
    for key, check in (("w", lambda new, old: new[1] - new[0] < old[1] - old[0]),
                       ("d", lambda new, old: new[0] > old[0]), ("ArrowRight", lambda new, old: new[0] > old[0]),
                       ("a", lambda new, old: new[0] < old[0]), ("ArrowLeft", lambda new, old: new[0] < old[0]),
                       ("-", lambda new, old: new[1] - new[0] > old[1] - old[0])):
        before = timeline.shown
        keys.press(key)
        assert check(timeline.shown, before), key
    keys.press("f")
    assert timeline.shown == full
    keys.press("Enter")
    chosen = timeline.pinned
    assert chosen is not None
    assert chosen[0] == "cells"
    keys.press("Shift+Tab")
    first = timeline.pinned
    keys.press("Tab")
    assert timeline.pinned == chosen != first
    assert page.locator(".kst-live").inner_text().startswith("cell In [4] steps")
    for _ in range(9):
        keys.press("ArrowDown")
    assert timeline.pinned[0] in ("launches", "compiles", "passes", "calls")
    keys.press("l")
    assert page.locator('.kst-lane[aria-expanded="false"]').count() == 1
    keys.press("Escape")
    keys.press("Tab")
    assert page.evaluate("document.activeElement.className").startswith("kst-lane")
    assert page.evaluate("""() => { let heard = 0; document.addEventListener("keydown", () => { heard += 1; });
        return new Promise((done) => { document.querySelector(".kst-body").dispatchEvent(
          new KeyboardEvent("keydown", { key: "d", bubbles: true })); done(heard); }); }""") == 0


def test_search_counts_steps_and_dims(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    page = timeline.page
    page.locator(".kst-body").focus()
    page.keyboard.press("/")
    page.keyboard.type("STEN")
    launches = KNOWN.launches.dispatcher_id.eq(1).sum()
    wanted = launches + KNOWN.activities.name.eq("stencil").sum()
    assert page.locator(".kst-count").inner_text() == f"{wanted} matches"
    page.keyboard.press("Enter")
    first = timeline.pinned
    page.keyboard.press("Enter")
    assert timeline.pinned != first
    page.keyboard.press("Shift+Enter")
    assert timeline.pinned == first
    names = [timeline.tell("k.step(true); return k.part('pin').querySelector('b').textContent;") for _ in range(wanted)]
    assert set(names) == {"stencil"}
    assert timeline.pinned == first
    timeline.tell("k.pin(null);")
    timeline.show(1_150_000, 1_400_000)
    dimmed = timeline.pixel("gpu", 2)
    page.locator(".kst-search").press("Escape")
    timeline.settle()
    assert timeline.pixel("gpu", 2) != dimmed
    assert page.locator(".kst-count").inner_text() == ""


@pytest.mark.parametrize(("start", "end"), [(0, 3_000_000), (1_180_300, 1_731_777), (1_200_000, 1_200_001)])
def test_the_sums_of_a_selection_are_numpy_s(opened_timeline: Any, start: int, end: int) -> None:
    timeline = opened_timeline()
    sums = timeline.tell("k.select(a[0], a[1]); return k.sums();", [start, end])
    base = first_ns(KNOWN)
    launches = KNOWN.launches
    begun = launches.start_ns.to_numpy() - base
    assert sums["launches"] == ((begun >= start) & (begun < end)).sum()
    gpu = KNOWN.activities[KNOWN.activities.kind != "sync"]
    left = np.clip(gpu.start_ns.to_numpy(dtype=np.int64) - base, start, end)
    right = np.clip(gpu.end_ns.to_numpy(dtype=np.int64) - base, start, end)
    begins = (gpu.start_ns - base).between(start, end, inclusive="left").to_numpy(dtype=bool)
    kernel, copy = (gpu.kind == "kernel").to_numpy(), (gpu.kind != "kernel").to_numpy()
    assert sums["kernelTime"] == (right - left)[kernel].sum()
    assert sums["kernels"] == begins[kernel].sum()
    assert sums["copyTime"] == (right - left)[copy].sum()
    assert sums["copyBytes"] == gpu.size_bytes[begins & copy].fillna(0).sum()
    covered = 0
    for device in (0, 1):
        line = np.zeros(end - start, dtype=bool)
        for a, b in zip(left[gpu.device_id == device] - start, right[gpu.device_id == device] - start, strict=True):
            line[a:b] = True
        covered += int(line.sum())
    assert sums["busy"] == covered
    assert sum(each["gpu"] for each in sums["byKernel"]) <= sums["kernelTime"]
    assert sum(each["host"] for each in sums["byLaunch"]) == pytest.approx(sums["host"])


def test_the_sums_of_everything_are_the_card_s(opened_timeline: Any) -> None:
    recording = many_launches(3_000, 5)
    timeline = opened_timeline(recording)
    sums = timeline.tell("k.select(0, v.model.span); return k.sums();")
    totals = phase_totals(recording)
    assert sums["host"] == totals.host_ns
    assert {name: sums["phases"][phase_label(name)] for name in PHASES} == {
        name: totals.phase(name) for name in PHASES}
    # Nested launches count once, and what failed or has no end is unsplit.
    timeline = opened_timeline()
    sums = timeline.tell("k.select(0, v.model.span); return k.sums();")
    totals = phase_totals(KNOWN)
    for name in PHASES:
        assert sums["phases"][phase_label(name)] == pytest.approx(totals.phase(name), abs=8 * US), name


def test_a_drag_on_the_ruler_selects(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    box = timeline.page.locator(".kst-ruler").bounding_box()
    timeline.page.mouse.move(box["x"] + 200, box["y"] + 10)
    timeline.page.mouse.down()
    timeline.page.mouse.move(box["x"] + 600, box["y"] + 10, steps=4)
    timeline.page.mouse.up()
    timeline.settle()
    selection = timeline.tell("return v.selection;")
    assert selection == [round(timeline.tell("return v.time(a);", place)) for place in (200, 600)]
    panel = timeline.page.locator(".kst-sums").inner_text()
    for text in ("Selected", "Launches", "GPU busy", "Copies and memsets", "On the GPU", "On the host", "axpy"):
        assert text in panel
    timeline.page.locator(".kst-sums .kst-close").click()
    assert timeline.tell("return v.selection;") is None
    timeline.page.locator(".kst-body").focus()
    timeline.page.keyboard.press("r")
    assert timeline.tell("return v.selection;") == [0, timeline.tell("return v.model.span;")]
    timeline.tell("k.go(v.find('launches', 3));")
    timeline.page.keyboard.press("r")
    start = int(KNOWN.column("launches", "start_ns")[3]) - first_ns(KNOWN)
    assert timeline.tell("return v.selection;") == [start, start + 26 * US]


def test_nothing_is_cut_off_in_a_notebook_s_output(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    timeline.tell("k.root.parentElement.style.overflow = 'auto'; k.show(1150000, 1400000);")
    timeline.settle()
    timeline.hover("gpu", 3)
    tip = timeline.page.locator(".kst-tip").bounding_box()
    assert tip["y"] >= 0
    assert tip["y"] + tip["height"] <= 900
    for table in ("cells", "launches", "gpu"):
        timeline.tell("k.go(v.find(a, 0));", table)
        root, pin = (timeline.page.locator(each).bounding_box() for each in (".kst", ".kst-pin"))
        assert root["y"] <= pin["y"]
        assert pin["y"] + pin["height"] <= root["y"] + root["height"]
        assert root["x"] <= pin["x"]
        assert pin["x"] + pin["width"] <= root["x"] + root["width"]


# What is wider than the timeline; labels of lanes and numbers of sums that are cut off; a button that is not in the row
# of the others.
MISPLACED = """() => {
  const root = document.querySelector(".kst"), edge = root.getBoundingClientRect().right;
  const shown = (query) => [...root.querySelectorAll(query)].filter((each) => each.checkVisibility());
  const said = (what, all) => all.map((each) => `${what}: ${each.outerHTML.slice(0, 200)}`);
  const tops = new Set(shown(".kst-button").map((each) => each.getBoundingClientRect().top));
  return [
    ...said("over the timeline", shown("*").filter((each) => each.getBoundingClientRect().right > edge + 0.5)),
    ...said("cut off", shown(".kst-name, .kst-note, .kst-button, .kst-sums :is(th, td), .kst-tiles *, .kst-legend span")
      .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth)),
    ...(tops.size > 1 ? ["buttons in several rows"] : []),
    ...(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls aside"] : []),
  ];
}"""


@in_both_fonts
def test_it_fits_pages_of_any_width(opened_timeline: Any, artifacts: Path, font: str) -> None:
    timeline = opened_timeline(font=font, width=1600)
    timeline.tell("k.select(0, v.model.span); k.search('axpy');")
    timeline.page.locator(".kst-help").click()
    wide = []
    for width, dark in ((1600, False), (1100, True), (700, True), (1600, True)):
        timeline.page.set_viewport_size({"width": width, "height": 1000})
        timeline.page.emulate_media(color_scheme="dark" if dark else "light")
        timeline.settle()
        timeline.settle()
        timeline.page.locator(".kst").screenshot(path=f"{artifacts}_{width}.png")
        assert timeline.page.evaluate(MISPLACED) == [], width
        wide.append(timeline.page.locator(".kst-canvas").bounding_box()["width"])
    # Labels have what they need of the width, and no more.
    assert [wide[0] - each for each in wide] == [0, 500, 900, 0]


@in_both_fonts
def test_what_is_said_in_the_static_picture_fits(watch: Any, font: str) -> None:
    made = Script(name="long", dry_run=True)
    made._add("threads", "thread_id", {"ident": 1, "name": "MMMMMMMMMMM of a thread's long name"})
    made.cell(wall_ns=1_234_567 * US, name="WWWWWWWWW " * 9)
    made.kernel("WIDE_KERNEL_" * 9)
    made.specialization()
    made.configuration()
    for _ in range(6):
        made.launch(phases=(80_000 * US,) * 5)
    page = watch(font=font).page
    page.set_viewport_size({"width": 700, "height": 400})
    page.set_content(picture(timeline_of(made.recording())))
    places = page.evaluate("""() => [...document.querySelectorAll("text")].map((each) => {
      const { left, top, right, bottom, width } = each.getBoundingClientRect();
      return width ? [each.textContent, left, top, right, bottom] : null; }).filter((each) => each)""")
    assert len(places) > 12
    assert [text for text, left, _, right, _ in places if left < 0 or right > 700] == []
    covered = [(text, other) for at, (text, left, top, right, bottom) in enumerate(places)
               for other, x, y, right2, bottom2 in places[at + 1:]
               if left < right2 - 1 and x < right - 1 and top < bottom2 - 4 and y < bottom - 4]
    assert covered == []


def test_lanes_fold_and_scroll(opened_timeline: Any) -> None:
    timeline = opened_timeline()
    height = timeline.tell("return v.layout.height;")
    lane = timeline.page.locator(".kst-lane", has_text="MainThread").last
    lane.click()
    timeline.settle()
    assert lane.get_attribute("aria-expanded") == "false"
    folded = timeline.tell("return v.layout.height;")
    assert folded < height
    assert timeline.colors().get(PHASE_COLORS["compile"], 0) > 20
    lane.click()
    assert timeline.tell("return v.layout.height;") == height
    timeline.tell("k.maximum = 150; k.resize(); k.changed();")
    timeline.settle()
    timeline.page.locator(".kst-body").evaluate("(body) => { body.scrollTop = 10000; }")
    timeline.settle()
    assert timeline.tell("return v.scroll;") == height - 150
    assert timeline.pixel("gpu", 0) == timeline.tell("return v.colorsOf('gpu')(0).hex;")
