"""The gallery's pages: their code prints what they show, and every number that they state is in it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
RECORDINGS = ROOT / "notebooks" / "recordings"
INDEX = GALLERY / "index.md"
STORIES = sorted(set(GALLERY.glob("*.md")) - {INDEX})
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return found


def printed(code: str) -> list[str]:
    """The lines that code prints, as it stands on the page; a terminal would have another width."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {"kernelscope": kernelscope})
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def numbers(text: str) -> set[str]:
    """The numbers of prose: those of code in it are names."""
    return {each.rstrip(",") for each in NUMBER.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text))}


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
def test_a_story_says_what_its_code_prints(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RECORDINGS)
    monkeypatch.setenv("COLUMNS", "100")
    text = page.read_text(encoding="utf-8")
    code, shown = block(text, "python"), block(text, "text")
    assert len(code.splitlines()) == 2
    lines, at = printed(code), 0
    for line in shown.splitlines():
        if line != "...":  # what is left out
            wanted = " ".join(line.split())
            assert wanted in lines[at:], f"{line!r} is not printed after what comes before it"
            at = lines.index(wanted, at) + 1
    assert sorted(numbers(prose(text)) - numbers(shown.replace("`", " "))) == []


@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
def test_a_story_shows_the_recording_that_its_code_reads(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^```\{kernelscope\} \w+ (\S+)$", text, re.MULTILINE) == re.findall(r'load\("(.*?)"\)', text)


def test_the_index_has_each_story_with_its_title_and_first_sentence() -> None:
    text = INDEX.read_text(encoding="utf-8")
    cards = re.findall(r"^- \[(.*?)\]\((.*?)\)\n\n  (.*)$", text, re.MULTILINE)
    told = {page.name: page.read_text(encoding="utf-8").split("\n")[:3:2] for page in STORIES}
    assert {name: [f"# {title}", teaser] for title, name, teaser in cards} == told
    assert re.search(r"```\{toctree\}\n:hidden:\n\n(.*?)\n```", text, re.DOTALL)[1].split() == [
        name.removesuffix(".md") for _, name, _ in cards]
