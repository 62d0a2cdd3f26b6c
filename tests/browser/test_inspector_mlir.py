"""MLIR in the inspector: a tab where a compiler goes through it, highlighted, and tied to the source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from handmade import MS, Script
from inspected import FIRST_LINE, SOURCE
from inspector_pages import Inspector
from jupyter_pages import Opened, Server

from kernelscope.recording.model import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MLIR = f"""// MLIR that the Python function was lowered to
#loc = loc("/home/u/k.py":{FIRST_LINE}:0)
module {{
  gpu.module @numba_cuda_mlir_gpu_module [#nvvm.target<O = 3, chip = "sm_90">] {{
    gpu.func @scale(%arg0: memref<?xf32, strided<[?], offset: ?>> loc(#loc)) kernel {{
      %thread_id_x = gpu.thread_id x loc(#loc1)
      %0 = arith.index_cast %thread_id_x : index to i32 loc(#loc1)
      cf.cond_br %6, ^bb1, ^bb2 loc(#loc2)
    ^bb1:  // pred: ^bb0
      %11 = memref.load %arg0[%10] : memref<?xf32, strided<[?], offset: ?>> loc(#loc3)
      %12 = arith.mulf %11, %cst : f32 loc(#loc3)
      gpu.return loc(#loc3)
    }} loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("/home/u/k.py":{FIRST_LINE + 2}:0)
#loc2 = loc("/home/u/k.py":{FIRST_LINE + 3}:0)
#loc3 = loc("/home/u/k.py":{FIRST_LINE + 4}:0)
// -----
// MLIR after its passes, in the dialects llvm and nvvm
module {{
  llvm.func @scale(%arg0: !llvm.ptr) {{
    %1 = nvvm.read.ptx.sreg.tid.x : i32
    llvm.return
  }}
}}
"""


def recorded() -> Recording:
    """Two kernels: one of numba-cuda-mlir with two specializations, one of numba-cuda."""
    made = Script(name="mlir", code=True)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.cell(execution_count=1)
    scale = made.kernel("demo.scale", framework="numba-cuda-mlir", lineno=FIRST_LINE, arguments="out, x",
                        filename="/home/u/k.py")
    made._add("code", None, {"dispatcher_id": scale, "kind": "source", "text": SOURCE, "lineno": FIRST_LINE})
    configuration = made.configuration((4,), (128,))
    for dtype in ("float32", "float64"):
        row = made.specialization(scale, f"(array({dtype}, 1d, C), array(float32, 1d, C))", compute_capability="9.0")
        made.compilation(scale, 50 * MS, specialization_id=row, cell_id=0, reason_code="first_use", reason="first use")
        made.launch(scale, specialization=row, configuration=configuration)
        made._add("code", None, {"dispatcher_id": scale, "specialization_id": row, "kind": "mlir",
                                 "text": MLIR.replace("f32", "f64") if dtype == "float64" else MLIR})
    plain = made.kernel("demo.plain", lineno=40)
    row = made.specialization(plain, "(int64,)")
    made._add("code", None, {"dispatcher_id": plain, "specialization_id": row, "kind": "ptx", "text": "ret;"})
    return made.recording()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("jupyter"))
    recorded().save(started.folder / "mlir.kscope", paths=True)
    yield started
    started.close()


@pytest.fixture(scope="module", params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def shown(chromium: Any, server: Server, theme: str) -> Iterator[Inspector]:
    server.write("mlir", "import kernelscope\nkernelscope.inspect('mlir.kscope')")
    opened = Opened(chromium, server, "lab", "mlir", dark=theme == "dark")
    if theme == "dark":
        opened.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
        opened.page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    opened.run()
    yield Inspector(opened.page)
    assert opened.errors == []
    opened.close()


def tabs(shown: Inspector) -> list[str]:
    return shown.find(".ksi-tab").all_inner_texts()


def test_mlir_has_a_tab_where_there_is_some(shown: Inspector) -> None:
    shown.choose("scale")
    assert tabs(shown) == ["Source", "Types", "MLIR", "LLVM", "PTX", "SASS", "Passes", "Launches", "Cache"]
    shown.tab("mlir")
    shown.choose("plain")
    assert tabs(shown) == ["Source", "Types", "LLVM", "PTX", "SASS", "Passes", "Launches", "Cache"]
    assert shown.current == "Source"


def test_mlir_is_highlighted_and_tied_to_the_source(shown: Inspector, theme: str, tmp_path: Path) -> None:
    shown.choose("scale")
    shown.tab("mlir")
    line = shown.line(10)
    assert line.locator(".ksc-memory").inner_text() == "memref.load"
    assert line.locator(".ksc-register").all_inner_texts() == ["%11", "%arg0", "%10"]
    assert "memref" in line.locator(".ksc-type").all_inner_texts()
    assert shown.line(6).locator(".ksc-special").first.inner_text() == "gpu.thread_id"
    assert shown.line(11).locator(".ksc-arithmetic").inner_text() == "arith.mulf"
    assert shown.line(8).locator(".ksc-control").inner_text() == "cf.cond_br"
    assert shown.line(1).locator(".ksc-comment").count() == 1
    shown.line(FIRST_LINE + 4, at=0).click()  # the source, beside it
    shown.settle()
    assert shown.marked(-1) == [10, 11, 12]
    folder = Path(os.environ.get("KERNELSCOPE_ARTIFACTS") or tmp_path)
    shown.page.screenshot(path=folder / f"inspector_mlir_{theme}.png")


def test_two_specializations_mlir_side_by_side(shown: Inspector) -> None:
    shown.choose("scale")
    shown.compare(1, 2)
    assert "MLIR" in tabs(shown)
    shown.tab("mlir")
    shown.page.wait_for_selector(".ksc-row")
    assert "memref" in shown.panel.inner_text()
