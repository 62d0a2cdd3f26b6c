"""Measures the timeline: bytes on the wire, packing, first paint, frames, links; prints them as a table.

    python benchmarks/timeline.py [--events 1000000 100000] [--workers 64 100000 [--kernels]] [--chromium PATH]

The events are a half launches with all phases and a half kernels, with durations that vary by 6 % (host) and 2 % (GPU)
around typical ones, one in a hundred of the host's up to eight times as long: nanosecond noise is most of the bytes.
The page is the self-contained one, in a headless Chromium without a GPU. *Painted* is by the browser's clock, from
navigation, or the click on a link, to a task after the frame in which the lanes were drawn; *decoded* is when the
timeline can be used. Frames are by the clock too, of pans by fractions of a pixel, for which every column is drawn
anew, and as the processor time of the page's main thread in scripts, so that other programs on the machine do not
count, of pans by whole pixels, for which what is drawn already is moved.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.views.page import write_page
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.wire import pack

KERNELS = 12
FRAMES = 100
ROUNDS = 7
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--workers", type=int, nargs=2, metavar=("WORKERS", "LAUNCHES"),
                        help="instead, a merged recording of many workers with so many launches each")
    parser.add_argument("--kernels", action="store_true", help="of workers too, one kernel a launch")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n")
    print("| events | figure | measured |\n|---|---|---|")
    if options.workers:
        workers, launches = options.workers
        recording = many(workers, launches, options.kernels)
        of = f"{workers} x {launches:,}{' with kernels' if options.kernels else ''}"
        for figure, measured in [*wire(recording, 1), *merged(recording, options.chromium)]:
            print(f"| {of} | {figure} | {measured} |", flush=True)
        return 0
    for events in options.events:
        recording = realistic(events // 2)
        for figure, measured in [*wire(recording), *browser(recording, options.chromium)]:
            print(f"| {events:,} | {figure} | {measured} |", flush=True)
    return 0


def wire(recording: Recording, rounds: int = ROUNDS) -> list[tuple[str, str]]:
    """Bytes and packing time."""
    walls, works = [], []
    for _ in range(rounds):
        wall, work = time.perf_counter(), time.process_time()
        packed = pack(timeline_of(recording))
        walls.append(time.perf_counter() - wall)
        works.append(time.process_time() - work)
    return [
        ("on the wire", f"{packed.size / 1e6:.2f} MB, {packed.size / packed.events:.2f} bytes an event"),
        ("packing", f"{statistics.median(walls):.3f} s ({min(walls):.3f} to {max(walls):.3f}), "
                    f"{statistics.median(works):.3f} s of processor time on all cores"),
    ]


_UNFOLD = """(name) => new Promise((done) => {
  const k = window.kernelscope, begun = performance.now();
  k.fold(k.view.layout.lanes.find((lane) => lane.spec.label === name), false);
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now() - begun);
  requestAnimationFrame(() => channel.port2.postMessage(0));
})"""


def merged(recording: Recording, chromium: str) -> list[tuple[str, str]]:
    """First paint and frames of the groups of a merged recording, as they begin: folded."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = write_page(recording, Path(folder) / "report.html")
        engine = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        paints = [first_paint(engine, path) for _ in range(3)]
        page = engine.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_function("() => window.kernelscope?.frames.whole", timeout=120_000)
        shares = (("nine tenths", 0.9), ("a tenth", 0.1), ("a thousandth", 0.001))
        rows = [
            ("HTML file", f"{path.stat().st_size / 1e6:.0f} MB"),
            ("opened to painted", spread([paint["painted"] for paint in paints])),
            ("opened to decoded", spread([paint["whole"] for paint in paints])),
            ("a group unfolded to painted", f"{page.evaluate(_UNFOLD, 'rank 3'):.0f} ms"),
            *[(f"a frame that draws all columns, {name}", frames(page, share, 3.37)) for name, share in shares],
            *[(f"a frame, panning over {name}", frames(page, share)) for name, share in shares],
        ]
        engine.close()
    return rows


def browser(recording: Recording, chromium: str) -> list[tuple[str, str]]:
    """First paint and frames."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = write_page(recording, Path(folder) / "report.html")
        engine = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        paints = [first_paint(engine, path) for _ in range(ROUNDS)]
        page = engine.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_function("() => window.kernelscope?.frames.whole")
        rows = [
            ("HTML file", f"{path.stat().st_size / 1e6:.2f} MB"),
            ("opened to painted", spread([paint["painted"] for paint in paints])),
            ("opened to decoded", spread([paint["whole"] for paint in paints])),
            ("of that from mount()", spread([paint["whole"] - paint["mounted"] for paint in paints])),
        ]
        clicks = [links(engine, path) for _ in range(ROUNDS)]
        rows += [(f"link to {name} clicked to painted", spread([each[name] for each in clicks])) for name in clicks[0]]
        rows += [(f"a frame that draws all columns, {name}", whole_frames(page, share)) for name, share in (
            ("nine tenths", 0.9), ("a tenth", 0.1))]
        rows += [(f"a frame, panning over {name}", frames(page, share)) for name, share in (
            ("nine tenths", 0.9), ("a tenth", 0.1), ("a thousandth", 0.001), ("a hundred thousandth", 1e-5))]
        engine.close()
    return rows


#: Notes when the frame is over that the first drawing was made in; it runs before the page's own script.
_WATCH = """
    const seen = () => {
      if (window.kernelscope?.frames.first == null) { requestAnimationFrame(seen); return; }
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { window.painted = performance.now(); };
      requestAnimationFrame(() => channel.port2.postMessage(0));
    };
    requestAnimationFrame(seen);
"""


def first_paint(engine: Any, path: Path) -> dict[str, float]:
    """Milliseconds from navigation to `mount`, to the first paint, and until the data are there."""
    page = engine.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(_WATCH)
    page.goto(path.as_uri())
    page.wait_for_function("() => window.painted && window.kernelscope?.frames.whole", timeout=120_000)
    found = page.evaluate("({ ...window.kernelscope.frames, painted: window.painted, milliseconds: 0 })")
    page.close()
    return found


_CLICK = """([table, row]) => new Promise((done) => {
  const begun = performance.now(), link = document.querySelector(`[data-ks-at="${table}:${row}"]`);
  if (link) link.click(); else window.kernelscope.goTo(table, row);
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now() - begun);
  requestAnimationFrame(() => channel.port2.postMessage(0));
})"""


def links(engine: Any, path: Path) -> dict[str, float]:
    """Milliseconds from a click, the first after the page was opened, to the paint of what it leads to."""
    page = engine.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_function("() => window.kernelscope?.frames.whole")
    page.wait_for_timeout(300)
    launches = page.evaluate("window.kernelscope.model.tables.launches.rows")
    found = {"a launch": page.evaluate(_CLICK, ["launches", launches * 2 // 3]),
             "another launch": page.evaluate(_CLICK, ["launches", launches // 5]),
             "a kernel's launches": page.evaluate(_CLICK, ["kernels", 0])}
    page.close()
    return found


def whole_frames(page: Any, share: float) -> str:
    """Milliseconds of frames in which nothing is there already, while panning over a share of the recording."""
    costs = page.evaluate("""([share, frames]) => new Promise((done) => {
      const k = window.kernelscope, span = k.model.span, costs = [];
      k.show(span * 0.05, span * (0.05 + share));
      const next = (at) => {
        if (at === frames) { done(costs); return; }
        const begun = performance.now();
        k.view.pan(at % 40 < 20 ? 3.37 : -3.37);
        k.draw();
        costs.push(performance.now() - begun);
        requestAnimationFrame(() => next(at + 1));
      };
      next(0);
    })""", [share, FRAMES])
    return f"p95 {np.percentile(costs, 95):.1f} ms, median {np.median(costs):.1f} ms"


def frames(page: Any, share: float, by: float = 3) -> str:
    """Processor time of the frames while panning by so many pixels over a share of the recording."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        return metrics["ScriptDuration"] * 1e3

    page.evaluate("(share) => { const k = window.kernelscope, span = k.model.span;"
                  " k.show(span * (share < 0.5 ? 0.3 : 0.02), span * ((share < 0.5 ? 0.3 : 0.02) + share)); }", share)
    costs = []
    for at in range(FRAMES):
        before = spent()
        page.evaluate("(by) => new Promise((done) => { const k = window.kernelscope; k.view.pan(by); k.changed();"
                      " requestAnimationFrame(() => done()); })", by if at % 40 < 20 else -by)
        costs.append(spent() - before)
    session.detach()
    return f"p95 {np.percentile(costs, 95):.1f} ms, median {np.median(costs):.1f} ms of processor time"


def spread(values: list[float]) -> str:
    """Median and range of milliseconds."""
    return f"{statistics.median(values):.0f} ms ({min(values):.0f} to {max(values):.0f})"


def many(workers: int, launches: int, is_gpu: bool) -> Recording:
    """A merged recording of as many workers, eight a machine, each with so many launches; also of their kernels?"""
    made: list[Recording] = []
    for rank in range(workers):
        held = realistic(launches, 3 + rank, is_gpu)
        processes = [{"process_id": 0, "host": f"node{rank // 8}", "pid": 4_000 + rank, "rank": rank, "start_ns": rank,
                      "status": "ok", "launcher": "torchrun", "clock_bound_ns": 9_000 + 100 * rank}]
        tables = dict(held.tables)
        for name in ("cells", "threads"):
            tables[name] = table_of_rows(name, [row | {"process_id": 0} for row in held.rows(name)])
        tables["devices"] = table_of_rows("devices", [
            {"device_id": 0, "ordinal": rank % 8, "name": "a GPU", "uuid": f"GPU-{rank}"}])
        made.append(Recording(tables | {"processes": table_of_rows("processes", processes)}, held.metadata))
    return merge(made, "train")


def realistic(launches: int, seed: int = 3, is_gpu: bool = True) -> Recording:
    """A recording of so many launches, one kernel each where the GPU was recorded, that runs ahead of it at times."""
    random = np.random.default_rng(seed)
    kernel = np.minimum(random.geometric(0.3, launches) - 1, KERNELS - 1)

    def jittered(typical: Any, share: float) -> Any:
        return (typical * np.exp(random.normal(0, share, np.shape(typical) or launches))).astype(np.int64)

    phases = jittered(np.broadcast_to([3_000, 4_500, 6_000, 900], (launches, 4)), 0.06)
    slow = random.random((launches, 4)) < 0.01
    phases = np.where(slow, phases * random.uniform(1, 8, (launches, 4)), phases).astype(np.int64)
    pause = jittered(2_500, 0.08) + np.where(random.random(launches) < 0.0005, 5_000_000, 0)
    host = phases.sum(axis=1)
    start = 10**12 + np.cumsum(pause + np.concatenate(([0], host[:-1])))
    bounds = start[:, None] + np.cumsum(phases, axis=1)
    execute = jittered(4_000 + 1_500 * kernel, 0.02) // 32 * 32
    ready = bounds[:, 2] + jittered(2_000, 0.05) // 32 * 32
    before = np.concatenate(([0], np.cumsum(execute + 900)[:-1]))
    begin = np.maximum.accumulate(ready - before) + before
    ids, zeros = np.arange(launches), np.zeros(launches, dtype=np.int32)
    called = (bounds[:, 1] + jittered(700, 0.06), bounds[:, 2] - jittered(300, 0.06))
    shared = {"cell_id": zeros, "thread_id": zeros, "specialization_id": kernel, "configuration_id": kernel,
              "device_id": zeros, "correlation_id": 17 + 3 * ids}
    names = [f"kernel_{at:02}" for at in range(KERNELS)]
    tables = {
        "launches": make_table("launches", {
            "launch_id": ids, "dispatcher_id": kernel, "start_ns": start, "dispatch_end_ns": bounds[:, 0],
            "submit_start_ns": bounds[:, 1], "submit_end_ns": bounds[:, 2], "end_ns": bounds[:, 3],
            "compile_ns": zeros, "cache": ["memory"] * launches,
            **({"queue_ns": np.maximum(begin - bounds[:, 2], 0), "execute_ns": execute} if is_gpu else {}), **shared}),
        "activities": make_table("activities", {
            "activity_id": ids, "kind": ["kernel"] * launches, "name": [names[at] for at in kernel],
            "entry_name": [f"_Z{names[at]}" for at in kernel], "stream": np.full(launches, 7), "start_ns": begin,
            "end_ns": begin + execute, "launch_id": ids, "regs": (16 + 2 * kernel).astype(np.int32),
            "api": ["cuLaunchKernelEx"] * launches, "submit_start_ns": called[0], "submit_end_ns": called[1],
            **shared}),
    }
    if not is_gpu:
        del tables["activities"]
    return Recording(tables | {name: table_of_rows(name, rows) for name, rows in _small(start, bounds).items()}, {
        "name": "timeline", **({"gpu": {"source": "cupti"}} if is_gpu else {})})


def _small(start: Any, bounds: Any) -> dict[str, list[dict[str, Any]]]:
    return {
        "cells": [{"cell_id": 0, "execution_count": 1, "status": "ok", "start_ns": int(start[0]) - 10**6,
                   "end_ns": int(bounds[-1, 3]) + 10**6}],
        "threads": [{"thread_id": 0, "ident": 1, "name": "MainThread"}],
        "devices": [{"device_id": 0, "ordinal": 0, "name": "a GPU"}],
        "dispatchers": [{"dispatcher_id": at, "framework": "numba-cuda", "name": f"kernel_{at:02}"}
                        for at in range(KERNELS)],
        "specializations": [{"specialization_id": at, "dispatcher_id": at, "signature": "(array(float32, 1d, C),)",
                             "origin": "compiled"} for at in range(KERNELS)],
        "configurations": [{"configuration_id": at, "sharedmem_bytes": 0, "stream": 0, "griddim_x": at + 1,
                            "griddim_y": 1, "griddim_z": 1, "blockdim_x": 128, "blockdim_y": 1, "blockdim_z": 1}
                           for at in range(KERNELS)],
    }


if __name__ == "__main__":
    raise SystemExit(main())
