"""Copies of device memory, which happens in a dry run too."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from kernelscope import dryrun
from kernelscope.errors import GraphError
from kernelscope.graphs.comparison import Snapshot


def address(array) -> int:
    return array.device_ctypes_pointer.value


def test_overlaps_are_copied_once_and_as_they_first_were(cuda) -> None:
    array = cuda.to_device(np.arange(10, dtype=np.uint8))
    start = address(array)
    with Snapshot() as snapshot:
        snapshot.cover(start + 4, 2)
        array.copy_to_device(np.full(10, 9, np.uint8))
        snapshot.cover(start, 10)
        snapshot.cover(start + 3, 5)
        assert snapshot.nbytes == 10
        assert snapshot.read(start, 10).tolist() == [9, 9, 9, 9, 4, 5, 9, 9, 9, 9]
        assert snapshot.read(start + 5, 2).tolist() == [5, 9]
        snapshot.restore()
        assert array.copy_to_host().tolist() == [9, 9, 9, 9, 4, 5, 9, 9, 9, 9]


def test_copies_are_freed(cuda) -> None:
    array = cuda.to_device(np.zeros(1000))

    def held() -> int:
        calls = dryrun.counters().calls
        return calls.get("cuMemAlloc", 0) - calls.get("cuMemFree", 0)

    before = held()
    with Snapshot() as snapshot:
        snapshot.cover(address(array), 8000)
        snapshot.again().free()
        assert held() == before + 1
    assert held() == before


def test_no_room_and_no_memory(cuda) -> None:
    array = cuda.to_device(np.zeros(2))
    with Snapshot() as snapshot:
        with pytest.raises(GraphError, match=r"no room on the device for a copy of .* GiB"):
            snapshot.cover(address(array), 1 << 50)
        with pytest.raises(GraphError, match="cuMemcpyDtoD: CUDA_ERROR"):
            snapshot.cover(8, 16)
        assert snapshot.nbytes == 0


def test_a_capture_that_is_open_is_said(cuda) -> None:
    from cuda.core import Device

    array = cuda.to_device(np.zeros(10, np.uint8))
    device = Device(0)
    device.set_current()
    builder = device.create_graph_builder().begin_building()
    try:
        with Snapshot() as snapshot, pytest.raises(GraphError, match="is in the middle of capturing a graph"):
            snapshot.cover(address(array), 10)
    finally:
        with contextlib.suppress(Exception):  # it is invalid by now
            builder.close()
