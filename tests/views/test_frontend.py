from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import kernelscope
from kernelscope.views.widget import front_end

STATIC = Path(kernelscope.__file__).parent / "static"
FRONTEND = Path(__file__).parents[2] / "frontend"
BUNDLES = sorted(path.stem for path in STATIC.iterdir())


def test_the_front_ends_are_there() -> None:
    assert BUNDLES == ["cards_page", "cells", "flame", "graph", "graph_page", "inspector", "inspector_page",
                       "inspector_widget", "timeline", "timeline_flame_page", "timeline_page", "widget"]


@pytest.mark.parametrize("bundle", BUNDLES)
def test_it_imports_nothing_and_fetches_nothing(bundle: str) -> None:
    text = front_end(bundle)
    # The one import is of a text that a model holds.
    assert len(re.findall(r"""\bimport\s*[("'{*]""", text)) == int("createObjectURL" in text)
    for word in ("fetch(", "XMLHttpRequest", "eval(", "new Function", "innerHTML", "outerHTML", "insertAdjacentHTML",
                 "document.write", "http:", "https:", "url(", "@import", "</script"):
        assert word not in text, word


@pytest.mark.parametrize("sheet", sorted(FRONTEND.glob("*/*.css")), ids=lambda sheet: sheet.stem)
def test_its_style_sheets_are_scoped(sheet: Path) -> None:
    style = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[{}])\s*([^{}@]+?)\s*\{", style)
    assert selectors
    parts = [part for each in selectors for part in re.split(r",(?![^(]*\))", each)]
    assert [part for part in parts if not re.search(r"\.ks(?:[cfgitv]|cope)\b", part)] == []


def test_what_it_shares_with_python_is_current() -> None:
    found = importlib.util.spec_from_file_location("generate", FRONTEND / "generate.py")
    assert found is not None and found.loader is not None
    generate = importlib.util.module_from_spec(found)
    found.loader.exec_module(generate)
    assert generate.TARGET.read_text(encoding="utf-8") == generate.generated(), "run  make frontend"


def test_its_lock_file_names_no_registry() -> None:
    text = (FRONTEND / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text and "://" not in re.sub(r'"url": "[^"]*"', "", text)
