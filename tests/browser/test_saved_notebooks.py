"""A notebook executed once and saved with its widgets' state: how large it is, and what readers without a kernel see.

The pages are those of nbconvert: as they are, sanitized as hosts of notebooks do it, and printed to PDF by a browser.
"""

from __future__ import annotations

import base64
import json
import re
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from drawn_graphs import every_kind
from inspected import inspected

from kernelscope.palette import CELL_COLOR

ROOT = Path(__file__).resolve().parents[2]
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
#: What a card with a timeline of 2,000 launches may add to a notebook, in bytes.
MOST_BYTES = 120_000
SETUP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
%load_ext kernelscope
import kernelscope
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

@cuda.jit
def scale(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] *= a

x = cuda.to_device(np.zeros(4096, np.float32))
"""
LAUNCHES = """%%kernelscope
for _ in range(1000):
    axpy[16, 256](x, 2.0, x)
    scale[16, 256](x, 2.0)
"""
# What hosts of notebooks let pass, above all GitHub: no style, class, id and script.
TAGS = {"a", "b", "br", "code", "del", "details", "div", "em", "h1", "h2", "h3", "hr", "i", "img", "ins", "kbd", "li",
        "ol", "p", "pre", "s", "samp", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th",
        "thead", "tr", "ul"}
ATTRIBUTES = {"*": ["align", "alt", "aria-label", "height", "open", "role", "title", "width"], "a": ["href"],
              "img": ["src"]}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook: a card with a timeline twice, an inspector, a graph."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    folder = tmp_path_factory.mktemp("notebook")
    inspected(400).save(folder / "inspected.kscope")
    every_kind().save(folder / "graph.kscope")
    notebook = new_notebook(cells=list(map(new_code_cell, (
        SETUP, LAUNCHES, LAUNCHES, "kernelscope.inspect('inspected.kscope')",
        "kernelscope.graph(kernelscope.load('graph.kscope'))"))))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name))
        patch.setenv("KERNELSCOPE_DRYRUN", "1")
        patch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
        NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=True,
                       resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.fixture(scope="module")
def exported(executed: Any) -> Callable[..., str]:
    """Return the notebook's first card and timeline as nbconvert's HTML, without the state of widgets."""
    import nbformat
    from nbconvert import HTMLExporter

    plain = nbformat.from_dict(json.loads(json.dumps(executed)))
    del plain.metadata["widgets"]

    def export(cells: slice = slice(1, 2), *, sanitize_html: bool = False) -> str:
        shown = nbformat.from_dict(json.loads(json.dumps({**plain, "cells": plain.cells[cells]})))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            html, _ = HTMLExporter(sanitize_html=sanitize_html).from_notebook_node(shown)
        assert [str(each.message) for each in caught if "not able to be represented" in str(each.message)] == []
        return html

    return export


class Page(HTMLParser):
    """The texts that a page shows, and its images."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.images, self.tags, self._hidden = "", [], set[str](), ""
        self.feed(html)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._hidden = tag if tag in ("script", "style", "title") else ""
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self._hidden = ""

    def handle_data(self, data: str) -> None:
        self.text += "" if self._hidden else data


def verdict_of(executed: Any) -> str:
    """The first line of the sentence on where the time went, in the first card's text."""
    said = re.search(r"^[\d.,]+ m?s: \d+ % .*", executed.cells[1].outputs[0].data["text/plain"], re.MULTILINE)
    assert said is not None
    return said[0]


def drawing(image: dict[str, str | None]) -> ElementTree.Element:
    source = image["src"] or ""
    assert source.startswith("data:image/svg+xml;base64,")
    return ElementTree.fromstring(base64.b64decode(source.partition(",")[2]))


def check_picture(image: dict[str, str | None]) -> None:
    """The timeline's picture: its size and lanes, as wide as the page, also where styles are taken away."""
    assert (image["alt"] or "").startswith("KernelScope timeline: 2,000 launches in ")
    assert image["width"] == "100%" and 100 < int(image["height"] or 0) < 600
    drawn = drawing(image)
    assert (drawn.get("width"), drawn.get("height")) == ("100%", image["height"])
    texts = [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "MainThread" in texts and any(text.startswith("2,000 · max ") for text in texts)


def grown(notebook: Any, cell: int, *, with_state: bool) -> int:
    """What a cell's outputs and, for the first, the widgets' state of one card add to the file."""
    import nbformat

    def size(outputs: list[Any], state: dict[str, Any]) -> int:
        held = nbformat.from_dict(json.loads(json.dumps(notebook)))
        held.cells[cell].outputs = outputs
        held.metadata.pop("widgets")
        if state:
            held.metadata["widgets"] = {STATE: {"version_major": 2, "version_minor": 0, "state": state}}
        return len(nbformat.writes(held).encode())

    outputs = notebook.cells[cell].outputs
    every = notebook.metadata.widgets[STATE]["state"]
    wanted = next(each.data[VIEW]["model_id"] for each in outputs if VIEW in each.data)
    names = {wanted}
    while found := {name.removeprefix("IPY_MODEL_") for each in names for name in every[each]["state"].values()
                    if isinstance(name, str) and name.startswith("IPY_MODEL_")} - names:
        names |= found
    return size(outputs, {name: every[name] for name in names} if with_state else {}) - size([], {})


def test_a_card_and_its_timeline_take_little_room(executed: Any) -> None:
    sizes = {state: [grown(executed, cell, with_state=state) for cell in (1, 2)] for state in (False, True)}
    assert max(sizes[True]) < MOST_BYTES, sizes
    assert max(sizes[False]) < MOST_BYTES / 2, sizes


def test_it_holds_static_versions_and_no_data(executed: Any) -> None:
    import nbformat

    nbformat.validate(executed)
    shown = [cell.outputs[-2:] for cell in executed.cells[1:]]
    for view, picture in shown:
        assert [output.output_type for output in (view, picture)] == ["display_data", "display_data"]
        assert VIEW in view.data and VIEW not in picture.data
    assert "demo.scale" in shown[2][1].data["text/html"]
    assert shown[3][1].data["text/plain"].startswith("graph 0 · 14 nodes")
    drawn, = re.findall(r'base64,([^"]*)"', shown[3][1].data["text/html"])
    assert b"reduce_blocks" in base64.b64decode(drawn)
    state = executed.metadata.widgets[STATE]["state"]
    kinds = [each["model_name"] for each in state.values()]
    # A model for each view, and one for the front end of each kind.
    assert (kinds.count("AnyModel"), kinds.count("WidgetModel")) == (4, 3)
    text = json.dumps(state)
    assert "demo.scale" not in text and "reduce_blocks" not in text


def test_html_of_nbconvert(executed: Any, exported: Callable[..., str]) -> None:
    page = Page(exported(slice(None)))
    assert verdict_of(executed) in page.text
    check_picture(page.images[0])
    assert len(page.images) == 3  # two timelines and a graph; the inspector's table is HTML
    assert "demo.scale" in page.text


def test_sanitized_html(executed: Any, exported: Callable[..., str]) -> None:
    """Without styles, scripts, classes and ids, with images of any source or of none; and as nbconvert does it."""
    import bleach

    html = "".join(output.data["text/html"] for output in executed.cells[1].outputs)
    kept, refused = (Page(bleach.clean(html, tags=TAGS, attributes=ATTRIBUTES, protocols=protocols, strip=True))
                     for protocols in (["https", "data"], ["https"]))
    escaped = Page(exported(sanitize_html=True))
    for page in (kept, refused, escaped):
        assert verdict_of(executed) in page.text
        # No style sheet is left as text, and what is beside each other is not one word.
        assert "var(--" not in page.text and "{" not in page.text
        assert re.search(r"2,000 launches 2 kernels 2 compiles", page.text)
    check_picture(kept.images[0])
    assert "Kernels: 2, 2,000 launches" in kept.text
    # Where no image is, its text says what it showed.
    assert (refused.images[0]["alt"] or "").startswith("KernelScope timeline: 2,000 launches in ")
    assert "KernelScope timeline: 2,000 launches in " in escaped.text


@pytest.mark.browser
def test_pdf_of_a_browser(executed: Any, exported: Callable[..., str], chromium: Any, tmp_path: Path,
                          artifacts: Path) -> None:
    import pypdfium2

    path = tmp_path / "notebook.html"
    path.write_text(exported(), encoding="utf-8")
    page = chromium.new_page()
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    page.emulate_media(media="print")
    page.pdf(path=f"{artifacts}.pdf", format="A4", print_background=True)
    page.close()
    printed = pypdfium2.PdfDocument(f"{artifacts}.pdf")
    text = " ".join(" ".join(each.get_textpage().get_text_range() for each in printed).split())
    assert verdict_of(executed) in text
    # What is folded has its heading, and the picture its lanes and its legend.
    for said in ("Kernels: 2, 2,000 launches", "Host time by phase: ", "Launch configurations: 1",
                 "MainThread 2,000 · max ", "bars above a lane: how many began in each "):
        assert said in text
    pages = [each.render(scale=1).to_numpy()[..., ::-1] for each in printed]
    assert all((each[:, -15:] == 255).all() for each in pages), "nothing is cut off at the right"
    # The lane of cells, which nothing else has the color of, is in one piece.
    cells = [(each == [int(CELL_COLOR[at:at + 2], 16) for at in (1, 3, 5)]).all(axis=-1) for each in pages]
    drawn, = (each for each in cells if each.any())
    assert drawn.sum(axis=1).max() > 0.45 * drawn.shape[1]
