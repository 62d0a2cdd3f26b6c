"""PyTorch's operators: which of them launched each kernel, and what that cost (``--torch-ops``)."""

from __future__ import annotations

from kernelscope.registry import CardSection, Feature

_HERE = __name__

FEATURE = Feature(
    "operators",
    options=f"{_HERE}.options:OperatorsOptions",
    probes=f"{_HERE}.record:probes",
    reporters=("torch.operators",),
    joins=f"{_HERE}.build:join_operators",
    methods={"by_operator": f"{_HERE}.analyse:by_operator"},
    card=CardSection(60, ("operators",), f"{_HERE}.card:section", f"{_HERE}.card:member", f"{_HERE}.card:Member",
                     kernel_note=f"{_HERE}.card:kernel_note"),
)
