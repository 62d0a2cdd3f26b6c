"""Warp: compiles of modules, and its kernel cache."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "warp", module="warp", probe="kernelscope.frameworks.warp.hooks:WarpProbe",
    fixes="kernelscope.frameworks.warp.explain:FIXES", is_seen_by_cupti=True,
    packages={"warp-lang": "compiles of modules and the kernel cache with reasons; launches and graphs with CUPTI"},
    remedies={
        "fewer_launches": "Launch less often with more work, or as a CUDA graph (wp.ScopedCapture).",
        "capture": "wp.ScopedCapture",
        "pinned_memory": 'wp.array(..., device="cpu", pinned=True)',
        "grids": True, "blocks": True, "threads": True,
        "new_layout": "pass arrays of one layout, as .contiguous() makes them",
        "new_dtype": "pass arrays of one dtype",
        "new_scalar": "pass numbers of one type, such as wp.int32(value)",
        "more_registers": "a smaller block_dim",
        "padded_array": "",
    })
