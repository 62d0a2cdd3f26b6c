"""The command line in a process of its own, with warnings as errors, on the dry run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_in_studies import Studies

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

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run ``kernelscope`` in the test's folder; keyword arguments are environment variables, None removes one."""

    def run(*arguments: str, code: int = 0, **environment: str | None) -> subprocess.CompletedProcess[str]:
        changed = {**os.environ, "PYTHONPATH": str(ROOT), "KERNELSCOPE_DRYRUN": "1", "COLUMNS": "100",
                   "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", **environment}
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "kernelscope", *arguments], cwd=tmp_path,
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True, text=True, timeout=180, check=False)
        assert ran.returncode == code, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        assert "kernelscope/cli" not in ran.stderr
        return ran

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
