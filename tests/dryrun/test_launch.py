"""Launches through the driver: their limits as an H100 with driver 580 answered, threads, and what one costs."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("name", "grid", "block", "shared", "error"), [
    ("nothing", (1, 1, 1), (1, 1, 1), 0, "SUCCESS"),
    ("nothing", (0, 1, 1), (1, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 0), (1, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (0, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (1024, 1, 1), 0, "SUCCESS"),
    ("nothing", (1, 1, 1), (1025, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (33, 32, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (1, 1, 65), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (65536, 65536, 1), 0, "INVALID_VALUE"),
    ("nothing", (2147483647, 1, 1), (1, 1, 1), 0, "SUCCESS"),
    ("nothing", (2147483648, 1, 1), (1, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 65536, 1), (1, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 65536), (1, 1, 1), 0, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (1, 1, 1), 48 * 1024, "SUCCESS"),
    ("nothing", (1, 1, 1), (1, 1, 1), 48 * 1024 + 1, "INVALID_VALUE"),
    ("nothing", (1, 1, 1), (1, 1, 1), 4294967295, "INVALID_VALUE"),
])
def test_limits(driver, kernels, counted, name, grid, block, shared, error) -> None:
    assert driver.code("cuLaunchKernel", kernels(name), *grid, *block, shared, 0, 0, 0) == error
    assert counted() == (int(error == "SUCCESS"), 0, 0, 0)


def test_launch_bounds_and_shared_memory(driver, kernels, memory) -> None:
    import ctypes

    bounded, dynamic = kernels("bounded"), kernels("dynamic")
    four = ((memory, 1, 1, 1.0), (ctypes.c_void_p, ctypes.c_char, ctypes.c_short, ctypes.c_double))
    one = ((memory,), (ctypes.c_void_p,))
    for threads, shared, error in (
        (128, 0, "SUCCESS"),
        (129, 0, "INVALID_VALUE"),
        (32, 47 * 1024, "SUCCESS"),
        (32, 48 * 1024, "INVALID_VALUE"),
    ):
        assert driver.code("cuLaunchKernel", bounded, 1, 1, 1, threads, 1, 1, shared, 0, four, 0) == error
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.do("cuFuncGetAttribute", attribute, dynamic) == 49152
    assert driver.code("cuFuncSetAttribute", dynamic, attribute, 232449) == "INVALID_VALUE"
    assert driver.code("cuFuncSetAttribute", bounded, attribute, 232448) == "INVALID_VALUE"
    assert driver.code("cuFuncSetAttribute", dynamic, attribute, -1) == "INVALID_VALUE"
    driver.do("cuFuncSetAttribute", dynamic, attribute, 232448)
    assert driver.do("cuFuncGetAttribute", attribute, dynamic) == 232448
    assert driver.code("cuLaunchKernel", dynamic, 1, 1, 1, 32, 1, 1, 232448, 0, one, 0) == "SUCCESS"
    assert driver.code("cuLaunchKernel", dynamic, 1, 1, 1, 32, 1, 1, 232449, 0, one, 0) == "INVALID_VALUE"


def test_missing_arguments(driver, kernels) -> None:
    assert driver.code("cuLaunchKernel", kernels("axpy"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) == "INVALID_VALUE"


def test_cooperative_launches(driver, kernels) -> None:
    nothing = kernels("nothing")
    assert driver.code("cuLaunchCooperativeKernel", nothing, 10, 1, 1, 32, 1, 1, 0, 0, 0) == "SUCCESS"
    too_large = driver.code("cuLaunchCooperativeKernel", nothing, 1000000, 1, 1, 32, 1, 1, 0, 0, 0)
    assert too_large == "COOPERATIVE_LAUNCH_TOO_LARGE"


@pytest.mark.parametrize(("grid", "cluster", "error"), [
    (4, (2, 1, 1), "SUCCESS"),
    (4, (3, 1, 1), "INVALID_CLUSTER_SIZE"),
    (16, (16, 1, 1), "INVALID_CLUSTER_SIZE"),
    (4, (0, 1, 1), "INVALID_CLUSTER_SIZE"),
])
def test_clusters(driver, kernels, grid: int, cluster: tuple[int, int, int], error: str) -> None:
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dimensions = attribute.value.clusterDim
    dimensions.x, dimensions.y, dimensions.z = cluster
    config.attrs, config.numAttrs = [attribute], 1
    assert driver.code("cuLaunchKernelEx", config, kernels("nothing"), 0, 0) == error


def test_occupancy(driver, kernels) -> None:
    """By the rules of CUDA's occupancy calculator for 9.0: 64 warps, 32 blocks, 228 KiB of shared memory."""
    nothing, dynamic = kernels("nothing"), kernels("dynamic")
    blocks = {
        (threads, shared): driver.do("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)
        for function, threads, shared in (
            (nothing, 32, 0),
            (nothing, 128, 0),
            (nothing, 1024, 0),
            (dynamic, 32, 40000),
            (nothing, 1000, 5000),
        )
    }
    assert blocks == {(32, 0): 32, (128, 0): 16, (1024, 0): 2, (32, 40000): 5, (1000, 5000): 2}
    assert driver.code("cuOccupancyMaxActiveBlocksPerMultiprocessor", nothing, 0, 0) == "INVALID_VALUE"
    grid, block = driver.do("cuOccupancyMaxPotentialBlockSize", nothing, 0, 0, 0)
    assert (grid, block) == (264, 1024)
    assert driver.do("cuOccupancyAvailableDynamicSMemPerBlock", nothing, 2, 128) == 49152
