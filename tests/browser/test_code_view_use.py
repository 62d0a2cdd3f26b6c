"""Using the view of code: copying, selecting, the keyboard, hostile and very long texts, themes and widths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import in_both_fonts
from code_pages import CONTRAST, SASS, big_ptx, origins

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NUMBERED = "\n".join(f"line {at} of these" for at in range(1, 1001)) + "\n"
LONG = "_ZN8__main__4axpyB2v1B108cw51cXTLSUwv1sDUaKthqaNgoKmjgMVuW1AiA8rAEg2UjxRKtuAI0FEA2gSVRE8cSMKQdIgkg" * 2


def test_copy_gives_all_of_the_text(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(real["ptx"])
    code.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    code.page.get_by_role("button", name="Copy").click()
    code.page.wait_for_function("() => noticed.length > 0")
    assert code.page.evaluate("navigator.clipboard.readText()") == real["ptx"]
    assert code.page.evaluate("noticed") == [f"copied {real['ptx'].count(chr(10)) + 1:,} lines"]
    assert code.page.locator(".ksc-live").inner_text().startswith("copied")


def test_copy_works_where_the_clipboard_is_refused(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    code.page.evaluate("""() => {
        Object.defineProperty(navigator, "clipboard", { value: { writeText: () => Promise.reject(new Error("no")) } });
        addEventListener("copy", (event) => { window.got = event; }, true);
        const put = DataTransfer.prototype.setData;
        DataTransfer.prototype.setData = function (type, text) { window.put = text; put.call(this, type, text); };
    }""")
    code.page.get_by_role("button", name="Copy").click()
    code.page.wait_for_function("() => noticed.length > 0")
    assert code.page.evaluate("window.put") == NUMBERED
    assert code.page.evaluate("noticed") == ["copied 1,000 lines"]
    assert code.page.locator("textarea").count() == 0
    code.page.evaluate("document.execCommand = () => false")
    code.page.get_by_role("button", name="Copy").click()
    code.page.wait_for_function("() => noticed.length > 1")
    assert code.page.evaluate("noticed").pop() == "the browser refused to copy"


def test_everything_can_be_selected_and_copied(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(real["ptx"])
    code.tell("v.foldAll(true);")
    code.page.locator(".ksc-scroll").focus()
    code.page.keyboard.press("Control+a")
    assert code.copied() == real["ptx"]
    code.tell("v.foldAll(false); v.scroller.scrollTop = 2000;")
    code.page.keyboard.press("Control+a")
    code.tell("v.scroller.scrollTop = 100;")
    code.settle()
    assert code.copied() == real["ptx"]
    assert code.page.evaluate("noticed").pop().startswith("copied")


def test_a_range_of_lines_is_selected_by_their_numbers(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    code.row(5).locator(".ksc-lineno").click()
    code.tell("v.scroller.scrollTop = 5000;")
    code.settle()
    last = code.seen()[4]
    code.row(last).locator(".ksc-lineno").click(modifiers=["Shift"])
    assert code.copied() == "".join(f"line {at} of these\n" for at in range(5, last + 1))
    code.page.keyboard.press("Escape")
    assert code.copied() == ""


def test_a_selection_by_mouse_over_lines_that_left_the_page_is_whole(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    page, box = code.page, code.row(3).locator(".ksc-code").bounding_box()
    width = box["width"] / len("line 3 of these")
    page.mouse.move(box["x"] + 2 * width, box["y"] + 9)
    page.mouse.down()
    page.mouse.move(box["x"] + 5 * width, box["y"] + 60, steps=3)
    for _ in range(10):
        page.mouse.wheel(0, 500)
        code.settle()
    assert 3 not in code.seen()
    page.mouse.move(box["x"] + 4 * width, box["y"] + 100, steps=3)
    page.mouse.up()
    last = code.tell("return Number(document.elementFromPoint(a[0], a[1]).closest('.ksc-row').dataset.item) + 1;",
                     [box["x"] + 4 * width, box["y"] + 100])
    assert last > 200
    wanted = "ne 3 of these\n" + "".join(f"line {at} of these\n" for at in range(4, last)) + "line"
    assert code.copied() == wanted
    assert code.tell("return v.body.children.length;") < 70


def test_parts_of_shortened_names_and_odd_characters_are_copied_as_they_are(opened: Any) -> None:
    code = opened().show(f"a [{LONG}] b\n")
    code.page.evaluate("""() => {
        const code = document.querySelector(".ksc-code"), name = code.querySelector(".ksc-short");
        getSelection().setBaseAndExtent(name.firstChild, 3, code.lastChild, 1); }""")
    assert code.copied() == LONG[3:] + "]"
    code.page.evaluate("""() => {
        const code = document.querySelector(".ksc-code"), name = code.querySelector(".ksc-short");
        getSelection().setBaseAndExtent(name.firstChild, 0, name.firstChild, 30); }""")
    assert code.copied() == LONG[:-13]
    code.show("x\u202ey\x00z\n", "python")
    assert code.row(1).locator(".ksc-code").inner_text() == "x\\u202ey\\u0000z"
    code.page.evaluate("() => { const code = document.querySelector('.ksc-code'); "
                       "getSelection().setBaseAndExtent(code, 0, code, code.childNodes.length); }")
    assert code.copied() == "x\u202ey\x00z"


def test_go_to_a_line(opened: Any) -> None:
    code = opened().show(NUMBERED, "python", first=101)
    page = code.page
    page.locator(".ksc-scroll").focus()
    page.keyboard.press("Control+g")
    page.keyboard.type("777")
    page.keyboard.press("Enter")
    code.settle()
    assert 777 in code.seen()
    assert code.classed("ksc-cursor") == [777]
    assert page.evaluate("document.activeElement === view.scroller")
    page.keyboard.press(":")
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    assert page.evaluate("noticed").pop() == "no line 9: they are 101 to 1,100"
    assert code.classed("ksc-cursor") == [777]
    assert page.locator(".ksc-goto").is_hidden()


def test_it_can_be_used_by_keyboard_alone(opened: Any, real: dict[str, str]) -> None:
    code = opened().show(real["ptx"])
    page, keys = code.page, code.page.keyboard
    code.tell("v.focus();")
    cursor = lambda: code.tell("return v.cursor + 1;")  # noqa: E731
    for key, wanted in (("ArrowDown", 2), ("ArrowDown", 3), ("ArrowUp", 2), ("End", real["ptx"].count("\n") + 1),
                        ("Home", 1), ("PageDown", 27), ("Control+Home", 1)):
        keys.press(key)
        assert cursor() == wanted, key
        assert wanted in code.seen(), key
    assert page.evaluate("told").pop() == [1, False]
    assert page.get_by_role("listbox").get_attribute("aria-activedescendant") == code.row(1).get_attribute("id")
    keys.press("ArrowLeft")
    assert code.tell("return v.folds.hides(0);") > 5
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    keys.press("ArrowRight")
    assert code.tell("return v.folds.hides(0);") == 0
    keys.press("ArrowDown")
    keys.press("Enter")
    assert page.evaluate("told").pop() == [2, True]
    assert code.classed("ksc-picked") == [2]
    keys.press("Shift+ArrowDown")
    keys.press("Shift+ArrowDown")
    assert code.copied() == "".join(f"{line}\n" for line in real["ptx"].split("\n")[1:4])
    keys.press("/")
    keys.type("ret;")
    keys.press("Enter")
    keys.press("Escape")
    keys.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keys.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.querySelector('.ksc-frame'), '::after').borderTopWidth") == "2px"
    for name in ("ksc-search", "ksc-pattern", "ksc-fold-all", "ksc-open-all", "ksc-names", "ksc-copy", "ksc-scroll",
                 "ksc-more"):
        assert code.tell("return v.element.querySelector(`.${a}`).tabIndex;", name) == 0
        assert code.tell("const e = v.element.querySelector(`.${a}`); "
                         "return Boolean(e.getAttribute('aria-label') || e.textContent);", name), name


def test_its_keys_do_not_reach_the_notebook(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    page = code.page
    page.evaluate("() => { window.heard = []; "
                  "document.addEventListener('keydown', (event) => heard.push(event.key)); }")
    code.tell("v.focus();")
    for key in ("a", "d", "d", "ArrowDown", "Enter", "Control+f", "x", "Escape"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == []
    for selector in (".ksc", ".ksc-scroll", ".ksc-search", ".ksc-goto", ".ksc-copy"):
        assert page.locator(selector).get_attribute("data-lm-suppress-shortcuts") == "true"


HOSTILE = (
    "</code><script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", '"onmouseover="window.hurt=1',
    "javascript:window.hurt=1", "\u202egnp.exe\u2066\u200f", "a\x00b\x1b[31m\x7f", "%s${window.hurt=1}",
)


def test_hostile_texts_are_texts(opened: Any) -> None:
    code = opened()
    text = "\n".join(HOSTILE)
    for language in ("python", "llvm", "ptx", "sass", "types", "", "__proto__"):
        code.show(text, language, name=text, notes={"1": [text]}, lines=[1, 2, 3, 4, 5, 6, 7])
        for number, line in enumerate(HOSTILE[:4], 1):
            assert code.text_of(number) == line
        assert "\\u202egnp.exe\\u2066\\u200f" in code.text_of(5)
        assert "a\\u0000b\\u001b[31m\\u007f" in code.text_of(6)
        code.tell("v.find(a); v.pick(1);", HOSTILE[0])
        code.page.mouse.move(300, 80)
        code.settle()
    assert code.page.evaluate("window.hurt") is None
    assert code.page.locator(".ksc img, .ksc script").count() == 0
    assert len(code.watched.requests) == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("language", ["python", "llvm", "ptx", "sass", "types"])
def test_a_line_of_a_megabyte_is_shown(opened: Any, language: str) -> None:
    code = opened()
    for part in ("x", "a ", '"', "(", "'", "%r1, ", "/*", "(*", "c[", "`(", "\\", ".f32", "\u202e"):
        # It takes 20 ms; what backtracks takes minutes, and the page answers nothing then.
        code.page.evaluate("""([part, language]) => {
            view.show({ text: part.repeat(1_000_000 / part.length) + "needle\\nnext", language });
        }""", [part, language])
        assert len(code.text_of(1)) < 3000 * 6 + 100
        assert "more characters" in code.text_of(1)
        assert code.tell("return v.find('needle');") == 1
        code.settle()
        # A name of a megabyte is shortened, and its end is what is found.
        assert code.row(1).locator(".ksc-now").inner_text().endswith("needle")
        assert code.text_of(2) == "next"


def test_a_ptx_of_twenty_thousand_lines(opened: Any, real: dict[str, str]) -> None:
    code = opened()
    text = big_ptx(real["ptx"])
    assert text.count("\n") > 20_000
    code.page.evaluate("(text) => view.show({ text, language: 'ptx' })", text)
    code.settle()
    assert code.tell("return v.body.children.length;") < 60
    code.tell("v.scroller.scrollTop = v.scroller.scrollHeight;")
    code.settle()
    assert code.seen()[-1] == text.count("\n") + 1
    code.tell("v.foldAll(true);")
    assert code.tell("return v.folds.rows.length;") < 20
    assert code.tell("return v.find('$L__BB117_15:');") == 1
    assert any("$L__BB117_15:" in code.text_of(number) for number in code.seen())
    code.page.keyboard.press("Escape")
    code.tell("v.focus();")
    code.page.keyboard.press("Control+a")
    assert code.copied() == text


@pytest.mark.parametrize(("dark", "jupyter"), [(False, ""), (True, ""), (True, "light"), (False, "dark")])
def test_everything_has_enough_contrast(opened: Any, real: dict[str, str], dark: bool, jupyter: str,
                                        artifacts: Path) -> None:
    code = opened(dark=dark, jupyter=jupyter)
    shown = {"ptx": real["ptx"], "sass": SASS, "llvm": real["llvm"],
             "python": "@cuda.jit\ndef axpy(a, x):\n    return 'it' * 3  # sum\n"}
    for language, text in shown.items():
        code.show(text, language, lines=[1] * (text.count("\n") + 1), notes={"2": ["x: float32"]})
        for marks in ("v.mark(a); ", "v.mark(a, { picked: true });", "v.find('a');"):
            code.tell(f"v.mark([]); {marks}", list(range(1, 400)))
            code.settle()
            worst = code.tell(CONTRAST, ".ksc-code > *, .ksc-code, .ksc-note, .ksc-lineno, .ksc-origin, .ksc-button, "
                                         ".ksc-about, .ksc-count, .ksc-hidden")
            bad = {name: round(ratio, 2) for name, ratio in worst.items() if ratio < 4.5}
            assert not bad, (language, marks, bad)
        code.page.screenshot(path=f"{artifacts}-{language}.png")


@in_both_fonts
@pytest.mark.parametrize(("width", "dark"), [(560, True), (1200, False)])
def test_it_fits_wide_and_narrow_pages(opened: Any, real: dict[str, str], dark: bool, width: int, font: str,
                                       artifacts: Path) -> None:
    code = opened(dark=dark, width=width, font=font)
    code.show(real["ptx"], lines=origins(real["ptx"]), name="stencil.ptx")
    code.tell("v.find('%rd1'); v.mark([60, 61], { picked: true });")
    code.settle()
    assert code.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = code.page.locator(".ksc").bounding_box()
    for button in code.page.locator(".ksc-bar .ksc-button:visible").all():
        place = button.bounding_box()
        assert box["x"] <= place["x"]
        assert place["x"] + place["width"] <= box["x"] + box["width"]
    # The gutter stays while the code scrolls aside.
    left = code.page.locator(".ksc-lineno").first.bounding_box()["x"]
    code.tell("v.scroller.scrollLeft = 300;")
    assert code.page.locator(".ksc-lineno").first.bounding_box()["x"] == left
    code.page.screenshot(path=f"{artifacts}.png")


def test_its_theme_follows_the_page_and_it_leaves_nothing_behind(opened: Any) -> None:
    code = opened().show(NUMBERED, "python")
    is_dark = "() => view.element.classList.contains('ksc-on-dark')"
    assert not code.page.evaluate(is_dark)
    code.page.emulate_media(color_scheme="dark")
    code.page.wait_for_function(is_dark)
    code.page.emulate_media(color_scheme="light")
    code.page.evaluate("() => { document.body.style.setProperty('--jp-layout-color1', '#111'); }")
    code.page.wait_for_function(is_dark)
    code.tell("v.copy(); v.destroy();")
    assert code.page.locator(".ksc").count() == 0
    code.page.set_viewport_size({"width": 700, "height": 500})
    assert code.copied() == ""
    code.page.evaluate("() => new Promise((done) => setTimeout(done, 50))")
