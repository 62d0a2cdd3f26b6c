"""Cases that are callables: measured in this process, as a benchmark process measures."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope import studies
from kernelscope.errors import StudyError
from kernelscope.studies.bench import timing as timed


def is_frozen() -> bool:
    return gc.get_freeze_count() > timed.FROZEN_BY_PYTHON


@pytest.fixture
def launched() -> Any:
    from numba import cuda

    @cuda.jit
    def nothing(array: Any) -> None:
        pass

    array = cuda.device_array(1)
    configured = nothing[1, 1]
    configured(array)
    return lambda: configured(array)


def spun(launch: Any, ns: int = 200_000) -> Any:
    def slower() -> None:
        launch()
        until = time.perf_counter_ns() + ns
        while time.perf_counter_ns() < until:
            pass

    return slower


def measure(*cases: Any, **options: Any) -> Any:
    return studies.launch_overhead(cases=cases, **{"processes": 4, "repeats": 3, "progress": False, **options})


def test_callables_are_measured_here_and_compared_and_text_with_them(launched: Any) -> None:
    result = measure(studies.case(launched, name="plain"),
                     studies.case(spun(launched), name="spun", against="plain"), "1 args")
    measured = result.measured
    assert measured.is_live
    assert measured.is_dry_run
    assert [report.label for report in measured.targets] == ["current"]
    assert measured.targets[0].framework == "numba-cuda"
    assert measured.targets[0].processes == 1
    assert measured.ended == "all processes"
    assert {batch[3] for batch in measured.batches} == set(range(12))
    assert {batch[1] for batch in measured.batches} == {"plain", "spun", "1 arg"}
    difference, = result.differences
    assert difference.within
    assert difference.difference_us > 100  # half of it: a busy machine may hold up either, and makes it more
    assert "measured in one process" in " ".join(str(result).split())


def test_nothing_of_this_process_is_changed(launched: Any) -> None:
    before = dict(os.environ), os.sched_getaffinity(0), gc.isenabled(), is_frozen()
    measure(launched, processes=1)
    assert (dict(os.environ), os.sched_getaffinity(0), gc.isenabled(), is_frozen()) == before


def test_advice_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import cuda
    from numba.cuda.core import config

    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
    monkeypatch.setattr(config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)

    @cuda.jit
    def nothing(array: Any) -> None:
        pass

    on_host = np.zeros(1)
    result = measure(studies.case(lambda: nothing[1, 1](on_host)), processes=1)  # a warning would be an error
    assert result.measured.targets[0].unavailable == {}
    assert (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY) == (1, 1)


_STUDY_BEFORE_NUMBA = """
import warnings
from kernelscope import dryrun, studies
dryrun.enable()
studies.launch_overhead(cases=[lambda: None], processes=1, repeats=3, progress=False)
import numpy as np
from numba import cuda
kernel = cuda.jit(lambda array: None)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kernel[1, 1](np.zeros(1))
print(sorted({warning.message.args[0].split(" ")[0] for warning in caught}))
"""


@pytest.mark.slow
def test_advice_is_as_before_where_a_study_imported_numba() -> None:
    ran = subprocess.run([sys.executable, "-c", _STUDY_BEFORE_NUMBA], capture_output=True, text=True, timeout=600,
                         env={name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")})
    assert ran.returncode == 0, ran.stderr
    assert "Host" in ran.stdout and "Grid" in ran.stdout


def test_other_targets_cannot_run_them(launched: Any) -> None:
    case = studies.case(launched, name="mine")
    with pytest.raises(StudyError, match="'mine' is a callable, which only this process can run, and 'old' is another"):
        measure(case, targets=["current", "old=numba-cuda==0.29.0"])
    with pytest.raises(StudyError, match="it can have one target, 'current', and there are 2"):
        measure(case, targets=["a=current", "b=current"])


def test_a_call_that_runs_nothing_is_refused(launched: Any) -> None:
    async def later() -> None:
        launched()

    def one_by_one() -> Any:
        yield launched()

    class Later:
        async def __call__(self) -> None:
            launched()

    for case, made in ((later, "'later' makes a coroutine"), (one_by_one, "'one_by_one' makes a generator"),
                       (Later(), "'Later' makes a coroutine")):
        with pytest.raises(StudyError, match=f"a call of {made} and runs nothing of it"):
            measure(case)


def test_a_recording_would_be_measured_too(launched: Any) -> None:
    with kernelscope.record("cell"), pytest.raises(StudyError, match="a recording is under way"):
        measure(launched)


def test_what_it_raises_is_told(launched: Any) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(StudyError, match="none of the cases can be run: .*ZeroDivisionError: division by") as caught:
        measure(broken)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    result = measure(broken, launched)
    assert list(result.measured.targets[0].unavailable) == ["broken"]


def test_one_that_fails_later_is_told(launched: Any) -> None:
    calls = iter(range(20_000))

    def tired() -> None:
        next(calls)
        launched()

    with pytest.raises(StudyError, match="StopIteration"):
        measure(tired, processes=1000, half_width=None)


def test_a_ctrl_c_has_what_was_measured(launched: Any) -> None:
    rounds = []

    def tell(done: float, text: str) -> None:
        rounds.append(text)
        if text.startswith("round 5 "):
            raise KeyboardInterrupt

    with pytest.raises(studies.StudyInterrupted) as caught:
        measure(launched, progress=tell)
    result = caught.value.result
    assert result is not None
    assert result.measured.ended == "interrupted"
    assert {batch[3] for batch in result.measured.batches} == {0, 1, 2, 3}
    assert gc.isenabled()
    assert not is_frozen()


def test_a_limit_ends_it(launched: Any) -> None:
    result = measure(launched, processes=10_000, limit_s=0.8, half_width=None)
    assert result.measured.ended == "time limit"
    assert len(result.measured.batches) < 10_000 * 3


def test_it_ends_when_it_is_enough(launched: Any) -> None:
    result = measure(launched, processes=1000, half_width=0.99)
    assert result.measured.ended == "narrow enough"
    assert len(result.measured.batches) == 8 * 3
