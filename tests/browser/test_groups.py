"""The timeline of many processes in a real browser: groups that fold, how busy they were, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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


_HEIGHTS = """
    const [label, kind] = a, { view, canvas } = k, lane = v.layout.lanes.find((each) => each.spec.label === label);
    k.draw();
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext("2d");
    context.drawImage(canvas, 0, 0);
    const high = Math.round((lane.height - 5) * v.dpr), top = Math.round((lane.y - v.scroll + 2) * v.dpr);
    const { data } = context.getImageData(0, top, copy.width, high), rgb = a[2], drawn = new Array(copy.width).fill(0);
    for (let at = 0; at < data.length; at += 4) {
      if (rgb.every((part, i) => data[at + i] === part)) drawn[(at / 4) % copy.width] += 1;
    }
    return [drawn, v.t0, v.t1, (high >> 1) - (kind === "gpu" ? (high + 1) % 2 : 0)];
"""


def expected_heights(spans: list[list[tuple[int, int]]], t0: float, t1: float, columns: int, most: int) -> list[int]:
    """How high each column is: the share in which processes were busy, on average, by event; at least 2 pixels."""
    share, step = np.zeros(columns), (t1 - t0) / columns
    left = t0 + step * np.arange(columns)
    for process in spans:
        for start, end in process:
            share += np.clip(np.minimum(end, left + step) - np.maximum(start, left), 0, None) / (step * len(spans))
    return [max(2, round(each * most)) if each > 1e-12 else 0 for each in share]


@pytest.mark.parametrize(("from_ns", "to_ns"), [(-500, 50_500), (9_000, 29_000), (24_980, 25_480)],
                         ids=["whole", "bins", "events"])
def test_columns_of_folded_groups_are_as_high_as_the_events_say(shown: Any, from_ns: int, to_ns: int) -> None:
    timeline = shown()
    kernels = [[((10 + 5 * at) * US - FIRST, (14 + 5 * at) * US - FIRST)] for at in range(8)]
    launches = [(10 * US + 100 * at - FIRST, 10 * US + 100 * at + 50 - FIRST) for at in range(400)]
    groups = {"rank 3": [3], "rank 5": [5], "node0": [0, 1, 2, 3], "node1": [4, 5, 6, 7]}
    timeline.show(from_ns, to_ns)
    for _ in range(3):
        for label, ranks in groups.items():
            for kind, color, spans in (("gpu", GPU, [kernels[rank] for rank in ranks]),
                                       ("launches", HOST, [launches for _ in ranks])):
                drawn, t0, t1, most = timeline.tell(_HEIGHTS, [label, kind, list(bytes.fromhex(color[1:]))])
                wanted = expected_heights(spans, t0, t1, len(drawn), most)
                # A bin that begins before an event may show the least in the column beside it.
                off = [at for at, (one, other) in enumerate(zip(drawn, wanted, strict=True))
                       if abs(one - other) > 1 and not (one == 2 and any(wanted[max(0, at - 1):at + 2]))]
                assert off == [], f"{label}, {kind}: {[(at, drawn[at], wanted[at]) for at in off[:5]]}"
        timeline.tell("v.pan(0.37); k.draw();")



def test_a_kernel_of_nanoseconds_in_minutes_is_seen_in_its_folded_groups(opened_timeline: Any) -> None:
    second = 10**9
    timeline = opened_timeline(merge([
        on_gpu(worker(at, rank=at, host="node0", start_ns=10 * US),
               ("kernel", "short", (100 + 30 * at) * second, (100 + 30 * at) * second + 20),
               ("kernel", "last", 400 * second, 401 * second)) for at in range(8)]))
    assert seen(timeline) == [f"rank {at}" for at in range(8)]
    for at in range(8):
        drawn, t0, t1, _ = timeline.tell(_HEIGHTS, [f"rank {at}", "gpu", list(bytes.fromhex(GPU[1:]))])
        column = int(((100 + 30 * at) * second - t0) / (t1 - t0) * len(drawn))
        assert [x for x, high in enumerate(drawn[:column + 50]) if high] == [column] and drawn[column] == 2

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
