"""Graph definitions and executable graphs, their errors as an H100 with driver 580 answered."""

from __future__ import annotations

import ctypes

import pytest
from together import run_together

from kernelscope import dryrun


@pytest.fixture
def graph(driver, context):
    graph = driver.do("cuGraphCreate", 0)
    yield graph
    driver.code("cuGraphDestroy", graph)


@pytest.fixture
def add_kernel(driver, kernels):
    """Add a node of the kernel `nothing` to a graph; `changed` are parameters."""
    nothing = kernels("nothing")

    def add(graph, *after, **changed):
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = nothing
        for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
            setattr(node, name, 1)
        for name, value in changed.items():
            setattr(node, name, value)
        return driver.cuGraphAddKernelNode(graph, list(after), len(after), node)

    return add


def edges(driver, graph) -> int:
    return driver.do("cuGraphGetEdges", graph, 0)[-1]


def nodes(driver, graph) -> int:
    return driver.do("cuGraphGetNodes", graph, 0)[-1]


def test_nodes_and_edges(driver, graph, add_kernel) -> None:
    _, first = add_kernel(graph)
    _, second = add_kernel(graph, first)
    _, third = add_kernel(graph, second)
    assert (nodes(driver, graph), edges(driver, graph)) == (3, 2)
    three = [driver.CUgraphEdgeData()] if takes_edge_data(driver) else []

    def change(name: str, before, after) -> str:
        data = [three] if three else []
        return driver.code(name, graph, [before], [after], *data, 1)

    assert change("cuGraphAddDependencies", first, second) == "INVALID_VALUE"
    assert change("cuGraphAddDependencies", first, first) == "INVALID_VALUE"
    assert change("cuGraphRemoveDependencies", third, first) == "INVALID_VALUE"
    assert change("cuGraphAddDependencies", first, third) == "SUCCESS"
    assert edges(driver, graph) == 3
    assert change("cuGraphAddDependencies", third, first) == "SUCCESS"
    assert driver.code("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"  # a cycle
    assert change("cuGraphRemoveDependencies", third, first) == "SUCCESS"
    driver.do("cuGraphDestroyNode", second)
    assert (nodes(driver, graph), edges(driver, graph)) == (2, 1)
    assert driver.code("cuGraphNodeGetType", second) == "INVALID_VALUE"


def takes_edge_data(driver) -> bool:
    return "edgeData" in (driver.cuGraphAddDependencies.__doc__ or "")


def test_kernel_nodes_are_checked(driver, graph, add_kernel) -> None:
    assert add_kernel(graph, blockDimX=2000)[0].name == "CUDA_ERROR_INVALID_VALUE"
    assert add_kernel(graph, gridDimX=0)[0].name == "CUDA_ERROR_INVALID_VALUE"
    assert add_kernel(graph, func=driver.CUfunction(0))[0].name == "CUDA_ERROR_INVALID_HANDLE"
    assert nodes(driver, graph) == 0
    other = driver.do("cuGraphCreate", 0)
    _, foreign = add_kernel(other)
    assert add_kernel(graph, foreign)[0].name == "CUDA_ERROR_INVALID_VALUE"
    driver.do("cuGraphDestroy", other)
    assert add_kernel(graph, foreign)[0].name == "CUDA_ERROR_INVALID_VALUE"


def test_memory_that_is_gone_at_the_launch(driver, graph, context, stream) -> None:
    pointer = driver.do("cuMemAlloc", 64)
    fill = driver.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.elementSize, fill.width, fill.height = pointer, 1, 64, 1
    driver.do("cuGraphAddMemsetNode", graph, [], 0, fill, context)
    executable = driver.do("cuGraphInstantiate", graph, 0)
    driver.do("cuMemFree", pointer)
    assert driver.code("cuGraphLaunch", executable, stream) == "ILLEGAL_ADDRESS"
    driver.do("cuGraphExecDestroy", executable)


def test_a_clone_has_its_nodes_in_the_order_of_the_original(driver, graph) -> None:
    nodes = [driver.do("cuGraphAddEmptyNode", graph, [], 0) for _ in range(4)]
    driver.do("cuGraphAddDependencies", graph, nodes[1:], nodes[:-1], [driver.CUgraphEdgeData()] * 3, 3)
    clone = driver.do("cuGraphClone", graph)
    copies, _ = driver.do("cuGraphGetNodes", clone, 4)
    assert [int(each) for each in copies] == [int(driver.do("cuGraphNodeFindInClone", each, clone)) for each in nodes]
    driver.do("cuGraphAddEmptyNode", clone, [], 0)
    assert driver.do("cuGraphGetNodes", clone, 9)[1] == 5
    driver.do("cuGraphDestroy", clone)


def test_a_kernel_outlives_its_module_in_a_graph(driver, graph, context, stream, compile_kernels) -> None:
    module = driver.do("cuModuleLoadData", compile_kernels())
    node = driver.CUDA_KERNEL_NODE_PARAMS()
    node.func = driver.do("cuModuleGetFunction", module, b"nothing")
    for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
        setattr(node, name, 1)
    driver.do("cuGraphAddKernelNode", graph, [], 0, node)
    driver.do("cuModuleUnload", module)
    executable = driver.do("cuGraphInstantiate", graph, 0)
    driver.do("cuGraphLaunch", executable, stream)
    driver.do("cuGraphExecDestroy", executable)


def update(executable, graph) -> tuple[int, int]:
    """Return the error and the result, which cuda.bindings drops when there is an error."""
    library = ctypes.CDLL(dryrun.status().library)
    info = (ctypes.c_uint64 * 3)()
    error = library.cuGraphExecUpdate_v2(ctypes.c_void_p(int(executable)), ctypes.c_void_p(int(graph)), info)
    return error, info[0] & 0xFFFFFFFF


@pytest.mark.parametrize(("change", "result"), [
    ("nothing", 0),
    ("one more", 2),
    ("another type", 2),
    ("other edges", 2),
    ("another type, same edges", 3),
])
def test_updates(driver, graph, add_kernel, change: str, result: int) -> None:
    first = add_kernel(graph)[1]
    second = add_kernel(graph, first)[1]
    add_kernel(graph, second)
    executable = driver.do("cuGraphInstantiate", graph, 0)
    other = driver.do("cuGraphCreate", 0)
    first = add_kernel(other)[1]
    second = add_kernel(other, first)[1]
    if change == "another type, same edges":
        driver.do("cuGraphAddEmptyNode", other, [second], 1)
    elif change == "another type":
        driver.do("cuGraphAddEmptyNode", other, [first], 1)
    else:
        add_kernel(other, first if change == "other edges" else second, gridDimX=5)
    if change == "one more":
        add_kernel(other)
    assert update(executable, other) == (0 if result == 0 else 910, result)
    driver.do("cuGraphExecDestroy", executable)
    driver.do("cuGraphDestroy", other)


def test_child_graphs_are_clones(driver, graph, add_kernel, stream, counted) -> None:
    child = driver.do("cuGraphCreate", 0)
    add_kernel(child)
    node = driver.do("cuGraphAddChildGraphNode", graph, [], 0, child)
    add_kernel(child)
    inside = driver.do("cuGraphChildGraphNodeGetGraph", node)
    assert int(inside) != int(child) and nodes(driver, inside) == 1
    assert driver.code("cuGraphDestroy", inside) == "INVALID_VALUE"
    assert driver.code("cuGraphAddChildGraphNode", graph, [], 0, graph) == "INVALID_VALUE"
    assert driver.code("cuGraphAddChildGraphNode", inside, [], 0, graph) == "INVALID_VALUE"
    executable = driver.do("cuGraphInstantiate", graph, 0)
    driver.do("cuGraphLaunch", executable, stream)
    assert counted() == (0, 0, 1, 1)
    driver.do("cuGraphExecDestroy", executable)
    driver.do("cuGraphDestroy", child)


def test_a_conditional_handle_serves_one_node(driver, graph, context) -> None:
    handle = driver.do("cuGraphConditionalHandleCreate", graph, context, 1, 1)
    node = driver.CUgraphNodeParams()
    node.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    node.conditional.handle = handle
    node.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    node.conditional.size, node.conditional.ctx = 2, context
    data = [None] if takes_edge_data(driver) else []

    def add() -> str:
        return driver.code("cuGraphAddNode", graph, None, *data, 0, node)

    assert add() == "INVALID_VALUE"
    node.conditional.size = 1
    assert add() == "SUCCESS"
    assert add() == "INVALID_VALUE"


def test_a_drawing(driver, graph, add_kernel, tmp_path) -> None:
    add_kernel(graph, add_kernel(graph)[1])
    path = tmp_path / "graph.dot"
    driver.do("cuGraphDebugDotPrint", graph, str(path).encode(), 0)
    text = path.read_text()
    assert text.startswith("digraph dot {") and text.count("KERNEL\\nnothing") == 2 and text.count("->") == 1
    nowhere = str(tmp_path / "no" / "folder.dot").encode()
    assert driver.code("cuGraphDebugDotPrint", graph, nowhere, 0) == "OPERATING_SYSTEM"


def test_a_graph_may_be_destroyed_by_another_thread_while_it_runs(driver, graph, context, stream) -> None:
    executables = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def destroy_meanwhile(argument) -> None:
        run_together(lambda: driver.do("cuGraphExecDestroy", executables[0]))

    host = driver.CUDA_HOST_NODE_PARAMS()
    host.fn = ctypes.cast(destroy_meanwhile, ctypes.c_void_p).value
    first = driver.do("cuGraphAddHostNode", graph, [], 0, host)
    driver.do("cuGraphAddEmptyNode", graph, [first], 1)
    executables.append(driver.do("cuGraphInstantiate", graph, 0))
    driver.do("cuGraphLaunch", executables[0], stream)
    assert driver.code("cuGraphExecDestroy", executables[0]) == "INVALID_VALUE"
