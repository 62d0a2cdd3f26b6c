"""The card beside its timeline: folds that are remembered, tables that are sorted, links into the timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import MS, Script

import kernelscope

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RECORDINGS = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"


def session() -> Script:
    """Three cells with minutes between them; the second one fails."""
    made = Script(name="session")
    made.launchable()
    made.kernel("scale")
    for number in range(3):
        start = made.now
        made.cell(execution_count=number + 1, wall_ns=50 * MS, status="error" if number == 1 else "ok")
        for at in range(40):
            made.launch(at % 2, cell_id=number)
        made.compilation(number % 2, (number + 1) * MS, launch_id=None, cell_id=number)
        made.now = start + 50 * MS + 90_000 * MS
    made.now = 1_010 * MS
    made.launch(1, phases=(3_000, 0, 9 * MS, 2_000, 1_000), cell_id=0)
    made.rows["launches"].sort(key=lambda row: row["start_ns"])
    for number, row in enumerate(made.rows["launches"]):
        row["launch_id"] = number
    return made


def first_column(page: Any, part: str) -> list[str]:
    return page.eval_on_selector_all(f"[data-ks-part={part}] tbody tr td:first-child .ks-name",
                                     "all => all.map((each) => each.textContent)")


def test_a_click_on_a_column_sorts_by_numbers_and_back(opened_timeline: Any) -> None:
    page = opened_timeline(session().recording()).page
    page.click("[data-ks-part=kernels] summary")
    before = first_column(page, "kernels")
    head = page.locator("[data-ks-part=kernels] th", has_text="Max")
    press = head.locator("button")
    orders = []
    for _ in range(3):
        press.click()
        orders.append((head.get_attribute("aria-sort"), first_column(page, "kernels")))
    assert sorted(before) == ["axpy", "scale"]
    assert [order for order, _ in orders] == ["descending", "ascending", None]
    assert orders[0][1] == orders[1][1][::-1]
    assert orders[2][1] == before
    press.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"


def test_folds_are_as_the_reader_left_them(opened_timeline: Any) -> None:
    page = opened_timeline(session().recording()).page
    was_open = page.eval_on_selector_all("details[data-ks-part][open]", "all => all.map((e) => e.dataset.ksPart)")
    page.click("[data-ks-part=cells] summary")
    page.click("[data-ks-part=compiles] summary")
    page.reload()
    page.wait_for_selector(".kst-canvas")
    is_open = page.eval_on_selector_all("details[data-ks-part][open]", "all => all.map((e) => e.dataset.ksPart)")
    assert set(was_open) ^ set(is_open) == {"cells", "compiles"}
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize(("part", "at", "told"), [
    ("", "launches", "prepare"), ("cells", "cells:2", "In [3]"), ("compiles", "compiles:1", "compile scale"),
])
def test_names_lead_into_the_timeline(opened_timeline: Any, part: str, at: str, told: str) -> None:
    timeline = opened_timeline(session().recording())
    page = timeline.page
    if part:
        page.evaluate("(part) => { document.querySelector(`[data-ks-part=${part}]`).open = true; }", part)
    link = page.locator(f"[data-ks-at^='{at}']").first
    assert link.get_attribute("role") == "link"
    link.focus()
    page.keyboard.press("Enter")
    assert told in page.inner_text(".kst-pin")
    box, lanes = (page.locator(each).bounding_box() for each in (".kst-pin", ".kst-body"))
    assert box["y"] >= lanes["y"] + lanes["height"] - 1  # it hides nothing


def test_a_kernel_leads_to_its_launches(opened_timeline: Any) -> None:
    page = opened_timeline(session().recording()).page
    page.evaluate("document.querySelector('[data-ks-part=kernels]').open = true")
    page.click("[data-ks-at='kernels:1']")
    assert page.input_value(".kst-search") == "scale"
    assert page.inner_text(".kst-count") == "62 matches"
    page.click(".kst-count")
    page.click(".kst-matches button:has-text('duration')")
    rows = page.eval_on_selector_all(".kst-match", "all => all.map((e) => [...e.children].map((c) => c.textContent))")
    assert len(rows) == 62 and [row[2] for row in rows[:3]] == ["9.01 ms", "2.00 ms", "10.0 µs"]
    page.locator(".kst-match").nth(1).click()
    assert "compile" in page.inner_text(".kst-pin")
    page.keyboard.press("Escape")
    assert page.locator(".kst-pin").is_hidden() and page.locator(".kst-matches").is_visible()


def test_a_compile_leads_to_its_specialization_and_back(opened_timeline: Any) -> None:
    page = opened_timeline(kernelscope.load(RECORDINGS / "specializations.kscope")).page
    page.evaluate("document.querySelector('[data-ks-part=compiles]').open = true")
    finding = page.locator("[data-ks-part=compiles] .ks-finding", has_text="axpy").first
    finding.locator("[data-ks-at^=inspect]").focus()
    page.keyboard.press("Enter")
    here = page.locator(".ks-here")
    assert "data-ks-key" in here.inner_html() and here.is_visible()
    assert "axpy" in here.evaluate("(row) => row.closest('details').querySelector('summary').textContent")
    page.locator("li [data-ks-at^=compiles]:visible").first.click()
    assert "compile axpy" in page.inner_text(".kst-pin")
    page.click(".kst-pin >> text=Inspect")
    assert here.is_visible()


def test_an_advice_leads_to_what_it_is_about(opened_timeline: Any) -> None:
    page = opened_timeline(kernelscope.load(RECORDINGS / "specializations.kscope")).page
    first, *others = [page.locator(each) for each in (".ks-said [data-ks-at]", "[data-ks-part=advice] [data-ks-at]")]
    first.last.click()
    assert "compile" in page.inner_text(".kst-pin")
    page.evaluate("document.querySelector('[data-ks-part=advice]').open = true")
    assert others[0].count() == page.locator("[data-ks-part=advice] li").count() > 0


@pytest.mark.parametrize("name", ["gpu", "graphs", "cuda_compute", "specializations"])
def test_headings_numbers_and_columns_are_explained_with_the_focus_too(opened_timeline: Any, name: str) -> None:
    page = opened_timeline(kernelscope.load(RECORDINGS / f"{name}.kscope")).page
    page.evaluate("document.querySelectorAll('.kscope:first-of-type details').forEach((e) => { e.open = true; })")
    silent, told = page.evaluate("""() => {
      const card = document.querySelector(".kscope:has(.ks-sections)"), tip = card.querySelector(".ks-tip");
      const all = [...card.querySelectorAll(".ks-part > summary, .ks-figures span, .ks-legend div:has(b), th")];
      const named = all.filter((each) => each.textContent);
      const told = named.map((each) => {
        const stop = each.querySelector("button") ?? each;
        stop.focus({ focusVisible: true });
        const isSaid = document.activeElement.getAttribute("aria-describedby") === tip.id;
        return isSaid ? tip.textContent : `none: ${stop.outerHTML}`;
      });
      return [named.filter((each) => !each.title).map((each) => each.outerHTML), told];
    }""")
    assert silent == []
    assert len(told) > 20 and not [each for each in told if each.startswith("none")]


def test_idle_time_between_cells_is_drawn_short(opened_timeline: Any) -> None:
    timeline = opened_timeline(session().recording())
    page = timeline.page
    breaks = timeline.tell("return v.model.axis.breaks.map((each) => each.to - each.from);")
    assert len(breaks) == 2 and all(89_000 * MS < each < 90_100 * MS for each in breaks)
    assert timeline.tell("return v.model.span;") < 200 * MS
    real = timeline.tell("const e = v.find('cells', 2); return v.model.axis.real(e.track.start[e.index]);")
    assert real == pytest.approx(180_100 * MS)
    start, wide = timeline.tell(
        "k.fit(); const b = v.model.axis.breaks[0]; return [v.x(b.at + b.shown / 2), v.x(b.at + b.shown) - v.x(b.at)];")
    assert wide > 2
    ruler = page.locator(".kst-ruler").bounding_box()
    page.mouse.click(ruler["x"] + start, ruler["y"] + 12)
    assert len(timeline.tell("return v.model.axis.breaks;")) == 1
    assert timeline.tell("return v.model.span;") > 90_000 * MS
    page.focus(".kst-body")
    timeline.tell("k.fit();")
    page.keyboard.press("u")
    assert timeline.tell("return v.model.axis.breaks.length;") == 0
    page.keyboard.press("u")
    assert timeline.tell("return v.model.axis.breaks.length;") == 2
