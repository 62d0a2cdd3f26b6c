"""Why an update was refused, as both forms of the driver's call say it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from kernelscope.probes.cuda_core.calls import Call
from kernelscope.probes.cuda_core.graphs import refusal
from kernelscope.probes.sink import CallData

TOPOLOGY_CHANGED = 2


def call(name: str, *words: int) -> tuple[Call, object]:
    params = (ctypes.c_uint64 * len(words))(*words)
    data = CallData(name=name.encode(), params=ctypes.addressof(params))
    return Call(data, name, 5), params


@pytest.mark.parametrize("name", ["cuGraphExecUpdate", "cuGraphExecUpdate_v2"])
def test_a_refusal_names_its_reason_and_node(name: str) -> None:
    node, result = ctypes.c_uint64(77), ctypes.c_int(TOPOLOGY_CHANGED)
    both = (ctypes.c_uint64 * 2)(TOPOLOGY_CHANGED, 77)
    where = (ctypes.addressof(node), ctypes.addressof(result)) if name == "cuGraphExecUpdate" else (
        ctypes.addressof(both),)
    made, params = call(name, 1, 2, *where)
    copy = SimpleNamespace(handles=[5, 77], content=None)
    assert refusal(made, copy) == "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED at node 1"
    del params


def test_a_refusal_that_was_not_asked_for_its_reason() -> None:
    for name in ("cuGraphExecUpdate", "cuGraphExecUpdate_v2"):
        made, params = call(name, 1, 2, 0, 0)
        assert refusal(made, None) == "CU_GRAPH_EXEC_UPDATE_ERROR"
        del params
