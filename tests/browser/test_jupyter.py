"""The timeline in JupyterLab 4 and in Notebook 7: live, with several in a notebook, run again, restarted, reopened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import FRAME
from handmade import MS, US, Script
from jupyter_pages import ROOT, Opened, Server, svg_of, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

THREADS = ROOT / "notebooks" / "recordings" / "threads.kscope"
HOSTILE = "</script><img src=x onerror=window.hit=1><svg onload=window.hit=1>"
KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

a = cuda.to_device(np.zeros(64, np.float32))
"""


@pytest.fixture(scope="module", params=["lab", "notebook"])
def application(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def opened(chromium: Any, server: Server, application: str) -> Iterator[Opened]:
    """A notebook with two timelines, the second with names that are markup, and a cell that is none's business."""
    hostile(server.folder / "names.kscope")
    name = f"live_{application}"
    server.write(name, f"import kernelscope\nkernelscope.timeline(kernelscope.load({str(THREADS)!r}))",
                 "kernelscope.timeline(kernelscope.load('names.kscope'))", "x = 1")
    page = Opened(chromium, server, application, name)
    page.run()
    page.timelines(2)
    yield page
    page.close()
    server.end_kernels()


def hostile(path: Path) -> None:
    made = Script(name=HOSTILE)
    made.cell(name=HOSTILE, source=HOSTILE, wall_ns=MS)
    made.kernel(HOSTILE, module=HOSTILE, filename=HOSTILE)
    made.specialization(0, HOSTILE)
    made.configuration()
    made._add("threads", "thread_id", {"ident": 1, "name": HOSTILE})
    made.device(name=HOSTILE)
    for _ in range(9):
        at = made.launch()
        made.activity("kernel", HOSTILE, launch_id=at, specialization_id=0)
    made.launch(error=HOSTILE)
    made.range(HOSTILE, start_ns=1_000 * MS, end_ns=1_000 * MS + 300 * US, domain=HOSTILE, category=HOSTILE,
               payload=HOSTILE)
    made.health(message=HOSTILE, fix=HOSTILE)
    made.recording().save(path)


def colored(opened: Opened, at: int, rgb: tuple[int, int, int]) -> int:
    """How many pixels of a timeline's canvas have a color: read back from what was painted."""
    count: int = opened.page.evaluate("""([at, [r, g, b]]) => {
        const canvas = document.querySelectorAll(".ks-live .kst-canvas")[at];
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return count;
    }""", [at, list(rgb)])
    return count


COMPILE, PREPARE = (0xE6, 0x9F, 0x00), (0x5B, 0xBC, 0xEA)


def shown(opened: Opened) -> tuple[float, float]:
    """Which stretch of time the first timeline shows, in nanoseconds."""
    first, last = opened.page.evaluate(
        "() => { const { view } = document.querySelector('.ks-live').kernelscope; return [view.t0, view.t1]; }")
    return first, last


def focus(opened: Opened) -> Any:
    """The first timeline's lanes with the focus and nothing chosen, fitted."""
    body = opened.page.locator(".ks-live .kst-body").first
    body.focus()
    for key in ("Escape", "Escape", "Escape", "Home"):
        opened.page.keyboard.press(key)
    return body


def canvas_point(opened: Opened, time_ns: float) -> tuple[float, float]:
    """Where a time of the first host thread's launches is on the page."""
    x, y = opened.page.evaluate("""(time) => {
        const { view } = document.querySelector(".ks-live").kernelscope;
        const box = document.querySelector(".ks-live .kst-canvas").getBoundingClientRect();
        const lane = view.layout.lanes.find((each) => each.spec.group === "host");
        return [box.left + view.x(time), box.top + lane.y + 10 - view.scroll];
    }""", time_ns)
    return x, y


def test_it_paints_and_the_picture_is_away(opened: Opened) -> None:
    assert colored(opened, 0, COMPILE) > 1_000
    assert colored(opened, 0, PREPARE) > 1_000
    assert opened.pictures().count() == 0
    assert opened.page.locator(".kst").first.bounding_box()["width"] > 600


def test_the_front_end_is_imported_once(opened: Opened) -> None:
    assert opened.page.evaluate("() => globalThis[Symbol.for('kernelscope.front_ends')].size") == 1
    assert opened.ask_kernel(
        "sum(type(w).__name__ == 'FrontEnd' for w in __import__('ipywidgets').widgets.widget._instances.values())"
    ) == "1"


def test_keys_zoom_and_pan_and_do_not_reach_the_notebook(opened: Opened) -> None:
    cells, sources = opened.cell_count(), opened.outputs()
    focus(opened)
    whole = shown(opened)
    opened.page.keyboard.press("w")
    zoomed = shown(opened)
    assert zoomed[1] - zoomed[0] < (whole[1] - whole[0]) * 0.9
    opened.page.keyboard.press("d")
    assert shown(opened)[0] > zoomed[0]
    opened.page.keyboard.press("a")
    assert shown(opened) == pytest.approx(zoomed)
    opened.page.keyboard.press("ArrowRight")
    assert shown(opened)[0] > zoomed[0]
    # In command mode these would delete, add, cut, paste and merge cells, and show other lines.
    for key in ("d", "d", "a", "b", "x", "v", "m", "y", "z", "Shift+M", "s", "h", "l", "f", "0", "0"):
        opened.page.keyboard.press(key)
    opened.page.wait_for_timeout(100)
    assert opened.cell_count() == cells
    assert opened.outputs() == sources
    opened.page.keyboard.press("Home")
    assert shown(opened) == pytest.approx(whole)


def test_tooltip_and_pin(opened: Opened) -> None:
    focus(opened)
    opened.page.mouse.move(*canvas_point(opened, 30 * MS))
    tip = opened.page.locator(".ks-live .kst-tip").first
    tip.wait_for(state="visible")
    assert "add_one" in tip.inner_text()
    opened.page.mouse.click(*canvas_point(opened, 30 * MS))
    pinned = opened.page.locator(".ks-live .kst-pin").first
    pinned.wait_for(state="visible")
    for word in ("add_one", "dispatch", "compile", "submit"):
        assert word in pinned.inner_text()
    opened.page.keyboard.press("Escape")
    pinned.wait_for(state="hidden")


def test_names_are_only_names(opened: Opened) -> None:
    second = opened.page.locator(".ks-live").nth(1)
    body = second.locator(".kst-body")
    body.focus()
    opened.page.keyboard.press("Enter")
    second.locator(".kst-pin").wait_for(state="visible")
    for _ in range(4):
        opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("ArrowDown")
    box = second.locator(".kst-canvas").bounding_box()
    for at in range(20):
        opened.page.mouse.move(box["x"] + 40, box["y"] + box["height"] * at / 20)
    assert second.locator("img, svg, script").count() == 0
    assert opened.page.evaluate("() => window.hit") is None
    opened.page.keyboard.press("Escape")


def test_running_a_cell_again(opened: Opened) -> None:
    alive = ("sum(type(w).__name__ == 'TimelineWidget' for w in "
             "__import__('ipywidgets').widgets.widget._instances.values())")
    assert opened.ask_kernel(alive) == "2"
    opened.run(0)
    opened.run(0)
    opened.timelines(2)
    assert opened.ask_kernel(alive) == "2"
    assert opened.page.evaluate("() => document.querySelectorAll('head > style').length") < 200
    assert opened.pictures().count() == 0
    assert colored(opened, 0, COMPILE) > 1_000


def test_a_page_that_is_loaded_anew_asks_for_the_data(opened: Opened, application: str) -> None:
    opened.save()
    opened.reload()
    opened.timelines(2)
    assert colored(opened, 0, COMPILE) > 1_000
    assert opened.pictures().count() == 0
    assert [each for each in opened.errors if "model not found" not in each] == []


def test_nothing_left_the_machine_and_nothing_failed(opened: Opened) -> None:
    assert opened.left == []
    assert opened.errors == []


def test_a_restarted_kernel_leaves_the_view(opened: Opened) -> None:
    opened.restart()
    opened.timelines(2)
    focus(opened)
    opened.page.keyboard.press("w")
    assert colored(opened, 0, COMPILE) > 1_000
    opened.run()
    opened.timelines(2)


def test_a_saved_notebook_shows_the_picture(opened: Opened, chromium: Any, server: Server, application: str,
                                            artifacts: Path) -> None:
    saved = opened.save()
    outputs = saved.cells[0].outputs
    assert ["text/html" in output.data for output in outputs] == [True, True]
    assert "add_one" in svg_of(outputs[1].data["text/html"])
    size = sum(len(str(text)) for cell in saved.cells for output in cell.outputs for text in output.data.values())
    assert size < 60_000
    opened.page.goto("about:blank")
    server.end_kernels()
    again = Opened(chromium, server, application, f"live_{application}")
    assert until(again.page, lambda: again.pictures().count() == 2)
    # A model that is not there is looked for during two seconds.
    assert until(again.page, lambda: again.page.get_by_text("Error displaying widget").count() == 2)
    assert again.page.get_by_text("Error displaying widget").locator("visible=true").count() == 0
    assert again.pictures().count() == 2
    assert again.page.evaluate("() => document.querySelector('[data-ks-picture] img').clientWidth") > 600
    assert again.page.evaluate("() => window.hit") is None
    assert again.left == []
    again.page.screenshot(path=f"{artifacts}.png")
    again.close()
    server.end_kernels()


SLOW = """
import time
import kernelscope
from IPython.display import HTML, display
from kernelscope.views.timeline import widget as module
calls, pack = [], module.pack
def slowly(timeline):
    calls.append(timeline)
    time.sleep(0.7)
    return pack(timeline)
module.pack = slowly
display(HTML('<div style="height: 6000px"></div>'))
"""


def test_what_is_far_from_sight_is_unpacked_when_it_comes_near(notebook: Any) -> None:
    opened = notebook(f"{SLOW}kernelscope.timeline(kernelscope.load({str(THREADS)!r}))")
    view = opened.page.locator(".ks-live")
    view.wait_for(state="attached")
    opened.page.wait_for_timeout(600)
    assert view.evaluate("(element) => element.kernelscope === undefined && !element.querySelector('canvas')")
    assert opened.pictures().count() == 1
    view.evaluate("(element) => element.scrollIntoView({ block: 'center' })")
    opened.timelines(1)
    assert colored(opened, 0, COMPILE) > 1_000
    assert opened.pictures().count() == 0
    # However long packing takes, the page does not ask for what is coming.
    assert opened.ask_kernel("len(calls)") == "1"


def test_under_the_card_of_a_recorded_cell(notebook: Any, artifacts: Path) -> None:
    opened = notebook("%load_ext kernelscope\n" + KERNEL,
                      "%%kernelscope -n steps\nfor _ in range(20):\n    axpy[2, 32](a, 2.0, a)",
                      "%%kernelscope --no-timeline\naxpy[2, 32](a, 2.0, a)", "%%kernelscope\nx = 1",
                      "%kernelscope timeline steps")
    # What is far away is unpacked only when it comes near, and its picture stands there meanwhile.
    assert until(opened.page, lambda: opened.page.locator(".ks-live").count() == 2, seconds=30)
    for at in range(2):
        opened.page.locator(".ks-live").nth(at).evaluate("(element) => element.scrollIntoView({ block: 'center' })")
        assert until(opened.page, lambda at=at: "ks-painted" in (
            opened.page.locator(".ks-live").nth(at).get_attribute("class") or ""))
        assert opened.pictures().count() <= 1
    opened.timelines(2)
    assert opened.page.locator(".jp-OutputArea-output .kscope").count() == 3
    assert colored(opened, 0, COMPILE) > 500
    assert "dry run: kernels did not execute" in opened.page.locator(".kst-bar").first.inner_text()
    opened.page.locator(".kst").first.scroll_into_view_if_needed()
    opened.page.screenshot(path=f"{artifacts}.png")


def test_card_timeline_inspector_and_the_list_of_cells_lead_to_each_other(notebook: Any, artifacts: Path) -> None:
    page = (opened := notebook("%load_ext kernelscope\n" + KERNEL,
                               "%%kernelscope -n steps --stacks\naxpy[2, 32](a, 2.0, a)", "%kernelscope cells")).page
    opened.timelines(1)
    card = page.locator(".kscope:has(.ks-sections)")
    card.evaluate("(card) => { card.querySelector('[data-ks-part=compiles]').open = true; }")
    card.locator(".ks-finding [data-ks-at^=inspect][role=link]").click()
    inspector = page.locator(".ksi:has(.ksi-row[aria-selected=true])")
    inspector.wait_for()
    assert "out: float32[:] C" in inspector.locator(".ksi-signature").first.inner_text()
    inspector.locator(".ksi-links >> text=Compile").click()
    assert "compile axpy" in page.locator(".kst-pin").inner_text()
    page.locator(".kst-pin >> text=Inspect").click()
    assert page.locator(".ksi").count() == 1
    card.evaluate("(card) => { card.querySelector('[data-ks-part=lines]').open = true; }")
    card.locator("[data-ks-at^=line][role=link]").click()
    assert page.locator(".kst-count").inner_text() == "2 matches"  # the launch and its compile
    page.locator(".kst-pin .kst-code").click()
    assert "axpy[2, 32](a, 2.0, a)" in card.locator(".ks-marked").inner_text()
    # The front end of call paths comes with the cell that has some.
    card.evaluate("(card) => { card.querySelector('[data-ks-part=call_paths]').open = true; }")
    page.locator(".ks-flame[data-ks-live] .ksf-canvas").wait_for()
    assert not page.locator(".ks-flame > img").first.is_visible()
    page.screenshot(path=f"{artifacts}.png")
    page.locator(".ks-cells [data-ks-at^=card][role=link]").click()
    assert page.locator(".ks-here[data-ks-cell]").is_visible()


# How wide the notebook's panel, its views and what the first timeline is drawn on are, and how far it scrolls aside.
WIDTHS = """() => {
    const panel = document.querySelector(".jp-WindowedPanel-outer");
    const views = document.querySelectorAll(".kst, .ksg, .kscope");
    const wide = (each) => each.getBoundingClientRect().width;
    return { panel: panel.clientWidth, aside: panel.scrollWidth - panel.clientWidth, views: [...views]
      .filter((each) => each.checkVisibility()).map(wide), canvas: wide(document.querySelector(".kst-canvas")) };
}"""


def test_views_are_as_wide_as_their_cell(notebook: Any, artifacts: Path) -> None:
    opened = notebook(
        f"import kernelscope\nthreads = kernelscope.load({str(THREADS)!r})\nkernelscope.timeline(threads)",
        "kernelscope.graph(kernelscope.load('kinds.kscope'))", "display(threads)",
        "%load_ext kernelscope\n" + KERNEL, "%%kernelscope\naxpy[2, 32](a, 2.0, a)", is_run=False)
    page = opened.page
    opened.command("application:toggle-left-area")
    page.set_viewport_size({"width": 1600, "height": 5000})
    opened.run()
    opened.timelines(3)
    assert until(page, lambda: page.locator(".jp-OutputArea-output .kscope").locator("visible=true").count() == 2)
    found = []
    around = 1600 - page.evaluate(WIDTHS)["panel"]
    for width in (1600, 1100, 700, 1100, 1600):
        page.set_viewport_size({"width": width, "height": 5000})
        # The page tells a view of its new size in the frame after that in which it has it.
        assert until(page, lambda panel=width - around: page.evaluate(WIDTHS)["panel"] == panel)
        page.evaluate(FRAME)
        assert until(page, lambda: page.evaluate(WIDTHS)["aside"] == 0), page.evaluate(WIDTHS)
        page.evaluate(FRAME)
        found.append(page.evaluate(WIDTHS))
    page.screenshot(path=f"{artifacts}.png")
    whole, less, least = found[:3]
    assert found[3:] == [less, whole]
    assert len(whole["views"]) == 5
    for shown in (whole, less, least):
        timeline, graph, card, second_card, second_timeline = shown["views"]
        assert timeline == graph == second_timeline > shown["canvas"] > timeline - 270
        assert max(card, second_card) <= timeline < shown["panel"]
        assert shown["panel"] - timeline < 110


def test_a_graph_is_live_and_is_saved_with_boxes_that_open(chromium: Any, server: Server, notebook: Any,
                                                           artifacts: Path) -> None:
    opened = notebook("import kernelscope\nkernelscope.graph(kernelscope.load('kinds.kscope'))",
                      "kernelscope.graph(kernelscope.load('nested.kscope'))")
    opened.timelines(2)
    assert opened.pictures().count() == 0
    assert opened.page.locator(".ksg-node").count() > 12
    cells = opened.cell_count()
    opened.page.locator(".ksg-body-area").first.click(position={"x": 12, "y": 12})
    for key in ("ArrowDown", "d", "d", "x", "a", "b", "o", "o", "Escape"):
        opened.page.keyboard.press(key)
    assert opened.cell_count() == cells
    assert "reduce_blocks" not in str(opened.save().metadata)
    path = opened.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
    opened.page.goto("about:blank")
    server.end_kernels()
    # Opened anew there is no kernel: the static versions are seen, and closed boxes open all the same.
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(f"{server.url}/lab/tree/{path}?reset")
    page.wait_for_selector("[data-ks-picture] img", timeout=60_000)
    folded = page.locator("[data-ks-picture] details").first
    assert not folded.locator("img").is_visible()
    folded.locator("summary").click()
    assert folded.locator("img").is_visible()
    assert page.locator("[data-ks-picture] img").first.evaluate("(img) => img.naturalWidth") > 500
    page.screenshot(path=f"{artifacts}.png")
    page.close()
