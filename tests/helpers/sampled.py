"""A recording with samples of warps, by hand: neither a compiler nor a GPU is needed."""

from __future__ import annotations

import json

from handmade import Script

from kernelscope.recording.model import Recording

#: Lines 7 to 12 of k.py, and below them line 2 and 3 of helper.py.
SOURCE = ("@cuda.jit\ndef axpy(y, a, x, n):\n    i = cuda.grid(1)\n    if i < n:\n"
          "        y[i] += a * x[i]\n        y[i] = helped(y[i]) // n\n")
FIRST_LINE = 7
HELPER = "def helped(v):\n    return v * v\n"
ENTRY = "_Z4axpyPfS_"
#: Offset, instruction, and the ``//## File`` lines before it; then the compiler's subroutine, which line 12 calls.
_SASS = (
    ("k.py", 9, None, (0x00, "S2R R0, SR_TID.X")),
    ("k.py", 11, None, (0x10, "LDG.E R2, desc[UR4][R2.64]"), (0x20, "FFMA R5, R2, UR6, R5")),
    ("helper.py", 2, 12, (0x30, "FMUL R5, R5, R5")),
    ("k.py", 12, None, (0x40, "CALL.REL.NOINC `($__internal_0_$__div)"), (0x50, "STG.E desc[UR4][R6.64], R5")),
    ("k.py", 11, None, (0x60, "EXIT")),
)


def sass() -> str:
    lines = ["\t.target\tsm_90", f"//--------------------- .text.{ENTRY} --------------------------",
             f"\t.section\t.text.{ENTRY},\"ax\",@progbits", f"{ENTRY}:", f".text.{ENTRY}:"]
    for file, line, caller, *instructions in _SASS:
        inlined = "" if caller is None else f' inlined at "/home/u/k.py", line {caller}'
        lines.append(f'\t//## File "/home/u/{file}", line {line}{inlined}')
        if caller is not None:
            lines.append(f'\t//## File "/home/u/k.py", line {caller}')
        lines += [f"        /*{offset:04x}*/                   {text} ;" for offset, text in instructions]
    lines += ["        .type           $__internal_0_$__div,@function", "$__internal_0_$__div:",
              "        /*0070*/                   MUFU.RCP R8, R8 ;",
              "        /*0080*/                   RET.REL.NODEC R8 ;"]
    return "\n".join(lines) + "\n"


def ptx() -> str:
    lines = [".version 8.7", ".target sm_90", f".visible .entry {ENTRY}()", "{"]
    for line, instruction in ((9, "mov.u32 %r1, %tid.x;"), (11, "ld.global.f32 %f1, [%rd1];"),
                              (11, "fma.rn.f32 %f2, %f1, %f3, %f2;"), (12, "div.s64 %rd2, %rd2, %rd3;")):
        lines += [f"    .loc 1 {line} 0", f"    {instruction}"]
    return "\n".join([*lines, "    ret;", "}", '.file 1 "/home/u/k.py"'])


def sampled(*, has_lines: bool = True, has_code: bool = True, times: int = 1) -> Recording:
    """100 samples of ``axpy``, most at line 11, and 25 of a kernel that no probe recorded; `times` of each row."""
    made = Script(name="sampled", code=has_code)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.cell(execution_count=4)
    made.device(name="GPU", compute_capability="9.0")
    kernel = made.kernel("axpy", lineno=FIRST_LINE, arguments="y, a, x, n")
    row = made.specialization(kernel, entry_name=ENTRY)
    made.configuration()
    made.launch(kernel, specialization=row)
    if has_code:
        text = sass() if has_lines else "\n".join(line for line in sass().split("\n") if "//##" not in line)
        made._add("code", None, {"dispatcher_id": kernel, "kind": "source", "text": SOURCE, "lineno": FIRST_LINE,
                                 "attributes": json.dumps({"file": "/home/u/k.py"})})
        made._add("code", None, {"dispatcher_id": kernel, "kind": "functions", "text": json.dumps([
            {"name": "helped", "file": "/home/u/helper.py", "lineno": 1, "text": HELPER}])})
        for kind, form in (("ptx", ptx()), ("sass", text)):
            made._add("code", None, {"dispatcher_id": kernel, "specialization_id": row, "kind": kind, "text": form})
    for _ in range(times):
        made.sample(row, 0x00, "wait", 2)
        made.sample(row, 0x10, "selected", 5)
        made.sample(row, 0x20, "long_scoreboard", 60, not_issued=40)
        made.sample(row, 0x20, "not_selected", 3)
        made.sample(row, 0x30, "math_pipe_throttle", 8)
        made.sample(row, 0x40, "branch_resolving", 2)
        made.sample(row, 0x70, "short_scoreboard", 15)
        made.sample(row, 0x80, "some_new_reason", 5)
        made.sample(None, 0x0, "barrier", 25, entry_name="_Z7library", name="library(float*)")
    return made.recording()
