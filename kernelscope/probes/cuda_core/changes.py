"""What a call says by its parameters: a node's new contents, a conditional node's bodies, why an update was refused."""

from __future__ import annotations

import ctypes
import struct

from kernelscope.probes.cuda_core.calls import Call
from kernelscope.probes.cuda_core.fingerprint import Node, described
from kernelscope.probes.cuda_core.holding import Held
from kernelscope.probes.cuda_core.walk import (
    CHILD,
    CONDITIONAL,
    COPY_BYTES,
    EVENT_RECORD,
    EVENT_WAIT,
    FILL_BYTES,
    HOST,
    HOST_BYTES,
    KERNEL,
    KERNEL_BYTES,
    MEMCPY,
    MEMSET,
    Walker,
)

#: ``CUgraphNodeParams`` begins with the type; what belongs to it follows, of a copy after its flags and context.
_INSIDE, _COPY_INSIDE = 16, 32
_OLD_KERNEL_BYTES = 56
_REFUSALS = ("", "ERROR", "TOPOLOGY_CHANGED", "NODE_TYPE_CHANGED", "FUNCTION_CHANGED", "PARAMETERS_CHANGED",
             "NOT_SUPPORTED", "UNSUPPORTED_FUNCTION_CHANGE", "ATTRIBUTES_CHANGED")
_MOST_BODIES = 65_536


def changed_node(walker: Walker, api: str, parameters: int) -> Node | None:
    """Return what a node is made by a call; None where that is not known.

    Parameters
    ----------
    walker : Walker
        Who reads parameters.
    api : str
        The function, such as cuGraphExecMemsetNodeSetParams.
    parameters : int
        Its third parameter: the address of the node's parameters, or an event or a definition.
    """
    if not parameters:
        return None
    if api == "cuGraphExecNodeSetParams":
        kind = ctypes.c_int.from_address(parameters).value
        if kind in (CHILD, EVENT_RECORD, EVENT_WAIT):
            return _node(walker, kind, ctypes.c_uint64.from_address(parameters + _INSIDE).value)
        return _node(walker, kind, parameters + (_COPY_INSIDE if kind == MEMCPY else _INSIDE))
    if api == "cuGraphExecKernelNodeSetParams":  # its first version knows no kernels but functions
        return walker.kernel_of(ctypes.string_at(parameters, _OLD_KERNEL_BYTES).ljust(KERNEL_BYTES, b"\0"))
    return _node(walker, _KINDS[api.removesuffix("_v2")], parameters)


_KINDS = {
    "cuGraphExecKernelNodeSetParams": KERNEL, "cuGraphExecMemcpyNodeSetParams": MEMCPY,
    "cuGraphExecMemsetNodeSetParams": MEMSET, "cuGraphExecHostNodeSetParams": HOST,
    "cuGraphExecChildGraphNodeSetParams": CHILD, "cuGraphExecEventRecordNodeSetEvent": EVENT_RECORD,
    "cuGraphExecEventWaitNodeSetEvent": EVENT_WAIT,
}


def conditional_of(parameters: int) -> tuple[int, tuple[int, ...]] | None:
    """Return a conditional node's type and the definitions in it, of ``CUgraphNodeParams``; None for other nodes."""
    if not parameters or ctypes.c_int.from_address(parameters).value != CONDITIONAL:
        return None
    kind, count, bodies = struct.unpack("<iIQ", ctypes.string_at(parameters + _INSIDE + 8, 16))
    if not bodies or count > _MOST_BODIES:
        return kind, ()
    return kind, struct.unpack(f"<{count}Q", ctypes.string_at(bodies, 8 * count))


def refusal(call: Call, held: Held | None) -> str:
    """Return why an update was refused, and at which node of what it was given."""
    information = call.word(2)
    if call.api == "cuGraphExecUpdate":  # the node and the result stand where two pointers point to
        told = call.word(3)
        result = ctypes.c_int.from_address(told).value if told else 1
        node = call.pointed(2) if information else 0
    else:  # CUgraphExecUpdateResultInfo
        result, node = struct.unpack("<i4xQ", ctypes.string_at(information, 16)) if information else (1, 0)
    name = f"CU_GRAPH_EXEC_UPDATE_{_REFUSALS[1]}" if result == 1 else \
        f"CU_GRAPH_EXEC_UPDATE_ERROR_{_REFUSALS[result]}" if 0 < result < len(_REFUSALS) else f"update result {result}"
    if held is None or node not in held.handles:
        return name
    place = held.handles.index(node)
    if held.walked is None:
        return f"{name} at node {place}"
    return f"{name} at node {place}, {described(held.walked.snapshot.nodes[place])}"


def _node(walker: Walker, kind: int, where: int) -> Node | None:
    if kind == KERNEL:
        return walker.kernel_of(ctypes.string_at(where, KERNEL_BYTES))
    if kind == MEMCPY:
        return walker.copy_of(ctypes.string_at(where, COPY_BYTES))
    if kind == MEMSET:
        return walker.fill_of(ctypes.string_at(where, FILL_BYTES))
    if kind == HOST:
        return walker.host_of(ctypes.string_at(where, HOST_BYTES))
    if kind == CHILD:
        walked = walker.walk(where)
        return None if walked is None else Node("child", bodies=(walked.snapshot,))
    if kind in (EVENT_RECORD, EVENT_WAIT):
        name = "event_record" if kind == EVENT_RECORD else "event_wait"
        return Node(name, arguments=where.to_bytes(8, "little"), layout=((0, 8),))
    return None
