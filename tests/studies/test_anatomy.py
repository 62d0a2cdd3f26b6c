"""Anatomies: what a target spends more is found where it is, and only there; with fakes, what goes wrong."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import fake_bench
import pytest
from handmade_anatomies import CASE
from handmade_anatomies import anatomy as handmade
from study_repositories import copy_numba_cuda

from kernelscope.errors import StudyError
from kernelscope.studies.breakdown import DEFAULT_CASES, LAUNCH, AnatomyResult, anatomy
from kernelscope.studies.cases import Case
from kernelscope.studies.overhead import StudyInterrupted

_CALL = "    def call(self, args, launch_config):\n"
_PREPARE = "        # map the arguments using any extension you've registered\n"
#: Many times a part, and asleep: found on a machine that does other things as well.
SLEEP_US = 200
TWO_ARRAYS = Case(CASE, "held(a, b)", """
@cuda.jit
def k(a, b):
    pass
a, b = cuda.device_array(1, np.float32), cuda.device_array(1, np.float32)
held = k[1, 1]
""")


def checkout(folder: Path) -> Path:
    """Make a checkout of the installed numba-cuda that sleeps in dispatch, and twice as long at the second argument."""
    file = copy_numba_cuda(folder) / "numba_cuda" / "numba" / "cuda" / "dispatcher.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(_CALL) == text.count(_PREPARE) == 1, "numba-cuda's dispatcher.py has changed"
    text = text.replace(_CALL, f"{_CALL}        _sleep({SLEEP_US} / 1e6)\n")
    # The second array's turn: the first one gave seven numbers.
    sleep = f"        if len(kernelargs) == 7:\n            _sleep({2 * SLEEP_US} / 1e6)\n"
    text = text.replace(_PREPARE, sleep + _PREPARE)
    file.write_text(f"{text}\n\nfrom time import sleep as _sleep\n", encoding="utf-8")
    return folder


def slept_us() -> float:
    """How long such a sleep takes here: the median."""
    took = []
    for _ in range(30):
        begun = time.perf_counter_ns()
        time.sleep(SLEEP_US / 1e6)
        took.append((time.perf_counter_ns() - begun) / 1000)
    return statistics.median(took)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> AnatomyResult:
    """What is in this environment, and a checkout that sleeps."""
    asleep = checkout(tmp_path_factory.mktemp("checkout") / "asleep")
    return anatomy({"same": "current", "asleep": str(asleep)}, [*DEFAULT_CASES, TWO_ARRAYS], loops=2, processes=1,
                   repeats=1, install=False, dry_run=True, progress=False)


@pytest.mark.slow
def test_what_dispatch_and_the_second_argument_take_more_is_found_there_and_nowhere_else(real: AnatomyResult) -> None:
    case = DEFAULT_CASES[0].name
    found = {each.label: each for each in real.differences if each.label != LAUNCH and each.case == case}
    assert len(found) == 10
    planted = slept_us()
    assert planted / 2 < found.pop("dispatch").difference_us < 2 * planted
    assert planted < found.pop("argument 1").difference_us < 4 * planted
    assert statistics.median(abs(each.difference_us) for each in found.values()) < planted / 5
    # Whatever else the machine does meanwhile disturbs one of them at most.
    assert sum(abs(each.difference_us) > planted / 2 for each in found.values()) <= 1
    parts = real.of("asleep", case)  # nor is it missing from the parts
    assert abs(parts["unattributed"].us or 0.0) < 0.5 * (parts[LAUNCH].us or 0.0)
    assert real.is_dry_run and "stub" in str(real)
    assert [each.processes for each in real.measured.targets] == [1, 1]


@pytest.mark.slow
def test_all_parts_of_the_default_cases_are_timed(real: AnatomyResult) -> None:
    for case in DEFAULT_CASES:
        assert all(part.us is not None for part in real.of("same", case.name).values())
    assert len(real.measured.batches) == 2 * 3


@pytest.mark.slow
def test_stand_ins_have_the_parts_that_numba_cuda_has(real: AnatomyResult) -> None:
    stand_in = [(part.key, part.begin, part.end, part.note) for part in handmade({"current": {}}).parts]
    assert [(part.key, part.begin, part.end, part.note) for part in real.breakdown.parts
            if (part.target, part.case) == ("same", CASE)] == stand_in


# ---- With fakes ----


def taken_apart(*targets: str, **options: Any) -> AnatomyResult:
    return anatomy(targets or ("old=current", "new=current"), "1 arg",
                   **{"processes": 2, "repeats": 2, "progress": False, "timeout_s": 120, **options})


def test_parts_of_each_target_are_timed_in_turn(fakes: dict[str, Any], tmp_path: Path) -> None:
    fakes["new"] = {"ns": 6000}
    result = taken_apart(loops=7)
    assert [result.of("new", "1 arg")[key].us for key in ("dispatch", "submit", "unattributed", LAUNCH)] == [
        pytest.approx(each) for each in (4.94, 1.0, 0.06, 6.0)]
    asked = [each for each in fake_bench.done(tmp_path) if each["do"] == "anatomy"]
    assert {each["loops"] for each in asked} == {7} and len(asked) == 2 * 2 * 2
    assert all({row[0] for row in result.measured.batches[turn:turn + 2]} == {"old", "new"} for turn in (0, 2, 4, 6))
    assert not fakes["workspace"].exists()


def test_a_case_that_fails_in_the_baseline_is_an_error_with_its_line(fakes: dict[str, Any]) -> None:
    fakes["old"] = {"fails": [["refuse", "prepare", None, None]]}
    with pytest.raises(StudyError, match="setup, line 3: NameError: nobody"):
        taken_apart()


def test_an_interruption_has_what_was_measured(fakes: dict[str, Any]) -> None:
    def interrupt(done: float, text: str) -> None:
        if text.startswith("process 2"):
            raise KeyboardInterrupt

    with pytest.raises(StudyInterrupted) as caught:
        taken_apart(progress=interrupt)
    result: Any = caught.value.result
    assert result.measured.ended == "interrupted"
    assert result.of("old", "1 arg")[LAUNCH].us > 0
    assert not fakes["workspace"].exists()


PART = {"key": "submit", "begin": "submit", "end": "submitted", "note": "", "reason": None}


@pytest.mark.parametrize("change", [
    {"parts": None}, {"parts": [1]}, {"parts": [{**PART, "note": 5}]}, {"parts": [{**PART, "reason": 5}]},
    {"parts_ns": []}, {"parts_ns": {"submit": "long"}}, {"parts_ns": {"submit": float("nan")}},
    {"stamps_ns": {"finish": 1.0}}, {"stamps_ns": None},
])
def test_an_answer_that_is_no_anatomy_ends_the_process(fakes: dict[str, Any], change: dict[str, Any]) -> None:
    fakes["new"] = {"anatomy": change}
    result = taken_apart(processes=1, repeats=1)
    assert [each.error for each in result.measured.targets] == [None, "answered what is no anatomy of a launch"]
