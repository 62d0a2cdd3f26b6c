"""cuTile: launches, compiles, and its disk cache."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "cutile", module="cuda.tile", probe="kernelscope.frameworks.cutile.hooks:CutileProbe",
    fixes="kernelscope.frameworks.cutile.explain:FIXES",
    packages={"cuda-tile": "launches with grids, compiles and the disk cache with reasons by argument"},
    remedies={
        "fewer_launches": "Launch less often with more work, or as a CUDA graph of its stream.",
        "capture": "",
        "grids": True,
        "new_layout": "pass arrays of one layout",
        "new_dtype": "pass arrays of one dtype",
        "new_scalar": "pass numbers of one type",
        "more_registers": "a smaller tile",
    })
