"""Advice from counters: each rule fires on its kernel of those that were measured on an H200, and on no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import measured
import pytest
from handmade import Script
from sampled import sampled

from kernelscope.analysis.savings import GPU
from kernelscope.features.metrics.advice import CounterEvidence, counter_rules
from kernelscope.views.card.model import Overview

_LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum"


def _found(made: Script) -> dict[str, list[str]]:
    """Return the specializations of which each rule says something, by their places."""
    evidence = CounterEvidence(made.recording())
    return {rule.code: [found.kernel for found in rule.say(evidence)] for rule in counter_rules()
            if [*rule.say(evidence)]}


def _said(made: Script, code: str) -> str:
    return next(each.text for each in Overview(made.recording()).advice if each.code == code)


def _changed(table: str, row: int, made: Script | None = None, **values: Any) -> Script:
    made = made or measured.script()
    made.rows[table][row] |= values
    return made


def _spilling() -> Script:
    made = _changed("specializations", 4, local_bytes=96, spill_store_bytes=48, spill_load_bytes=48)
    for row in made.rows["metrics"]:
        if made.rows["measurements"][row["measurement_id"]]["specialization_id"] == 4 and "mem_local" in row["name"]:
            row["value"] = 1_048_576
    return made


def _crowded() -> Script:
    """The reduction with 128 registers a thread: two blocks fit, of 32 blocks' worth of warps."""
    made = _changed("specializations", 5, regs=128)
    return _changed("occupancies", 5, made, occupancy=0.25, active_blocks_per_multiprocessor=2)


def _with_tail() -> Script:
    """The products in a grid of 300 blocks, of which 264 run at once."""
    made = _changed("configurations", 1, griddim_x=300, griddim_y=1)
    return _changed("measurements", 4, made, configuration_id=None)


@pytest.mark.parametrize(("make", "more"), [
    (measured.script, {}),
    (_spilling, {"spills": ["tiled_product"]}),
    (_crowded, {"low_occupancy": ["reduction"]}),
    (lambda: _changed("configurations", 1, griddim_x=300, griddim_y=1),
     {"tail_effect": ["naive_product", "tiled_product"]}),
])
def test_each_rule_fires_on_its_kernel_and_on_no_other(make: Callable[[], Script], more: dict[str, list[str]]) -> None:
    assert _found(make()) == {"double_precision": ["axpy"], "uncoalesced": ["naive_transpose"],
                              "bank_conflicts": ["transpose"], "at_roof": ["axpy"], **more}


def test_the_double_precision_kernel_is_the_one_with_the_float64_argument() -> None:
    assert "double_precision" in _found(measured.script(only=(2,)))
    assert "double_precision" not in _found(measured.script(only=(0, 1, 3, 4, 5, 6, 7, 8)))


@pytest.mark.parametrize(("code", "make", "text"), [
    ("double_precision", measured.script,
     "`a` of axpy is float64, as Python's floats are: 16,777,216 double-precision operations a launch on arrays "
     "of float32. Pass np.float32(a), if the values allow it. (From any double-precision instruction where no "
     'array is float64: CUDA C++ Best Practices Guide, "Type Conversion Instructions".)'),
    ("double_precision", lambda: _changed("specializations", 2, signature="(int64, array(float32, 1d, C))"),
     "axpy does 16,777,216 double-precision operations a launch on arrays of float32, and no argument is "
     "float64. In its code a number such as 0.5 is, and so is the quotient of integers: write np.float32(0.5), "
     "if the values allow it. ("),
    ("uncoalesced", measured.script,
     "Threads of a warp in naive_transpose access global memory far apart: 18,874,368 sectors a launch (stores 32 "
     "sectors a request), where 4,194,304 would do. Let neighbouring threads (threadIdx.x) access neighbouring "
     "elements: the last index of a C-ordered array; or go through shared memory. (From 50 % of the sectors that "
     "global memory is accessed in, or fewer, would do: "),
    ("spills", _spilling,
     "tiled_product moves 64.0 MiB of local memory a launch (2,097,152 sectors, 96 B a thread), 25 % of what "
     "passes L1: registers are spilled. Allow more registers (max_registers, smaller blocks), or keep fewer "
     "values at once. (From "),
    ("low_occupancy", _crowded,
     "A multiprocessor can hold 25 % of its warps of reduction and holds 69 % (theoretical and achieved "
     "occupancy), limited by registers (128 a thread). More would need fewer registers a thread (max_registers, "
     "smaller blocks, less work a thread). It helps where warps wait for memory, and not always. (From a "
     "theoretical occupancy below 80 %: Nsight Compute's rule TheoreticalOccupancy.)"),
    ("tail_effect", lambda: _changed("configurations", 1, griddim_x=300, griddim_y=1),
     "The 300 blocks of naive_product run in 1.14 waves of 264: the last has 36, and 43 % of the places of all "
     "waves are empty. Choose a grid of whole waves, or of 264 blocks that each loop over the data (a "
     "grid-stride loop), or smaller blocks. (From more than one wave of blocks, with 20 % of the places of all "
     "waves empty: after Nsight Compute's rule LaunchConfiguration, Tail Effect.) The same goes for "
     "tiled_product."),
    ("bank_conflicts", measured.script,
     "89 % of the shared-memory wavefronts of transpose are bank conflicts: 16,393,610 of 18,508,640 a launch. "
     "Threads of a warp access different words of one bank: make the rows of the shared array one element "
     "longer, such as cuda.shared.array((32, 33), dtype). (From 10 % of the shared-memory wavefronts are "
     "conflicts: Nsight Compute's rule SharedMemoryConflicts.)"),
    ("at_roof", measured.script,
     "axpy is at its roof: 2.98 TB/s of DRAM, 82 % of what the GPU does, in 61.4 µs. There is nothing to gain "
     "here but fewer bytes. (From 80 % of the roof that limits it: Nsight Compute's rule SOLBottleneck.)"),
])
def test_what_a_rule_says(code: str, make: Callable[[], Script], text: str) -> None:
    said = _said(make(), code)
    assert said == text or (not text.endswith((".", ")")) and said.startswith(text)), said


@pytest.mark.parametrize(("code", "made"), [
    # Doubles that were asked for.
    ("double_precision", lambda: _changed("specializations", 2, signature="(float64, array(float64, 1d, C))")),
    ("double_precision", lambda: _changed("dispatchers", 1, framework="triton")),
    ("uncoalesced", lambda: measured.script(only=(6,), **{"smsp__sass_sectors_mem_global_ideal.sum": 1.7e7})),
    ("spills", lambda: measured.script(**{_LOCAL.format("ld"): 10.0})),
    ("low_occupancy", lambda: _changed("occupancies", 5, occupancy=0.8)),
    ("bank_conflicts", lambda: measured.script(**{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 0.0})),
    ("at_roof", lambda: measured.script(copy=4.5e12)),
    ("at_roof", lambda: measured.script(copy=None)),
    # Nearly whole waves, and less than one.
    ("tail_effect", measured.script),
    ("tail_effect", lambda: _changed("configurations", 1, griddim_x=200, griddim_y=1)),
])
def test_when_a_rule_is_silent(code: str, made: Callable[[], Script]) -> None:
    assert code not in _found(made())


def test_nothing_is_gained_by_occupancy_or_whole_waves_at_the_roof() -> None:
    made = _changed("occupancies", 1, occupancy=0.25, active_blocks_per_multiprocessor=400)
    found = _found(made)
    assert found["low_occupancy"] == found["tail_effect"] == found["at_roof"] == ["axpy"]
    assert not {"low_occupancy", "tail_effect"} & {each.code for each in Overview(made.recording()).advice}


def test_the_line_that_waits_for_memory_is_named() -> None:
    found, made = sampled(), Script(name="sampled", code=True)
    made.rows = {name: found.rows(name) for name in ("dispatchers", "specializations", "configurations", "devices",
                                                     "code", "pc_samples", "threads", "cells", "launches")}
    made.measurement(0, {
        "gpu__time_duration.sum": 1_000.0, "smsp__sass_sectors_mem_global.sum": 800.0,
        "smsp__sass_sectors_mem_global_ideal.sum": 100.0})
    assert " 100 % of its waits for memory are at line 11, `y[i] += a * x[i]`. " in _said(made, "uncoalesced")


def test_the_time_is_that_of_all_launches() -> None:
    found = {each.code: each for each in Overview(measured.script().recording()).advice}
    assert found["double_precision"].saves_ns == pytest.approx(2 * 63_024)
    assert found["double_precision"].saves_of == GPU
    assert (found["at_roof"].saves_ns, found["at_roof"].is_certain) == (0, False)
