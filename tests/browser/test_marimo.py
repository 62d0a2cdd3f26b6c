"""marimo in a real browser: a recorded card above its timeline, and links from the one into the other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import FRAME
from jupyter_pages import ROOT, STARTS_WITHIN_S, free_port

pytestmark = [pytest.mark.browser, pytest.mark.slow]

APP = """
import marimo

app = marimo.App()

@app.cell
def _():
    import kernelscope
    import marimo as mo
    import numpy as np
    from numba import cuda

    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i]

    device = cuda.to_device(np.zeros(64, np.float32))
    with kernelscope.record("steps", stacks=True) as recorder:
        for _step in range(20):
            axpy[2, 32](device, 2.0, device)
    mo.vstack([recorder.recording, kernelscope.timeline(recorder.recording)])
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, which marimo runs for this machine alone."""
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "app.py").write_text(APP, encoding="utf-8")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERNELSCOPE_DRYRUN": "1", "MARIMO_SKIP_UPDATE_CHECK": "1",
                   "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "XDG_CONFIG_HOME": str(folder),
                   "XDG_STATE_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "marimo", "run", "app.py", "--headless", "--no-token", "--host=127.0.0.1",
             f"--port={port}"], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + STARTS_WITHIN_S
            while not _answers(url):
                assert time.monotonic() < until and process.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=60).close()
    except OSError:
        return False
    return True


def test_card_timeline_and_links(chromium: Any, address: str, artifacts: Path) -> None:
    page = chromium.new_page(viewport={"width": 1100, "height": 1000})
    left: list[str] = []
    problems: list[str] = []
    page.route(lambda url: not url.startswith((address, "data:", "blob:")),
               lambda route: (left.append(route.request.url), route.abort()))
    page.on("console", lambda each: problems.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda each: problems.append(str(each)))
    page.goto(address)
    page.wait_for_selector(".ks-painted", timeout=60_000)
    assert "compiling axpy" in page.inner_text(".kscope .ks-verdict")
    kernels = page.locator("details[data-ks-part=kernels]")
    assert not kernels.evaluate("(part) => part.open")
    kernels.locator("summary").click()
    assert kernels.evaluate("(part) => part.open")
    # A name of the card is a link as soon as the timeline is there, which marimo keeps in a tree of its own.
    kernels.locator("[data-ks-at='kernels:0']").click()
    page.evaluate(FRAME)
    assert page.locator(".kst-search").input_value() == "axpy"
    assert page.locator(".kst-count").inner_text() == "21 matches"  # the launches, and the compile
    page.locator("details[data-ks-part=compiles] [data-ks-at^='compiles:']").first.click()
    page.locator(".kst-pin").wait_for(state="visible")
    assert "compile axpy" in page.locator(".kst-pin").inner_text()
    page.locator("details[data-ks-part=call_paths] > summary").click()
    page.locator(".ks-flame[data-ks-live] .ksf-canvas").wait_for()
    page.screenshot(path=f"{artifacts}.png")
    page.close()
    assert (left, problems) == ([], [])
