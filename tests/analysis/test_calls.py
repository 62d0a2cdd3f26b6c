"""What a call of the CUDA driver or runtime is, by its name."""

from __future__ import annotations

import pytest
from handmade import US, Script

from kernelscope.analysis.activities import busy, memsets
from kernelscope.analysis.calls import call_state
from kernelscope.analysis.wall_time import wall_times
from kernelscope.views.card.model import Overview
from kernelscope.views.card.text import summary

#: What an allocator, a copy or a fill is in the headers of CUDA 13, by what is behind the prefix.
CALLS = {
    "memset": "cuMemsetD8_v2 cuMemsetD16Async cuMemsetD32 cuMemsetD2D8 cuMemsetD2D32Async_ptsz cudaMemset "
              "cudaMemsetAsync_v3020 cudaMemset2D cudaMemset3DAsync hipMemsetAsync",
    "copy": "cuMemcpy cuMemcpyHtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyPeer cuMemcpy3DBatchAsync cuMemcpyBatchAsync "
            "cudaMemcpy cudaMemcpyAsync_v3020 cudaMemcpyToSymbol cudaMemcpy2DToArrayAsync cudaMemcpyPeerAsync "
            "cuMemPrefetchAsync_v2 cudaMemPrefetchAsync cuMemDiscardAndPrefetchBatchAsync hipMemcpyWithStream",
    "memory": "cuMemAlloc_v2 cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAllocHost_v2 cuMemAllocManaged "
              "cuMemAllocPitch cuMemFree_v2 cuMemFreeAsync cuMemFreeHost cuMemHostAlloc cuMemHostRegister_v2 "
              "cuMemHostUnregister cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo cuMemCreate cuMemMap cuMemUnmap "
              "cuMemRelease cuMemAddressReserve cuMemAddressFree cuMemSetAccess cuMemAdvise_v2 cuMemDiscardBatchAsync "
              "cuArrayCreate_v2 cuArray3DCreate cuArrayDestroy cuMipmappedArrayCreate cuDeviceGraphMemTrim cudaMalloc "
              "cudaMalloc_v3020 cudaMallocAsync_v11020 cudaMallocManaged cudaMallocHost cudaMalloc3DArray cudaFree "
              "cudaFreeAsync cudaFreeHost_v3020 cudaFreeArray cudaHostAlloc_v3020 cudaHostRegister cudaHostUnregister "
              "cudaMemAdvise cudaMemPoolTrimTo hipHostMalloc hipFree",
    "graph": "cuGraphLaunch cudaGraphLaunch_v10000 cuGraphInstantiateWithParams cuGraphAddMemsetNode "
             "cuGraphMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphAddMemAllocNode "
             "cuGraphMemFreeNodeGetParams "
             "cudaStreamBeginCapture cuStreamEndCapture hipGraphLaunch",
    "wait": "cuCtxSynchronize cuStreamSynchronize cuEventSynchronize cudaDeviceSynchronize_v3020 cudaStreamSynchronize "
            "cudaEventSynchronize hipDeviceSynchronize",
    # What asks for something, and what is none of these.
    "call": "cudaMemGetInfo cuMemGetInfo_v2 cuMemGetAddressRange cuMemHostGetDevicePointer cuMemHostGetFlags "
            "cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemRangeGetAttribute cuPointerGetAttributes "
            "cuDeviceGetMemPool cuDeviceGetGraphMemAttribute cudaDeviceSetMemPool cuMemGetAllocationGranularity "
            "cuStreamBatchMemOp cuStreamWaitEvent cuStreamAttachMemAsync cuIpcOpenMemHandle cuGraphicsMapResources "
            "cuModuleLoadData cuLibraryLoadData cuLaunchKernel cudaLaunchKernel_v7000 cuOccupancyMaxPotentialBlockSize "
            "cuFuncSetSharedMemConfig something_of_a_later_cuda",
}


@pytest.mark.parametrize(("name", "state"), [(name, state) for state, names in CALLS.items() for name in names.split()])
def test_each_function_is_what_it_does(name: str, state: str) -> None:
    assert call_state(name) == state


def filled() -> Script:
    made = Script()
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.cell(wall_ns=1_000 * US)
    made.device()
    for at in range(3):
        begun = made.now + at * 100 * US
        made.activity("memset", "memset", 20 * US, api="cudaMemsetAsync_v3020", start_ns=begun + 40 * US,
                      submit_start_ns=begun, submit_end_ns=begun + 10 * US, size_bytes=1 << 20)
    made.activity("memcpy", "HtoD", 50 * US, api="cudaMemcpyAsync_v3020", start_ns=made.now + 500 * US,
                  submit_start_ns=made.now + 400 * US, submit_end_ns=made.now + 405 * US, size_bytes=4096)
    return made


def test_memsets_are_no_allocations_and_no_copies() -> None:
    recording = filled().recording()
    parts = wall_times(recording)[0].parts
    assert (parts["memset"], parts["memory"], parts["copy"]) == (30 * US, 0, 5 * US)
    found, = busy(recording)
    assert (found.busy_ns, found.kernel_ns, found.memset_ns) == (110 * US, 0, 60 * US)
    each, = memsets(recording)
    assert (each.memsets, each.size_bytes, each.memset_ns) == (3, 3 << 20, 60 * US)
    text = summary(recording)
    assert "filling memory" in text and "allocating" not in text and "3 memsets, 3.0 MiB filled in 60.0 µs" in text
    assert "memset 60.0 µs" in text and "copy 50.0 µs" in text


def test_a_recording_of_memsets_alone_is_not_empty() -> None:
    made = Script()
    made.cell()
    made.activity("memset", "memset", api="cuMemsetD8_v2")
    assert not Overview(made.recording()).is_empty
