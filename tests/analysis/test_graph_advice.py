from __future__ import annotations

from typing import Any

from graph_stories import GraphScript, rebuilt, with_builds
from handmade import MS, US, Script

from kernelscope.views.card.model import overview


def _advice(made: Any) -> dict[str, str]:
    return {each.code: each.text for each in overview(made.recording()).advice}


def test_rebuilt_for_nothing_and_for_an_argument() -> None:
    found = _advice(rebuilt())
    assert found["rebuilt_graph"] == (
        "this cell instantiated one topology (graph 0, 4 nodes) 7 times, 2.81 ms in all; 6 of them, 2.42 ms, replaced "
        "an executable graph: 4 times nothing had changed, so reuse the executable graph; 2 times arguments had "
        "changed (argument 1 of axpy), so update it (1 update here took 90.0 µs).")
    assert "1 update of graph 0 was refused by the driver, 60.0 µs: an" in found["refused_updates"]
    assert "graph_launched_once" not in found, "one line says it all"


def test_one_topology_fifty_times_in_one_of_two_cells() -> None:
    made = GraphScript()
    made.cell(execution_count=6)
    before = made.instantiate(cell_id=1)
    for _ in range(49):
        made.graph_event("launch", 0, exec_id=before, cell_id=1)
        before = made.instantiate(cell_id=1, rebuild_of=before, change="none")
    text = _advice(made)["rebuilt_graph"]
    assert text.startswith("In [6] instantiated one topology (graph 0, 4 nodes) 50 times, 20.0 ms in all; 49 of them, "
                           "19.6 ms, replaced an executable graph: 49 times nothing had changed")


def test_graphs_kept_for_several_sizes_get_no_advice() -> None:
    made = GraphScript()
    first = made.instantiate()
    second = made.instantiate(1, rebuild_of=first, change="configuration")
    for _ in range(4):
        made.replay(first)
        made.replay(second, 1)
    for executable in (first, second):
        made.close(executable)
    assert _advice(made) == {}


def test_launched_once_and_never() -> None:
    made = GraphScript()
    executable = made.instantiate(source_event_id=made.capture())
    made.replay(executable)
    assert _advice(made) == {}, "it may still be launched"
    made.close(executable)
    assert _advice(made) == {"graph_launched_once": (
        "graph 0 (4 nodes) was instantiated, launched once and closed: instantiating took 400 µs, a capture 120 µs, "
        "a launch 8.00 µs on the host, 43.0 µs on the GPU. A graph saves time only where it is launched again.")}
    made = GraphScript()
    made.close(made.instantiate())
    assert _advice(made) == {"unlaunched_graph": (
        "graph 0 (4 nodes) was instantiated once and closed without a launch, 400 µs in all: instantiate it where it "
        "is needed.")}


def test_an_operator_s_name_alone(script: type[Script]) -> None:
    made = script()
    made.cell()
    assert _advice(with_builds(made))["operator_names"] == (
        "reduce_into was built 1 more time for an operator's name alone, 1.80 s in all: cuda.compute keeps what it "
        "built by the operator's name too. Define the operator once, under one name.")


def _loop(script: type[Script], wall_ns: int, **metadata: Any) -> Any:
    made = script(**metadata)
    made.cell(wall_ns=wall_ns)
    for at in range(3):
        made.kernel(f"k{at}")
        made.specialization(at)
    made.configuration((400,))
    for _ in range(30):
        for at in range(3):
            made.launch(at, specialization=at)
    return made


def test_the_same_launches_again_and_again(script: type[Script]) -> None:
    assert _advice(_loop(script, 2 * MS)) == {"repeated_sequence": (
        "the same 3 launches (k0, k1, k2) were made 30 times one after another: 900 µs of host time, 45 % of the wall "
        "time and 30.0 µs a round on average. As a CUDA graph a round is one launch: %kernelscope whatif graph "
        "measures what that would save.")}
    assert _advice(_loop(script, 20 * MS)) == {}, "that is little of the time"


def test_the_loop_s_cell_is_named(script: type[Script]) -> None:
    made = _loop(script, 2 * MS)
    made.cell(1 * MS, name="warm-up")
    made.cell(1 * MS, execution_count=7, name="train")
    made.rows["cells"][0]["end_ns"] -= 1_900 * US
    for row in made.rows["launches"]:
        row["cell_id"] = 1
    assert "%kernelscope whatif graph warm-up measures" in _advice(made)["repeated_sequence"]
    for row in made.rows["launches"][-1:]:
        row["cell_id"] = 2
    assert "were made 29 times" in _advice(made)["repeated_sequence"], "a loop ends with its cell"
    for row in made.rows["launches"]:
        row["cell_id"] = 2
    assert "%kernelscope whatif graph 7 measures" in _advice(made)["repeated_sequence"]


def test_only_numba_s_launches_can_be_measured_as_a_graph(script: type[Script]) -> None:
    made = _loop(script, 2 * MS)
    made.rows["dispatchers"][1]["framework"] = "cuda.core"
    assert _advice(made)["repeated_sequence"].endswith("As a CUDA graph a round is one launch.")


def test_graphs_launched_once_are_averages() -> None:
    made = GraphScript()
    for duration in (400 * US, 800 * US):
        executable = made.instantiate(duration_ns=duration, source_event_id=made.capture())
        made.replay(executable)
        made.close(executable)
    assert _advice(made)["graph_launched_once"].startswith(
        "graph 0 (4 nodes) was 2 times instantiated, launched once and closed: instantiating took 1.20 ms in all; on "
        "average a capture 120 µs, a launch 8.00 µs on the host, 43.0 µs on the GPU.")


def test_a_busy_gpu_gains_nothing_from_a_graph(script: type[Script]) -> None:
    made = _loop(script, 2 * MS, gpu={"source": "cupti"})
    made.device()
    made.activity(start_ns=made.rows["cells"][0]["start_ns"], duration_ns=1_900 * US)
    assert "repeated_sequence" not in _advice(made)
