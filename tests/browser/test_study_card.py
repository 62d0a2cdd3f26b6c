"""A study's card in a real browser: nothing is fetched, and nothing overflows, whatever the width."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import handmade_studies as handmade
import pytest

from kernelscope.studies.card import card, document
from kernelscope.studies.result import StudyResult

pytestmark = pytest.mark.browser

STUDIES: dict[str, Callable[[], Any]] = {
    "plain": handmade.measured, "troubled": handmade.troubled, "hostile": handmade.hostile, "dry": handmade.dry_run,
    "one": lambda: handmade.measured({"only": {0: 4.0, "own": 0.4}}),
}
# What is wider than the card, but for what scrolls inside of it.
OVERFLOWING = """() => {
  const edge = document.querySelector(".kscope").getBoundingClientRect().right;
  return [...document.querySelectorAll(".kscope *")].filter((each) => !each.closest(".ks-x, details:not([open]), svg")
    && each.getBoundingClientRect().right > edge).map((each) => each.outerHTML.slice(0, 200));
}"""
# Cells whose text runs over their neighbours.
CROWDED = """() => [...document.querySelectorAll(".ks-study .ks-x td")].filter((each) => each.checkVisibility()
  && each.scrollWidth > each.clientWidth + 1).map((each) => each.outerHTML.slice(0, 300))"""


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(("width", "dark"), [(1240, False), (600, True), (420, False)])
def test_a_card_fits(name: str, width: int, dark: bool, watch: Any, artifacts: Path) -> None:
    watched = watch(dark=dark, width=width)
    page = watched.page
    page.set_content(document("study", card(StudyResult(STUDIES[name]()))))
    page.screenshot(path=str(artifacts / f"study_{name}_{width}{'_dark' * dark}.png"), full_page=True)
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(CROWDED) == []
    # All of the title is to be read, however narrow the card is.
    assert page.evaluate("""() => { const title = document.querySelector(".ks-title");
      return title.scrollHeight <= title.clientHeight + 1 && title.scrollWidth <= title.clientWidth + 1; }""")
    assert watched.requests == []


def test_the_line_at_zero_goes_through_all_rows(watch: Any) -> None:
    page = watch().page
    page.set_content(document("study", card(StudyResult(handmade.measured()))))
    places = page.evaluate("""() => [...document.querySelectorAll("td.ks-forest line.ks-zero")].map((each) => {
      const box = each.getBoundingClientRect(); return [box.left, box.top, box.bottom]; })""")
    assert len(places) == 25
    assert len({round(left, 1) for left, _, _ in places}) == 1
    # A row's line ends where the next one's begins, or at the rule between cases.
    assert all(abs(first[2] - second[1]) <= 1.5 for first, second in pairwise(places))
