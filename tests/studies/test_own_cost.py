"""What recording costs: statistics by hand, turns with a process that measures nothing, real launches, one real run."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibrations import FakeProcess

from kernelscope import Recorder
from kernelscope.errors import CalibrationError, KernelScopeError
from kernelscope.recorder.overhead import stored
from kernelscope.studies import calibrate, calibration
from kernelscope.studies.calibration import (
    ARGUMENTS,
    LEAST_ROUNDS,
    Batch,
    Calibrator,
    Mode,
    Round,
    cost,
    measure_rounds,
    tail,
)
from kernelscope.studies.process import ProcessError, RefusedError

PLAIN, AGAIN, RECORDED = Mode(None), Mode(None, True), Mode("phases")
HELLO = {"gpu": None, "best_ns": 100}


def rounds_of(added_ns: float, rounds: int = 60, noise: float = 40.0, drift: float = 0.0) -> list[Round]:
    chance = np.random.default_rng(3)

    def batch(number: int, extra: float) -> Batch:
        middle_ns = 5000.0 + drift * number + extra + chance.normal(0, noise)
        return Batch(middle_ns, [round(each) for each in chance.normal(middle_ns, 100, 100)])

    return [{(0, mode): batch(number, added_ns * (mode == RECORDED)) for mode in (PLAIN, AGAIN, RECORDED)}
            for number in range(rounds)]


def test_a_cost_is_the_median_of_paired_differences() -> None:
    found = cost(rounds_of(100.0), 0, RECORDED)
    assert found.added.low_ns < 100 < found.added.high_ns
    assert 80 < found.added.middle_ns < 120 and found.added.is_seen
    assert found.same.low_ns < 0 < found.same.high_ns
    assert (found.arguments, found.rounds, round(found.launch_ns, -2)) == (0, 60, 5000)
    assert 60 < found.tail.added.middle_ns < 140


def test_nothing_is_no_difference() -> None:
    found = cost(rounds_of(0.0), 0, RECORDED)
    assert not found.added.is_seen
    assert found.added.counted_ns == found.added.high_ns > 0


def test_an_outlier_is_not_a_cost() -> None:
    made = rounds_of(0.0)
    made[7][0, RECORDED] = Batch(5_000_000.0, [5_000_000])
    assert not cost(made, 0, RECORDED).added.is_seen


def test_the_tail_is_that_of_all_launches_together() -> None:
    without = [np.arange(1, 101, dtype=float) for _ in range(30)]
    recorded = [np.append(np.arange(1, 99, dtype=float), [1000.0, 1000.0]) for _ in range(30)]
    found = tail(without, recorded)
    assert (found.without_ns, found.recorded_ns) == (99.0, 1000.0)
    assert (found.added.low_ns, found.added.middle_ns, found.added.high_ns) == (901.0, 901.0, 901.0)


def test_one_bad_round_widens_the_tail_and_no_more() -> None:
    without = [np.full(100, 50.0) for _ in range(30)]
    recorded = [np.full(100, 50.0) for _ in range(29)] + [np.full(100, 9000.0)]
    found = tail(without, recorded)
    assert found.added.low_ns == 0.0
    assert found.added.high_ns == 8950.0


def turns(asked: list[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(request["arguments"], request["detail"]) for request in asked]


def measured(process: FakeProcess, seconds: float = 60.0, **hello: Any) -> tuple[list[Round], bool, list[float]]:
    told: list[float] = []
    rounds, quiet = measure_rounds(process.ask, {**HELLO, **hello}, seconds, random.Random(1),
                                   lambda done, _: told.append(done), clock=process.seconds)
    return rounds, quiet, told


def test_all_take_turns_in_another_order_each_round() -> None:
    process = FakeProcess(lambda request, number: 5000.0)
    rounds, quiet, told = measured(process)
    each = 2 * (2 + 2)
    warm_up, first, second = (turns(process.asked[start:start + each]) for start in (0, each, 2 * each))
    assert sorted(warm_up, key=str) == sorted(first, key=str) == sorted(second, key=str)
    assert first != second
    assert first.count((4, None)) == 2
    assert all(set(made) == {(arguments, mode) for arguments in ARGUMENTS for mode in (
        PLAIN, AGAIN, Mode("launch"), RECORDED)} for made in rounds)
    assert quiet and told == sorted(told) and told[-1] <= 1.0


@pytest.mark.parametrize(("batch_s", "rounds"), [(0.1, 74), (60.0, LEAST_ROUNDS), (0.00001, 400)])
def test_it_ends_in_time(batch_s: float, rounds: int) -> None:
    """60 s are 75 rounds of 8 batches of 0.1 s: another one would end too late."""
    process = FakeProcess(lambda request, number: 5000.0, batch_s)
    assert abs(len(measured(process)[0]) - rounds) <= 1


def test_rounds_that_were_not_quiet_are_left_out() -> None:
    process = FakeProcess(lambda request, number: 5000.0 if number % 16 < 8 else 9000.0)
    process.reference_ns = lambda number: 100 if number % 16 < 8 else 300
    rounds, quiet, _ = measured(process)
    assert quiet and len(rounds) > LEAST_ROUNDS
    assert {batch.launch_ns for made in rounds for batch in made.values()} == {5000.0}


def test_without_enough_quiet_rounds_all_count() -> None:
    process = FakeProcess(lambda request, number: 5000.0)
    process.reference_ns = lambda number: 300
    rounds, quiet, _ = measured(process)
    assert not quiet and len(rounds) > LEAST_ROUNDS


class Process(FakeProcess):
    """A process that can be closed; `failure` is raised instead of the answer to a batch."""

    failure: Exception | None = None
    is_killed = False

    def __init__(self) -> None:
        super().__init__(lambda request, number: 5400.0 if request["detail"] else 5000.0)

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return super().ask(request, timeout_s)

    def close(self) -> None:
        pass

    def kill(self) -> None:
        self.is_killed = True


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process()
    monkeypatch.setattr(calibration, "_started", lambda dry_run, cores: (made, HELLO))
    return made


def test_what_was_measured_is_stored(process: Process, tmp_path: Path) -> None:
    found = calibrate(seconds=0.01, path=tmp_path / "c.json", pin=False, progress=False)
    assert set(stored(tmp_path / "c.json").calibrations) == set(found)
    assert [each.setting.detail for each in found] == ["launch", "phases"]
    assert [each.worst.added.middle_ns for each in found] == [400.0, 400.0]
    assert process.is_killed


def test_what_was_measured_need_not_be_stored(process: Process, tmp_path: Path) -> None:
    assert calibrate(seconds=0.01, path=tmp_path / "c.json", save=False, progress=False)
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize("failure", [ProcessError("it crashed"), RefusedError("launches are not recorded")])
def test_a_process_that_fails_stores_nothing(process: Process, tmp_path: Path, failure: Exception) -> None:
    process.failure = failure
    with pytest.raises(CalibrationError, match=f"recording cannot be calibrated: {failure}"):
        calibrate(path=tmp_path / "c.json", progress=False)
    assert process.is_killed and not (tmp_path / "c.json").exists()


def test_a_ctrl_c_ends_the_process(process: Process, tmp_path: Path) -> None:
    def interrupt(done: float, text: str) -> None:
        if text.startswith("round 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(path=tmp_path / "c.json", progress=interrupt)
    assert process.is_killed and not (tmp_path / "c.json").exists()


def test_two_at_once(process: Process, tmp_path: Path) -> None:
    """The second one is refused before it disturbs the first."""
    began, go_on = threading.Event(), threading.Event()

    def wait(done: float, text: str) -> None:
        began.set()
        go_on.wait(60)

    first = threading.Thread(target=calibrate, kwargs={"seconds": 0.01, "path": tmp_path / "c.json", "progress": wait})
    first.start()
    try:
        assert began.wait(60)
        with pytest.raises(CalibrationError, match="another calibration is under way"):
            calibrate(path=tmp_path / "c.json", progress=False)
    finally:
        go_on.set()
        first.join()
    assert len(stored(tmp_path / "c.json").calibrations) == 2


def test_the_simulator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    with pytest.raises(KernelScopeError, match="the CUDA simulator is on"):
        calibrate()


def test_without_a_gpu_it_is_the_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def greeted(fields: dict[str, Any], cores: list[int]) -> Any:
        asked.append(fields)
        if not fields:
            raise RefusedError("no CUDA GPU is available")
        return Process(), HELLO

    monkeypatch.setattr(calibration, "_greeted", greeted)
    monkeypatch.setattr(calibration, "is_dry_run", lambda: False)
    calibration._started(None, [])
    assert [bool(fields) for fields in asked] == [False, True]
    asked.clear()
    with pytest.raises(RefusedError):
        calibration._started(False, [])
    monkeypatch.setattr(calibration, "is_dry_run", lambda: True)
    calibration._started(None, [])
    assert [bool(fields) for fields in asked] == [False, True]


@pytest.mark.slow
def test_a_real_run_on_the_dry_run(tmp_path: Path, run_python: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are measured and recorded; a new process then states their cost."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state := tmp_path / "state"))
    monkeypatch.setattr(calibration, "LEAST_ROUNDS", 3)
    calibrate(seconds=0.1, dry_run=True, pin=False, progress=False)
    held = stored(state / "kernelscope" / "calibration.json").calibrations
    assert {each.setting.detail for each in held} == {"launch", "phases"}
    assert all(one.launch_ns > 0 and one.rounds >= 3 for each in held for one in each.costs)
    said = run_python("import kernelscope\nfrom numba import cuda\n@cuda.jit\ndef f(): pass\n"
                      "with kernelscope.record() as r: f[1, 32]()\n"
                      "print(*r.recording.health.message)", XDG_STATE_HOME=str(state), KERNELSCOPE_DRYRUN="1").stdout
    assert "calibrated on this machine on " in said


# ---- The process that measures ----


@pytest.fixture(scope="module")
def calibrator() -> Iterator[Calibrator]:
    made = Calibrator()
    hello = made.answer({"do": "hello", "pin": None})
    assert (hello["ok"], hello["is_dry_run"], hello["gpu"]) == (True, True, None)
    assert hello["best_ns"] > 0
    yield made
    gc.unfreeze()


def batch(calibrator: Calibrator, detail: str | None = None) -> dict[str, Any]:
    return calibrator.answer({"do": "batch", "arguments": 4, "detail": detail, "launches": 20})


@pytest.mark.slow
@pytest.mark.parametrize("detail", [None, "phases"])
def test_a_batch_times_launches_together_and_alone(calibrator: Calibrator, detail: str | None) -> None:
    found = batch(calibrator, detail)
    assert found["ok"] and found["host_ns"] > 20 * 500
    assert len(found["singles"]) == 20 and min(found["singles"]) > 500
    assert found["reference_ns"] > 0


def test_a_batch_is_recorded_as_it_was_asked_for(calibrator: Calibrator, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    class Watched(Recorder):
        def __init__(self, name: str, **how: Any) -> None:
            made.append(how)
            super().__init__(name, **how)

    batch(calibrator)  # the first one with so many arguments prepares them, and records that
    monkeypatch.setattr("kernelscope.recorder.recorder.Recorder", Watched)
    batch(calibrator)
    assert made == []
    batch(calibrator, "launch")
    assert made == [{"detail": "launch", "gpu": "none"}]


def test_launches_that_are_not_recorded_are_no_cost(calibrator: Calibrator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.probes.numba_cuda.self_check", lambda module: ["it is another one"])
    found = batch(calibrator, "phases")
    assert not found["ok"]
    assert found["error"].startswith("launches are not recorded on this machine: it is another one")


@pytest.mark.parametrize(("request_", "said"), [
    ({"do": "dance"}, "a request to do 'dance' is not known; known: hello, prepare, batch"),
    ({"do": "batch", "arguments": 0, "detail": None, "launches": 5}, "no framework yet"),
])
def test_a_wrong_request_is_answered(request_: dict[str, Any], said: str) -> None:
    answer = Calibrator().answer(request_)
    assert answer["ok"] is False and said in answer["error"]
