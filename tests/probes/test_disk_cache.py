"""The disk cache as users meet it: files that are edited, versions that change, folders that cannot be written."""

from __future__ import annotations

import json
import linecache
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numba_cuda
import numpy as np
import pytest
from numba import cuda
from numba.cuda.core import config
from numba.cuda.cudadrv.runtime import runtime

import kernelscope

QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}

KERNELS = """
from numba import cuda

@cuda.jit(cache=True)
def axpy(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a
"""

#: Launches `kernels.axpy` in a process of its own.
LAUNCH = """
import json
import numpy as np
import kernelscope
from numba import cuda
import kernels
with kernelscope.record() as r:
    for _ in range(2):
        kernels.axpy[1, 32](cuda.device_array(8, np.float32), 1.0)
assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
rows = json.loads(r.recording.compilations.to_json(orient="records"))
print(json.dumps([*rows, *r.recording.launches.cache]))
"""


class Session:
    """Imports a module ``kernels`` anew, as a new process would, and launches; the compilations are rows."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "kernels.py"
        self.failed: str | None = None

    def __call__(self, text: str | None = None, launch: Callable[[Any, Any], None] | None = None,
                 **names: Any) -> list[Any]:
        if text is not None and (not self.file.exists() or self.file.read_text() != text):
            self.file.write_text(text)
        kernels = ModuleType("kernels")
        kernels.__dict__.update(names, __file__=str(self.file))
        array = cuda.device_array(8, np.float32)
        self.failed = None
        with kernelscope.record() as r:
            exec(compile(self.file.read_text(), str(self.file), "exec"), kernels.__dict__)
            try:
                (launch or launch_axpy)(kernels, array)
            except Exception as error:
                self.failed = type(error).__name__
        assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
        rows = json.loads(r.recording.compilations.to_json(orient="records"))
        return [row | {"attributes": json.loads(row["attributes"] or "{}")} for row in rows]


def launch_axpy(kernels: Any, array: Any) -> None:
    kernels.axpy[1, 32](array, 1.0)


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    return Session(tmp_path)


@pytest.fixture
def process(run_python, tmp_path):
    """Run `LAUNCH` over a module ``kernels``."""

    def run(text: str, **environment: str) -> list[Any]:
        file = tmp_path / "kernels.py"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), **QUIET}
        return json.loads(run_python(LAUNCH, **cache, **environment).stdout)

    return run


def cache_files(tmp_path: Path, suffix: str) -> list[Path]:
    return sorted((tmp_path / "cache").rglob(f"*{suffix}"))


@pytest.mark.slow
def test_two_processes_and_their_files(process, tmp_path):
    first, *launches = process(KERNELS)
    assert launches == ["compiled", "memory"]
    assert (first["outcome"], first["reason_code"]) == ("compiled", "cache_absent")
    assert first["reason"] == "the disk cache had nothing of this kernel yet"
    assert "next process loads it" in first["fix"]
    assert first["cache_data_file"] == str(cache_files(tmp_path, ".nbc")[0])
    assert first["cache_file"] == str(cache_files(tmp_path, ".nbi")[0])
    second, *launches = process(KERNELS)
    assert launches == ["disk", "memory"]
    assert (second["outcome"], second["reason_code"], second["fix"]) == ("disk", "disk", None)
    assert second["reason"] == "not compiled: the disk cache had these types"
    assert second["cache_data_file"] == first["cache_data_file"]
    assert "captures" not in (second["attributes"] or "")


def test_an_edited_file_and_a_touched_one(session, tmp_path):
    session(KERNELS)
    edited, = session(KERNELS + "\nUNUSED = 1\n")
    assert edited["reason_code"] == "cache_stale"
    assert f"the source file was changed or touched after the disk cache was written ({len(KERNELS)} bytes then, " \
           f"{len(KERNELS) + 12} now)" in edited["reason"]
    assert "seldom edited" in edited["fix"]
    later = time.time() + 10
    os.utime(tmp_path / "kernels.py", (later, later))
    touched, = session()
    assert touched["reason_code"] == "cache_stale"
    assert "its size is the same" in touched["reason"]
    os.utime(tmp_path / "kernels.py", (1, 1))
    older, = session()
    assert "replaced by an older one" in older["reason"]


def test_a_function_that_moved_in_its_file(session):
    session(KERNELS)
    moved, = session("\n\n" + KERNELS)
    assert moved["reason_code"] == "cache_absent"
    assert "it has one of that name at line 4" in moved["reason"]


def test_cells_of_a_notebook(tmp_path, monkeypatch, array):
    """Their functions are known by the cell's text; IPython gives the same name to the same text."""
    for name in ("IPYTHONDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    found = []
    for number in (1, 1, 2):
        text = f"def axpy(out, a):\n    out[0] = a + {number}"
        name = f"<ipython-input-{number}>"
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        space = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), space)
        with kernelscope.record() as r:
            cuda.jit(cache=True)(space["axpy"])[1, 32](array, 1.0)
        row, = r.recording.rows("compilations")
        found.append((row["outcome"], row["reason"]))
    first, again, edited = found
    assert first == ("compiled", "the disk cache had nothing of this kernel yet")
    assert again[0] == "disk"
    assert edited[0] == "compiled" and "cell of other text" in edited[1]


def test_other_versions(session, monkeypatch):
    session(KERNELS)
    monkeypatch.setattr(numba_cuda, "__version__", "99.1")
    package, = session(KERNELS)
    assert package["reason_code"] == "cache_stale"
    assert "by numba-cuda " in package["reason"]
    assert "(this is 99.1)" in package["reason"]
    monkeypatch.setattr(type(runtime), "get_version", lambda self: (11, 3))
    toolkit, = session(KERNELS)
    assert "for CUDA runtime" in toolkit["reason"]
    assert "(this is 11.3)" in toolkit["reason"]
    monkeypatch.setattr(cuda.get_current_device(), "compute_capability", (8, 6))
    device, = session(KERNELS)
    assert "for compute capability 9.0 (this is 8.6)" in device["reason"]
    assert device["attributes"]["disk"]["differs"]["compute_capability"] == ["9.0", "8.6"]
    monkeypatch.setattr(numba, "__version__", "99.2")
    whole, = session(KERNELS)
    assert whole["reason_code"] == "cache_stale"
    assert "under numba " in whole["reason"]
    assert "this is 99.2" in whole["reason"]


CLOSURES = """
from numba import cuda

def factory(n):
    @cuda.jit(cache=True)
    def axpy(out, a):
        out[0] = a + n
    return axpy

axpy, other = factory(1), factory(2)
"""


def test_another_closure_and_other_bytecode(session, tmp_path):
    session(CLOSURES)
    other, = session(CLOSURES, lambda kernels, array: kernels.other[1, 32](array, 1.0))
    assert other["reason_code"] == "cache_stale"
    assert "for other values in the function's closure" in other["reason"]
    assert "pass as an argument" in other["fix"]
    session(KERNELS)
    stat = (tmp_path / "kernels.py").stat()
    (tmp_path / "kernels.py").write_text(KERNELS.replace("+= a", "-= a"))
    os.utime(tmp_path / "kernels.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    code, = session()
    assert "for other bytecode of the function" in code["reason"]


def test_other_types(session):
    session(KERNELS)

    def launch(kernels: Any, array: Any) -> None:
        kernels.axpy[1, 32](cuda.device_array(8, np.float64), 1.0)
        kernels.axpy[1, 32](cuda.device_array(8, np.int32), 1.0)

    rows = session(KERNELS, launch)
    assert [row["reason_code"] for row in rows] == ["cache_absent", "new_dtype"]
    assert "has this kernel for 1 other signature, not for these types" in rows[0]["reason"]
    assert "int32" in rows[1]["reason"], "with other types in memory, they are the cause"
    assert rows[1]["reason"].endswith("for 2 other signatures, not for these types")


def test_an_index_that_is_torn(session, tmp_path):
    session(KERNELS)
    index, = cache_files(tmp_path, ".nbi")
    index.write_bytes(index.read_bytes()[:-20])
    row, = session(KERNELS)
    assert (row["outcome"], row["reason_code"]) == ("failed", "cache_stale")
    assert session.failed in ("UnpicklingError", "EOFError"), "numba-cuda's own exception"
    assert "numba-cuda raised that" in row["reason"]
    assert row["fix"].startswith("delete ")
    assert row["fix"].split()[1] == str(index) + ":"
    index.unlink()
    assert session(KERNELS)[0]["outcome"] == "compiled"


def test_a_data_file_that_is_gone(session, tmp_path):
    session(KERNELS)
    cache_files(tmp_path, ".nbc")[0].unlink()
    row, = session(KERNELS)
    assert (row["outcome"], row["reason_code"]) == ("compiled", "cache_stale")
    assert "their file could not be opened" in row["reason"]
    assert cache_files(tmp_path, ".nbc"), "it is written again"


def blocked(kernels: Any, array: Any) -> None:
    """Launch when the cache's folder has become a link to nowhere, which stops root as well."""
    folder = kernels.axpy._cache._cache_path
    shutil.rmtree(folder)
    os.symlink("/nowhere/at/all", folder)
    kernels.axpy[1, 32](array, 1.0)


def test_a_folder_that_cannot_be_written(session):
    row, = session(KERNELS, blocked)
    assert session.failed == "FileExistsError", "numba-cuda's own exception"
    assert (row["outcome"], row["reason_code"]) == ("failed", "cache_unwritable")
    assert "could not save it in the disk cache, and raised that: FileExistsError" in row["reason"]
    assert "the compile failed" not in row["reason"]
    assert "NUMBA_CACHE_DIR" in row["fix"]


def test_a_folder_that_cannot_be_read(session):
    def launch(kernels: Any, array: Any) -> None:
        folder = kernels.axpy._cache._cache_path
        shutil.rmtree(folder)
        Path(folder).touch()
        kernels.axpy[1, 32](array, 1.0)

    row, = session(KERNELS, launch)
    assert session.failed == "NotADirectoryError", "numba-cuda's own exception"
    assert row["reason_code"] == "cache_stale"
    assert "could not be read, and numba-cuda raised that: NotADirectoryError" in row["reason"]


LINKED = """
import numpy as np
from numba import cuda

TABLE = cuda.to_device(np.arange(4, dtype=np.float32))

@cuda.jit(cache=True)
def axpy(out, a):
    out[0] = a + TABLE[0]
"""


CAPTURED = """
import numpy as np
from numba import cuda

def make():
    table = cuda.to_device(np.arange(4, dtype=np.float32))

    @cuda.jit(cache=True)
    def axpy(out, a):
        out[0] = a + table[0]

    return axpy

axpy = make()
"""


def test_a_kernel_that_cannot_be_saved(session):
    row, = session(LINKED)
    assert session.failed == "PicklingError"
    assert row["reason_code"] == "cache_unwritable"
    assert "Cannot serialize kernels" in row["reason"]
    assert "leave cache=True out" in row["fix"]


def test_a_kernel_whose_closure_cannot_be_saved(session):
    """As numba-cuda's own `test_cannot_cache_captured_device_array`: the error is its own, and none is ours."""
    row, = session(CAPTURED)
    assert session.failed == "PicklingError"
    assert (row["outcome"], row["reason_code"], row["cache_key"]) == ("failed", "cache_unwritable", None)
    assert "could not make the disk cache's key" in row["reason"] and "Cannot serialize kernels" in row["reason"]
    assert "leave cache=True out" in row["fix"]


#: The conftest's rewrite makes kernels of such a name launch-config sensitive.
SENSITIVE = KERNELS.replace("axpy", "sensitive") + "\naxpy = sensitive\n"


def test_a_launch_configuration_that_is_not_on_disk(session):
    first, = session(SENSITIVE)
    assert (first["reason_code"], first["lcs_marker"]) == ("cache_absent", True)
    assert first["cache_data_file"] is not None
    row, = session(SENSITIVE, lambda kernels, array: kernels.axpy[2, 64](array, 1.0))
    assert row["reason_code"] == "launch_config"
    assert "the disk cache has these types for [1, 32], not for this one" in row["reason"]
    again, = session(SENSITIVE)
    assert again["reason_code"] == "disk"


def test_a_marker_that_cannot_be_written(session):
    row, = session(SENSITIVE, blocked)
    assert (row["outcome"], session.failed) == ("compiled", None), "the launch itself goes on"
    assert row["reason_code"] == "cache_unwritable"
    assert "has given up this dispatcher's disk cache without saying so" in row["reason"]
    assert row["cache_file"] is not None
    assert row["cache_data_file"] is None


def test_code_without_a_marker(session, tmp_path):
    session(SENSITIVE)
    cache_files(tmp_path, ".lcs")[0].unlink()
    row, = session(SENSITIVE)
    assert row["outcome"] == "compiled"
    assert row["reason_code"] == "cache_stale"
    assert "by launch configuration (LC-S), but no .lcs marker" in row["reason"]


OPTIONS = KERNELS.replace("cache=True", "cache=True, **options")


@pytest.mark.parametrize(("saved", "defined", "words"), [
    ({}, {"fastmath": True}, "compiled with fastmath=False, this definition says fastmath=True"),
    ({"lineinfo": True}, {"max_registers": 24}, "lineinfo=True, this definition says lineinfo=False; it was compiled "
                                                "with max_registers=None, this definition says max_registers=24"),
    ({"launch_bounds": [128, 2]}, {"launch_bounds": 64}, "launch_bounds=[128, 2], this definition says "
                                                         "launch_bounds=[64]"),
    ({}, {"shared_memory_carveout": "maxl1"}, "shared_memory_carveout=None, this definition says "
                                              "shared_memory_carveout=0"),
    ({}, {"debug": True, "opt": False}, "debug=False, this definition says debug=True"),
])
def test_other_options_are_unsafe(session, saved, defined, words):
    session(OPTIONS, options=saved)
    row, = session(OPTIONS, options=defined)
    assert (row["outcome"], row["reason_code"]) == ("disk", "disk_unsafe")
    assert words in row["reason"]
    assert "recompile()" in row["fix"]
    fresh, = session(OPTIONS, options=saved)
    assert fresh["reason_code"] == "disk", "equal options are no reason"
    assert "unsafe" not in fresh["attributes"]


def test_an_eager_signature_stays_the_reason(session):
    declared = KERNELS.replace("cuda.jit(", 'cuda.jit("void(float32[::1], float64)", ')
    row, = session(declared)
    assert row["reason_code"] == "eager"
    assert row["reason"].endswith("; the disk cache had nothing of this kernel yet")
    again, = session(declared)
    assert (again["outcome"], again["reason_code"]) == ("disk", "disk")
