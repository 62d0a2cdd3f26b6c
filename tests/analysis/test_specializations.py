from __future__ import annotations

from typing import Any

from kernelscope.analysis.specializations import by_specialization


def test_overloads_by_kernel_with_most_launches_first(script: Any) -> None:
    made = script()
    made.kernel("a")
    made.kernel("b")
    made.specialization(0, "(int64,)", origin="before", regs=12)
    made.specialization(0, "(float32,)", cubin_bytes=4_096)
    made.specialization(1)
    made.configuration()
    made.compilation(0, 700, specialization_id=1)
    made.launch(0, (1, 0, 1, 1, 1), 1)
    made.launch(0, (1, 0, 1, 1, 3), 1)
    made.launch(0, None, None)
    found = by_specialization(made.recording())
    first, second = found[0]
    assert (first.signature, first.launches, first.host_ns, first.median_ns) == ("(float32,)", 2, 10, 5)
    assert (first.compile_ns, first.cubin_bytes, first.regs) == (700, 4_096, None)
    assert (second.origin, second.launches, second.compile_ns, second.median_ns) == ("before", 0, None, None)
    assert len(found[1]) == 1
    assert by_specialization(script().recording()) == {}
