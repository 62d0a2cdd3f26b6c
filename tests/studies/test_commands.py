from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelscope.errors import StudyError
from kernelscope.studies.environments import Finished, error_line, run, run_uninterrupted


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_output_and_errors_are_captured(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['A']); print('é', file=sys.stderr); sys.exit(3)"
    finished = run([sys.executable, "-c", code], cwd=tmp_path, environ={"A": "b", "PYTHONIOENCODING": "utf-8"})
    assert finished == Finished(3, f"{tmp_path} b\n", "é\n")


def test_what_is_no_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"nowhere' cannot be run: No such file"):
        run([tmp_path / "nowhere"])


# A child of the command ignores what asks it to end, as a compiler that pip started may.
STUBBORN = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""


def test_interruption_ends_the_whole_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "child"

    def interrupt() -> None:
        while not (file.exists() and file.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run([sys.executable, "-c", STUBBORN, file])
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    deadline = time.monotonic() + 60
    while is_alive(int(file.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(int(file.read_text()))


def test_what_must_be_done_is_done_however_often_it_is_interrupted() -> None:
    calls: list[int] = []

    def impatient() -> None:
        calls.append(len(calls))
        if len(calls) < 30:
            raise KeyboardInterrupt(f"number {len(calls)}")

    with pytest.raises(KeyboardInterrupt, match="number 29"):
        run_uninterrupted(impatient)
    assert len(calls) == 30
    run_uninterrupted(impatient)
    assert len(calls) == 31


def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(StudyError, match=r"did not end in 0\.2 seconds"):
        run([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.2)


@pytest.mark.parametrize(("output", "line"), [
    ("ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1)\n"
     "ERROR: No matching distribution found for a==9",
     "Could not find a version that satisfies the requirement a==9 (from versions: 1)"),
    ("ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 0.1, 0.2, 1.0rc1, 1.0)\n"
     "ERROR: No matching distribution found for a==9",
     "Could not find a version that satisfies the requirement a==9 (the newest is 1.0)"),
    ("  gcc: fatal error: no input\n  error: command 'gcc' failed\n  [end of output]\n  note: not pip's\n"
     "ERROR: Failed building editable for numba_cuda\nERROR: Could not build wheels for numba_cuda",
     "command 'gcc' failed"),
    ("error: Command '['/usr/bin/cc', '-O3', '-c']' returned non-zero exit status 1.\n[end of output]",
     "/usr/bin/cc returned non-zero exit status 1."),
    ("  src/a.cpp:5:14: error: expected ';'\n  src/a.cpp:9: error: b\n  error: Command '['g++']' returned 1\n",
     "src/a.cpp:5:14: error: expected ';'"),
    ("fatal: not a git repository", "not a git repository"),
    ("ModuleNotFoundError: No module named 'x'\nnote: see above", "ModuleNotFoundError: No module named 'x'"),
    ("\x1b[31mERROR: no project\x1b[0m\x1b[33m\n\x1b[0m", "no project"),  # as in a notebook's kernel
    ("error: unable to write file a.py: No space left on device\nfatal: Could not reset index file",
     "unable to write file a.py: No space left on device"),
    ("something\nelse\n\n", "else"),
    ("", "it ended with status 7"),
    ("x" * 1000, "x" * 299 + "…"),
])
def test_last_words_say_why(output: str, line: str) -> None:
    assert error_line(Finished(7, "", output)) == line
