"""GPU tests of frameworks that are not installed here are not collected; on a GPU they say what is missing."""

from __future__ import annotations

import os

_FRAMEWORKS = ("cuda_compute", "cutile", "numba_cuda_mlir", "quadrants", "torch")

collect_ignore = [] if os.environ.get("KERNELSCOPE_TEST_GPU") == "1" else [
    f"test_{name}_on_a_gpu.py" for name in _FRAMEWORKS]
