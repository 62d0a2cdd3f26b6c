from __future__ import annotations

import pytest

from kernelscope.dryrun.switch import CAPABILITIES

# Per multiprocessor: threads, blocks, shared memory; shared memory for a block on request, and reserved. From CUDA's
# own tables ("Technical Specifications per Compute Capability").
LIMITS = {
    (7, 5): (1024, 16, 65536, 65536, 0),
    (8, 0): (2048, 32, 167936, 166912, 1024),
    (8, 6): (1536, 16, 102400, 101376, 1024),
    (8, 9): (1536, 24, 102400, 101376, 1024),
    (9, 0): (2048, 32, 233472, 232448, 1024),
    (10, 0): (2048, 32, 233472, 232448, 1024),
    (12, 0): (1536, 24, 102400, 101376, 1024),
}

DEVICES = """
import kernelscope
from cuda.core import Device
from kernelscope import dryrun
for device in Device.get_all_devices():
    p = device.properties
    print(tuple(device.compute_capability), (p.max_threads_per_multiprocessor, p.max_blocks_per_multiprocessor,
          p.max_shared_memory_per_multiprocessor, p.max_shared_memory_per_block_optin,
          p.reserved_shared_memory_per_block), p.multiprocessor_count > 0, p.cluster_launch, sep=";")
"""


def test_attributes_fit_the_capability(run_python) -> None:
    assert tuple(LIMITS) == CAPABILITIES
    listed = ",".join(f"{major}.{minor}" for major, minor in LIMITS)
    result = run_python(DEVICES, KERNELSCOPE_DRYRUN_DEVICES="7", KERNELSCOPE_DRYRUN_CC=listed)
    rows = [line.split(";") for line in result.stdout.splitlines()]
    assert [(eval(capability), eval(limits)) for capability, limits, _, _ in rows] == list(LIMITS.items())
    assert all(row[2] == "True" for row in rows)
    assert [row[3] for row in rows] == ["False"] * 4 + ["True"] * 3


def test_the_device(driver) -> None:
    assert driver.do("cuDeviceGetName", 64, 0).rstrip(b" \0") == b"KernelScope dry run"
    assert driver.do("cuDeviceTotalMem", 0) == 80 << 30
    assert driver.do("cuDeviceGetUuid", 0).bytes == b"kernelscope\0\0\0\0\1"
    bus = driver.do("cuDeviceGetPCIBusId", 64, 0).split(b"\0")[0]
    assert bus == b"0000:01:00.0"
    assert int(driver.do("cuDeviceGetByPCIBusId", bus)) == 0
    assert int(driver.do("cuDeviceGetByPCIBusId", b"01:00")) == 0
    assert driver.do("cuDeviceComputeCapability", 0) == (9, 0)


@pytest.mark.parametrize(("call", "error"), [
    (("cuDeviceGet", 99), "INVALID_DEVICE"),
    (("cuDeviceGet", -1), "INVALID_DEVICE"),
    (("cuDeviceGetAttribute", 0, 0), "INVALID_VALUE"),
    (("cuDeviceGetAttribute", 5000, 0), "INVALID_VALUE"),
    (("cuDeviceGetAttribute", 1, 9), "INVALID_DEVICE"),
    (("cuDeviceGetName", 0, 0), "INVALID_VALUE"),
    (("cuDeviceGetPCIBusId", 3, 0), "INVALID_VALUE"),
    (("cuDeviceGetByPCIBusId", b"nonsense"), "INVALID_VALUE"),
    (("cuDeviceGetByPCIBusId", b"0000:FF:00.0"), "INVALID_DEVICE"),
    (("cuDeviceCanAccessPeer", 0, 7), "INVALID_DEVICE"),
    (("cuInit", 1), "INVALID_VALUE"),
])
def test_wrong_arguments(driver, call, error: str) -> None:
    assert driver.code(*call) == error


TWO_DEVICES = """
import kernelscope
from numba import cuda
import numpy as np
from cuda.core import Device
assert [(gpu.name, gpu.compute_capability) for gpu in cuda.gpus] == [
    ("KernelScope dry run", (9, 0)), ("KernelScope dry run", (8, 0))]

@cuda.jit
def kernel(a):
    a[0] = 1

for number in (0, 1):
    cuda.select_device(number)
    array = cuda.to_device(np.arange(4.0))
    kernel[1, 1](array)
    cuda.synchronize()
    assert array.copy_to_host().tolist() == [0.0, 1.0, 2.0, 3.0]
    cuda.close()
with cuda.gpus[1]:
    assert cuda.get_current_device().id == 1
first, second = Device(0), Device(1)
assert first.can_access_peer(second) and first.pci_bus_id != second.pci_bus_id and first.uuid != second.uuid
assert (first.arch, second.arch) == ("90", "80")
"""


@pytest.mark.slow
def test_two_devices(run_python) -> None:
    run_python(TWO_DEVICES, KERNELSCOPE_DRYRUN_DEVICES="2", KERNELSCOPE_DRYRUN_CC="9.0,8.0")
