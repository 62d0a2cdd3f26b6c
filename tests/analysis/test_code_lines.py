"""`kernelscope.analysis.code` on real code with line information, and on forms that it can have."""

from __future__ import annotations

import inspect
import json

import pytest
from counting import lines_run
from numba import cuda, float32, int64

from kernelscope import cubin as kernelscope_cubin
from kernelscope.analysis.code import line_map


@cuda.jit(device=True, lineinfo=True)
def doubled_or_more(a, b):
    c = a * b
    if c > 3:
        c = c + b
    return c


@cuda.jit(lineinfo=True)
def kernel(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = doubled_or_more(x[i], x[i + 1])


FIRST = kernel.py_func.__code__.co_firstlineno
CALL = FIRST + 4  # the line that calls the device function
INNER = doubled_or_more.py_func.__code__.co_firstlineno


@pytest.fixture(scope="module")
def code() -> dict[str, str]:
    library = kernel.compile((float32[::1], float32[::1], int64))._codelibrary
    cubin, = library._cubin_cache.values()
    ptx, = library._ptx_cache.values()
    return {"ptx": "\n".join(ptx), "llvm": library.get_llvm_str(),
            "sass": kernelscope_cubin.disassemble(bytes(cubin.code))}


@pytest.mark.parametrize("kind", ["ptx", "sass", "llvm"])
def test_real_code(code, kind):
    found = line_map(kind, code[kind])
    assert found.files == (inspect.getfile(kernel.py_func),)
    assert len(found.line) == len(found.chain) == len(code[kind].split("\n"))
    own = {line for line in found.line if line}
    assert {FIRST + 2, FIRST + 3, CALL} <= own
    # LLVM still has the device function's own body; in the other two it is part of the kernel.
    allowed = set(range(FIRST, CALL + 1)) | (set(range(INNER, INNER + 6)) if kind == "llvm" else set())
    assert own <= allowed
    assert all((at >= 0) == (line > 0) for at, line in zip(found.chain, found.line, strict=True))


def test_only_instructions_have_a_line(code):
    found = line_map("sass", code["sass"])
    for text, line in zip(code["sass"].split("\n"), found.line, strict=True):
        assert bool(line) == ("/*0" in text), text
    found = line_map("ptx", code["ptx"])
    for text, line in zip(code["ptx"].split("\n"), found.line, strict=True):
        assert not line or text.rstrip().endswith(";"), text


@pytest.mark.parametrize("kind", ["ptx", "sass"])
def test_without_line_information_there_are_none(code, kind):
    marks = (".loc", ".file") if kind == "ptx" else ("//## File",)
    text = "\n".join(line for line in code[kind].split("\n") if not line.strip().startswith(marks))
    found = line_map(kind, text)
    assert found.files == ()
    assert found.is_empty


def places(found):
    return [place for place in found.outermost if place[1]]


def test_ptx_inlined_twice():
    text = """.visible .entry k()
{
	.loc	1 20 1
	add.s64 	%rd1, %rd2, %rd3;
	.loc	2 8 1, function_name $L__info_string0, inlined_at 1 20 1
	mul.f64 	%fd3, %fd2, %fd1;
	.loc	3 5 1, function_name $L__info_string1, inlined_at 2 8 1
	call.uni (retval0),
	pow,
	(
	param0
	);
	{ // callseq 0
	mov.b32 	%r1, {%rs1, %rs2};
	} // callseq 0
$L__BB0_2:
	.loc	1 0 1
	ret;
}
	add.s64 	%rd1, %rd2, %rd3;
	.file	1 "/a b/k.py"
	.file	2 "h.py", 123, 456
	.file	3 "In[7]"
"""
    found = line_map("ptx", text)
    assert found.chains[1:] == ((("h.py", 8), ("/a b/k.py", 20)), (("In[7]", 5), ("h.py", 8), ("/a b/k.py", 20)))
    assert places(found) == [("/a b/k.py", 20)] * 8
    assert [found.line[at] for at in (6, 11, 12, 13, 14, 15, 17)] == [0, 20, 0, 20, 0, 0, 0]


def test_sass_inlined_twice_and_two_functions():
    text = """//--------------------- .text.k --------------------------
	//## File "h.py", line 5 inlined at "g.py", line 8
	//## File "g.py", line 8 inlined at "k.py", line 20
	//## File "k.py", line 20
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "g.py", line 9 inlined at "k.py", line 21
        /*0010*/              @!P0 BRA `(.L_x_0) ;
	//## File "k.py", line 22
.L_x_0:
        /*12340*/                  EXIT ;
//--------------------- .text.other --------------------------
        /*0000*/                   EXIT ;
"""
    found = line_map("sass", text)
    assert found.chains == (
        (("h.py", 5), ("g.py", 8), ("k.py", 20)), (("g.py", 9), ("k.py", 21)), (("k.py", 22),))
    assert places(found) == [("k.py", 20), ("k.py", 21), ("k.py", 22)]


def test_llvm_modules_number_their_metadata_each():
    text = """; ModuleID = "one"
define void @"k"() !dbg !4
{
  store i64 1, i64* %"a", !dbg !5
  store i64 2, i64* %"a", !dbg !6, !range !9
  store i64 3, i64* %"a", !dbg !99
}
!1 = !DIFile(directory: "/tmp", filename: "k.py")
!4 = distinct !DISubprogram(file: !1, line: 3, name: "k")
!5 = !DILocation(column: 1, line: 4, scope: !4)
!6 = distinct !DILocation(column: 1, line: 8, scope: !7, inlinedAt: !5)
!7 = !DILexicalBlock(scope: !8, line: 7)
!8 = distinct !DISubprogram(file: !10, line: 6, name: "h")
!10 = !DIFile(directory: "/tmp", filename: "/other/h.py")

; ModuleID = "two"
  store i64 1, i64* %"a", !dbg !5
!5 = !DILocation(column: 1, line: 44, scope: !4)
!4 = distinct !DISubprogram(file: !1, line: 3, name: "k")
!1 = !DIFile(directory: "", filename: "two.py")
"""
    found = line_map("llvm", text)
    assert places(found) == [("/tmp/k.py", 4), ("/tmp/k.py", 4), ("two.py", 44)]
    assert found.chains[1] == (("/other/h.py", 8), ("/tmp/k.py", 4))


def test_circles_end():
    assert line_map("llvm", "; ModuleID\n x !dbg !1\n!1 = !DILocation(line: 1, scope: !1, inlinedAt: !1)").is_empty
    text = "{\n.loc 1 2 3, inlined_at 1 2 3\nret;\n}\n.file 1 \"k.py\""
    assert line_map("ptx", text).line[2] == 2


def test_types_have_one_line_an_entry():
    text = json.dumps([{"line": 12, "name": "x"}, {"line": 13, "name": "$a"}, {"name": "?"}, 5, {"line": -3}])
    found = line_map("types", text)
    assert found.line == [12, 13, 0, 0, 0]
    assert found.files == ("",)
    assert line_map("types", "{not json").line == []


@pytest.mark.parametrize("kind", ["source", "cubin", "something"])
def test_other_kinds_have_none(kind):
    assert line_map(kind, "a\nb").line == [0, 0]


def test_the_work_grows_with_the_lines_and_no_faster(code):
    lines = code["ptx"].split("\n")
    first = next(at for at, line in enumerate(lines) if line.strip() == "{")
    last = next(at for at, line in enumerate(lines) if line.strip() == "}")

    def text(times):
        return "\n".join(lines[:first + 1] + lines[first + 1:last] * times + lines[last:])

    found = line_map("ptx", text(100))
    assert len(found.line) > 90 * (last - first)
    assert not found.is_empty
    assert lines_run(lambda: line_map("ptx", text(200))) < 2.2 * lines_run(lambda: line_map("ptx", text(100)))


MLIR = """// what it was lowered to
#loc = loc("/u/k.py":7:0)
#di_file = #llvm.di_file<"k.py" in "/u">
#loc6 = loc(fused<#di_subprogram>[#loc])
module {
  gpu.func @kernel(%arg0: f32 loc(#loc6)) kernel {
    %0 = gpu.thread_id x loc(#loc1)
    %1 = arith.mulf %arg0, %arg0 : f32 loc(#loc4)
    %2 = arith.addf %1, %1 : f32 loc("x"(#loc2))
    %3 = arith.addf %1, %1 : f32 loc(#loc5)
    %4 = arith.addf %1, %1 : f32 loc(#loc7)
    %5 = arith.addf %1, %1 : f32 loc("/u/k.py":12:3)
    %6 = arith.constant 1 : i32 loc(unknown)
    gpu.return loc(#loc2)
  } loc(#loc6)
}
#loc1 = loc("/u/k.py":9:4)
#loc2 = loc("/u/k.py":10:4)
#loc3 = loc("/u/device.py":3:0)
#loc4 = loc(callsite(#loc3 at #loc2))
#loc5 = loc(fused<#di_subprogram>[#loc1])
#loc7 = loc(#loc7)
// -----
module {
  llvm.return loc(#loc1)
}
#loc1 = loc("/u/k.py":11:0)
"""


def test_mlir_says_it_behind_each_operation():
    found = line_map("mlir", MLIR)
    lines = MLIR.split("\n")
    assert found.files == ("/u/k.py", "/u/device.py")
    by_text = {line.strip().split(" ")[0]: at for at, line in enumerate(lines) if line.startswith("  ")}
    assert [found.line[by_text[name]] for name in ("%0", "%1", "%2", "%3", "%5", "%6")] == [
        9, 10, 10, 9, 12, 0]
    assert found.chains[found.chain[by_text["%1"]]] == (("/u/device.py", 3), ("/u/k.py", 10))
    assert found.line[by_text["%4"]] == 0, "a circle ends"
    assert found.line[by_text["llvm.return"]] == 11, "each module has aliases of its own"
    others = [at for at, line in enumerate(lines) if line.lstrip().startswith(("#", "}", "//", "gpu.f"))]
    assert not any(found.line[at] for at in others)
    assert line_map("mlir", "module {\n}").is_empty


def test_the_work_grows_with_mlir_and_no_faster():
    def text(lines):
        return "module {\n" + "  %0 = arith.addi %a, %b : i32 loc(#loc1)\n" * lines + '}\n#loc1 = loc("k.py":3:0)\n'

    assert set(line_map("mlir", text(2000)).line) == {0, 3}
    assert lines_run(lambda: line_map("mlir", text(2000))) < 2.2 * lines_run(lambda: line_map("mlir", text(1000)))
