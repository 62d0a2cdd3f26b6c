"""numba-cuda on the null driver, as far as no other test of numba-cuda shows it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def enabled(context):
    """Numba uses the primary context, as the tests of the driver do."""


def test_arrays_go_there_and_back() -> None:
    from numba import cuda

    host = np.random.default_rng(0).random((20, 50))
    there = cuda.to_device(host)
    copied = cuda.device_array_like(there)
    copied.copy_to_device(there)
    assert (copied.copy_to_host() == host).all()
    assert (there[3:5, 10].copy_to_host() == host[3:5, 10]).all()
    pinned = cuda.pinned_array(10)
    pinned[:] = 3
    assert cuda.to_device(pinned, stream=cuda.stream()).copy_to_host().sum() == 30
    managed, mapped = cuda.managed_array(10), cuda.mapped_array(4)
    managed[:], mapped[:] = 1, 2
    assert managed.sum() == 10 and mapped.sum() == 8
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total


def test_cooperative_grids(counted) -> None:
    from numba import cuda

    @cuda.jit
    def whole(a):
        cuda.cg.this_grid().sync()
        a[0] = 1

    array = cuda.device_array(4)
    whole[4, 32](array)
    with pytest.raises(ValueError, match=r"exceeds the limit \(4224\)"):  # what the driver's occupancy allows
        whole[1000000, 32](array)
    assert counted()[0] == 1
