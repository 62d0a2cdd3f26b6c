"""Anatomies in processes of their own, on the dry run: what a target spends more is found where it is, only there."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from handmade_anatomies import anatomy as handmade

from kernelscope.errors import StudyError
from kernelscope.studies.breakdown import DEFAULT_CASES, LAUNCH, BreakdownRun, MeasuredBreakdown, anatomy
from kernelscope.studies.cases import Case
from kernelscope.studies.overhead import StudyInterrupted
from kernelscope.studies.process import ProcessError
from kernelscope.studies.result import FASTER, SLOWER, Measured, TargetReport
from kernelscope.studies.runner import Member, Plan

_CALL = "    def call(self, args, launch_config):\n"
_PREPARE = "        # map the arguments using any extension you've registered\n"
#: Many times a launch, and asleep: found on a machine that does other things as well.
SLEEP_US = 1000
_SLEEP = """\
        {when}
            _sleep({us} / 1e6)
"""


def checkout(folder: Path, before: str, when: str, us: int) -> Path:
    """Make a checkout of the installed numba-cuda that sleeps before a line of its dispatcher."""
    import numba_cuda

    shutil.copytree(Path(str(numba_cuda.__file__)).parent, folder / "numba_cuda",
                    ignore=shutil.ignore_patterns("__pycache__", "tests"))
    file = folder / "numba_cuda" / "numba" / "cuda" / "dispatcher.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, "numba-cuda's dispatcher.py has changed"
    sleep = _SLEEP.format(when=when, us=us)
    changed = text.replace(before, before + sleep if before == _CALL else sleep + before)
    file.write_text(f"{changed}\n\nfrom time import sleep as _sleep\n", encoding="utf-8")
    return folder


def slept_us() -> float:
    """How long such a sleep takes here: the median."""
    took = []
    for _ in range(30):
        begun = time.perf_counter_ns()
        time.sleep(SLEEP_US / 1e6)
        took.append((time.perf_counter_ns() - begun) / 1000)
    return statistics.median(took)


@pytest.mark.slow
def test_what_dispatch_and_the_second_argument_take_more_is_found_there_and_nowhere_else(tmp_path: Path) -> None:
    dispatch = checkout(tmp_path / "in dispatch", _CALL, "if True:", SLEEP_US)
    # The second array's turn: the first one gave seven numbers.
    second = checkout(tmp_path / "second", _PREPARE, "if len(kernelargs) == 7:", 2 * SLEEP_US)
    result = anatomy({"same": "current", "dispatch": str(dispatch), "second": str(second)}, DEFAULT_CASES[0],
                     loops=2, processes=4, repeats=1, install=False, dry_run=True, progress=False)
    found = {(each.target, each.label): each for each in result.differences if each.label != LAUNCH}
    assert len(found) == 20
    planted = slept_us()
    assert planted / 2 < found.pop(("dispatch", "dispatch")).difference_us < 2 * planted
    assert planted < found.pop(("second", "argument 1")).difference_us < 4 * planted
    assert statistics.median(abs(each.difference_us) for each in found.values()) < planted / 5
    assert [each for each in found.values()
            if each.verdict in (SLOWER, FASTER) and abs(each.difference_us) > planted / 2] == []
    for target in ("dispatch", "second"):  # nor is it missing from the parts
        parts = result.of(target, DEFAULT_CASES[0].name)
        assert abs(parts["unattributed"].us) < 0.5 * parts[LAUNCH].us
    assert result.is_dry_run and "stub" in str(result)
    assert [each.processes for each in result.measured.targets] == [4, 4, 4]


@pytest.mark.slow
def test_the_launches_of_the_default_cases_are_taken_apart() -> None:
    result = anatomy(processes=1, repeats=1, dry_run=True, progress=False)
    assert [each.name for each in result.measured.cases] == [each.name for each in DEFAULT_CASES]
    for case in DEFAULT_CASES:
        parts = result.of("current", case.name)
        assert all(parts[name].us is not None for name in ("configure", "unattributed", LAUNCH))
    assert len(result.measured.batches) == 2
    assert result.differences == ()


def test_a_case_that_fails_in_the_baseline_is_an_error_with_its_line() -> None:
    case = Case("wrong", "held(1, 2)", "held = None[1, 1]")
    with pytest.raises(StudyError, match=r"held = None\[1, 1\]"):
        anatomy(case=case, processes=1, repeats=1, dry_run=True, progress=False)


class Telling:
    """Interrupts when it is told of the second process."""

    def __call__(self, done: float, text: str) -> None:
        if text.startswith("process 2"):
            raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interruption_has_what_was_measured() -> None:
    with pytest.raises(StudyInterrupted) as caught:
        anatomy(case=DEFAULT_CASES[0], processes=3, repeats=1, dry_run=True, progress=Telling())
    result: Any = caught.value.result
    assert result.measured.ended == "interrupted"
    assert result.of("current", DEFAULT_CASES[0].name)[LAUNCH].us > 0


# ---- Answers that a process should not give ----


class Lying:
    """Stands in for a process."""

    def number(self, answer: dict[str, Any], name: str, least: float, what: type = int) -> Any:
        return what(answer[name])

    def failure(self, what: str) -> ProcessError:
        return ProcessError(what)


PART = {"key": "submit", "begin": "submit", "end": "submitted", "note": "", "reason": None}
ANSWER: dict[str, Any] = {"loops": 5, "bare_ns": 900.0, "parts": [PART], "parts_ns": {"submit": 500.0},
                          "stamps_ns": {"submit": 60.0}}


def breakdown_run() -> BreakdownRun:
    made = MeasuredBreakdown(Measured([TargetReport("old", "current", "here")], []))
    case = Case("x", "k()")
    return BreakdownRun(Plan((case,)), [Member(made.measured.targets[0])], made, lambda done, text: None)


@pytest.mark.parametrize("change", [
    {"parts": None}, {"parts": [1]}, {"parts": [{**PART, "note": 5}]}, {"parts": [{**PART, "reason": 5}]},
    {"parts_ns": []}, {"parts_ns": {"submit": "long"}}, {"parts_ns": {"submit": float("nan")}},
    {"stamps_ns": {"finish": 1.0}}, {"stamps_ns": None},
])
def test_an_answer_that_is_no_anatomy_ends_the_process(change: dict[str, Any]) -> None:
    with pytest.raises(ProcessError, match="no anatomy of a launch"):
        breakdown_run()._enter(Lying(), "old", "x", 0, 0, {**ANSWER, **change})  # type: ignore[arg-type]


@pytest.mark.slow
def test_stand_ins_have_the_parts_that_numba_cuda_has() -> None:
    result = anatomy(case=Case("2 arrays", "held(a, b)", """
@cuda.jit
def k(a, b):
    pass
a, b = cuda.device_array(1, np.float32), cuda.device_array(1, np.float32)
held = k[1, 1]
"""), processes=1, repeats=1, dry_run=True, progress=False)
    stand_in = [(part.key, part.begin, part.end, part.note) for part in handmade({"current": {}}).parts]
    assert [(part.key, part.begin, part.end, part.note) for part in result.breakdown.parts] == stand_in
