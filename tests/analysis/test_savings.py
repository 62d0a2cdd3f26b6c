"""What an advice saves at most: by rule its best case, a cell and the same cell after the advice was followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import measured
import pytest
from graph_stories import GraphScript
from handmade import MS, US, Script

from kernelscope.analysis.advice import Advice, rules
from kernelscope.analysis.builds import explain_builds
from kernelscope.analysis.savings import GPU, NEXT_SESSION, WALL
from kernelscope.views.card.model import Overview

_F32, _F64 = "array(float32, 1d, C)", "array(float64, 1d, C)"


def _begun(kernels: int = 1, grid: tuple[int, ...] = (400,), block: tuple[int, ...] = (128,),
           **kernel: Any) -> Script:
    made = Script()
    made.device(multiprocessors=132)
    made.cell()
    for at in range(kernels):
        made.kernel("axpy" if kernels == 1 else f"k{at}", **kernel)
        made.specialization(at)
    made.configuration(grid, block)
    return made


def _ended(made: Script) -> Script:
    """End the cell after everything that is recorded of it, on the host and on the GPU."""
    ends = [row["end_ns"] for table in ("launches", "activities", "compilations") for row in made.rows.get(table, ())]
    made.rows["cells"][0]["end_ns"] = max([made.now, *ends])
    return made


def _first_launch(made: Script, kernel: int, signature: str, compile_ns: int = 50 * MS, load_ns: int = 8 * MS,
                  configuration: int = 0, **compilation: Any) -> None:
    """Add a launch that compiles, and loads the module while it prepares."""
    number = made.specialization(kernel, signature)
    launch = len(made.rows.get("launches", ()))
    made.compilation(kernel, compile_ns, signature=signature, launch_id=launch, specialization_id=number, cell_id=0,
                     start_ns=made.now + 3 * US, configuration_id=configuration, **compilation)
    made.launch(kernel, (3 * US, compile_ns, load_ns, 2 * US, US), number, configuration)


def _compiling(*signatures: str, wanted: int = 1, **compilation: Any) -> Callable[[bool], Script]:
    """A kernel that is compiled for several types, or after the advice for the first `wanted` of them only."""
    def story(is_followed: bool) -> Script:
        made = _begun(arguments="x, n")
        for at, signature in enumerate(signatures):
            if is_followed and at >= wanted:
                made.launch(0, (3 * US, 0, 4 * US, 2 * US, US), at % wanted + 1)
            else:
                _first_launch(made, 0, signature, **compilation)
        return _ended(made)

    return story


def _definitions(names: tuple[str, ...]) -> Callable[[bool], Script]:
    """Definitions of the same code, or after the advice one, of which the first takes longest to compile."""
    def story(is_followed: bool) -> Script:
        made = _begun()
        for at, name in enumerate(names):
            kernel = 1 if is_followed and at else made.kernel(name, code_sha256="a")
            if is_followed and at:
                made.launch(kernel, specialization=1)
            else:
                _first_launch(made, kernel, f"({_F32},)", (90 - 20 * at) * MS)
        return _ended(made)

    return story


def _sensitive(is_followed: bool) -> Script:
    made = _begun()
    for at in range(4):
        if is_followed and at:
            made.launch(0, specialization=1)
        else:
            _first_launch(made, 0, f"({_F32},)", configuration=made.configuration((at + 7,)),
                          launch_config_sensitive=True)
    return _ended(made)


def _uncached(is_followed: bool) -> Script:
    """The next session: without the advice it compiles again, with it it loads."""
    made = _begun()
    if is_followed:
        _first_launch(made, 0, f"({_F32},)", 5 * MS, outcome="disk")
    else:
        _first_launch(made, 0, f"({_F32},)", 150 * MS)
    return _ended(made)


def _busily(is_followed: bool, execute_ns: int | None = None) -> Script:
    """600 launches, each with a kernel on the GPU where that is recorded; after the advice one."""
    made = _begun()
    for _ in range(1 if is_followed else 600):
        launch = made.launch()
        if execute_ns is not None:
            made.activity(launch_id=launch, start_ns=made.rows["launches"][-1]["submit_end_ns"],
                          duration_ns=execute_ns)
    return _ended(made)


def _waiting(is_followed: bool) -> Script:
    """600 launches of which three wait for 5 ms in prepare; at best that goes."""
    made = _begun()
    for at in range(600):
        waits = 5 * MS if at % 200 == 7 and not is_followed else 0
        made.launch(phases=(3 * US, 0, 4 * US + waits, 2 * US, US))
    return _ended(made)


def _preparing(is_followed: bool) -> Script:
    """Host arrays of a launch are copied in for 1.46 ms and back for 0.79 ms."""
    made = _begun()
    made.rows["compilations"] = [{
        "compilation_id": 0, "dispatcher_id": 0, "thread_id": 0, "trigger": "launch", "outcome": "compiled",
        "signature": f"({_F32},)", "start_ns": 0, "end_ns": 1, "attributes": json.dumps({"passed": ["host"]})}]
    for _ in range(100):
        made.launch(phases=(2 * US, 0, 4 * US, 3 * US, US) if is_followed else (2 * US, 0, 1460 * US, 3 * US, 787 * US))
    return _ended(made)


def _wrapping(is_followed: bool) -> Script:
    made = _preparing(True)
    made.rows["compilations"][0]["attributes"] = json.dumps({"passed": ["cupy"]})
    made.rows["launches"].clear()
    for _ in range(100):
        made.launch(phases=(2 * US, 0, 4 * US, 3 * US, US) if is_followed else (40 * US, 0, 80 * US, 3 * US, 5 * US))
    return _ended(made)


def _copying(is_followed: bool) -> Script:
    """Copies of pageable memory, whose call takes longer than the copy on the GPU."""
    made = _begun()
    made.launch()
    made.activity(start_ns=made.now - 5 * US, duration_ns=5 * US, launch_id=0)
    for _ in range(0 if is_followed else 4):
        made.activity("memcpy", "HtoD", 6 * MS, start_ns=made.now + 2 * MS, size_bytes=1 << 20,
                      memory="pageable to device", submit_start_ns=made.now, submit_end_ns=made.now + 9 * MS)
        made.now += 9 * MS
    return _ended(made)


def _on_the_gpu(grid: tuple[int, ...], block: tuple[int, ...], least: float) -> Callable[[bool], Script]:
    """600 kernels of 1 ms that the cell waits for; after the advice each takes a small part of it."""
    def story(is_followed: bool) -> Script:
        made = _begun(grid=grid, block=block)
        start = made.now
        for _ in range(600):
            launch = made.launch()
            made.activity(launch_id=launch, start_ns=start, duration_ns=lasted if (
                lasted := round(MS * least)) and is_followed else MS)
            start += lasted if is_followed else MS
        return _ended(made)

    return story


def _graphs(is_followed: bool, kind: str) -> Script:
    made = GraphScript()
    if kind == "rebuilt":
        first = made.instantiate(source_event_id=made.capture())
        made.replay(first)
        for _ in range(5):
            if is_followed:
                made.now += 2 * US  # the loop's own Python stays
            else:
                again = made.instantiate(source_event_id=made.capture(), rebuild_of=first, change="none")
                made.close(first)
                first = again
            made.replay(first)
    elif kind == "refused":
        first = made.instantiate(source_event_id=made.capture())
        for _ in range(3):
            if not is_followed:
                made.graph_event("update", 0, 200 * US, exec_id=first, outcome="refused", error="nodes were added")
            made.now += 2 * US * is_followed
        made.replay(first)
    elif kind == "once" and is_followed:
        for _ in range(3):
            made.launch()
    elif not is_followed:
        first = made.instantiate(source_event_id=made.capture())
        made.graph_event("upload", 0, 30 * US, exec_id=first)
        if kind == "once":
            made.graph_event("launch", 0, 60 * US, exec_id=first)
        made.close(first)
    else:
        made.now += 2 * US
    return _ended(made)


def _building(is_followed: bool) -> Script:
    made = Script()
    made.cell()
    for at in range(3):
        made.build(outcome="hit" if is_followed and at else "miss", duration_ns=80 * US if is_followed and at else
                   900 * MS, reason_code="new_operator_name" if at and not is_followed else None)
    return _ended(made)


def _tuned(made: Script, n: int, **compilation: Any) -> None:
    """Add a run of the autotuner with a launch of its benchmark in it."""
    run, after = made.tuning({"n": str(n)}, (0.3, 0.1)), made.now
    made.compilation(launch_id=made.launch(build_id=run, start_ns=after - MS, phases=None, end_ns=after - 2 * US),
                     duration_ns=0, **compilation)
    made.now = after


def _tuning(is_followed: bool) -> Script:
    """A kernel that is tuned for each of four values of `n`, or for the first one only."""
    made = Script()
    made.cell()
    made.launchable(framework="triton")
    for at in range(4):
        if not at or not is_followed:
            _tuned(made, at)
        else:
            made.now += 2 * US
        made.launch()
    return _ended(made)


def _tuning_again(is_followed: bool) -> Script:
    """The next session: without the advice it measures again."""
    made = Script()
    made.cell()
    made.launchable(framework="triton")
    if is_followed:
        made.now += 2 * US  # reading the result
    else:
        _tuned(made, 1, outcome="disk")
    made.launch()
    return _ended(made)


def _rounds(is_followed: bool) -> Script:
    """30 rounds of three launches with Python between them, one with a launch that waits; or of one graph launch."""
    made = _begun(3)
    for turn in range(30):
        for at in range(0 if is_followed else 3):
            made.launch(at, (3 * US, 0, 4 * US + (400 * US if turn == 9 else 0), 2 * US, US), at)
        made.now += 8 * US if is_followed else 0
    return _ended(made)


def _without_graph(is_followed: bool) -> Script:
    made = Script()
    made.cell()
    made.kernel("step", framework="quadrants", options='{"graph": true}')
    because = None if is_followed else "no graphs"
    made.specialization(0, attributes=json.dumps({"graph": True, "plain_because": because}))
    made.configuration()
    for _ in range(4):
        made.launch(phases=(2 * US, 0, US, US, 0) if is_followed else (2 * US, 0, 300 * US, 20 * US, 0))
    return _ended(made)


def _counted(made: Script, specializations: tuple[int, ...]) -> Callable[[bool], Script]:
    """Kernels that the cell waits for, which took longer than those that were measured; at best nearly all goes."""
    def story(is_followed: bool) -> Script:
        held = Script(**made.metadata)
        held.rows = {name: [*map(dict, rows)] for name, rows in made.rows.items()}
        held.now = made.now
        for at, row in enumerate(made.rows["launches"]):
            number = row["specialization_id"]
            took = round(1.5 * measured.ncu(number)["gpu__time_duration.sum"])
            took = took // 100 if is_followed and number in specializations else took
            held.activity(launch_id=at, specialization_id=number, start_ns=held.now, duration_ns=took)
            held.now += took
        return _ended(held)

    return story


def _with(made: Script, table: str, row: int, **values: Any) -> Script:
    made.rows[table][row] |= values
    return made


def _spilling() -> Script:
    made = _with(measured.script(), "specializations", 4, local_bytes=96, spill_store_bytes=48, spill_load_bytes=48)
    for row in made.rows["metrics"]:
        if made.rows["measurements"][row["measurement_id"]]["specialization_id"] == 4 and "mem_local" in row["name"]:
            row["value"] = 1_048_576
    return made


#: By rule: what its bound is of, and the cell before (False) and after (True) the advice was followed.
BEST: dict[str, tuple[str, Callable[[bool], Script]]] = {
    "argument_types": (WALL, _compiling(*(f"({_F32}, {each})" for each in ("int64", "int32", "int8", "float64")))),
    "recreated": (WALL, _definitions(("again",) * 3)),
    "same_code": (WALL, _definitions(("one", "two", "three"))),
    "repeated_layouts": (WALL, _compiling(*(f"(array(float32, 2d, {each}),)" for each in "CFA"))),
    "repeated_dtypes": (WALL, _compiling(*(f"(array({each}, 1d, C),)" for each in ("float32", "float64", "int8")))),
    "repeated_scalars": (WALL, _compiling("(int64,)", "(int32,)", "(int8,)")),
    "repeated_tuples": (WALL, _compiling(*(f"(UniTuple(int64 x {each}),)" for each in (1, 2, 3)))),
    "launch_configurations": (WALL, _sensitive),
    "changed_argument": (WALL, _compiling(f"({_F32},)", f"({_F64},)")),
    "no_disk_cache": (NEXT_SESSION, _uncached),
    "launch_bound": (WALL, lambda is_followed: _busily(is_followed, 2 * US)),
    "many_launches": (WALL, _busily),
    "long_launches": (WALL, _waiting),
    "slow_prepare": (WALL, _preparing),
    "pageable_copies": (WALL, _copying),
    "few_blocks": (GPU, _on_the_gpu((1,), (32,), 1 / 132)),
    "partial_warps": (GPU, _on_the_gpu((400,), (33,), 33 / 64)),
    "rebuilt_graph": (WALL, lambda is_followed: _graphs(is_followed, "rebuilt")),
    "graph_launched_once": (WALL, lambda is_followed: _graphs(is_followed, "once")),
    "unlaunched_graph": (WALL, lambda is_followed: _graphs(is_followed, "never")),
    "refused_updates": (WALL, lambda is_followed: _graphs(is_followed, "refused")),
    "operator_names": (WALL, _building),
    "autotune_key": (WALL, _tuning),
    "autotune_results": (NEXT_SESSION, _tuning_again),
    "repeated_sequence": (WALL, _rounds),
    "graph_fell_back": (WALL, _without_graph),
    "double_precision": (GPU, _counted(measured.script(), (2,))),
    "uncoalesced": (GPU, _counted(measured.script(), (6,))),
    "spills": (GPU, _counted(_spilling(), (4,))),
    "low_occupancy": (GPU, _counted(_with(_with(measured.script(), "specializations", 5, regs=128), "occupancies", 5,
                                          occupancy=0.25, active_blocks_per_multiprocessor=2), (5,))),
    "tail_effect": (GPU, _counted(_with(measured.script(), "configurations", 1, griddim_x=300, griddim_y=1), (3, 4))),
    "bank_conflicts": (GPU, _counted(measured.script(), (7,))),
    "at_roof": (GPU, _counted(measured.script(), ())),
}


def _wall(made: Script) -> int:
    row = made.rows["cells"][0]
    return row["end_ns"] - row["start_ns"]


def _advice(made: Script) -> dict[str, Advice]:
    return {each.code: each for each in Overview(explain_builds(made.recording())).advice}


def test_every_rule_has_its_best_case() -> None:
    assert set(BEST) == set(rules())


@pytest.mark.parametrize("code", BEST)
def test_following_an_advice_saves_no_more_than_its_bound(code: str) -> None:
    quantity, story = BEST[code]
    before, after = story(False), story(True)
    told, saved = _advice(before)[code], _wall(before) - _wall(after)
    assert told.saves_of == quantity
    assert saved <= told.saves_ns <= _wall(before)
    # And the bound says something: the best case comes near to it, where its recording tells what goes.
    if quantity == WALL:
        assert told.saves_ns <= 1.6 * saved
    if code not in ("at_roof", "autotune_results", "no_disk_cache", "low_occupancy", "partial_warps", "few_blocks",
                    "long_launches", "graph_fell_back", "uncoalesced"):
        assert told.is_certain
    if code != "at_roof":
        assert saved > 0


def test_the_copies_back_go_with_those_in() -> None:
    before, after = _preparing(False), _preparing(True)
    assert _advice(before)["slow_prepare"].saves_ns == 100 * (1460 + 787) * US
    assert _wall(before) - _wall(after) == 100 * (1456 + 786) * US


def test_wrapping_arrays_of_another_library_takes_time_in_dispatch_too() -> None:
    before, after = _wrapping(False), _wrapping(True)
    assert _wall(before) - _wall(after) == 100 * 118 * US
    assert _advice(before)["slow_prepare"].saves_ns == 100 * 125 * US


def test_a_bound_has_all_kernels_that_a_line_names() -> None:
    made = _begun(3)
    for at in range(3):
        for signature in (f"({_F32},)", f"({_F64},)"):
            _first_launch(made, at, signature)
    told = _advice(_ended(made))["changed_argument"]
    assert " k1, k2." in told.text
    assert told.saves_ns >= 3 * 58 * MS


def test_a_compile_in_a_row_of_launches_is_not_what_fewer_launches_save() -> None:
    made = _begun()
    for at in range(600):
        if at == 300:
            _first_launch(made, 0, f"({_F64},)", 5 * MS, load_ns=4 * US)
        else:
            made.launch()
    told = _advice(_ended(made))["many_launches"]
    assert told.saves_ns == 600 * 10 * US + 599 * 5 * US


def test_two_threads_that_launch_at_once_take_no_more_than_passed() -> None:
    made = _begun()
    for _ in range(600):
        start = made.now
        made.launch()
        made.now = start
        made.launch(thread_id=1)
    told = _advice(_ended(made))["many_launches"]
    assert told.saves_ns == 600 * 10 * US + 599 * 5 * US


