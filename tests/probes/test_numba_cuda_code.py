"""The code that a recording holds where it was asked for: what ran, and nothing compiled for it."""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import re
import threading

import numpy as np
import pytest
from numba import cuda

import kernelscope
from kernelscope import cubin as kernelscope_cubin
from kernelscope import native
from kernelscope.errors import DisassemblerError
from kernelscope.probes.numba_cuda import kernels as numba_cuda_kernels
from kernelscope.recording.merge import merge
from kernelscope.views.inspector.code import code_text
from kernelscope.views.inspector.model import inspect_kernels


@pytest.fixture(autouse=True)
def time_enough(monkeypatch):
    """A busy machine takes longer to disassemble than a recording waits for it."""
    monkeypatch.setattr(numba_cuda_kernels, "SASS_BUDGET_S", 120)


KINDS = ("source", "types", "llvm", "ptx", "sass", "cubin")


@cuda.jit(device=True)
def twice(value):
    return value * 2


@cuda.jit
def helped(out, x, n):
    i = cuda.grid(1)
    if i < n:
        value = twice(x[i])
        out[i] = value
        out[0] += 3


def rows_of(recording, kind):
    return [row for row in recording.rows("code") if row["kind"] == kind]


def test_without_being_asked_there_is_none(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    assert r.recording.rows("code") == []
    assert r.recording.metadata["code"] is False


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_asking_for_it_adds_nothing_to_a_launch(kernels, array, detail):
    from numba.cuda import dispatcher

    def path():
        owner = dispatcher.CUDADispatcher
        return [(type(function), getattr(function, "__code__", function)) for function in (
            owner.call, owner._update_launch_config_sensitivity, dispatcher._Kernel.launch, dispatcher.launch)]

    hooked = []
    for code in (False, True):
        with kernelscope.record(detail=detail, code=code):
            kernels.axpy[1, 32](array, 2.0, array)
            hooked.append(path())
    assert hooked[0] == hooked[1]
    unseen = native.core.TAKES_FUNCTIONS and detail == "launch"
    assert unseen or hooked[0] != path(), "while recording, launches run other code than now"


@pytest.mark.slow
def test_all_of_it_is_what_ran(kernels, array):
    with kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2.0, array)
        kernels.axpy[1, 32](array, 2, array)
    recording = r.recording
    assert recording.metadata["code"] is True
    assert recording.health.errors.isna().all()
    kernel, = inspect_kernels(recording)
    for compiled, row in zip(kernels.axpy.overloads.values(), recording.rows("specializations"), strict=True):
        library, number = compiled._codelibrary, row["specialization_id"]
        (capability, cubin), = library._cubin_cache.items()
        assert code_text(recording, number, "llvm") == library.get_llvm_str()
        assert code_text(recording, number, "ptx") == library._ptx_cache[capability][0]
        assert base64.b64decode(code_text(recording, number, "cubin")) == cubin.code
        assert code_text(recording, number, "sass") == kernelscope_cubin.disassemble(bytes(cubin.code))
        assert row["cubin_bytes"] == len(cubin.code)
    assert {each.code for each in kernel.specializations} == {KINDS}
    source, = rows_of(recording, "source")
    lines, first = inspect.getsourcelines(kernels.axpy.py_func)
    assert (source["text"], source["lineno"]) == ("".join(lines), first)
    assert json.loads(source["attributes"]) == {"file": inspect.getfile(kernels.axpy.py_func)}


def test_nothing_is_compiled_or_linked_for_it(kernels, array, monkeypatch):
    recorder = kernelscope.Recorder(code=True).start()
    kernels.axpy[1, 32](array, 2.0, array)
    library = next(iter(kernels.axpy.overloads.values()))._codelibrary
    before = {name: list(getattr(library, name)) for name in ("_ptx_cache", "_cubin_cache", "_ltoir_cache")}
    for name in ("get_asm_strs", "get_asm_str", "get_ltoir", "get_cubin", "get_cufunc", "get_sass"):
        monkeypatch.setattr(type(library), name, lambda *_, **__: pytest.fail("compiled at stop"))
    recording = recorder.stop()
    assert {row["kind"] for row in recording.rows("code")} == set(KINDS)
    assert {name: list(getattr(library, name)) for name in before} == before


@pytest.mark.parametrize(("options", "lto"), [
    ({}, True), ({"lto": False}, False), ({"debug": True, "opt": False}, False)])
def test_ptx_says_where_it_is_from_before_link_time_optimization(options, lto, array):
    kernel = cuda.jit(helped.py_func, **options)
    with kernelscope.record(code=True) as r:
        kernel[1, 32](array, array, 5)
    ptx, = rows_of(r.recording, "ptx")
    assert (ptx["attributes"] is not None) == lto
    assert not lto or json.loads(ptx["attributes"]) == {"before_lto": True}
    assert ptx["text"].count(".visible .entry") == 1
    # With debug, numba-cuda makes one text of PTX for each module.
    assert ptx["text"].count("Generated by NVIDIA NVVM Compiler") == (2 if "debug" in options else 1)


def test_types_are_in_order_with_lines(array):
    kernel = cuda.jit(helped.py_func)
    with kernelscope.record(code=True) as r:
        kernel[1, 32](array, array, 5)
    rows = json.loads(rows_of(r.recording, "types")[0]["text"])
    first = helped.py_func.__code__.co_firstlineno
    named = [(row["name"], row["line"] - first, row["type"]) for row in rows if not row["name"].startswith("$")]
    assert named == [
        ("out", 0, "array(float32, 1d, C)"), ("x", 0, "array(float32, 1d, C)"), ("n", 0, "int64"), ("i", 2, "int64"),
        ("value", 4, "float64"), ("out[i]", 5, "float64"), ("out[0]", 6, "float64")]
    call, = [row for row in rows if row["name"] == "value"]
    assert call["call"].startswith("(float32,) -> float")
    assert call["expr"].endswith(")")
    assert "func=" not in call["expr"]
    text = json.dumps(rows)
    assert " at 0x" not in text
    assert "site-packages" not in text


def test_types_of_what_is_inlined_from_another_file_say_where_it_is(tmp_path, monkeypatch, array):
    (tmp_path / "inlined_from_here.py").write_text(
        "from numba import cuda\n\n\n@cuda.jit(device=True, inline='always')\ndef twice(value):\n"
        "    return value * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    twice = importlib.import_module("inlined_from_here").twice

    @cuda.jit
    def kernel(out):
        out[0] = twice(out[1])

    with kernelscope.record(code=True) as r:
        kernel[1, 32](array)
    rows = json.loads(rows_of(r.recording, "types")[0]["text"])
    inlined = [row for row in rows if "from" in row]
    assert {row["line"] for row in inlined} == {0}
    assert "inlined_from_here.py:6" in {row["from"] for row in inlined}
    assert all(row["line"] > 0 for row in rows if row not in inlined)


def test_only_what_was_launched_or_compiled_here(kernels, array):
    other = cuda.to_device(np.zeros(4, np.float64))
    kernels.axpy[1, 32](array, 2.0, array)
    kernels.axpy[1, 32](array, 2, array)
    kernels.noop[1, 1]()
    with kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2.0, array)
        kernels.axpy[1, 32](other, 2.0, other)
    recording = r.recording
    signatures = {row["specialization_id"]: row["signature"] for row in recording.rows("specializations")}
    assert [signatures[row["specialization_id"]] for row in rows_of(recording, "ptx")] == [
        "(array(float32, 1d, C), float64, array(float32, 1d, C))",
        "(array(float64, 1d, C), float64, array(float64, 1d, C))"]
    assert len(rows_of(recording, "source")) == 1


@pytest.mark.slow
def test_of_nested_recorders_only_the_one_that_asked(kernels, array):
    with kernelscope.record() as outer:
        kernels.noop[1, 1]()
        with kernelscope.record(code=True) as inner:
            kernels.axpy[1, 32](array, 2.0, array)
    assert outer.recording.rows("code") == []
    assert {row["kind"] for row in inner.recording.rows("code")} == set(KINDS)
    with kernelscope.record(code=True) as outer:
        kernels.noop[1, 1]()
        with kernelscope.record(code=True) as first:
            kernels.axpy[1, 32](array, 2.0, array)
        with kernelscope.record() as second:
            kernels.axpy[1, 32](array, 2.0, array)
        with kernelscope.record(code=True) as third:
            kernels.axpy[1, 32](array, 2.0, array)
    assert len(outer.recording.rows("code")) == 12
    assert [len(each.recording.rows("code")) for each in (first, second, third)] == [6, 0, 6]


def test_it_is_kept_in_files_and_merged(kernels, array, tmp_path):
    recordings = []
    for _ in range(2):
        with kernelscope.record(code=True) as r:
            kernels.axpy[1, 32](array, 2.0, array)
        recordings.append(r.recording)
    merged = merge(recordings)
    assert sorted(row["kind"] for row in merged.rows("code")) == sorted(KINDS)
    loaded = kernelscope.load(merged.save(tmp_path / "merged.kscope"))
    assert sorted(row["kind"] for row in loaded.rows("code")) == sorted(KINDS)
    with kernelscope.record() as r:
        kernels.noop[1, 1]()
    assert merge([r.recording, recordings[0]]).metadata["code"] is True
    assert merge([r.recording, r.recording]).metadata["code"] is False


def bytes_in(ptx):
    """What PTX spells out byte by byte."""
    lines = re.findall(r"\.b8 ([\d, ]+)", ptx)
    return bytes(int(number) & 255 for line in lines for number in line.split(",") if number)


def test_a_file_keeps_no_path_of_it(array, tmp_path):
    plain, lines = cuda.jit(helped.py_func), cuda.jit(lineinfo=True)(helped.py_func)
    debug = cuda.jit(debug=True, opt=False)(helped.py_func)
    with kernelscope.record(code=True) as r:
        for kernel in (plain, lines, debug):
            kernel[1, 32](array, array, 5)
    folder = str(tmp_path.parent)
    own = inspect.getfile(helped.py_func).rpartition("/")[0]
    assert any(own.encode() in bytes_in(row["text"]) for row in rows_of(r.recording, "ptx"))
    loaded = kernelscope.load(r.recording.save(tmp_path / "cut.kscope"))
    for row in loaded.rows("code"):
        assert own not in str(row), row["kind"]
        assert folder not in str(row)
        assert own.encode() not in bytes_in(row["text"])
    # Machine code with line information holds paths, which cannot be cut; its SASS is there.
    kinds = {dispatcher: {row["kind"] for row in loaded.rows("code") if row["dispatcher_id"] == dispatcher}
             for dispatcher in range(3)}
    assert kinds == {0: set(KINDS), 1: set(KINDS) - {"cubin"}, 2: set(KINDS) - {"cubin"}}
    whole = kernelscope.load(r.recording.save(tmp_path / "whole.kscope", paths=True))
    assert len(rows_of(whole, "cubin")) == 3
    assert own in rows_of(whole, "ptx")[1]["text"]


_DISK = '''
import numpy as np
from numba import cuda
import kernelscope
@cuda.jit(cache=True)
def cached(x):
    x[0] = 1
with kernelscope.record(code=True) as r:
    cached[1, 1](cuda.to_device(np.zeros(3, np.float32)))
row, = r.recording.rows("specializations")
print(row["origin"], sorted(each["kind"] for each in r.recording.rows("code")), row["regs"], row["spill_store_bytes"])
'''


def test_from_the_disk_cache_without_types(run_python, tmp_path):
    first, second = (run_python(_DISK, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout for _ in range(2))
    assert first == f"compiled {sorted(KINDS)} 8 0\n"
    assert second == f"disk {sorted(set(KINDS) - {'types'})} 8 0\n"


def test_a_ctrl_c_while_it_is_read_loses_no_recording(kernels, array, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(numba_cuda_kernels.CodeCapture, "_add_sass", interrupted)
    recorder = kernelscope.Recorder(code=True).start()
    kernels.axpy[1, 32](array, 2.0, array)
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()
    recording = recorder.recording
    assert len(recording.launches) == 1
    assert recording.rows("specializations")[0]["regs"] > 0
    assert {row["kind"] for row in recording.rows("code")} == set(KINDS) - {"sass"}
    assert "interrupted while it was read" in str(recording.rows("health"))
    with pytest.raises(KeyboardInterrupt), kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2, array)
    assert len(r.recording.launches) == 1


def test_sass_that_is_left_out_for_time_is_said(kernels, array, monkeypatch):
    monkeypatch.setattr(numba_cuda_kernels, "SASS_BUDGET_S", 0)
    with kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2.0, array)
    assert {row["kind"] for row in r.recording.rows("code")} == set(KINDS) - {"sass"}
    row, = [row for row in r.recording.rows("health") if row["status"] == "degraded"]
    assert "SASS is missing (to be made when it is shown" in row["message"]


def test_what_fails_for_one_kernel_spares_the_others(kernels, array, monkeypatch):
    kernels.noop[1, 1]()
    broken = next(iter(kernels.noop.overloads.values()))
    monkeypatch.setattr(broken, "_type_annotation", object())
    monkeypatch.setattr(broken._codelibrary, "get_llvm_str", lambda: 1 / 0)
    monkeypatch.setattr(broken._codelibrary, "_ptx_cache", None)
    with kernelscope.record(code=True) as r:
        kernels.noop[1, 1]()
        kernels.axpy[1, 32](array, 2.0, array)
    recording = r.recording
    names = [row["name"] for row in recording.rows("dispatchers")]
    of_axpy = [row["kind"] for row in recording.rows("code") if names[row["dispatcher_id"]].endswith("axpy")]
    assert sorted(of_axpy) == sorted(KINDS)
    message = str(recording.rows("health"))
    for part in ("types cannot be read (AttributeError", "LLVM cannot be read (ZeroDivisionError: division by zero)",
                 "machine code cannot be read (AttributeError"):
        assert part in message


def test_without_a_disassembler(kernels, array, monkeypatch):
    monkeypatch.setattr(kernelscope_cubin, "find", lambda: None)
    with kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2.0, array)
    assert {row["kind"] for row in r.recording.rows("code")} == set(KINDS) - {"sass"}
    assert all(row["status"] == "ok" for row in r.recording.rows("health"))


def test_a_disassembler_that_fails_is_said(kernels, array, monkeypatch):
    def fail(code, timeout_s):
        raise DisassemblerError("it broke")

    monkeypatch.setattr(kernelscope_cubin, "disassemble", fail)
    with kernelscope.record(code=True) as r:
        kernels.axpy[1, 32](array, 2.0, array)
    assert "SASS is missing (it broke): " in str(r.recording.rows("health"))


def test_disassembling_does_not_hold_the_stop(kernels, array, monkeypatch):
    asked = []

    def slow(code, timeout_s):
        asked.append(timeout_s)
        threading.Event().wait(timeout_s)
        raise DisassemblerError("too slow")

    monkeypatch.setattr(kernelscope_cubin, "disassemble", slow)
    monkeypatch.setattr(numba_cuda_kernels, "SASS_BUDGET_S", 0.2)
    with kernelscope.record(code=True) as r:
        for kind in (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8):
            kernels.sensitive[1, 32](cuda.to_device(np.zeros(4, kind)))
    assert len(asked) == 4
    assert max(asked) <= 0.2
    assert len(rows_of(r.recording, "cubin")) == 6
    assert rows_of(r.recording, "sass") == []
    # From the machine code it can be had later; a file that is saved without paths may not have that.
    assert any("to be made when it is shown" in (row["message"] or "") for row in r.recording.rows("health"))


def test_each_device_says_what_it_holds(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy[1, 32](array, 2.0, array)
    row, = r.recording.rows("devices")
    device = cuda.get_current_device()
    assert (row["max_blocks_per_multiprocessor"], row["registers_per_multiprocessor"]) == (
        device.MAX_BLOCKS_PER_MULTIPROCESSOR, device.MAX_REGISTERS_PER_MULTIPROCESSOR)
    assert (row["shared_per_multiprocessor_bytes"], row["reserved_shared_bytes"]) == (228 * 1024, 1024)
