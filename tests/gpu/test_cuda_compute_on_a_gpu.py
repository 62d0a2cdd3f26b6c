"""cuda.compute on a real GPU: results, one build and one hit, and the kernels of each call."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

import kernelscope

# numba-cuda-mlir, which compiles operators, uses what NumPy 2.5 deprecates.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:The 'generic' unit for NumPy:DeprecationWarning")]
compute = pytest.importorskip("cuda.compute")
cupy = pytest.importorskip("cupy")

from cuda.compute import OpKind  # noqa: E402

HAS_JIT = "numba_cuda_mlir" in sys.modules or __import__("importlib.util").util.find_spec("numba_cuda_mlir") is not None
needs_jit = pytest.mark.skipif(not HAS_JIT, reason="numba-cuda-mlir is not installed: Python operators cannot be built")


@pytest.fixture(autouse=True)
def nothing_is_built() -> None:
    compute.clear_all_caches()


def add(a, b):
    return a + b


def plus(a, b):
    return a + b


def reduce(values: Any, op: Any = OpKind.PLUS, **kwargs: Any) -> float:
    out = cupy.empty(1, values.dtype)
    compute.reduce_into(d_in=values, d_out=out, num_items=values.size, op=op, h_init=np.zeros(1, values.dtype),
                        **kwargs)
    return float(out[0])


def kernels_of(recording: Any, launch_id: int) -> Any:
    activities = recording.activities
    return activities[(activities.kind == "kernel") & (activities.launch_id == launch_id)]


def test_two_calls_are_one_build_and_one_hit_with_their_kernels() -> None:
    values = cupy.arange(1_000_000, dtype=np.float64)
    with kernelscope.record() as r:
        first, second = reduce(values), reduce(values)
    recording = r.recording
    assert first == second == 1_000_000 * 999_999 / 2
    builds = recording.builds
    assert builds.outcome.tolist() == ["miss", "hit"]
    assert builds.compute_capability.tolist() == ["9.0", "9.0"]
    assert builds.launch_id.tolist() == [0, 1]
    assert builds.build_ns[0] > 100_000_000 and builds.build_ns[1] == 0
    assert builds.reason_code[0] == "first_use" and builds.cubin_bytes[0] > 10_000
    launches = recording.launches
    assert len(launches) == 2
    compiled = set(json.loads(builds.attributes[0])["kernels"])
    for launch in launches.itertuples():
        kernels = kernels_of(recording, launch.launch_id)
        assert 1 <= len(kernels) <= 3
        assert set(kernels.entry_name) <= compiled
        assert (kernels.submit_start_ns >= launch.start_ns).all() and (kernels.submit_end_ns <= launch.end_ns).all()
        assert launch.execute_ns == (kernels.end_ns - kernels.start_ns).sum() > 0
    assert recording.dispatchers.set_index("dispatcher_id").name[launches.dispatcher_id[0]] == "reduce_into"
    problems = recording.health[(recording.health.probe == "cuda.compute") & (recording.health.status != "ok")]
    assert problems.empty, problems


def test_what_a_factory_has_built() -> None:
    values = cupy.random.random(100_000, dtype=np.float32)
    out = cupy.empty_like(values)
    stream = cupy.cuda.Stream(non_blocking=True)
    given = {"d_in": values, "d_out": out, "op": OpKind.PLUS, "init_value": np.zeros(1, np.float32)}
    cupy.cuda.Device().synchronize()

    class Wrapped:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, stream.ptr

    with kernelscope.record() as r:
        scan = compute.make_inclusive_scan(**given)
        size = scan(temp_storage=None, num_items=values.size, stream=Wrapped(), **given)
        scan(temp_storage=cupy.empty(size, np.uint8), num_items=values.size, stream=Wrapped(), **given)
        stream.synchronize()
    recording = r.recording
    np.testing.assert_allclose(out.get(), np.cumsum(values.get(), dtype=np.float64), rtol=1e-3)
    assert len(recording.launches) == 1  # asking for the size is none
    assert recording.configurations.stream[recording.launches.configuration_id[0]] == stream.ptr
    assert len(kernels_of(recording, 0)) >= 1


def test_sort_joins_all_its_kernels() -> None:
    keys = cupy.random.randint(0, 1 << 30, 1_000_000, dtype=np.int32)
    out = cupy.empty_like(keys)
    with kernelscope.record() as r:
        compute.radix_sort(d_in_keys=keys, d_out_keys=out, d_in_values=None, d_out_values=None, num_items=keys.size,
                           order=compute.SortOrder.ASCENDING)
    assert (out.get() == np.sort(keys.get())).all()
    kernels = kernels_of(r.recording, 0)
    assert len(kernels) >= 2
    own = r.recording.activities
    assert (own[(own.kind == "kernel")].launch_id == 0).all()


@needs_jit
def test_operators_name_alone_builds_again() -> None:
    values = cupy.ones(1000, np.float32)
    with kernelscope.record() as r:
        assert [reduce(values, add), reduce(values, add), reduce(values, plus)] == [1000.0] * 3
    builds = r.recording.builds
    assert builds.outcome.tolist() == ["miss", "hit", "miss"]
    assert builds.reason_code[2] == "new_operator_name"
    assert builds.nearest_build_id[2] == 0
    assert builds.build_ns[2] > 100_000_000
