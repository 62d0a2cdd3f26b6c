"""`kernelscope doctor`: it says what works, and it never fails itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from calibrations import HERE, calibration

from kernelscope.commands import doctor
from kernelscope.recorder.overhead import store

SECTIONS = ("GPU", "dry run", "recorder", "probes", "own cost", "CUDA", "packages", "missing")


@pytest.mark.slow
def test_a_machine_with_the_dry_run(cli: Any, tmp_path: Path) -> None:
    store([calibration(machine="elsewhere", here=HERE)], tmp_path / "kernelscope" / "calibration.json")
    found = json.loads(cli("doctor", "--json", XDG_STATE_HOME=str(tmp_path)).stdout)
    assert found["can_record"] is True
    assert found["dry_run"]["launches"] == 1
    assert "numba-cuda" in [row["probe"] for row in found["probes"]]
    assert found["packages"]["numba-cuda"]
    assert found["own_cost"]["problems"] == []
    assert all({"what", "command"} == set(row) for row in found["missing"])
    text = doctor.lines(found)
    assert [line.split("  ")[0] for line in text if line[:1].strip()][1:-1] == list(SECTIONS)
    assert any("works: a launch was recorded" in line for line in text)
    assert any("numba-cuda: ok" in line for line in text)
    assert "own cost   not calibrated, recordings state an estimate" in "\n".join(text)
    assert "of another machine: elsewhere, Fast 9000" in "\n".join(text)


@pytest.mark.slow
def test_a_machine_on_which_nothing_works(process: Any, tmp_path: Path) -> None:
    """Neither numba nor a compiler is there."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nfor name in ('numba', 'cuda'): sys.modules[name] = None\n")
    root = Path(doctor.__file__).parents[2]
    ran = process("doctor", code=1, KERNELSCOPE_DRYRUN=None, PYTHONPATH=f"{tmp_path}{os.pathsep}{root}", CC="nothing",
                  XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path))
    assert "does not work: DryRunError: the dry run needs a C compiler" in ran.stdout
    assert "a C compiler (for the dry run): apt-get install gcc lib" in ran.stdout
    assert "pip install 'kernelscope[cu13]'" in ran.stdout
    assert ran.stdout.endswith("Recording is not possible here: see what is missing above.\n")


FOUND = {
    "kernelscope": "1", "python": "3", "platform": "p", "packages": {"numpy": "2"}, "simulator": True, "libraries": {},
    "nvdisasm": None, "missing": [], "can_record": True, "dry_run": {"problem": "no"},
    "own_cost": {"file": "c.json", "calibrations": [], "problems": []},
    "probes": [{"probe": "numba-cuda", "status": "degraded", "message": "part", "fix": "upgrade"}],
    "recorder": {"extension": "/p/_core.so", "compiler": "GCC 12", "clock": "clock_gettime", "old": None},
    "gpu": {"problem": None, "driver": "13.0", "trial": {"launches": 1},
            "devices": [{"name": "NVIDIA X", "compute_capability": "9.0"}]},
}


def test_a_machine_with_a_gpu() -> None:
    text = "\n".join(doctor.lines(FOUND))
    assert "NVIDIA X, compute capability 9.0" in text
    assert "CUDA driver 13.0; a launch was recorded" in text
    assert "numba-cuda: degraded, part; fix: upgrade" in text
    assert text.endswith("Recording works here, on the GPU.")
    failing = {**FOUND, "gpu": {**FOUND["gpu"], "trial": {"problem": "it broke"}}, "can_record": False}  # type: ignore[dict-item]
    assert "a launch failed: it broke" in "\n".join(doctor.lines(failing))


@pytest.mark.parametrize(("recorder", "said"), [
    ({}, ["/p/_core.so, compiled by GCC 12"]),
    ({"compiler": None}, ["/p/_core.so, compiled by an unknown compiler"]),
    ({"clock": "tsc", "old": "its sources are newer (ring.c): do this"}, [
        "/p/_core.so, compiled by GCC 12",
        "its clock: the processor's counter (tsc), put right by the system's clock each millisecond",
        "compile it anew: its sources are newer (ring.c): do this"]),
])
def test_the_recorder(recorder: dict[str, Any], said: list[str]) -> None:
    found = {**FOUND, "recorder": {**FOUND["recorder"], **recorder}}  # type: ignore[dict-item]
    shown = doctor.lines(found)
    place = next(index for index, line in enumerate(shown) if line.startswith("recorder"))
    assert [line[11:] for line in shown[place:place + len(said)]] == said
    assert shown[place + len(said)].startswith("probes")


def test_a_missing_extension_is_one_line(process: Any, tmp_path: Path) -> None:
    root = Path(doctor.__file__).parents[2]
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['kernelscope.native._core'] = None\n")
    ran = process("doctor", code=1, PYTHONPATH=f"{tmp_path}{os.pathsep}{root}")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("kernelscope: nothing can be recorded: KernelScope's C extension ")
    assert line.endswith(f"run pip install --editable {root}")


def test_children_that_fail_are_problems() -> None:
    assert doctor.ask("raise ValueError('no')", {}) == {"problem": "ValueError: no"}
    assert doctor.ask("import os; os._exit(3)", {}) == {"problem": "exit code 3"}
    assert doctor.ask("print('{\"a\": 1}')", {}) == {"a": 1}


def test_a_child_that_hangs_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 0.2)
    assert doctor.ask("import time; time.sleep(60)", {}) == {"problem": "no answer within 0.2 s"}
