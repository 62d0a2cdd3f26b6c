"""`kernelscope doctor`: it says what works, and it never fails itself."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from calibrations import HERE, TODAY, calibration, cost

from kernelscope.commands import doctor
from kernelscope.errors import CalibrationError
from kernelscope.recorder import overhead
from kernelscope.recorder.overhead import Calibration, Stored, store, stored
from kernelscope.studies import calibration as studies_calibration

SECTIONS = ("GPU", "counters", "dry run", "recorder", "at start", "probes", "records", "own cost", "CUDA", "packages",
            "missing")


@pytest.mark.slow
def test_a_machine_with_the_dry_run(cli: Any, tmp_path: Path) -> None:
    store([calibration(machine="elsewhere", here=HERE)], tmp_path / "kernelscope" / "calibration.json")
    found = json.loads(cli("doctor", "--json", XDG_STATE_HOME=str(tmp_path)).stdout)
    assert found["can_record"] is True
    assert found["dry_run"]["launches"] == 1
    assert "numba-cuda" in [row["probe"] for row in found["probes"]]
    assert found["packages"]["numba-cuda"]
    assert found["own_cost"]["problems"] == []
    assert [row["recorded"] for row in found["frameworks"] if row["package"] == "numba-cuda"] == [
        "launches with all phases, compiles and the disk cache with reasons"]
    assert all({"what", "command"} == set(row) for row in found["missing"])
    text = cli("doctor", XDG_STATE_HOME=str(tmp_path)).stdout.splitlines()
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
    "frameworks": [{"package": "triton", "version": "3.9.0", "recorded": "launches"}],
    "nvdisasm": None, "missing": [], "can_record": True, "dry_run": {"problem": "no"},
    "own_cost": {"file": "c.json", "calibrations": [], "problems": []},
    "probes": [{"probe": "numba-cuda", "status": "degraded", "message": "part", "fix": "upgrade"}],
    "counters": {"may_read": True, "why": "everybody may", "fix": "", "note": "", "libraries": {"libcupti": "/c.so"}},
    "recorder": {"extension": "/p/_core.so", "compiler": "GCC 12", "clock": "clock_gettime", "old": None},
    "at_start": {"file": "/p/kernelscope.pth", "problem": None},
    "gpu": {"problem": None, "driver": "13.0", "trial": {"launches": 1},
            "devices": [{"name": "NVIDIA X", "compute_capability": "9.0"}]},
}


def test_a_machine_with_a_gpu() -> None:
    text = "\n".join(doctor.lines(FOUND))
    assert "NVIDIA X, compute capability 9.0" in text
    assert "CUDA driver 13.0; a launch was recorded" in text
    assert "numba-cuda: degraded, part; fix: upgrade" in text
    assert "\ncounters   may be read: everybody may\n           libcupti: /c.so\ndry run" in text
    assert text.endswith("Recording works here, on the GPU.")
    failing = {**FOUND, "gpu": {**FOUND["gpu"], "trial": {"problem": "it broke"}}, "can_record": False}  # type: ignore[dict-item]
    assert "a launch failed: it broke" in "\n".join(doctor.lines(failing))


def test_counters_that_may_not_be_read() -> None:
    counters = {"may_read": False, "why": "only administrators may", "fix": "ask", "note": "", "libraries": {}}
    text = "\n".join(doctor.lines({**FOUND, "counters": counters}))
    assert "\ncounters   may not be read: only administrators may\n           to do: ask\ndry run" in text
    text = "\n".join(doctor.lines({**FOUND, "counters": {"problem": "there is no GPU here"}}))
    assert "\ncounters   may not be read: there is no GPU here\ndry run" in text


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
    assert shown[place + len(said)].startswith("at start")


@pytest.mark.parametrize(("flags", "said"), [
    ([], "kernelscope.pth: processes with KERNELSCOPE_RECORD in their environment record themselves"),
    (["-I"], "kernelscope.pth: processes with KERNELSCOPE_RECORD in their environment record themselves"),
    (["-S"], "do not record themselves: Python was started with -S, which leaves kernelscope.pth out"),
])
def test_whether_processes_record_themselves_is_said(flags: list[str], said: str) -> None:
    code = ("import sys; sys.path[:0] = " + repr([str(Path(doctor.__file__).parents[2]), *sys.path]) +
            "; from kernelscope.commands.doctor import at_start, at_start_line; print(at_start_line(at_start()))")
    ran = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert said in ran.stdout


def test_a_start_file_that_fails_or_is_of_another_installation_is_said(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = {"module": None, "file": "/p/kernelscope.pth", "no_site": False}
    for change, stderr, said in [
            ({}, "  ModuleNotFoundError: No module named 'x'\n", "is not run: ModuleNotFoundError: No module named"),
            ({}, "", "because Python does not look for such files in its folder"),
            ({"module": str(tmp_path / "kernelscope_at_start.py")}, "", f"is of another installation: {tmp_path}"),
            ({"file": None}, "", "there is no kernelscope.pth among Python's packages; install kernelscope with pip")]:
        ran = subprocess.CompletedProcess([], 0, json.dumps({**answer, **change}), stderr)
        monkeypatch.setattr(subprocess, "run", lambda *_, ran=ran, **__: ran)
        assert said in doctor.at_start_line(doctor.at_start())


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


# ---- kernelscope doctor --calibrate, and what the doctor says of calibrations ----

AGO = timedelta(days=3)


@pytest.fixture
def on_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, as the calibrations by hand have it."""
    monkeypatch.setattr(overhead, "setting", lambda gpu, detail: calibration(gpu=gpu, detail=detail).setting)


def said(*held: Calibration, gpus: tuple[str | None, ...] = (None,), problems: tuple[str, ...] = ()) -> list[str]:
    return doctor.calibration_lines(doctor.examine_calibration(gpus, Stored(Path("c.json"), held, problems), TODAY))


@pytest.mark.usefixtures("on_the_box")
@pytest.mark.parametrize(("days", "age"), [
    (0.0, "today"), (-0.1, "today"), (1.2, "yesterday"), (3.0, "3 days ago"), (179.0, "179 days ago"),
])
def test_what_is_stored_has_an_age(days: float, age: str) -> None:
    (line,) = said(calibration(measured=TODAY - timedelta(days=days)))
    assert line == f"dry run, detail 'phases': +95 ns (+90 to +101 ns) a launch, measured {age}"


@pytest.mark.usefixtures("on_the_box")
def test_no_difference_says_what_it_is_counted_as_and_nothing_how_to_measure_it() -> None:
    (line,) = said()
    assert line == ("not calibrated, recordings state an estimate; kernelscope doctor --calibrate measures it, in half "
                    "a minute")
    (line,) = said(calibration(cost(3.0, -5.0, 12.0), gpu="NVIDIA X"), gpus=(None, "NVIDIA X"))
    assert line.startswith("NVIDIA X, detail 'phases': no difference seen (-5 to +12 ns), counted as "
                           "12 ns a launch")


@pytest.mark.usefixtures("on_the_box")
def test_what_does_not_hold_is_shown_with_the_reason() -> None:
    first, *others = said(calibration(machine="other"), calibration(gpu="NVIDIA Y"), gpus=(None, "NVIDIA X"),
                          problems=("c.json cannot be read: torn",))
    assert first.startswith("not calibrated")
    for line, why in zip(others, ("of another machine: other, Fast 9000", "of another GPU: NVIDIA Y"), strict=False):
        assert line.startswith("ignored: ") and line.endswith(f", {why}")
    assert others[2] == "ignored: c.json cannot be read: torn"
    assert said(calibration(gpu="NVIDIA Y"))[1].endswith(", of a GPU that is not here: NVIDIA Y")


@pytest.mark.usefixtures("on_the_box")
def test_json_has_everything() -> None:
    held = calibration(measured=TODAY - AGO), calibration(python="3.11.7")
    found = json.loads(json.dumps(doctor.examine_calibration([None], Stored(Path("c.json"), held), TODAY)))
    first, second = found["calibrations"]
    assert (first["days"], first["ignored"], first["costs"][0]["added"]["middle_ns"]) == (3.0, None, 95.0)
    assert second["ignored"] == "of Python 3.11.7, and this is 3.12.1"
    assert Calibration.from_json(first) == held[0]
    assert found["file"] == "c.json"


def test_doubts_are_told() -> None:
    busy = "\n".join(doctor.measured_lines(calibration(cost(same=(8.0, 5.0, 9.0)), quiet=False)))
    assert "the machine was busy with something else: repeat it" in busy
    assert "two times not recording differ by more than they should" in busy
    sound = doctor.measured_lines(calibration(cost(), cost(arguments=0)))
    assert sound == [
        "dry run, detail 'phases'",
        "  4 device arrays: +95 ns (+90 to +101 ns); launches of 5.0 µs",
        "                   99 of 100 launches took at most 9.0 µs, recorded 9.5 µs: +500 ns (+200 to +700 ns)",
        "  no argument: +95 ns (+90 to +101 ns); launches of 5.0 µs",
        "               99 of 100 launches took at most 9.0 µs, recorded 9.5 µs: +500 ns (+200 to +700 ns)",
    ]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is measured; the file is in the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(studies_calibration, "calibrate", lambda **_: (calibration(), calibration(detail="launch")))
    return tmp_path / "kernelscope" / "calibration.json"


def calibrate(as_json: bool = False) -> int:
    return doctor.calibrate_main(argparse.Namespace(seconds=20.0, json=as_json, limit=None))


def test_what_was_measured_is_printed_and_stored(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate() == 0
    printed = capsys.readouterr()
    assert "dry run, detail 'launch'" in printed.out
    assert printed.out.endswith(f"stored in {measured}: recordings state this cost from now on\n")
    assert printed.err == "measuring what recording costs, for some 25 s ...\n"
    assert len(stored(measured).calibrations) == 2
    assert calibrate(as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(measured)
    assert [Calibration.from_json(each).setting.detail for each in found["calibrations"]] == ["phases", "launch"]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_stored_is_printed_all_the_same(
        measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    def full(*_: Any) -> None:
        raise CalibrationError("No space left on device")

    monkeypatch.setattr("kernelscope.recorder.overhead.store", full)
    if as_json:
        assert calibrate(as_json) == 1
    else:
        with pytest.raises(CalibrationError, match="No space left"):
            calibrate(as_json)
    printed = capsys.readouterr().out
    assert "phases" in printed and "stored in" not in printed
    if as_json:
        found = json.loads(printed)
        assert found["file"] is None and "No space left" in found["problem"]


def test_a_folder_that_cannot_be_written_is_one_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = cli("doctor", "--calibrate", code=1, XDG_STATE_HOME=str(tmp_path / "file"))
    assert ran.stderr.splitlines()[-1] == (
        f"kernelscope: the calibration cannot be stored in {tmp_path / 'file' / 'kernelscope'}: Not a directory; set "
        "XDG_STATE_HOME to a folder that you can write")


@pytest.mark.parametrize("seconds", ["0", "nan", "soon", "1e9"])
def test_wrong_seconds(cli: Any, seconds: str) -> None:
    ran = cli("doctor", "--calibrate", "--seconds", seconds, code=2)
    assert f"'{seconds}' is not a number of seconds, up to 3600" in ran.stderr
