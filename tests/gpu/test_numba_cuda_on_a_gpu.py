"""The same launches on a real GPU, with results checked and the driver's own numbers. KERNELSCOPE_TEST_GPU=1."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kernelscope

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
@pytest.fixture
def axpy():
    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    return axpy


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_results_are_right_and_every_launch_is_a_row(axpy, detail):
    x = cuda.to_device(np.arange(1000, dtype=np.float32))
    out = cuda.to_device(np.zeros(1000, dtype=np.float32))
    with kernelscope.record(detail=detail) as r:
        for _ in range(50):
            axpy[4, 256](out, 2.0, x)
    np.testing.assert_allclose(out.copy_to_host(), np.arange(1000) * 100.0)
    recording = r.recording
    assert len(recording.launches) == 50
    assert not recording.is_dry_run
    assert recording.launches.cache.tolist() == ["compiled"] + ["memory"] * 49
    assert recording.health.errors.isna().all()
    assert recording.cells.synchronized_ns.notna().all()


def test_streams_forall_reduce_and_host_arrays(axpy):
    stream = cuda.stream()
    x = cuda.to_device(np.ones(64, dtype=np.float32))
    host = np.zeros(64, dtype=np.float32)
    total = cuda.reduce(lambda a, b: a + b)
    with kernelscope.record() as r, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba-cuda advises against host arrays, which is the point here
        axpy[1, 64, stream](x, 1.0, x)
        stream.synchronize()
        axpy.forall(64)(x, 1.0, x)
        axpy[1, 64](host, 3.0, x)
        assert total(np.arange(10000.0)) == 49995000.0
    np.testing.assert_allclose(host, 12.0)
    assert len(r.recording.launches) >= 4
    assert int(stream.handle) in r.recording.configurations.stream.tolist()


def test_a_capture_left_open_is_not_broken(axpy):
    """Synchronizing while a stream captures would invalidate the capture: the recorder must not."""
    from cuda.core import Device

    x = cuda.to_device(np.ones(64, dtype=np.float32))
    axpy[1, 64](x, 1.0, x)
    cuda.synchronize()
    builder = Device().create_graph_builder()
    builder.begin_building()
    with kernelscope.record() as r:
        axpy[1, 64, builder.stream](x, 1.0, x)
    builder.end_building()
    graph = builder.complete()
    stream = Device().create_stream()
    graph.launch(stream)
    stream.sync()
    assert x.copy_to_host()[0] == 4.0
    assert len(r.recording.launches) == 1
    assert "capturing" in " ".join(r.recording.health.message)
