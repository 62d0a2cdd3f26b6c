"""CUDA graphs of numba kernels, and what a cell's launches would cost as a graph.

Nodes are made first, are bound to no graph, and may be changed until they are built::

    from kernelscope.graphs import KernelNode, MemcpyHtoDNode

    upload = MemcpyHtoDNode(on_device, on_host, on_host.nbytes)
    work = KernelNode[4, 128](kernel, [on_device, 2.0], [upload])
    with work.build() as graph:
        graph.launch()

`whatif` and `from_recording` run launches eagerly and as a graph, and compare time and results. Importing this package
imports neither numba nor CUDA.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kernelscope.graphs.nodes import (
    BuiltGraph,
    Condition,
    EmptyNode,
    HostNode,
    IfNode,
    KernelNode,
    MemcpyDtoHNode,
    MemcpyHtoDNode,
    MemcpyNode,
    MemsetNode,
    Node,
    WhileNode,
    build,
)

if TYPE_CHECKING:
    from kernelscope.graphs.comparison import Comparison as Comparison
    from kernelscope.graphs.comparison import Timing as Timing
    from kernelscope.graphs.comparison import Unequal as Unequal
    from kernelscope.graphs.comparison import WhatIf as WhatIf
    from kernelscope.graphs.comparison import from_recording as from_recording
    from kernelscope.graphs.comparison import whatif as whatif
    from kernelscope.graphs.device_side import set_condition as set_condition

# What-ifs import the recorder and its tables, the last one numba.
_HOMES = {
    "Comparison": "kernelscope.graphs.comparison",
    "Timing": "kernelscope.graphs.comparison",
    "Unequal": "kernelscope.graphs.comparison",
    "WhatIf": "kernelscope.graphs.comparison",
    "from_recording": "kernelscope.graphs.comparison",
    "whatif": "kernelscope.graphs.comparison",
    "set_condition": "kernelscope.graphs.device_side",
}

__all__ = [
    "BuiltGraph", "Comparison", "Condition", "EmptyNode", "HostNode", "IfNode", "KernelNode",
    "MemcpyDtoHNode", "MemcpyHtoDNode", "MemcpyNode", "MemsetNode", "Node", "Timing", "Unequal", "WhatIf", "WhileNode",
    "build", "from_recording", "set_condition", "whatif",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelscope.graphs' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
