from __future__ import annotations

from handmade import Script

from kernelscope.views.inspector.model import inspect_kernels
from kernelscope.views.inspector.text import code_diff, facts_diff


def pair(**row: object):
    script = Script()
    script.kernel("axpy", arguments="x, n")
    first = {"signature": "(array(float32, 1d, C), int64)", "regs": 18, "cubin_bytes": 4_000}
    script.specialization(0, **first)
    script.specialization(0, **(first | row))
    kernel, = inspect_kernels(script.recording())
    return kernel, *sorted(kernel.specializations, key=lambda each: each.number)


def test_facts_that_differ_stand_among_those_that_do_not() -> None:
    lines = facts_diff(*pair(signature="(array(float64, 1d, C), int64)", regs=22)).splitlines()
    assert lines[:2] == ["--- axpy specialization 1", "+++ axpy specialization 2"]
    assert "-x: float32[:] C" in lines and "+x: float64[:] C" in lines and " n: int64" in lines
    assert "-registers: 18" in lines and "+registers: 22" in lines and " machine code: 4,000 B" in lines
    assert " local memory: not recorded" in lines


def test_equal_ones_have_no_diff() -> None:
    assert facts_diff(*pair()) == ""
    assert code_diff(*pair(), ("same", "same"), "ptx") == ""


def test_code_keeps_its_tabs_and_loses_its_escapes() -> None:
    text = code_diff(*pair(), ("\tmov.u32 %r1;\n\x1b[31m", "\tmov.u64 %r1;\n\x1b[32m"), "ptx")
    assert text.splitlines()[:2] == ["--- axpy specialization 1 ptx", "+++ axpy specialization 2 ptx"]
    assert "-\tmov.u32 %r1;" in text and "+\\x1b[32m" in text and "\x1b" not in text
