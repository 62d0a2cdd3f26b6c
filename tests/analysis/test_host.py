from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.columns import union
from kernelscope.analysis.gpu import STATES, dominant, host_states
from kernelscope.recording.model import Recording

ORDER = ("submit", "prepare", "dispatch", "finish", "compile", "unsplit", "call", "wait")


def one_by_one(recording: Recording, last: int) -> list[str]:
    """The state at each moment, found the slow way."""
    held: list[set[str]] = [set() for _ in range(last)]

    def mark(state: str, start: int | None, end: int | None, without: tuple[tuple[int, int], ...] = ()) -> None:
        if start is None or end is None:
            return
        for at in range(start, min(end, last)):
            if not any(a <= at < b for a, b in without):
                held[at].add(state)

    launches = recording.rows("launches")
    compiles = [(row["start_ns"], row["end_ns"]) for row in recording.rows("compilations")]
    asked = {row["launch_id"] for row in recording.rows("compilations")}
    for number, row in enumerate(launches):
        if row["compile_ns"] and number not in asked and row["dispatch_end_ns"] is not None:
            compiles.append((row["dispatch_end_ns"] - row["compile_ns"], row["dispatch_end_ns"]))
            asked.add(number)
    for number, row in enumerate(launches):
        bounds = [row[f"{name}_ns"] for name in ("start", "dispatch_end", "submit_start", "submit_end", "end")]
        mark("dispatch", bounds[0], bounds[1], tuple(compiles) if number in asked else ())
        mark("prepare", bounds[1], bounds[2])
        mark("submit", bounds[2], bounds[3])
        mark("finish", bounds[3], bounds[4])
        mark("unsplit", bounds[0], bounds[4])
    for start, end in compiles:
        mark("compile", start, end)
    for row in recording.rows("api_calls"):
        mark("call", row["start_ns"], row["end_ns"])
    for row in recording.rows("activities"):
        if row["kind"] == "sync":
            mark("wait", row["start_ns"], row["end_ns"])
        elif row["launch_id"] is None:
            mark("call", row["submit_start_ns"], row["submit_end_ns"])
    for row in recording.rows("cells"):
        mark("wait", row["end_ns"], row["synchronized_ns"])
    return [next((state for state in ORDER if state in each), "outside") for each in held]


def sums(states: list[str], start: int, end: int) -> dict[str, int]:
    return {state: states[start:end].count(state) for state in STATES}


def spans(*pairs: tuple[int, int]) -> Any:
    return union(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))


def test_phases_of_launches_one_after_another(script: Any) -> None:
    made = script()
    made.kernel()
    made.configuration()
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 20, 30, 40))
    made.now = 300
    made.launch(specialization=None, phases=(10, 0, 20, 30, 40))
    found = host_states(made.recording()).time_in(spans((105, 135), (150, 310)))
    assert found == dict.fromkeys(STATES, 0) | {
        "dispatch": 5 + 10, "prepare": 20, "submit": 5 + 10, "finish": 40, "outside": 100}
    assert dominant(found) == "outside"
    assert dominant(dict.fromkeys(STATES, 0)) is None


def test_a_compile_is_no_dispatch(script: Any) -> None:
    made = script()
    made.kernel()
    made.configuration()
    made.compilation(start_ns=120, end_ns=170, launch_id=0)
    made.now = 100
    made.launch(specialization=None, phases=(20, 50, 5, 5, 5), compilation_id=0)
    made.now = 300
    made.launch(specialization=None, phases=(10, 40, 5, 5, 5))  # the times of its compile are not known
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["dispatch"], found["compile"]) == (20 + 10, 50 + 40)


def test_waits_and_other_calls(script: Any) -> None:
    made = script()
    made.cell(start_ns=0, end_ns=400, synchronized_ns=450)
    made.kernel()
    made.configuration()
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 10, 10, 50))
    made.activity("sync", "stream", start_ns=140, duration_ns=100)  # partly while the launch finishes
    made.api_call(start_ns=200, end_ns=210)
    made.activity("kernel", "cupy_add", start_ns=300, submit_start_ns=260, submit_end_ns=270)
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["finish"], found["wait"], found["call"]) == (50, 60 - 10 + 50, 10 + 10)
    assert sum(found.values()) == 500


@pytest.mark.parametrize("seed", range(40))
def test_as_moment_by_moment(script: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    made, last = script(), 900
    made.kernel()
    made.configuration()
    overlapping, partly = seed % 2 == 1, seed % 4 == 3
    at = 0
    for _ in range(25):
        at += int(random.integers(-25, 40) if overlapping else random.integers(0, 10))
        at = max(at, 0)
        phases = tuple(int(each) for each in random.integers(0, 8, 5))
        phases = phases if random.random() < 0.3 else (phases[0], 0, *phases[2:])
        row: dict[str, Any] = {"start_ns": at, "thread_id": int(random.integers(0, 2)) if overlapping else 0}
        made.now = at
        if partly and random.random() < 0.4:
            row[str(random.choice(["submit_start_ns", "end_ns", "dispatch_end_ns"]))] = None
        launch = made.launch(0, phases, None, **row)
        held = made.rows["launches"][launch]
        if phases[1] and random.random() < 0.5 and held["dispatch_end_ns"] is not None:
            start = at + int(random.integers(0, phases[0] + 1))
            made.compilation(start_ns=start, end_ns=start + phases[1], launch_id=launch)
        if not overlapping:
            at += sum(phases)
    made.rows["launches"].sort(key=lambda row: row["start_ns"])
    renumbered = {row["launch_id"]: number for number, row in enumerate(made.rows["launches"])}
    for row in made.rows["launches"]:
        row["launch_id"] = renumbered[row["launch_id"]]
    for row in made.rows.get("compilations", []):
        row["launch_id"] = renumbered[row["launch_id"]]
    for _ in range(int(random.integers(0, 5))):
        begun = int(random.integers(0, 400))
        made.api_call(start_ns=begun, end_ns=begun + int(random.integers(1, 60)))
        begun = int(random.integers(0, 400))
        made.activity("sync", "stream", start_ns=begun, duration_ns=int(random.integers(0, 90)))
    recording = made.recording()
    states, found = one_by_one(recording, last), host_states(recording)
    for start, end in [(0, last), *np.sort(random.integers(0, last, (12, 2)), axis=1).tolist()]:
        assert found.time_in(spans((start, end))) == sums(states, start, end)
    sets = []
    for count in (3, 60):
        windows = union(begun := random.integers(0, last - 20, count), begun + random.integers(0, 20, count))
        pairs = zip(windows.start.tolist(), windows.end.tolist(), strict=True)
        inside = [state for start, end in pairs for state in states[start:end]]
        assert found.time_in(windows) == sums(inside, 0, len(inside))
        sets.append(windows)
    assert found.times_in(sets) == [found.time_in(windows) for windows in sets]
    assert found.times_in([]) == []


def test_building_for_a_cache_is_a_compile_and_what_is_done_for_graphs_a_call(script: Any) -> None:
    made = script()
    made.build(start_ns=0, end_ns=100)
    made.build(outcome="hit", start_ns=100, end_ns=150)
    made.graph_event("capture", 0, start_ns=200, end_ns=400)
    made.graph_event("instantiate", 0, start_ns=400, end_ns=450)
    made.graph_event("before", 0, start_ns=None)
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["compile"], found["call"], found["outside"]) == (100, 50, 350)
