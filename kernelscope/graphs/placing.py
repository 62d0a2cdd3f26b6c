"""Work as nodes of cuda.core's `GraphDefinition`, and its change in a built graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelscope.errors import GraphError
from kernelscope.graphs.kernels import KernelCall
from kernelscope.graphs.libraries import driver
from kernelscope.graphs.nodes import Condition, ConditionalNode, IfNode, Node
from kernelscope.graphs.work import Call, Copy, Fill, Work


@dataclass
class Placed:
    """A node in a definition.

    Attributes
    ----------
    node : Node
        The user's node.
    work : Work
        What it does now.
    core : GraphNode
        cuda.core's node.
    deps : tuple of Node
        What it depended on when it was built.
    inside : bool
        Whether it is in the body of a conditional node.
    handles : dict
        The handles of the conditions that a kernel there may set.
    """

    node: Node
    work: Work
    core: Any
    deps: tuple[Node, ...]
    inside: bool
    handles: dict[Condition, int]


def place(definition: Any, nodes: list[tuple[Node, Work]], conditions: dict[Condition, Any],
          handles: dict[Condition, int], *, inside: bool) -> list[Placed]:
    """Add nodes to a definition, in this order; every dependency comes before what needs it.

    Copies are added by the driver's own call. cuda.core takes host memory that is not pinned for the device's.
    """
    placed: dict[Node, Placed] = {}
    copies = {node: _add_copy(definition, node, work) for node, work in nodes if isinstance(work, Copy)}
    by_handle = {int(core.handle): core for core in definition.nodes()} if copies else {}
    for node, work in nodes:
        deps = tuple(dict.fromkeys(node.deps))
        before = [placed[each].core for each in deps]
        if node in copies:
            core = by_handle[copies[node]]
        else:
            try:
                core = _add(before[0] if before else definition, node, work, conditions)
            except Exception as error:
                raise GraphError(f"{node.label}: CUDA refuses it: {reason(error)}") from error
            before = before[1:]
        if before:
            core.pred.update(*before)
        placed[node] = Placed(node, work, core, deps, inside, handles)
    return list(placed.values())


def change(graph: Any, placed: Placed, work: Work) -> None:
    """Give a node other parameters, in its definition and, where it is not inside a body, in the executable graph.

    Parameters
    ----------
    graph : cuda.core.graph.Graph
        The executable graph.
    placed : Placed
        The node.
    work : Work
        What it shall do, of the same kind.
    """
    if isinstance(work, Copy):
        _change_copy(graph, placed, work)
        return
    for target in (placed.core,) if placed.inside else (placed.core, graph[placed.core]):
        if isinstance(work, Call):
            target.update(work.function)
        elif isinstance(work, KernelCall):
            target.update(config=work.config, kernel=work.kernel, args=tuple(work.packed))
        elif isinstance(work, Fill):
            target.update(dst=work.address, value=work.pattern, width=work.count, height=1, pitch=0)


def _add(start: Any, node: Node, work: Work, conditions: dict[Condition, Any]) -> Any:
    """Add one node behind `start`, a node or the definition itself."""
    if isinstance(work, KernelCall):
        return start.launch(work.config, work.kernel, *work.packed)
    if isinstance(work, Fill):
        return start.memset(work.address, work.pattern, work.count)
    if isinstance(work, Call):
        return start.callback(work.function)
    if isinstance(node, ConditionalNode):
        condition = conditions[node.condition]
        if not isinstance(node, IfNode):
            return start.while_loop(condition)
        return start.if_else(condition) if node.orelse else start.if_then(condition)
    return start.join()


def reason(error: Exception) -> str:
    """Return what an error of cuda.core says, as one line."""
    if isinstance(error, AttributeError):
        return f"this version of cuda-core cannot do it ({error})"
    return " ".join(str(error).split()) or type(error).__name__


def _add_copy(definition: Any, node: Node, work: Copy) -> int:
    """Add a copy without dependencies; return the node's handle."""
    _, context = driver().cuCtxGetCurrent()
    error, added = driver().cuGraphAddMemcpyNode(definition.handle, [], 0, _copy_parameters(work), context)
    _check(error, f"{node.label}: cuGraphAddMemcpyNode")
    return int(added)


def _change_copy(graph: Any, placed: Placed, work: Copy) -> None:
    parameters = _copy_parameters(work)
    _, context = driver().cuCtxGetCurrent()
    _check(driver().cuGraphMemcpyNodeSetParams(placed.core.handle, parameters)[0], "cuGraphMemcpyNodeSetParams")
    if not placed.inside:
        changed = driver().cuGraphExecMemcpyNodeSetParams(graph.handle, placed.core.handle, parameters, context)
        _check(changed[0], "cuGraphExecMemcpyNodeSetParams")


def _copy_parameters(work: Copy) -> Any:
    parameters, kinds = driver().CUDA_MEMCPY3D(), driver().CUmemorytype
    for side, region in (("dst", work.dst), ("src", work.src)):
        kind = kinds.CU_MEMORYTYPE_DEVICE if region.on_device else kinds.CU_MEMORYTYPE_HOST
        setattr(parameters, f"{side}MemoryType", kind)
        setattr(parameters, f"{side}Device" if region.on_device else f"{side}Host", region.address)
    parameters.WidthInBytes, parameters.Height, parameters.Depth = work.nbytes, 1, 1
    return parameters


def _check(error: Any, call: str) -> None:
    if error:
        raise GraphError(f"{call}: {getattr(error, 'name', error)}")
