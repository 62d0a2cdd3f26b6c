"""The tables that cuGetProcAddress looks into, against the header that lists NVIDIA's."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from kernelscope import dryrun
from kernelscope.dryrun import build

SUCCESS, NOT_FOUND = 0, 500
FOUND, NO_SYMBOL, TOO_OLD = 0, 1, 2


def test_versions_are_the_published_ones(tmp_path: Path) -> None:
    """A wrong one would give a caller a function with other parameters than it has in its header."""
    header = build.find_header()
    build.write_tables(header, tmp_path)
    tables = "".join(path.read_text() for path in (build.SOURCES / "entries.inc", *tmp_path.glob("*.inc")))
    listed = [(name, int(version)) for name, version in re.findall(r"^[A-Z]+\((\w+), (\d+)", tables, re.MULTILINE)]
    text = (Path(header.folder) / "cudaTypedefs.h").read_text()
    published = {(name, int(version)) for name, version in re.findall(r"\*PFN_(cu[A-Z]\w*?)_v(\d+)\)", text)}
    names = {name for name, _ in published}
    assert len(set(listed)) == len(listed)
    assert not names - {name for name, _ in listed}
    assert not {(name, version) for name, version in listed if name in names and version <= header.version} - published
    ours = {name for name, _ in re.findall(r"^ENTRY\((\w+), (\d+)", tables, re.MULTILINE)}
    assert not {(name, version) for name, version in published - set(listed) if name in ours and version <= 13000}


# ---- asking the driver ----


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    path = dryrun.enable().library
    assert path is not None
    return ctypes.CDLL(path)


def ask(library: ctypes.CDLL, name: bytes, version: int) -> tuple[int, int, int]:
    function, status = ctypes.c_void_p(1), ctypes.c_int(-1)
    error = library.cuGetProcAddress_v2(name, ctypes.byref(function), version, ctypes.c_uint64(0),
                                        ctypes.byref(status))
    return error, status.value, function.value or 0


def address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


@pytest.mark.parametrize(("name", "version", "function"), [
    ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
    ("cuMemAlloc", 12000, "cuMemAlloc_v2"),
    ("cuCtxCreate", 3020, "cuCtxCreate_v2"),
    ("cuCtxCreate", 11040, "cuCtxCreate_v3"),
    ("cuCtxCreate", 12040, "cuCtxCreate_v3"),
    ("cuCtxCreate", 12050, "cuCtxCreate_v4"),
    ("cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"),
    ("cuStreamGetCaptureInfo", 12000, "cuStreamGetCaptureInfo_v2"),
    ("cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"),
    ("cuGraphGetEdges", 12000, "cuGraphGetEdges"),
    ("cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"),
    ("cuDevicePrimaryCtxRelease", 7000, "cuDevicePrimaryCtxRelease_v2"),
    ("cuDeviceGetUuid", 9020, "cuDeviceGetUuid"),
])
def test_the_newest_interface_not_newer_than_asked_for(library, name: str, version: int, function: str) -> None:
    assert ask(library, name.encode(), version) == (SUCCESS, FOUND, address(library, function))


def test_below_the_oldest_interface_the_oldest_is_given(library) -> None:
    """As numba-cuda-mlir relies on."""
    assert ask(library, b"cuFuncSetAttribute", 2000) == (SUCCESS, FOUND, address(library, "cuFuncSetAttribute"))
    added = address(library, "cuGraphNodeSetParams")
    assert ask(library, b"cuGraphNodeSetParams", 12000) == (SUCCESS, FOUND, added)


def test_a_function_that_is_not_there_has_a_stand_in(library) -> None:
    error, status, function = ask(library, b"cuArrayCreate", 12000)
    assert (error, status) == (SUCCESS, FOUND)
    before = dryrun.counters().missing.get("cuArrayCreate", 0)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(function)() == 801
    assert dryrun.counters().missing["cuArrayCreate"] == before + 1


@pytest.mark.parametrize(("name", "version", "status"), [
    (b"cuMemAlloc", 2000, TOO_OLD),
    (b"cuMemAlloc", 0, TOO_OLD),
    (b"cuGraphAddKernelNode", 11000, TOO_OLD),
    (b"cuMemAlloc", 99000, NO_SYMBOL),
    (b"cuMemAlloc_v2", 12000, NO_SYMBOL),
    (b"cuNothingOfTheKind", 12000, NO_SYMBOL),
    (b"", 12000, NO_SYMBOL),
])
def test_what_is_not_found(library, name: bytes, version: int, status: int) -> None:
    assert ask(library, name, version) == (NOT_FOUND, status, 0)


def test_wrong_arguments_and_private_tables(library) -> None:
    function = ctypes.c_void_p()
    assert library.cuGetProcAddress_v2(None, ctypes.byref(function), 12000, ctypes.c_uint64(0), None) == 1
    assert library.cuGetProcAddress_v2(b"cuInit", None, 12000, ctypes.c_uint64(0), None) == 1
    assert library.cuGetProcAddress(b"cuInit", ctypes.byref(function), 12000, ctypes.c_uint64(0)) == SUCCESS
    table = ctypes.c_void_p(1)
    assert library.cuGetExportTable(ctypes.byref(table), b"0" * 16) == NOT_FOUND
    assert table.value is None


@pytest.mark.parametrize(("version", "found"), [("12.9", False), ("13.0", True)])
def test_functions_newer_than_the_driver_are_not_there(run_python, version: str, found: bool) -> None:
    code = """
import ctypes
from kernelscope import dryrun
library = ctypes.CDLL(dryrun.status().library)
function = ctypes.c_void_p()
print(dryrun.status().driver_version)
for name, version in ((b"cuMemGetMemPool", 13000), (b"cuMemGetMemPool", 12000), (b"cuCtxGetDevice", 12000)):
    print(library.cuGetProcAddress_v2(name, ctypes.byref(function), version, ctypes.c_uint64(0), None))
"""
    out = run_python(code, KERNELSCOPE_DRYRUN_DRIVER_VERSION=version).stdout.split()
    assert out == (["13000", "0", "0", "0"] if found else ["12090", "500", "500", "0"])
