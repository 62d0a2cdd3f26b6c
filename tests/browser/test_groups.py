"""The timeline of many processes in a real browser: groups that fold, how busy they were, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline, in_both_fonts
from worker_recordings import on_gpu, worker

from kernelscope.palette import COMPILE_COLOR, KERNEL_COLORS, PHASE_COLORS
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]

US = 1_000
FIRST = 9_990  # the cells begin 10 ns before the launches
HOST, GPU = PHASE_COLORS["dispatch"], KERNEL_COLORS[2]


def workers(number: int) -> Recording:
    """Workers of two machines; the GPU of each is busy in a part of the time that is its own."""
    return merge([
        on_gpu(worker(at, rank=at, host=f"node{at // 4}", clock_bound_ns=20 + at, start_ns=10 * US, launches=400,
                      device={"ordinal": at % 4, "uuid": f"GPU-{at}", "name": "H200"}),
               ("kernel", f"kernel_{at}", (10 + 5 * at) * US, (14 + 5 * at) * US)) for at in range(number)])


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workers(8).to_html(tmp_path_factory.mktemp("eight") / "report.html")


@pytest.fixture
def shown(watch: Any, eight: Path) -> Any:
    def make(**options: Any) -> Timeline:
        watched = watch(**options)
        watched.page.goto(eight.as_uri())
        return Timeline(watched.page).wait()

    return make


def seen(timeline: Timeline) -> list[str]:
    return timeline.tell("return v.layout.lanes.map((lane) => lane.spec.label);")


FOLDED = ["node0", *(f"rank {at}" for at in range(4)), "node1", *(f"rank {at}" for at in range(4, 8))]


def of_lane(timeline: Timeline, label: str, time: int, color: str) -> int:
    """How many pixels of a color a lane has in the column of a time."""
    return timeline.tell("""
        const lane = v.layout.lanes.find((each) => each.spec.label === a[0]), x = Math.round(v.x(a[1]) * v.dpr);
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [k.canvas.width, k.canvas.height];
        const context = copy.getContext("2d");
        context.drawImage(k.canvas, 0, 0);
        const high = lane.height * v.dpr, { data } = context.getImageData(x, (lane.y - v.scroll) * v.dpr, 1, high);
        const hex = (at) => "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
        let found = 0;
        for (let at = 0; at < data.length; at += 4) found += hex(at) === a[2];
        return found;
    """, [label, time, color])


@in_both_fonts
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 700)])
def test_groups_begin_folded_and_show_when_they_were_busy(shown: Any, font: str, dark: bool, width: int,
                                                          artifacts: Path) -> None:
    timeline = shown(dark=dark, width=width, font=font)
    assert seen(timeline) == FOLDED
    for at in range(8):
        middle = (12 + 5 * at) * US - FIRST
        for rank in range(8):
            assert (of_lane(timeline, f"rank {rank}", middle, GPU) > 4) is (rank == at)
    assert 0 < of_lane(timeline, "node1", 32 * US - FIRST, GPU) < of_lane(timeline, "rank 4", 32 * US - FIRST, GPU)
    cut = timeline.tell("""return [...document.querySelectorAll(".kst-label :is(.kst-name, .kst-note)")]
        .filter((text) => text.scrollWidth > text.clientWidth + 1).map((text) => text.textContent);""")
    assert cut == []
    timeline.page.screenshot(path=f"{artifacts}.png")
    # From near: each launch of 50 ns, and before the first the compile.
    timeline.show(20_000, 20_400)
    assert of_lane(timeline, "rank 2", 20_030, HOST) > 6 and not of_lane(timeline, "rank 2", 20_080, HOST)
    timeline.show(0, 50)
    assert of_lane(timeline, "rank 2", 4, COMPILE_COLOR) > 6 and not of_lane(timeline, "rank 2", 8, COMPILE_COLOR)


def test_a_header_folds_by_mouse_and_keys_and_the_choice_stays(shown: Any) -> None:
    timeline = shown()
    page = timeline.page
    page.locator(".kst-worker", has_text="rank 1").click()
    assert seen(timeline)[2:6] == ["rank 1", "Cells", "MainThread", "GPU 1"]
    page.keyboard.press("l")
    assert seen(timeline) == FOLDED
    page.keyboard.press("L")  # all of its kind
    assert len(seen(timeline)) == 2 + 8 * 4
    page.keyboard.press("L")
    page.locator(".kst-machine", has_text="node0").focus()
    page.keyboard.press("Enter")
    assert seen(timeline) == ["node0", *FOLDED[5:]]
    assert page.locator(".kst-machine", has_text="node0").get_attribute("aria-expanded") == "false"
    page.reload()
    assert seen(timeline.wait()) == ["node0", *FOLDED[5:]]


def test_what_is_found_is_unfolded_and_said_whose_it_is(shown: Any) -> None:
    timeline = shown()
    timeline.tell("k.search('kernel_6'); k.step(true);")
    timeline.settle()
    assert seen(timeline)[8:12] == ["rank 6", "Cells", "MainThread", "GPU 2"]
    assert timeline.pinned == ["gpu", 6]
    pinned = timeline.page.locator(".kst-pin").inner_text()
    assert "rank 6" in pinned and "GPU 2 (H200) of node1" in pinned
    # Found nothing in the others: their columns are faint.
    timeline.tell("k.fit(); k.draw();")
    assert of_lane(timeline, "rank 5", 27 * US, GPU) == 0 < of_lane(timeline, "rank 6", 32 * US, GPU)


def test_a_header_tells_of_its_process_and_how_far_its_clock_is_off(shown: Any) -> None:
    timeline = shown()
    assert "±23 ns" in timeline.page.locator(".kst-worker", has_text="rank 3").inner_text()
    timeline.show(17_000, 17_200)
    box = timeline.tell("""const box = k.canvas.getBoundingClientRect();
        const lane = v.layout.lanes.find((each) => each.spec.label === "rank 3");
        return [box.left + box.width / 2, box.top + lane.y + lane.height / 2];""")
    timeline.page.mouse.move(*box)
    timeline.settle()
    said = timeline.page.locator(".kst-tip").inner_text()
    for part in ("rank 3", "node0", "its times can be off by ±23 ns", "GPU busy\n100 %"):
        assert part in said
    # The whisker: as far as the bound, to both sides of the pointer.
    assert timeline.tell("""const copy = document.createElement("canvas");
        [copy.width, copy.height] = [k.canvas.width, k.canvas.height];
        const context = copy.getContext("2d");
        context.drawImage(k.canvas, 0, 0);
        const lane = v.layout.lanes.find((each) => each.spec.label === "rank 3");
        const { data } = context.getImageData(0, Math.round((lane.y + lane.height / 2) * v.dpr), copy.width, 1);
        const ink = v.theme.ink.match(/\\d+/g).map(Number), x = [];
        for (let at = 0; at < copy.width; at++) if (ink.every((part, i) => data[4 * at + i] === part)) x.push(at);
        return (x[x.length - 1] - x[0]) / v.dpr / v.width * 200;""") == pytest.approx(46, abs=1)


def test_two_processes_begin_unfolded_and_one_has_no_group(opened_timeline: Any) -> None:
    timeline = opened_timeline(workers(2))
    assert seen(timeline) == ["rank 0", "Cells", "MainThread", "GPU 0", "rank 1", "Cells", "MainThread", "GPU 1"]
    alone = opened_timeline(worker(1))
    assert seen(alone) == ["Cells", "MainThread"] and alone.page.locator(".kst-worker, .kst-machine").count() == 0
