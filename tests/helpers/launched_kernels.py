"""Kernels of numba-cuda that tests launch."""

from __future__ import annotations

from types import SimpleNamespace

from numba import cuda


def make_kernels() -> SimpleNamespace:
    """Fresh dispatchers, so that every test starts with nothing compiled."""

    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    @cuda.jit
    def noop():
        pass

    @cuda.jit
    def sensitive(x):
        x[0] = 1

    return SimpleNamespace(axpy=axpy, noop=noop, sensitive=sensitive)
