"""Measures the inspector's views of code: time to paint, frames, search, comparison; prints them as a table.

    python benchmarks/inspector.py [--lines 20000 500000] [--chromium PATH]

The code is a real kernel's PTX with the blocks of its loop repeated (the dry run compiles it). The page holds the view
alone, in a headless Chromium without a GPU. What a frame costs is the processor time of the page's main thread: in
tasks, which is script, style, layout and paint together, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kernelscope.dryrun

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from code_pages import big_ptx, code_page, stencil_code

FRAMES = 240
ROUNDS = 7
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
#: Resolves when the next frame was painted: a message comes after it.
_PAINTED = """() => { window.painted = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); })); }"""


def main() -> int:
    """Measure what was asked for."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, nargs="*", default=[20_000, 500_000])
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    kernelscope.dryrun.enable()
    ptx = stencil_code()["ptx"]
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n")
    print("| code | figure | measured |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        engine = playwright.chromium.launch(executable_path=options.chromium, args=ARGUMENTS)
        path = code_page(Path(folder))
        for lines in options.lines:
            text = big_ptx(ptx, max(1, lines // 198))
            name = f"PTX of {text.count(chr(10)):,} lines, {len(text) / 1e6:.1f} MB"
            for figure, measured in [*view_figures(engine, path, text), *diff_figures(engine, path, text)]:
                print(f"| {name} | {figure} | {measured} |", flush=True)
        engine.close()
    return 0


def view_figures(engine: Any, path: Path, text: str) -> list[tuple[str, str]]:
    """The view: a page's first text, a further one, scrolling, search, folds."""
    first = []
    for _ in range(ROUNDS):
        page = opened(engine, path)
        first.append(shown(page, text))
        page.close()
    page = opened(engine, path)
    again = [shown(page, text) for _ in range(ROUNDS)]
    rows = [("show() to painted, the page's first text", spread(first)),
            ("show() to painted, a further text", spread(again))]
    rows += [(f"scrolling by {by} lines a frame", scrolling(page, by)) for by in (3, 40, 400)]
    rows += [(name, spread([page.evaluate(f"() => {{ const start = performance.now(); {code}; "
                                          "return performance.now() - start; }") for _ in range(ROUNDS)]))
             for name, code in (
                 ("search for %rd, with its marks", "view.find('%rd', false)"),
                 ("search for a regular expression", r"view.find('%r[sd]?1\\d\\b', true)"),
                 ("fold all and unfold all", "view.foldAll(true); view.foldAll(false)"))]
    page.close()
    return rows


def diff_figures(engine: Any, path: Path, text: str) -> list[tuple[str, str]]:
    """The comparison: few changes, all registers renumbered and lines missing, and nothing in common in order."""
    few = text.replace("shl.b64", "shl.b32", 30)
    renumbered = re.sub(r"(%(?:rd|r|f|fd))(\d+)\b", lambda found: f"{found[1]}{int(found[2]) + 1}", text)
    lines = text.split("\n")
    others = [("30 lines changed", few),
              ("all registers renumbered, each 37th line missing",
               "\n".join(line for at, line in enumerate(renumbered.split("\n")) if at % 37)),
              ("the other text's lines reversed", "\n".join(reversed(lines)))]
    rows = []
    for name, other in others:
        page = opened(engine, path)
        took = page.evaluate("""async ([left, right, rounds]) => {
            const made = [], host = document.querySelector("#host");
            window.diff = diffView(host);
            for (let at = 0; at < rounds; at++) {
              const start = performance.now();
              diff.show({ text: left, language: "ptx" }, { text: right, language: "ptx" });
              await painted();
              made.push(performance.now() - start);
            }
            return made;
        }""", [text, other, 3 if len(lines) > 100_000 else ROUNDS])
        rows.append((f"comparison, {name}: show() to painted", spread(took)))
        page.close()
    return rows


def opened(engine: Any, path: Path) -> Any:
    """A page with an empty view."""
    page = engine.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_function("() => window.codeView")
    page.evaluate("() => { window.view = codeView(document.querySelector('#host')); }")
    page.evaluate(_PAINTED)
    page.evaluate("() => painted()")
    return page


def shown(page: Any, text: str) -> float:
    """Milliseconds from `show` to painted."""
    return page.evaluate("""async (text) => { const start = performance.now(); view.show({ text, language: "ptx" });
        await painted(); return performance.now() - start; }""", text)


def scrolling(page: Any, lines: int) -> str:
    """Frames' distances in time, and the processor time of a frame, while scrolling."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"] * 1e3

    page.evaluate("() => { view.scroller.scrollTop = 0; }")
    before = spent()
    gaps = page.evaluate("""async ([frames, by]) => {
        const made = [];
        let last = await new Promise(requestAnimationFrame);
        for (let at = 0; at < frames; at++) {
          view.scroller.scrollTop += by * 18;
          const now = await new Promise(requestAnimationFrame);
          made.push(now - last);
          last = now;
        }
        return made;
    }""", [FRAMES, lines])
    cost = (spent() - before) / FRAMES
    session.detach()
    late = sum(gap > 1.5 * 1000 / 60 for gap in gaps)
    return (f"{1000 / np.mean(gaps):.0f} frames a second, p95 {np.percentile(gaps, 95):.1f} ms apart, "
            f"{late} of {FRAMES} late; {cost:.1f} ms of processor time a frame")


def spread(values: list[float]) -> str:
    """Median and range of milliseconds."""
    return f"{statistics.median(values):.0f} ms ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    raise SystemExit(main())
