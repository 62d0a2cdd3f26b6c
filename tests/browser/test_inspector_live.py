"""The inspector of live kernels and sessions in JupyterLab: restarts, themes, widths, hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import in_both_fonts
from inspected import FIRST_LINE
from inspector_pages import Inspector
from inspector_server import KERNELS
from jupyter_pages import Opened, Server, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def lab(chromium: Any, server: Server) -> Iterator[Opened]:
    """A notebook of two cells in JupyterLab, for all tests that need no kernel of their own."""
    server.write("inspections", "import kernelscope", "")
    opened = Opened(chromium, server, "lab", "inspections")
    yield opened
    opened.close()
    server.end_kernels()


@pytest.fixture
def inspect(lab: Opened) -> Iterator[Callable[[str], Inspector]]:
    """Run code that ends with an inspection in the first cell, in the place of the one before."""
    def show(code: str) -> Inspector:
        lab.command("notebook:clear-all-cell-outputs")
        lab.page.wait_for_function("() => !document.querySelector('.ksi')")
        lab.set_source(0, f"import kernelscope\n{code}")
        lab.run(0)
        return Inspector(lab.page)

    yield show
    assert lab.errors + lab.left == []


def test_names_are_only_names(inspect: Any) -> None:
    shown = inspect("kernelscope.inspect('hostile.kscope')")
    for tab in ("source", "types", "llvm", "ptx", "sass", "passes", "launches", "cache"):
        shown.tab(tab)
        shown.page.wait_for_timeout(120)
    shown.compare(1, 2)
    for tab in ("resources", "types", "ptx"):
        shown.tab(tab)
        shown.page.wait_for_timeout(120)
    assert shown.find("img, svg, script").count() == 0
    assert shown.page.evaluate("() => window.hit") is None
    assert "\u202e" not in shown.root.inner_text()


def test_a_live_kernel_and_what_it_gets_while_it_is_open(notebook: Any, artifacts: Path) -> None:
    opened = notebook(KERNELS, "kernelscope.inspect(axpy)", "axpy[2, 32](double, 2.0, double)",
                 "axpy[4, 16](single, 2, single)", "x = 1")
    opened.run(0, 1)
    shown = Inspector(opened.page)
    assert until(shown.page, lambda: shown.numbers == ["1"])
    assert "dry run: kernels did not execute" in shown.find(".ksi-top").inner_text()
    assert shown.find(".ksi-left").is_hidden()
    shown.tab("ptx")
    assert until(shown.page, lambda: "no line information" in shown.panel.inner_text())
    assert until(shown.page, lambda: ".visible .entry" in shown.drawn())
    opened.run(2)
    assert until(shown.page, lambda: shown.numbers == ["1", "2"])
    assert (shown.chosen, shown.current) == ("1", "PTX")
    assert "new specialization" in shown.find(".ksi-live").text_content()
    shown.code().evaluate("(view) => { view.dataset.of = '1'; }")
    shown.row(2).click()
    assert until(shown.page, lambda: shown.panel.locator(".ksc[data-of]").count() == 0)
    assert until(shown.page, lambda: ".visible .entry" in shown.drawn())
    shown.code().locator(".ksc-scroll").evaluate("(box) => { box.scrollTop = 200; }")
    opened.run(3)
    assert until(shown.page, lambda: shown.numbers == ["1", "2", "3"])
    assert (shown.chosen, shown.current) == ("2", "PTX")
    assert shown.code().locator(".ksc-scroll").evaluate("(box) => box.scrollTop") == 200
    # The twin that a saved notebook shows has them too.
    twin = opened.save().cells[1].outputs[1].data["text/html"]
    assert "float64[:] C" in twin
    # A copy with line information: off the timed path, and not the kernel's.
    counted = "len(axpy.overloads), sum(axpy.stats.cache_misses.values())"
    before = opened.ask_kernel(counted)
    shown.panel.get_by_text("Compile a copy with line information").click()
    assert until(shown.page, lambda: shown.panel.locator(".ksc").count() == 2, seconds=30)
    assert "it is not the code that ran" in shown.panel.inner_text()
    shown.page.screenshot(path=f"{artifacts}.png")
    source = shown.code(0).locator(".ksc-row").filter(has_text="out[i] = a * x[i]")
    source.click()
    assert until(shown.page, lambda: len(shown.marked(1)) > 0)
    assert opened.ask_kernel(counted) == before
    shown.panel.get_by_text("Show the code that ran").click()
    assert until(shown.page, lambda: "no line information" in shown.panel.inner_text())
    # Closed, it follows no cells any more.
    following = "len([f for f in get_ipython().events.callbacks['post_run_cell'] if '_after_cell' in str(f)])"
    assert opened.ask_kernel(following) == "1"
    opened.run(1)
    Inspector(opened.page)
    assert until(opened.page, lambda: opened.ask_kernel(following) == "1")


def test_recompiled_code_is_shown_anew(lab: Opened, inspect: Any) -> None:
    shown = inspect(KERNELS + """
FACTOR = 12345
@cuda.jit
def scaled(out):
    out[0] = FACTOR
scaled[1, 1](single)
kernelscope.inspect(scaled)""")
    shown.tab("types")
    shown.panel.get_by_text("the compiler's own variables").click()
    assert until(shown.page, lambda: "12345" in shown.drawn())
    lab.set_source(1, "FACTOR = 54321\nscaled.recompile()")
    lab.run(1)
    assert until(shown.page, lambda: "54321" in shown.drawn())
    assert "12345" not in shown.drawn()
    assert (shown.numbers, shown.current) == (["1"], "Types")


def test_a_kernel_that_is_restarted(notebook: Any) -> None:
    opened = notebook(KERNELS, "kernelscope.inspect(axpy)", "import time\n"
                      "kernelscope.views.inspector.widget.compile_parts = lambda *given: time.sleep(20)")
    shown = Inspector(opened.page)
    shown.tab("ptx")
    assert until(shown.page, lambda: ".visible .entry" in shown.drawn())
    shown.row(1).click()
    shown.tab("passes")
    shown.page.wait_for_timeout(300)
    opened.restart()
    # What waits for an answer is told, and so is what asks later; what was answered before stays.
    ended = "has ended or was restarted, and cannot answer: run the cell again"
    assert until(shown.page, lambda: ended in shown.panel.inner_text())
    assert "kernel ended" in shown.find(".ksi-top").inner_text()
    shown.tab("llvm")
    assert until(shown.page, lambda: ended in shown.panel.inner_text())
    shown.tab("ptx")
    assert until(shown.page, lambda: ".visible .entry" in shown.drawn())
    assert shown.panel.locator(".ksi-copy").count() == 0
    opened.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'")
    opened.run(0, 1)
    again = shown.find(".ksi-top").get_by_text("live", exact=True)
    assert until(shown.page, lambda: again.count() == 1, seconds=30)


def test_of_a_session_by_the_magic(notebook: Any, artifacts: Path) -> None:
    opened = notebook("%load_ext kernelscope\n%kernelscope on -q --code\n" + KERNELS,
                 "for _ in range(7):\n    axpy[2, 32](single, 2.0, single)\nother[1, 32](single)",
                 "%kernelscope inspect axpy", "%kernelscope inspect", "axpy[8, 64](double, 2.0, double)",
                 "%kernelscope inspect nothing")
    shown = Inspector(opened.page)
    assert until(shown.page, lambda: shown.numbers == ["1", "2"], seconds=30)
    assert until(shown.page, lambda: [row[2] for row in shown.rows] == ["7", "1"])
    shown.tab("cache")
    assert "compiled before anything was recorded" in shown.panel.inner_text()
    shown.row(2).click()
    assert "by a launch, In [" in shown.panel.inner_text()
    # What is far away is mounted only when it comes near.
    opened.page.locator(".ks-live").nth(1).scroll_into_view_if_needed()
    everything = Inspector(opened.page, 1)
    assert until(shown.page, lambda: everything.kernels == ["axpy", "other"])
    # Its text, seen or not: JupyterLab hides cells that are far from sight.
    last = opened.page.locator(".jp-OutputArea-output").last
    assert until(shown.page, lambda: "no recorded kernel 'nothing'" in str(last.text_content()))
    said = str(last.text_content())
    assert "kernels in the notebook: axpy, other" in said
    assert "Traceback" not in said
    opened.page.screenshot(path=f"{artifacts}.png")


@pytest.mark.parametrize("dark", [True, False])
def test_themes(lab: Opened, inspect: Any, artifacts: Path, dark: bool) -> None:
    lab.command("apputils:change-theme", {"theme": f"JupyterLab {'Dark' if dark else 'Light'}"})
    lab.page.wait_for_function("(light) => document.body.dataset.jpThemeLight === light", arg=str(not dark).lower())
    shown = inspect("kernelscope.inspect('inspected.kscope')")
    shown.tab("ptx")
    shown.code(1)
    shown.line(9, 0).click()
    lab.page.screenshot(path=f"{artifacts}.png")
    ground, ink, chosen = shown.root.evaluate("""(root) => [getComputedStyle(root).backgroundColor,
        getComputedStyle(root).color, getComputedStyle(root.querySelector(".ksi-row[aria-selected=true] td")).color]""")
    assert (brightness(ground) < 0.3) is dark
    assert (brightness(ink) > 0.6) is dark
    assert (brightness(chosen) > 0.6) is dark


def brightness(color: str) -> float:
    """Of a color of CSS, 0 to 1; what is see-through is taken as dark ink on white."""
    numbers = [float(each) for each in re.findall(r"[\d.]+", color)]
    alpha = numbers[3] if len(numbers) > 3 else 1
    value = sum(numbers[:3]) / 3 / 255
    return value if value > 0.5 else value * alpha + (1 - alpha) * 0.2


def test_a_large_ptx(inspect: Any) -> None:
    shown = inspect("kernelscope.inspect('large.kscope')")
    shown.code()
    shown.root.evaluate("""async (root) => {
        root.querySelector(".ksi-tab[data-tab=ptx]").click();
        while (root.querySelectorAll(".ksc").length < 2) await new Promise(requestAnimationFrame);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }""")
    assert "20,0" in shown.code(1).inner_text()
    assert shown.code(1).locator(".ksc-row").count() < 200


def test_many_specializations_and_what_is_advised(inspect: Any) -> None:
    shown = inspect("kernelscope.inspect('churn.kscope')")
    assert until(shown.page, lambda: len(shown.rows) == 300)
    shown.sort("Regs")
    assert shown.numbers[0] == "200"
    advice = shown.find(".ksi-advice").filter(has_text="took 28 types")
    assert advice.locator("code").inner_text() == "out"
    assert "`" not in advice.inner_text()
    shown.tab("launches")
    assert shown.panel.locator("tbody tr").count() == 2


def test_where_numba_cannot_be_imported(notebook: Any) -> None:
    opened = notebook("import sys\nsys.modules.update(numba=None, cuda=None, cupti=None)",
                 "import kernelscope\n%load_ext kernelscope\nkernelscope.inspect('inspected.kscope', 'scale')",
                 "%kernelscope inspect nothing")
    shown = Inspector(opened.page)
    shown.tab("ptx")
    assert until(shown.page, lambda: "add.s32" in shown.drawn())
    last = opened.page.locator(".jp-OutputArea-output").last
    assert until(shown.page, lambda: "nothing was recorded" in last.inner_text())
    assert opened.ask_kernel("'numba.cuda' in sys.modules") == "False"


# What is wider than the inspector, but for what scrolls inside of it, and text that is cut off without a sign of it or
# runs over what is beside it.
MISPLACED = """(root) => {
  const edge = root.getBoundingClientRect().right;
  const shown = (query) => [...root.querySelectorAll(query)].filter((each) => each.checkVisibility());
  const said = (what, all) => all.map((each) => `${what}: ${each.outerHTML.slice(0, 200)}`);
  return [
    ...said("over the inspector", shown("*").filter((each) => !each.closest("svg, .ksi-scroll *, .ksc-scroll *")
      && each.getBoundingClientRect().right > edge + 1)),
    ...said("over its neighbor", shown("th, td, dt, button, summary, .ksi-took, .ksi-chip, .ksi-numbers")
      .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1
        && getComputedStyle(each).textOverflow !== "ellipsis")),
  ];
}"""


@in_both_fonts
def test_widths(notebook: Any, artifacts: Path, font: str) -> None:
    opened = notebook("import kernelscope\nkernelscope.inspect('inspected.kscope')",
                      "kernelscope.inspect('many.kscope')", font=font)
    opened.command("application:toggle-left-area")
    for width, at in ((1900, 0), (1100, 0), (700, 0), (700, 1)):
        opened.page.set_viewport_size({"width": width, "height": 1000})
        shown = Inspector(opened.page, at)
        for tab in ("source", "passes", "launches", "cache"):
            shown.tab(tab)
            shown.settle()
            assert shown.root.evaluate(MISPLACED) == [], (width, tab)
        opened.page.screenshot(path=f"{artifacts}-{width}-{at}.png")


def test_mlir_has_a_tab_where_there_is_some_and_is_tied_to_the_source(inspect: Any, artifacts: Path) -> None:
    shown = inspect("kernelscope.inspect('mlir.kscope')")
    tabs = shown.find(".ksi-tab")
    shown.choose("plain")
    assert tabs.all_inner_texts() == ["Source", "Types", "LLVM", "PTX", "SASS", "Passes", "Launches", "Cache"]
    shown.choose("scale")
    assert tabs.all_inner_texts() == ["Source", "Types", "MLIR", "LLVM", "PTX", "SASS", "Passes", "Launches", "Cache"]
    shown.tab("mlir")
    line = shown.line(7)
    assert line.locator(".ksc-memory").inner_text() == "memref.load"
    assert line.locator(".ksc-register").all_inner_texts() == ["%11", "%arg0", "%10"]
    assert "memref" in line.locator(".ksc-type").all_inner_texts()
    for number, kind, text in ((5, "special", "gpu.thread_id"), (6, "control", "cf.cond_br"),
                               (8, "arithmetic", "arith.mulf")):
        assert shown.line(number).locator(f".ksc-{kind}").first.inner_text() == text
    shown.line(FIRST_LINE + 4, at=0).click()  # the source, beside it
    shown.settle()
    assert shown.marked(-1) == [7, 8]
    shown.page.screenshot(path=f"{artifacts}.png")
    shown.compare(1, 2)
    shown.tab("mlir")
    shown.page.wait_for_selector(".ksc-row")
    assert "memref" in shown.panel.inner_text()
