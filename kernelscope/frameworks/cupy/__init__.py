"""CuPy: compiles of its kernels and of the user's, and hits of its disk cache."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "cupy", module="cupy", probe="kernelscope.frameworks.cupy.hooks:CupyProbe",
    fixes="kernelscope.frameworks.cupy.explain:FIXES", is_seen_by_cupti=True,
    packages=dict.fromkeys(("cupy-cuda13x", "cupy-cuda12x", "cupy"),
                           "compiles and the disk cache with reasons; launches and graphs with CUPTI"),
    remedies={
        "fewer_launches": "Launch less often with more work, or as a CUDA graph (stream.begin_capture).",
        "capture": "stream.begin_capture",
        "pinned_memory": "cupyx.empty_pinned",
        "grids": True, "blocks": True, "threads": True, "thread_idx": True,
        "new_layout": "pass arrays of one layout, as cupy.ascontiguousarray makes them",
        "new_dtype": "pass arrays of one dtype, as .astype(dtype) makes them",
        "new_scalar": "pass numbers of one type, such as numpy.int32(value)",
        "more_registers": "-maxrregcount in options, smaller blocks",
        "padded_array": ", such as __shared__ float tile[32][33]",
    })
