"""Kernels that the tests launch, against the real numba-cuda-mlir on the dry run."""

from __future__ import annotations

import os
from types import SimpleNamespace

# Its advice on host arrays would be an error here.
os.environ.setdefault("NUMBA_CUDA_WARN_ON_IMPLICIT_COPY", "0")

import numpy as np
import pytest

import kernelscope

kernelscope.dryrun.enable()  # before the import: numba-cuda-mlir looks for a driver then, and only then

from numba_cuda_mlir import cuda  # noqa: E402


class UsesLaunchConfig:
    """An extension that reads the launch configuration, as libraries do that specialize on it."""

    uses_launch_config = True

    def prepare_args(self, ty, val, **kwargs):
        return ty, val


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

    @cuda.jit(extensions=[UsesLaunchConfig()])
    def sensitive(x):
        x[0] = 1

    return SimpleNamespace(axpy=axpy, noop=noop, sensitive=sensitive)


@pytest.fixture
def kernels() -> SimpleNamespace:
    return make_kernels()


@pytest.fixture
def array():
    return cuda.to_device(np.zeros(64, dtype=np.float32))
