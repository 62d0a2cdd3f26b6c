"""Stream capture, its errors as an H100 with driver 580 answered."""

from __future__ import annotations

import pytest
from together import run_together

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


@pytest.fixture
def capture(driver, context):
    """Begin a capture on a stream; `end` says how it ended and destroys the graph."""

    class Capture:
        def begin(self, stream, mode: int = GLOBAL) -> None:
            driver.do("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode(mode))

        def status(self, stream) -> int:
            return int(driver.do("cuStreamIsCapturing", stream))

        def end(self, stream) -> str:
            error, graph = driver.cuStreamEndCapture(stream)
            if not error:
                driver.do("cuGraphDestroy", graph)
            return error.name.removeprefix("CUDA_").removeprefix("ERROR_")

    return Capture()


def test_what_is_captured_becomes_a_chain(driver, stream, kernels, memory, counted) -> None:
    driver.do("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode(GLOBAL))
    back = bytearray(4)
    driver.do("cuLaunchKernel", kernels("nothing"), 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)
    driver.do("cuMemsetD8Async", memory, 9, 16, stream)
    driver.do("cuMemcpyDtoHAsync", back, memory, 4, stream)
    assert bytes(back) == bytes(4)
    graph = driver.do("cuStreamEndCapture", stream)
    nodes = driver.do("cuGraphGetNodes", graph, driver.do("cuGraphGetNodes", graph, 0)[1])[0]
    assert [driver.do("cuGraphNodeGetType", node).name.split("TYPE_")[1] for node in nodes] == [
        "KERNEL",
        "MEMSET",
        "MEMCPY",
    ]
    assert driver.do("cuGraphGetEdges", graph, 0)[-1] == 2
    assert counted() == (0, 1, 0, 0)
    executable = driver.do("cuGraphInstantiate", graph, 0)
    driver.do("cuGraphLaunch", executable, stream)
    assert bytes(back) == b"\t" * 4
    assert counted() == (0, 0, 1, 1)
    driver.do("cuGraphExecDestroy", executable)
    driver.do("cuGraphDestroy", graph)


def test_beginning_and_ending(driver, capture, stream, make_stream) -> None:
    mode = driver.CUstreamCaptureMode(GLOBAL)
    assert driver.code("cuStreamBeginCapture", driver.CUstream(0), mode) == "STREAM_CAPTURE_UNSUPPORTED"
    assert driver.code("cuStreamEndCapture", stream) == "ILLEGAL_STATE"
    capture.begin(stream)
    assert capture.status(stream) == 1
    assert driver.code("cuStreamBeginCapture", stream, mode) == "ILLEGAL_STATE"
    assert capture.end(stream) == "SUCCESS"
    assert capture.status(stream) == 0


@pytest.mark.parametrize(("mode", "call", "error"), [
    (GLOBAL, ("cuCtxSynchronize",), "STREAM_CAPTURE_UNSUPPORTED"),
    (THREAD_LOCAL, ("cuCtxSynchronize",), "STREAM_CAPTURE_UNSUPPORTED"),
    (RELAXED, ("cuCtxSynchronize",), "STREAM_CAPTURE_UNSUPPORTED"),
    (GLOBAL, ("cuMemAlloc", 8), "STREAM_CAPTURE_UNSUPPORTED"),
    (THREAD_LOCAL, ("cuMemAlloc", 8), "STREAM_CAPTURE_UNSUPPORTED"),
    (RELAXED, ("cuMemAlloc", 8), "SUCCESS"),
    (GLOBAL, ("cuMemHostAlloc", 8, 0), "STREAM_CAPTURE_UNSUPPORTED"),
    (GLOBAL, ("cuMemAllocManaged", 8, 1), "STREAM_CAPTURE_UNSUPPORTED"),
    (GLOBAL, ("cuMemFree", 0), "STREAM_CAPTURE_UNSUPPORTED"),
    (GLOBAL, ("cuStreamCreate", 0), "SUCCESS"),
    (GLOBAL, ("cuEventCreate", 0), "SUCCESS"),
    (GLOBAL, ("cuMemGetInfo",), "SUCCESS"),
])
def test_calls_that_a_capture_forbids(driver, capture, stream, mode, call, error) -> None:
    capture.begin(stream, mode)
    assert driver.code(*call) == error
    assert capture.status(stream) == (1 if error == "SUCCESS" else 2)
    assert capture.end(stream) == ("SUCCESS" if error == "SUCCESS" else "STREAM_CAPTURE_INVALIDATED")


@pytest.mark.parametrize("call", ["cuStreamSynchronize", "cuStreamQuery"])
def test_waiting_for_a_capturing_stream_spoils_the_capture(driver, capture, stream, kernels, call: str) -> None:
    capture.begin(stream)
    assert driver.code(call, stream) == "STREAM_CAPTURE_UNSUPPORTED"
    launch = ("cuLaunchKernel", kernels("nothing"), 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    assert driver.code(*launch) == "STREAM_CAPTURE_INVALIDATED"
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"


def test_a_refused_launch_spoils_the_capture(driver, capture, stream, kernels) -> None:
    capture.begin(stream)
    assert (
        driver.code("cuLaunchKernel", kernels("nothing"), 0, 1, 1, 1, 1, 1, 0, stream, 0, 0)
        == "INVALID_VALUE"
    )
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"


def test_loading_a_module_is_allowed_and_unloading_is_not(driver, capture, stream, compile_kernels) -> None:
    capture.begin(stream)
    module = driver.do("cuModuleLoadData", compile_kernels())
    assert driver.code("cuModuleUnload", module) == "STREAM_CAPTURE_UNSUPPORTED"
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"
    driver.do("cuModuleUnload", module)


def test_events_carry_a_capture_to_another_stream(driver, capture, stream, make_stream, kernels) -> None:
    other, nothing = make_stream(), kernels("nothing")
    event, back = driver.do("cuEventCreate", 0), driver.do("cuEventCreate", 0)

    def launch(on) -> None:
        driver.do("cuLaunchKernel", nothing, 1, 1, 1, 1, 1, 1, 0, on, 0, 0)

    capture.begin(stream)
    launch(stream)
    driver.do("cuEventRecord", event, stream)
    driver.do("cuStreamWaitEvent", other, event, 0)
    assert capture.status(other) == 1
    launch(other)
    assert capture.end(stream) == "STREAM_CAPTURE_UNJOINED"
    assert capture.status(other) == 0

    capture.begin(stream)
    launch(stream)
    driver.do("cuEventRecord", event, stream)
    driver.do("cuStreamWaitEvent", other, event, 0)
    for _ in range(3):
        launch(other)
    launch(stream)
    driver.do("cuEventRecord", back, other)
    driver.do("cuStreamWaitEvent", stream, back, 0)
    launch(stream)
    graph = driver.do("cuStreamEndCapture", stream)
    assert driver.do("cuGraphGetNodes", graph, 0)[1] == 6
    assert driver.do("cuGraphGetEdges", graph, 0)[-1] == 6
    assert driver.do("cuGraphGetRootNodes", graph, 0)[1] == 1
    driver.do("cuGraphDestroy", graph)
    for each in (event, back):
        driver.do("cuEventDestroy", each)


def test_errors_with_events(driver, capture, stream, make_stream) -> None:
    other, event = make_stream(), driver.do("cuEventCreate", 0)
    for call in ("cuEventQuery", "cuEventSynchronize"):
        capture.begin(stream)
        driver.do("cuEventRecord", event, stream)
        assert driver.code(call, event) == "CAPTURED_EVENT"
        assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"
        assert driver.code(call, event) == "SUCCESS"
    driver.do("cuEventRecord", event, other)
    capture.begin(stream)
    assert driver.code("cuStreamWaitEvent", stream, event, 0) == "STREAM_CAPTURE_ISOLATION"
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"
    capture.begin(stream)
    driver.do("cuEventRecord", event, stream)
    assert driver.code("cuStreamWaitEvent", driver.CUstream(0), event, 0) == "STREAM_CAPTURE_IMPLICIT"
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"
    capture.begin(other)
    driver.do("cuEventRecord", event, other)
    capture.begin(stream)
    assert driver.code("cuStreamWaitEvent", stream, event, 0) == "STREAM_CAPTURE_MERGE"
    assert capture.end(stream) == capture.end(other) == "STREAM_CAPTURE_INVALIDATED"
    driver.do("cuEventDestroy", event)


def test_a_joined_stream_cannot_end_it(driver, capture, stream, make_stream) -> None:
    other, event = make_stream(), driver.do("cuEventCreate", 0)
    capture.begin(stream)
    driver.do("cuEventRecord", event, stream)
    driver.do("cuStreamWaitEvent", other, event, 0)
    assert driver.code("cuStreamEndCapture", other) == "STREAM_CAPTURE_UNMATCHED"
    assert capture.end(stream) == "STREAM_CAPTURE_INVALIDATED"
    driver.do("cuEventDestroy", event)


def test_the_legacy_stream_while_a_blocking_stream_is_captured(driver, capture, make_stream, kernels) -> None:
    blocking, nothing = make_stream(0), kernels("nothing")
    capture.begin(blocking)
    assert driver.code("cuStreamIsCapturing", driver.CUstream(0)) == "STREAM_CAPTURE_IMPLICIT"
    assert capture.end(blocking) == "SUCCESS"
    capture.begin(blocking, RELAXED)
    assert driver.code("cuLaunchKernel", nothing, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) == "STREAM_CAPTURE_IMPLICIT"
    assert capture.end(blocking) == "STREAM_CAPTURE_INVALIDATED"


def in_another_thread(driver, context, *call):
    seen = []

    def run() -> None:
        driver.do("cuCtxSetCurrent", context)
        seen.append(driver.code(*call))

    run_together(run)
    return seen[0]


def test_other_threads(driver, context, capture, stream) -> None:
    capture.begin(stream, THREAD_LOCAL)
    assert in_another_thread(driver, context, "cuMemAlloc", 8) == "SUCCESS"
    assert in_another_thread(driver, context, "cuStreamEndCapture", stream) == "STREAM_CAPTURE_WRONG_THREAD"
    assert capture.end(stream) == "SUCCESS"
    capture.begin(stream, GLOBAL)
    assert in_another_thread(driver, context, "cuMemAlloc", 8) == "STREAM_CAPTURE_UNSUPPORTED"
    assert in_another_thread(driver, context, "cuStreamEndCapture", stream) == "STREAM_CAPTURE_INVALIDATED"
    assert capture.end(stream) == "ILLEGAL_STATE"


def test_a_thread_may_relax_its_mode(driver, capture, stream) -> None:
    capture.begin(stream, GLOBAL)
    before = driver.do("cuThreadExchangeStreamCaptureMode", driver.CUstreamCaptureMode(RELAXED))
    driver.do("cuMemFree", driver.do("cuMemAlloc", 8))
    driver.do("cuThreadExchangeStreamCaptureMode", before)
    assert capture.end(stream) == "SUCCESS"


def test_destroying_the_stream_ends_its_capture(driver, capture, context) -> None:
    stream = driver.do("cuStreamCreate", 1)
    capture.begin(stream)
    driver.do("cuStreamDestroy", stream)
    driver.do("cuMemFree", driver.do("cuMemAlloc", 8))


def test_the_graph_cannot_be_destroyed_while_captured_into(driver, stream) -> None:
    graph = driver.do("cuGraphCreate", 0)
    mode = driver.CUstreamCaptureMode(GLOBAL)
    driver.do("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, mode)
    assert driver.code("cuGraphDestroy", graph) == "ILLEGAL_STATE"
    assert int(driver.do("cuStreamEndCapture", stream)) == int(graph)
    driver.do("cuGraphDestroy", graph)


def test_memory_allocated_in_a_capture(driver, stream) -> None:
    driver.do("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode(GLOBAL))
    free = driver.do("cuMemGetInfo")[0]
    pointer = driver.do("cuMemAllocAsync", 64, stream)
    driver.do("cuMemsetD8Async", pointer, 1, 64, stream)
    driver.do("cuMemFreeAsync", pointer, stream)
    graph = driver.do("cuStreamEndCapture", stream)
    executable = driver.do("cuGraphInstantiate", graph, 0)
    for _ in range(2):
        driver.do("cuGraphLaunch", executable, stream)
    assert driver.code("cuGraphClone", graph) == "NOT_SUPPORTED"
    driver.do("cuGraphDestroy", graph)
    driver.do("cuGraphExecDestroy", executable)
    assert driver.do("cuMemGetInfo")[0] == free
