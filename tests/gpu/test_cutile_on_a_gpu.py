"""cuTile itself on a GPU, where its driver and its assembler allow it: launches, why they compile, and the GPU's side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.analysis.compiles import explain

pytestmark = pytest.mark.gpu


@pytest.fixture
def axpy(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel of this process's own: cuTile keeps what it has compiled in a folder."""
    monkeypatch.setenv("CUDA_TILE_CACHE_DIR", str(tmp_path))
    ct = pytest.importorskip("cuda.tile")

    @ct.kernel
    def axpy(x, y, a, N: ct.Constant[int]):  # type: ignore[no-untyped-def]
        i = ct.bid(0)
        ct.store(y, index=(i,), tile=ct.load(x, index=(i,), shape=(N,)) * a)

    return axpy


def test_launches_compiles_and_the_gpus_side(axpy: Any) -> None:
    import cuda.tile as ct
    cupy = pytest.importorskip("cupy")

    x, y = cupy.arange(1024, dtype="float32"), cupy.zeros(1024, "float32")
    with kernelscope.record(gpu="cupti") as recorder:
        for tile in (16, 16, 32):
            ct.launch(0, (1024 // tile,), axpy, (x, y, 2.0, tile))
        cupy.cuda.Device().synchronize()
    assert np.array_equal(cupy.asnumpy(y), 2 * np.arange(1024, dtype=np.float32))
    recording = recorder.recording
    launches = recording.launches[recording.launches["dispatcher_id"].map(recording.dispatchers["framework"]) == "cutile"]
    assert launches["cache"].tolist() == ["compiled", "memory", "compiled"]
    rows = [each for each in explain(recording).rows("compilations") if each["reason_code"] == "new_constexpr"]
    assert [each["argument"] for each in rows] == ["N"]
    kernels = recording.activities[recording.activities["kind"] == "kernel"]
    ours = kernels[kernels["launch_id"].isin(launches.index)]
    assert len(ours) == 3 and (ours["end_ns"] > ours["start_ns"]).all(), kernels[["name", "launch_id"]].to_string()
