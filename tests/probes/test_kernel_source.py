"""The source of a kernel in a recording: what was compiled, or a word on why it is not there."""

from __future__ import annotations

import functools
import importlib
import sys
import zipfile

import pytest
from numba import cuda

import kernelscope

KINDS = ("source", "types", "llvm", "ptx", "cubin")


@pytest.fixture(autouse=True)
def no_disassembler(monkeypatch):
    """SASS takes long and says nothing here."""
    monkeypatch.setattr("kernelscope.cubin.find", lambda: None)


def rows_of(recording, kind):
    return [row for row in recording.rows("code") if row["kind"] == kind]


def test_a_source_that_is_nowhere_is_said(array):
    names = {}
    exec(compile("def made(x):\n    x[0] = 1", "<nowhere>", "exec"), names)
    kernel = cuda.jit(names["made"])
    with kernelscope.record(code=True) as r:
        kernel[1, 1](array)
    said = [row["message"] for row in r.recording.rows("health") if row["status"] == "degraded"]
    assert [each for each in said if "code" in each] == [
        "the code of some kernels is incomplete: source is not to be found: made"]
    assert {row["kind"] for row in r.recording.rows("code")} == set(KINDS) - {"source"}
    with kernelscope.record() as r:
        kernel[1, 1](array)
    assert "incomplete" not in str(r.recording.rows("health"))


@pytest.mark.parametrize("now", [
    "def changing(x):\n    x[0] = 2\n",
    "# It has moved\ndef changing(x):\n    x[0] = 1\n",
    "def changing(x):\n    x[0] = 1\n)",
])
def test_a_source_file_that_has_changed_is_said(array, tmp_path, monkeypatch, now):
    monkeypatch.delitem(sys.modules, "changing", raising=False)
    path = tmp_path / "changing.py"
    path.write_text("def changing(x):\n    x[0] = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = cuda.jit(importlib.import_module("changing").changing)
    path.write_text(now)
    with kernelscope.record(code=True) as r:
        kernel[1, 1](array)
    assert "source has changed since it was imported: changing" in str(r.recording.rows("health"))
    assert rows_of(r.recording, "source") == []


def test_a_file_that_changed_elsewhere_still_has_the_source(array, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "growing", raising=False)
    path = tmp_path / "growing.py"
    path.write_text("from __future__ import annotations\ndef growing(x: int):\n    x[0] = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = cuda.jit(importlib.import_module("growing").growing)
    path.write_text(path.read_text() + "\nclass More: ...\n")
    with kernelscope.record(code=True) as r:
        kernel[1, 1](array)
    source, = [row for row in r.recording.rows("code") if row["kind"] == "source"]
    assert (source["text"], source["lineno"]) == ("def growing(x: int):\n    x[0] = 1\n", 2)


def test_the_source_of_a_wrapper_is_its_own(array):
    def wrapped(x):
        x[0] = 1

    @functools.wraps(wrapped)
    def wrapper(x):
        x[0] = 2

    with kernelscope.record(code=True) as r:
        cuda.jit(wrapper)[1, 1](array)
    source, = [row for row in r.recording.rows("code") if row["kind"] == "source"]
    assert "x[0] = 2" in source["text"] and "x[0] = 1" not in source["text"]


def test_the_source_of_a_kernel_in_a_zip(array, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "zipped", raising=False)
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as file:
        file.writestr("zipped.py", "def zipped(x):\n    x[0] = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "modules.zip")
    with kernelscope.record(code=True) as r:
        cuda.jit(importlib.import_module("zipped").zipped)[1, 1](array)
    assert "x[0] = 1" in next(row["text"] for row in r.recording.rows("code") if row["kind"] == "source")
