"""Cards in a real browser: nothing is fetched, and nothing overflows, whatever the width and the font."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import handmade_studies as handmade
import pytest
from browsing import FONTS, in_both_fonts
from everything import everything
from handmade import MS, Script
from handmade_anatomies import anatomy
from inspected import inspected

import kernelscope
from kernelscope.recording.model import Recording
from kernelscope.studies import breakdown_card
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.card import card, page_of
from kernelscope.studies.result import StudyResult
from kernelscope.views.card.html import card as recording_card
from kernelscope.views.cells import cells_card
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import inspect_kernels

pytestmark = pytest.mark.browser

RECORDINGS = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"


def study(make: Callable[[], Any]) -> Callable[[], str]:
    return lambda: card(StudyResult(make()))


def recorded(name: str) -> Callable[[], str]:
    return lambda: recording_card(kernelscope.load(RECORDINGS / f"{name}.kscope"))


def long() -> Recording:
    """Names, numbers and times that need much room."""
    made = Script(name="recording_" * 12)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    for number in range(2):
        made.cell(execution_count=1_234 + number, name="a long name " * 9, wall_ns=9_876_543 * MS)
    kernel = made.kernel(f"outer.{'long_kernel_name_' * 6}", filename=f"/home/u/{'file' * 20}.py")
    specialization = made.specialization(kernel, f"({', '.join(['array(complex128, 4d, C)'] * 6)})", regs=255)
    configuration = made.configuration((2_147_483_647, 65_535, 65_535), (1_024,), sharedmem_bytes=232_448)
    made.occupancy(specialization, configuration, 0.0625)
    made.compilation(kernel, 1_234_567 * MS, specialization_id=specialization, launch_id=0, cell_id=0)
    made.launch(kernel, (3_000, 1_234_567 * MS, 4_000, 2_000, 1_000), 0)
    for cell in range(2):
        made.launch(kernel, (1_234_567 * MS,) * 5, cell_id=cell)
    made.range("a range of a name that is long", end_ns=made.now + 1_234_567 * MS)
    return made.recording()


def twin() -> str:
    recording = inspected()
    return static_html(recording, inspect_kernels(recording))


CARDS: dict[str, Callable[[], str]] = {
    "study": study(handmade.measured), "troubled study": study(handmade.troubled),
    "hostile study": study(handmade.hostile), "dry study": study(handmade.dry_run),
    "one target": study(lambda: handmade.measured({"only": {0: 4.0, "own": 0.4}})),
    "anatomy": lambda: breakdown_card.card(AnatomyResult(anatomy({
        "baseline": {"dispatch": 1.0}, "v2": {"dispatch": 900.0}, "a target with a long name": {"dispatch": 2.0}}))),
    "everything": lambda: recording_card(everything()), "long": lambda: recording_card(long()),
    "builds": recorded("cuda_compute"), "lines": recorded("lines_simulation"),
    "cells": lambda: cells_card([everything(), long()]), "inspector": twin,
}
# Wide tables, of which a narrow card shows a part; those of a result fit into any card.
SCROLLING = {"study": 560, "troubled study": 560, "hostile study": 560, "dry study": 560, "anatomy": 800, "cells": 1240,
             "inspector": 1100, "long": 640}

# What is wider than the card, but for what scrolls inside of it; where the text of a cell, a number or a title runs
# over what is beside it; and tables in sight that scroll.
MISPLACED = """(mayScroll) => {
  const shown = (query) => [...document.querySelectorAll(query)].filter((each) => each.checkVisibility());
  const said = (what, all) => all.map((each) => `${what}: ${each.outerHTML.slice(0, 200)}`);
  const isWider = (each) => each.scrollWidth > each.clientWidth + 1;
  const edge = document.querySelector(".kscope").getBoundingClientRect().right;
  return [
    ...said("over the card", shown(".kscope *").filter((each) => !each.closest("svg, .ks-x *, .ks-scroll *, pre *")
      && each.getBoundingClientRect().right > edge + 0.5)),
    ...said("over its neighbor", shown(`.kscope :is(th, td, .ks-label, .ks-value, .ks-note, .ks-legend div, .ks-head,
      .ks-title, .ks-maker, li)`).filter(isWider)),
    ...(mayScroll ? [] : said("scrolls", shown(".kscope .ks-x").filter((each) => !each.closest("details")
      && isWider(each)))),
    ...(document.documentElement.scrollWidth > innerWidth ? ["the page scrolls aside"] : []),
  ];
}"""


@in_both_fonts
@pytest.mark.parametrize("name", CARDS)
def test_a_card_fits(name: str, font: str, watch: Any, artifacts: Path) -> None:
    watched = watch(font=font)
    page = watched.page
    page.set_content(page_of("card", CARDS[name]()))
    for width, dark in ((1240, False), (700, True), (600, False), (420, True)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if dark else "light")
        assert page.evaluate(MISPLACED, width < SCROLLING.get(name, 0)) == [], width
        if width == 600:
            page.screenshot(path=f"{artifacts}.png", full_page=True)
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.set_viewport_size({"width": 700, "height": 900})
    assert page.evaluate(MISPLACED, True) == [], "unfolded"
    assert watched.requests == []


def test_a_page_has_the_font_that_its_test_names(watch: Any) -> None:
    """Whatever fonts the machine has besides."""
    for name, font in FONTS.items():
        page = watch(font=name).page
        page.set_content(page_of("card", CARDS["study"]()))
        devtools = page.context.new_cdp_session(page)
        for each in ("DOM.enable", "CSS.enable"):
            devtools.send(each)
        root = devtools.send("DOM.getDocument")["root"]["nodeId"]
        for query, family in ((".ks-head", font.family), ("td:last-child span", font.family),
                              (".ks-name span", font.monospace)):
            node = devtools.send("DOM.querySelector", {"nodeId": root, "selector": query})["nodeId"]
            used = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
            assert {each["familyName"] for each in used} == {family}, query


def test_the_line_at_zero_goes_through_all_rows(watch: Any) -> None:
    page = watch().page
    page.set_content(page_of("study", CARDS["study"]()))
    places = page.evaluate("""() => [...document.querySelectorAll("td.ks-forest line.ks-zero")].map((each) => {
      const box = each.getBoundingClientRect(); return [box.left, box.top, box.bottom]; })""")
    assert len(places) == 25
    assert len({round(left, 1) for left, _, _ in places}) == 1
    # A row's line ends where the next one's begins, or at the rule between cases.
    assert all(abs(first[2] - second[1]) <= 1.5 for first, second in pairwise(places))
