"""A study's figures in the HTML that nbconvert makes of a notebook: drawn, and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = ("""
import sys
sys.path.insert(0, HELPERS)
from handmade_anatomies import anatomy
from handmade_studies import measured
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.result import StudyResult

result = StudyResult(measured(processes=8))
""", "result.plot()", "result.plot('drift')",
         "AnatomyResult(anatomy({'base': {'dispatch': 1.0}, 'v2': {'dispatch': 900.0}})).plot()")
DRAWN = """() => [...document.querySelectorAll(".kscope-charts")].map(
  (each) => each.dataset.drawn === "done" && each.querySelectorAll("svg.main-svg").length > 0)"""


def test_figures_are_drawn_in_exported_html(chromium: Any, tmp_path: Path, artifacts: Path) -> None:
    nbclient, nbconvert, nbformat = (pytest.importorskip(name) for name in ("nbclient", "nbconvert", "nbformat"))
    helpers = repr(str(Path(__file__).parents[1] / "helpers"))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(each.replace("HELPERS", helpers)) for each in CELLS])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    assert len(nbformat.writes(notebook)) < 3_500_000
    page_file = tmp_path / "notebook.html"
    page_file.write_text(nbconvert.HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    context = chromium.new_context(offline=True, viewport={"width": 1100, "height": 900})
    try:
        page = context.new_page()
        page.goto(page_file.as_uri(), wait_until="domcontentloaded")
        page.wait_for_function(f"() => String(({DRAWN})()) === 'true,true,true'")
        page.screenshot(path=str(artifacts.with_suffix(".png")), full_page=True)
        heights = page.evaluate("""() => [...document.querySelectorAll(".kscope-charts svg.main-svg")].map(
          (each) => each.getBoundingClientRect().height)""")
        assert min(heights) > 100
    finally:
        context.close()
