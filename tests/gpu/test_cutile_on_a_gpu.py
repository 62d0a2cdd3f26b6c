"""cuTile itself on a GPU whose driver allows it: launches, why they compile, and what the GPU did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.analysis.compiles import explain

ct: Any = pytest.importorskip("cuda.tile")
cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


def axpy(x, y, a, N: ct.Constant[int]):  # type: ignore[no-untyped-def]
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(N,)) * a)


def test_launches_compiles_and_the_gpus_side() -> None:
    kernel = ct.kernel(axpy)
    x, y = cupy.arange(1024, dtype="float32"), cupy.zeros(1024, "float32")
    with kernelscope.record(gpu="cupti") as recorder:
        for tile in (16, 16, 32):
            ct.launch(0, (1024 // tile,), kernel, (x, y, 2.0, tile))
        cupy.cuda.Device().synchronize()
    assert np.array_equal(cupy.asnumpy(y), 2 * np.arange(1024, dtype=np.float32))
    recording = recorder.recording
    frameworks = recording.launches["dispatcher_id"].map(recording.dispatchers["framework"])
    launches = recording.launches[frameworks == "cutile"]
    assert launches["cache"].tolist() in (["compiled", "memory", "compiled"], ["disk", "memory", "disk"])
    _first, second = explain(recording).rows("compilations")
    assert second["argument"] == "N" and second["reason_code"] in ("new_constexpr", "disk"), second["reason"]
    kernels = recording.activities[recording.activities["kind"] == "kernel"]
    ours = kernels[kernels["launch_id"].isin(launches.index)]
    assert len(ours) == 3 and (ours["end_ns"] > ours["start_ns"]).all(), kernels[["name", "launch_id"]].to_string()
