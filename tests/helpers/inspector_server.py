"""A Jupyter server with recordings to look at, hostile and large ones too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawn_graphs import every_kind, nested
from handmade import Script
from inspected import FIRST_LINE, SOURCE, inspected, many
from jupyter_pages import Server

HOSTILE = "</script><img src=x onerror=window.hit=1><svg onload=window.hit=1>\u202e"

KERNELS = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import kernelscope
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

@cuda.jit
def other(out):
    out[0] = 1

single, double = (cuda.to_device(np.zeros(64, dtype)) for dtype in (np.float32, np.float64))
axpy[2, 32](single, 2.0, single)
"""


def hostile() -> Any:
    made = Script(name=HOSTILE, code=True)
    made._add("threads", "thread_id", {"ident": 1, "name": HOSTILE})
    made.cell(name=HOSTILE)
    for _ in range(2):
        kernel = made.kernel(HOSTILE, module=HOSTILE, filename=HOSTILE, arguments=f"{HOSTILE}, y",
                             options=f'{{"{HOSTILE.replace(chr(34), "")}": 1}}')
        made._add("code", None, {"dispatcher_id": kernel, "kind": "source", "text": HOSTILE, "lineno": 1})
        for signature in (HOSTILE, "(int64, int64)"):
            row = made.specialization(kernel, signature, compute_capability=HOSTILE)
            made.compilation(kernel, specialization_id=row, cell_id=0, reason=HOSTILE, reason_code="new_type",
                             fix=HOSTILE, cache_file=HOSTILE, cache_key=HOSTILE)
            made._add("passes", None, {"compilation_id": 0, "specialization_id": row, "kind": "pass", "name": HOSTILE,
                                       "duration_ns": 5})
            for kind in ("ptx", "sass", "llvm"):
                made._add("code", None, {"dispatcher_id": kernel, "specialization_id": row, "kind": kind,
                                         "text": f"{HOSTILE}\n{HOSTILE}"})
    return made.recording()


MLIR = f"""// MLIR that the Python function was lowered to
#loc = loc("/home/u/k.py":{FIRST_LINE}:0)
module {{
    gpu.func @scale(%arg0: memref<?xf32, strided<[?], offset: ?>> loc(#loc)) kernel {{
      %thread_id_x = gpu.thread_id x loc(#loc)
      cf.cond_br %6, ^bb1, ^bb2 loc(#loc)
      %11 = memref.load %arg0[%10] : memref<?xf32, strided<[?], offset: ?>> loc(#loc3)
      %12 = arith.mulf %11, %cst : f32 loc(#loc3)
    }} loc(#loc)
}} loc(#loc)
#loc3 = loc("/home/u/k.py":{FIRST_LINE + 4}:0)
"""


def with_mlir() -> Any:
    """Two kernels: one with MLIR of both of its specializations, one without."""
    made = Script(name="mlir", code=True)
    scale = made.kernel("demo.scale", framework="numba-cuda-mlir", lineno=FIRST_LINE, filename="/home/u/k.py")
    made._add("code", None, {"dispatcher_id": scale, "kind": "source", "text": SOURCE, "lineno": FIRST_LINE})
    for bits in ("32", "64"):
        row = made.specialization(scale, f"(array(float{bits}, 1d, C),)")
        made._add("code", None, {"dispatcher_id": scale, "specialization_id": row, "kind": "mlir",
                                 "text": MLIR.replace("f32", f"f{bits}")})
    row = made.specialization(made.kernel("demo.plain"), "(int64,)")
    made._add("code", None, {"dispatcher_id": 1, "specialization_id": row, "kind": "ptx", "text": "ret;"})
    return made.recording()


@contextmanager
def inspections(folder: Path) -> Iterator[Server]:
    """A server whose folder has what there is to inspect."""
    started = Server(folder)
    inspected(30).save(started.folder / "inspected.kscope", paths=True)
    hostile().save(started.folder / "hostile.kscope", paths=True)
    many(40, 20).save(started.folder / "many.kscope", paths=True)
    many(300).save(started.folder / "churn.kscope", paths=True)
    inspected(10_000).save(started.folder / "large.kscope", paths=True)
    with_mlir().save(started.folder / "mlir.kscope", paths=True)
    every_kind().save(started.folder / "kinds.kscope")
    nested(20, 4).save(started.folder / "nested.kscope")
    yield started
    started.close()
