"""Drives an inspector in a page: what tests of it and its benchmark share."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from code_pages import JUPYTER
from playwright.sync_api import Locator, Page

from kernelscope.recording.model import Recording
from kernelscope.views.inspector.counts import line_counts
from kernelscope.views.inspector.model import FORMS, code_of, inspect_kernels
from kernelscope.views.inspector.widget import code_marks, code_message, compile_parts, kernels_message
from kernelscope.views.keys import specialization_keys
from kernelscope.views.widget import front_end

SHOWN_WITHIN_MS = 30_000
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def inspector_page(recording: Recording, path: Path, jupyter: str = "", pair: tuple[str, str, str] | None = None,
                   ) -> Path:
    """Write a page that is the inspector of a recording, with the answers to all that it can ask."""
    kernels, keys = inspect_kernels(recording), specialization_keys(recording)
    facts = kernels_message(recording, kernels, pair) | {
        "is_live": False, "can_compile": False, "marks": code_marks(recording), "first": None}
    answers: dict[str, Any] = {}
    for kernel in kernels:
        for each in kernel.specializations:
            key = keys[each.specialization_id]
            answers[f"compiles {key}"] = {"text": json.dumps(compile_parts(recording, each))}
            for form in [form for form in each.code if form in FORMS]:
                code = code_of(recording, kernel, each, form)
                samples = line_counts(recording, kernel, each, form, code)
                message, (text, lines, ties) = code_message(code, form, samples)
                numbers = [memoryview(zlib.decompress(each, -15)).cast("i").tolist() for each in (lines, ties)]
                answers[f"{form} {key}"] = {**message, "text": zlib.decompress(text, -15).decode(), "lines": numbers[0],
                                            "ties": numbers[1]}
    theme = f"body {{ {JUPYTER[jupyter]} background: var(--jp-layout-color1); }}" if jupyter else ""
    module = base64.b64encode(front_end("inspector").encode()).decode()
    data = json.dumps({"facts": facts, "answers": answers}).replace("<", "\\u003c")
    path.write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>inspector</title><style>body {{ margin: 8px; }} {theme}</style></head>"
        f'<body><div class="ks-painted"></div><script type="module">const {{ facts, answers }} = {data};\n'
        f'const module = await import("data:text/javascript;base64,{module}");\n'
        "const none = { note: 'This recording holds none of it.', fix: '', has_text: false, chains: [], text: '' };\n"
        "const ask = async ({ what, form, specialization }) => answers[`${form ?? what} ${specialization}`] ?? none;\n"
        "module.mount(document.querySelector('.ks-painted'), { facts, ask });</script></body></html>", encoding="utf-8")
    return path


class Inspector:
    """An inspector of a page, by its place among those that are there."""

    def __init__(self, page: Page, at: int = 0) -> None:
        self.page = page
        page.wait_for_function("(at) => document.querySelectorAll('.ks-painted .ksi').length > at", arg=at,
                               timeout=SHOWN_WITHIN_MS)
        self.root = page.locator(".ks-painted .ksi").nth(at)

    def find(self, selector: str) -> Locator:
        return self.root.locator(selector)

    def settle(self) -> Inspector:
        self.page.evaluate(FRAME)
        return self

    # ---- Kernels and specializations ----

    @property
    def kernels(self) -> list[str]:
        """The kernels that are listed, from the top."""
        return self.find(".ksi-kernel .ksi-name").all_inner_texts()

    @property
    def kernel(self) -> str:
        """The chosen kernel's name."""
        return self.find(".ksi-head .ksi-name").inner_text()

    def choose(self, name: str) -> None:
        self.find(".ksi-kernel").filter(has_text=name).first.click()

    @property
    def rows(self) -> list[list[str]]:
        """The table of specializations, without the boxes."""
        found: list[list[str]] = self.find(".ksi-specializations").evaluate("""(table) => {
            const textsOf = (row) => [...row.cells].slice(1).map((cell) => cell.innerText);
            return [...table.querySelectorAll(".ksi-row")].map(textsOf);
        }""")
        return found

    @property
    def numbers(self) -> list[str]:
        return [row[0] for row in self.rows]

    def row(self, number: int) -> Locator:
        return self.find(".ksi-row").filter(has=self.page.locator(f"td:nth-child(2):text-is('{number}')"))

    @property
    def chosen(self) -> str:
        """The number of the chosen specialization."""
        return self.find(".ksi-row[aria-selected=true] td:nth-child(2)").inner_text()

    def sort(self, label: str) -> None:
        self.find(".ksi-sort").get_by_text(label, exact=True).click()

    def compare(self, *numbers: int) -> None:
        for number in numbers:
            self.row(number).locator("input").click()
        self.find(".ksi-compare").click()

    # ---- Tabs and code ----

    def tab(self, name: str) -> None:
        self.find(f".ksi-tab[data-tab={name}]").click()

    def beside(self, form: str) -> None:
        """Put a form of code beside the one that is shown, or take it away."""
        self.find(f".ksi-beside [data-form={form}]").click()

    @property
    def current(self) -> str:
        return self.find(".ksi-tab[aria-selected=true]").inner_text()

    @property
    def panel(self) -> Locator:
        return self.find(".ksi-panel")

    def code(self, at: int = -1) -> Locator:
        """A code view of the panel once it is there: the source first, then what came of it."""
        views = self.panel.locator(".ksc")
        views.first.wait_for(state="visible", timeout=SHOWN_WITHIN_MS)
        return views.nth(at) if at >= 0 else views.last

    def line(self, number: int, at: int = -1) -> Locator:
        """A line of a code view that is in the page, by the number at its left."""
        return self.code(at).locator(".ksc-row").filter(
            has=self.page.locator(f".ksc-lineno:text-is('{number}')")).first

    def marked(self, at: int, kind: str = "picked") -> list[int]:
        """Numbers of the drawn lines of a code view that are picked, or near."""
        found: list[int] = self.code(at).evaluate("""(view, kind) => [...view.querySelectorAll(`.ksc-row.ksc-${kind}`)]
            .map((row) => Number(row.querySelector(".ksc-lineno").textContent)).sort((a, b) => a - b)""", kind)
        return found

    def drawn(self, at: int = -1) -> str:
        """The text of a code view that is in the page."""
        return "\n".join(self.code(at).locator(".ksc-code").all_text_contents())

    def focus(self) -> dict[str, Any]:
        """What has the focus: its class and its text."""
        found: dict[str, Any] = self.page.evaluate("""() => {
            const { className, innerText, dataset } = document.activeElement;
            return { name: className, text: innerText ?? "", data: { ...dataset } };
        }""")
        return found
