"""Disk hits of kernels that capture values: equal sources compare equal, changed values do not."""

from __future__ import annotations

import json
import threading
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda.core import config, event
from numba.cuda.core.compiler_lock import global_compiler_lock

import kernelscope
from kernelscope.probes.numba_cuda import compile as numba_cuda_compile
from kernelscope.probes.numba_cuda.same_code import same_llvm, same_ptx
from tests.conftest import ROOT

#: Kernels of `capturing_kernels` whose code does not depend on SCALE.
WITHOUT_SCALE = {"table", "const", "tuple", "unituple", "shared", "dynamic", "local", "slices", "loops", "plain"}

SCALED = """
from numba import cuda

@cuda.jit(device=True)
def scaled(x):
    return x * FACTOR

@cuda.jit(cache=True)
def kernel(out, a):
    out[0] = scaled(a) + OFFSET
"""


def test_equal_sources_compare_equal_over_processes_and_orders(run_python, tmp_path):
    text = (ROOT / "tests/helpers/capturing_kernels.py").read_text()
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}

    def session(seed: int, code: str = "", **more: str) -> dict[str, Any]:
        return {name: rest for name, *rest in json.loads(
            run_python(text, str(seed), code, **environment, **more).stdout)}

    first = session(1)
    assert len(first) >= 30
    assert {outcome for outcome, *_ in first.values()} == {"compiled"}
    again = session(2, PYTHONHASHSEED="2")
    assert {name: (outcome, code) for name, (outcome, code, _) in again.items()} == dict.fromkeys(
        first, ("disk", "disk"))
    assert not {name: held for name, (*_, held) in again.items() if "captures_not_checked" in held}
    changed = session(3, "SCALE = 2.75")
    flagged = {name for name, (_, code, _) in changed.items() if code == "disk_unsafe"}
    # `closed` has a device function in its closure: its globals are in the cache's key.
    assert flagged == set(first) - WITHOUT_SCALE - {"closed"}
    assert changed["closed"][1] == "cache_stale"
    assert changed["mid"][2]["unsafe"]["captured"][:3] == ["mid", "mid.leaf", "mid.leaf.SCALE"]


class Module:
    """Runs a source as a module anew, with some globals, and launches its kernel on one type."""

    def __init__(self, folder: Any) -> None:
        self.file = folder / "kernels.py"

    def load(self, text: str, **names: Any) -> Any:
        if not self.file.exists() or self.file.read_text() != text:
            self.file.write_text(text)
        module = ModuleType("kernels")
        module.__dict__.update(names, __file__=str(self.file))
        exec(compile(text, str(self.file), "exec"), module.__dict__)
        return module

    def row(self, module: Any, array: Any) -> dict[str, Any]:
        with kernelscope.record() as r:
            module.kernel[1, 32](array, 1.0)
        assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
        row, = json.loads(r.recording.compilations.to_json(orient="records"))
        assert not [name for name in r.recording.passes.name if name in ("nvvm", "link")] or row["outcome"] != "disk"
        return row | {"attributes": json.loads(row["attributes"] or "{}")}


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    return Module(tmp_path)


def test_a_global_that_was_set_from_elsewhere(module, array):
    assert module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)["outcome"] == "compiled"
    row = module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)
    assert (row["reason_code"], row["attributes"]["captures"]) == ("disk", ["scaled", "scaled.FACTOR", "OFFSET"])
    for names in ({"FACTOR": 3.0, "OFFSET": 1}, {"FACTOR": 2.0, "OFFSET": 2}):
        row = module.row(module.load(SCALED, **names), array)
        assert row["reason_code"] == "disk_unsafe", names
        assert "captured: scaled, scaled.FACTOR, OFFSET" in row["reason"]
        assert "recompile()" in row["fix"]
        assert "2.0" not in row["reason"], "names, not values"
    whole = module.row(module.load(SCALED, FACTOR=2, OFFSET=1), array)
    assert whole["reason_code"] == "disk", "NVVM makes the same of 2 as of 2.0"


def test_recompile_ends_it(module, array):
    module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)
    stale = module.load(SCALED, FACTOR=3.0, OFFSET=1)
    assert module.row(stale, array)["reason_code"] == "disk_unsafe"
    stale.kernel.recompile()
    assert module.row(module.load(SCALED, FACTOR=3.0, OFFSET=1), array)["reason_code"] == "disk"


def test_checking_leaves_device_functions_as_they_were(module, array):
    module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)
    loaded = module.load(SCALED, FACTOR=2.0, OFFSET=1)
    assert module.row(loaded, array)["outcome"] == "disk"
    assert not loaded.scaled.overloads, "compiled for the comparison only"
    loaded.FACTOR = 5.0
    loaded.kernel[1, 32](cuda.device_array(4, np.float64), 1.0)
    code = loaded.kernel.inspect_llvm(next(sig for sig in loaded.kernel.overloads if "float64" in str(sig[0])))
    assert "0x4014000000000000" in code, "the launch after it has the value of now"


@pytest.mark.parametrize("cause", ["budget", "listener", "dump", "error"])
def test_what_is_not_checked_is_said(module, array, monkeypatch, cause):
    module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)
    loaded = module.load(SCALED, FACTOR=3.0, OFFSET=1)
    if cause == "budget":
        monkeypatch.setattr(numba_cuda_compile, "BUDGET_NS", -1)
    elif cause == "listener":
        monkeypatch.setitem(event._registered, "numba:compile", [object()])
    elif cause == "dump":
        monkeypatch.setattr(config, "DUMP_SSA", 1)
    else:
        def lower(*_: Any) -> Any:
            warnings.warn("careful", stacklevel=1)  # is nothing to the user
            raise ValueError("no\nmore")
        monkeypatch.setattr(numba_cuda_compile, "_lower", lower)
    row = module.row(loaded, array)
    assert row["reason_code"] == "disk"
    words = {"budget": "no time", "listener": "listeners", "dump": "DUMP_SSA", "error": "ValueError: no"}[cause]
    assert f"(scaled, scaled.FACTOR, OFFSET) are still those was not checked: {words}" in row["reason"] or \
           words in row["reason"]


def test_stopping_does_not_wait_for_another_thread_that_compiles(module, array):
    module.row(module.load(SCALED, FACTOR=2.0, OFFSET=1), array)
    loaded = module.load(SCALED, FACTOR=3.0, OFFSET=1)
    taken, done = threading.Event(), threading.Event()

    def hold():
        with global_compiler_lock:
            taken.set()
            done.wait(60)

    other = threading.Thread(target=hold)
    with kernelscope.record() as r:
        loaded.kernel[1, 32](array, 1.0)
        other.start()
        taken.wait()
    done.set()
    other.join()
    assert "not checked: TimeoutError: another thread is compiling" in r.recording.compilations.reason[0]


def test_a_launch_config_sensitive_kernel_is_not_checked(module, array):
    text = SCALED.replace("def kernel", "def sensitive") + "\nkernel = sensitive\n"
    module.row(module.load(text, FACTOR=2.0, OFFSET=1), array)
    row = module.row(module.load(text, FACTOR=3.0, OFFSET=1), array)
    assert row["reason_code"] == "disk"
    assert "not checked: it depends on the launch configuration" in row["reason"]


def test_captured_names():
    names: dict[str, Any] = {"np": np, "cuda": cuda, "FACTOR": 2, "DTYPE": np.float32}
    exec("def f(x):\n    x[0] = np.float32(FACTOR) + len(x) + DTYPE(1)\n", names)
    assert numba_cuda_compile.captured_names(names["f"]) == ["FACTOR"]
    exec("def g(x):\n    x[0] = 1\n", names)
    assert numba_cuda_compile.captured_names(names["g"]) == []

    @cuda.jit(device=True)
    def helper(x):
        return x + FREE

    FREE = 3

    def h(x):
        x[0] = helper(x[1]) + FREE

    assert numba_cuda_compile.captured_names(h) == ["helper", "helper.FREE"], "the kernel's own closure is in the key"


ONE = """; ModuleID = "k$1"
@"_ZN3envB2v1" = common global i8* null
define void @"_ZN1kB2v1"(i32 %"x") {
  %".2" = call i32 @"_ZN1fB2v2"(i32 %"x"), !range !1
  %".3" = add i32 %".2", 7
  call void @"llvm.nvvm.barrier0"()
  ret void
}
!1 = !{ i32 1 }
"""
LEAF = """; ModuleID = "f$2"
define linkonce_odr i32 @"_ZN1fB2v2"(i32 %"x") {
  ret i32 3
}
"""


def test_llvm_is_compared_without_names_and_order():
    other = LEAF.replace("f$2", "g").replace("B2v2", "B3v20").replace("linkonce_odr ", "")
    renamed = ONE.replace("B2v1", "B3v17").replace("B2v2", "B3v20").replace("!1", "!9")
    assert same_llvm([ONE, LEAF], [renamed, other])
    assert same_llvm([ONE, LEAF, "define void @unused() {\n}"], [renamed, other, other])
    assert not same_llvm([ONE, LEAF], [renamed, other.replace("i32 3", "i32 4")])
    assert not same_llvm([ONE, LEAF], [renamed.replace("barrier0", "barrier1"), other])
    swapped = renamed.replace('%".2" =', '%".9" =').replace('%".2",', '%".9",')
    assert same_llvm([ONE, LEAF], [swapped, other]), "values' names and order say nothing"


def test_ptx_is_compared_by_instructions():
    text = "// note\n.version 9.0\n.visible .entry _ZN1k(\n.param .u64 _ZN1k_param_0\n)\n{\n\tadd.s32 %r1, %r2, 7;\n}"
    assert same_ptx([text], [text.replace("_ZN1k", "_ZN2q").replace("%r1", "%r9").replace("9.0", "9.1")])
    assert not same_ptx([text], [text.replace("7;", "8;")])
    assert not same_ptx([text], [text, text])
