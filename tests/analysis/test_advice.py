from __future__ import annotations

import re
from typing import Any

import pytest
from graph_stories import GraphScript, rebuilt
from handmade import MS, Script

from kernelscope.views.card.model import overview

UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01}
TIME = r"[\d.,]+ (?:ns|µs|ms|s)"


def _advice(made: Any) -> dict[str, str]:
    return {each.code: each.text for each in overview(made.recording()).advice}


def _launched(script: Any, launches: int, wall_ns: int, phases: tuple[int, ...] = (3_000, 0, 4_000, 2_000, 1_000),
              grid: tuple[int, ...] = (400,), block: tuple[int, ...] = (128,)) -> Any:
    made = script()
    made.device(multiprocessors=132)
    made.cell(wall_ns=wall_ns)
    made.kernel("axpy")
    made.specialization()
    made.configuration(grid, block)
    for _ in range(launches):
        made.launch(phases=phases)
    return made


def test_a_quiet_cell_gets_no_advice(script: Any) -> None:
    assert _advice(_launched(script, 20, 100 * MS)) == {}
    assert _advice(script()) == {}


def test_compiles_repeated_for_layouts_and_configurations(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    for layout in ("C", "F", "A"):
        made.compilation(0, 50 * MS, signature=f"(array(float32, 2d, {layout}),)")
    assert _advice(made) == {
        "repeated_layouts": "axpy was compiled 2 more times for other memory layouts, 100 ms in all: pass arrays of "
                            "one layout."}
    made = _launched(script, 1, 100 * MS)
    for at in range(4):
        made.configuration((at + 7,))
        made.compilation(0, 50 * MS, configuration_id=at, launch_config_sensitive=True)
    assert "compiled 3 more times for other launch configurations" in _advice(made)["launch_configurations"]


def test_compiles_repeated_for_numbers_and_tuples(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    for kind in ("int64", "int32", "int8"):
        made.compilation(0, 50 * MS, signature=f"({kind},)")
    assert "2 more times for other types of numbers, 100 ms in all" in _advice(made)["repeated_scalars"]
    made.compilation(0, 50 * MS, signature="(float32,)")
    found = _advice(made)
    assert "argument 0 of axpy took 4 types" in found["argument_types"]
    assert "repeated_scalars" not in found, "one line says it all"
    made = _launched(script, 1, 100 * MS)
    for count in (1, 2, 3):
        made.compilation(0, 50 * MS, signature=f"(UniTuple(int64 x {count}),)")
    assert "other numbers of elements in a tuple" in _advice(made)["repeated_tuples"]


def test_slow_compiles_without_a_disk_cache(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    made.compilation(0, 150 * MS)
    made.compilation(0, 150 * MS, signature="(int64,)", cache_file="x.nbi")
    made.compilation(0, 10 * MS, signature="(int8,)")
    assert _advice(made) == {
        "no_disk_cache": "1 compile took 150 ms without a disk cache: cache=True in @cuda.jit would spare the next "
                         "session those of axpy."}


def test_a_disk_cache_is_switched_on_as_the_framework_does(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    made.kernel("step", framework="quadrants")
    made.compilation(0, 150 * MS)
    made.compilation(1, 250 * MS)
    assert _advice(made)["no_disk_cache"] == (
        "2 compiles took 400 ms without a disk cache: qd.init(offline_cache=True) would spare the next session those "
        "of step; cache=True in @cuda.jit would spare the next session those of axpy.")


def test_arrays_on_the_device_are_named_as_the_framework_does(script: Any) -> None:
    made = _launched(script, 3, 100 * MS, (3_000, 0, 90_000, 6_000, 1_000))
    made.rows["dispatchers"][0]["framework"] = "quadrants"
    assert _advice(made)["slow_prepare"].endswith("pass device arrays (qd.ndarray).")


def test_many_launches_that_take_the_wall_time(script: Any) -> None:
    assert _advice(_launched(script, 600, 8 * MS)) == {
        "many_launches": "600 launches of axpy took 6.00 ms on the host, 75 % of the wall time and 10.0 µs each on "
                         "average: launch less often with more work, or as a CUDA graph."}
    assert _advice(_launched(script, 600, 80 * MS)) == {}


def test_launches_that_mostly_prepare(script: Any) -> None:
    found = _advice(_launched(script, 3, 100 * MS, (3_000, 0, 90_000, 6_000, 1_000)))
    assert found["slow_prepare"].startswith(
        "3 launches of axpy took 300 µs on the host, 270 µs of it (90 %) in prepare, where host arrays are copied in")


@pytest.mark.parametrize(("phases_ns", "is_advised"), [
    ((3_000, 0, 55_000, 6_000, 56_000), True),  # copied in, and back
    ((73_000, 0, 55_000, 6_000, 1_000), False),
])
def test_host_arrays_are_copied_in_and_back(script: Any, phases_ns: tuple[int, ...], is_advised: bool) -> None:
    assert ("slow_prepare" in _advice(_launched(script, 3, 100 * MS, phases_ns))) == is_advised


def test_few_blocks_need_a_known_device(script: Any) -> None:
    made = _launched(script, 600, 800 * MS, grid=(1,), block=(32,))
    assert "have 1 block at most, on a GPU with 132 multiprocessors" in _advice(made)["few_blocks"]
    del made.rows["devices"]
    assert _advice(made) == {}


def test_partial_warps(script: Any) -> None:
    found = _advice(_launched(script, 2, 100 * MS, block=(100,)))
    assert found == {
        "partial_warps": "2 launches of axpy had blocks that are no multiple of a warp's 32 threads: in the largest, "
                         "of 100 threads, 28 of the last warp's lanes idle."}


def test_one_line_a_rule_names_the_other_kernels(script: Any) -> None:
    made = _launched(script, 2, 100 * MS, block=(100,))
    for name in ("b", "c", "n" * 200):
        kernel = made.kernel(name)
        made.launch(kernel)
    text = _advice(made)["partial_warps"]
    assert text.endswith(f" The same goes for b, c, {'n' * 20}…{'n' * 20}.")


def _bound(script: Any, execute_ns: int, launches: int = 600) -> Any:
    made = _launched(script, launches, launches * 15_000)
    for launch, row in enumerate(made.rows["launches"]):
        made.activity(launch_id=launch, start_ns=row["submit_end_ns"], duration_ns=execute_ns)
    return made


def test_launches_that_keep_the_gpu_idle(script: Any) -> None:
    found = _advice(_bound(script, 2_000))
    assert found["launch_bound"] == (
        "the GPU was busy for 13 % of the time only, and for 69 % of its idle time the host was making launches: 600 "
        "of axpy took 6.00 ms on the host, 10.0 µs each on average, and its 600 kernels ran for 1.20 ms on the GPU, "
        "2.00 µs each. Give each launch more work, launch less often, or replay the launches as a CUDA graph.")
    assert "many_launches" not in found, "it would say the same"
    assert "launch_bound" not in _advice(_bound(script, 9_000)), "the GPU is busy"
    assert "launch_bound" not in _advice(_bound(script, 2_000, 100)), "too few launches"
    slow = _bound(script, 2_000)
    slow.rows["cells"][0]["end_ns"] *= 10  # nearly all of the idle time is outside of launches
    assert "launch_bound" not in _advice(slow)


def test_copies_of_pageable_memory(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    made.activity("memcpy", "HtoD", 6 * MS, start_ns=made.rows["cells"][0]["start_ns"], size_bytes=1 << 20,
                  memory="pageable to device")
    assert _advice(made)["pageable_copies"] == (
        "1 HtoD copy from or to pageable memory took 6.00 ms (1.0 MiB); the driver copies such memory once more on the "
        "host: keep these arrays in pinned memory (cuda.pinned_array), or on the device.")
    made.activity("memcpy", "HtoD", 40 * MS, size_bytes=8 << 20, memory="pinned to device")
    assert "1 HtoD copy from or to pageable memory took 6.00 ms (1.0 MiB)" in _advice(made)["pageable_copies"]
    made.rows["activities"][0]["memory"] = "pinned to device"
    assert _advice(made) == {}


def _waiting(kernels: int = 4, rounds: int = 500) -> Script:
    """2,000 launches of 54 µs in 500 rounds, of which 24 wait in prepare, one of them for 34.7 ms."""
    made = Script()
    made.cell(wall_ns=311 * MS, execution_count=3)
    for at in range(kernels):
        made.kernel(f"k{at}")
        made.specialization(at)
    made.configuration((400,))
    waits = {round(at * rounds / 24): 34_646_000 if at == 7 else 5_700_000 for at in range(24)}
    for turn in range(rounds):
        for at in range(kernels):
            wait = waits.get(turn, 0) if at == 0 else 0
            made.launch(at, (20_000, 0, 4_000 + wait, 20_000, 10_000), at)
    return made


def _number(text: str) -> float:
    """A duration in nanoseconds, a share of 1, or a count."""
    value, _, unit = text.partition(" ")
    return float(value.replace(",", "")) * UNITS.get(unit, 1)


def _numbers(text: str, pattern: str) -> list[float]:
    found = re.search(pattern, text)
    assert found, text
    return [_number(each) for each in found.groups()]


def _holds(product: float, stated: float) -> None:
    """Each number has three digits, a share two."""
    assert product == pytest.approx(stated, rel=0.03)


def test_few_launches_that_waited_are_no_reason_for_a_graph_by_themselves() -> None:
    found = overview(_waiting().recording())
    advice = {each.code: each for each in found.advice}
    text = advice["long_launches"].text
    assert text == (
        "24 of 500 launches of k0 took 167 ms of the 193 ms of host time of all (87 %); the longest took 34.7 ms, 34.6 "
        "ms of it in prepare, where host arrays are copied in, and a first launch loads its module. The timeline shows "
        "when. Neither fewer launches nor a CUDA graph is sure to spare that.")
    long = found.by_kernel[0].long
    assert long is not None
    assert (long.launches, long.longest_ns, long.phase, long.phase_ns) == (24, 34_700_000, "prepare", 34_650_000)
    assert advice["long_launches"].weight_ns == long.totals.host_ns
    part, whole, share = _numbers(text, f"took ({TIME}) of the ({TIME}) of host time of all \\((.+?)\\)")
    _holds(part / whole, share)
    rounds = advice["repeated_sequence"]
    assert rounds.text == (
        "the same 4 launches (k0, k1, k2 and 1 more) were made 500 times one after another: 476 of the rounds took 103 "
        "ms of host time, 33 % of the wall time and 216 µs a round on average; 24 longer ones, 171 ms in all, waited "
        "for something that a graph need not spare. As a CUDA graph a round is one launch: %kernelscope whatif graph 3 "
        "measures what that would save.")
    assert rounds.weight_ns == 476 * 216_000
    # That all launches take 88 % of the wall time is nothing that a graph could spare.
    assert found.host_share == pytest.approx(0.88, abs=0.005)


def test_a_cell_that_only_waits_is_advised_no_graph() -> None:
    made = _waiting()
    made.rows["cells"][0]["end_ns"] = made.rows["cells"][0]["start_ns"] + 450 * MS
    assert sorted(_advice(made)) == ["long_launches"]
    alone = _waiting(kernels=1, rounds=2_000)
    alone.rows["cells"][0]["end_ns"] = alone.rows["cells"][0]["start_ns"] + 500 * MS
    assert sorted(_advice(alone)) == ["long_launches"]
    for row in alone.rows["launches"]:
        row |= {"dispatch_end_ns": None, "submit_start_ns": None, "submit_end_ns": None, "compile_ns": None}
    assert _advice(alone) == {}, "why they took long is not known"


def test_what_many_launches_took_can_be_multiplied() -> None:
    made = _waiting(kernels=1, rounds=2_000)
    text = _advice(made)["many_launches"]
    assert text.startswith("1,976 launches of k0 took 107 ms on the host, 34 % of the wall time and 54.0 µs each on "
                           "average, besides 24 longer ones of 167 ms in all: launch less often")
    count, spent, share, each = _numbers(
        text, f"([\\d,]+) launches .* took ({TIME}) on the host, (.+?) of the wall time and ({TIME}) each")
    _holds(count * each, spent)
    _holds(share * 311 * MS, spent)


def test_what_launches_that_keep_the_gpu_idle_took_can_be_multiplied(script: Any) -> None:
    made = _bound(script, 2_000)
    waited = made.rows["launches"][300]
    for name in ("submit_start_ns", "submit_end_ns", "end_ns"):
        waited[name] += 300_000  # with the launches after it, and so with idle time
    text = _advice(made)["launch_bound"]
    launches, host, each, kernels, device, one = _numbers(
        text, f"launches: ([\\d,]+) of axpy took ({TIME}) on the host, ({TIME}) each on average, besides 1 longer one "
              f"of 310 µs in all, and its ([\\d,]+) kernels ran for ({TIME}) on the GPU, ({TIME}) each")
    assert (launches, kernels) == (599, 600)
    _holds(launches * each, host)
    _holds(kernels * one, device)
    waited["end_ns"] += 20 * MS
    assert "launch_bound" not in _advice(made), "the GPU idled while one launch waited"


def test_what_is_spent_in_prepare_is_of_the_same_launches(script: Any) -> None:
    made = _launched(script, 30, 100 * MS, (3_000, 0, 90_000, 6_000, 1_000))
    made.launch(phases=(3_000, 0, 34_700_000, 6_000, 1_000))
    text = _advice(made)["slow_prepare"]
    launches, spent, prepare, share = _numbers(
        text, f"(\\d+) launches of axpy took ({TIME}) on the host, besides 1 longer one .*, ({TIME}) of it \\((.+?)\\)")
    _holds(launches * 100_000, spent)
    _holds(share * spent, prepare)


def test_what_graphs_cost_is_a_sum() -> None:
    text = _advice(rebuilt())["rebuilt_graph"]
    builds, spent, replaced, of_them = _numbers(text, f"([\\d,]+) times, ({TIME}) in all; (\\d+) of them, ({TIME}),")
    _holds(builds * 402_000, spent)
    _holds(replaced * 402_500, of_them)
    made = GraphScript()
    executable = made.instantiate()
    for took in (10, 20, 600):
        made.graph_event("update", 0, took * 1_000, exec_id=executable, outcome="refused", error="nodes were added")
    assert "3 updates of graph 0 were refused by the driver, 630 µs in all:" in _advice(made)["refused_updates"]


def test_what_compiles_took_is_a_sum(script: Any) -> None:
    made = _launched(script, 1, 100 * MS)
    for number, layout in enumerate("CFA"):
        made.compilation(0, (number + 1) * 100 * MS, signature=f"(array(float32, 2d, {layout}),)")
    found = _advice(made)
    assert "compiled 2 more times for other memory layouts, 500 ms in all" in found["repeated_layouts"]
    assert "3 compiles took 600 ms without a disk cache" in found["no_disk_cache"]
