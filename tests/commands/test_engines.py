"""A notebook and ipyparallel's engines as one recording; real engines, in the CUDA simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(__file__).resolve().parents[2]

WORK = """
from numba import cuda

@cuda.jit
def noop():
    pass

def work(launches):
    for _ in range(launches):
        noop[1, 1]()
"""

ENGINES = """
import os, signal, sys
import ipyparallel
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "kernelscope")

def run(*lines):
    shell.run_cell("\\n".join(lines), store_history=True).raise_error()

with ipyparallel.Cluster(n=2, log_level=40) as rc:
    shell.user_ns["rc"] = rc
    rc[:].activate()
    run("%%kernelscope --px -q -o one.kscope", "%%px --block", "from work import work", "work(3)")
    run("%%px --block", "%load_ext kernelscope")
    for _ in range(2):
        run("%%px --block", f"%%kernelscope -q -o {os.getcwd()}/engines/", "work(2)")
    pid = int(rc[1].execute("import os; print(os.getpid())", block=True).stdout)
    run("%%kernelscope --px rc -q -o killed.kscope", "rc[:].execute('work(4)', block=True)", "import os, time",
        f"os.kill({pid}, {int(signal.SIGKILL)})", "while 1 in rc.ids: time.sleep(0.05)")
"""


def launches(recording: kernelscope.Recording) -> Counter[int]:
    process = dict(zip(recording.threads.thread_id, recording.threads.process_id, strict=True))
    return Counter(process[thread] for thread in recording.launches.thread_id)


def test_ipyparallels_engines_are_one_recording(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
    ran = subprocess.run([sys.executable, "-c", ENGINES], cwd=tmp_path, capture_output=True, text=True, timeout=600,
                         check=False, env={**kept, "NUMBA_ENABLE_CUDASIM": "1", "IPYTHONDIR": str(tmp_path / "ipython"),
                                           "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    one, killed = (kernelscope.load(tmp_path / f"{name}.kscope") for name in ("one", "killed"))
    for recording, number, status in ((one, 3, "ok"), (killed, 4, "killed")):
        rows = recording.processes.sort_values("rank")
        assert rows["rank"].tolist()[:2] == [0, 1] and rows.launcher.tolist()[:2] == ["ipyparallel"] * 2
        assert rows.status.tolist() == ["ok", status, "ok"], "the notebook's own process has no rank"
        assert sorted(launches(recording).values()) == [number, number]
    assert one.cells.execution_count.dropna().tolist() == [1]
    assert any("engine 1 did not finish its recording" in message for message in killed.health.message)
    recording = kernelscope.processes.collect(tmp_path / "engines")
    assert sorted(recording.processes.worker) == ["engine 0", "engine 1"]
    assert len(recording.cells) == 4 and set(launches(recording).values()) == {4}


def test_what_is_no_view_is_refused() -> None:
    with pytest.raises(TypeError, match="is neither a direct view of ipyparallel's engines nor a client"):
        kernelscope.ipyparallel.record(object())
