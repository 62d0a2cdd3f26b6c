"""What answers in the process that measures: real launches of the dry run, recorded and not."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from kernelscope import Recorder
from kernelscope.studies.calibration import Calibrator


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
