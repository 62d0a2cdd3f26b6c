"""The join of calls, kernels and launches, against one that looks at every pair."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernelscope.recording.joins import (
    ACTIVITY_COLUMNS,
    CALL_COLUMNS,
    Neighbours,
    RawActivities,
    add_boundaries,
    add_devices,
    join,
)
from kernelscope.recording.time import UNKNOWN_INSTANT, recorded
from kernelscope.schema import INSTANTS

NAMES = ["cuLaunchKernel", "cuLaunchKernelEx", "cuMemAlloc_v2", "axpy", "fill", "HtoD"]
ENTRIES = ["_Zaxpy", "_Zfill"]
SPECIALIZATIONS = [{"entry_name": "_Zaxpy"}, {"entry_name": "_Zfill"}, {"entry_name": None}, {"entry_name": "_Zother"}]
HIGH = 0x7F00_0000_0000
NO_LAUNCHES = {name: np.empty(0, np.int64) for name in (
    "start_ns", "submit_start_ns", "submit_end_ns", "end_ns", "thread_id", "line_id", "stack_id", "specialization_id",
    "configuration_id")}


class Story:
    """Random launches of several threads, nested in each other, with calls in, between and around them."""

    def __init__(self, seed, detail):
        self.random = random.Random(seed)
        self.detail = detail
        self.launches, self.calls, self.activities = [], [], []
        self.ids = self.random.sample(range(1, 4_000) if seed % 2 else range(1, 4_000_000_000, 999_983), 1_000)
        self.threads = [{"ident": HIGH + number * 4096} for number in range(3)]
        for number, row in enumerate(self.threads):
            self.now = self.random.randint(0, 1_000) * 1_000
            for _ in range(self.random.randint(0, 12)):
                self.now += self.random.randint(1, 20) * 1_000
                self.launch(number, row["ident"], depth=0)
                if self.random.random() < 0.3:
                    self.call(row["ident"])
        for _ in range(5):
            self.now = self.random.randint(0, 500) * 1_000
            self.call(HIGH - 4096)
        self.launches.sort(key=lambda row: row["start_ns"])
        self.random.shuffle(self.calls)
        self.random.shuffle(self.activities)

    def step(self):
        self.now += self.random.randint(10, 5_000)
        return self.now

    def launch(self, thread, ident, depth):
        row = {"thread_id": thread, "line_id": self.random.randint(-1, 5),
               "stack_id": self.random.randint(-1, 9), "start_ns": self.step(),
               "specialization_id": self.random.randint(-1, 3),
               "configuration_id": 0}
        self.launches.append(row)
        for _ in range(self.random.choice([0, 0, 1, 2])):
            if depth < 3:
                self.launch(thread, ident, depth + 1)
            if self.random.random() < 0.2:
                self.step()
                self.call(ident)
        submits = self.random.random() < 0.9
        row["submit_start_ns"] = self.step() if submits else -1
        if submits:
            self.now += 10
            for _ in range(self.random.choice([0, 1, 1, 1, 2])):
                self.call(ident)
        row["submit_end_ns"] = self.step() if submits else -1
        row["end_ns"] = self.step() if self.random.random() < 0.95 or depth else -1
        if self.detail == "launch":
            row["submit_start_ns"] = row["submit_end_ns"] = -1

    def call(self, ident):
        id = self.ids.pop()
        start, end = self.step(), self.step()
        name = self.random.choice([0, 1, 1, 2])
        for nested in range(self.random.choice([1, 1, 2])):  # a driver call in a runtime call has its id
            self.calls.append({"name": name, "ident": ident & 0xFFFFFFFF, "start_ns": start + nested,
                               "end_ns": end - nested, "correlation_id": id,
                               "result": int(self.random.random() < 0.05)})
        if self.random.random() < 0.85:
            begin = self.random.choice([-1, start + 5, end + 500])
            self.activities.append({
                "kind": self.random.choice([0, 0, 0, 1]), "name": 3, "entry": self.random.choice([0, 1, -1]),
                "start_ns": begin, "end_ns": -1 if begin < 0 else begin + 77,
                "correlation_id": id if self.random.random() < 0.95 else self.ids.pop(),
                "cupti_graph_id": self.random.choice([-1, -1, -1, 4])})

    def columns(self):
        def table(rows, names):
            return {name: np.array([row.get(name, -1) for row in rows], np.int64) for name in names}

        launches = table(self.launches, ["thread_id", "line_id", "stack_id", "start_ns", "submit_start_ns",
                                         "submit_end_ns", "end_ns", "specialization_id", "configuration_id"])
        launches |= {name: recorded(launches[name]) for name in INSTANTS if name in launches}
        launches["parent_launch_id"] = np.array([self.parent(row) for row in self.launches], np.int64)
        raw = RawActivities(table(self.activities, ACTIVITY_COLUMNS), table(self.calls, CALL_COLUMNS), NAMES, ENTRIES)
        return raw, launches

    def parent(self, row):
        around = [number for number, other in enumerate(self.launches)
                  if other["thread_id"] == row["thread_id"] and other is not row
                  and other["start_ns"] < row["start_ns"]
                  and (other["end_ns"] == -1 or other["end_ns"] > row["start_ns"])]
        return max(around, default=-1)


def slow_site(story, call):
    """Line and call path of the innermost launch around a call."""
    middle = (call["start_ns"] + call["end_ns"]) // 2
    around = [row for row in story.launches
              if story.threads[row["thread_id"]]["ident"] & 0xFFFFFFFF == call["ident"]
              and row["start_ns"] <= middle and (row["end_ns"] == -1 or middle <= row["end_ns"])]
    return site_of(max(around, key=lambda row: row["start_ns"])) if around else (-1, -1)


def site_of(launch):
    return launch["line_id"], launch["stack_id"]


def slow(story):
    """For each launch its (correlation id, queue, execute), and the joined (launch, correlation id) of activities."""
    first = {}
    calls = sorted(story.calls, key=lambda row: row["start_ns"])
    for call in calls:
        first.setdefault(call["correlation_id"], call)
    of_launch = {}
    for call in calls:
        if call["name"] == 2 or call["result"]:
            continue
        middle = (call["start_ns"] + call["end_ns"]) // 2
        inside = []
        for number, row in enumerate(story.launches):
            begin = row["start_ns"] if row["submit_start_ns"] < 0 else row["submit_start_ns"]
            end = row["end_ns"] if row["submit_end_ns"] < 0 else row["submit_end_ns"]
            same = story.threads[row["thread_id"]]["ident"] & 0xFFFFFFFF == call["ident"]
            if same and begin <= middle and (end < 0 or middle <= end):
                inside.append((begin, number))
        if inside:
            of_launch[max(inside)[1]] = first[call["correlation_id"]]
    launch_of = {call["correlation_id"]: number for number, call in of_launch.items()}
    joined, made, wrong = [], {}, set()
    for activity in story.activities:
        number = launch_of.get(activity["correlation_id"]) if (
            activity["kind"] == 0 and activity["cupti_graph_id"] < 0) else None
        if number is not None:
            specialization = story.launches[number]["specialization_id"]
            wanted = None if specialization < 0 else SPECIALIZATIONS[specialization]["entry_name"]
            if wanted and activity["entry"] >= 0 and ENTRIES[activity["entry"]] != wanted:
                number = None
        joined.append((-1 if number is None else number, activity["correlation_id"]))
        if number is None:
            wrong.add(activity["correlation_id"])
        else:
            made[number] = activity
    for id in wrong:
        launch_of.pop(id, None)
    expected = []
    for number, row in enumerate(story.launches):
        call = of_launch.get(number)
        if call is None or call["correlation_id"] not in launch_of:
            expected.append((-1, -1, -1))
            continue
        activity = made.get(number)
        returned = call["end_ns"] if row["submit_end_ns"] < 0 else row["submit_end_ns"]
        known = activity is not None and activity["start_ns"] >= 0
        expected.append((call["correlation_id"], max(0, activity["start_ns"] - returned) if known else -1,
                         77 if known else -1))
    used = {activity["correlation_id"] for activity in story.activities} | set(launch_of)
    alone = sorted((call["start_ns"], call["correlation_id"]) for call in calls if call["correlation_id"] not in used)
    return expected, sorted(joined), alone


@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_as_the_slow_join(detail):
    for seed in range(60):
        story = Story(seed, detail)
        raw, launches = story.columns()
        activities, api_calls = join(raw, launches, Neighbours(
            [dict(row) for row in story.threads], [], SPECIALIZATIONS, [], []))
        expected, joined, alone = slow(story)
        found = zip(*(launches[name].tolist() for name in ("correlation_id", "queue_ns", "execute_ns")), strict=True)
        assert list(found) == expected, seed
        of_launches = zip(activities["launch_id"].tolist(), activities["correlation_id"].tolist(), strict=True)
        assert sorted(of_launches) == joined, seed
        assert (activities["start_ns"][1:] >= activities["start_ns"][:-1]).all()
        first = {call["correlation_id"]: call for call in sorted(story.calls, key=lambda row: -row["start_ns"])}
        for launch, line, stack, id in zip(*(activities[name].tolist() for name in (
                "launch_id", "line_id", "stack_id", "correlation_id")), strict=True):
            wanted = site_of(story.launches[launch]) if launch >= 0 else (-1, -1)
            assert (line, stack) == (wanted if launch >= 0 else slow_site(story, first[id]) if id in first
                                     else (-1, -1)), seed
        assert list(zip(api_calls["start_ns"].tolist(), api_calls["correlation_id"].tolist(), strict=True)) == alone


def test_nothing_at_all():
    activities, api_calls = join(RawActivities(), dict(NO_LAUNCHES), Neighbours([], [], [], [], []))
    assert all(len(column) == 0 for column in (*activities.values(), *api_calls.values()))


def test_the_recorders_own_waits_are_left_out():
    raw = RawActivities(
        {name: np.full(2, -1) for name in ACTIVITY_COLUMNS} | {
            "kind": np.array([3, 3]), "name": np.array([0, 0]), "start_ns": np.array([105, 205]),
            "end_ns": np.array([106, 206]), "correlation_id": np.array([1, 2])},
        {"name": np.array([0, 0]), "ident": np.array([5, 5]), "start_ns": np.array([104, 204]),
         "end_ns": np.array([107, 207]), "correlation_id": np.array([1, 2]), "result": np.array([0, 0])},
        ["cuCtxSynchronize"], own=[(5, 200, 210)])
    threads = []
    activities, api_calls = join(raw, dict(NO_LAUNCHES), Neighbours(threads, [], [], [], []))
    assert activities["correlation_id"].tolist() == [1]
    assert len(api_calls["name"]) == 0
    assert threads == [{"ident": 5, "name": None}]


def test_ids_out_of_order_and_far_apart():
    raw = RawActivities(
        {name: np.full(3, -1) for name in ACTIVITY_COLUMNS} | {
            "kind": np.array([1, 1, 1]), "name": np.array([1, 1, 1]),
            "correlation_id": np.array([4_000_000_000, 1, 7])},
        {"name": np.zeros(2, np.int64), "ident": np.array([5, 5]), "start_ns": np.array([104, 204]),
         "end_ns": np.array([107, 207]), "correlation_id": np.array([4_000_000_000, 1]), "result": np.array([0, 0])},
        ["cuMemcpy", "HtoD", "unused"])
    activities, _ = join(raw, dict(NO_LAUNCHES), Neighbours([], [], [], [], []))
    assert activities["submit_start_ns"].tolist() == [104, 204, UNKNOWN_INSTANT]
    assert activities["api"].dictionary.to_pylist() == ["cuMemcpy"]
    assert activities["name"].dictionary.to_pylist() == ["HtoD"]


def launches_of(**columns):
    return {name: recorded(np.array(values)) if name in INSTANTS else np.array(values)
            for name, values in columns.items()}


def test_the_drivers_call_is_the_submit_phase():
    launches = launches_of(start_ns=[100, 200, 300, 400], submit_start_ns=[-1, 210, -1, -1],
                           submit_end_ns=[150, 220, -1, 450])
    calls = {"start_ns": np.array([320, 212, 120]), "end_ns": np.array([330, 215, 140])}
    add_boundaries(launches, np.array([2, 1, 0]), calls)
    # The second knows better; of the third nothing was seen, as with detail="launch"; the fourth has no call.
    assert launches["submit_start_ns"].tolist() == [120, 210, UNKNOWN_INSTANT, UNKNOWN_INSTANT]
    assert launches["submit_end_ns"].tolist() == [140, 220, UNKNOWN_INSTANT, 450]


def test_a_call_stays_inside_of_its_launch():
    launches = launches_of(start_ns=[100], submit_start_ns=[-1], submit_end_ns=[150])
    before = dict(launches)
    add_boundaries(launches, np.array([0]), {"start_ns": np.array([99]), "end_ns": np.array([151])})
    assert (launches["submit_start_ns"].tolist(), launches["submit_end_ns"].tolist()) == ([100], [150])
    assert before["submit_start_ns"].tolist() == [UNKNOWN_INSTANT], "columns may be shared: they are replaced"


def test_calls_of_nobody_change_nothing():
    launches = launches_of(start_ns=[100], submit_start_ns=[-1], submit_end_ns=[150])
    add_boundaries(launches, np.array([-1]), {"start_ns": np.array([120]), "end_ns": np.array([130])})
    assert launches["submit_start_ns"].tolist() == [UNKNOWN_INSTANT]


def test_the_device_is_that_of_the_kernel():
    launches = launches_of(device_id=[-1, 0, -1, 0, 1])
    add_devices(launches, np.array([1, -1, 0, 3, 4]), np.array([1, 1, 1, 1, -1]))
    # Of the second no kernel is known; the fourth's stream has the same handle on both devices.
    assert launches["device_id"].tolist() == [1, 1, -1, 1, 1]
