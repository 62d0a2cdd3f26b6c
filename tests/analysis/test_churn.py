from __future__ import annotations

import json
from typing import Any

import pytest

from kernelscope.analysis.advice import find_churn

MS = 1_000_000


def _numbers(script: Any, dtypes: list[str], **row: Any) -> Any:
    made = script()
    made.kernel("axpy", arguments="x, n")
    for dtype in dtypes:
        made.compilation(0, 50 * MS, signature=f"(array(float32, 1d, C), {dtype})", **row)
    return made


def test_an_argument_of_more_than_three_types(script: Any) -> None:
    few = _numbers(script, ["int64", "int32", "int8"]).recording()
    assert find_churn(few) == []
    made = _numbers(script, ["int64", "int32", "int8", "float64", "float32"])
    made.compilation(0, 7 * MS, signature="(array(float32, 1d, C), int64)", trigger="specialize")
    made.compilation(0, 7 * MS, signature="(array(int8, 1d, C), uint8)")
    found, = find_churn(made.recording())
    assert (found.code, found.argument, found.compiles, found.spent_ns) == ("argument_types", "n", 5, 250 * MS)
    assert found.types == ("int64", "int32", "int8", "float64", "float32")


def test_types_from_before_and_from_the_disk_count_but_take_no_time(script: Any) -> None:
    made = _numbers(script, ["int64"], attributes=json.dumps({"known_signatures": ["(array(float32, 1d, C), int8)"]}))
    for dtype, origin in (("int32", "before"), ("int16", "disk")):
        made.specialization(0, f"(array(float32, 1d, C), {dtype})", origin=origin)
    found, = find_churn(made.recording())
    assert (len(found.types), found.compiles, found.spent_ns) == (4, 1, 50 * MS)
    del made.rows["compilations"]
    assert find_churn(made.recording()) == []


def _defined(script: Any, times: int, cells: int = 1, **row: Any) -> Any:
    made = script()
    for _ in range(cells):
        made.cell()
    for at in range(times):
        number = made.kernel("again", **({"code_sha256": "a"} | row))
        made.compilation(number, 40 * MS, cell_id=at % cells)
    return made


@pytest.mark.parametrize("code", ["a", None])
def test_a_kernel_that_is_defined_again_and_again(script: Any, code: str | None) -> None:
    found, = find_churn(_defined(script, 3, code_sha256=code).recording())
    assert (found.code, found.dispatchers, found.compiles, found.spent_ns, found.cells) == (
        "recreated", (0, 1, 2), 3, 120 * MS, 1)


def test_what_is_no_repetition(script: Any) -> None:
    assert find_churn(_defined(script, 1).recording()) == []
    other_types = _defined(script, 2)
    other_types.rows["compilations"][1]["signature"] = "(int64,)"
    assert find_churn(other_types.recording()) == []
    other_code = _defined(script, 2)
    other_code.rows["dispatchers"][1]["code_sha256"] = "b"
    assert find_churn(other_code.recording()) == []
    from_disk = _defined(script, 2)
    from_disk.rows["compilations"][1]["outcome"] = "disk"
    assert find_churn(from_disk.recording()) == []


def test_a_function_that_is_jitted_twice(script: Any) -> None:
    made = _defined(script, 1)
    made.compilation(0, 40 * MS, attributes='{"another_dispatcher": true}')
    found, = find_churn(made.recording())
    assert (found.code, found.compiles) == ("recreated", 2)


def test_the_same_code_in_a_library_is_not_the_users(script: Any) -> None:
    made = _defined(script, 2, attributes='{"owner": "library"}')
    made.rows["dispatchers"][1]["name"] = "copy"
    assert find_churn(made.recording()) == []
