"""cuda.core: why programs are compiled. Launches, graphs and compiles are hooked by `kernelscope.probes.cuda_core`."""

from __future__ import annotations

from kernelscope.registry import Framework

FRAMEWORK = Framework(
    "cuda.core", fixes="kernelscope.frameworks.cuda_core.explain:FIXES", compiles=False,
    packages={"cuda-core": "launches and graphs"},
    remedies={
        "disk_cache": "Program.compile(cache=...) with a FileStreamProgramCache of cuda.core.utils",
        "fewer_launches": "Launch less often with more work, or as a CUDA graph.",
        "capture": "",
        "grids": True, "blocks": True, "threads": True, "thread_idx": True,
        "more_registers": "ProgramOptions(max_register_count=...), smaller blocks",
        "padded_array": ", such as __shared__ float tile[32][33]",
    })
