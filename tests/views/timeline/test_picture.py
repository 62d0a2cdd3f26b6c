"""The static picture: what it draws, in how many bytes, and that names in it are only names."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from counting import lines_run
from graph_stories import rebuilt, with_builds
from handmade import MS, US, Script, many_launches
from unpack import unpacked

import kernelscope
from kernelscope.palette import COPY_COLOR, KERNEL_COLORS, OTHER_COLOR, PHASE_COLORS, RANGE_COLOR
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.svg import (
    CAPTURED_COLOR,
    MOST_BYTES,
    MOST_ROWS,
    describe,
    image,
    picture,
)

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"
HOSTILE = "</svg><script>window.hit=1</script>' onload='window.hit=1"
SVG = "{http://www.w3.org/2000/svg}"
XHTML = "{http://www.w3.org/1999/xhtml}"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def strokes(svg: str) -> list[tuple[str, list[tuple[float, float]]]]:
    """Of each bar's path its color and its spans, in columns."""
    found = []
    for path in parsed(svg).iter(f"{SVG}path"):
        if path.get("stroke-width"):
            x, spans = 0.0, []
            for letter, number in re.findall(r"([Mmh])(-?[\d.]+)", path.get("d", "")):
                if letter == "h":
                    spans.append((x, x + float(number)))
                x = float(number) if letter == "M" else x + float(number)
            found.append((path.get("stroke", ""), spans))
    return found


def density(svg: str) -> list[list[float]]:
    """Of each strip above a lane, the heights of its bars."""
    found = []
    for path in parsed(svg).iter(f"{SVG}path"):
        if path.get("class") == "ksp-many":
            at, heights = 0.0, []
            for letter, number in re.findall(r"([hv])(-?[\d.]+)", path.get("d", "")):
                at += -float(number) if letter == "v" else 0
                heights += [at] * int(float(number) / 4) if letter == "h" else []
            found.append(heights)
    return found


def script(**metadata: object) -> Script:
    """One cell of a millisecond, with a kernel to launch."""
    made = Script(**metadata)
    made.cell(wall_ns=MS, execution_count=3, name="step")
    made.kernel("axpy")
    made.specialization()
    made.configuration()
    return made


# Not every framework lets its phases be seen.
@pytest.mark.parametrize(("name", "wanted"), [("gpu", {"compile", "prepare"}), ("cuda_compute", {"compile"})])
def test_recordings_of_a_gpu(name: str, wanted: set[str]) -> None:
    shown = timeline_of(kernelscope.load(RECORDINGS / f"{name}.kscope"))
    drawn = picture(shown)
    assert len(drawn) < MOST_BYTES
    assert {PHASE_COLORS[phase] for phase in wanted} <= {color for color, _ in strokes(drawn)}
    assert set(PHASE_COLORS) - {"compile_wait", "measuring"} <= set(texts(drawn))
    held = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', image(shown))
    assert held is not None and base64.b64decode(held[1]).decode() == drawn


def test_captured_launches_are_pale_and_counted_apart() -> None:
    shown = timeline_of(with_builds(rebuilt()).recording())
    assert describe(shown).startswith("KernelScope timeline: 5 launches, 3 captured, ")
    assert CAPTURED_COLOR in [color for color, _ in strokes(picture(shown))]


def test_spans_are_where_their_times_are() -> None:
    made = script()
    start = made.now
    made.now = start + 250 * US
    made.launch(phases=(50 * US, 0, 100 * US, 25 * US, 25 * US))
    drawn = dict(strokes(picture(timeline_of(made.recording()), columns=1000)))
    assert drawn[PHASE_COLORS["dispatch"]] == [(250, 300)]
    assert drawn[PHASE_COLORS["prepare"]] == [(300, 400)]
    assert drawn[PHASE_COLORS["submit"]] == [(400, 425)]
    assert drawn[PHASE_COLORS["finish"]] == [(425, 450)]
    assert PHASE_COLORS["compile"] not in drawn


def test_a_launch_without_phases_or_end_reaches_to_the_end() -> None:
    made = script()
    made.now += 500 * US
    made.launch(phases=None, end_ns=None)
    drawn = picture(timeline_of(made.recording()), columns=1000)
    assert (OTHER_COLOR, [(500, 1000)]) in strokes(drawn)


def test_what_is_too_short_for_a_pixel_is_seen() -> None:
    made = script()
    made.now += 300 * US
    made.launch(phases=(3, 0, 2, 2, 2))
    drawn = [spans for color, spans in strokes(picture(timeline_of(made.recording()), columns=1000)) if
             color in PHASE_COLORS.values()]
    assert drawn == [[(300, 301)]]


def test_many_short_launches_are_counted_and_a_single_long_one_is_not() -> None:
    shares = []
    for launches, took in ((1, 600_000), (2_000, 300)):
        made = script()
        for at in range(launches):
            made.now = made.rows["cells"][0]["start_ns"] + 200 * US + at * took
            made.launch(phases=(took // 3, 0, took // 3, took // 3, 0))
        drawn = picture(timeline_of(made.recording()), columns=400)
        shares.append(sum(until - start for color, spans in strokes(drawn) for start, until in spans
                          if color in PHASE_COLORS.values()))
        said = [text for text in texts(drawn) if "max" in text or "began in each" in text]
        if launches == 1:
            assert (density(drawn), said) == ([], [])
    # Both take the same time; the 2,000 do so in 60 of 100 bars.
    assert shares[0] == shares[1] > 200
    heights, = density(drawn)
    assert [each > 0 for each in heights] == [20 <= at < 80 for at in range(100)]
    assert said == ["2,000 · max 34", "bars above a lane: how many began in each 10.0 µs"]


def test_a_launch_that_waits_in_a_dense_lane_is_seen() -> None:
    made = script()
    for at in range(500):
        made.now = made.rows["cells"][0]["start_ns"] + at * US + (300 * US if at >= 250 else 0)
        made.launch(phases=(900, 0, 0, 0, 0) if at != 249 else (300 * US, 0, 0, 0, 0))
    heights, = density(picture(timeline_of(made.recording()), columns=400))
    assert min(heights[:25]) > 5 < min(heights[55:80])
    assert max(heights[26:55]) == max(heights[81:]) == 0


def test_lanes_are_in_order_and_named() -> None:
    made = script()
    start = made.now
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.device(ordinal=1)
    outer = made.launch()
    made.launch(parent_launch_id=outer, start_ns=start + US)
    made.compilation(duration_ns=10 * US)
    made.range("outer", start_ns=start, end_ns=start + MS, color="#123456")
    made.range("inner", start_ns=start, end_ns=start + MS // 2, depth=1)
    made.range("other", start_ns=start, end_ns=start + MS // 2, domain="lib")
    made.range("a mark", kind="mark", start_ns=start + 7 * US, domain="lib")
    made.activity("kernel", "axpy", launch_id=0)
    made.activity("memcpy", "HtoD", stream=8)
    made.activity("kernel", "node", cupti_graph_id=4, correlation_id=9, start_ns=start + 5 * US)
    made.activity("sync", "stream")
    drawn = picture(timeline_of(made.recording()))
    labels = [element.text for element in parsed(drawn).iter(f"{SVG}text")
              if element.get("text-anchor") == "end" and element.get("x") == "124"]
    assert labels == ["Cells", "NVTX, MainThread", "NVTX lib, MainThread", "MainThread", "compiles", "driver calls",
                      "Graph launches", "GPU 1, stream 7", "GPU 1, stream 8"]
    assert {"In [3] step", "outer", "inner", "other"} <= set(texts(drawn))
    colors = [color for color, _ in strokes(drawn)]
    assert {"#123456", COPY_COLOR} <= set(colors)


def test_kernels_have_the_colors_that_they_have_in_the_timeline() -> None:
    # The timeline gives its first color to the kernel that took the most time, whichever came first.
    script = Script(gpu={"source": "cupti"})
    script.device()
    at = script.now
    script.activity("kernel", "quick", start_ns=at, end_ns=at + 10 * US)
    script.activity("kernel", "slow", start_ns=at + 100 * US, end_ns=at + 400 * US)
    recording = script.recording()
    drawn = dict(strokes(picture(timeline_of(recording))))
    back = unpacked(recording)
    assert back.words("gpu", "name") == ["quick", "slow"]
    assert back.col("gpu", "name").tolist() == [1, 0]
    (_, quick_until), = drawn[KERNEL_COLORS[1]]
    (slow_from, _), = drawn[KERNEL_COLORS[0]]
    assert quick_until < slow_from


@pytest.mark.parametrize(("wall_ns", "first", "second"), [
    (200 * MS, "0 ms", "50 ms"), (1_500 * MS, "0 s", "0.5 s"), (30 * US, "0 µs", "5 µs"), (300, "0 ns", "50 ns"),
])
def test_ticks_are_in_a_unit_that_is_read_easily(wall_ns: int, first: str, second: str) -> None:
    made = Script()
    made.cell(wall_ns=wall_ns)
    drawn = texts(picture(timeline_of(made.recording())))
    assert drawn[drawn.index(first) + 1] == second


def test_too_many_lanes_are_counted() -> None:
    made = script()
    made.device()
    for stream in range(MOST_ROWS + 9):
        made.activity(stream=stream)
    assert "10 more lanes" in texts(picture(timeline_of(made.recording())))


def test_names_are_only_names() -> None:
    made = Script(name=HOSTILE, dry_run=True)
    made.cell(name=HOSTILE, wall_ns=50 * US)
    made.kernel(HOSTILE)
    made.specialization()
    made.configuration()
    made._add("threads", "thread_id", {"ident": 1, "name": HOSTILE})
    made.launch(phases=(0, 0, 50 * US, 0, 0))
    made.range(HOSTILE, start_ns=1_000 * MS, end_ns=1_000 * MS + 50 * US, domain=HOSTILE, color="#00ff00")
    drawn = picture(timeline_of(made.recording()), columns=4000)
    assert "<script" not in drawn
    kinds = {element.tag.removeprefix(SVG) for element in parsed(drawn).iter()}
    assert kinds == {"svg", "title", "style", "foreignObject", XHTML + "div", "path", "line", "text", "rect"}
    assert not [name for element in parsed(drawn).iter() for name in element.attrib if name.startswith("on")]
    assert "dry run: kernels did not execute" in texts(drawn)
    assert "<script" not in image(timeline_of(made.recording()))


def test_a_color_is_a_color() -> None:
    made = script()
    made.range("evil", start_ns=made.now, end_ns=made.now + MS, color="url(//example.com/x)")
    drawn = picture(timeline_of(made.recording()))
    assert "example" not in drawn
    assert RANGE_COLOR in [color for color, _ in strokes(drawn)]


def test_an_empty_recording() -> None:
    made = Script().recording()
    assert strokes(picture(timeline_of(made))) == []
    assert "nothing was recorded" in texts(picture(timeline_of(made)))
    assert describe(timeline_of(made)) == "KernelScope timeline: nothing was recorded"


def test_many_launches_take_few_bytes_and_no_more_work_than_fewer() -> None:
    few, many = many_launches(20_000, 20), many_launches(200_000, 20)
    assert len(picture(timeline_of(many))) < MOST_BYTES
    assert lines_run(lambda: picture(timeline_of(many))) < 1.2 * lines_run(lambda: picture(timeline_of(few)))


def test_a_busy_picture_becomes_coarser_and_not_larger() -> None:
    made = script()
    made.rows["cells"][0]["end_ns"] = made.now + 4_000 * 25 * US
    made.device()
    for at in range(4_000):
        made.activity("kernel", f"kernel_{at % 7}", 9 * US, stream=at % 24, start_ns=made.now + at * 25 * US)
        made.launch(phases=(3_000, 0, 4_000, 2_000, 1_000), thread_id=at % 3, start_ns=made.now)
    assert len(picture(timeline_of(made.recording()), columns=4_000)) <= MOST_BYTES
