"""Enabling: once for a process, before CUDA starts; what is imported earlier and what is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from counting import lines_run

from kernelscope import dryrun
from kernelscope.dryrun import switch
from kernelscope.errors import DryRunError


def test_this_process_is_in_the_dry_run() -> None:
    status = dryrun.enable()
    assert status == dryrun.status()
    assert dryrun.is_enabled()
    assert status.enabled
    assert status.library is not None and Path(status.library).name == "libcuda.so.1"
    assert status.devices == len(status.compute_capabilities)
    assert status.driver_version is not None and 12000 <= status.driver_version < 14000
    assert dryrun.BANNER == "dry run: kernels did not execute"


def test_importing_loads_nothing() -> None:
    code = """
import sys
import kernelscope
import kernelscope.dryrun
loaded = [name for name in ("ctypes", "numba", "cuda", "subprocess") if name in sys.modules]
assert not loaded, loaded
assert not kernelscope.dryrun.is_enabled()
status = kernelscope.dryrun.status()
assert status == (False, None, 1, ((9, 0),), None), status
"""
    # `-S` leaves out site-packages, whose .pth files import more than we do.
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(root)}, capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def test_counters_need_the_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_enabled", None)
    with pytest.raises(DryRunError, match=r"call kernelscope.dryrun.enable\(\) first"):
        dryrun.counters()


def test_counters(driver, context, stream) -> None:
    before = dryrun.counters()
    driver.do("cuMemFree", driver.do("cuMemAlloc", 8))
    assert driver.code("cuCtxResetPersistingL2Cache") == "NOT_SUPPORTED"
    after = dryrun.counters()
    assert after.calls["cuMemAlloc"] == before.calls.get("cuMemAlloc", 0) + 1
    assert after.missing["cuCtxResetPersistingL2Cache"] == before.missing.get("cuCtxResetPersistingL2Cache", 0) + 1
    assert after.launches == before.launches


@pytest.mark.parametrize("first", [
    "import cuda.bindings.driver, cuda.core",
    "import numba.cuda; numba.cuda.is_available()",
], ids=["cuda", "numba asked for a device"])
def test_enable_after_others_were_imported(run_python, first: str) -> None:
    code = f"""
{first}
from kernelscope import dryrun
dryrun.enable()
from numba import cuda
assert cuda.is_available()
assert [device.name for device in cuda.gpus] == ["KernelScope dry run"], cuda.gpus
from cuda.core import Device
assert Device().name == "KernelScope dry run"
"""
    run_python(code, KERNELSCOPE_DRYRUN="")


def test_a_driver_that_is_there_already_is_not_replaced(run_python, tmp_path: Path) -> None:
    """A library of the driver's name that is not ours stands for a real one."""
    from kernelscope.dryrun.build import find_compiler

    source = tmp_path / "other.c"
    source.write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
    other = tmp_path / "libcuda.so.1"
    subprocess.run(
        [*find_compiler(), "-shared", "-fPIC", str(source), "-o", str(other), "-Wl,-soname,libcuda.so.1"],
        check=True,
    )
    code = f"""
import ctypes
ctypes.CDLL({str(other)!r})
from kernelscope import DryRunError, dryrun
try:
    dryrun.enable()
except DryRunError as error:
    print(error)
assert not dryrun.is_enabled()
"""
    message = run_python(code, KERNELSCOPE_DRYRUN="").stdout
    assert str(other) in message
    assert "restart the kernel" in message
    assert "before anything imports" in message


def test_a_launcher_that_has_looked_for_a_driver_is_refused(run_python) -> None:
    """numba-cuda-mlir's native launcher looks once: a launch would call what is not there."""
    result = run_python(
        """
import sys
from types import ModuleType
import kernelscope
from kernelscope.errors import DryRunError

native = sys.modules["numba_cuda_mlir._cext"] = ModuleType("numba_cuda_mlir._cext")
native.cuda_available = 0
try:
    kernelscope.dryrun.enable()
except DryRunError as error:
    print(error)
native.cuda_available = 1
print(kernelscope.dryrun.enable().enabled)
""",
        KERNELSCOPE_DRYRUN="0",
    )
    first, second = result.stdout.splitlines()
    assert "before anything imports numba_cuda_mlir" in first
    assert second == "True"


def test_a_null_driver_that_is_there_already_is_taken(run_python) -> None:
    """As after a reload of the package, or with the library on LD_LIBRARY_PATH."""
    path = dryrun.status().library
    code = f"""
import ctypes
ctypes.CDLL({path!r})
from kernelscope import dryrun
assert dryrun.enable().library == {path!r}
from numba import cuda
assert cuda.is_available()
"""
    run_python(code, KERNELSCOPE_DRYRUN="")


def test_a_wrong_switch_or_setting_raises_before_cuda_starts(run_python) -> None:
    code = """
from kernelscope import DryRunError, dryrun
try:
    dryrun.enable()
except DryRunError as error:
    print(error)
import ctypes, os
try:
    ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
except OSError:
    print("nothing is loaded")
"""
    out = run_python(code, KERNELSCOPE_DRYRUN="", KERNELSCOPE_DRYRUN_DEVICES="0").stdout
    assert "KERNELSCOPE_DRYRUN_DEVICES='0'" in out
    assert "nothing is loaded" in out
    wrong = run_python("import kernelscope", KERNELSCOPE_DRYRUN="perhaps", check=False)
    assert "DryRunError: KERNELSCOPE_DRYRUN='perhaps'" in wrong.stderr


def test_run_a_program_in_the_dry_run(tmp_path: Path, run_python) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nfrom numba import cuda\nprint(cuda.get_current_device().name, sys.argv)\n")
    code = """
import runpy, sys
for argv in ([], ["-m", "timeit", "-n", "1", "-r", "1", "import kernelscope; kernelscope.dryrun.counters()"],
             [*sys.argv[1:], "--flag"]):
    sys.argv = ["kernelscope.dryrun", *argv]
    try:
        runpy.run_module("kernelscope.dryrun", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        print(error)
"""
    usage, timed, *_, ran = run_python(code, str(program), KERNELSCOPE_DRYRUN="").stdout.splitlines()
    assert usage.startswith("usage: python -m kernelscope.dryrun")
    assert "1 loop" in timed
    assert ran == f"KernelScope dry run {[str(program), '--flag']}"


def test_another_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_enabled", None)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(DryRunError, match="needs Linux; this is darwin"):
        dryrun.enable()


def test_a_second_enable_does_next_to_nothing() -> None:
    dryrun.enable()
    assert lines_run(dryrun.enable) < 50
