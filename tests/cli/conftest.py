"""The command line on the dry run, in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from stand_in_studies import Studies

from kernelscope.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = '''
"""The script's docstring."""
from __future__ import annotations
import sys
import kernelscope  # switches the dry run on where the environment asks for it
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

array = cuda.to_device(np.zeros(64, np.float32))
for _ in range(3):
    axpy[2, 32](array, 2.0, array)
'''

Cli = Callable[..., "Ran"]


@dataclass(frozen=True)
class Ran:
    """What a command line printed."""

    stdout: str
    stderr: str


def settings(changes: dict[str, str | None]) -> dict[str, str | None]:
    """The environment that is the same for every test, with a test's own changes; None removes a variable."""
    return {"KERNELSCOPE_DRYRUN": "1", "COLUMNS": "100", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", **changes}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run ``kernelscope`` in the test's folder; keyword arguments are environment variables, None removes one."""

    def run(*arguments: str, code: int = 0, **environment: str | None) -> Ran:
        out, err = StringIO(), StringIO()
        with monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.chdir(tmp_path)
            for name, value in settings(environment).items():
                patched.delenv(name, raising=False) if value is None else patched.setenv(name, value)
            # `kernelscope run` leaves the program in their place.
            patched.setattr(sys, "argv", list(sys.argv))
            patched.setattr(sys, "path", list(sys.path))
            patched.setitem(sys.modules, "__main__", sys.modules["__main__"])
            try:
                ended: object = main(arguments)
            except SystemExit as raised:
                ended = raised.code
        assert ended == code, f"{ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Ran(out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def process(tmp_path: Path) -> Cli:
    """The same in a process of its own, with warnings as errors: for what depends on the process."""

    def run(*arguments: str, code: int = 0, **environment: str | None) -> Ran:
        changed = {**os.environ, "PYTHONPATH": str(ROOT), **settings(environment)}
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "kernelscope", *arguments], cwd=tmp_path,
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True, text=True, timeout=180, check=False)
        assert ran.returncode == code, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return Ran(ran.stdout, ran.stderr)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script that launches three times and then does what it is given."""

    def write(more: str = "") -> Path:
        path = tmp_path / "script.py"
        path.write_text(SCRIPT + more, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one cell of three launches and one of none."""
    from kernelscope import Recorder
    from kernelscope.clock import FakeClock
    from kernelscope.probes.scripted import Launch, ScriptedProbe
    from kernelscope.recording.merge import merge

    parts = []
    for number, name in enumerate(("first", "<second>"), 1):
        probe, clock = ScriptedProbe(), FakeClock(start_ns=1_000_000 * number)
        recorder = Recorder(name, probes=[probe], clock=clock).start()
        recorder.begin_cell(name, execution_count=number)
        for place in range(3 if number == 1 else 0):
            start = clock.time_ns + 20_000 * place
            probe.emit(Launch(kernel="axpy", start_ns=start, phases_ns=(1000, 2000, 3000, 4000)))
        clock.advance(100_000)
        recorder.end_cell()
        parts.append(recorder.stop())
    return merge(parts).save(tmp_path_factory.mktemp("recorded") / "two.kscope")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Studies:
    """Studies that measure nothing, and keep what they were asked for."""
    made = Studies()
    made.put_in_place(monkeypatch)
    return made
