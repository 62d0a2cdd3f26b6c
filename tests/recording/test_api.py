"""What functions of the driver and the runtime do, by name: HIP's do what those of CUDA do that they are named for."""

from __future__ import annotations

import pytest

from kernelscope.recording.api import is_function, is_graph_function, kind_of, wait_of

KINDS = {
    "launch": """
        cuLaunchKernel cuLaunchKernelEx cuLaunchKernel_ptsz cuLaunchCooperativeKernel cuLaunchGridAsync
        cuLaunchCooperativeKernelMultiDevice cudaLaunchKernel_v7000 cudaLaunchKernelExC_v11060 cudaLaunch_v3020
        cudaLaunchCooperativeKernel_v9000 cuda.core.launch
        hipLaunchKernel hipLaunchKernel_spt hipLaunchKernelExC hipDrvLaunchKernelEx hipExtLaunchKernel
        hipModuleLaunchKernel hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipLaunchCooperativeKernel
        hipModuleLaunchCooperativeKernel hipLaunchCooperativeKernelMultiDevice hipExtLaunchMultiKernelMultiDevice
        hipLaunchByPtr""",
    "graph launch": "cuGraphLaunch cudaGraphLaunch_v10000 cuGraphLaunch_ptsz hipGraphLaunch hipGraphLaunch_spt",
    "graph": "cudaGraphInstantiate_v12000 cuGraphExecUpdate_v2 hipGraphInstantiateWithFlags hipGraphDestroy",
    "copy": "cuMemcpyHtoDAsync_v2 cudaMemcpyAsync_v3020 hipMemcpyAsync hipMemcpyWithStream hipDrvMemcpy3D "
            "cudaMemPrefetchAsync hipMemPrefetchAsync",
    "memory": "cudaMalloc_v3020 cuMemAlloc_v2 hipMalloc hipMallocAsync hipHostMalloc hipFree "
              "hipExtMallocWithFlags hipHostRegister cuDeviceGraphMemTrim",
    "memset": "cudaMemsetAsync_v3020 cuMemsetD2D32Async hipMemsetAsync",
    "capture": "cudaStreamBeginCapture cuStreamEndCapture hipStreamBeginCapture",
    "wait": "cudaDeviceSynchronize_v3020 cuStreamSynchronize hipDeviceSynchronize hipStreamSynchronize "
            "hipEventSynchronize",
    "call": "cudaLaunchHostFunc_v10000 hipLaunchHostFunc cudaEventRecord_v3020 hipEventRecord hipPointerGetAttribute "
            "hipGetDevicePropertiesR0600 hippo launch Launch_it",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names.split()])
def test_what_a_function_does(kind: str, name: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(("name", "wait"), [
    ("cudaStreamSynchronize_v3020", "stream synchronize"), ("hipStreamSynchronize", "stream synchronize"),
    ("cuEventSynchronize", "event synchronize"), ("hipEventSynchronize", "event synchronize"),
    ("cuCtxSynchronize", "context synchronize"), ("hipDeviceSynchronize", "context synchronize"),
    ("cudaMemcpy", None), ("hipStreamWaitEvent", None)])
def test_what_a_function_waits_for(name: str, wait: str | None) -> None:
    assert wait_of(name) == wait


def test_names_of_functions() -> None:
    assert all(map(is_function, ("cuInit", "cudaMalloc", "hipInit")))
    assert not any(map(is_function, ("cuda.core.launch", "current", "hip launch", "Copy", "")))
    assert is_graph_function("hipGraphLaunch") and not is_graph_function("hipMalloc")
