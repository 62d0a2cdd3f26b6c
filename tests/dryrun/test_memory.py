from __future__ import annotations

import ctypes

import pytest

MANY = 1 << 50


def test_copies_and_fills_are_real(driver, memory, stream) -> None:
    data = bytes(range(256))
    back = bytearray(256)
    driver.do("cuMemcpyHtoD", memory, data, 256)
    driver.do("cuMemcpyDtoD", memory + 1024, memory, 256)
    driver.do("cuMemcpyDtoH", back, memory + 1024, 256)
    assert bytes(back) == data
    driver.do("cuMemsetD8Async", memory, 7, 4, stream)
    driver.do("cuMemsetD16", memory + 4, 0x0102, 2)
    driver.do("cuMemsetD32", memory + 8, 0x01020304, 1)
    driver.do("cuMemcpyDtoHAsync", back, memory, 12, stream)
    assert bytes(back[:12]) == b"\7" * 4 + b"\2\1" * 2 + b"\4\3\2\1"


def test_new_memory_is_zero_and_aligned(driver, context) -> None:
    pointer = driver.do("cuMemAlloc", 1000)
    back = bytearray(b"x" * 1000)
    driver.do("cuMemcpyDtoH", back, pointer, 1000)
    assert back == bytes(1000)
    assert int(pointer) % 512 == 0
    base, size = driver.do("cuMemGetAddressRange", int(pointer) + 999)
    assert (int(base), size) == (int(pointer), 1000)
    driver.do("cuMemFree", pointer)
    assert driver.code("cuMemFree", pointer) == "INVALID_VALUE"


def test_the_account_of_memory(driver, context) -> None:
    free, total = driver.do("cuMemGetInfo")
    pointer = driver.do("cuMemAlloc", 1 << 30)
    assert driver.do("cuMemGetInfo") == (free - (1 << 30), total)
    driver.do("cuMemFree", pointer)
    assert driver.do("cuMemGetInfo") == (free, total)
    assert driver.code("cuMemAlloc", total + 1) == "OUT_OF_MEMORY"


@pytest.mark.parametrize(("call", "error"), [
    (lambda p, h: ("cuMemAlloc", 0), "INVALID_VALUE"),
    (lambda p, h: ("cuMemAlloc", MANY), "OUT_OF_MEMORY"),
    (lambda p, h: ("cuMemFree", p + 4), "INVALID_VALUE"),
    (lambda p, h: ("cuMemFree", 12345), "INVALID_VALUE"),
    (lambda p, h: ("cuMemFree", 0), "SUCCESS"),
    (lambda p, h: ("cuMemcpyHtoD", 12345, h, 4), "INVALID_VALUE"),
    (lambda p, h: ("cuMemcpyHtoD", p, h, MANY), "INVALID_VALUE"),
    (lambda p, h: ("cuMemcpyHtoD", p + 4090, h, 8), "INVALID_VALUE"),
    (lambda p, h: ("cuMemcpyDtoH", h, 0, 4), "INVALID_VALUE"),
    (lambda p, h: ("cuMemcpyDtoH", h, 12345, 0), "SUCCESS"),
    (lambda p, h: ("cuMemcpyDtoD", p, p + 4092, 8), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD8", p, 1, 4097), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD32", p + 1, 1, 1), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD16", p + 1, 1, 1), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD32", p, 1, MANY), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD2D8", p, 16, 1, 8, 4), "SUCCESS"),
    (lambda p, h: ("cuMemsetD2D8", p, 4, 1, 8, 4), "INVALID_VALUE"),
    (lambda p, h: ("cuMemsetD2D8", p, MANY, 1, 8, MANY), "INVALID_VALUE"),
    (lambda p, h: ("cuMemAllocPitch", 100, 10, 3), "INVALID_VALUE"),
    (lambda p, h: ("cuMemAllocPitch", MANY, MANY, 4), "OUT_OF_MEMORY"),
    (lambda p, h: ("cuMemAllocManaged", 100, 0), "INVALID_VALUE"),
    (lambda p, h: ("cuMemGetAddressRange", 12345), "NOT_FOUND"),
    (lambda p, h: ("cuMemFreeHost", p), "INVALID_VALUE"),
    (lambda p, h: ("cuMemHostUnregister", p), "HOST_MEMORY_NOT_REGISTERED"),
    (lambda p, h: ("cuMemHostGetFlags", 12345), "INVALID_VALUE"),
])
def test_wrong_ranges_and_arguments(driver, memory, call, error: str) -> None:
    host = bytearray(64)
    assert driver.code(*call(memory, host)) == error


def test_page_locked_memory(driver, context) -> None:
    pointer = driver.do("cuMemHostAlloc", 100, 0)
    address = int(pointer)
    assert int(driver.do("cuMemHostGetDevicePointer", pointer, 0)) == address
    assert driver.do("cuMemHostGetFlags", pointer) == 2  # mapped, always
    ctypes.memset(address, 5, 100)
    back = bytearray(4)
    driver.do("cuMemcpyDtoH", back, address, 4)
    assert back == b"\5" * 4
    assert driver.code("cuMemFree", address) == "INVALID_VALUE"
    driver.do("cuMemFreeHost", pointer)


def test_registered_memory(driver, context) -> None:
    buffer = ctypes.create_string_buffer(8192)
    address = ctypes.addressof(buffer)
    driver.do("cuMemHostRegister", address, 8192, 0)
    assert driver.code("cuMemHostRegister", address, 8192, 0) == "HOST_MEMORY_ALREADY_REGISTERED"
    driver.do("cuMemsetD8", address, 9, 8192)
    driver.do("cuMemHostUnregister", address)
    assert buffer.raw == b"\t" * 8192
    assert driver.code("cuMemcpyHtoD", address, b"1234", 4) == "INVALID_VALUE"


def test_what_is_known_about_a_pointer(driver, memory, context) -> None:
    kind = driver.CUpointer_attribute
    assert int(driver.do("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 8)) == 2
    assert int(driver.do("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + 8)) == 4096
    assert int(driver.do("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory + 8)) == 0
    assert int(driver.do("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_CONTEXT, memory)) == int(context)
    assert driver.code("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 12345) == "INVALID_VALUE"
    managed = driver.do("cuMemAllocManaged", 64, 1)
    assert driver.do("cuPointerGetAttribute", kind.CU_POINTER_ATTRIBUTE_IS_MANAGED, managed)
    driver.do("cuMemFree", managed)
    asked = [kind.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kind.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL]
    assert [int(value) for value in driver.do("cuPointerGetAttributes", 2, asked, memory)] == [2, 0]
    assert [int(value) for value in driver.do("cuPointerGetAttributes", 2, asked, 12345)] == [0, -2]


def test_boxes_are_copied_row_by_row(driver, memory, context) -> None:
    source = bytes(range(64))
    driver.do("cuMemcpyHtoD", memory, source, 64)
    target = bytearray(64)
    copy = driver.CUDA_MEMCPY3D()
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch, copy.srcHeight = (
        driver.CUmemorytype.CU_MEMORYTYPE_DEVICE,
        memory,
        8,
        4,
    )
    host = (ctypes.c_char * 64).from_buffer(target)
    copy.dstMemoryType, copy.dstHost = driver.CUmemorytype.CU_MEMORYTYPE_HOST, ctypes.addressof(host)
    copy.dstPitch, copy.dstHeight = 4, 2
    copy.srcXInBytes, copy.srcY, copy.srcZ = 2, 1, 1
    copy.WidthInBytes, copy.Height, copy.Depth = 3, 2, 1
    driver.do("cuMemcpy3D", copy)
    first = 1 * 32 + 1 * 8 + 2
    assert target[:3] == source[first : first + 3]
    assert target[4:7] == source[first + 8 : first + 11]
    assert target[3] == 0 and not any(target[7:])
    copy.Depth = 1 << 60
    assert driver.code("cuMemcpy3D", copy) == "INVALID_VALUE"
    copy.Depth, copy.srcMemoryType = 1, driver.CUmemorytype.CU_MEMORYTYPE_ARRAY
    assert driver.code("cuMemcpy3D", copy) == "NOT_SUPPORTED"


def test_pools(driver, stream) -> None:
    default = driver.do("cuDeviceGetDefaultMemPool", 0)
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    pool = driver.do("cuMemPoolCreate", properties)
    used = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    high = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_HIGH
    pointer = driver.do("cuMemAllocFromPoolAsync", 100, pool, stream)
    assert int(driver.do("cuMemPoolGetAttribute", pool, used)) == 100
    driver.do("cuMemFreeAsync", pointer, stream)
    assert int(driver.do("cuMemPoolGetAttribute", pool, used)) == 0
    assert int(driver.do("cuMemPoolGetAttribute", pool, high)) == 100
    driver.do("cuMemPoolSetAttribute", pool, high, driver.cuuint64_t(0))
    assert int(driver.do("cuMemPoolGetAttribute", pool, high)) == 0
    driver.do("cuDeviceSetMemPool", 0, pool)
    last = driver.do("cuMemAllocAsync", 64, stream)
    driver.do("cuMemPoolDestroy", pool)
    assert int(driver.do("cuDeviceGetMemPool", 0)) == int(default)
    driver.do("cuMemFreeAsync", last, stream)
    assert driver.code("cuMemPoolDestroy", default) == "INVALID_VALUE"
    assert driver.code("cuMemAllocFromPoolAsync", 100, pool, stream) == "INVALID_VALUE"
    assert driver.code("cuMemFreeAsync", 12345, stream) == "INVALID_VALUE"
    properties.location.id = 99
    assert driver.code("cuMemPoolCreate", properties) == "INVALID_VALUE"


def test_memory_resources_of_cuda_core(driver, context) -> None:
    from cuda.core import (
        Device,
        DeviceMemoryResource,
        DeviceMemoryResourceOptions,
        LegacyPinnedMemoryResource,
        PinnedMemoryResource,
    )

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    resources = [
        (DeviceMemoryResource(device), False),
        (DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20)), False),
        (LegacyPinnedMemoryResource(), True),
    ]
    if driver.do("cuDriverGetVersion") >= 13000:
        resources.append((PinnedMemoryResource(), True))
    for resource, on_host in resources:
        buffer = resource.allocate(100, stream=stream)
        assert (buffer.size, buffer.is_device_accessible, buffer.is_host_accessible) == (100, True, on_host)
        buffer.close()
    first, second = device.allocate(64, stream=stream), device.allocate(64, stream=stream)
    first.fill(b"\7", stream=stream)
    first.copy_to(second, stream=stream)
    back = bytearray(64)
    driver.do("cuMemcpyDtoH", back, int(second.handle), 64)
    assert back == b"\7" * 64
    stream.close()
