from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counting import lines_run
from handmade import Script, many_launches

from kernelscope.analysis.launches import PHASES
from kernelscope.analysis.ranges import (
    MOST_WAITING,
    UNNAMED,
    as_tree,
    attribute,
    attribute_activities,
    by_range,
    waits_of_ranges,
)
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.recording.paths import MOST_NAMES
from kernelscope.schema import TABLES
from kernelscope.views.card.model import Overview


def recording_of(ranges: list[dict[str, Any]], launches: list[tuple[int, int]]) -> Recording:
    """Ranges by hand, and launches of 1 ns at (time, thread)."""
    script = Script()
    script.launchable()
    for start, thread in launches:
        script.launch(start_ns=start, thread_id=thread, phases=None, end_ns=start + 1)
    for row in ranges:
        script.range(**row)
    return script.recording()


def brute_force(ranges: list[dict[str, Any]], launches: list[tuple[int, int]]) -> list[int]:
    found = []
    for at, thread in launches:
        begun = [number for number, row in enumerate(ranges) if row["start_ns"] is None or row["start_ns"] <= at]
        open_ = [number for number in begun if ranges[number]["end_ns"] is None or at < ranges[number]["end_ns"]]
        nested = [each for each in open_ if ranges[each].get("kind", "push_pop") == "push_pop"
                  and ranges[each].get("thread_id", 0) == thread]
        process = [each for each in open_ if ranges[each].get("kind") == "start_end"]
        found.append(nested[-1] if nested else process[-1] if process else -1)
    return found


def test_innermost_range_of_the_thread() -> None:
    ranges = [
        {"start_ns": 0, "end_ns": 100},
        {"start_ns": 10, "end_ns": 50, "parent_range_id": 0},
        {"start_ns": 20, "end_ns": 30, "parent_range_id": 1},
        {"start_ns": 50, "end_ns": 100, "parent_range_id": 0},
        {"start_ns": 120, "end_ns": None},
    ]
    launches = [(at, 0) for at in (0, 9, 10, 20, 29, 30, 49, 50, 99, 100, 119, 120, 500)] + [(600, 1)]
    found = attribute(recording_of(ranges, launches)).tolist()
    assert found == [0, 0, 1, 2, 2, 1, 1, 3, 3, -1, -1, 4, 4, -1]
    assert found == brute_force(ranges, launches)


def test_domains_need_not_nest() -> None:
    ranges = [{"start_ns": 0, "end_ns": 20, "domain": "a"},
              {"start_ns": 10, "end_ns": 30, "domain": "b", "parent_range_id": 0}]
    assert attribute(recording_of(ranges, [(5, 0), (15, 0), (25, 0), (30, 0)])).tolist() == [0, 1, 1, -1]


def test_start_end_ranges_where_no_other_is_open() -> None:
    ranges = [
        {"start_ns": 0, "end_ns": 100, "kind": "start_end", "thread_id": 1},
        {"start_ns": 10, "end_ns": 20, "kind": "start_end"},
        {"start_ns": 30, "end_ns": 40},
        {"start_ns": 35, "end_ns": 35, "kind": "mark", "parent_range_id": 2},
    ]
    launches = [(5, 0), (15, 0), (25, 0), (35, 0), (36, 1), (45, 0), (100, 0)]
    assert attribute(recording_of(ranges, launches)).tolist() == [0, 1, 0, 2, 0, 0, -1]


def test_range_without_a_start_and_one_of_no_time() -> None:
    ranges = [{"start_ns": None, "end_ns": 50}, {"start_ns": None, "end_ns": 20, "parent_range_id": 0},
              {"start_ns": 30, "end_ns": 30, "parent_range_id": 0},
              {"start_ns": 30, "end_ns": 40, "parent_range_id": 2}]
    assert attribute(recording_of(ranges, [(1, 0), (20, 0), (30, 0), (45, 0), (50, 0)])).tolist() == [1, 0, 3, 0, -1]


@pytest.mark.parametrize("seed", range(12))
def test_as_brute_force_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = np.sort(random.choice(10_000, 60, replace=False)).tolist()
    ranges: list[dict[str, Any]] = [
        {"start_ns": start, "end_ns": None if random.random() < 0.1 else start + int(random.integers(1, 3000)),
         "thread_id": int(random.integers(0, 2)), "kind": str(random.choice(["push_pop", "push_pop", "start_end"]))}
        for start in starts
    ]
    launches = [(at, int(random.integers(0, 3))) for at in np.sort(random.choice(14_000, 300, replace=False)).tolist()]
    assert attribute(recording_of(ranges, launches)).tolist() == brute_force(ranges, launches)


def story() -> Recording:
    script = Script()
    script.cell()
    script.launchable()
    begin = script.now
    script.launch()
    first = script.now
    script.launch()
    script.launch(phases=(1_000, 0, 1_000, 1_000, 1_000))
    second = script.now
    script.launch()
    end = script.now
    script.launch()
    for row in (
        {"name": "epoch", "start_ns": begin, "end_ns": end},
        {"name": "step", "start_ns": first, "end_ns": second - 1, "parent_range_id": 0, "depth": 1},
        {"name": "step", "start_ns": second, "end_ns": end, "parent_range_id": 0, "depth": 1, "domain": "d"},
        {"name": "m", "start_ns": second, "end_ns": second, "kind": "mark", "parent_range_id": 2, "depth": 2},
        {"name": "", "start_ns": end + 1_000_000, "end_ns": None},
    ):
        script.range(**row)
    return script.recording()


def test_by_range_adds_up() -> None:
    recording = story()
    rows = by_range(recording)
    assert [(row.path, row.ranges, row.unclosed, row.launches, row.host_ns) for row in rows] == [
        (("epoch", "step"), 2, 0, 3, 24_000), (("epoch",), 1, 0, 1, 10_000), ((UNNAMED,), 1, 1, 0, None)]
    assert rows[0].totals.segments == (("dispatch", 7_000), ("prepare", 9_000), ("submit", 5_000), ("finish", 3_000))
    assert Overview(recording).marks == 1


def test_view_is_a_table() -> None:
    table = story().by_range()
    assert table.path.tolist() == ["epoch / step", "epoch", UNNAMED]
    assert table.launches.tolist() == [3, 1, 0]
    assert table.host_ns.isna().tolist() == [False, False, True]
    assert table[[f"{name}_ns" for name in PHASES]].iloc[0].tolist() == [7_000, 0, 0, 9_000, 5_000, 0, 3_000]
    empty = recording_of([], []).by_range()
    assert list(empty.columns) == list(table.columns)
    assert len(empty) == 0


def test_merged_recordings_keep_their_ranges() -> None:
    merged = merge([story(), story()])
    assert next((row.path, row.ranges, row.launches) for row in by_range(merged)) == (("epoch", "step"), 4, 6)


def large(kind: str, count: int = 10_000) -> Recording:
    """So many ranges, and ten launches to each."""
    recording = many_launches(10 * count, 5)
    times = recording.column("launches", "start_ns")
    step = int(times[-1] - times[0]) // (count // 10)
    outer = times[0] + np.arange(count // 10) * step
    start = (outer[:, None] + np.arange(10) * (step // 10)).ravel()
    inner = np.arange(count) % 10 != 0
    ranges = make_table("ranges", {
        "range_id": np.arange(count), "thread_id": np.zeros(count, np.int32),
        "parent_range_id": np.where(inner & (kind == "push_pop"), np.arange(count) // 10 * 10, -1),
        "name": [f"r{number % 10}" for number in range(count)], "kind": [kind] * count,
        "source": ["python"] * count, "start_ns": start,
        "end_ns": np.where(inner, start + step // 12, start + step - 1), "depth": inner.astype(np.int32),
    })
    return Recording({**{name: recording.arrow(name) for name in TABLES}, "ranges": ranges}, {})


def test_many_launches_are_attributed_in_arrays() -> None:
    few, many = large("push_pop", 1000), large("push_pop")
    assert lines_run(lambda: attribute(many)) < 1.2 * lines_run(lambda: attribute(few))
    assert np.array_equal(attribute(many), attribute(large("start_end")))


def gpu_story() -> Recording:
    """A launch in a range, its kernel after the range's end; a kernel of another library; copies; a start/end range."""
    script = Script(gpu={"source": "cupti"})
    script.launchable()
    script.range("outer", start_ns=0, end_ns=1_000)
    script.range("inner", start_ns=100, end_ns=200, parent_range_id=0, depth=1)
    script.range("other thread", start_ns=100, end_ns=900, thread_id=1)
    script.range("process", start_ns=950, end_ns=3_000, kind="start_end")
    script.now = 150
    script.launch(phases=(1, 0, 1, 1, 1))
    script.now = 1_500
    script.launch(phases=(1, 0, 1, 1, 1))
    script.activity(launch_id=0, start_ns=700, duration_ns=40, submit_start_ns=150)
    script.activity(name="cupy_add", start_ns=800, duration_ns=7, submit_start_ns=500)
    script.activity("memcpy", "HtoD", start_ns=820, duration_ns=11, submit_start_ns=120, thread_id=1)
    script.activity(launch_id=1, start_ns=1_600, duration_ns=60, submit_start_ns=120)  # a launch's own range goes first
    script.activity("memset", "memset", start_ns=1_700, duration_ns=3, submit_start_ns=3_500)
    script.activity(start_ns=1_800, submit_start_ns=None)
    script.activity(start_ns=None, submit_start_ns=130)
    script.activity("sync", "stream", start_ns=160, duration_ns=5, submit_start_ns=160)
    return script.recording()


def test_activities_belong_to_the_range_at_launch() -> None:
    recording = gpu_story()
    found = attribute_activities(recording).tolist()
    rows = recording.rows("activities")
    names = [recording.rows("ranges")[at]["name"] if at >= 0 else None for at in found]
    assert sorted(zip([row["name"] for row in rows], [str(row["launch_id"]) for row in rows], names, strict=True),
                  key=str) == sorted([
        ("axpy", "0", "inner"), ("cupy_add", "None", "outer"), ("HtoD", "None", "other thread"),
        ("axpy", "1", "process"), ("memset", "None", None), ("axpy", "None", None), ("axpy", "None", "inner"),
        ("stream", "None", "inner"),
    ], key=str)
    assert attribute_activities(recording, attribute(recording)).tolist() == found
    assert attribute_activities(recording_of([], [])).tolist() == []


def test_gpu_time_by_range() -> None:
    rows = {row.name: row for row in by_range(gpu_story())}
    found = {name: (row.launches, row.activities, row.kernel_ns, row.copy_ns, row.gpu_ns) for name, row in rows.items()}
    assert found == {
        "outer / inner": (1, 2, 40, 0, 40), "outer": (0, 1, 7, 0, 7), "other thread": (0, 1, 0, 11, 11),
        "process": (1, 1, 60, 0, 60)}
    table = gpu_story().by_range()
    assert table.set_index("path").gpu_ns.to_dict() == {name: row.gpu_ns for name, row in rows.items()}


def test_gpu_time_that_is_not_known_is_none() -> None:
    assert all(row.gpu_ns is row.kernel_ns is row.copy_ns is row.activities is None for row in by_range(story()))
    script = Script(gpu={"source": "cupti"})
    script.range("r", start_ns=0, end_ns=100)
    script.activity(start_ns=None, submit_start_ns=50)
    only = by_range(script.recording())[0]
    assert (only.activities, only.kernel_ns, only.copy_ns) == (1, None, 0)


def test_launches_timed_with_events_have_gpu_time() -> None:
    script = Script(gpu={"source": "events"})
    script.launchable()
    script.range("r", start_ns=0)
    script.launch(execute_ns=500)
    only = by_range(script.recording())[0]
    assert (only.kernel_ns, only.activities) == (500, 0)


def test_durations_with_and_without_what_is_inside() -> None:
    found = {each.name: each for each in by_range(recording_of([
        {"name": "step", "start_ns": 0, "end_ns": 100},
        {"name": "load", "start_ns": 10, "end_ns": 40, "parent_range_id": 0, "depth": 1},
        {"name": "load", "start_ns": 50, "end_ns": 60, "parent_range_id": 0, "depth": 1},
        {"name": "step", "start_ns": 200, "end_ns": 500},
        {"name": "open", "start_ns": 600, "end_ns": None},
    ], []))}
    step, load, unclosed = found["step"], found["step / load"], found["open"]
    assert (step.inclusive_ns, step.exclusive_ns) == (400, 360)
    assert (step.shortest_ns, step.median_ns, step.longest_ns) == (100, 200, 300)
    assert (load.inclusive_ns, load.exclusive_ns, load.depth) == (40, 40, 1)
    assert (unclosed.inclusive_ns, unclosed.exclusive_ns, unclosed.median_ns) == (None, None, None)


def test_a_tree_has_the_longest_first_and_what_is_inside_below() -> None:
    ranges = [
        {"name": "short", "start_ns": 0, "end_ns": 10},
        {"name": "long", "start_ns": 20, "end_ns": 90},
        {"name": "b", "start_ns": 20, "end_ns": 30, "parent_range_id": 1, "depth": 1},
        {"name": "a", "start_ns": 40, "end_ns": 80, "parent_range_id": 1, "depth": 1},
        {"name": "b", "start_ns": 50, "end_ns": 60, "parent_range_id": 3, "depth": 2},
    ]
    assert [each.name for each in as_tree(by_range(recording_of(ranges, [])))] == [
        "long", "long / a", "long / a / b", "long / b", "short"]


def nested(count: int, name: str = "step {}") -> Recording:
    """So many ranges inside of each other, with a launch in the innermost."""
    script = Script()
    script.launchable()
    script.launch(start_ns=count, end_ns=count + 1, phases=None)
    for at in range(count):
        script.range(name=name.format(at), start_ns=at, end_ns=10 * count - at, depth=at,
                     parent_range_id=at - 1 if at else None)
    return script.recording()


def test_ranges_inside_each_other_by_the_thousand_have_short_paths() -> None:
    """A path of 20,000 names for each of as many ranges would be 200 million names."""
    rows = as_tree(by_range(nested(20_000)))
    assert [row.depth for row in rows] == [*range(20_000)]
    assert all(len(row.path) <= MOST_NAMES + 1 for row in rows)
    assert rows[-1].path[:2] == ("step 0", "step 1") and rows[-1].path[-2:] == ("step 19998", "step 19999")
    assert "(19,968 more)" in rows[-1].path and rows[MOST_NAMES - 1].path == tuple(
        f"step {at}" for at in range(MOST_NAMES))
    assert (rows[0].inclusive_launches, rows[0].launches, rows[-1].launches) == (1, 0, 1)
    assert rows[0].exclusive_ns == 2


def test_work_grows_as_the_depth_of_ranges_does() -> None:
    some, twice = (lines_run(lambda recording=recording: as_tree(by_range(recording)))
                   for recording in (nested(500), nested(1_000)))
    assert twice < 2.2 * some


def test_deep_ranges_of_two_recordings_are_compared_by_all_their_names() -> None:
    """Also by those in the middle of a path, which are not shown."""
    one, other = nested(100), nested(100)
    names = other.arrow("ranges").column("name").to_pylist()
    names[50] = "another"
    table = other.arrow("ranges")
    index = table.schema.get_field_index("name")
    changed = Recording({**other.tables, "ranges": table.set_column(index, table.schema.field(index), [names])}, {})
    statuses = [row.status for row in one.compare(changed).changes.section("ranges").rows]
    assert {status: statuses.count(status) for status in statuses} == {"new": 50, "gone": 50, "same": 50}
    assert {row.status for row in one.compare(nested(100)).changes.section("ranges").rows} == {"same"}


def test_what_is_inside_counts_for_the_ranges_around_it_too() -> None:
    """Also where a range is inside one of the same name, and on several threads; an open one has no duration."""
    ranges = [
        {"name": "step", "start_ns": 0, "end_ns": 100},
        {"name": "step", "start_ns": 10, "end_ns": 60, "parent_range_id": 0},
        {"name": "step", "start_ns": 20, "end_ns": 120, "thread_id": 1},
        {"name": "load", "start_ns": 70, "end_ns": 90, "parent_range_id": 0},
        {"name": "open", "start_ns": 200, "end_ns": None},
    ]
    launches = [(5, 0), (15, 0), (30, 1), (75, 0), (210, 0)]
    found = {each.path: (each.ranges, each.inclusive_ns, each.exclusive_ns, each.longest_ns, each.launches,
                         each.inclusive_launches, each.host_ns, each.inclusive_host_ns)
             for each in by_range(recording_of(ranges, launches))}
    assert found == {
        ("step",): (2, 200, 130, 100, 2, 4, 2, 4), ("step", "step"): (1, 50, 50, 50, 1, 1, 1, 1),
        ("step", "load"): (1, 20, 20, 20, 1, 1, 1, 1), ("open",): (1, None, None, None, 1, 1, 1, 1),
    }


def test_ranges_of_one_name_of_pytorch_are_one_row() -> None:
    """The name of each range has an id of its own, which the row of the range keeps."""
    names = [f"aten::add, seq = {at}, op_id = {at + 7}, sizes = [[{at}, 2], []]" for at in range(3)]
    recording = recording_of(
        [{"name": "step", "start_ns": 0, "end_ns": 100}] + [
            {"name": name, "start_ns": 10 * at + 10, "end_ns": 10 * at + 20, "parent_range_id": 0}
            for at, name in enumerate(names)], [(12, 0), (22, 0), (32, 0)])
    (add,) = [each for each in by_range(recording) if each.path == ("step", "aten::add")]
    assert (add.ranges, add.launches, add.inclusive_ns) == (3, 3, 30)
    assert [row["name"] for row in recording.rows("ranges")] == ["step", *names]
    redacted = by_range(recording.redacted())
    assert sorted((each.depth, each.ranges) for each in redacted) == [(0, 1), (1, 3)]


# What other threads launched while a range's own thread waited.


def backward_story() -> Script:
    """A step of training: thread 0 launches and waits in backward(), for which thread 1 launches."""
    script = Script(gpu={"source": "cupti"})
    script.launchable()
    script.range("step", start_ns=0, end_ns=200)
    script.range("backward", start_ns=50, end_ns=150, parent_range_id=0, depth=1)
    script.range("nccl:all_reduce", start_ns=110, end_ns=120, thread_id=1)
    for start, thread in ((10, 0), (60, 0), (80, 1), (100, 1), (112, 1), (140, 0), (145, 1), (180, 0)):
        number = script.launch(start_ns=start, thread_id=thread, phases=None, end_ns=start + 4)
        script.activity(launch_id=number, start_ns=start + 300, duration_ns=7, thread_id=thread)
    script.activity("memcpy", "HtoD", start_ns=900, duration_ns=11, thread_id=1, submit_start_ns=90, submit_end_ns=95)
    return script


def others_of(recording: Recording) -> dict[str, tuple[Any, ...]]:
    return {each.name: (each.launches, each.other_launches, each.other_host_ns, each.other_gpu_ns)
            for each in by_range(recording)}


def test_what_autograd_launched_is_counted_beside_the_range_around_it() -> None:
    recording = backward_story().recording()
    assert others_of(recording) == {
        "step": (2, 0, 0, 0), "step / backward": (2, 4, 16, 4 * 7 + 11), "nccl:all_reduce": (1, 0, 0, 0)}
    step = next(each for each in by_range(recording) if each.name == "step")
    assert (step.inclusive_launches, step.inclusive_other_launches, step.inclusive_other_gpu_ns) == (4, 4, 39)
    frame = recording.by_range().set_index("path")
    assert frame.loc["step / backward", ["launches", "other_launches", "other_host_ns", "other_gpu_ns"]].tolist() == [
        2, 4, 16, 39]
    assert frame["launches"].sum() == 5  # each launch once: those of thread 1 are in a range of its own, or in none
    text = recording.summary()
    assert "others" in text.split("Ranges:")[1].splitlines()[1]


def test_threads_that_launch_side_by_side_keep_what_is_theirs() -> None:
    ranges = [{"name": "one", "start_ns": 0, "end_ns": 100},
              {"name": "two", "start_ns": 5, "end_ns": 95, "thread_id": 1}]
    launches = [(at, at // 10 % 2) for at in range(20, 100, 10)]
    assert {name: found[:2] for name, found in others_of(recording_of(ranges, launches)).items()} == {
        "one": (4, 0), "two": (4, 0)}
    assert "others" not in recording_of(ranges, launches).summary().split("Ranges:")[1].splitlines()[1]


def test_a_range_waits_only_while_its_thread_does_nothing() -> None:
    script = Script()
    script.launchable()
    script.range("wait", start_ns=0, end_ns=100)
    script.launch(start_ns=10, end_ns=20, phases=None)
    script.api_call(start_ns=30, end_ns=40)
    script.compilation(start_ns=50, end_ns=60)
    for start in (5, 25, 45, 65, 105):
        script.launch(start_ns=start, end_ns=start + 1, phases=None, thread_id=1)
    assert others_of(script.recording())["wait"][:2] == (1, 4)  # all but the last


@pytest.mark.parametrize("beside", [(15, 16), (35, 36), (55, 56), (28, 31)])
def test_a_thread_that_works_beside_another_is_not_waited_for(beside: tuple[int, int]) -> None:
    """One launch while something is recorded of the first thread says that the second works for itself."""
    script = Script()
    script.launchable()
    script.range("wait", start_ns=0, end_ns=100)
    script.range("wait", start_ns=200, end_ns=300)
    script.launch(start_ns=10, end_ns=20, phases=None)
    script.api_call(start_ns=30, end_ns=40)
    script.compilation(start_ns=50, end_ns=60)
    for start, end, thread in sorted([(5, 6, 1), (65, 66, 1), (70, 71, 2), (*beside, 1), (250, 251, 1)]):
        script.launch(start_ns=start, end_ns=end, phases=None, thread_id=thread)
    # That of thread 2, and that of thread 1 in the second range, in which it did nothing beside the first thread.
    assert others_of(script.recording())["wait"][:2] == (1, 2)


def test_other_processes_are_never_waited_for() -> None:
    for processes, expected in (((0, 0), 2), ((0, 1), 0)):
        script = Script()
        script.launchable()
        for number in processes:
            script._add("threads", "thread_id", {"ident": 7 + number, "process_id": number})
        script.range("wait", start_ns=0, end_ns=100)
        for start in (50, 60):
            script.launch(start_ns=start, end_ns=start + 1, phases=None, thread_id=1)
        assert others_of(script.recording())["wait"][:2] == (0, expected)


def test_too_many_threads_with_ranges_are_not_looked_at() -> None:
    for threads, expected in ((MOST_WAITING, 1), (MOST_WAITING + 1, None)):
        ranges = [{"name": "wait", "start_ns": 0, "end_ns": 100, "thread_id": at} for at in range(threads)]
        (only,) = by_range(recording_of(ranges, [(50, threads)]))
        assert (only.other_launches, only.launches) == (expected, 0)


@pytest.mark.parametrize("seed", range(8))
def test_waits_are_those_that_brute_force_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges: list[dict[str, Any]] = sorted((
        {"start_ns": start, "end_ns": start + int(rng.integers(1, 120)), "thread_id": thread}
        for thread in range(3) for start in rng.choice(400, 6, replace=False).tolist()),
        key=lambda row: row["start_ns"])
    times = np.sort(rng.choice(500, 20, replace=False)).tolist()
    launches = [(at, int(rng.integers(0, 4))) for at in times]
    until = [at + (1 if seed % 2 else int(rng.integers(1, 30))) for at in times]

    def outermost(thread: int, at: int) -> int | None:
        """The start of the outermost range: the one of which those that reach up to the time overlap."""
        begun = None
        for row in sorted((row for row in ranges if row["thread_id"] == thread), key=lambda row: -row["start_ns"]):
            if row["start_ns"] <= (at if begun is None else begun) < row["end_ns"]:
                begun = row["start_ns"]
        return begun

    def is_beside(place: int, waiting: int) -> bool:
        return any(owner == waiting and launches[place][0] < until[number] and start < until[place]
                   for number, (start, owner) in enumerate(launches))

    expected = set()
    for place, (at, thread) in enumerate(launches):
        for waiting in range(3):
            open_ = [number for number, row in enumerate(ranges) if row["thread_id"] == waiting
                     and row["start_ns"] <= at < row["end_ns"]]
            alike = [number for number, (start, owner) in enumerate(launches) if owner == thread
                     and outermost(waiting, start) is not None
                     and outermost(waiting, start) == outermost(waiting, at)]
            if waiting == thread or not open_ or any(is_beside(number, waiting) for number in alike):
                continue
            before = [until[number] for number, (start, owner) in enumerate(launches)
                      if owner == waiting and start <= at]
            begun = outermost(thread, at)
            if (at if begun is None else begun) >= max([ranges[open_[-1]]["start_ns"], *before]):
                expected.add((place, open_[-1]))
    script = Script()
    script.launchable()
    for (start, thread), end in zip(launches, until, strict=True):
        script.launch(start_ns=start, thread_id=thread, phases=None, end_ns=end)
    for row in ranges:
        script.range(**row)
    found = waits_of_ranges(
        script.recording(), np.array(times), np.array(until), np.array([thread for _, thread in launches]))
    assert found is not None
    assert set(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected and len(found[0]) == len(expected)
