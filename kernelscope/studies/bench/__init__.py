"""The benchmark process of a study: what runs in a target's own interpreter, and times launches there.

It needs Python 3.9, NumPy and the framework, and neither KernelScope nor anything else: old versions can be measured.
A target's interpreter loads this folder as the package ``_kernelscope_bench`` (`kernelscope.studies.process` says how).
So its modules import each other relatively, and nothing of KernelScope's becomes importable beside the target's own.

`main` reads requests, finds numba-cuda or numba-cuda-mlir, and writes answers; `timing` times a case in a loop, and
asks the clock, the processor and the GPU; `breakdown` splits a launch into its parts.
"""
