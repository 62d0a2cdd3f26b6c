"""Graphs made by hand, for tests of their pictures and texts."""

from __future__ import annotations

import random
from typing import Any

from handmade import Script

from kernelscope.recording.model import Recording

US = 1_000
HOSTILE = "</script><img src=x onerror=window.hit=1>'\"&\u202e\x1b[31m"


def script(**metadata: Any) -> Script:
    """A recording with a cell, a thread and a device, for graphs to be added."""
    made = Script(**metadata)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.cell()
    made.device()
    return made


def every_kind(launches: int = 20) -> Recording:
    """A graph of 14 nodes: copies, kernels, a while loop, an if with both bodies, a callback; node 2 runs 20 us."""
    made = script(name="every kind")
    named = {name: made.specialization(made.kernel(name)) for name in ("axpy", "scale", "reduce_blocks", "finish")}
    four = made.configuration((4,))
    tiles, many = made.configuration((16, 16), (8, 8)), made.configuration((1024,), (256,))
    graph = made.graph()

    def kernel(name: str, configuration: int, **row: Any) -> int:
        return made.graph_node(graph, "kernel", name, specialization_id=named[name], configuration_id=configuration,
                               **row)

    to_device = made.graph_node(graph, "memcpy", "HtoD", size_bytes=1 << 20)
    clear = made.graph_node(graph, "memset", None, size_bytes=4096)
    axpy, scale = kernel("axpy", four), kernel("scale", tiles)
    loop = made.graph_node(graph, "while", None)
    inside = {"parent_node_id": loop, "body": 0}
    reduce_blocks, finish = kernel("reduce_blocks", many, **inside), kernel("finish", four, **inside)
    choice = made.graph_node(graph, "if", None)
    then = kernel("axpy", four, parent_node_id=choice, body=0)
    other = kernel("scale", four, parent_node_id=choice, body=1)
    nothing = made.graph_node(graph, "empty", None, parent_node_id=choice, body=1)
    event = made.graph_node(graph, "event_record", None)
    to_host = made.graph_node(graph, "memcpy", "DtoH", size_bytes=1 << 20)
    callback = made.graph_node(graph, "host", "print_result")
    for first, after in (
        (to_device, axpy), (clear, scale), (axpy, scale), (axpy, loop), (scale, loop), (scale, choice),
        (loop, to_host), (choice, to_host), (to_host, callback), (reduce_blocks, finish), (other, nothing),
        (axpy, event), (to_device, to_host),
    ):
        made.graph_edge(first, after)
    exec_id = made.graph_event("instantiate", graph)
    for _ in range(launches):
        launch = made.graph_event("launch", graph, exec_id=exec_id)
        for node, lasted in ((to_device, 90), (clear, 3), (axpy, 20), (scale, 55), (reduce_blocks, 40), (finish, 5),
                             (reduce_blocks, 40), (finish, 5), (then, 8), (to_host, 88)):
            made.activity("kernel", "x", lasted * US, graph_event_id=launch, graph_node_id=node)
    return made.recording()


def chain(nodes: int, **metadata: Any) -> Recording:
    """Kernels one after the other, as a capture of one stream makes them."""
    made = script(**metadata)
    specialization = made.specialization(made.kernel("axpy"))
    made.configuration((4,))
    graph = made.graph()
    for number in range(nodes):
        made.graph_node(graph, "kernel", "axpy", specialization_id=specialization, configuration_id=0)
        if number:
            made.graph_edge(number - 1, number)
    return made.recording()


def independent(nodes: int) -> Recording:
    """Kernels of which none waits for another."""
    made = script()
    graph = made.graph()
    for number in range(nodes):
        made.graph_node(graph, "kernel", f"kernel_{number}")
    return made.recording()


def tangle(nodes: int, back: int = 6, seed: int = 1, timed: bool = True) -> Recording:
    """Nodes of several kinds, each waiting for one or two of the last `back` before it."""
    dice = random.Random(seed)
    made = script(name=f"{nodes} nodes")
    for blocks in (1, 4, 64):
        made.configuration((blocks,))
    graph = made.graph()
    names = ("axpy", "matmul_tiled", "reduce_blocks", "softmax_rows", "layer_norm_forward_kernel")
    for _ in range(nodes):
        kind = dice.choice((*["kernel"] * 8, "memcpy", "memset", "host"))
        name = {"kernel": dice.choice(names), "memcpy": "DtoD", "host": "callback"}.get(kind)
        row = {"configuration_id": dice.randrange(3)} if kind == "kernel" else {"size_bytes": 4096}
        made.graph_node(graph, kind, name, **({} if kind == "host" else row))
    edges = {(dice.randint(max(0, node - back), node - 1), node) for node in range(1, nodes) for _ in range(2)}
    for first, then in sorted(edges):
        made.graph_edge(first, then)
    if timed:
        exec_id = made.graph_event("instantiate", graph)
        launch = made.graph_event("launch", graph, exec_id=exec_id)
        for node in range(nodes):
            made.activity("kernel", "x", int(dice.lognormvariate(9, 1)), graph_event_id=launch, graph_node_id=node)
    return made.recording()


def nested(depth: int, width: int = 2) -> Recording:
    """While loops in while loops, with a few kernels in each."""
    made = script()
    graph = made.graph()
    around: dict[str, Any] = {}
    for _ in range(depth):
        kernels = [made.graph_node(graph, "kernel", "step", **around) for _ in range(width)]
        box = made.graph_node(graph, "while", None, **around)
        for first, then in zip(kernels, [*kernels[1:], box], strict=True):
            made.graph_edge(first, then)
        around = {"parent_node_id": box, "body": 0}
    made.graph_node(graph, "kernel", "innermost", **around)
    return made.recording()


def strange() -> Recording:
    """What no driver makes: a cycle, an edge out of a body, a loop, unknown kinds, names that would do harm."""
    made = script(name=HOSTILE)
    graph = made.graph()
    first = made.graph_node(graph, "kernel", HOSTILE)
    second = made.graph_node(graph, "hyperspace", HOSTILE)
    third = made.graph_node(graph, "host", "x" * 10_000)
    box = made.graph_node(graph, "switch", HOSTILE)
    inside = made.graph_node(graph, "kernel", "核函数" * 20, parent_node_id=box, body=7)
    made.graph_node(graph, "other", None)
    for a, b in ((first, second), (second, third), (third, first), (third, box), (second, inside), (first, first)):
        made.graph_edge(a, b)
    return made.recording()
