"""The roofline: how far measured kernels are from what the GPU can do, in operations and in bytes."""

from __future__ import annotations

from kernelscope.registry import Feature

_HERE = __name__

FEATURE = Feature(
    "roofline",
    needs=("metrics",),
    advice=f"{_HERE}.advice:RULES",
    methods={"roofline": f"{_HERE}.view:of_recording"},
    functions={"roofline": f"{_HERE}.view:roofline"},
    commands={"roofline": "show how far measured kernels are from the GPU's roofs"},
    magics={"roofline": "show how far the measured kernels of cells are from the GPU's roofs, of the newest without a "
                        "CELL"},
    verbs=f"{_HERE}.command:VERBS",
    answers=(f"{_HERE}.answer:RooflineAnswer",),
    charts=f"{_HERE}.view:charts",
)
