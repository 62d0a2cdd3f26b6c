"""First paint of the timeline in JupyterLab, and bytes on the wire: python benchmarks/timeline_jupyter.py [EVENTS].

The recording of `benchmarks/timeline.py`, half launches and half kernels, is shown by a cell of a real JupyterLab in
Chromium. Times are the browser's own clock from the moment the cell is run; the part that a cell waits for (packing and
the picture, in the kernel) and the part in the page are told apart.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers"), str(ROOT / "benchmarks")]

from jupyter_pages import Opened, Server  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from timeline import realistic  # noqa: E402

RUNS = 5
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

SETUP = """
import time
import kernelscope
from kernelscope.views.timeline import widget as module
from kernelscope.views.timeline.svg import image
from kernelscope.views.timeline.wire import pack
recording = kernelscope.load({path!r})
spent = {{}}
def clocked(name, function):
    def timed(*given):
        begin = time.perf_counter()
        try:
            return function(*given)
        finally:
            spent[name] = time.perf_counter() - begin
    return timed
module.pack, module.image = clocked("pack", pack), clocked("picture", image)
"""
SHOW = "begin = time.perf_counter()\nkernelscope.timeline(recording)._ipython_display_()\n" \
       "spent['all'] = time.perf_counter() - begin"

# The page's own marks: when the cell was run, when the data had come, when the view was painted.
WATCH = """() => {
    window.marks = {};
    window.bytes = 0;
    const seen = (event) => {
        const size = event.data.byteLength ?? event.data.length;
        if (size > 20000 && window.marks.run && !window.marks.data) {
            window.marks.data = performance.now();
            window.bytes = size;
        }
    };
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const socket = kernel._ws, before = socket.onmessage;
    socket.onmessage = (event) => { seen(event); before.call(socket, event); };
    new MutationObserver(() => {
        const found = document.querySelectorAll(".ks-painted");
        if (found.length && found[found.length - 1] !== window.old) {
            window.old = found[found.length - 1];
            requestAnimationFrame(() => { window.marks.painted = performance.now(); });
        }
    }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
}"""
RUN = """async () => {
    window.marks = { run: performance.now() };
    const panel = window.jupyterapp.shell.currentWidget;
    panel.content.activeCellIndex = 1;
    window.jupyterapp.commands.execute("notebook:run-cell");
    while (!window.marks.painted) await new Promise((resolve) => setTimeout(resolve, 5));
    return { ...window.marks, bytes: window.bytes };
}"""
PAN = """async () => {
    const { kernelscope } = [...document.querySelectorAll(".ks-live")].at(-1);
    const span = kernelscope.view.t1 - kernelscope.view.t0;
    kernelscope.show(kernelscope.view.t0, kernelscope.view.t0 + span / 3);
    for (let at = 0; at < 200; at++) {
        const { t0, t1 } = kernelscope.view;
        const by = span * (at < 100 ? 0.003 : -0.003);
        kernelscope.show(t0 + by, t1 + by);
        await new Promise(requestAnimationFrame);
    }
    return kernelscope.frames.milliseconds.slice(-190).sort((a, b) => a - b)[Math.floor(190 * 0.95)];
}"""


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = realistic(events // 2).save(folder / "busy.kscope")
        server = Server(folder)
        server.write("busy", SETUP.format(path=str(path)), SHOW)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                measure(Opened(browser, server, "lab", "busy"), events)
                browser.close()
        finally:
            server.close()


def measure(opened: Opened, events: int) -> None:
    opened.run(0)
    opened.ask_kernel("spent")
    opened.page.evaluate(WATCH)
    rows = []
    for _ in range(RUNS + 1):
        rows.append(opened.page.evaluate(RUN))
        rows[-1]["kernel"] = eval(opened.ask_kernel("spent"))
        opened.page.wait_for_timeout(300)
    rows = rows[1:]
    print(f"{events:,} events in JupyterLab, medians of {RUNS} runs")
    print(f"  on the wire               {rows[0]['bytes'] / 1e6:8.2f} MB")
    for label, values in (
        ("packed, in the kernel", [row["kernel"]["pack"] * 1e3 for row in rows]),
        ("the static picture", [row["kernel"]["picture"] * 1e3 for row in rows]),
        ("all, in the kernel", [row["kernel"]["all"] * 1e3 for row in rows]),
        ("data there, to first paint", [row["painted"] - row["data"] for row in rows]),
        ("cell run, to first paint", [row["painted"] - row["run"] for row in rows]),
    ):
        print(f"  {label:26}{statistics.median(values):8.0f} ms   ({min(values):.0f} to {max(values):.0f})")
    print(f"  a frame, p95 while panning {opened.page.evaluate(PAN):7.1f} ms")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
