"""Recordings and what is computed of them go to other processes and are copied; nothing of that changes them."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from everything import everything

import kernelscope
from kernelscope import Recording, load
from kernelscope.analysis import (
    builds,
    compiles,
    gpu,
    launches,
    tuning,
)
from kernelscope.analysis.columns import Rows
from kernelscope.errors import RecorderStateError
from kernelscope.features.compare import runs
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.merge import merge
from kernelscope.schema import TABLES

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
RESULTS: dict[str, Callable[[Recording], Any]] = {
    "comparison": lambda recording: recording.compare(everything(1)), "metrics": lambda _: kernelscope.metrics(
        load(FOLDER / "counters.kscope")),
    "roofline": lambda _: load(FOLDER / "counters.kscope").roofline(),
    "by_kernel": launches.by_kernel, "by_cell": launches.by_cell, "gpu_summary": gpu.gpu_summary,
    "compilations": compiles.compilations, "by_algorithm": builds.by_algorithm, "tunings": tuning.tunings,
    "runs": lambda recording: runs.runs_of(recording.rows("cells")[0], [
        runs.Source(name, recording, lambda: recording) for name in ("one", "two")]),
    "frame": lambda recording: recording.launches, "answer": lambda recording: recording.by_range(),
}


def same(first: Recording, second: Recording) -> None:
    assert {name: first.arrow(name).equals(second.arrow(name)) for name in TABLES} == dict.fromkeys(TABLES, True)
    assert first.metadata == second.metadata and first.summary() == second.summary()


def text(result: Any) -> str:
    """What it holds, without the places of objects in memory."""
    return re.sub(r"at 0x[0-9a-f]+", "", str([*result] if isinstance(result, Rows) else result))


def launch_count(recording: Recording) -> tuple[int, Recording]:
    return len(recording.launches), recording.select(cell=0)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("make", [everything, lambda: merge([everything(1), everything(2)]), lambda: Recording({}, {}),
                                  lambda: everything(1).redacted(), lambda: everything(2).select(cell=1),
                                  lambda: load(FOLDER / "workers_training.kscope")])
def test_a_recording_is_pickled_and_copied(make: Callable[[], Recording], protocol: int) -> None:
    recording = make()
    for again in (pickle.loads(pickle.dumps(recording, protocol)), copy.copy(recording), copy.deepcopy(recording),
                  copy.deepcopy({"in": [recording]})["in"][0]):
        assert again is not recording
        same(again, recording)
    recording.summary()
    recording._repr_html_()  # what was computed of it is not in a pickle
    assert len(pickle.dumps(recording)) < 2 * sum(table.nbytes for table in recording.tables.values()) + 200_000


def test_a_copy_has_metadata_of_its_own() -> None:
    recording = everything(1)
    copied = copy.deepcopy(recording)
    copied.metadata["gpu"]["source"] = "another"
    assert recording.metadata["gpu"]["source"] == "cupti"


def test_another_process_gets_a_recording_and_returns_one() -> None:
    recording = everything(1)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        count, part = pool.submit(launch_count, recording).result(timeout=120)
    assert count == len(recording.launches)
    same(part, recording.select(cell=0))


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_computed_of_a_recording_is_pickled_and_copied(name: str) -> None:
    result = RESULTS[name](everything(2))
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert type(again) is type(result)
        assert text(again) == text(result)


def test_a_recorder_is_pickled_unless_it_records() -> None:
    recorder = Recorder(probes=[], name="mine")
    with recorder:
        for make in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(RecorderStateError, match=r"cannot be copied or pickled while it records: .* stop\(\)"):
                make(recorder)
    for again in (pickle.loads(pickle.dumps(recorder)), copy.deepcopy(recorder)):
        same(again.recording, recorder.recording)
        with pytest.raises(RecorderStateError, match="started before"):
            again.start()
