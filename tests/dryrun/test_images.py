"""Reading kernels from cubins and PTX, whole, damaged and hostile."""

from __future__ import annotations

import ctypes
import mmap
import random
import re
import struct

import pytest

ATTRIBUTES = (
    "MAX_THREADS_PER_BLOCK",
    "SHARED_SIZE_BYTES",
    "CONST_SIZE_BYTES",
    "LOCAL_SIZE_BYTES",
    "NUM_REGS",
)


def attributes(driver, function) -> dict[str, int]:
    kinds = driver.CUfunction_attribute
    return {
        name: driver.do("cuFuncGetAttribute", getattr(kinds, f"CU_FUNC_ATTRIBUTE_{name}"), function)
        for name in ATTRIBUTES
    }


def parameters(driver, function) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while driver.code("cuFuncGetParamInfo", function, len(found)) == "SUCCESS":
        found.append(driver.do("cuFuncGetParamInfo", function, len(found)))
    return found


def test_a_cubin(driver, kernels) -> None:
    axpy, bounded, dynamic = kernels("axpy"), kernels("bounded"), kernels("dynamic")
    assert parameters(driver, axpy) == [(0, 4), (8, 8), (16, 8), (24, 4)]
    assert parameters(driver, bounded) == [(0, 8), (8, 1), (10, 2), (16, 8)]
    assert parameters(driver, kernels("nothing")) == []
    assert attributes(driver, bounded) | {"NUM_REGS": 0} == {
        "MAX_THREADS_PER_BLOCK": 128,
        "SHARED_SIZE_BYTES": 1024,
        "CONST_SIZE_BYTES": 400,
        "LOCAL_SIZE_BYTES": 0,
        "NUM_REGS": 0,
    }
    assert attributes(driver, dynamic)["SHARED_SIZE_BYTES"] == 0
    assert attributes(driver, axpy)["MAX_THREADS_PER_BLOCK"] == 1024
    assert 4 <= attributes(driver, axpy)["NUM_REGS"] <= 32
    assert driver.do("cuFuncGetName", axpy) == b"axpy"


def test_a_kernel_that_is_not_in_it(driver, context, compile_kernels) -> None:
    module = driver.do("cuModuleLoadData", compile_kernels())
    assert driver.code("cuModuleGetFunction", module, b"absent") == "NOT_FOUND"
    assert driver.code("cuModuleGetFunction", module, b"") == "INVALID_VALUE"
    function = driver.do("cuModuleGetFunction", module, b"axpy")
    driver.do("cuModuleUnload", module)
    assert driver.code("cuModuleGetFunction", module, b"axpy") == "INVALID_HANDLE"
    assert driver.code("cuFuncGetName", function) == "INVALID_HANDLE"


def test_global_variables(driver, context, compile_kernels) -> None:
    free = driver.do("cuMemGetInfo")[0]
    module = driver.do("cuModuleLoadData", compile_kernels())
    pointer, size = driver.do("cuModuleGetGlobal", module, b"numbers")
    back = bytearray(12)
    driver.do("cuMemcpyDtoH", back, pointer, size)
    assert struct.unpack("3f", back) == (1.0, 2.0, 3.0)
    assert driver.do("cuModuleGetGlobal", module, b"table")[1] == 400
    assert driver.do("cuModuleGetGlobal", module, b"counter")[1] == 4
    assert driver.code("cuModuleGetGlobal", module, b"absent") == "NOT_FOUND"
    driver.do("cuModuleUnload", module)
    assert driver.do("cuMemGetInfo")[0] == free


def test_a_library(driver, context, compile_kernels) -> None:
    library = driver.do("cuLibraryLoadData", compile_kernels(), [], [], 0, [], [], 0)
    assert driver.do("cuLibraryGetKernelCount", library) == 4
    kernel = driver.do("cuLibraryGetKernel", library, b"axpy")
    assert driver.do("cuKernelGetName", kernel) == b"axpy"
    registers = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    assert driver.do("cuKernelGetAttribute", registers, kernel, 0) > 0
    assert int(driver.do("cuKernelGetLibrary", kernel)) == int(library)
    driver.do("cuKernelGetFunction", kernel)
    driver.do("cuLibraryUnload", library)
    assert driver.code("cuLibraryUnload", library) == "INVALID_HANDLE"


@pytest.mark.parametrize("capability", [75, 80, 100, 120])
def test_a_cubin_of_another_capability(driver, context, compile_kernels, capability: int) -> None:
    image = compile_kernels(capability=capability)
    assert driver.code("cuModuleLoadData", image) == "NO_BINARY_FOR_GPU"
    library = driver.do("cuLibraryLoadData", image, [], [], 0, [], [], 0)
    assert driver.code("cuLibraryGetKernel", library, b"axpy") == "NO_BINARY_FOR_GPU"
    driver.do("cuLibraryUnload", library)


def test_ptx(driver, context, compile_kernels) -> None:
    module = driver.do("cuModuleLoadData", compile_kernels("ptx"))
    axpy, bounded = (driver.do("cuModuleGetFunction", module, name) for name in (b"axpy", b"bounded"))
    assert parameters(driver, axpy) == [(0, 4), (8, 8), (16, 8), (24, 4)]
    assert parameters(driver, bounded) == [(0, 8), (8, 1), (10, 2), (16, 8)]
    found = attributes(driver, bounded)
    assert (found["MAX_THREADS_PER_BLOCK"], found["SHARED_SIZE_BYTES"]) == (128, 1024)
    driver.do("cuModuleUnload", module)
    assert driver.code("cuModuleLoadData", compile_kernels("ptx", 100)) == "INVALID_PTX"


HAND_WRITTEN = """
// .entry in_a_comment ()
.version 8.0 /* .entry in_another ( */
.target sm_90a, debug
.address_size 64
.visible .global .align 8 .v2 .f32 pairs[3][2] = {1, 2};
.global .u32 hidden;
.file 1 ".entry in_a_string("
.visible .func (.param .b32 result) helper (.param .b64 pointer) { .shared .b8 unseen[4096]; ret; }
.visible .entry first (
    .param .align 16 .b8 record[20],
    .param .u64 .ptr .global .align 1 pointer,
    .param .f16 half
) .maxntid 16, 4 .minnctapersm 2
{
    .reg .pred p; .shared .align 4 .b8 a[100]; { .shared .f64 b; } ld.shared.f32 f, [a];
}
.entry second () { }
"""


def test_what_is_read_in_ptx(driver, context) -> None:
    module = driver.do("cuModuleLoadData", HAND_WRITTEN.encode())
    first = driver.do("cuModuleGetFunction", module, b"first")
    assert parameters(driver, first) == [(0, 20), (24, 8), (32, 2)]
    found = attributes(driver, first)
    assert (found["MAX_THREADS_PER_BLOCK"], found["SHARED_SIZE_BYTES"]) == (64, 108)
    assert parameters(driver, driver.do("cuModuleGetFunction", module, b"second")) == []
    assert driver.do("cuModuleGetGlobal", module, b"pairs")[1] == 48
    for name in (b"in_a_comment", b"in_another", b"in_a_string", b"helper"):
        assert driver.code("cuModuleGetFunction", module, name) == "NOT_FOUND"
    assert driver.code("cuModuleGetGlobal", module, b"hidden") == "NOT_FOUND"
    driver.do("cuModuleUnload", module)


def test_a_fat_binary_is_not_read_and_has_every_name(driver, context) -> None:
    module = driver.do("cuModuleLoadData", b"\x50\xed\x55\xba" + bytes(60))
    function = driver.do("cuModuleGetFunction", module, b"anything")
    assert driver.code("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0) == "SUCCESS"
    driver.do("cuModuleUnload", module)


def test_files(driver, context, compile_kernels, tmp_path) -> None:
    for kind in ("cubin", "ptx"):
        path = tmp_path / f"kernels.{kind}"
        path.write_bytes(compile_kernels(kind).rstrip(b"\0") if kind == "ptx" else compile_kernels(kind))
        module = driver.do("cuModuleLoad", str(path).encode())
        driver.do("cuModuleGetFunction", module, b"axpy")
        driver.do("cuModuleUnload", module)
    (tmp_path / "cut.cubin").write_bytes(compile_kernels()[:3000])
    assert driver.code("cuModuleLoad", str(tmp_path / "cut.cubin").encode()) == "INVALID_IMAGE"
    assert driver.code("cuModuleLoad", str(tmp_path / "absent").encode()) == "FILE_NOT_FOUND"
    assert driver.code("cuModuleLoad", str(tmp_path).encode()) == "FILE_NOT_FOUND"


@pytest.mark.parametrize(
    "image", [b"", b"no image", b"\x7fELF", b"\x7fELF" + bytes(100), b".target sm_90\n.version 8.0"]
)
def test_what_is_no_image(driver, context, image: bytes) -> None:
    assert driver.code("cuModuleLoadData", image + bytes(8)) == "INVALID_IMAGE"


class AtTheEdge:
    """Bytes that end where mapped memory ends, so that reading one more would be a crash."""

    def __init__(self) -> None:
        self.pages = mmap.mmap(-1, 64 * mmap.PAGESIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        protect = ctypes.CDLL(None).mprotect
        assert protect(ctypes.c_void_p(self.start + 63 * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0

    def put(self, image: bytes) -> int:
        offset = 63 * mmap.PAGESIZE - len(image)
        self.pages[offset : offset + len(image)] = image
        return self.start + offset


@pytest.fixture(scope="module")
def edge() -> AtTheEdge:
    return AtTheEdge()


def load_and_look(driver, address: int) -> bool:
    error, module = driver.cuModuleLoadData(address)
    if error:
        return False
    count = driver.do("cuLibraryGetKernelCount", driver.CUlibrary(int(module)))
    for kernel in (
        driver.do("cuLibraryEnumerateKernels", count, driver.CUlibrary(int(module))) if count else []
    ):
        function = driver.CUfunction(int(kernel))
        attributes(driver, function)
        parameters(driver, function)
        driver.code("cuFuncGetName", function)
    driver.do("cuModuleUnload", module)
    return True


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_cut_off_images(driver, context, compile_kernels, edge: AtTheEdge, kind: str) -> None:
    image = compile_kernels(kind)
    table, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
    needed = (
        table + count * 64 if kind == "cubin" else len(image)
    )  # a loader's table may come after the sections'
    for size in [*range(80), *range(80, len(image), 97)]:
        cut = image[:size] if kind == "cubin" else image[:size].rstrip(b"\0") + b"x"
        assert not load_and_look(driver, edge.put(cut)) or size >= needed
    assert load_and_look(driver, edge.put(image))


@pytest.mark.parametrize("seed", range(4))
def test_images_with_wrong_bytes(driver, context, compile_kernels, edge: AtTheEdge, seed: int) -> None:
    """Whatever comes of them, nothing crashes and no memory stays behind."""
    chance = random.Random(seed)
    image = compile_kernels("cubin" if seed % 2 else "ptx")
    tables = struct.unpack_from("<Q", image, 40)[0] if seed % 2 else 0
    free = driver.do("cuMemGetInfo")[0]
    for _ in range(400):
        damaged = bytearray(image)
        for _ in range(chance.randrange(1, 12)):
            start = chance.choice([0, tables])
            end = chance.choice([start + 64, len(damaged)])
            damaged[chance.randrange(start, min(end, len(damaged)))] = chance.choice([0, 255, chance.randrange(256)])
        load_and_look(driver, edge.put(bytes(damaged)))
    assert driver.do("cuMemGetInfo")[0] == free


def test_registers_are_those_that_the_compiler_reports(driver, context, compile_kernels, kernel_source) -> None:
    """NVRTC's verbose log is the independent source."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(kernel_source.encode(), b"kernels.cu", 0, [], [])
    options = [b"-arch=sm_90", b"--ptxas-options=-v"]
    assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0] == 0
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    told = re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", log.decode(errors="replace"), re.DOTALL)
    assert told, log
    module = driver.do("cuModuleLoadData", compile_kernels())
    for name, registers in told:
        function = driver.do("cuModuleGetFunction", module, name.encode())
        assert attributes(driver, function)["NUM_REGS"] == int(registers), name
    assert len(told) == 4
    driver.do("cuModuleUnload", module)
