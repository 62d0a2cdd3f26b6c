"""Tasks that Dask's workers run in tests; workers import this module by its name."""

from __future__ import annotations

import os
import signal
import time

from numba import cuda

import kernelscope  # noqa: F401  # it switches the dry run on, which the worker's environment asks for


@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a * x[i]


def launch(count, seconds=0.0):
    """Launch `count` times, take a while, and return the worker's pid."""
    x = cuda.device_array(256)
    for _ in range(count):
        axpy[2, 128](x, 2.0, x)
    time.sleep(seconds)
    return os.getpid()


def die(count):
    """Launch `count` times and be killed."""
    launch(count)
    os.kill(os.getpid(), signal.SIGKILL)


class Launcher:
    """An actor that launches."""

    def launch(self, count):
        """Launch `count` times; return the worker's pid."""
        return launch(count)
