from __future__ import annotations

from typing import Any

from kernelscope.analysis.compiles import compilations, compile_ns


def test_compiles_come_longest_first_with_their_reasons(script: Any) -> None:
    made = script()
    made.kernel("axpy")
    made.compilation(duration_ns=5, specialization_id=None)
    made.compilation(duration_ns=9, signature="(int64,)", cache_file="x.nbi", wait_ns=2)
    first, second = compilations(made.recording())
    assert (first.compilation_id, first.name, first.duration_ns, first.wait_ns, first.cached_on_disk) == (
        1, "axpy", 9, 2, True)
    assert (first.reason_code, second.reason_code) == ("new_type", "first_use")


def test_a_compile_inside_another_is_counted_once(script: Any) -> None:
    made = script()
    made.kernel()
    made.compilation(start_ns=10, end_ns=50)
    made.compilation(start_ns=20, end_ns=30)
    made.compilation(start_ns=20, end_ns=30, thread_id=1)
    assert compile_ns(made.recording()) == 50
    assert compile_ns(script().recording()) == 0
