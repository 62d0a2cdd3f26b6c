"""CuTe DSL: compiles of ``cute.compile``."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "cute", module="cutlass", probe="kernelscope.frameworks.cute.hooks:CuteProbe",
    fixes="kernelscope.frameworks.cute.explain:FIXES",
    packages={"nvidia-cutlass-dsl": "compiles of cute.compile with reasons by argument; launches and graphs with "
                                    "CUPTI"},
    remedies={
        "fewer_launches": "Launch less often with more work, or as a CUDA graph of its stream.",
        "capture": "",
        "grids": True, "blocks": True,
        "new_layout": "pass tensors of one layout, or with .mark_layout_dynamic()",
        "new_dtype": "pass tensors of one dtype",
        "new_scalar": "pass numbers of one type, such as cutlass.Int32(value)",
        "more_registers": "a smaller tile",
        "padded_array": "",
    })
