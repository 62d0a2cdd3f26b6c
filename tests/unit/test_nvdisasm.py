"""`kernelscope.nvdisasm`: finding it, real disassemblies, and what goes wrong."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from many_cubins import cubin

from kernelscope import nvdisasm
from kernelscope.errors import DisassemblerError


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """No nvdisasm anywhere; `make(folder)` puts one that runs `script` into a folder."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    real_is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: "/usr/local/cuda" not in str(path) and real_is_file(path))

    def make(folder: str, script: str = "echo SASS") -> Path:
        path = tmp_path / folder / "nvdisasm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


def test_a_real_cubin():
    sass = nvdisasm.disassemble(cubin("with_lines"))
    assert "EXIT" in sass
    assert f'//## File "{Path(cubin.__wrapped__.__code__.co_filename)}", line' in sass


def test_found_in_the_wheel():
    found = nvdisasm.find()
    assert found is not None
    assert found.name == "nvdisasm"


def test_the_wheel_of_the_newest_cuda_is_taken(folders, monkeypatch, tmp_path):
    for folder in ("nvidia/cuda_nvcc/bin", "nvidia/cu13/bin", "nvidia/cu12/bin"):
        folders(folder)

    class Spec:
        submodule_search_locations = (str(tmp_path / "nvidia"),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    monkeypatch.setenv("PATH", str(folders("toolkit").parent))
    assert nvdisasm.find() == tmp_path / "nvidia/cu13/bin/nvdisasm"


@pytest.mark.parametrize("variable", ["PATH", "CUDA_HOME", "CUDA_PATH"])
def test_found_in_a_toolkit(folders, monkeypatch, tmp_path, variable):
    path = folders("toolkit/bin")
    monkeypatch.setenv(variable, str(path.parent if variable == "PATH" else path.parent.parent))
    assert nvdisasm.find() == path


def test_without_one_the_error_says_how_to_get_it(folders):
    assert nvdisasm.find() is None
    with pytest.raises(DisassemblerError, match=r"there is no nvdisasm .*; pip install 'kernelscope\[sass\]'"):
        nvdisasm.disassemble(b"")


@pytest.mark.parametrize(("script", "message"), [
    ("echo 'cannot do it' >&2; exit 3", r"nvdisasm failed with exit code 3: cannot do it"),
    ("exit 1", r"exit code 1: it said nothing"),
    ("kill -SEGV $$", r"exit code -11: it said nothing"),
    ("sleep 20", r"nvdisasm took more than 0.3 s for 4 bytes"),
    ("echo $3 >&2; exit 1", r"exit code 1: the cubin"),
    ("echo nonsense", r"nvdisasm printed no SASS, but 9 bytes of something else"),
    ("exit 0", r"nvdisasm printed no SASS, but 0 bytes"),
])
def test_one_that_fails(folders, monkeypatch, script, message):
    monkeypatch.setenv("PATH", f"{folders('bin', script).parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(DisassemblerError, match=message):
        nvdisasm.disassemble(b"\x7fELF", timeout_s=0.3 if "sleep" in script else 20)


def test_one_that_is_no_program(folders, monkeypatch):
    path = folders("bin")
    path.write_bytes(b"\x7fELF nonsense")
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(DisassemblerError, match="cannot be run: Exec format error; pip install"):
        nvdisasm.disassemble(b"")


def test_what_is_no_cubin_is_refused_without_our_own_paths():
    with pytest.raises(DisassemblerError, match="failed with exit code") as caught:
        nvdisasm.disassemble(b"nonsense")
    assert tempfile.gettempdir() not in str(caught.value).partition("exit code")[2]


def test_no_file_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    nvdisasm.disassemble(cubin("plain"))
    with pytest.raises(DisassemblerError):
        nvdisasm.disassemble(b"nonsense")
    assert list(tmp_path.iterdir()) == []
