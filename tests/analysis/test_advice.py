from __future__ import annotations

from typing import Any

import pytest

from kernelscope.analysis.overview import overview

MS = 1_000_000


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
        "many_launches": "600 launches of axpy took 75 % of the wall time on the host, 10.0 µs each (median): launch "
                         "less often with more work, or as a CUDA graph."}
    assert _advice(_launched(script, 600, 80 * MS)) == {}


def test_launches_that_mostly_prepare(script: Any) -> None:
    found = _advice(_launched(script, 3, 100 * MS, (3_000, 0, 90_000, 6_000, 1_000)))
    assert found["slow_prepare"].startswith(
        "a launch of axpy prepares its arguments for 90.0 µs (median, 90 % of its host time)")


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
        "partial_warps": "2 launches of axpy had blocks that are no multiple of a warp's 32 threads: with 100 threads, "
                         "28 of the last warp's lanes idle."}


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
        "the GPU was busy for 13 % of the time only, and for 69 % of its idle time the host was making launches: one "
        "of axpy takes 10.0 µs on the host (median) and its kernel 2.00 µs on the GPU. Give each launch more work, "
        "launch less often, or replay the launches as a CUDA graph.")
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
        "HtoD copies took 6.00 ms, and 1 of them was from or to pageable memory (1.0 MiB), which the driver copies "
        "once more on the host: keep such arrays in pinned memory (cuda.pinned_array), or on the device.")
    made.rows["activities"][0]["memory"] = "pinned to device"
    assert _advice(made) == {}
