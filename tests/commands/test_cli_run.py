"""`kernelscope run`: the program runs as Python runs it, and its recording is saved however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope.commands.cli import main
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session
from kernelscope.views.inspector.model import code_of, inspect_kernels

Write = Callable[..., Path]
ROOT = str(Path(__file__).resolve().parents[2])

SCRIPT = """
import kernelscope  # switches the dry run on where the environment asks for it
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    out[0] = a * x[0]

array = cuda.to_device(np.zeros(64, np.float32))
"""
SAYS = """
import os
print(__name__, __file__, __doc__, __spec__, sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
"""


@pytest.mark.slow
def test_a_script_is_recorded_and_saved(process: Any, script: Write, tmp_path: Path) -> None:
    """A forked child leaves the recording to its parent; it ends after that: what it wrote would be what stays."""
    script("""
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)
    sys.exit(5)
""")
    ran = process("run", "--dryrun", "script.py", KERNELSCOPE_DRYRUN=None)
    assert "3 launches" in ran.stdout
    assert ran.stdout.count("KernelScope:") == ran.stdout.count("wrote script.kscope") == 1
    assert "dry run: kernels did not execute" in ran.stdout
    assert ran.stdout.endswith("wrote script.kscope\n")
    recording = kernelscope.load(tmp_path / "script.kscope")
    assert (recording.name, len(recording.launches)) == ("script.py", 3)
    assert recording.cells.status.tolist() == ["ok"]


@pytest.mark.parametrize("name", ["begin_cell", "end_cell"])
def test_ctrl_c_beside_the_program_ends_the_recording(
    script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:
    """In a process that goes on."""
    path = script()
    own = getattr(Recorder, name)

    def interrupted(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(Recorder, name, own)
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, name, interrupted)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    assert main(["run", "-o", str(tmp_path / "out.kscope"), str(path)]) == 130
    assert Session.active is None and getattr(Recorder, name) is own


def test_as_many_launches_are_kept_as_asked_for(cli: Any, script: Write, tmp_path: Path) -> None:
    script()
    ran = cli("run", "--mode", "ring", "--capacity", "2", "script.py")
    assert "; mode ring, 2 launches kept, 1 lost" in " ".join(ran.stdout.split())
    recording = kernelscope.load(tmp_path / "script.kscope")
    assert recording.metadata["recorder"] == {
        "mode": "ring", "capacity": 2, "kept": 2, "lost": 1}
    for options, said in ((["--capacity", "2"], "capacity 2 is for mode 'ring' or 'stop'"),
                          (["--mode", "ring", "--capacity", "0"], "capacity 0 is no number of launches")):
        assert said in cli("run", *options, "script.py", code=2).stderr


@pytest.mark.parametrize(("options", "command"), [
    (["-o", "out"], ["folder/script.py", "-o", "x", "--name", "--", "-m"]), ([], ["-m", "package", "-n", "1"])])
def test_the_program_sees_what_python_shows_it(
        cli: Any, tmp_path: Path, options: list[str], command: list[str]) -> None:
    for name in ("folder", "package"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "beside.py").write_text("")
    (tmp_path / "folder" / "script.py").write_text('"""Doc."""\nimport sys, beside' + SAYS)
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text('import sys\nprint(__name__, __package__, sys.argv, sys.path[0])')
    plain = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert cli("run", *options, *command).stdout.splitlines()[0] == plain.stdout.splitlines()[0]
    assert (tmp_path / ("out.kscope" if options else "package.kscope")).is_file()


def test_a_zip_and_a_folder_run_as_programs(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", "print('from the zip')")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("print('from the folder')")
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    assert "from the zip" in cli("run", "app.pyz").stdout
    assert "from the folder" in cli("run", "app").stdout


@pytest.mark.parametrize(("more", "code", "status"), [
    ("sys.exit()", 0, "ok"),
    ("sys.exit(7)", 7, "ok"),
    ("sys.exit('bye')", 1, "ok"),
    ("raise ValueError('no')", 1, "error"),
    ("raise KeyboardInterrupt", 130, "interrupted"),
])
def test_how_it_ends_is_passed_on(cli: Any, script: Write, tmp_path: Path, more: str, code: int, status: str) -> None:
    script(more)
    ran = cli("run", "-o", "out", "script.py", code=code)
    assert ("bye" in ran.stderr) == ("bye" in more)
    assert "wrote out.kscope" in ran.stdout
    recording = kernelscope.load(tmp_path / "out.kscope")
    assert (len(recording.launches), recording.cells.status.tolist()) == (3, [status])


@pytest.mark.parametrize("code", [
    "import kernelscope\ndef fail():\n    int('x')\n\ntry:\n    fail()\nexcept Exception as error:\n"
    "    raise ValueError('x') from error", "x = 1\ndef f(:\n",
    pytest.param(SCRIPT + "axpy[2, 4096](array, 2.0, array)", marks=pytest.mark.slow),
], ids=["chained", "syntax", "launch"])
def test_a_traceback_is_python_s_own(cli: Any, tmp_path: Path, code: str) -> None:
    (tmp_path / "script.py").write_text(code)
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
                           env={**os.environ, "PYTHONPATH": ROOT, "KERNELSCOPE_DRYRUN": "1"})
    assert "Error" in plain.stderr
    assert cli("run", "script.py", code=1).stderr == plain.stderr


def test_threads_are_waited_for(cli: Any, script: Write, tmp_path: Path) -> None:
    script("import threading, time\ndef late():\n    time.sleep(0.2)\n    axpy[2, 32](array, 2.0, array)\n"
           "threading.Thread(target=late).start()")
    assert "4 launches" in cli("run", "--dryrun", "script.py").stdout


def test_code_is_recorded_on_request(cli: Any, script: Write, tmp_path: Path) -> None:
    script()
    cli("run", "--code", "script.py")
    recording = kernelscope.load(tmp_path / "script.kscope")
    # On a busy machine SASS is left to be made when it is shown.
    kinds = {row["kind"] for row in recording.rows("code")} - {"sass"}
    assert kinds == {"source", "types", "llvm", "ptx", "cubin"}
    kernel, = inspect_kernels(recording)
    assert "EXIT" in (code_of(recording, kernel, kernel.specializations[0], "sass").text or "")
    assert recording.metadata["code"] is True


def test_name_detail_and_output(cli: Any, script: Write, tmp_path: Path) -> None:
    script("assert sys.argv == ['script.py', 'a', '-x'], sys.argv")
    cli("run", "--dryrun", "-n", "<b>named</b>", "--detail", "launch", "script.py", "a", "-x", "-o", "last.kscope")
    recording = kernelscope.load(tmp_path / "last.kscope")
    assert (recording.name, recording.metadata["detail"]) == ("<b>named</b>", "launch")


@pytest.mark.parametrize(("output", "said"), [
    (".", "'.' names no file"), ("nowhere/out.kscope", "cannot write nowhere/out.kscope: there is no folder nowhere")])
def test_what_cannot_be_written_is_said_before_the_program_runs(
        cli: Any, script: Write, output: str, said: str) -> None:
    script("print('ran')")
    ran = cli("run", "-o", output, "script.py", code=1)
    assert (ran.stdout, ran.stderr) == ("", f"kernelscope: {said}\n")


def test_a_file_that_cannot_be_written_does_not_hide_the_program_s_end(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "out.kscope").mkdir()
    (tmp_path / "script.py").write_text("")
    assert "cannot write" in cli("run", "-o", "out.kscope", "script.py", code=1).stderr
    (tmp_path / "script.py").write_text("raise SystemExit(7)")
    assert "cannot write" in cli("run", "-o", "out.kscope", "script.py", code=7).stderr


@pytest.mark.slow
def test_the_recording_is_saved_when_nobody_reads_stdout(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("")
    for where in (">&-", "> /dev/full", "| true"):
        ran = subprocess.run(f"{sys.executable} -m kernelscope run script.py -o out.kscope {where}", shell=True,
                             cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT, "KERNELSCOPE_DRYRUN": "1"},
                             capture_output=True, text=True, timeout=600, check=False)
        assert "Traceback" not in ran.stderr, (where, ran.stderr)
        assert kernelscope.load(tmp_path / "out.kscope").arrow("cells").num_rows == 1, where
        (tmp_path / "out.kscope").unlink()
