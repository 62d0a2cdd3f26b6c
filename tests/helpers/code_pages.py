"""Pages that hold nothing but the views of code, and what tests and benchmarks show in them."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from kernelscope.widgets.frontend import CODE

#: Waits until what was asked for is drawn.
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: JupyterLab's colors, as far as the views read them.
JUPYTER = {
    "light": "--jp-layout-color1: #fff; --jp-ui-font-color1: rgba(0, 0, 0, .87); "
             "--jp-ui-font-color2: rgba(0, 0, 0, .54); --jp-content-link-color: #1976d2;",
    "dark": "--jp-layout-color1: #212121; --jp-ui-font-color1: #fff; --jp-ui-font-color2: rgba(255, 255, 255, .7); "
            "--jp-content-link-color: #64b5f6;",
}


def static(name: str) -> str:
    return files("kernelscope.widgets").joinpath("static", name).read_text(encoding="utf-8")


def joined() -> str:
    """The views' modules as one script, as notebooks get them."""
    texts = (re.sub(r'^import \{[^}]*\} from "\./\w+\.js";\n', "", static(f"{name}.js"), flags=re.MULTILINE)
             for name in ("text", *CODE))
    return re.sub(r"^export (?=(async )?(function|class|const|let) )", "", "\n".join(texts), flags=re.MULTILINE)


def code_page(folder: Path, jupyter: str = "") -> Path:
    """Write a page with an empty `#host`, and `codeView` and `diffView` as globals."""
    path = folder / "code.html"
    theme = f"body {{ {JUPYTER[jupyter]} background: var(--jp-layout-color1); }}" if jupyter else ""
    path.write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>code</title><style>body {{ margin: 8px; }} {theme} {static('code.css')}</style></head>"
        f'<body><div id="host"></div><script type="module">{joined()}\n'
        "Object.assign(window, { codeView, diffView: typeof diffView === 'undefined' ? null : diffView });"
        "</script></body></html>", encoding="utf-8")
    return path


class Code:
    """Drives one code view: `window.view` on the page, and `window.told` what it told."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.wait_for_function("() => window.codeView")
        page.evaluate("""() => {
            window.told = []; window.noticed = [];
            window.view = codeView(document.querySelector("#host"), {
              onLine: (line, { picked }) => told.push([line, picked]), notice: (text) => noticed.push(text) });
        }""")

    def show(self, text: str, language: str = "ptx", **content: Any) -> Code:
        self.page.evaluate("(content) => { view.show(content); }", {"text": text, "language": language, **content})
        return self.settle()

    def settle(self) -> Code:
        self.page.evaluate(FRAME)
        return self

    def tell(self, code: str, argument: Any = None) -> Any:
        """Run code in which `v` is the view, and `a` the argument."""
        return self.page.evaluate(f"(a) => {{ const v = window.view; {code} }}", argument)

    def seen(self) -> list[int]:
        """Numbers of the lines that are in sight, from the top."""
        return self.tell("""
            const box = v.scroller.getBoundingClientRect(), rows = [...v.body.children].map((row) => ({
              number: Number(row.querySelector(".ksc-number").textContent), box: row.getBoundingClientRect() }));
            return rows.filter((row) => row.box.bottom > box.top + 1 && row.box.top < box.bottom - 1)
              .sort((one, other) => one.box.top - other.box.top).map((row) => row.number);
        """)

    def row(self, number: int) -> Any:
        return self.page.locator(f".ksc-row[data-item='{number - self.tell('return v.text.first;')}']")

    def classed(self, name: str) -> list[int]:
        """Numbers of the drawn lines that have a class."""
        return self.tell(f"return [...v.rows.drawn].filter(([, row]) => row.classList.contains('{name}'))"
                         ".map(([line]) => v.text.number(line)).sort((a, b) => a - b);")

    def text_of(self, number: int) -> str:
        return self.row(number).locator(".ksc-code").text_content()

    def copied(self) -> str:
        """What a copy of the selection puts into the clipboard."""
        return self.page.evaluate("""() => {
            const data = new DataTransfer(), event = new ClipboardEvent("copy", { clipboardData: data, bubbles: true,
              cancelable: true });
            document.activeElement.dispatchEvent(event);
            return data.getData("text/plain");
        }""")


