"""The call tree of a recording: sums over made-up recordings, against sums path by path."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from counting import lines_run
from stacked import StackScript, many_paths, simulation

from kernelscope.analysis.launches import launch_phases
from kernelscope.features.call_paths.analyse import METRICS, CallTree, call_tree
from kernelscope.recording.model import Recording


def tree_of(recording: Recording) -> CallTree:
    found = call_tree(recording)
    assert found is not None
    return found


def paths_of(tree: CallTree, metric: str) -> dict[tuple[Any, ...], int]:
    """What each call path with its leaf weighs: rows of ``lines`` (None for no known path), then the leaf's name."""
    found: dict[tuple[Any, ...], int] = {}
    weights = tree.own[metric]
    for at in weights.nonzero()[0].tolist():
        path: list[Any] = []
        above = int(tree.parent[at])
        while above >= 0:
            path.insert(0, int(tree.line[above]) if tree.line[above] >= 0 else None)
            above = int(tree.parent[above])
        found[(*path, tree.leaves[tree.leaf[at]])] = int(weights[at])
    return found


def slowly(recording: Recording, metric: str) -> dict[tuple[Any, ...], int]:
    stacks, kernels = recording.rows("stacks"), recording.rows("dispatchers")
    own = launch_phases(recording).own_ns.tolist()

    def path(row: dict[str, Any]) -> tuple[Any, ...]:
        at, found = row["stack_id"], list[Any]()
        while at is not None:
            found.insert(0, stacks[at]["line_id"])
            at = stacks[at]["parent_stack_id"]
        return tuple(found or [None])

    launches = recording.rows("launches")
    found = Counter[tuple[Any, ...]]()
    for row in recording.rows({"gpu": "activities", "compile": "compilations"}.get(metric, "launches")):
        if metric == "gpu" and row["kind"] != "kernel":
            leaf = f"{row['kind']} {row['name']}"
        elif metric == "gpu" and row["launch_id"] is None:
            leaf = row["name"]
        else:
            made = launches[row["launch_id"]] if metric == "gpu" else row
            leaf = kernels[made["dispatcher_id"]]["name"]
        if row.get("kind") != "sync":
            found[(*path(row), leaf)] += (
                own[row["launch_id"]] if metric == "host" else 1 if metric == "launches" else
                row["end_ns"] - row["start_ns"])
    return {each: weight for each, weight in found.items() if weight}


@pytest.mark.parametrize("seed", range(5))
def test_as_path_by_path(seed: int) -> None:
    recording = simulation(seed)
    tree = tree_of(recording)
    assert tree.metrics == METRICS
    for metric in METRICS:
        assert paths_of(tree, metric) == slowly(recording, metric), metric
        total = tree.total(metric)
        assert sum(total[tree.parent < 0]) == tree.own[metric].sum()
        assert all(total[at] == tree.own[metric][at] + total[tree.parent == at].sum() for at in range(len(tree)))
    assert sum(int(values.sum()) for values in tree.phases.values()) == tree.own["host"].sum()
    assert (tree.parent < range(len(tree))).all()


def test_without_the_gpu_there_is_no_time_of_it() -> None:
    assert tree_of(simulation(gpu=False)).metrics == ("host", "compile", "launches")


def test_without_call_paths_there_is_no_tree() -> None:
    script = StackScript()
    script.rows.pop("stacks")
    script.launchable()
    script.launch()
    assert call_tree(script.recording()) is None


def test_equal_paths_are_one_and_recursion_is_a_path() -> None:
    script = StackScript()
    script.launchable()
    deep = script.path(*[1, 2] * 4_000)
    again = script._add("stacks", "stack_id", {"parent_stack_id": None, "line_id": 1})
    again = script._add("stacks", "stack_id", {"parent_stack_id": again, "line_id": 2})
    script.launch(stack_id=deep)
    script.launch(stack_id=again)
    script.launch(stack_id=script.path(1, 2))
    tree = tree_of(script.recording())
    assert paths_of(tree, "launches") == {(1, 2, "axpy"): 2, (*[1, 2] * 4_000, "axpy"): 1}
    roots = tree.total("launches")[tree.parent < 0]
    assert sorted(roots[roots > 0].tolist()) == [3]


def test_a_million_launches_of_a_hundred_thousand_paths() -> None:
    recording = many_paths(1_000_000, 100_000)
    tree = call_tree(recording)
    assert tree is not None and tree.total("launches")[tree.parent < 0].sum() == 1_000_000
    assert lines_run(lambda: call_tree(recording)) < 10_000  # 0.2 s
