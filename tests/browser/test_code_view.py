"""The view of code, alone on a page, with the code of real kernels."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from code_pages import SASS, Code, origins
from inspected import TRITON

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NUMBERED = "\n".join(f"line {at} of these" for at in range(1, 1001)) + "\n"
LONG = "_ZN8__main__4axpyB2v1B108cw51cXTLSUwv1sDUaKthqaNgoKmjgMVuW1AiA8rAEg2UjxRKtuAI0FEA2gSVRE8cSMKQdIgkg" * 2


def kinds(code: Code, number: int) -> list[tuple[str, str]]:
    """Each piece of a line that has a kind, with its text."""
    return [tuple(each) for each in code.row(number).locator(".ksc-code").evaluate(
        "(code) => [...code.children].map((piece) => [piece.textContent, piece.classList[0].slice(4)])")]


def test_it_shows_lines_with_their_numbers(opened: Any) -> None:
    code = opened().show(NUMBERED, "python", first=41, name="axpy.py")
    assert code.seen()[:3] == [41, 42, 43]
    assert len(code.seen()) == 28
    assert code.text_of(41) == "line 1 of these"
    assert code.page.locator(".ksc-about").inner_text() == "1,000 lines"
    assert code.page.get_by_role("listbox").get_attribute("aria-label") == "Source of axpy.py, 1,000 lines"
    assert code.tell("return v.body.children.length;") < 60
    code.tell("v.scroller.scrollTop = 1e9;")
    code.settle()
    assert code.seen()[-1] == 1040
    code.show("")
    assert code.seen() == [1]
    code.show("one\r\ntwo\r\n")
    assert code.seen() == [1, 2]
    assert code.text_of(1) == "one"


def test_python_is_highlighted(opened: Any) -> None:
    code = opened().show('@cuda.jit\ndef axpy(a, x):  # comment\n    """one\n    two"""\n'
                         "    return 'it' + f\"{x}\" * 1.5e3 + 0x1F\n", "python")
    assert kinds(code, 1) == [("@cuda.jit", "directive")]
    assert kinds(code, 2) == [("def", "keyword"), ("axpy", "name"), ("# comment", "comment")]
    assert kinds(code, 3) == [('"""one', "string")]
    assert kinds(code, 4) == [('    two"""', "string")]
    assert kinds(code, 5) == [("return", "keyword"), ("'it'", "string"), ('f"{x}"', "string"), ("1.5e3", "number"),
                              ("0x1F", "number")]


PTX: list[tuple[str, list[tuple[str, str]]]] = [
    ("\tld.global.f32 \t%f16, [%rd3];", [("ld.global", "memory"), (".f32", "type"), ("%f16", "register"),
                                          ("%rd3", "register")]),
    ("\t@%p2 bra \t$L__BB0_18;", [("@%p2", "register"), ("bra", "control"), ("$L__BB0_18", "label")]),
    ("\tfma.rn.f32 \t%f21, %f19, 0f3F22F983, %f1;", [("fma.rn", "arithmetic"), (".f32", "type"),
        ("%f21", "register"), ("%f19", "register"), ("0f3F22F983", "number"), ("%f1", "register")]),
    ("\twgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1;", [
        ("wgmma.mma_async.sync.aligned.m64n8k16", "tensor"), (".f32.f16.f16", "type"), ("%f1", "register"),
        ("%rd1", "register")]),
    ("\tmov.u32 \t%r13, %tid.x;", [("mov", "arithmetic"), (".u32", "type"), ("%r13", "register"),
                                   ("%tid.x", "special")]),
    ("$L__BB0_3:", [("$L__BB0_3:", "label")]),
    (".visible .entry k(", [(".visible", "directive"), (".entry", "directive")]),
    ("\tbar.sync \t0; // all", [("bar.sync", "control"), ("0", "number"), ("// all", "comment")]),
]


def test_ptx_is_highlighted(opened: Any) -> None:
    code = opened().show("\n".join(line for line, _ in PTX), "ptx")
    assert [kinds(code, number) for number in range(1, len(PTX) + 1)] == [wanted for _, wanted in PTX]


def test_sass_is_highlighted(opened: Any) -> None:
    code = opened().show(SASS, "sass")
    found = {number: [each for each in kinds(code, number) if each[1] not in ("address", "gap")]
             for number in (13, 14, 15, 16, 17, 18, 19)}
    assert found == {
        13: [("LDC", "memory"), ("R1", "register"), ("c[0x0][0x28]", "special")],
        14: [("S2R", "arithmetic"), ("R2", "register"), ("SR_TID.X", "special")],
        15: [("@!P1", "register"), ("BRA", "control"), ("`(.L_x_0)", "label")],
        16: [("LDG.E", "memory"), ("R0", "register"), ("desc", "special"), ("UR12", "register"), ("R8.64", "register")],
        17: [("HMMA.16816.F32", "tensor"), ("R4", "register"), ("R8", "register"), ("R12", "register"),
             ("R4", "register")],
        18: [(".L_x_0:", "label")],
        19: [("FFMA", "arithmetic"), ("R3", "register"), ("R0", "register"), ("2.5", "number"),
             ("R3.reuse", "register")],
    }
    assert code.row(16).locator(".ksc-memory").get_attribute("title") == "memory"


def test_llvm_and_types_are_highlighted(opened: Any) -> None:
    code = opened().show('  %".99" = load float*, float** %".98", !dbg !92 ; c\nB230:\n  br i1 %0, label %"a"', "llvm")
    assert kinds(code, 1) == [('%".99"', "register"), ("load", "memory"), ("float", "type"), ("float", "type"),
                              ('%".98"', "register"), ("!dbg", "special"), ("!92", "special"), ("; c", "comment")]
    assert kinds(code, 2) == [("B230:", "label")]
    assert ("br", "control") in kinds(code, 3)
    code.show("12 x: array(float32, 1d, C)  $8load.1: int64", "types")
    assert ("float32", "type") in kinds(code, 1)
    assert ("$8load.1", "register") in kinds(code, 1)


def test_long_names_are_short_until_they_are_wanted_in_full(opened: Any) -> None:
    code = opened(width=560).show(f"\tld.param.u64 \t%rd1, [{LONG}_param_0];\n\tst.u64 [{LONG}_param_1], 2;\n")
    short = code.row(1).locator(".ksc-short")
    assert short.inner_text() == f"{LONG[:24]}…{f'{LONG}_param_0'[-18:]}"
    assert short.get_attribute("title") == f"{LONG}_param_0"
    assert code.tell("return v.scroller.scrollWidth;") < 700
    button = code.page.get_by_role("button", name="Full names")
    button.click()
    assert code.text_of(1) == f"\tld.param.u64 \t%rd1, [{LONG}_param_0];"
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert code.row(1).locator(".ksc-short").count() == 1
    code.show("short\n")
    assert not button.is_visible()


def test_a_long_text_begins_low_and_unfolds_to_the_window(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    more = code.page.locator(".ksc-more")
    assert code.page.locator(".ksc-scroll").bounding_box()["height"] == 28 * 18
    assert more.inner_text() == "Show more of 1,000 lines"
    more.click()
    code.settle()
    assert code.page.locator(".ksc-scroll").bounding_box()["height"] == 900 - 110
    assert len(code.seen()) >= 43
    assert more.get_attribute("aria-expanded") == "true"
    more.click()
    assert code.page.locator(".ksc-scroll").bounding_box()["height"] == 28 * 18
    code.show("a\nb\n")
    assert not more.is_visible()
    assert code.page.locator(".ksc-scroll").bounding_box()["height"] == 36


def test_regions_of_ptx_fold(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(real["ptx"])
    lines = real["ptx"].split("\n")
    entry = next(at for at, line in enumerate(lines, 1) if ".entry" in line)
    end = next(at for at, line in enumerate(lines, 1) if line == "}")
    labels = [at for at, line in enumerate(lines, 1) if re.match(r"\$L__BB\w+:", line)]
    regions = code.tell("return v.folds.regions.map(({ start, end, kind }) => [start + 1, end + 1, kind]);")
    assert [entry, end, "function"] in regions
    assert regions[0] == [1, entry - 2, "header"]
    blocks = [each for each in regions if each[2] == "block"]
    assert [each[0] for each in blocks] == labels
    for start, last, _ in blocks:
        assert not any(start < each <= last for each in labels)
        assert lines[last - 1].strip()
    code.tell("v.reveal(a);", labels[0] - 1)
    code.settle()
    code.row(labels[0]).locator(".ksc-fold").click()
    assert code.row(labels[0]).locator(".ksc-hidden").inner_text() == f"… {blocks[0][1] - labels[0]} lines"
    seen = code.seen()
    assert seen[seen.index(labels[0]) + 1] == blocks[0][1] + 1
    code.row(labels[0]).locator(".ksc-hidden").click()
    assert labels[0] + 1 in code.seen()
    code.page.get_by_role("button", name="Fold all", exact=True).click()
    assert code.tell("return v.folds.rows.length;") < 12
    code.page.get_by_role("button", name="Unfold all").click()
    assert code.tell("return v.folds.rows.length;") == len(lines)


def test_data_in_sass_and_llvm_begins_folded(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(SASS, "sass")
    assert code.seen() == [1, 2, 3, *range(8, 22), 22]
    assert "… 4 lines" in code.row(3).inner_text()
    code.show(real["llvm"], "llvm")
    lines = real["llvm"].split("\n")
    data = [at for at, line in enumerate(lines, 1) if re.match(r"!\d+ = ", line)]
    hidden = code.tell("return Array.from({ length: v.text.count }, (_, at) => at).filter((at) => !v.folds.isSeen(at))"
                       ".map((at) => at + 1);")
    assert set(data) - set(hidden) <= {data[0], data[0] - 1}
    define = next(at for at, line in enumerate(lines, 1) if line.startswith("define"))
    assert define not in hidden
    kinds_of = code.tell("return v.folds.regions.map((each) => each.kind);")
    assert kinds_of.count("function") >= 1
    assert kinds_of.count("block") > 5


def test_the_sass_of_a_real_kernel(opened: Any, real: dict[str, str]) -> None:
    if "sass" not in real:
        assert not os.environ.get("CI"), "nvdisasm comes with the extra 'test': CI skips no test of the browser"
        pytest.skip("nvdisasm is not installed")
    code = opened().show(real["sass"], "sass")
    lines = real["sass"].split("\n")
    start = next(at for at, line in enumerate(lines, 1) if line.startswith("//-") and " .text." in line)
    regions = code.tell("return v.folds.regions.map(({ start, end, kind }) => [start + 1, end + 1, kind]);")
    assert [each[0] for each in regions if each[2] == "function"] == [start]
    seen = code.tell("return Array.from(v.folds.rows, (line) => line + 1);")
    instructions = [at for at, line in enumerate(lines, 1) if re.match(r"\s+/\*[\da-f]{4}\*/ +\S.* ;", line)]
    assert len(instructions) > 100
    assert set(instructions) <= set(seen)
    assert len(seen) < len(lines) / 2
    assert not {"LDG.E", "FFMA", "BRA", "EXIT"} - {
        text for at in instructions if at for text in re.findall(r"[A-Z][A-Z0-9.]+", lines[at - 1])}
    for name in ("memory", "control", "arithmetic"):
        code.tell("v.find(a);", {"memory": "LDG.E", "control": "EXIT", "arithmetic": "FFMA"}[name])
        assert code.page.locator(f".ksc-now.ksc-{name}").count() == 1


def test_triton_s_mlir(opened: Any) -> None:
    text = (TRITON / "3.9" / "softmax.ttgir").read_text()
    lines = text.split("\n")
    code = opened().show(text, "mlir")
    at = {name: next(at for at, line in enumerate(lines, 1) if name in line)
          for name in ("tt.get_program_id", "tt.load", '"tt.reduce"', "math.exp", "tt.func")}
    for name, kind in (("tt.get_program_id", "special"), ("tt.load", "memory"), ("math.exp", "arithmetic"),
                       ("tt.func", "keyword")):
        assert (name, kind) in kinds(code, at[name])
    regions = code.tell("return v.folds.regions.map(({ start, end, kind }) => [start + 1, end + 1, kind]);")
    first, last = [each for each in regions if each[2] == "metadata"]
    assert all(line.startswith("#") for start, end, _ in (first, last) for line in lines[start - 1:end])
    assert (first[0], lines[first[1]].split(" ")[0], lines[last[1]:]) == (1, "module", [""])
    blocks = {start: lines[end - 1].strip() for start, end, kind in regions if kind == "block"}
    assert blocks[at["tt.func"]] == "} loc(#loc)" and blocks[at['"tt.reduce"']].startswith("}) : (tensor<")


def test_search_counts_steps_and_opens_folds(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(real["ptx"])
    code.tell("v.foldAll(true);")
    code.page.locator(".ksc-scroll").focus()
    code.page.keyboard.press("Control+f")
    assert code.page.evaluate("document.activeElement.className").startswith("ksc-input ksc-search")
    code.page.keyboard.type("ST.SHARED")
    count = code.page.locator(".ksc-bar .ksc-count")
    wanted = len(re.findall(r"st\.shared", real["ptx"]))
    assert wanted == 1
    assert count.inner_text() == "1 of 1"
    number = next(at for at, line in enumerate(real["ptx"].split("\n"), 1) if "st.shared" in line)
    assert number in code.seen()
    assert code.row(number).locator(".ksc-now").all_inner_texts()[0].lower() in "st.shared"
    code.tell("v.move(0);")
    code.page.locator(".ksc-search").fill("mov.")
    total = real["ptx"].count("mov.")
    assert count.inner_text() == f"1 of {total}"
    code.page.keyboard.press("Enter")
    assert count.inner_text() == f"2 of {total}"
    code.page.keyboard.press("Shift+Enter")
    code.page.keyboard.press("Shift+Enter")
    assert count.inner_text() == f"{total} of {total}"
    assert code.tell("return v.finder.lines[v.finder.now] + 1;") in code.seen()
    assert code.tell("return v.find('no such thing');") == 0
    assert count.inner_text() == "no match"
    code.page.locator(".ksc-search").press("Escape")
    assert count.inner_text() == ""
    assert code.page.evaluate("document.activeElement === view.scroller")
    assert code.page.locator(".ksc-found").count() == 0


def test_search_by_regular_expression(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    search, count = code.page.locator(".ksc-search"), code.page.locator(".ksc-bar .ksc-count")
    search.fill(r"LINE \d{4} of")
    assert count.inner_text() == "no match"
    code.page.locator(".ksc-pattern").click()
    assert count.inner_text() == "1 of 1"
    assert 1000 in code.seen()
    search.press("Alt+r")
    assert count.inner_text() == "no match"
    search.press("Alt+r")
    search.fill("(line")
    assert "not a regular expression" in count.inner_text()
    assert "nterminated group" in count.inner_text()
    assert search.get_attribute("aria-invalid") == "true"
    search.fill("x*")
    assert count.inner_text() == "no match"
    # Nothing could stop a browser that looks for what a repeat of a repeat does not match.
    for pattern in ("(.*)*@", "(x+x+)+y", r"(?:[^)]|\d{2,})*@", "((a+))*b"):
        search.fill(pattern)
        assert "may take forever" in count.inner_text(), pattern
        assert search.get_attribute("aria-invalid") == "true"
    for pattern in (r"(line|x)+", r"([+*)]|\()+", r"(a+)b", r"(\d{4})+", r"\(.*\)*"):
        search.fill(pattern)
        assert "forever" not in count.inner_text(), pattern
    search.fill("^line 1.*$")
    assert count.inner_text().endswith(" of 112")
    assert code.tell("return v.find('1+', true);") == len(re.findall("1+", NUMBERED))


def test_matches_and_marks_are_on_the_strip(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    code.tell("v.find('line 500 '); v.mark([250], { picked: true }); v.mark([750]);")
    code.settle()
    inks = code.tell("""
        const canvas = v.strip.picture, data = canvas.getContext("2d").getImageData(6, 0, 1, canvas.height).data;
        const made = {};
        for (let y = 0; y < canvas.height; y++) if (data[4 * y + 3]) {
          (made["#" + [0, 1, 2].map((at) => data[4 * y + at].toString(16).padStart(2, "0")).join("")] ??= []).push(y);
        }
        return made;
    """)
    middles = {color: sum(rows) / len(rows) / 504 for color, rows in inks.items()}
    assert middles == pytest.approx({"#ff9f2e": 0.5, "#0a5fb4": 0.25, "#cfe3f8": 0.75}, abs=0.006)
    box = code.page.locator(".ksc-strip").bounding_box()
    code.page.mouse.click(box["x"] + 6, box["y"] + box["height"] * 0.75)
    code.settle()
    assert 750 in code.seen()


def test_pointing_and_picking_are_told(opened: Any) -> None:
    code = opened().show(NUMBERED, "python", first=11)
    page = code.page
    code.row(13).locator(".ksc-code").hover()
    code.row(15).locator(".ksc-code").hover()
    assert page.evaluate("told") == [[13, False], [15, False]]
    code.row(15).locator(".ksc-code").click()
    assert page.evaluate("told").pop() == [15, True]
    assert code.classed("ksc-picked") == [15]
    page.mouse.move(600, 800)
    assert page.evaluate("told").pop() == [None, False]
    assert code.classed("ksc-picked") == [15]
    code.row(15).locator(".ksc-code").click()
    assert page.evaluate("told").pop() == [None, True]
    assert code.classed("ksc-picked") == []
    code.row(17).locator(".ksc-code").click()
    page.keyboard.press("Escape")
    assert page.evaluate("told").pop() == [None, True]
    assert code.classed("ksc-picked") == []


def test_the_other_side_marks_and_scrolls(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    code.tell("v.mark([700, 702], { scroll: true });")
    code.settle()
    assert code.classed("ksc-near") == [700, 702]
    assert {700, 702} <= set(code.seen())
    at = code.tell("return v.scroller.scrollTop;")
    code.tell("v.mark([3, 703], { scroll: true });")
    assert code.tell("return v.scroller.scrollTop;") == at
    code.tell("v.mark([703], { picked: true }); v.mark([]);")
    assert code.classed("ksc-near") == []
    assert code.classed("ksc-picked") == [703]
    assert code.row(703).get_attribute("aria-selected") == "true"
    # What the other side picked becomes this side's own when it is clicked, and is told.
    code.row(703).locator(".ksc-code").click()
    assert code.page.evaluate("told").pop() == [703, True]
    code.tell("v.mark([99_999, -3, 4]);")
    assert code.tell("return [...v.near];") == [3]


def test_lines_tell_where_they_came_from(opened: Any, real: dict[str, str]) -> None:
    lines = origins(real["ptx"])
    code = opened().show(real["ptx"], lines=lines, name="stencil.ptx")
    number = next(at for at, line in enumerate(lines, 1) if line)
    code.tell("v.reveal(a);", number - 1)
    origin = code.row(number).locator(".ksc-origin")
    assert origin.inner_text() == str(lines[number - 1])
    assert origin.get_attribute("title") == f"from line {lines[number - 1]} of the source"
    got = code.tell("const was = v.onLine; let got; v.onLine = (line, how) => { got = [line, how.source]; }; "
                    "v.pick(a); v.onLine = was; return got;", number - 1)
    assert got == [number, lines[number - 1]]


def test_notes_stand_after_their_lines(opened: Any) -> None:
    code = opened().show("i = 1\nx = a[i]\n", "python", first=12, notes={"13": ["x: float32", "a: array(f4)"]})
    note = code.row(13).locator(".ksc-note")
    assert note.inner_text() == "x: float32 · a: array(f4)"
    assert code.text_of(13) == "x = a[i]"
    code.page.get_by_role("button", name="Notes").click()
    assert code.page.locator(".ksc-note").count() == 0
    code.page.get_by_role("button", name="Notes").click()
    assert code.page.locator(".ksc-note").count() == 1
