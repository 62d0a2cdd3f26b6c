"""An anatomy as a card and as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handmade_anatomies import anatomy

from kernelscope.studies.breakdown import AnatomyResult, MeasuredBreakdown, card


def html_of(made: MeasuredBreakdown) -> str:
    return card(AnatomyResult(made))


def test_every_part_has_a_row_with_its_place_its_time_and_the_difference() -> None:
    html = html_of(anatomy({"old": {}, "new": {"argument 1": 2000.0}}, noise_ns=1.0))
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    row = next(each for each in rows if "argument 1 <small>" in each)
    assert "b: array(float32, 1d, C)" in row
    assert '<span class="ks-slower">▲ +2.00' in row
    # From where the part begins in each launch; the longer one is the whole width.
    bars = re.findall(r"margin-left:([\d.]+)%;width:([\d.]+)%", row)
    assert [float(left) for left, _ in bars] == pytest.approx([6.7 / 14.25 * 100] * 2, abs=0.2)
    assert [float(width) for _, width in bars] == pytest.approx([3 / 14.25 * 100, 5 / 14.25 * 100], abs=0.2)
    assert "new is slower than old by 2.00 µs a launch: argument 1 +2.000 µs." in html.replace("\xa0", " ")


def test_a_part_that_is_not_seen_says_why_and_what_was_compared_instead() -> None:
    html = html_of(anatomy({"old": {}, "new": {}}, native=["new"]))
    assert "not seen" in html
    assert "compared as a whole: set-up + arguments + configuration object + submit" in html


def test_a_dry_run_is_told_at_the_top() -> None:
    html = html_of(anatomy({"old": {}}, is_dry_run=True))
    assert html.index("ks-notice") < html.index("<table")


def test_what_is_left_over_may_be_less_than_nothing() -> None:
    html = html_of(anatomy({"old": {}}, left_over_ns=-900.0))
    assert "-0.90" in html
    assert not re.search(r"width:-|margin-left:-", html)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "‮evil", "x" * 300])
def test_names_of_any_kind_are_escaped(name: str) -> None:
    made = anatomy({"old": {}, name: {"submit": 900.0}}, case="case " + name)
    made.measured.cases[0].statement = name
    made.measured.targets[1].error = name
    html = html_of(made)
    assert "<script" not in html and "<img" not in html and "‮" not in html
    closed(html)


def test_a_page_has_the_figures_and_needs_no_network(tmp_path: Path) -> None:
    path = AnatomyResult(anatomy({"old": {}, "new": {"submit": 900.0}})).to_html(tmp_path / "page.html")
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "Where new differs from old" in html
    assert not re.search(r'(src|href)="https?:', html)


def closed(html: str) -> None:
    """Every element that is opened is closed, in order."""
    opened: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("col", "br", "meta"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Reader().feed(html)
    assert opened == []
