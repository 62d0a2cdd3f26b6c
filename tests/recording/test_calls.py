"""Which launch a driver call submitted."""

import numpy as np
import pytest

from kernelscope.recording.columns import distinct
from kernelscope.recording.joins import CallFinder, launches_of, selected

THREADS = [{"ident": 11}, {"ident": 12}]


def calls(starts, idents=None, **columns):
    starts = np.array(starts)
    return {"name": np.zeros(len(starts), np.int32), "ident": np.array(idents or [11] * len(starts)),
            "start_ns": starts, "end_ns": starts + 2, "correlation_id": np.arange(len(starts)),
            "result": np.zeros(len(starts), np.int32), **columns}


def launches(submits, threads=None, **columns):
    submits = np.array(submits)
    return {"start_ns": submits - 1, "submit_start_ns": submits, "submit_end_ns": submits + 5, "end_ns": submits + 6,
            "thread_id": np.array(threads or [0] * len(submits), np.int32), **columns}


def joined(calls, launches):
    first = CallFinder(calls["correlation_id"]).find(calls["correlation_id"])
    return launches_of(calls, first, ["cuLaunchKernel"], launches, THREADS).tolist()


@pytest.mark.parametrize(("starts", "expected"), [
    ([11, 21, 31], [0, 1, 2]),  # one call a launch
    ([11, 31], [0, 2]),
    ([11, 21, 23, 31], [0, -1, 1, 2]),  # of two in one launch the last is the kernel's
    ([1, 21, 31], [-1, 1, 2]),  # as many as launches, but one is of none
    ([11, 12, 31], [-1, 0, 2]),
    ([11, 21, 50], [0, 1, -1]),
])
def test_the_call_in_a_launchs_submit_phase(starts, expected):
    assert joined(calls(starts), launches([10, 20, 30])) == expected


def test_threads_that_launch_at_the_same_time():
    assert joined(calls([11, 12, 21, 22], [12, 11, 11, 12]), launches([10, 10, 20, 20], [0, 1, 1, 0])) == [1, 0, 3, 2]
    assert joined(calls([11, 21], [13, 11]), launches([10, 20], [0, 0])) == [-1, 1]  # a thread that is not known


def test_launches_whose_submits_are_not_in_order_of_their_start():
    outer_first = launches([40, 20], start_ns=np.array([10, 19]), parent_launch_id=np.array([-1, 0]))
    assert joined(calls([21, 41]), outer_first) == [1, 0]


def test_a_call_after_a_launch_inside_another_belongs_to_the_outer_one():
    nested = launches([10, 20], submit_end_ns=np.array([100, 25]), parent_launch_id=np.array([-1, 0]))
    assert joined(calls([21, 50]), nested) == [1, 0]


@pytest.mark.parametrize("ids", [[4, 5, 6], [4, 9, 4, 7], [6, 5, 4], [10**9, 1, 10**9, 5]])
def test_the_first_call_of_an_id(ids):
    finder = CallFinder(np.array(ids))
    assert finder.find(np.array(ids)).tolist() == [ids.index(id) for id in ids]
    assert finder.find(np.array([0, ids[-1], 2, 10**10])).tolist() == [-1, ids.index(ids[-1]), -1, -1]
    assert finder.find(np.array([], int)).tolist() == []


@pytest.mark.parametrize("values", [[], [3], [3, 3], [3, 1, 3, 2]])
def test_distinct_values(values):
    found, which = distinct(np.array(values, np.int64))
    assert found == list(dict.fromkeys(values))
    assert [found[place] for place in which] == values


def test_all_rows_are_a_slice():
    values = np.arange(3)
    assert values[selected(np.ones(3, bool))].base is values
    assert values[selected(values != 1)].tolist() == [0, 2]
