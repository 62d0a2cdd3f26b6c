"""How long views of a recording with samples of warps take: it needs a compiler (numba-cuda, nvdisasm), and no GPU.

    python benchmarks/stalls.py

A million samples of 20 kernels, each with the machine code of a real one, by nine stall reasons. Rows of ``pc_samples``
are as CUPTI's continuous mode has them, one an instruction and reason; and as kernels that run one by one have them,
where each launch has its own: there every sample is a row, which is the worst that there is.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import kernelscope.dryrun

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from code_pages import stencil_code
from handmade import Script
from inspector_pages import inspector_page

from kernelscope.analysis.code import sass_offsets
from kernelscope.features.stalls.analyse import by_kernel
from kernelscope.features.stalls.tables import REASONS
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.views.card.html import card
from kernelscope.views.inspector.widget import InspectorWidget, RecordingSource
from kernelscope.views.keys import specialization_keys

KERNELS, LAUNCHES, SAMPLES = 20, 2_000, 1_000_000
ROUNDS = 9
#: Resolves to the milliseconds since navigation when the column of samples was painted.
_PAINTED = """async () => {
    while (!document.querySelector(".ksc-share-bar")) await new Promise(requestAnimationFrame);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now();
}"""


def main() -> int:
    """Measure, and print a table."""
    kernelscope.dryrun.enable()
    code = stencil_code()
    print("| figure | rows of pc_samples | seconds |\n|---|---|---|")
    for by_launch in (False, True):
        recording = recording_of(code, by_launch=by_launch)
        rows = f"{recording.arrow('pc_samples').num_rows:,}"
        figures: dict[str, Callable[[Recording], Any]] = {
            "by_kernel": by_kernel, "the card": card,
            "inspector: made, with all that it is sent first": opened,
            "the same with the first kernel's source": partial(opened, forms=("source",)),
            "the same with its source, PTX and SASS": partial(opened, forms=("source", "ptx", "sass")),
            "a saved notebook's text and HTML of it": kept,
        }
        for name, figure in figures.items():
            print(f"| {name} | {rows} | {spread(timed(figure, recording))} |", flush=True)
        print(f"| a page of it in Chromium, navigation to the column painted | {rows} | {spread(painted(recording))} |")
    return 0


def recording_of(code: dict[str, str], *, by_launch: bool) -> Recording:
    """Make a recording of kernels that are the same but for their names, with samples at all of their instructions."""
    made, random = Script(name="stalls", code=True), np.random.default_rng(3)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.cell(execution_count=1)
    made.device(name="NVIDIA H200", compute_capability="9.0")
    made.configuration()
    entry, = (line[6:].rstrip(":") for line in code["sass"].split("\n") if line.startswith(".text."))
    source = Path(__file__).parents[1] / "tests" / "helpers" / "code_pages.py"
    for at in range(KERNELS):
        kernel = made.kernel(f"stencil_{at}", filename=str(source), lineno=159)
        row = made.specialization(kernel, entry_name=f"{entry}_{at}")
        made._add("code", None, {
            "dispatcher_id": kernel, "kind": "source", "lineno": 159, "attributes": json.dumps({"file": str(source)}),
            "text": "".join(source.read_text().splitlines(keepends=True)[158:168])})
        for kind in ("ptx", "sass"):
            made._add("code", None, {"dispatcher_id": kernel, "specialization_id": row, "kind": kind,
                                     "text": code[kind].replace(entry, f"{entry}_{at}")})
    for at in range(LAUNCHES):
        made.launch(at % KERNELS, specialization=at % KERNELS)
    recording = made.recording()
    offsets = np.array(sorted(sass_offsets(code["sass"], entry)))
    reasons = list(REASONS)[:9]
    weights = random.dirichlet(np.full(len(offsets) * len(reasons), 0.2), KERNELS)
    drawn = np.concatenate([each * weights.shape[1] + random.choice(weights.shape[1], SAMPLES // KERNELS, p=weight)
                            for each, weight in enumerate(weights)])
    counts = np.ones(len(drawn), np.int64)
    if not by_launch:
        drawn, counts = np.unique(drawn, return_counts=True)
    kernel, place = np.divmod(drawn, weights.shape[1])
    kernel = kernel.astype(np.int32)
    samples = {
        "name": _words([f"stencil_{at}" for at in range(KERNELS)], kernel),
        "entry_name": _words([f"{entry}_{at}" for at in range(KERNELS)], kernel),
        "specialization_id": kernel, "device_id": np.zeros(len(kernel), np.int32),
        "cell_id": np.zeros(len(kernel), np.int32),
        "launch_id": random.integers(0, LAUNCHES // KERNELS, len(kernel)) * KERNELS + kernel if by_launch else None,
        "pc_offset": offsets[place // len(reasons)], "reason": _words(reasons, place % len(reasons)),
        "samples": counts, "not_issued": counts // 2,
    }
    tables = {name: recording.arrow(name) for name in recording.tables if name != "pc_samples"}
    held = {name: values for name, values in samples.items() if values is not None}
    return Recording(tables | {"pc_samples": make_table("pc_samples", held)}, recording.metadata)


def _words(texts: list[str], places: np.ndarray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(texts))


def opened(recording: Recording, forms: tuple[str, ...] = ()) -> None:
    """Open the inspector, and ask it for forms of its first kernel's code."""
    made = InspectorWidget(RecordingSource(recording))
    made.data()
    key = specialization_keys(recording)[made._shown.kernels[0].specializations[0].specialization_id]
    for form in forms:
        message, _ = made.answer({"what": "code", "form": form, "specialization": key})
        assert message["samples"]["total"] == SAMPLES // KERNELS
    made.close()


def kept(recording: Recording) -> None:
    """Make what a saved notebook has of the inspector."""
    made = InspectorWidget(RecordingSource(recording))
    made.static_version()
    made.close()


def painted(recording: Recording) -> list[float]:
    """Return seconds of the clock from navigation to the frame with the column of samples, in Chromium, sorted.

    The page holds the code of all kernels, which a widget is sent when it asks for it.
    """
    from playwright.sync_api import sync_playwright

    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = inspector_page(recording, Path(folder) / "inspector.html")
        engine = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(ROUNDS + 1):
            page = engine.new_page()
            page.goto(path.as_uri(), wait_until="commit")
            found.append(page.evaluate(_PAINTED) / 1e3)
            page.close()
        engine.close()
    return sorted(found[1:])


def timed(figure: Callable[[Recording], Any], recording: Recording) -> list[float]:
    """Return seconds of the processor, sorted, after a first time that is left out; each time nothing is known yet."""
    found: list[float] = []
    for _ in range(ROUNDS + 1):
        fresh = Recording({name: recording.arrow(name) for name in recording.tables}, recording.metadata)
        begin = time.process_time()
        figure(fresh)
        found.append(time.process_time() - begin)
    return sorted(found[1:])


def spread(found: list[float]) -> str:
    """Return the median and the range."""
    return f"{statistics.median(found):.3f} s ({found[0]:.3f} to {found[-1]:.3f})"


if __name__ == "__main__":
    raise SystemExit(main())
