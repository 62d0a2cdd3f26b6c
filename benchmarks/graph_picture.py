"""Measures the picture of a CUDA graph: from the call to pixels, and its parts; prints them as a table.

    python benchmarks/graph_picture.py [--nodes 40 500 2000] [--chromium PATH]

A graph's nodes each wait for one or two of the six before it, which is a tangle, or for the one before it, which is
what a capture of one stream makes. A headless Chromium without a GPU paints the page that `to_html` writes.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from drawn_graphs import chain, tangle

import kernelscope
from kernelscope.views.graph.layout import drawing_of, lay_out
from kernelscope.views.graph.model import read_graph
from kernelscope.views.graph.svg import draw, small
from kernelscope.views.graph.text import text
from kernelscope.views.graph.widget import pack

ROUNDS = 15
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> int:
    """Measure what was asked for."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[40, 500, 2_000])
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n")
    print("| graph | figure | median, ms | least to most |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        engine = playwright.chromium.launch(executable_path=options.chromium, args=ARGUMENTS)
        for nodes in options.nodes:
            for name, recording in (("tangle", tangle(nodes)), ("chain", chain(nodes))):
                for figure, times in [*python_figures(recording), *page_figures(engine, Path(folder), recording)]:
                    print(f"| {name} of {nodes:,} nodes | {figure} | {statistics.median(times):.0f} | "
                          f"{min(times):.0f} to {max(times):.0f} |", flush=True)
        engine.close()
    return 0


def python_figures(recording: Any) -> list[tuple[str, list[float]]]:
    """The parts in Python."""
    drawing = drawing_of(recording)
    graph = drawing.graph
    return [(name, [timed(call) for _ in range(ROUNDS)]) for name, call in (
        ("read the tables", lambda: read_graph(recording)), ("layout", lambda: lay_out(graph)),
        ("SVG", lambda: draw(drawing)), ("small SVG, from the recording", lambda: small(recording)),
        ("text", lambda: text(drawing, 100)), ("pack for the page", lambda: pack(drawing)))]


def page_figures(engine: Any, folder: Path, recording: Any) -> list[tuple[str, list[float]]]:
    """The page: its own part, and everything from the call in Python to pixels, with the page's own start."""
    own, whole = [], []
    for _ in range(ROUNDS):
        page = engine.new_page(viewport={"width": 1400, "height": 900})
        start = time.perf_counter()
        path = kernelscope.graph(recording).to_html(folder / "graph.html")
        made = (time.perf_counter() - start) * 1e3
        page.goto(path.as_uri())
        page.wait_for_function("() => window.kernelscope?.times.painted")
        own.append(page.evaluate("() => kernelscope.times.painted - kernelscope.times.mounted"))
        # The page's clock starts with its navigation.
        whole.append(made + page.evaluate("() => kernelscope.times.painted"))
        page.close()
    return [("page: mounted to painted", own), ("call in Python to painted", whole)]


def timed(call: Any) -> float:
    """Milliseconds that a call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    sys.exit(main())
