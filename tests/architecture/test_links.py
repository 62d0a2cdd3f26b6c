"""Links of the documentation's sources: files and anchors are there, without Sphinx."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"])
KINDS = {"card", "timeline", "inspector", "graph", "roofline"}


def prose(page: Path) -> str:
    """A page without its blocks of code; what directives hold stays."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^(```+)(.*?)\n.*?^\1$", lambda block: block[0] if block[2].startswith("{") else "", text,
                  flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """What a page can be linked at: its headings, as GitHub and MyST name them, and labels; tables of the reference."""
    text = prose(page)
    headings = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", each) for each in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings} | set(
        re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)) | set(re.findall(r'<a id="([\w-]+)"', text))


def links(page: Path) -> list[str]:
    text = re.sub(r"(`+)[^`].*?\1", "", prose(page), flags=re.DOTALL)
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?\)", text) + re.findall(r"^```\{image\} (\S+)$", text, re.MULTILINE)
    return [each for each in found if not re.match(r"[a-z]+:", each)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    labels = set().union(*map(anchors, PAGES))
    broken: list[str] = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target) and not (
                not name and anchor in labels) and not anchor.startswith("table-")):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_live_views_are_of_recordings_in_the_repository(page: Path) -> None:
    for kind, name in re.findall(r"^```\{kernelscope\} (\S+) (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert kind in KINDS
        assert (ROOT / "notebooks" / "recordings" / name).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_begins_as_a_comment(page: Path) -> None:
    """MyST leaves out a line that begins with a percent sign, as that of a number at the end of the line before."""
    assert [line for line in prose(page).splitlines() if line.startswith("%")] == []
