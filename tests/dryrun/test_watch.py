"""The null driver tells a listener of graph calls, as CUPTI does, and logs launches of graphs."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

from kernelscope import dryrun

Listener = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LAUNCH = np.dtype([(name, "<i8") for name in ("exec", "stream", "ident", "start", "end", "result")])
_alive = []


class Heard:
    """A listener: each call as name, site, first two parameters, and the result after it."""

    def __init__(self, library) -> None:
        self.library = library
        self.calls: list[tuple] = []
        self.listener = Listener(self.hear)
        _alive.append(self.listener)

    def hear(self, data: int) -> None:
        site = ctypes.c_int.from_address(data).value
        name = ctypes.c_char_p.from_address(data + 8).value.decode()
        params = ctypes.c_uint64.from_address(data + 16).value
        result = ctypes.c_int.from_address(ctypes.c_uint64.from_address(data + 24).value).value
        kept = ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(data + 56).value)
        number = ctypes.c_uint32.from_address(data + 64).value
        if not site:
            kept.value = number
        assert kept.value == number, "what is kept before the call is there after it"
        values = [ctypes.c_uint64.from_address(params + 8 * place).value for place in range(2)]
        self.calls.append((name, site, *values, result))

    def names(self) -> list[str]:
        return [name for name, site, *_ in self.calls if site]


@pytest.fixture
def library():
    path = dryrun.enable().library
    library = ctypes.CDLL(path)
    library.kernelscope_dryrun_watchable.restype = ctypes.c_char_p
    library.kernelscope_dryrun_exec_id.restype = ctypes.c_uint64
    library.kernelscope_dryrun_node_number.restype = ctypes.c_uint64
    library.kernelscope_dryrun_take_launches.restype = ctypes.c_size_t
    return library


@pytest.fixture
def heard(library):
    heard = Heard(library)
    for name in watchable(library):
        assert library.kernelscope_dryrun_watch(name.encode(), 1) == 1
    library.kernelscope_dryrun_listen(heard.listener)
    yield heard
    library.kernelscope_dryrun_listen(None)
    for name in watchable(library):
        library.kernelscope_dryrun_watch(name.encode(), 0)
    take(library)


def watchable(library) -> list[str]:
    names: list[str] = []
    while (name := library.kernelscope_dryrun_watchable(len(names))) is not None:
        names.append(name.decode())
    return names


def take(library) -> np.ndarray:
    count = library.kernelscope_dryrun_take_launches(None, ctypes.c_size_t(0))
    found = np.zeros(count, LAUNCH)
    library.kernelscope_dryrun_take_launches(found.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(count))
    return found


def handle(value) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(value))


def test_before_and_after_with_parameters_and_result(driver, context, heard) -> None:
    graph = driver.do("cuGraphCreate", 0)
    instance = driver.do("cuGraphInstantiate", graph, 0)
    assert heard.names() == ["cuGraphCreate", "cuGraphInstantiateWithFlags"]
    _, site, where, given, result = heard.calls[-1]
    assert (site, given, result) == (1, int(graph), 0)
    assert heard.calls[-2][1:4] == (0, where, given)
    assert where
    driver.do("cuGraphExecDestroy", instance)
    driver.do("cuGraphDestroy", graph)
    assert heard.calls[-1][2] == int(graph)
    assert driver.code("cuGraphDestroy", graph) == "INVALID_VALUE"
    assert heard.calls[-1][4] == 1


def test_launches_are_logged(driver, context, stream, heard, library) -> None:
    graph = driver.do("cuGraphCreate", 0)
    driver.do("cuGraphAddEmptyNode", graph, None, 0)
    instance = driver.do("cuGraphInstantiate", graph, 0)
    before = time.perf_counter_ns()
    for _ in range(3):
        driver.do("cuGraphLaunch", instance, stream)
    after = time.perf_counter_ns()
    id = library.kernelscope_dryrun_exec_id(handle(instance))
    launches = take(library)
    assert id > 0
    assert launches["exec"].tolist() == [id] * 3
    assert launches["stream"].tolist() == [int(stream)] * 3
    assert launches["ident"].tolist() == [threading.get_ident()] * 3
    assert launches["result"].tolist() == [0] * 3
    assert (before <= launches["start"]).all() and (launches["end"] <= after).all()
    assert (launches["start"] <= launches["end"]).all()
    assert len(take(library)) == 0
    driver.do("cuGraphExecDestroy", instance)
    assert driver.code("cuGraphLaunch", instance, stream) == "INVALID_VALUE"
    assert take(library)["exec"].tolist() == [0]
    assert library.kernelscope_dryrun_exec_id(handle(instance)) == 0
    again = driver.do("cuGraphInstantiate", graph, 0)
    assert library.kernelscope_dryrun_exec_id(handle(again)) > id, "ids are not given twice"


def test_a_launch_into_a_capture_is_no_launch(driver, context, make_stream, heard, library) -> None:
    stream, other = make_stream(), make_stream()
    graph = driver.do("cuGraphCreate", 0)
    instance = driver.do("cuGraphInstantiate", graph, 0)
    driver.do("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    driver.do("cuGraphLaunch", instance, stream)
    driver.do("cuGraphLaunch", instance, other)
    driver.do("cuStreamEndCapture", stream)
    assert take(library)["stream"].tolist() == [int(other)]


def test_nodes_have_numbers_in_their_own_graph(driver, context, library) -> None:
    def number(node):
        return library.kernelscope_dryrun_node_number(handle(node)) - 1

    child = driver.do("cuGraphCreate", 0)
    inside = [driver.do("cuGraphAddEmptyNode", child, None, 0) for _ in range(2)]
    graph = driver.do("cuGraphCreate", 0)
    first = driver.do("cuGraphAddEmptyNode", graph, None, 0)
    embedded = driver.do("cuGraphAddChildGraphNode", graph, None, 0, child)
    last = driver.do("cuGraphAddEmptyNode", graph, None, 0)
    assert [number(node) for node in inside] == [0, 1]
    assert [number(node) for node in (first, embedded, last)] == [0, 1, 2]
    body = driver.do("cuGraphChildGraphNodeGetGraph", embedded)
    assert [number(node) for node in driver.api.cuGraphGetNodes(body, 2)[1]] == [0, 1]
    driver.do("cuGraphDestroyNode", first)
    assert number(driver.do("cuGraphAddEmptyNode", graph, None, 0)) == 3, "a number is not given twice"
    assert number(graph) == -1
