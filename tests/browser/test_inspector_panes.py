"""The inspector's forms of code side by side, alone on a page, with the real code of a kernel of Triton's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accessibility import violations
from handmade import Script
from inspected import TRITON, triton
from inspector_pages import Inspector, inspector_page
from jupyter_pages import until
from sampled import sampled

from kernelscope.features.compare.view import ComparisonView
from kernelscope.recording.model import Recording

pytestmark = [pytest.mark.browser, pytest.mark.slow]

KERNEL, HELPER = ((TRITON / f"{name}.py.txt").read_text().split("\n") for name in ("kernels", "helpers"))
CALL = next(at for at, line in enumerate(KERNEL, 1) if "e = scaled(" in line)
EXPONENT = next(at for at, line in enumerate(HELPER, 1) if "tl.exp(w)" in line)
Open = Callable[..., Inspector]


@pytest.fixture
def opened(watch: Callable[..., Any], tmp_path: Path) -> Open:
    """Show the inspector of Triton's ``softmax``, made by these versions."""
    def make(*versions: str, without: tuple[str, ...] = (), **options: Any) -> Inspector:
        watched = watch(**options)
        watched.page.goto(inspector_page(triton(*versions, without=without), tmp_path / "inspector.html").as_uri())
        return Inspector(watched.page)

    return make


def tabs(shown: Inspector) -> list[str]:
    return shown.find(".ksi-tab").all_inner_texts()


def panes(shown: Inspector) -> list[str]:
    return shown.panel.locator(".ksi-side > .ksi-caption").all_inner_texts()


def texts(shown: Inspector, at: int) -> dict[int, str]:
    """The drawn lines of a pane that are picked, by their numbers."""
    return {number: shown.line(number, at).locator(".ksc-code").text_content() or ""
            for number in shown.marked(at)}


def test_a_line_marks_those_of_all_panes(opened: Open) -> None:
    shown = opened("3.9", width=1700)
    assert tabs(shown) == ["Source", "TTIR", "TTGIR", "LLVM", "PTX", "SASS", "Passes", "Launches", "Cache"]
    assert "dynamic shared memory: 16 B · a block: 4 warps, 3 stages, 1 CTA" in shown.find(".ksi-title2").inner_text()
    shown.tab("ttir")
    shown.beside("sass")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTIR", "SASS"])
    shown.line(CALL, 0).click()
    assert until(shown.page, lambda: len(shown.marked(1)) > 3 and len(shown.marked(2)) > 3)
    operations = " ".join(texts(shown, 1).values())
    assert '"tt.reduce"' in operations and "math.exp" in operations and "tt.store" not in operations
    # What was inlined belongs to the line that calls it, and alone to the same lines of the inlined function.
    exponential = shown.code(1).locator(".ksc-row").filter(has_text="math.exp")
    assert exponential.locator(".ksc-origin").inner_text() == str(CALL)
    assert exponential.locator(".ksc-note").inner_text() == f"helpers.py:{EXPONENT}"
    exponential.click()
    assert until(shown.page, lambda: "MUFU.EX2" in " ".join(texts(shown, 2).values()))
    assert "FMNMX" not in " ".join(texts(shown, 2).values())
    # The function's source is below the kernel's, with the numbers of its own file.
    assert shown.marked(0) == [EXPONENT, CALL]
    assert texts(shown, 0)[EXPONENT].strip() == "return tl.exp(w)"
    shown.line(EXPONENT, 0).click()
    assert until(shown.page, lambda: "MUFU.EX2" in " ".join(texts(shown, 2).values()))
    exponential.click()
    # Another form is marked likewise; the oldest of three gives way, and the picked line stays.
    shown.beside("ttgir")
    assert until(shown.page, lambda: panes(shown) == ["TTIR", "TTGIR", "SASS"])
    assert until(shown.page, lambda: "math.exp" in " ".join(texts(shown, 1).values()))
    shown.tab("ptx")
    assert until(shown.page, lambda: panes(shown) == ["TTGIR", "PTX", "SASS"])
    assert until(shown.page, lambda: "ex2.approx" in " ".join(texts(shown, 1).values()))
    shown.tab("source")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTGIR", "SASS"])
    assert until(shown.page, lambda: shown.marked(0) == [EXPONENT, CALL])


def test_by_keyboard(opened: Open) -> None:
    shown = opened("3.9")
    shown.tab("ttgir")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTGIR"])
    keys = shown.page.keyboard
    shown.find(".ksi-tab[data-tab=ttgir]").focus()
    keys.press("ArrowDown")
    keys.press("Control+Home")
    for _ in range(40):
        if shown.marked(0, "near") == [CALL]:
            break
        keys.press("ArrowDown")
    keys.press("Enter")
    assert shown.marked(0) == [CALL]
    chip = shown.find(".ksi-beside [data-form=ptx]")
    chip.focus()
    keys.press("Enter")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTGIR", "PTX"])
    assert until(shown.page, lambda: shown.focus()["data"].get("form") == "ptx")
    assert chip.get_attribute("aria-pressed") == "true"
    assert until(shown.page, lambda: len(shown.marked(2)) > 3)


def test_where_calls_are_missing_the_inlined_lines_are_tied(opened: Open) -> None:
    """Triton 3.4's machine code says of what was inlined its own line only; where it is from is in its PTX."""
    shown = opened("3.4", without=("ptx",))
    shown.tab("sass")
    shown.beside("ttir")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTIR", "SASS"])
    shown.code(1).locator(".ksc-row").filter(has_text="math.exp").click()
    assert until(shown.page, lambda: "MUFU.EX2" in " ".join(texts(shown, 2).values()))
    shown.code(2).locator(".ksc-row.ksc-picked").first.click()
    assert until(shown.page, lambda: ["math.exp" in text for text in texts(shown, 1).values()] == [True])


@pytest.mark.parametrize("width", [520, 1000, 1700])
@pytest.mark.parametrize("dark", [False, True])
def test_three_panes_are_readable(opened: Open, width: int, dark: bool, artifacts: Path) -> None:
    shown = opened("3.9", width=width, dark=dark)
    shown.tab("ttgir")
    shown.beside("sass")
    assert until(shown.page, lambda: panes(shown) == ["Source", "TTGIR", "SASS"])
    shown.line(CALL, 0).click()
    boxes = [each.bounding_box() for each in shown.panel.locator(".ksi-side").all()]
    assert all(box is not None and box["width"] > min(400, width * 0.6) for box in boxes)
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(shown.page, ".ksi") == []
    shown.page.screenshot(path=f"{artifacts}.png", full_page=True)


def test_samples_are_a_column_of_each_pane(watch: Callable[..., Any], tmp_path: Path) -> None:
    watched = watch(width=1700)
    watched.page.goto(inspector_page(sampled(), tmp_path / "inspector.html").as_uri())
    shown = Inspector(watched.page)
    shown.tab("sass")
    shown.beside("ptx")
    assert until(shown.page, lambda: panes(shown) == ["Source", "PTX", "SASS"])

    def shares(at: int) -> list[str]:
        return [text for text in shown.code(at).locator(".ksc-share").all_inner_texts() if text.strip()]

    assert [shares(at) for at in range(3)] == [
        ["2.0 %", "68 %", "22 %", "8.0 %"], ["2.0 %", "68 %", "30 %"],
        ["2.0 %", "5.0 %", "63 %", "8.0 %", "2.0 %", "15 %", "5.0 %"]]
    legend = shown.find(".ksi-legend").inner_text()
    assert "memory" in legend and "barriers" not in legend
    hot = shown.line(11, 0).locator(".ksc-share")
    title = hot.get_attribute("title") or ""
    assert title.startswith("68 % of 100 samples, 68 here\n88 % waiting for memory (long scoreboard): The warp waits")
    assert hot.locator("i").count() == 3
    widths = hot.locator("i").evaluate_all("(parts) => parts.map((each) => each.getBoundingClientRect().width)")
    assert sorted(widths)[-1] > 0.8 * sum(widths)
    assert violations(shown.page, ".ksi") == []


@pytest.mark.parametrize("width", [420, 1300])
def test_a_comparison_of_recordings_begins_with_its_diff(watch: Callable[..., Any], tmp_path: Path, width: int,
                                                         artifacts: Path) -> None:
    """Of the kernel that both have, in the first form that differs; what is of which recording is said."""
    runs = [axpy_of(text, launches) for text, launches in (("out[i] = a * x[i]", 1), ("out[i] = a * x[i] + x[i]", 4))]
    view = ComparisonView(*runs, ("old.kscope", "new.kscope"))
    inspector = view.inspect("axpy")
    watched = watch(width=width)
    page = inspector_page(view.together, tmp_path / "inspector.html", pair=inspector.first_pair())
    watched.page.goto(page.as_uri())
    shown = Inspector(watched.page)
    assert shown.current == "Source"
    assert tabs(shown)[:2] == ["Types and resources", "Source"]
    assert until(shown.page, lambda: "1 difference" in shown.panel.inner_text())
    assert "+ x[i]" in shown.panel.inner_text()
    head = shown.find(".ksi-title2").inner_text()
    assert head.index("1: old.kscope") < head.index("against") < head.index("2: new.kscope")
    assert shown.find(".ksi-row input:checked").count() == 2
    assert [row[1].splitlines()[-1] for row in shown.rows] == ["2: new.kscope", "1: old.kscope", "2: new.kscope"]
    # What each compiled once is not advised against as compiled twice, and the focus is not taken.
    assert shown.find(".ksi-advice").count() == 0
    assert shown.page.evaluate("document.activeElement === document.body")
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.page.screenshot(path=f"{artifacts}.png", full_page=True)
    shown.find(".ksi-title2 .ksi-button").click()
    assert tabs(shown)[-1] == "Cache"


def axpy_of(line: str, launches: int) -> Recording:
    """A kernel with this line, launched so often, of float32; and where it is launched often, once of float64."""
    script = Script(code=True)
    kernel = script.kernel("axpy", arguments="out, a, x")
    script._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    script.cell()
    script.configuration()
    script._add("code", None, {"dispatcher_id": kernel, "kind": "source", "lineno": 1,
                               "text": f"def axpy(out, a, x):\n    i = cuda.grid(1)\n    {line}\n"})
    for at, kind in enumerate(["float32", "float64"][:1 if launches == 1 else 2]):
        row = script.specialization(kernel, f"(array({kind}, 1d, C), float64, array({kind}, 1d, C))")
        script._add("code", None, {"dispatcher_id": kernel, "specialization_id": row, "kind": "ptx",
                                   "text": f".visible .entry axpy\n// {line}\nret;"})
        script.compilation(kernel, specialization_id=row, cell_id=0)
        for _ in range(launches if not at else 1):
            script.launch(kernel, specialization=row)
    return script.recording()


@pytest.mark.parametrize(("form", "differs"), [("ttir", "tt."), ("ttgir", "#blocked"), ("sass", "/*")])
def test_two_specializations_as_a_diff(opened: Open, form: str, differs: str) -> None:
    shown = opened("3.4", "3.9")
    shown.compare(1, 2)
    assert tabs(shown) == ["Types and resources", "TTIR", "TTGIR", "LLVM", "PTX", "SASS"]
    marked = " ".join(shown.panel.locator("tr.ksi-differs").all_inner_texts())
    assert "4 warps, 3 stages, 1 CTA" in marked and "Dynamic shared memory" in marked
    shown.tab(form)
    assert until(shown.page, lambda: differs in shown.panel.locator(".ksi-side").inner_text())
    about = shown.panel.locator(".ksc-about").inner_text()
    assert "changed" in about or "only" in about
    loose = shown.panel.get_by_role("button", name="register")
    assert loose.count() == 1
