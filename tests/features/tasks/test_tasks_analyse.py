"""What tasks did, and where it is said: by prefix and process, on the card, in answers, and not as ranges."""

from __future__ import annotations

from typing import Any

from handmade import US, Script

from kernelscope.analysis.ranges import by_range
from kernelscope.recording.model import Recording
from kernelscope.views.card.answer import recording_members
from kernelscope.views.card.html import card
from kernelscope.views.card.meanings import column_meaning
from kernelscope.views.timeline.build import Builder

TASK: dict[str, Any] = {"domain": "dask", "thread_id": 0}


def recorded(*ranges: dict[str, Any], launches: tuple[int, ...] = ()) -> Recording:
    """Ranges by hand, and launches of 2 µs on thread 0 at these times."""
    script = Script()
    script.launchable()
    for start in launches:
        script.launch(start_ns=start, end_ns=start + 2 * US, phases=None)
    for row in ranges:
        script.range(**row)
    return script.recording()


def two_tasks() -> Recording:
    return recorded({**TASK, "name": "step", "start_ns": 0, "end_ns": 30 * US},
                    {**TASK, "name": "step", "start_ns": 40 * US, "end_ns": None},
                    {**TASK, "name": "load", "start_ns": 31 * US, "end_ns": 32 * US},
                    launches=(US, 5 * US, 41 * US, 100 * US))


def test_tasks_of_one_prefix_are_one_row() -> None:
    table = two_tasks().by_task().set_index("task")
    assert table.index.tolist() == ["step", "load"]
    assert table.loc["step", ["tasks", "unfinished", "task_ns", "launches"]].tolist() == [2, 1, 30 * US, 4]
    assert table.loc["load", ["tasks", "unfinished", "task_ns", "launches"]].tolist() == [1, 0, US, 0]


def test_a_launch_in_a_range_inside_a_task_is_the_task_s() -> None:
    recording = recorded({**TASK, "name": "step", "start_ns": 0, "end_ns": 30 * US},
                         {"name": "inner", "start_ns": US, "end_ns": 20 * US, "parent_range_id": 0},
                         launches=(2 * US, 50 * US))
    assert recording.by_task().launches.tolist() == [1]


def test_the_card_has_tasks_and_no_ranges() -> None:
    recording = two_tasks()
    text = recording.summary()
    assert "Tasks: 3, 2 prefixes, 1 not ended" in text and "Ranges" not in text
    assert "1 not ended: recording ended before, or the worker died" in text
    assert "how many of them ran; one that was repeated counts each time" in card(recording)
    assert column_meaning("Task", {"Tasks": "tasks"}).startswith("Tasks: how many of them ran")


def test_other_ranges_beside_tasks_are_listed() -> None:
    text = recorded({**TASK, "name": "step", "start_ns": 0, "end_ns": 30 * US},
                    {"name": "inner", "start_ns": US, "end_ns": 20 * US, "parent_range_id": 0},
                    launches=(2 * US,)).summary()
    assert "Tasks: 1, 1 prefix" in text and "Ranges" in text


def test_where_nothing_was_launched_there_are_no_tasks_on_the_card() -> None:
    recording = recorded({**TASK, "name": "step", "start_ns": 0, "end_ns": 30 * US})
    assert "Tasks" not in recording.summary()
    assert recording.by_task().tasks.tolist() == [1]


def test_an_answer_has_the_same_numbers() -> None:
    members: Any = recording_members(two_tasks(), ["tasks"])
    rows = [members["tasks"].row(task) for task in members["tasks"].source]
    assert [(row["task"], row["tasks"], row["unfinished"], row["launches"]) for row in rows] == [
        ("step", 2, 1, 4), ("load", 1, 0, 0)]


def test_the_timeline_s_lane_is_called_after_them() -> None:
    labels = {lane.label for lane in Builder(two_tasks()).timeline().lanes}
    assert "Dask tasks" in labels and not [label for label in labels if label.startswith("NVTX")]


def test_tasks_are_work_of_their_own() -> None:
    def launches_waited_for(domain: str) -> int | None:
        script = Script()
        script.launchable()
        script.launch(start_ns=50, thread_id=1, phases=None, end_ns=51)
        script.range("one", start_ns=0, end_ns=100)
        script.range("two", start_ns=10, end_ns=90, thread_id=1, domain=domain)
        return next(row.other_launches for row in by_range(script.recording()) if row.label == "one")

    assert launches_waited_for("dask") == 0
    assert launches_waited_for("other") == 1
