from __future__ import annotations

import pytest
from graph_stories import GraphScript, rebuilt

from kernelscope.analysis.graphs import executables


def test_each_with_what_became_of_it() -> None:
    first, *others = executables(rebuilt().recording())
    assert (first.graph_id, first.cell_id, first.build_ns, first.rebuild_of) == (0, 0, 400_000, None)
    assert (first.updates, first.refused, first.launches, first.is_closed) == (1, 1, 6, False)
    assert [each.replaces for each in others] == [True] * 6
    assert [each.change for each in others] == [*["none"] * 4, *["arguments"] * 2]
    assert [each.is_closed for each in others] == [False] * 5 + [True]


def test_graphs_that_are_kept_side_by_side_replace_none() -> None:
    made = GraphScript()
    first = made.instantiate()
    second = made.instantiate(1, rebuild_of=first, change="configuration")
    for _ in range(3):
        made.replay(first)
        made.replay(second, 1)
    assert [each.replaces for each in executables(made.recording())] == [False, False]


@pytest.mark.parametrize(("change", "is_closed", "replaces"), [
    ("none", False, True), ("arguments", False, True), ("configuration", False, False), ("configuration", True, True)])
def test_one_of_another_size_may_be_kept_for_later(change: str, is_closed: bool, replaces: bool) -> None:
    made = GraphScript()
    first = made.instantiate()
    made.replay(first)
    made.instantiate(1, rebuild_of=first, change=change)
    if is_closed:
        made.close(first)
    assert [each.replaces for each in executables(made.recording())] == [False, replaces]


def test_what_was_never_launched_nor_closed_is_not_replaced() -> None:
    made = GraphScript()
    first = made.instantiate()
    made.instantiate(rebuild_of=first, change="none")
    assert [each.replaces for each in executables(made.recording())] == [False, False]


def test_a_failed_instantiate_makes_none() -> None:
    made = GraphScript()
    made.instantiate(outcome="failed")
    made.graph_event("before", 0, start_ns=None)
    found, = executables(made.recording())
    assert (found.start_ns, found.build_ns) == (None, None)
