"""The lines of real TTIR, TTGIR, LLVM, PTX and SASS of Triton's, of a kernel that a function was inlined into.

``triton/`` has what Triton 3.4 and 3.9 made of ``softmax`` in ``kernels.py`` for compute capability 9.0, with other
folders; PTX without its debug sections. 3.4 writes no calls into PTX but in comments, and none into machine code.
"""

from __future__ import annotations

import json

import pytest
from handmade import Script
from inspected import TRITON as DATA
from inspected import TRITON_FORMS as FORMS
from inspected import triton

from kernelscope.analysis.code import Chain, line_map, with_called
from kernelscope.recording.redact import shareable_code
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import code_of, compared, inspect_kernels
from kernelscope.views.inspector.text import inspection_text
from kernelscope.views.inspector.widget import code_message

KERNEL, HELPER, STANDARD = "kernels.py", "helpers.py", "standard.py"
SOURCES = {name: (DATA / f"{name}.txt").read_text().split("\n") for name in (KERNEL, HELPER)}


def line_of(name: str, text: str) -> int:
    """The number of the only line of a source that has a text in it."""
    (found,) = [at for at, line in enumerate(SOURCES[name], 1) if text in line]
    return found


CALL, LOAD, STORE = (line_of(KERNEL, text) for text in ("e = scaled(", "v = tl.load(x + row", "tl.store(out + row"))
SUBTRACTED, EXPONENT = line_of(HELPER, "v - by"), line_of(HELPER, "tl.exp(w)")
#: In each form a part of the lines that compute the exponential, and of those that store the result.
EXPONENTIAL = {"ttir": "math.exp", "ttgir": "math.exp", "llvm": "@llvm.nvvm.ex2", "ptx": "ex2.approx",
               "sass": "MUFU.EX2"}
STORES = {"ttir": "tt.store", "ttgir": "tt.store", "llvm": "st.global", "ptx": "st.global", "sass": "STG"}
SHORT = {f"/home/u/{name}": name for name in SOURCES} | {"/home/u/site-packages/triton/language/standard.py": STANDARD}


def read(version: str, form: str) -> list[tuple[str, Chain]]:
    """Each line of a form with its places, files by their base names."""
    text = (DATA / version / f"softmax.{FORMS[form]}").read_text()
    found = line_map(form, text)
    lines = text.split("\n")
    assert set(found.files) <= set(SHORT), "folders are part of a file's name"
    chains = [tuple((SHORT[name], line) for name, line in found.chains[at]) if at >= 0 else () for at in found.chain]
    return list(zip(lines, chains, strict=True))


def instructions(version: str, form: str, part: str) -> list[Chain]:
    return [chain for text, chain in read(version, form)
            if part in text and not text.startswith(("declare", "define", ";"))]


@pytest.mark.parametrize("version", ["3.4", "3.9"])
@pytest.mark.parametrize("form", FORMS)
def test_lines_of_the_kernel_and_of_what_it_inlines(version: str, form: str) -> None:
    has_calls = (version, form) != ("3.4", "sass")
    stores = instructions(version, form, STORES[form])
    assert stores and set(stores) == {((KERNEL, STORE),)}
    exponentials = instructions(version, form, EXPONENTIAL[form])
    wanted = ((HELPER, EXPONENT), (KERNEL, CALL)) if has_calls else ((HELPER, EXPONENT),)
    assert exponentials and set(exponentials) == {wanted}
    every = {chain for _, chain in read(version, form) if chain}
    assert {chain[-1][0] for chain in every} == ({KERNEL} if has_calls else {KERNEL, HELPER, STANDARD})
    assert ((KERNEL, LOAD),) in every
    assert any(chain[0] == (HELPER, SUBTRACTED) for chain in every)


@pytest.mark.parametrize("form", ["ttir", "ttgir", "llvm", "ptx", "sass"])
def test_calls_in_calls(form: str) -> None:
    """``tl.max`` calls what it reduces with."""
    inner = {chain for _, chain in read("3.9", form) if [name for name, _ in chain] == [STANDARD, STANDARD, KERNEL]}
    assert {chain[-1][1] for chain in inner} == {CALL, STORE}
    assert all(chain[1:] in {held for _, held in read("3.9", form)} for chain in inner)


@pytest.mark.parametrize("version", ["3.4", "3.9"])
@pytest.mark.parametrize("form", ["ttir", "ttgir"])
def test_an_operation_with_a_region_has_its_line_at_both_ends(version: str, form: str) -> None:
    lines = read(version, form)
    begins = [chain for text, chain in lines if '"tt.reduce"(' in text]
    ends = [chain for text, chain in lines if text.strip().startswith("}) :")]
    assert begins == ends
    assert [chain[-1] for chain in begins] == [(KERNEL, CALL), (KERNEL, STORE)]
    assert not any(chain for text, chain in lines if "tt.func" in text or text.startswith(("module", "#", "}", "  }")))


def test_a_line_without_a_place_has_none() -> None:
    (constant,) = [chain for text, chain in read("3.4", "ttir") if "arith.constant" in text]
    assert constant == (), "loc(unknown)"
    assert [chain for text, chain in read("3.4", "ttir") if "^bb0" in text] == [(), ()]


@pytest.mark.parametrize(("location", "chain"), [
    ('"k.py":3:1', (("k.py", 3),)),
    ('"x"("k.py":3:1)', (("k.py", 3),)),
    ('callsite("a at b("("k.py":3:1) at #a)', (("k.py", 3), ("h.py", 9))),
    ('callsite(callsite(#a at "k.py":1:1) at callsite("k.py":2:1 at "k.py":3:1))',
     (("h.py", 9), ("k.py", 1), ("k.py", 2), ("k.py", 3))),
    ('fused<"x, y">[unknown, #a, "k.py":3:1]', (("h.py", 9),)),
    ("fused[#none, unknown]", ()),
    ("#b", ()),
])
def test_forms_of_mlir_locations(location: str, chain: Chain) -> None:
    text = f'module {{\n  x.y loc({location})\n}}\n#a = loc("h.py":9:1)\n'.replace("#a", "#loc1").replace("#b", "#loc2")
    found = line_map("ttir", text + "#loc2 = loc(callsite(#loc2 at #loc2))\n")
    assert (found.chains[found.chain[1]] if found.chain[1] >= 0 else ()) == chain


def test_a_made_up_tree_of_calls_is_cut() -> None:
    lines = [f"#loc{at} = loc(callsite(#loc{at + 1} at #loc{at + 1}))" for at in range(1, 30)]
    text = "\n".join(["  x.y loc(#loc1)", *lines, '#loc30 = loc("k.py":3:1)'])
    (chain,) = line_map("ttgir", text).chains
    assert len(chain) == 100


@pytest.mark.parametrize("form", FORMS)
def test_the_kernel_s_own_file_has_no_name_and_the_line_is_where_it_was_inlined(form: str) -> None:
    recording = triton("3.9")
    (kernel,) = inspect_kernels(recording)
    (softmax,) = kernel.specializations
    found = code_of(recording, kernel, softmax, form)
    assert found.text is not None and found.lines is not None and found.ties is not None
    lines = found.text.split("\n")
    exponentials = [at for at, text in enumerate(lines) if EXPONENTIAL[form] in text and not text.startswith("declare")]
    assert exponentials and {int(found.lines[at]) for at in exponentials} == {CALL}
    assert {found.chains[found.ties[at]] for at in exponentials} == {(("/home/u/helpers.py", EXPONENT), ("", CALL))}
    message, buffers = code_message(found, form)
    assert message["chains"][found.ties[exponentials[0]]] == [["/home/u/helpers.py", EXPONENT], ["", CALL]]
    assert len(buffers) == 3
    assert found.name == f"softmax.{'ll' if form == 'llvm' else form}"


def test_the_source_has_what_it_calls_below_it() -> None:
    recording = triton("3.9")
    (kernel,) = inspect_kernels(recording)
    found = code_of(recording, kernel, kernel.specializations[0], "source")
    assert found.text is not None and found.ties is not None and found.lines is None
    lines = found.text.split("\n")
    places = [found.chains[at] if at >= 0 else () for at in found.ties]
    assert places[0] == (("", found.first),) and lines[0] == "@triton.jit"
    assert places[lines.index("    return tl.exp(w)")] == (("/home/u/helpers.py", EXPONENT),)
    assert places[lines.index(f"# helpers.py:{EXPONENT - 3}")] == ()
    (row,) = [row for row in recording.rows("code") if row["kind"] == "functions"]
    assert "/home/u" not in shareable_code("functions", row["text"])
    assert json.loads(shareable_code("functions", row["text"]))[0]["file"] == "helpers.py"
    for torn in ("{", "[5]", '[{"file": 5, "lineno": 1, "text": ""}]'):
        assert with_called("a\n", 3, torn)[0] == "a\n"
        shareable_code("functions", torn)


def test_machine_code_without_calls_has_those_that_ptx_knows() -> None:
    recording = triton("3.4")
    (kernel,) = inspect_kernels(recording)
    found = code_of(recording, kernel, kernel.specializations[0], "sass")
    assert found.text is not None and found.lines is not None and found.ties is not None
    exponentials = [at for at, text in enumerate(found.text.split("\n")) if "MUFU.EX2" in text]
    assert {found.chains[found.ties[at]] for at in exponentials} == {(("/home/u/helpers.py", EXPONENT), ("", CALL))}
    assert {int(found.lines[at]) for at in exponentials} == {CALL}


def test_a_function_that_is_inlined_twice_has_no_call_that_is_not_known() -> None:
    ptx = """{
	.loc	2 5 1                          // h.py:5:1 @[ kernels.py:20:1 ]
	add.s32 %r1, %r1, 1;
	.loc	2 5 1                          // h.py:5:1 @[ kernels.py:21:1 ]
	add.s32 %r1, %r1, 1;
	.loc	2 6 1                          // h.py:6:1 @[ kernels.py:21:1 ]
	add.s32 %r1, %r1, 1;
	ret;
}
	.file	1 "/u/kernels.py"
	.file	2 "/u/h.py"
"""
    sass = "".join(f'\t//## File "/u/h.py", line {line}\n        /*00{line}0*/    IADD3 ;\n' for line in (5, 6, 7))
    sass += '\t//## File "/u/kernels.py", line 20\n        /*0080*/    EXIT ;\n'
    made = Script(name="triton", code=True)
    kernel = made.kernel("k", framework="triton", filename="/u/kernels.py")
    row = made.specialization(kernel, "i32")
    for kind, text in (("ptx", ptx), ("sass", sass)):
        made._add("code", None, {"dispatcher_id": kernel, "specialization_id": row, "kind": kind, "text": text})
    recording = made.recording()
    (kernel,) = inspect_kernels(recording)
    found = code_of(recording, kernel, kernel.specializations[0], "sass")
    assert found.chains == ((("/u/h.py", 5),), (("/u/h.py", 6), ("", 21)), (("/u/h.py", 7),), (("", 20),))


def test_machine_code_without_calls_keeps_the_inlined_lines() -> None:
    recording = triton("3.4", without=("ptx",))
    (kernel,) = inspect_kernels(recording)
    found = code_of(recording, kernel, kernel.specializations[0], "sass")
    assert found.lines is not None and found.ties is not None
    alone = [at for at, tie in enumerate(found.ties) if tie >= 0 and found.chains[tie][0][0] == "/home/u/helpers.py"]
    assert alone and {int(found.lines[at]) for at in alone} == {0}
    assert {len(found.chains[found.ties[at]]) for at in alone} == {1}


@pytest.mark.parametrize("form", FORMS)
def test_without_folders_the_lines_are_the_same(form: str) -> None:
    text = (DATA / "3.9" / f"softmax.{FORMS[form]}").read_text()
    cut = shareable_code(form, text)
    assert "/home" not in cut
    before, after = line_map(form, text), line_map(form, cut)
    assert set(after.files) == {KERNEL, HELPER, STANDARD}
    short = [tuple((SHORT[name], line) for name, line in chain) for chain in before.chains]
    assert list(after.chains) == short and after.chain == before.chain


def test_specializations_of_triton_have_the_rows_of_others() -> None:
    recording = triton("3.9", "3.4")
    text = inspection_text(recording, "softmax")
    for said in ("registers 18, static shared memory 0 B, local memory 0 B", "dynamic shared memory 16 B",
                 "a block         8 warps, 3 stages, 1 CTA", "100 %"):
        assert said in text
    assert "LC-S" not in text and "not recorded" not in text.replace("cache files     not recorded", "")
    (kernel,) = inspect_kernels(recording)
    one, other = (compared(each) for each in kernel.specializations)
    assert {"a block: 4 warps, 3 stages, 1 CTA"} == {line for line in one if line.startswith("a block")} - set(other)
    html = static_html(recording, [kernel])
    for said in ("TTIR of #1", "TTGIR of #2", "SASS of #1"):
        assert said in html


def test_what_is_missing_says_why() -> None:
    recording = triton("3.9", "3.4", without=("ttgir",))
    (kernel,) = inspect_kernels(recording)
    loaded = kernel.specializations[1]
    assert code_of(recording, kernel, loaded, "llvm").text is not None, "Triton's disk cache keeps all forms"
    assert code_of(recording, kernel, loaded, "ttgir").note.startswith("This recording holds no TTGIR of this special")
    assert code_of(recording, kernel, loaded, "types").note == "Numba makes inferred types; this is a kernel of triton."
