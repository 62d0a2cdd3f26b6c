"""`kernelscope.cubin`: finding it, real disassemblies, and what goes wrong."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
from many_cubins import cubin

from kernelscope import cubin as kernelscope_cubin
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
    sass = kernelscope_cubin.disassemble(cubin("with_lines"))
    assert "EXIT" in sass
    assert f'//## File "{Path(cubin.__wrapped__.__code__.co_filename)}", line' in sass


def test_found_in_the_wheel():
    found = kernelscope_cubin.find()
    assert found is not None
    assert found.name == "nvdisasm"


def test_the_wheel_of_the_newest_cuda_is_taken(folders, monkeypatch, tmp_path):
    for folder in ("nvidia/cuda_nvcc/bin", "nvidia/cu13/bin", "nvidia/cu12/bin"):
        folders(folder)

    class Spec:
        submodule_search_locations = (str(tmp_path / "nvidia"),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    monkeypatch.setenv("PATH", str(folders("toolkit").parent))
    assert kernelscope_cubin.find() == tmp_path / "nvidia/cu13/bin/nvdisasm"


@pytest.mark.parametrize("variable", ["PATH", "CUDA_HOME", "CUDA_PATH"])
def test_found_in_a_toolkit(folders, monkeypatch, tmp_path, variable):
    path = folders("toolkit/bin")
    monkeypatch.setenv(variable, str(path.parent if variable == "PATH" else path.parent.parent))
    assert kernelscope_cubin.find() == path


def test_without_one_the_error_says_how_to_get_it(folders):
    assert kernelscope_cubin.find() is None
    with pytest.raises(DisassemblerError, match=r"there is no nvdisasm .*; pip install 'kernelscope\[sass\]'"):
        kernelscope_cubin.disassemble(b"")


@pytest.mark.parametrize(("script", "message"), [
    ("echo 'cannot do it' >&2; exit 3", r"nvdisasm failed with exit code 3: cannot do it"),
    ("exit 1", r"exit code 1: it said nothing"),
    ("kill -SEGV $$", r"exit code -11: it said nothing"),
    ("sleep 600", r"nvdisasm took more than 0.3 s for 4 bytes"),
    ("echo $3 >&2; exit 1", r"exit code 1: the cubin"),
    ("echo nonsense", r"nvdisasm printed no SASS, but 9 bytes of something else"),
    ("exit 0", r"nvdisasm printed no SASS, but 0 bytes"),
])
def test_one_that_fails(folders, monkeypatch, script, message):
    monkeypatch.setenv("PATH", f"{folders('bin', script).parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(DisassemblerError, match=message):
        kernelscope_cubin.disassemble(b"\x7fELF", timeout_s=0.3 if "sleep" in script else 300)


@pytest.fixture
def stand_in(folders, monkeypatch):
    """Make an nvdisasm of a program in Python, which writes down the processes that it and its children are."""

    def make(program: str) -> Path:
        path = folders("bin")
        numbers = path.with_name("processes")
        path.write_text(f"#!{sys.executable} -I\nimport os, sys, time, signal, subprocess\n"
                        f"def known():\n    open({str(numbers)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
                        f"known()\n{program}\n")
        monkeypatch.setenv("PATH", str(path.parent))
        return numbers

    return make


def _have_ended(numbers: Path) -> bool:
    """Whether all of these processes end: of a killed one that nobody has waited for, the entry is left a moment."""
    until = time.monotonic() + 120
    for number in map(int, numbers.read_text().split() if numbers.exists() else []):
        while Path(f"/proc/{number}/stat").exists():
            if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                break
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
    return True


_MANY_BYTES = "held = []\nwhile True:\n    held.append(b'x' * (1 << 20) + bytes([len(held) % 250]))"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process's memory and files")
@pytest.mark.parametrize(("program", "message"), [
    # Its memory, at once and bit by bit.
    ("bytearray(1 << 30)", r"failed with exit code 1: .*MemoryError; it may use 314572800 bytes of memory at most$"),
    (_MANY_BYTES, r"MemoryError; it may use 314572800 bytes of memory at most$"),
    # What it prints, on either side; it would go on for ever.
    ("while True:\n    os.write(1, b'.text.' * 10_000)", r"nvdisasm printed more than 1048576 bytes$"),
    ("while True:\n    os.write(2, b'no' * 10_000)", r"nvdisasm printed more than 1048576 bytes$"),
    # What it writes elsewhere.
    ("signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen(sys.argv[-1] + '.x', 'wb').write(bytes(1 << 22))",
     rf"failed with exit code -{signal.SIGXFSZ.value}: it said nothing"),
    # Its time: one that sleeps, one that has closed what it prints to, and one whose child has not.
    ("time.sleep(600)", r"nvdisasm took more than 1 s for 4 bytes$"),
    ("os.close(1)\nos.close(2)\ntime.sleep(600)", r"nvdisasm took more than 1 s for 4 bytes$"),
    ("if os.fork() == 0:\n    known()\n    time.sleep(600)", r"nvdisasm took more than 1 s for 4 bytes$"),
])
def test_one_that_was_made_to_harm_is_ended_with_its_children(stand_in, monkeypatch, program, message):
    monkeypatch.setattr(kernelscope_cubin, "MAX_MEMORY_BYTES", 300 << 20)
    monkeypatch.setattr(kernelscope_cubin, "MAX_OUTPUT_BYTES", 1 << 20)
    child = ("ready, told = os.pipe()\nif os.fork() == 0:\n    known()\n    os.close(1)\n    os.close(2)\n"
             "    os.write(told, b'.')\n    time.sleep(600)\nos.read(ready, 1)\n")
    numbers = stand_in(child + program)
    with pytest.raises(DisassemblerError, match=message):
        kernelscope_cubin.disassemble(b"\x7fELF", timeout_s=1 if "1 s" in message else 300)
    assert _have_ended(numbers)


def test_one_that_uses_several_processors_is_ended_by_their_time(stand_in, monkeypatch):
    limit = kernelscope_cubin._limit
    monkeypatch.setattr(kernelscope_cubin, "_limit", lambda pid, timeout_s: limit(pid, 0.0))
    numbers = stand_in("while True:\n    pass")
    with pytest.raises(DisassemblerError, match=r"nvdisasm used more than 1 s of the processor$"):
        kernelscope_cubin.disassemble(b"\x7fELF", timeout_s=300)
    assert _have_ended(numbers)


def test_an_interrupted_one_is_ended_too(stand_in, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = stand_in("time.sleep(600)")
    monkeypatch.setattr(kernelscope_cubin, "_printed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kernelscope_cubin.disassemble(b"\x7fELF")
    assert _have_ended(numbers)


def test_what_it_says_at_length_is_cut(stand_in):
    stand_in("sys.stderr.write('no ' * 100_000)\nsys.exit(2)")
    with pytest.raises(DisassemblerError, match=r"failed with exit code 2: (no ){100}") as caught:
        kernelscope_cubin.disassemble(b"\x7fELF")
    assert len(str(caught.value)) < 800


def test_one_that_is_no_program(folders, monkeypatch):
    path = folders("bin")
    path.write_bytes(b"\x7fELF nonsense")
    monkeypatch.setenv("PATH", str(path.parent))
    with pytest.raises(DisassemblerError, match="cannot be run: Exec format error; pip install"):
        kernelscope_cubin.disassemble(b"")


def test_what_is_no_cubin_is_refused_without_our_own_paths():
    with pytest.raises(DisassemblerError, match="failed with exit code") as caught:
        kernelscope_cubin.disassemble(b"nonsense")
    assert tempfile.gettempdir() not in str(caught.value).partition("exit code")[2]


def test_no_file_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernelscope_cubin.disassemble(cubin("plain"))
    with pytest.raises(DisassemblerError):
        kernelscope_cubin.disassemble(b"nonsense")
    assert list(tmp_path.iterdir()) == []
