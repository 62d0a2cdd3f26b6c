"""Kernels that the probe's tests launch, against the real numba-cuda on the dry run."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import standin_compute
import toy_quadrants
from launched_kernels import make_kernels
from numba import cuda
from numba.cuda import launchconfig
from numba.cuda.core.rewrites import Rewrite, register_rewrite


@register_rewrite("after-inference")
class LaunchConfigReader(Rewrite):
    """Marks kernels called ``sensitive...`` as launch-config sensitive, as libraries do that specialize on it."""

    def __init__(self, state):
        super().__init__(state)
        self._block = None

    def match(self, func_ir, block, typemap, calltypes):
        if self._block is not None or not func_ir.func_id.func_name.startswith("sensitive"):
            return False
        self._block = block
        return True

    def apply(self):
        launchconfig.ensure_current_launch_config().dispatcher.mark_launch_config_sensitive()
        return self._block


@pytest.fixture
def kernels() -> SimpleNamespace:
    return make_kernels()


@pytest.fixture
def array():
    return cuda.to_device(np.zeros(64, dtype=np.float32))


@pytest.fixture
def qd(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = toy_quadrants.make()
    toy_quadrants.install(package, monkeypatch)
    return package


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.1" if name == "cuda-cccl" else version(name))
    with standin_compute.compute() as package:
        yield package
