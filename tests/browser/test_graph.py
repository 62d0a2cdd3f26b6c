"""A graph on a page in Chromium: painted, opened, chosen, searched; test_jupyter.py has it in a notebook."""

# ruff: noqa: RUF001 - the sign of multiplication is meant
from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import in_both_fonts
from code_pages import CONTRAST
from drawn_graphs import chain, every_kind, independent, nested, script, strange, tangle

import kernelscope
from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import lay_out, place
from kernelscope.views.graph.model import TOP, read_graph
from kernelscope.views.graph.svg import graph_svg, small

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAINTED = "() => window.kernelscope?.times?.painted"
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PLACED = """() => {
    const { placed } = kernelscope;
    return { width: placed.width, height: placed.height,
      nodes: [...placed.nodes].map(([number, { x, y, width, height }]) => [number, x, y, width, height]),
      bodies: [...placed.bodies].map(([key, { x, y, width, height }]) => [key, x, y, width, height]),
      lines: placed.lines.map(({ first, then, path }) => [first, then, path]) };
}"""


class Shown:
    """A graph that is live on a page."""

    def __init__(self, watched: Any, recording: Recording) -> None:
        self.page = watched.page
        self.watched = watched
        self.recording = recording
        self.root = self.page.locator(".ksg")
        self.body = self.page.locator(".ksg-body-area")

    def settle(self) -> Shown:
        self.page.evaluate(FRAME)
        return self

    def node(self, number: int) -> Any:
        return self.page.locator(f"[data-node='{number}']").first

    def press(self, *keys: str) -> Shown:
        for key in keys:
            self.page.keyboard.press(key)
        return self.settle()

    @property
    def opened(self) -> set[int]:
        return set(self.page.evaluate("() => [...kernelscope.opened]"))

    @property
    def chosen(self) -> int | None:
        return self.page.evaluate("() => kernelscope.chosen ?? null")

    @property
    def scale(self) -> float:
        return float(self.page.evaluate("() => kernelscope.sight.scale"))

    def classed(self, name: str) -> set[int]:
        """Numbers of the nodes that have a class."""
        return {int(each) for each in self.page.eval_on_selector_all(
            f".ksg-canvas .{name}[data-node]", "(all) => all.map((each) => each.dataset.node)")}


@pytest.fixture
def show(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Shown]:
    def make(recording: Recording, **options: Any) -> Shown:
        path = kernelscope.graph(recording).to_html(tmp_path / "graph.html")
        watched = watch(**options)
        watched.page.goto(path.as_uri())
        watched.page.wait_for_function(PAINTED)
        return Shown(watched, recording)

    return make


# ---- Painting ----

@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_paints_without_a_request_or_a_complaint(show: Callable[..., Shown], artifacts: Path, dark: bool) -> None:
    shown = show(every_kind(), dark=dark)
    shown.page.screenshot(path=artifacts.with_suffix(".png"))
    assert [url for url in shown.watched.requests if not url.startswith(("file:", "blob:"))] == []
    assert shown.page.locator(".ksg-node").count() == 12
    assert shown.page.locator(".ksg-box").count() == 2
    said = shown.page.locator(".ksg-canvas").inner_html()
    for text in ("axpy", "kernel · [4, 128]", "20.0 µs", "while · 2 nodes", "then", "else"):
        assert text in said, text
    assert "14 nodes" in shown.root.inner_text()
    worst = shown.page.evaluate(f"(a) => {{ {CONTRAST} }}",
                                ".ksg-bar-top span, .ksg-legend span, .ksg-button, .ksg-search")
    assert min(worst.values()) >= 4.5


@pytest.mark.parametrize("make", [
    pytest.param(every_kind, id="every kind"), pytest.param(lambda: chain(60), id="chain"),
    pytest.param(lambda: nested(6), id="nested"), pytest.param(strange, id="strange"),
    pytest.param(lambda: tangle(120), id="tangle"), pytest.param(lambda: independent(70), id="independent"),
])
def test_the_page_places_what_python_places(show: Callable[..., Shown], make: Callable[[], Recording]) -> None:
    recording = make()
    shown = show(recording)
    layout = lay_out(read_graph(recording))
    boxes = sorted({at[0] for at in layout.levels if at != TOP})
    for opened in ([], boxes[:1], boxes[1:], boxes):
        shown.page.evaluate("(opened) => kernelscope.setOpen(null, new Set(opened))", opened)
        live, still = shown.page.evaluate(PLACED), place(layout, opened)
        assert (live["width"], live["height"]) == pytest.approx((still.width, still.height))
        assert [row[0] for row in live["nodes"]] == list(still.nodes)
        for number, *frame in live["nodes"]:
            kept = still.nodes[number]
            assert frame == pytest.approx([kept.x, kept.y, kept.width, kept.height]), number
        assert [row[0] for row in live["bodies"]] == [f"{at[0]}/{at[1]}" for at in still.bodies]
        for row, kept in zip(live["bodies"], still.bodies.values(), strict=True):
            assert row[1:] == pytest.approx([kept.x, kept.y, kept.width, kept.height])
        assert len(live["lines"]) == len(still.lines)
        for (first, then, path), (_, line, drawn) in zip(live["lines"], still.lines, strict=True):
            assert (first, then) == (line.first, line.then)
            assert re.sub(r"-?[\d.]+", "", path) == re.sub(r"-?[\d.]+", "", drawn)
            assert [float(each) for each in re.findall(r"-?[\d.]+", path)] == pytest.approx(
                [float(each) for each in re.findall(r"-?[\d.]+", drawn)], abs=0.11)


# Texts of a picture that cover each other, or that leave the picture, their node or their box, which is the first path
# or frame of their group.
CROWDED = """(query) => {
  const bad = [], picture = document.querySelector(query), whole = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text")].filter((each) => each.textContent && each.checkVisibility())
    .map((each) => ({ said: each.textContent, box: each.getBoundingClientRect(),
                      around: each.parentElement.querySelector(":scope > path, :scope > rect")?.getBoundingClientRect(),
                      isOfOne: Boolean(each.parentElement.closest("[fill='#fff'], .ksg-node, .ksg-box")) }));
  texts.forEach(({ said, box, around, isOfOne }, at) => {
    if (isOfOne && (box.right > around.right || box.left < around.left)) bad.push(`${said} leaves its node`);
    if (query === "body > svg" && box.right > whole.right + 0.5) bad.push(`${said} leaves the picture`);
    for (const other of texts.slice(at + 1)) if (box.left < other.box.right - 0.5 && other.box.left < box.right - 0.5
      && box.top < other.box.bottom - 4 && other.box.top < box.bottom - 4) bad.push(`${said} covers ${other.said}`);
  });
  return [texts.length, bad];
}"""


def crowded() -> Recording:
    """Texts that take much room: wide letters, large configurations, long times, boxes with much in their line."""
    made = script(name="M" * 80, dry_run=True)
    made.configuration((1_234_567, 65_535, 64), (1_024,))
    graph = made.graph()
    first = made.graph_node(graph, "kernel", "WMWMWM_" * 8, configuration_id=0)
    box = made.graph_node(graph, "while", None)
    around = {"parent_node_id": box, "body": 0}
    inner = [made.graph_node(graph, "kernel", f"MMMMM_{at}", configuration_id=0, **around) for at in range(3)]
    copy = made.graph_node(graph, "memcpy", "HtoD", size_bytes=888_888_888_888)
    for before, after in ((first, box), (box, copy), *itertools.pairwise(inner)):
        made.graph_edge(before, after)
    exec_id = made.graph_event("instantiate", graph)
    launch = made.graph_event("launch", graph, exec_id=exec_id)
    for node in (first, *inner, copy):
        made.activity("kernel", "x", 888_888_888, graph_event_id=launch, graph_node_id=node)
    return made.recording()


@in_both_fonts
@pytest.mark.parametrize("make", [every_kind, crowded, lambda: tangle(120)], ids=["every kind", "crowded", "tangle"])
def test_texts_of_a_picture_have_room(show: Callable[..., Shown], watch: Callable[..., Any], artifacts: Path, font: str,
                                      make: Callable[[], Recording]) -> None:
    recording = make()
    shown = show(recording, font=font, width=1100)
    shown.page.evaluate("() => { kernelscope.sight.scale = 1; kernelscope.sight.moved(); }")
    shown.settle()
    count, bad = shown.page.evaluate(CROWDED, ".ksg-canvas")
    assert count > 5
    assert bad == []
    for width in (1100, 700):
        shown.page.set_viewport_size({"width": width, "height": 900})
        shown.settle()
        shown.page.screenshot(path=f"{artifacts}-{width}.png")
        over = shown.page.evaluate("""() => {
            const edge = document.querySelector(".ksg").getBoundingClientRect().right;
            return [...document.querySelectorAll(".ksg *")].filter((each) => !each.closest("svg")
              && each.getBoundingClientRect().right > edge + 0.5).map((each) => each.outerHTML.slice(0, 200)); }""")
        assert over == []
        assert shown.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    still = watch(font=font).page
    for drawn in (graph_svg(recording), small(recording)):
        still.set_content(drawn)
        count, bad = still.evaluate(CROWDED, "body > svg")
        assert count > 5
        assert bad == []


def test_of_large_graphs_what_is_in_sight_is_painted(show: Callable[..., Shown], artifacts: Path) -> None:
    nodes = 1_000
    shown = show(tangle(nodes))
    shown.page.screenshot(path=artifacts.with_suffix(".png"))
    # What is far from view is not in the page, and comes when all of it is shown.
    assert 5 < shown.page.locator(".ksg-node").count() < 400
    shown.page.locator(".ksg-fit").click()
    shown.settle()
    assert shown.page.locator(".ksg-node").count() == nodes


def test_a_graph_without_nodes_says_so(show: Callable[..., Shown]) -> None:
    made = script()
    made.graph()
    shown = show(made.recording())
    assert "There is no node in it" in shown.root.inner_text()
    shown.body.click()
    shown.press("ArrowDown", "o", "f", "Enter")
    assert shown.chosen is None


def test_hostile_names_run_nothing(show: Callable[..., Shown], artifacts: Path) -> None:
    shown = show(strange())
    for number in (0, 1, 2, 3, 5):
        shown.node(number).hover(position={"x": 12, "y": 12})
        shown.page.evaluate("(number) => kernelscope.choose(number)", number)
    shown.page.screenshot(path=artifacts.with_suffix(".png"))
    assert shown.page.evaluate("() => window.hit") is None
    assert shown.page.locator(".ksg img").count() == 0
    assert "\u202e" not in shown.page.content()


def test_dry_runs_and_damaged_data_are_told_and_nothing_is_left(show: Callable[..., Shown]) -> None:
    shown = show(chain(3, dry_run=True))
    assert "dry run: kernels did not execute" in shown.root.inner_text()
    said = shown.page.evaluate("""async () => {
        const { constructor } = kernelscope, host = document.createElement("div");
        document.body.append(host);
        await new constructor(host, { payload: new Uint8Array([1, 2, 3]) }).ready;
        return host.innerText;
    }""")
    assert "The graph cannot be shown" in said
    shown.page.evaluate("() => kernelscope.destroy()")
    assert shown.page.locator(".ksg", has_text="graph 0").count() == 0


# ---- Boxes ----

def test_a_click_opens_and_closes_a_box(show: Callable[..., Shown]) -> None:
    shown = show(every_kind())
    assert shown.opened == {4, 7}
    shown.page.locator(".ksg-all").click()
    assert shown.settle().opened == set()
    assert shown.page.locator(".ksg-all").inner_text() == "Open all"
    assert shown.page.get_by_text("reduce_blocks").count() == 0
    before = shown.node(4).bounding_box()
    shown.page.locator(".ksg-toggle[data-toggle='4']").click()
    assert shown.settle().opened == {4}
    assert shown.page.get_by_text("reduce_blocks").count() == 1
    # What was clicked at stays under the pointer.
    after = shown.node(4).bounding_box()
    assert after["y"] == pytest.approx(before["y"], abs=3)
    shown.page.locator("path[data-toggle='4']").click()
    assert shown.settle().opened == set()
    shown.node(7).dblclick(position={"x": 40, "y": 20})
    assert shown.settle().opened == {7}


def test_boxes_open_by_keyboard(show: Callable[..., Shown]) -> None:
    shown = show(nested(20, 3))
    shown.body.focus()
    shown.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    assert shown.chosen == 3
    shown.press("Enter")
    assert shown.opened == {3}
    assert "opened" in shown.page.locator(".ksg-live").inner_text()
    shown.press("o")
    assert len(shown.opened) == 16
    shown.press("o")
    assert shown.opened == set()
    assert shown.chosen == 3


def test_what_is_too_deep_says_so(show: Callable[..., Shown]) -> None:
    shown = show(nested(20, 1))
    assert "left out" in shown.root.inner_text()
    last = max(shown.page.evaluate("() => [...kernelscope.placed.nodes.keys()]"))
    shown.page.evaluate("(number) => kernelscope.choose(number, true)", last)
    assert "Too much is in it to be drawn here" in shown.page.locator(".ksg-facts").inner_text()


# ---- Choosing, searching, moving ----

def test_a_chosen_node_stands_out_with_what_is_before_and_after_it(
    show: Callable[..., Shown], artifacts: Path,
) -> None:
    shown = show(every_kind())
    shown.node(0).hover()
    tip = shown.page.locator(".ksg-tip")
    assert tip.is_visible() and "1.0 MiB" in tip.inner_text()
    shown.page.mouse.move(2, 2)
    assert not tip.is_visible()
    shown.node(3).click()
    assert shown.chosen == 3
    # All but the event, which is after axpy and not before this.
    assert shown.settle().classed("ksg-near") == set(range(14)) - {11}
    facts = shown.page.locator(".ksg-facts").inner_text()
    assert "16 × 16 blocks" in facts
    assert "55.0 µs, the median of 20 runs" in facts
    assert "3 nodes before it, 9 after it" in facts
    shown.page.screenshot(path=artifacts.with_suffix(".png"))
    shown.node(8).click()
    # In a body: the box around it, what is before the box and after it, and nothing of the other body.
    assert shown.settle().classed("ksg-near") == {0, 1, 2, 3, 7, 8, 12, 13}
    shown.body.focus()
    shown.press("Escape")
    assert shown.chosen is None
    assert shown.page.locator(".ksg-picked").count() == 0


def test_arrows_follow_edges(show: Callable[..., Shown]) -> None:
    shown = show(chain(30))
    shown.body.focus()
    shown.press(*["ArrowDown"] * 12)
    assert shown.chosen == 11
    shown.press("ArrowUp", "ArrowUp")
    assert shown.chosen == 9
    assert "axpy" in shown.page.locator(".ksg-live").inner_text()
    column = shown.page.evaluate("() => kernelscope.placed.nodes.get(9).x")
    shown.press("ArrowRight")
    assert shown.page.evaluate("() => kernelscope.placed.nodes.get(kernelscope.chosen).x") > column


def test_search_steps_through_nodes_and_opens_what_they_are_in(show: Callable[..., Shown]) -> None:
    shown = show(every_kind())
    shown.page.locator(".ksg-all").click()
    shown.body.focus()
    shown.press("/")
    shown.page.keyboard.type("FINISH")
    assert shown.page.locator(".ksg-count").inner_text() == "1 node"
    shown.press("Enter")
    assert shown.chosen == 6
    assert shown.opened == {4}
    assert shown.classed("ksg-found") == {6}
    shown.page.locator(".ksg-search").fill("kernel")
    assert shown.page.locator(".ksg-count").inner_text() == "6 nodes"
    shown.page.locator(".ksg-search").press("Enter")
    assert shown.page.locator(".ksg-count").inner_text() == "1 of 6"
    shown.page.locator(".ksg-search").press("Shift+Enter")
    assert shown.page.locator(".ksg-count").inner_text() == "6 of 6"
    shown.page.locator(".ksg-search").press("Escape")
    assert shown.classed("ksg-found") == set()


def test_the_wheel_scrolls_the_page_until_the_picture_has_the_focus(show: Callable[..., Shown]) -> None:
    shown = show(every_kind(), height=500)
    shown.page.evaluate("() => { document.body.style.height = '3000px'; }")
    box = shown.body.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + 100)
    shown.page.mouse.move(*middle)
    before = shown.scale
    shown.page.mouse.wheel(0, 40)
    shown.page.wait_for_function("() => window.scrollY > 0")
    assert shown.settle().scale == before
    shown.page.evaluate("() => window.scrollTo(0, 0)")
    shown.page.mouse.click(box["x"] + 20, box["y"] + 20)
    shown.page.mouse.move(*middle)
    shown.page.mouse.wheel(0, -120)
    shown.page.wait_for_function("(before) => kernelscope.sight.scale > before", arg=before)
    assert shown.page.evaluate("() => window.scrollY") == 0


def test_a_drag_moves_and_keys_zoom(show: Callable[..., Shown]) -> None:
    shown = show(every_kind())
    box = shown.body.bounding_box()
    x, y = box["x"] + 30, box["y"] + box["height"] - 20
    start = shown.page.evaluate("() => [kernelscope.sight.x, kernelscope.sight.y]")
    shown.page.mouse.move(x, y)
    shown.page.mouse.down()
    shown.page.mouse.move(x + 80, y - 40, steps=4)
    shown.page.mouse.up()
    moved = shown.page.evaluate("() => [kernelscope.sight.x, kernelscope.sight.y]")
    assert [b - a for a, b in zip(start, moved, strict=True)] == pytest.approx([80, -40], abs=1)
    before = shown.scale
    shown.press("+")
    assert shown.scale == pytest.approx(before * 1.3)
    shown.press("0")
    assert shown.scale == 1
    shown.press("f", "Shift+ArrowRight")
    assert shown.chosen is None
