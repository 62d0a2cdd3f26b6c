from __future__ import annotations

from typing import Any

from kernelscope.analysis.launches import by_specialization
from kernelscope.views.inspector.model import inspect_kernels


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


def test_threads_that_waited_did_not_compile(script: Any) -> None:
    made = script()
    made.kernel("axpy")
    made.specialization(0)
    made.compilation(specialization_id=0, start_ns=0, end_ns=300)
    for thread in (1, 2):
        made.compilation(specialization_id=0, outcome="wait", thread_id=thread, start_ns=0, end_ns=310, wait_ns=310)
    made.specialization(0)
    made.compilation(specialization_id=1, outcome="wait", thread_id=1, start_ns=400, end_ns=500, wait_ns=100)
    recording = made.recording()
    assert [each.compile_ns for each in by_specialization(recording)[0]] == [300, None]
    inspected, = inspect_kernels(recording)
    assert [each.compile_ns for each in inspected.specializations] == [300, None]
    assert inspected.compile_ns == 300
