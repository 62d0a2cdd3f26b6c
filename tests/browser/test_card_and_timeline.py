"""The card beside its timeline: what is remembered, sorted and linked; lanes, and all of it without mouse and eyes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from everything import everything
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
        made.cell(execution_count=number + 1, wall_ns=50 * MS, status="error" if number == 1 else "ok",
                  source=f"x = {number}\n" * 30 + "axpy[1, 32](x)\nscale[1, 32](x)\n")
        lines = [made._add("lines", "line_id", {"file": f"In[{number + 1}]", "cell_id": number, "line": 31 + at})
                 for at in range(2)]
        for at in range(40):
            made.launch(at % 2, cell_id=number, line_id=lines[at % 2])
        made.compilation(number % 2, (number + 1) * MS, launch_id=None, cell_id=number, line_id=lines[1])
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


def many_kernels(count: int = 30) -> Script:
    """Kernels of different times, the fastest of them far behind the first twelve."""
    made = Script(name="many")
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.cell(wall_ns=500 * MS)
    for at in range(count):
        made.launchable(f"kernel_{at:02}")
        made.launch(at, (3_000, 0, (count - at) * 100_000, 2_000, 1_000), specialization=at, configuration=at)
    return made


def in_sight(page: Any) -> list[str]:
    """Return the kernels of the first table, which is not folded."""
    return page.eval_on_selector_all("[data-ks-part=kernels] table:not([data-ks-rest]) td:first-child .ks-name",
                                     "all => all.map((each) => each.textContent)")


def test_all_rows_are_sorted_and_the_first_of_them_are_in_sight(opened_timeline: Any) -> None:
    page = opened_timeline(many_kernels().recording()).page
    page.evaluate("document.querySelector('[data-ks-part=kernels]').open = true")
    before, everything = in_sight(page), first_column(page, "kernels")
    assert len(before) == 12 and sorted(everything) == [f"kernel_{at:02}" for at in range(30)]
    press = page.locator("[data-ks-part=kernels] table:not([data-ks-rest]) th", has_text="Max").locator("button")
    press.click()
    assert in_sight(page) == [f"kernel_{at:02}" for at in range(12)]
    press.click()
    assert in_sight(page) == [f"kernel_{at:02}" for at in range(29, 17, -1)]
    assert first_column(page, "kernels") == [f"kernel_{at:02}" for at in range(29, -1, -1)]
    heads = page.locator("[data-ks-part=kernels] th[aria-sort=ascending]")
    assert [text.split()[0] for text in heads.all_text_contents()] == ["Max", "Max"]
    widths = page.eval_on_selector_all("[data-ks-part=kernels] table", """all => all.map((table) => [
        table.tHead.rows[0].cells.length,
        Math.max(...[...table.tBodies[0].rows].map((row) => [...row.cells].filter((each) => !each.hidden).length))])""")
    assert all(cells <= columns for columns, cells in widths), "no row has more cells than its table has columns"
    press.click()
    assert (in_sight(page), first_column(page, "kernels")) == (before, everything)


def test_the_folded_rows_columns_sort_all_rows_too(opened_timeline: Any) -> None:
    page = opened_timeline(many_kernels().recording()).page
    page.evaluate("""for (const each of document.querySelectorAll(
        "[data-ks-part=kernels], [data-ks-part=kernels] details")) each.open = true""")
    press = page.locator("[data-ks-part=kernels] table[data-ks-rest] th", has_text="Host time").locator("button")
    press.click()
    press.click()
    assert in_sight(page)[0] == "kernel_29"


def test_rows_that_are_not_on_the_page_are_said_beside_the_table(opened_timeline: Any) -> None:
    page = opened_timeline(many_kernels(540).recording()).page
    said = page.locator("[data-ks-part=kernels] .ks-soft").all_text_contents()
    assert "and 28 more, which are not on this page: a click on a column sorts the others" in said


def test_folds_are_as_the_reader_left_them(opened_timeline: Any) -> None:
    page = opened_timeline(session().recording()).page
    was_open = page.eval_on_selector_all("details[data-ks-part][open]", "all => all.map((e) => e.dataset.ksPart)")
    page.click("[data-ks-part=cells] summary")
    page.click("[data-ks-part=compiles] summary")
    page.reload()
    page.wait_for_selector(".kst-canvas")
    is_open = page.eval_on_selector_all("details[data-ks-part][open]", "all => all.map((e) => e.dataset.ksPart)")
    assert set(was_open) ^ set(is_open) == {"cells", "compiles"}


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


def test_a_line_leads_to_what_it_made_and_back(opened_timeline: Any) -> None:
    timeline = opened_timeline(session().recording())
    page = timeline.page
    page.evaluate("document.querySelector('[data-ks-part=lines]').open = true")
    page.locator("[data-ks-at='line:3']").focus()  # the second line of In[2]
    page.keyboard.press("Enter")
    assert (page.input_value(".kst-search"), page.inner_text(".kst-count")) == ("In[2]:32", "21 matches")
    kinds = {page.inner_text(".kst-pin .kst-tip-head")}
    page.focus(".kst-body")
    for _ in range(20):
        page.keyboard.press("n")
        assert "In[2]:32" in page.inner_text(".kst-pin")
        kinds.add(page.inner_text(".kst-pin .kst-tip-head"))
    assert len(kinds) == 2  # launches and the compile
    page.fill(".kst-search", "In[1]:31")  # typed, it is the same
    assert page.inner_text(".kst-count") == "20 matches"
    page.evaluate("document.querySelector('[data-ks-part=lines]').open = false")
    timeline.tell("k.goTo('launches', 1);")
    page.focus(".kst-body")
    page.keyboard.press("c")
    marked = page.locator(".ks-marked")
    assert marked.is_visible() and "32" in marked.inner_text() and "scale[1, 32](x)" in marked.inner_text()
    timeline.tell("k.goTo('cells', 1);")  # no line made a cell
    assert marked.count() == 0 and page.locator(".kst-code").count() == 0
    page.click("[data-ks-part=lines] thead button:has-text('Launches')")
    first = page.locator("[data-ks-part=lines] tbody:nth-of-type(2) tr").first
    assert first.inner_text().split()[0] == "20"  # of each cell the lines with most come first


#: Open whatever can be open at once.
OPEN = """() => {
  const k = window.kernelscope;
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  k.search("scale"); k.listMatches(true); k.select(0, k.model.span); k.step(true); k.help(true);
  k.pinLane(k.view.layout.lanes[1]); k.fold(k.view.layout.lanes[1]); k.unfold(k.model.axis.idle[0]); k.search("scale");
  k.listMatches(true); k.step(true); k.select(0, k.model.span);
}"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_card_and_timeline_are_accessible(opened_timeline: Any, artifacts: Any, dark: bool) -> None:
    page = opened_timeline(session().recording(), dark=dark, width=1100).page
    page.evaluate(OPEN)
    page.screenshot(path=f"{artifacts}.png", full_page=True)
    assert violations(page, ".kst") + violations(page, ".kscope:has(.ks-sections)") == []


def test_every_control_has_a_name_a_tooltip_and_a_key(opened_timeline: Any) -> None:
    page = opened_timeline(session().recording()).page
    page.evaluate(OPEN)
    found = page.eval_on_selector_all(
        ".kst :is(button, input, [tabindex]:not(.kst-body))", """(all) => all.filter((each) => each.checkVisibility())
        .map((each) => [each.className, each.title, each.getAttribute("aria-label") || each.textContent.trim()])""")
    assert len(found) > 15
    assert [each for each in found if not each[1] or not each[2]] == []
    keys = {each[0]: re.findall(r"\((?:with )?([^\W\d_]|[/?]|Esc)(?=[,;)])", each[1]) for each in found}
    assert [name for name, held in keys.items() if not held and "kst-list" not in name] == []
    listed = " ".join(page.locator(".kst-keys kbd").all_inner_texts())
    assert [key for held in keys.values() for key in held if key not in re.split(r"[\s,]+", listed)] == []
    tree = page.locator(".kst").aria_snapshot()
    for part in ('application "lanes: Enter', 'img "lanes: ', "option", "[selected]", "[pressed]", "listbox",
                 "[expanded]"):
        assert part in tree, part


def test_lanes_are_pinned_and_folded_by_keys_and_remembered(opened_timeline: Any, artifacts: Any) -> None:
    recording = everything()
    timeline = opened_timeline(recording)
    page, keys = timeline.page, timeline.page.keyboard

    def lanes() -> list[list[Any]]:
        return timeline.tell("return v.layout.lanes.map((l) => [l.key, l.isPinned, l.isFolded, l.isStuck]);")

    first = lanes()
    timeline.tell("k.maximum = 240; k.go(v.find('gpu', 3));")
    page.focus(".kst-body")
    keys.press("p")
    keys.press("l")
    chosen = lanes()[0]
    assert chosen[0].startswith("gpu/") and chosen[1:] == [True, True, True]
    assert [each[0] for each in lanes()[1:]] == [each[0] for each in first if each[0] != chosen[0]]
    # A label is a button, and its lane is the one that keys are for.
    label = page.locator(".kst-lane.kst-host", has_text="MainThread").first
    label.focus()
    keys.press("p")
    keys.press("L")
    page.wait_for_function("() => document.activeElement.classList.contains('kst-lane')")
    assert lanes()[1][1:3] == [True, True]
    assert all(each[2] for each in lanes() if each[0].startswith("host/"))
    # What is pinned stays where it is, and can be pointed at, while the rest scrolls under it.
    before = timeline.image()[:20 * timeline.tell("return k.canvas.width;")]
    timeline.tell("k.scrollTo(80); k.pin(null); k.changed();")
    timeline.settle()
    timeline.page.locator(".kst").screenshot(path=f"{artifacts}.png")
    assert timeline.tell("return v.scroll;") > 20
    # The outline of the chosen event is gone, and nothing else.
    changed = sum(a != b for a, b in zip(before, timeline.image(), strict=False))
    assert changed < 200
    assert timeline.tell("const r = v.layout.lanes[0].rows[0]; return v.layout.rowAt(r.y + 1, v.scroll) === r;")
    kept = lanes()
    page.reload()
    timeline.wait()
    assert [each[:3] for each in lanes()] == [each[:3] for each in kept]
    page.locator(".kst-pinner[aria-pressed=true]").first.click()
    page.locator(".kst-pinner[aria-pressed=true]").first.click()
    page.locator(".kst-lane.kst-host", has_text="MainThread").first.click(modifiers=["Shift"])
    assert [each[0] for each in lanes()] == [each[0] for each in first]
    assert [each[0] for each in lanes() if each[2]] == [chosen[0]]


def test_escape_closes_what_was_opened_last_and_the_list_steps(opened_timeline: Any) -> None:
    timeline = opened_timeline(session().recording())
    page, keys = timeline.page, timeline.page.keyboard
    is_open = """() => ["pin", "matches", "sums", "keys", "count"].filter(
      (each) => !document.querySelector(`.kst-${each}`).hidden)"""
    page.focus(".kst-body")
    keys.press("r")
    keys.press("/")
    keys.type("scale")
    page.focus(".kst-body")
    keys.press("m")
    keys.press("o")
    shown = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "Home"):
        keys.press(key)
        row = page.locator(".kst-match[aria-selected=true]")
        assert row.get_attribute("id") == page.locator(".kst-list").get_attribute("aria-activedescendant")
        shown.append((row.locator("span").last.inner_text(), timeline.pinned))
    assert [each[0] for each in shown] == ["9.01 ms", "2.00 ms", "9.01 ms", "10.0 µs", "9.01 ms"]
    assert shown[1][1] == ["compiles", 1] and shown[0][1] == shown[2][1]
    # Next and previous follow the list, in its order.
    keys.press("n")
    assert timeline.pinned == ["compiles", 1]
    keys.press("N")
    assert timeline.pinned == shown[0][1]
    assert "9.01 ms" in page.locator(".kst-chosen").text_content()
    keys.press("?")
    left = []
    while opened := page.evaluate(is_open):
        left.append(opened)
        keys.press("Escape")
    assert left == [["pin", "matches", "sums", "keys", "count"], ["pin", "matches", "sums", "count"],
                    ["matches", "sums", "count"], ["sums", "count"], ["sums"]]


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
    filled = timeline.tell("""const cells = [0, 1, 2].map((row) => v.find("cells", row));
        return cells.reduce((sum, e) => sum + v.x(e.track.end[e.index]) - v.x(e.track.start[e.index]), 0) / v.width;""")
    assert filled > 0.85
    start, wide = timeline.tell(
        "k.fit(); const b = v.model.axis.breaks[0]; return [v.x(b.at + b.shown / 2), v.x(b.at + b.shown) - v.x(b.at)];")
    assert wide > 2
    ruler = page.locator(".kst-ruler").bounding_box()
    page.mouse.click(ruler["x"] + start, ruler["y"] + 12)
    assert len(timeline.tell("return v.model.axis.breaks;")) == 1
    assert timeline.tell("return v.model.span;") > 90_000 * MS
    # By keyboard: each break is a button with its length, which keeps the focus.
    opened = page.locator(".kst-break[aria-expanded=true]")
    assert opened.get_attribute("title").startswith("90.0 s in which nothing happened")
    opened.focus()
    for left in (2, 1):
        page.keyboard.press("Enter")
        assert len(timeline.tell("return v.model.axis.breaks;")) == left
    page.focus(".kst-body")
    timeline.tell("k.fit();")
    page.keyboard.press("u")
    assert timeline.tell("return v.model.axis.breaks.length;") == 0
    page.keyboard.press("u")
    assert timeline.tell("return v.model.axis.breaks.length;") == 2
