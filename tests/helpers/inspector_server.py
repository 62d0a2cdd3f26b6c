"""A Jupyter server with recordings to inspect, hostile and large ones too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from handmade import Script
from inspected import inspected, many
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


@contextmanager
def inspections(folder: Path) -> Iterator[Server]:
    """A server whose folder has what there is to inspect."""
    started = Server(folder)
    inspected(30).save(started.folder / "inspected.kscope", paths=True)
    hostile().save(started.folder / "hostile.kscope", paths=True)
    many(40, 20).save(started.folder / "many.kscope", paths=True)
    many(300).save(started.folder / "churn.kscope", paths=True)
    inspected(10_000).save(started.folder / "large.kscope", paths=True)
    yield started
    started.close()


def pictures(folders: pytest.TempPathFactory) -> Path:
    """Where screenshots go."""
    folder = Path(os.environ.get("KERNELSCOPE_ARTIFACTS") or folders.mktemp("artifacts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
