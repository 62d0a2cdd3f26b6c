"""`kernelscope.analysis.occupancy`: NVIDIA's rules, and the driver's answers on the dry run."""

from __future__ import annotations

import json

import pytest
from handmade import Script
from many_cubins import CAPABILITIES, cubin

from kernelscope.analysis.occupancy import limited_by, occupancy
from kernelscope.views.inspector.model import inspect_kernels

H100 = {"compute_capability": "9.0", "max_threads_per_multiprocessor": 2048, "max_blocks_per_multiprocessor": 32,
        "registers_per_multiprocessor": 65536, "shared_per_multiprocessor_bytes": 228 * 1024,
        "reserved_shared_bytes": 1024}
T4 = H100 | {"compute_capability": "7.5", "max_threads_per_multiprocessor": 1024, "max_blocks_per_multiprocessor": 16,
             "shared_per_multiprocessor_bytes": 64 * 1024, "reserved_shared_bytes": 0}

# Asks the null driver about cubins whose number of registers and static shared memory are changed in the file.
_ASK = '''
import json, struct, sys
from cuda.bindings import driver
import kernelscope
kernelscope.dryrun.enable_from_environment()

def ok(answer):
    assert not int(answer[0]), answer
    return answer[1] if len(answer) == 2 else answer[1:]

driver.cuInit(0)
asked = json.load(open(sys.argv[1]))
found = []
A = driver.CUdevice_attribute
for number, name in enumerate(asked["capabilities"]):
    device = ok(driver.cuDeviceGet(number))
    def attribute(which):
        return ok(driver.cuDeviceGetAttribute(getattr(A, "CU_DEVICE_ATTRIBUTE_" + which), device))
    limits = {
        "compute_capability": f"{attribute('COMPUTE_CAPABILITY_MAJOR')}.{attribute('COMPUTE_CAPABILITY_MINOR')}",
        "max_threads_per_multiprocessor": attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        "max_blocks_per_multiprocessor": attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        "registers_per_multiprocessor": attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        "shared_per_multiprocessor_bytes": attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        "reserved_shared_bytes": attribute("RESERVED_SHARED_MEMORY_PER_BLOCK")}
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    driver.cuCtxSetCurrent(context)
    code = bytearray.fromhex(asked["cubins"][name])
    at = code.index(bytes([4, 0x2f, 8, 0])) + 8
    rows = []
    for regs in asked["regs"]:
        struct.pack_into("<I", code, at, regs)
        module = ok(driver.cuModuleLoadData(bytes(code)))
        function = ok(driver.cuModuleGetFunction(module, asked["entries"][name].encode()))
        for threads in asked["threads"]:
            for shared in asked["shared"]:
                rows.append((regs, threads, shared, ok(
                    driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared))))
        driver.cuModuleUnload(module)
    found.append((limits, rows))
print(json.dumps(found))
'''


@pytest.mark.slow
def test_the_driver_says_the_same_over_many_shapes(run_python, tmp_path):
    from kernelscope.cubin import read

    names = list(CAPABILITIES)
    code = {name: cubin("shared", name) for name in names}
    question = {
        "capabilities": names, "cubins": {name: code[name].hex() for name in names},
        "entries": {name: read(code[name]).kernels[0].name for name in names},
        "regs": [1, 8, 9, 16, 24, 31, 32, 33, 40, 48, 56, 63, 64, 65, 80, 96, 104, 128, 160, 168, 192, 224, 255],
        "threads": [1, 31, 32, 33, 64, 96, 100, 128, 160, 192, 224, 256, 320, 384, 512, 640, 768, 896, 1000, 1024],
        "shared": [0, 1, 1000, 1023, 2048, 7_000, 8_192, 20_000, 32_768, 47_104, 61_440, 65_536, 98_304, 101_376,
                   165_000, 166_912, 200_000, 230_400, 232_448, 300_000],
    }
    path = tmp_path / "question.json"
    path.write_text(json.dumps(question))
    answers = json.loads(run_python(_ASK, str(path), KERNELSCOPE_DRYRUN_DEVICES=str(len(names)),
                                    KERNELSCOPE_DRYRUN_CC=",".join(names)).stdout)
    compared = 0
    limits_seen = set()
    for limits, rows in answers:
        for regs, threads, shared, active in rows:
            found = occupancy(limits, regs, 2048, threads, shared)
            assert found is not None
            assert found.active_blocks == active, (limits, regs, threads, shared)
            limits_seen.add(found.limited_by)
            compared += 1
    assert compared == 7 * 23 * 20 * 20
    assert {("threads",), ("registers",), ("shared memory",), ("blocks",), ("threads", "registers")} <= limits_seen


@pytest.mark.parametrize(("device", "regs", "static", "threads", "dynamic", "active", "limit"), [
    # By hand, from the tables of the programming guide.
    (H100, 32, 0, 256, 0, 8, ("threads", "registers")),
    (H100, 33, 0, 256, 0, 6, ("registers",)),  # 33 * 32 registers are given out as 1280: 12 warps in each 16384
    (H100, 16, 0, 32, 0, 32, ("blocks",)),
    (H100, 16, 0, 64, 0, 32, ("threads", "blocks")),
    (H100, 32, 48 * 1024, 128, 0, 4, ("shared memory",)),  # 49 KiB with the reserved one, of 228
    (H100, 32, 1024, 128, 226 * 1024, 1, ("shared memory",)),
    (H100, 32, 1024, 128, 227 * 1024, 0, ("shared memory",)),
    (H100, 255, 0, 1024, 0, 0, ("registers",)),
    (T4, 32, 0, 256, 0, 4, ("threads",)),
    (T4, 32, 257, 32, 0, 16, ("blocks",)),
    (T4, 32, 8 * 1024, 64, 1, 7, ("shared memory",)),  # 8 KiB and 256 bytes, of 64 KiB
    (T4, 64, 0, 1024, 0, 1, ("threads", "registers")),
])
def test_known_cases(device, regs, static, threads, dynamic, active, limit):
    found = occupancy(device, regs, static, threads, dynamic)
    assert found is not None
    assert found.active_blocks == active
    assert found.limited_by == limit
    row = {"regs": regs, "static_shared_bytes": static}
    assert limited_by(device, row, active, threads, dynamic) == limit
    # Where the driver says something else, no reason is made up.
    assert limited_by(device, row, active + 1, threads, dynamic) == ()


def test_what_was_not_recorded_gives_no_limit():
    row = {"regs": 32, "static_shared_bytes": 0}
    for name in H100:
        assert occupancy(H100 | {name: None}, 32, 0, 128) is None
        assert limited_by(H100 | {name: None}, row, 16, 128, 0) == ()
    assert occupancy(H100 | {"compute_capability": "new"}, 32, 0, 128) is None
    for name in row:
        assert limited_by(H100, row | {name: None}, 16, 128, 0) == ()


@pytest.mark.parametrize("threads", [0, 1025, -5])
def test_blocks_that_cannot_be_launched(threads):
    found = occupancy(H100, 32, 0, threads)
    assert found is not None
    assert found.active_blocks == 0


def test_the_inspector_shows_it():
    script = Script()
    script.device(**H100)
    script.kernel()
    script.specialization(regs=33, static_shared_bytes=0)
    script.configuration(block=(256,))
    script.configuration(block=(16, 8))
    for configuration in (0, 1):
        script.occupancy(0, configuration, 0.75)  # 8 blocks
        script.launch(configuration=configuration)
    uses = {use.blockdim: use for use in inspect_kernels(script.recording())[0].specializations[0].uses}
    assert uses[256, 1, 1].limited_by == ()  # 6 by the rules
    assert uses[16, 8, 1].limited_by == ()  # 12 by the rules
    script.rows["occupancies"][0]["active_blocks_per_multiprocessor"] = 6
    uses = {use.blockdim: use for use in inspect_kernels(script.recording())[0].specializations[0].uses}
    assert uses[256, 1, 1].limited_by == ("registers",)
