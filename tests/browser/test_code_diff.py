"""Two codes side by side, alone on a page."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import in_both_fonts
from code_pages import CONTRAST, FRAME, SASS, Diff, big_ptx, code_page
from inspected import TRITON

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LEFT = "\n".join(f"line {at}" for at in range(1, 101))
RIGHT = (LEFT.replace("line 20\n", "line twenty\n").replace("line 50\n", "")
         .replace("line 80\n", "line 80\nnew\nnewer\n"))


@pytest.fixture
def opened(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Diff]:
    def make(jupyter: str = "", **options: Any) -> Diff:
        watched = watch(**options)
        watched.page.goto(code_page(tmp_path, jupyter).as_uri())
        return Diff(watched.page)

    return make


def renumbered(ptx: str, by: int = 1) -> str:
    return re.sub(r"(%(?:rd|r|f|fd|p))(\d+)\b", lambda found: f"{found[1]}{int(found[2]) + by}", ptx)


def test_lines_stand_beside_each_other(opened: Any) -> None:
    diff = opened().show(LEFT, RIGHT, "python")
    pairs = diff.pairs()
    assert [each for each in pairs if not each[2]] == [[20, 20, False], [50, None, False], [None, 80, False],
                                                       [None, 81, False]]
    assert [each for each in pairs if each[2]][-1] == [100, 101, True]
    assert diff.page.locator(".ksc-about").inner_text() == "1 changed, 1 only left, 2 only right"
    rows = diff.tell("return [...d.body.children].map((row) => row.innerText.replace(/\\s+/g, ' ').trim());")
    assert rows[0] == "… 16 equal lines"
    assert any(re.fullmatch("20 ?\u2212 ?line 20 ?20 ?[+] ?line twenty", row) for row in rows)
    assert "… 23 equal lines" in rows
    words = diff.page.locator(".ksc-word").all_inner_texts()
    assert words == ["20", "twenty"]


def test_equal_stretches_open(opened: Any) -> None:
    diff = opened().show(LEFT, RIGHT, "python")
    before = diff.tell("return d.folds.rows.length;")
    diff.page.locator(".ksc-equal").first.click()
    assert diff.tell("return d.folds.rows.length;") == before + 15
    diff.page.get_by_role("button", name="Unfold all").click()
    assert diff.tell("return d.folds.rows.length;") == 102
    assert diff.page.locator(".ksc-equal").count() == 0


def test_differences_are_stepped_through(opened: Any) -> None:
    diff = opened().show(LEFT, RIGHT, "python")
    place = diff.page.locator(".ksc-diff .ksc-bar .ksc-count")
    assert place.inner_text() == "3 differences"
    diff.tell("d.focus();")
    lefts = []
    for key in ("n", "n", "n", "n", "p"):
        diff.page.keyboard.press(key)
        lefts.append([place.inner_text(), diff.tell("return d.found.left[d.cursor];")])
        assert diff.page.locator(".ksc-cursor").is_visible()
    assert lefts == [["1 of 3", 19], ["2 of 3", 49], ["3 of 3", -1], ["1 of 3", 19], ["3 of 3", -1]]
    diff.page.locator(".ksc-diff .ksc-previous").click()
    assert place.inner_text() == "2 of 3"
    diff.page.keyboard.press("Tab")
    diff.tell("d.focus();")
    diff.page.keyboard.press("Home")
    diff.page.keyboard.press("Enter")
    assert diff.page.locator(".ksc-equal").count() < 4
    assert diff.page.get_by_role("listbox").get_attribute("aria-activedescendant") == diff.tell("return `${d.id}-0`;")


def test_it_agrees_with_difflib_on_texts_of_few_changes(opened: Any, real: dict[str, str]) -> None:
    left = real["ptx"].split("\n")
    right = [line for at, line in enumerate(left) if at % 41] + ["// end"]
    right[100:100] = ["\tadd.s64 \t%rd999, %rd998, 1;"] * 3
    diff = opened().show("\n".join(left), "\n".join(right))
    pairs = diff.pairs()
    same = sum(each[2] for each in pairs)
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    assert same >= sum(block.size for block in matcher.get_matching_blocks())
    for one, other, is_same in pairs:
        if one and other:
            assert (left[one - 1] == right[other - 1]) == is_same
    assert [each[0] for each in pairs if each[0]] == list(range(1, len(left) + 1))
    assert [each[1] for each in pairs if each[1]] == list(range(1, len(right) + 1))


def test_register_numbers_can_be_ignored(opened: Any, real: dict[str, str]) -> None:
    other = renumbered(real["ptx"]).replace("$L__BB0_", "$L__BB7_").replace("bar.sync", "bar.arrive")
    diff = opened().show(real["ptx"], other)
    assert "changed" in diff.page.locator(".ksc-about").inner_text()
    assert all(one == two for one, two, _ in diff.pairs())
    button = diff.page.get_by_role("button", name="Ignore register numbers and labels")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert diff.page.locator(".ksc-about").inner_text() == "1 changed"
    assert diff.page.locator(".ksc-word").all_inner_texts() == ["bar.sync", "bar.arrive"]
    button.click()
    assert diff.page.locator(".ksc-about").inner_text() != "1 changed"
    diff.show("x = 1", "x = 2", "python")
    assert not button.is_visible()


IGNORED = [
    ("ptx", "add.s64 %rd12, %rd3, 7;", "add.s64 %rd13, %rd4, 7;", True),
    ("ptx", "add.s64 %rd12, %rd3, 7;", "add.s64 %rd12, %rd3, 8;", False),
    ("ptx", "add.s64 %rd12, %rd3, 7;", "add.s64 %r12, %rd3, 7;", False),
    ("ptx", "@%p1 bra $L__BB0_3;", "@%p2 bra $L__BB0_14;", True),
    ("ptx", "mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.y;", False),
    ("sass", "  /*0010*/  FFMA R3, R0, c[0x0][0x28], RZ ;", "  /*0ab0*/  FFMA R7, R1, c[0x0][0x28], RZ ;", True),
    ("sass", "        /*0010*/    FFMA R3, R0, R1, RZ ;", "        /*0010*/    FFMA R3, R0, R1, R2 ;", False),
    ("sass", "   @!P1 BRA `(.L_x_0) ;", "   @!P0 BRA `(.L_x_9) ;", True),
    ("sass", "   UIADD3 UR4, UR5, 0x1 ;", "   UIADD3 UR6, UR5, 0x1 ;", True),
    ("sass", "   UIADD3 UR4, UR5, 0x1 ;", "   IADD3 R4, R5, 0x1 ;", False),
    ("llvm", '  %".99" = load float, float* %".98", !dbg !92', '  %".12" = load float, float* %".3", !dbg !7', True),
    ("llvm", '  %".99" = load float, float* %".98"', '  %".99" = load double, double* %".98"', False),
    ("llvm", '  br label %"B230"', '  br label %"B7"', True),
]


def test_what_is_ignored(opened: Any) -> None:
    diff = opened()
    diff.tell("d.turn('isLoose', d.loose);")
    for language, left, right, is_same in IGNORED:
        assert diff.show(left, right, language).pairs() == [[1, 1, is_same]], left


@pytest.mark.parametrize("language", ["sass", "mlir"])
def test_where_instructions_stand_is_never_compared(opened: Any, language: str) -> None:
    text = SASS if language == "sass" else (TRITON / "3.9" / "softmax.ttgir").read_text()
    shifted = re.sub(r"/\*00(\d)0\*/|(#loc)(\d+)", lambda found: f"/*00{int(found[1]) + 1}0*/" if found[1]
                     else f"#loc{int(found[3]) + 7}", text)
    assert shifted != text
    diff = opened().show(text, shifted, language)
    assert diff.page.locator(".ksc-about").inner_text() == "no difference"
    assert diff.page.locator(".ksc-diff .ksc-next").is_disabled()


def test_twenty_thousand_renumbered_lines_do_not_hang(opened: Any, real: dict[str, str]) -> None:
    left = big_ptx(real["ptx"])
    right = "\n".join(line for at, line in enumerate(renumbered(left).split("\n")) if at % 37)
    diff = opened().show("", "")
    diff.show(left, right, "ptx")
    assert diff.tell("return d.body.children.length;") < 80
    assert diff.page.locator(".ksc-hint").inner_text() == "most lines differ: paired by what they do"
    pairs = diff.pairs()
    shape = lambda line: re.sub(r"\d+", "", line)  # noqa: E731
    lines = [left.split("\n"), right.split("\n")]
    alike = sum(shape(lines[0][one - 1]) == shape(lines[1][two - 1]) for one, two, _ in pairs if one and two)
    assert alike > 0.99 * len(lines[1])
    diff.tell("d.turn('isLoose', d.loose);")
    assert diff.page.locator(".ksc-about").inner_text() == f"{len(lines[0]) - len(lines[1])} only left"


def test_texts_that_differ_too_much_are_compared_coarsely_and_that_is_said(opened: Any, real: dict[str, str]) -> None:
    left = big_ptx(real["ptx"])
    diff = opened().show("", "")
    diff.show(left, "\n".join(reversed(left.split("\n"))), "python")
    assert "compared coarsely" in diff.page.locator(".ksc-hint").inner_text()
    pairs = diff.pairs()
    assert [each[0] for each in pairs if each[0]] == list(range(1, left.count("\n") + 2))
    diff.show("a\n" * 20_000, "b\n" * 20_000, "python")
    assert diff.page.locator(".ksc-about").inner_text() == "20,000 changed"
    diff.show("", "a\nb\n", "python")
    assert diff.pairs() == [[1, 1, False], [None, 2, False]]


def test_one_scroll_moves_both_sides(opened: Any) -> None:
    wide = "\n".join(f"{at} " + "word " * 80 for at in range(300))
    diff = opened(width=900).show(wide, wide.replace("7 word", "7 ward"), "python")
    diff.tell("d.foldAll(false); d.scroller.scrollTop = 1800; d.aside.scrollLeft = 500;")
    diff.page.evaluate(FRAME)
    places = diff.tell("""
        const left = (element) => element.getBoundingClientRect().left;
        return [...d.rows.drawn.get(104).querySelectorAll(".ksc-side")].map((side) =>
          [".ksc-code", ".ksc-gutter"].map((name) => left(side.querySelector(name)) - left(side)));
    """)
    assert places[0][0] == pytest.approx(places[1][0], abs=1.5)
    assert places[0][0] < -400
    assert places[0][1] == pytest.approx(0, abs=1.5)
    box = diff.page.locator(".ksc-scroll").bounding_box()
    diff.page.mouse.move(box["x"] + 100, box["y"] + 100)
    diff.page.mouse.wheel(200, 0)
    diff.page.wait_for_function("() => diff.aside.scrollLeft === 700")
    assert diff.tell("return d.scroller.scrollTop;") == 1800


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_selection_is_of_one_side(opened: Any, side: str) -> None:
    diff = opened().show(LEFT, RIGHT, "python")
    codes = diff.page.locator(f".ksc-side.ksc-{side} .ksc-code")
    first, last = codes.nth(0).bounding_box(), codes.nth(6).bounding_box()
    diff.page.mouse.move(first["x"] + 1, first["y"] + 9)
    diff.page.mouse.down()
    diff.page.mouse.move(last["x"] + 1, last["y"] + 9, steps=4)
    diff.page.mouse.up()
    copied = diff.page.evaluate("() => diff.selection.text()")
    word = "line twenty" if side == "right" else "line 20"
    assert copied == f"line 17\nline 18\nline 19\n{word}\nline 21\nline 22\n"


def test_hostile_texts_are_texts(opened: Any) -> None:
    bad = "</code><script>window.hurt = 1</script>\n<img src=x onerror='window.hurt = 1'>\n\u202e\x00"
    diff = opened().show(bad, bad.replace("window", "Window"), "ptx", name=bad)
    diff.page.evaluate(FRAME)
    assert diff.page.evaluate("window.hurt") is None
    assert diff.page.locator(".ksc img, .ksc script").count() == 0
    diff.show("a " * 500_000, "b " * 500_000, "ptx")


@in_both_fonts
@pytest.mark.parametrize(("width", "dark"), [(560, True), (1200, False)])
def test_it_is_legible_wide_and_narrow(opened: Any, real: dict[str, str], dark: bool, width: int, font: str,
                                       artifacts: Path) -> None:
    other = renumbered(real["ptx"]).replace("bar.sync", "bar.arrive").replace("\tret;", "\tmembar.gl;\n\tret;")
    diff = opened(dark=dark, width=width, font=font).show(real["ptx"], other)
    diff.tell("d.step(1);")
    diff.page.evaluate(FRAME)
    assert diff.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    worst = diff.tell(CONTRAST, ".ksc-code > *, .ksc-code, .ksc-lineno, .ksc-sign, .ksc-hidden, .ksc-side-name, "
                                 ".ksc-button:not(:disabled), .ksc-hint")
    assert not {name: ratio for name, ratio in worst.items() if ratio < 4.5}
    diff.page.screenshot(path=f"{artifacts}.png")
