from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import by_execution, execution_table, spread


def story(script: Any) -> Any:
    made = script()
    for at, name in enumerate(("axpy", "idle")):
        made.kernel(name)
        made.specialization(at)
    made.configuration()
    for duration in (10, 20, 30):
        made.now += 1_000
        launch = made.launch(0, (1, 0, 1, 1, 1))
        made.activity(launch_id=launch, start_ns=made.rows["launches"][launch]["submit_end_ns"] + duration,
                      duration_ns=duration)
    made.activity(specialization_id=0, cupti_graph_id=1, start_ns=made.now, duration_ns=100, submit_end_ns=0)
    for name, duration in (("cupy_add", 7), ("cupy_add", 9), ("axpy", 5)):
        made.activity(name=name, start_ns=made.now, duration_ns=duration, submit_end_ns=made.now - 4)
    made.activity(name="untimed", start_ns=None)
    return made


def test_by_dispatcher_and_by_name(script: Any) -> None:
    found = by_execution(story(script).recording())
    assert [(each.name, each.dispatcher_id, each.kernels, each.launched, each.in_graphs, each.others)
            for each in found] == [
        ("axpy", 0, 4, 3, 1, 0), ("cupy_add", None, 2, 0, 0, 2), ("axpy", None, 1, 0, 0, 1),
        ("untimed", None, 1, 0, 0, 1)]
    own, cupy, _, untimed = found
    assert own.execute is not None
    assert own.queue is not None
    assert (own.execute.count, own.execute.total_ns, own.execute.p50_ns, own.execute.max_ns) == (4, 160, 25, 100)
    assert (own.queue.count, own.queue.total_ns, own.queue.p50_ns) == (3, 60, 20), "a graph's kernels do not queue"
    assert cupy.queue is not None
    assert cupy.queue.p50_ns == 4
    assert (untimed.execute, untimed.queue) == (None, None)


def test_launches_timed_with_events(script: Any) -> None:
    made = script(gpu={"source": "events"})
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(execute_ns=500)
    made.launch(execute_ns=700)
    made.launch()
    only = by_execution(made.recording())[0]
    assert (only.kernels, only.launched, only.queue) == (2, 2, None)
    assert only.execute is not None
    assert only.execute.total_ns == 1_200


def test_as_a_table(script: Any) -> None:
    table = execution_table(story(script).recording())
    assert table.name.tolist() == ["axpy", "cupy_add", "axpy", "untimed"]
    assert table.execute_total_ns.isna().tolist() == [False, False, False, True]
    assert table.dispatcher_id.isna().tolist() == [False, True, True, True]
    assert execution_table(script().recording()).columns.tolist() == table.columns.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_numpy_s(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-1, 1_000, 200)
    found = spread(values)
    known = values[values >= 0]
    assert found is not None
    assert (found.count, found.total_ns) == (len(known), known.sum())
    assert [found.p50_ns, found.p90_ns, found.p99_ns, found.max_ns] == pytest.approx(
        np.percentile(known, [50, 90, 99, 100]).tolist())
    assert spread(np.array([-1, -1])) is None
    assert spread(np.array([], dtype=np.int64)) is None
