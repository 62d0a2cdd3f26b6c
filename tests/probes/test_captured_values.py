"""Disk hits of kernels that capture values: equal sources compare equal, changed values do not."""

from __future__ import annotations

import json
import math
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
from kernelscope.probes.numba_cuda.compile import not_in_key
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
    assert changed["mid"][2]["unsafe"] == {"captured": ["SCALE of leaf", "OFFSET of leaf"],
                                           "functions": ["mid", "leaf of mid", "leaf"]}
    assert changed["diamond"][2]["unsafe"]["captured"] == ["SCALE of leaf", "OFFSET of leaf"], "nothing to call"


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
    assert (row["reason_code"], row["attributes"]["captures"]) == ("disk", ["FACTOR of scaled", "OFFSET", "scaled"])
    for names in ({"FACTOR": 3.0, "OFFSET": 1}, {"FACTOR": 2.0, "OFFSET": 2}):
        row = module.row(module.load(SCALED, **names), array)
        assert row["reason_code"] == "disk_unsafe", names
        assert "captured: FACTOR of scaled, OFFSET (" in row["reason"]
        assert row["fix"] == ("call recompile() once after such a change, or pass what changes (FACTOR of scaled, "
                              "OFFSET) as an argument")
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
    assert f"(FACTOR of scaled, OFFSET, scaled) are still those was not checked: {words}" in row["reason"] or \
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


#: How a kernel can come to a value: its source, which has ``VALUE``, and the name that the fix has.
KINDS = {
    "module attribute": ("import settings\n", "settings.SCALE", "settings.SCALE"),
    "submodule": ("import settings\n", "settings.inner.SCALE", "settings.inner.SCALE"),
    "module by another name": ("import settings as s\n", "s.SCALE", "s.SCALE"),
    "imported name": ("from settings import SCALE\n", "SCALE", "SCALE"),
    "enum member": ("from settings import Level\n", "Level.ONE.value", "Level.ONE"),
    "enum of a module": ("import settings\n", "settings.Level.ONE.value", "settings.Level.ONE"),
    "named tuple": ("from settings import POINT\n", "POINT.x", "POINT"),
    "NumPy scalar": ("import numpy as np, settings\nFACTOR = np.float32(settings.SCALE)\n", "FACTOR", "FACTOR"),
    "small array": ("import settings\n", "settings.TABLE[1]", "settings.TABLE"),
    "type by another name": ("import settings\n", "settings.DTYPE(a)", "settings.DTYPE"),
    "global of a device function": (
        "from settings import SCALE\n@cuda.jit(device=True)\ndef leaf(x):\n    return x * SCALE\n", "leaf(a)",
        "SCALE of leaf"),
    "two levels of device functions": (
        "import settings\n@cuda.jit(device=True)\ndef leaf(x):\n    return x * settings.SCALE\n"
        "@cuda.jit(device=True)\ndef mid(x):\n    return leaf(x)\n"
        "@cuda.jit(device=True)\ndef other(x):\n    return leaf(x) + mid(x)\n", "mid(a) + other(a)",
        "settings.SCALE of leaf"),
    "closure of a device function": (
        "import settings\ndef make(scale):\n    @cuda.jit(device=True)\n    def leaf(x):\n        return x * scale\n"
        "    return leaf\nleaf = make(settings.SCALE)\n", "leaf(a)", "scale of leaf"),
    "default of a device function": (
        "import settings\n@cuda.jit(device=True)\ndef leaf(x, scale=settings.SCALE):\n    return x * scale\n",
        "leaf(a)", "scale of leaf"),
    "closure of an overload": (
        "import settings\nfrom numba.cuda.extending import overload\ndef plain(x):\n    return x\n"
        "@overload(plain)\ndef typed(x):\n    scale = settings.SCALE\n    return lambda x: x * scale\n", "plain(a)",
        "settings.SCALE of plain"),
    "global of an overload": (
        "from settings import SCALE\nfrom numba.cuda.extending import overload\ndef plain(x):\n    return x\n"
        "@overload(plain)\ndef typed(x):\n    return lambda x: x * SCALE\n", "plain(a)", "SCALE of plain"),
    "overload of a library's function": (
        "import numpy as np, settings\nfrom numba.cuda.extending import overload\n"
        "@overload(np.unwrap)\ndef typed(x):\n    scale = settings.SCALE\n    return lambda x: x * scale\n",
        "np.unwrap(a)", "settings.SCALE of unwrap"),
    "method of an overload": (
        "import settings\nfrom numba.cuda import types\nfrom numba.cuda.extending import overload_method\n"
        "@overload_method(types.Array, 'scaled')\ndef typed(x):\n    scale = settings.SCALE\n"
        "    return lambda x: x[0] * scale\n", "out.scaled()", "settings.SCALE of scaled"),
    "intrinsic": (
        "import settings\nfrom numba.cuda import types\nfrom numba.cuda.extending import intrinsic\n@intrinsic\n"
        "def constant(typingctx, x):\n    value = settings.SCALE\n    def codegen(context, builder, sig, args):\n"
        "        return context.get_constant(types.float64, value)\n    return types.float64(x), codegen\n",
        "constant(a)", "settings.SCALE of constant"),
}


SETTINGS = """
import collections, enum, types
import numpy as np
SCALE = {scale}
inner = types.ModuleType("inner")
inner.SCALE = {scale}
Level = enum.Enum("Level", {{"ONE": {scale}}})
POINT = collections.namedtuple("Point", "x y")({scale}, 0)
TABLE = np.array([0, {scale}])
DTYPE = np.float32 if SCALE == 3 else np.int8
"""
LAUNCH = """
import importlib, json, sys, warnings
sys.dont_write_bytecode = True
sys.path.insert(0, {folder!r})
warnings.simplefilter("ignore")
import numpy as np
import kernelscope
from kernelscope.probes.numba_cuda import compile
compile.BUDGET_NS = 600_000_000_000
modules = [importlib.import_module("kernels_%d" % number) for number in range({count})]
with kernelscope.record() as r:
    for module in modules:
        module.kernel[1, 32](np.zeros(4), 1.5)
assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
print(r.recording.compilations.to_json(orient="records"))
"""


def test_a_stale_hit_names_the_value_and_whose_it_is(run_python, tmp_path):
    for number, (imports, expression, _) in enumerate(KINDS.values()):
        (tmp_path / f"kernels_{number}.py").write_text(
            f"from numba import cuda\n{imports}@cuda.jit(cache=True)\ndef kernel(out, a):\n    out[0] = {expression}\n")

    def session(scale: int) -> dict[str, Any]:
        (tmp_path / "settings.py").write_text(SETTINGS.format(scale=scale))
        text = LAUNCH.format(folder=str(tmp_path), count=len(KINDS))
        rows = json.loads(run_python(text, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout)
        return dict(zip(KINDS, rows, strict=True))

    first, same, changed = session(3), session(3), session(9)
    assert {row["reason_code"] for row in first.values()} == {"cache_absent"}
    good = {kind for kind, row in same.items() if row["reason_code"] == "disk" and "not checked" not in row["reason"]}
    assert good == {*KINDS}
    assert {kind for kind, row in changed.items() if row["reason_code"] == "disk_unsafe"} == {*KINDS}
    passed = {kind: row["fix"].split("pass what changes (")[-1].split(")")[0].split(", ")
              for kind, row in changed.items()}
    assert not {kind: names for kind, names in passed.items() if KINDS[kind][2] not in names}
    assert not {"leaf", "mid", "other", "plain"} & {name for names in passed.values() for name in names}


def test_what_a_kernel_captures():
    names: dict[str, Any] = {"np": np, "cuda": cuda, "FACTOR": 2, "DTYPE": np.float32, "float32": np.float32,
                             "threadIdx": cuda.threadIdx, "sin": math.sin, "math": math}

    def texts(source: str) -> list[str]:
        exec(source, names)
        return [each.text for each in not_in_key(names["f"])]

    assert texts("def f(x):\n    x[0] = np.float32(FACTOR) + len(x) + DTYPE(1)\n") == ["FACTOR", "DTYPE"]
    assert texts("def f(x):\n    x[0] = 1\n") == []
    assert texts("def f(x):\n    x[threadIdx.x] = float32(sin(math.pi)) + cuda.blockIdx.x\n") == []

    @cuda.jit(device=True)
    def helper(x):
        return x + FREE

    FREE = 3

    def h(x):
        x[0] = helper(x[1]) + FREE

    assert [each.text for each in not_in_key(h)] == ["helper", "FREE of helper"], "the kernel's closure is in the key"


def test_nothing_of_the_users_runs_to_find_what_is_captured():
    module = ModuleType("settings")

    def missing(name: str) -> Any:
        raise AssertionError(name)

    module.__getattr__ = missing

    class Settings:
        @property
        def scale(self) -> float:
            raise AssertionError

    names: dict[str, Any] = {"settings": module, "Settings": Settings}
    exec("def f(x):\n    x[0] = settings.SCALE + Settings.scale + Settings.missing\n", names)
    assert [each.text for each in not_in_key(names["f"])] == ["settings", "Settings.scale", "Settings"]


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
