"""The inspector of a recording in JupyterLab: by mouse and keyboard, loaded anew, saved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from inspector_pages import Inspector
from jupyter_pages import Opened, Server, until

from kernelscope.units import MISSING

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def opened(chromium: Any, server: Server) -> Iterator[Opened]:
    """A notebook with the inspector of a recording."""
    server.write("inspect", "import kernelscope\nkernelscope.inspect('inspected.kscope')", "x = 1")
    page = Opened(chromium, server, "lab", "inspect")
    page.run()
    Inspector(page.page)
    yield page
    page.close()
    server.end_kernels()


@pytest.fixture
def shown(opened: Opened) -> Inspector:
    """The inspector of a recording as it is at first: the first kernel and specialization, the source."""
    found = Inspector(opened.page)
    found.find(".ksi-search").fill("")
    found.find(".ksi-select").select_option("launches")
    found.choose("scale")
    if found.find(".ksi-title2 .ksi-button").count():
        found.find(".ksi-title2 .ksi-button").click()
    checked = found.find(".ksi-row input:checked")
    while checked.count():
        checked.first.click()
    found.row(1).click()
    found.tab("source")
    return found


DARK = {"--jp-layout-color1": "#111111", "--jp-ui-font-color1": "#ffffff",
        "--jp-ui-font-color2": "rgba(255,255,255,.7)", "--jp-content-link-color": "#64b5f6"}


@pytest.mark.parametrize("colors", [{}, DARK], ids=["light", "dark"])
def test_it_is_accessible(shown: Inspector, opened: Opened, colors: dict[str, str]) -> None:
    root = opened.page.locator(".ksi").first
    root.evaluate("(e, all) => { for (const [name, value] of Object.entries(all)) e.style.setProperty(name, value); }",
                  colors)
    try:
        assert violations(opened.page, ".ksi") == []
    finally:
        root.evaluate("(e, all) => { for (const name of Object.keys(all)) e.style.removeProperty(name); }", colors)


def test_the_facts_are_there(shown: Inspector) -> None:
    assert shown.kernels == ["scale", "plain"]
    assert shown.kernel == "demo.scale"
    head = shown.find(".ksi-head").inner_text()
    for words in ("k.py:7", "(out, x)", "cache=True", "15 launches", "22 registers"):
        assert words in head
    labels = [text.strip(" ↑↓") for text in shown.find(".ksi-sort").all_inner_texts()]
    assert labels == ["#", "Arguments", "Launches", "Compile", "Origin", "Regs", "Local", "Spills", "Shared", "Const",
                      "Configurations", "CC", "Max threads", "Cubin", "LC-S key", "Cache file"]
    second = next(row for row in shown.rows if row[0] == "2")
    assert second[1].replace("\n", " ") == "out: float64[:] C, x: float32[:] C"
    assert second[2:6] == ["5", "150 ms", "compiled", "21"]
    assert second[6:11] == ["0", "16 B / 24 B", "1.0 KiB", "400 B", "4, 128 · 50 % +1"]
    assert second[11:14] == ["9.0", "1,024", "4.9 KiB"]
    assert second[15] == "k.scale-7.2.nbc"
    assert next(row for row in shown.rows if row[0] == "3")[14] == "[4, 128]"
    assert shown.row(2).locator("td").nth(2).get_attribute("title") == (
        "out: array(float64, 1d, C)\nx: array(float32, 1d, C)")


def test_what_was_not_recorded_is_not_zero(shown: Inspector) -> None:
    shown.choose("plain")
    assert shown.kernel == "demo.plain"
    (row,) = shown.rows
    assert row[5:10] + row[11:14] == [MISSING] * 8
    assert shown.row(1).locator("td").nth(6).get_attribute("title") == "not recorded"
    assert until(shown.page, lambda: "holds no source" in shown.panel.inner_text())
    shown.tab("passes")
    assert until(shown.page, lambda: "its passes are not known" in shown.panel.inner_text())


def test_kernels_are_searched_and_sorted(shown: Inspector) -> None:
    shown.find(".ksi-search").fill("plai")
    assert shown.kernels == ["plain"]
    assert shown.find(".ksi-about").inner_text() == "1 of 2 kernels"
    shown.find(".ksi-search").fill("nothing like it")
    assert "no kernel has that" in shown.find(".ksi-kernels").inner_text()
    shown.find(".ksi-search").press("Escape")
    assert shown.kernels == ["scale", "plain"]
    shown.find(".ksi-select").select_option("name")
    assert shown.kernels == ["plain", "scale"]
    for by in ("compile", "regs", "launches"):
        shown.find(".ksi-select").select_option(by)
        assert shown.kernels == ["scale", "plain"]


def test_specializations_are_sorted(shown: Inspector) -> None:
    shown.sort("Regs")
    assert shown.numbers == ["3", "2", "1"]
    assert shown.find("th[aria-sort=descending]").inner_text().strip(" ↑↓") == "Regs"
    shown.sort("Regs")
    assert shown.numbers == ["1", "2", "3"]
    shown.sort("Spills")
    assert shown.numbers[0] == "2"
    shown.sort("Arguments")
    assert shown.numbers == ["3", "1", "2"]
    assert shown.chosen == "1"
    shown.sort("#")
    assert shown.numbers == ["1", "2", "3"]


def test_source_with_types_beside_it(shown: Inspector) -> None:
    assert "def scale(out, x):" in shown.drawn()
    assert until(shown.page, lambda: "out: float32[:] C" in shown.code().locator(".ksc-note").first.inner_text())
    assert shown.line(7).locator(".ksc-code").inner_text() == "@cuda.jit"
    shown.row(2).click()
    assert until(shown.page, lambda: "out: float64[:] C" in shown.code().locator(".ksc-note").first.inner_text())


def test_types_by_line(shown: Inspector) -> None:
    shown.tab("types")
    assert until(shown.page, lambda: "i: int64" in shown.drawn())
    assert "$24compare_op.5" not in shown.drawn()
    shown.panel.get_by_text("the compiler's own variables").click()
    assert until(shown.page, lambda: "$24compare_op.5: bool" in shown.drawn())
    shown.panel.get_by_text("the compiler's own variables").click()
    shown.line(2).click()
    assert shown.marked(0) == [9]


def test_source_and_ptx_mark_each_other(shown: Inspector) -> None:
    shown.tab("ptx")
    assert until(shown.page, lambda: shown.panel.locator(".ksc").count() == 2)
    shown.line(10, 0).click()
    assert shown.marked(0) == [10]
    picked = shown.marked(1)
    texts = {number: shown.line(number, 1).locator(".ksc-code").text_content() for number in picked}
    assert len(picked) > 2
    assert all("add.s32" in (text or "") for text in texts.values())
    # The other way round: an instruction of line 9.
    row = shown.code(1).locator(".ksc-row").filter(has=shown.page.locator(".ksc-origin:text-is('9')")).first
    row.click()
    assert shown.marked(0) == [9]
    row.click()
    assert shown.marked(0) == []
    # Pointing marks as well, and stops with the pointer.
    shown.line(11, 0).hover()
    assert until(shown.page, lambda: len(shown.marked(1, "near")) > 2)
    row.hover()
    assert until(shown.page, lambda: shown.marked(0, "near") == [9])
    shown.find(".ksi-head").hover()
    assert until(shown.page, lambda: shown.marked(0, "near") == shown.marked(1, "near") == [])
    shown.beside("source")
    assert until(shown.page, lambda: shown.panel.locator(".ksc").count() == 1)
    shown.beside("source")


def test_passes_launches_and_cache(shown: Inspector) -> None:
    shown.tab("passes")
    rows = shown.panel.locator(".ksi-chart-row")
    assert until(shown.page, lambda: rows.count() == 5)
    assert [each.split("\n")[0] for each in rows.all_inner_texts()] == ["passes", "typing", "lowering", "nvvm", "other"]
    assert "40.0 ms" in rows.nth(3).inner_text()
    shown.panel.get_by_text("by time").click()
    assert [each.split("\n")[0] for each in rows.all_inner_texts()] == ["passes", "typing", "lowering", "nvvm", "other"]
    shown.panel.get_by_text("in order").click()
    shown.tab("launches")
    cells = shown.panel.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:4] == ["4", "128", "5", "50 %"]
    shown.tab("cache")
    said = shown.panel.inner_text()
    for words in ("by a launch, In [4]", "first use", "k.scale-7.nbi", "k.scale-7.1.nbc", "'0.30.4'", "(13, (9, 0))",
                  ".lcs marker"):
        assert words in said, words


def test_code_that_is_not_there_says_how_to_get_it(shown: Inspector) -> None:
    shown.tab("sass")
    assert until(shown.page, lambda: "holds no SASS" in shown.panel.inner_text())


def test_two_side_by_side(shown: Inspector) -> None:
    assert shown.find(".ksi-compare").is_disabled()
    shown.compare(1, 2)
    assert shown.current == "Types and resources"
    marked = shown.panel.locator("tr.ksi-differs").all_inner_texts()
    assert [each.split("\t")[0] for each in marked] == [
        "out", "Registers a thread", "Static shared memory", "Spills, stored / loaded", "Machine code", "Compile time",
        "Launches", "Cache file"] or "Registers a thread" in marked[1]
    assert any("+1,024" in each for each in marked)
    shown.tab("ptx")
    diff = shown.panel.locator(".ksi-side")
    assert until(shown.page, lambda: "%rd1" in diff.inner_text() and "%r1" in diff.inner_text())
    shown.tab("types")
    assert until(shown.page, lambda: "float64" in diff.inner_text())
    shown.tab("llvm")
    assert until(shown.page, lambda: "equal" in diff.inner_text() or "no difference" in diff.inner_text().lower())
    shown.page.keyboard.press("Escape")
    assert shown.current == "Source"


def test_all_by_keyboard(opened: Opened, shown: Inspector) -> None:
    cells = opened.cell_count()
    keys = shown.page.keyboard
    shown.find(".ksi-search").focus()
    keys.press("ArrowDown")
    assert "ksi-kernel" in shown.focus()["name"]
    keys.press("ArrowDown")
    assert shown.kernel == "demo.plain"
    keys.press("Home")
    assert shown.kernel == "demo.scale"
    keys.press("/")
    assert "ksi-search" in shown.focus()["name"]
    keys.press("Enter")
    shown.row(1).focus()
    keys.press("ArrowDown")
    assert shown.chosen == "2"
    keys.press("Space")
    keys.press("End")
    assert shown.chosen == "3"
    keys.press("Space")
    assert shown.find(".ksi-row input:checked").count() == 2
    keys.press("Space")
    keys.press("Enter")
    assert shown.focus()["data"] == {"tab": "source", "lmSuppressShortcuts": "true"}
    keys.press("ArrowRight")
    assert shown.current == "Types"
    keys.press("End")
    assert shown.current == "Cache"
    keys.press("Home")
    shown.code()
    keys.press("ArrowDown")
    assert until(shown.page, lambda: "ksc" in shown.focus()["name"])
    keys.press("Escape")
    assert until(shown.page, lambda: "ksi-tab" in shown.focus()["name"])
    keys.press("Escape")
    assert "ksi-row" in shown.focus()["name"]
    # In command mode these would delete, add, cut, paste and merge cells, and show other lines.
    for key in ("d", "d", "a", "b", "x", "v", "m", "y", "z", "Shift+M", "l", "0", "0"):
        keys.press(key)
    keys.press("Escape")
    assert "ksi-kernel" in shown.focus()["name"]
    for key in ("d", "d", "x", "b"):
        keys.press(key)
    shown.page.wait_for_timeout(100)
    assert opened.cell_count() == cells
    # The heads of the table are one stop of the Tab key.
    heads = shown.find(".ksi-sort")
    heads.first.focus()
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    keys.press("Enter")
    assert shown.find("th[aria-sort=descending]").inner_text().strip(" ↑↓") == "Launches"
    assert heads.evaluate_all("(all) => all.filter((each) => each.tabIndex === 0).length") == 1
    heads.first.click()
    # From the kernels, Escape leads out: the notebook's keys are the cell's again.
    shown.find(".ksi-kernel[aria-selected=true]").focus()
    keys.press("Escape")
    assert "ksi" not in shown.focus()["name"]
    keys.press("b")
    assert until(shown.page, lambda: opened.cell_count() == cells + 1)
    keys.press("z")
    assert until(shown.page, lambda: opened.cell_count() == cells)


def test_copy(opened: Opened, shown: Inspector) -> None:
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.tab("ptx")
    shown.code(1).get_by_role("button", name=re.compile("Copy", re.IGNORECASE)).first.click()
    assert until(shown.page, lambda: "add.s32 %r30, %r29, 29;" in shown.page.evaluate("navigator.clipboard.readText()"))


def test_a_page_that_is_loaded_anew_asks_for_the_facts(opened: Opened) -> None:
    opened.save()
    opened.reload()
    shown = Inspector(opened.page)
    assert shown.kernels == ["scale", "plain"]
    assert "def scale" in shown.drawn()
    assert opened.page.locator("[data-ks-picture] .kscope").locator("visible=true").count() == 0
    assert [each for each in opened.errors if "model not found" not in each] == []


def test_running_the_cell_again(opened: Opened) -> None:
    alive = ("sum(type(w).__name__ == 'InspectorWidget' for w in "
             "__import__('ipywidgets').widgets.widget._instances.values())")
    widgets = "len(__import__('ipywidgets').widgets.widget._instances)"
    opened.run(0)
    assert until(opened.page, lambda: opened.page.locator(".ks-painted .ksi").count() == 1)
    before = opened.ask_kernel(widgets)
    opened.run(0)
    Inspector(opened.page)
    assert until(opened.page, lambda: opened.ask_kernel(alive) == "1")
    assert opened.ask_kernel(widgets) == before
    assert opened.left == []
    assert opened.errors == []


def test_a_saved_notebook_shows_the_static_version(opened: Opened, chromium: Any, server: Server,
                                                   artifacts: Path) -> None:
    saved = opened.save()
    outputs = saved.cells[0].outputs
    assert ["text/html" in output.data for output in outputs] == [True, True]
    opened.page.goto("about:blank")
    server.end_kernels()
    again = Opened(chromium, server, "lab", "inspect")
    static = again.page.locator("[data-ks-picture] .kscope")
    assert until(again.page, lambda: static.locator("visible=true").count() == 1)
    assert until(again.page, lambda: again.page.get_by_text("Error displaying widget").count() == 1)
    assert again.page.get_by_text("Error displaying widget").locator("visible=true").count() == 0
    again.page.locator("[data-ks-picture] summary").first.click()
    assert "float64[:] C" in static.inner_text()
    assert again.left == []
    again.page.screenshot(path=f"{artifacts}.png")
    again.close()
    server.end_kernels()
