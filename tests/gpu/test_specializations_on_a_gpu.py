"""Specializations on a real GPU: the driver's numbers, occupancy, and the code that is loaded."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import kernelscope
from kernelscope import cubin as kernelscope_cubin
from kernelscope.analysis.occupancy import occupancy
from kernelscope.views.inspector.model import inspect_kernels

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
many_cubins = pytest.importorskip("many_cubins")

#: Threads a block and dynamic shared memory; 48 KiB is the most that needs no opt-in.
SHAPES = [(32, 0), (64, 4096), (96, 0), (128, 20_000), (160, 1), (256, 0), (256, 30_000), (512, 0), (1024, 16_384)]


def arguments(name):
    """Device arrays that no thread of one block leaves, and the number of elements to work on."""
    kinds = {"float32": np.float32, "float64": np.float64}
    types = many_cubins.KERNELS[name][1]
    return [cuda.to_device(np.zeros(200_000, kinds[str(kind.dtype)])) if hasattr(kind, "dtype") else 8
            for kind in types]


def shapes(name):
    """Those that can be launched: launch bounds, and static arrays that are indexed by thread, allow fewer threads."""
    most = {"bounded": 128, "shared": 256}.get(name, 1024)
    return [(threads, shared) for threads, shared in SHAPES if threads <= most]


@pytest.mark.parametrize("name", many_cubins.KERNELS)
def test_registers_local_bytes_and_occupancy_are_the_drivers(name):
    kernel, values = many_cubins.dispatcher(name), arguments(name)
    with kernelscope.record(gpu="none") as r:
        for threads, shared in shapes(name):
            kernel[2, threads, 0, shared](*values)
    cuda.synchronize()
    recording = r.recording
    assert recording.health.errors.isna().all()
    compiled = many_cubins.compiled(name)
    row, = recording.rows("specializations")
    assert row["regs"] == compiled.regs_per_thread > 0
    assert row["local_bytes"] == compiled.local_mem_per_thread
    assert row["static_shared_bytes"] == compiled.shared_mem_per_block
    assert row["max_threads"] == compiled.max_threads_per_block
    assert row["const_bytes"] == compiled.const_mem_size
    spilled = (row["spill_store_bytes"], row["spill_load_bytes"])
    if row["local_bytes"] == 0:
        assert spilled == (0, 0)
    elif None not in spilled:  # a CUDA before 12.6 marks no spills
        assert (spilled[0] > 0) == ("spilled" in name)

    function = compiled._codelibrary.get_cufunc()
    specialization, = inspect_kernels(recording)[0].specializations
    uses = {(use.blockdim[0], use.sharedmem_bytes): use for use in specialization.uses}
    assert set(uses) == set(shapes(name))
    most = cuda.get_current_device().MAX_THREADS_PER_MULTIPROCESSOR
    for (threads, shared), use in uses.items():
        active = cuda.current_context().get_active_blocks_per_multiprocessor(function, threads, shared)
        assert use.active_blocks == active
        assert use.occupancy == pytest.approx(min(1.0, active * threads / most))
        assert use.limited_by, (threads, shared, active)


def test_the_rules_of_occupancy_give_the_drivers_blocks():
    """Every kernel over a grid of shapes, without launching them."""
    with kernelscope.record(gpu="none") as r:
        many_cubins.dispatcher("plain")[1, 32](*arguments("plain"))
    device, = r.recording.rows("devices")
    context = cuda.current_context()
    different = []
    for name in many_cubins.KERNELS:
        compiled = many_cubins.compiled(name)
        function = compiled._codelibrary.get_cufunc()
        for threads in (1, 32, 33, 64, 96, 128, 192, 256, 384, 512, 768, 1024):
            for shared in (0, 1, 1023, 2048, 8192, 20_000, 32_768, 46_000):
                found = occupancy(device, compiled.regs_per_thread, compiled.shared_mem_per_block, threads, shared)
                assert found is not None
                driver = context.get_active_blocks_per_multiprocessor(function, threads, shared)
                if found.active_blocks != driver:
                    different.append((name, threads, shared, found, driver))
    assert different == []


@pytest.mark.skipif(kernelscope_cubin.find() is None, reason="needs nvdisasm: pip install nvidia-cuda-nvdisasm")
def test_sass_is_that_of_the_loaded_cubin():
    names = ("plain", "spilled", "with_lines", "shared")
    with kernelscope.record(gpu="none", code=True) as r:
        for name in names:
            many_cubins.dispatcher(name)[1, 32](*arguments(name))
    cuda.synchronize()
    rows = r.recording.rows("code")
    entries = {row["entry_name"]: row["specialization_id"] for row in r.recording.rows("specializations")}
    for name in names:
        compiled = many_cubins.compiled(name)
        library, number = compiled._codelibrary, entries[compiled.entry_name]
        code, = library._cubin_cache.values()
        held = {row["kind"]: row["text"] for row in rows if row["specialization_id"] == number}
        assert list(library._cufunc_cache) == [cuda.get_current_device().id]
        assert base64.b64decode(held["cubin"]) == code.code
        assert held["sass"] == kernelscope_cubin.disassemble(bytes(code.code))
        assert "EXIT" in held["sass"]
        assert held["ptx"] == "\n\n".join(next(iter(library._ptx_cache.values())))
