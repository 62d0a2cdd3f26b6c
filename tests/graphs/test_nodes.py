"""Nodes before they are built: what they hold, in which order they come, and what is refused at once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kernelscope.errors import GraphError
from kernelscope.graphs import (
    Condition,
    EmptyNode,
    HostNode,
    KernelNode,
    MemcpyHtoDNode,
    MemcpyNode,
    WhileNode,
)
from kernelscope.graphs.nodes import in_order


def kernel() -> None:
    pass


def test_a_configuration_is_kept() -> None:
    node = KernelNode[(2, 3), 64, 1024](kernel, [1, 2])
    assert (node.grid, node.block, node.sharedmem, node.args, node.deps) == ((2, 3), 64, 1024, [1, 2], [])
    assert KernelNode[4, 1](kernel).sharedmem == 0


def test_dependencies_are_a_list_of_ones_own() -> None:
    first, second = EmptyNode(), EmptyNode()
    given = [first]
    node = EmptyNode(given)
    node.deps.append(second)
    assert (given, node.deps, EmptyNode(first).deps) == ([first], [first, second], [first])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: KernelNode(kernel, np.zeros(2)),
     r"'kernel': args is <ndarray of float64>, and must be a list of arguments, such as \[<ndarray of float64>\]"),
    (lambda: KernelNode(kernel, 5), r"args is 5, and must be a list .* such as \[5\]"),  # type: ignore[arg-type]
    (lambda: HostNode(kernel, "text"), r"args is 'text', and must be a list of arguments, such as \['text'\]"),
    (lambda: KernelNode(kernel, [], 5), "5 is no node; give a node, or a list of nodes"),  # type: ignore[arg-type]
    (lambda: MemcpyHtoDNode(0, 0, 8, "before"), "'before' is no node; give a node"),  # type: ignore[arg-type]
    (lambda: KernelNode[1], "KernelNode.* got 1: write"),
    (lambda: KernelNode[1, 1, 0, 0], "a node has no stream"),
    (lambda: KernelNode[1, 1, "a stream"], "'a stream', and must be a number of bytes"),
    (lambda: Condition(-1), "default is -1"),
    (lambda: Condition(2**32), "must be from 0 to 4294967295"),
    (lambda: WhileNode(1, EmptyNode()), "WhileNode got 1 as its condition"),  # type: ignore[arg-type]
])
def test_wrong_nodes(make: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_every_node_comes_after_its_dependencies() -> None:
    first = EmptyNode()
    left, right = EmptyNode(first), EmptyNode([first, first])
    last = EmptyNode([left, right])
    assert in_order([last, left]) == [first, left, right, last]
    assert in_order([right, left]) == [first, right, left]


def test_a_long_chain_needs_no_deep_stack() -> None:
    node = EmptyNode()
    for _ in range(sys.getrecursionlimit() * 2):
        node = EmptyNode(node)
    assert in_order([node])[-1] is node


def test_a_cycle_is_named() -> None:
    first = HostNode(kernel)
    second = MemcpyNode(0, 0, first)
    third = EmptyNode(second)
    first.deps.append(third)
    with pytest.raises(GraphError, match="cycle: MemcpyNode, which needs HostNode of 'kernel', which needs EmptyNode, "
                                         "which needs MemcpyNode"):
        in_order([EmptyNode(second)])
    first.deps[:] = [first]
    with pytest.raises(GraphError, match="HostNode of 'kernel', which needs HostNode of 'kernel'$"):
        in_order([third])


def test_what_is_no_node() -> None:
    with pytest.raises(GraphError, match="EmptyNode depends on 7, which is no node"):
        in_order([EmptyNode([7])])  # type: ignore[list-item]
    node = EmptyNode()
    node.deps = node  # type: ignore[assignment]
    with pytest.raises(GraphError, match="EmptyNode: its deps is <EmptyNode>, and must be a list of nodes"):
        in_order([node])


def test_importing_nodes_loads_no_framework() -> None:
    code = ("import sys; from kernelscope.graphs import KernelNode, build; "
            "print(*[name for name in ('numba', 'cuda', 'pandas', 'pyarrow') if name in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True,
                         cwd=str(__import__("pathlib").Path(__file__).resolve().parents[2]), env={"PATH": "/usr/bin"})
    assert run.stdout.split() == []
