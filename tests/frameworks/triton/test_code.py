"""The code of Triton's kernels: what the compiler made, with its lines; sizes and occupancy of what was launched."""

from __future__ import annotations

import base64
import gc
import json
from typing import Any

import pytest

import kernelscope
from kernelscope import cubin
from kernelscope.errors import DisassemblerError
from kernelscope.probes import code as code_rows
from kernelscope.recording.model import Recording
from kernelscope.views.inspector.model import code_of, inspect_kernels

FORMS = ["ttir", "ttgir", "llvm", "ptx", "sass"]


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer to disassemble than a recording waits for it."""
    monkeypatch.setattr(code_rows, "SASS_BUDGET_S", 120)


SOURCE = """
import triton
import triton.language as tl


@triton.jit
def scaled(v, a):
    return v * a


def axpy(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(y + i, scaled(tl.load(x + i, mask=m), a), mask=m)
"""
FIRST, CALL, SCALED = (SOURCE.split("\n").index(line) + 1 for line in (
    "def axpy(x, y, n, a, BLOCK: tl.constexpr):",
    "    tl.store(y + i, scaled(tl.load(x + i, mask=m), a), mask=m)", "    return v * a"))


def rows_of(recording: Recording, kind: str) -> list[dict[str, Any]]:
    return [row for row in recording.rows("code") if row["kind"] == kind]


def recorded(make: Any, x: Any, **options: Any) -> Recording:
    axpy = make(SOURCE)
    with kernelscope.record(code=True, **options) as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        axpy[(8,)](x, x, 1024, 2.0, BLOCK=128)
    return recorder.recording


def test_every_form_has_the_lines_of_the_kernel_and_of_what_it_inlines(make: Any, x: Any) -> None:
    recording = recorded(make, x)
    (kernel,) = inspect_kernels(recording)
    assert [each.code for each in kernel.specializations] == [("source", "functions", *FORMS, "cubin")] * 2
    (source,) = rows_of(recording, "source")
    assert source["lineno"] == FIRST and source["text"].startswith("def axpy(")
    (called,) = json.loads(rows_of(recording, "functions")[0]["text"])
    assert (called["name"], called["lineno"]) == ("scaled", SCALED - 2)
    assert called["text"].startswith("@triton.jit\ndef scaled(v, a):\n    return v * a")
    shown = code_of(recording, kernel, kernel.specializations[0], "source")
    assert shown.text is not None and shown.ties is not None
    at = shown.text.split("\n").index("    return v * a")
    assert shown.chains[shown.ties[at]] == (("", SCALED),)
    for each in kernel.specializations:
        for form in FORMS:
            found = code_of(recording, kernel, each, form)
            assert found.lines is not None and CALL in found.lines, form
            assert (("", SCALED), ("", CALL)) in found.chains, form
    assert [row for row in recording.rows("health") if row["status"] != "ok"] == []


def test_it_is_kept_only_where_it_is_asked_for_and_also_of_loads_from_the_disk_cache(make: Any, x: Any) -> None:
    axpy = make(SOURCE)
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    assert recorder.recording.rows("code") == []
    axpy.device_caches.clear()
    with kernelscope.record(code=True) as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    ((kernel,), recording) = inspect_kernels(recorder.recording), recorder.recording
    assert [made.outcome for made in kernel.specializations[0].compiles] == ["disk"]
    assert kernel.specializations[0].code == ("source", "functions", *FORMS, "cubin")
    # What was there before is known as well, once it is launched.
    with kernelscope.record(code=True) as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    assert [row["kind"] for row in recorder.recording.rows("code")] == [row["kind"] for row in recording.rows("code")]


def test_the_machine_code_is_what_ran(make: Any, x: Any) -> None:
    axpy = make(SOURCE)
    with kernelscope.record(code=True) as recorder:
        kernel = axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    for kind, stage in (("ttir", "ttir"), ("ttgir", "ttgir"), ("llvm", "llir"), ("ptx", "ptx")):
        (row,) = rows_of(recorder.recording, kind)
        assert row["text"] == kernel.asm[stage]
    (row,) = rows_of(recorder.recording, "cubin")
    assert base64.b64decode(row["text"]) == kernel.asm["cubin"]


def test_a_kernel_that_is_gone_is_said(make: Any, x: Any) -> None:
    axpy = make(SOURCE)
    with kernelscope.record(code=True) as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        axpy.device_caches.clear()
        gc.collect()
    assert rows_of(recorder.recording, "ptx") == []
    assert rows_of(recorder.recording, "source") != []
    messages = [row["message"] or "" for row in recorder.recording.rows("health")]
    (said,) = [each for each in messages if "the code of some" in each]
    assert said == "the code of some kernels is incomplete: compiled kernel is gone: axpy"


def test_sass_is_made_when_it_is_shown_where_time_is_short(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_rows, "SASS_BUDGET_S", 0)
    recording = recorded(make, x)
    assert rows_of(recording, "sass") == []
    (kernel,) = inspect_kernels(recording)
    found = code_of(recording, kernel, kernel.specializations[0], "sass")
    assert found.text is not None and found.note.startswith("Disassembled here")


def test_triton_s_own_nvdisasm_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "nvidia" else real(name))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    found = cubin.find()
    assert found is not None
    if "/usr/local/cuda" not in str(found):
        assert found.parts[-5:-1] == ("triton", "backends", "nvidia", "bin")
    with pytest.raises(DisassemblerError):
        cubin.disassemble(b"no cubin")


def test_what_was_compiled_has_sizes_and_what_was_launched_occupancy(make: Any, x: Any) -> None:
    axpy = make(SOURCE)
    with kernelscope.record() as recorder:
        axpy.warmup(x, x, 1024, 2.0, BLOCK=512, num_warps=2, grid=(1,))
        kernel = axpy[(4,)](x, x, 1024, 2.0, BLOCK=256, num_warps=8)
    recording = recorder.recording
    (found,) = inspect_kernels(recording)
    launched, compiled = found.specializations
    assert (launched.launches, compiled.launches) == (1, 0)
    for each in found.specializations:
        assert None not in (each.regs, each.static_shared_bytes, each.local_bytes, each.const_bytes,
                            each.spill_store_bytes, each.spill_load_bytes, each.cubin_bytes, each.compute_capability)
    # Only the driver says how many threads a block may have, of what it has loaded.
    assert (launched.regs, launched.max_threads, compiled.max_threads) == (kernel.n_regs, kernel.n_max_threads, None)
    (use,) = launched.uses
    assert use.blockdim == (256, 1, 1)
    assert (use.occupancy, use.active_blocks, use.limited_by) == (1.0, 8, ("threads",))
