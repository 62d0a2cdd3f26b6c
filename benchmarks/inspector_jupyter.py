"""The inspector in JupyterLab, opened and switched to a long PTX: python benchmarks/inspector_jupyter.py [COUNT].

A cell of a real JupyterLab in Chromium shows the inspector of a recording with 200 specializations of one kernel, and
of a kernel with 20,000 lines of PTX with line information. Times are the browser's own clock: from the moment the
cell is run, or the tab is clicked, to the frame that shows it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from inspected import inspected, many  # noqa: E402
from jupyter_pages import Opened, Server  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

RUNS = 7
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LINES = 20_000

SETUP = """
import time
import kernelscope
from kernelscope.views.inspector import widget as inspector
recording = kernelscope.load({path!r})
large = kernelscope.load({large!r})
spent = {{}}
def clocked(name, function):
    def timed(*given):
        begin = time.perf_counter()
        try:
            return function(*given)
        finally:
            spent[name] = max(spent.get(name, 0), time.perf_counter() - begin)
    return timed
inspector.kernels_message = clocked("facts", inspector.kernels_message)
inspector.code_of = clocked("code", inspector.code_of)
inspector.static_html = clocked("twin", inspector.static_html)
"""
SHOW = ("spent.clear()\nbegin = time.perf_counter()\nkernelscope.inspect(recording)._ipython_display_()\n"
        "spent['all'] = time.perf_counter() - begin")

OPEN = """async () => {
    const old = document.querySelector(".ks-painted"), begin = performance.now();
    const panel = window.jupyterapp.shell.currentWidget;
    panel.content.activeCellIndex = 1;
    window.jupyterapp.commands.execute("notebook:run-cell");
    const isThere = () => [...document.querySelectorAll(".ks-painted")].some((each) => each !== old);
    while (!isThere()) await new Promise(requestAnimationFrame);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - begin;
}"""
SWITCH = """async (isPointedAt) => {
    const root = [...document.querySelectorAll(".ks-painted .ksi")].at(-1);
    root.querySelector(".ksi-tab[data-tab=launches]").click();
    await new Promise(requestAnimationFrame);
    document.querySelectorAll(".ks-painted").forEach((each) => each.kernelscope.answers.clear());
    const tab = root.querySelector(".ksi-tab[data-tab=ptx]");
    if (isPointedAt) {
        tab.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
        await new Promise((done) => setTimeout(done, 100));
    }
    const begin = performance.now();
    tab.click();
    while (root.querySelectorAll(".ksi-panel .ksc").length < 2) await new Promise(requestAnimationFrame);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - begin;
}"""


def main(specializations: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = many(specializations).save(folder / "many.kscope")
        large = inspected(LINES // 2).save(folder / "large.kscope", paths=True)
        server = Server(folder)
        server.write("many", SETUP.format(path=str(path), large=str(large)), SHOW, "kernelscope.inspect(large)")
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                measure(Opened(browser, server, "lab", "many"), specializations)
                browser.close()
        finally:
            server.close()


def measure(opened: Opened, specializations: int) -> None:
    opened.run(0)
    opened.ask_kernel("spent")
    painted, spent = [], []
    for _ in range(RUNS + 1):
        painted.append(opened.page.evaluate(OPEN))
        spent.append(eval(opened.ask_kernel("spent")))
        opened.page.wait_for_timeout(300)
    print(f"{specializations} specializations in JupyterLab, medians of {RUNS} runs after a first one")
    told("the first time, to first paint", painted[:1])
    told("cell run, to first paint", painted[1:])
    for label, key in (("facts, in the kernel", "facts"), ("the static twin", "twin"), ("all, in the kernel", "all")):
        told(label, [each[key] * 1e3 for each in spent[1:]])
    opened.run(2)
    opened.page.wait_for_function("() => document.querySelectorAll('.ks-live').length > 1")
    opened.page.locator(".ks-live").last.scroll_into_view_if_needed()
    opened.page.wait_for_function("() => document.querySelectorAll('.ks-painted .ksi').length > 1")
    opened.page.wait_for_timeout(500)
    switched, foreseen, kernel = [], [], []
    for _ in range(RUNS + 1):
        switched.append(opened.page.evaluate(SWITCH, False))
        opened.page.wait_for_timeout(200)
        foreseen.append(opened.page.evaluate(SWITCH, True))
        kernel.append(eval(opened.ask_kernel("spent"))["code"] * 1e3)
        opened.page.wait_for_timeout(200)
    print(f"a PTX of {LINES:,} lines beside its source, medians of {RUNS} runs after a first one")
    told("the first time, tab clicked, to paint", switched[:1])
    told("tab clicked, to paint", switched[1:])
    told("pointed at for 100 ms, then clicked", foreseen)
    told("most of it in the kernel", kernel[-1:])


def told(label: str, values: list[float]) -> None:
    print(f"  {label:38}{statistics.median(values):7.0f} ms   ({min(values):.0f} to {max(values):.0f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
