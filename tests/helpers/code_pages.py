"""Pages that hold nothing but the views of code, and what tests and benchmarks show in them."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelscope.views.widget import front_end

#: Waits until what was asked for is drawn.
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
#: The least contrast of elements' texts with what is under them, by class; `a` selects the elements.
CONTRAST = """
    const lightness = (rgb) => rgb.map((value) => value / 255).map((share) => (share <= 0.04045 ? share / 12.92
      : ((share + 0.055) / 1.055) ** 2.4)).reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
    const parse = (text) => { const all = text.match(/[\\d.]+/g).map(Number); return [all.slice(0, 3), all[3] ?? 1]; };
    const ground = (element) => {
      const layers = [];
      for (let each = element; each; each = each.parentElement) {
        layers.push(parse(getComputedStyle(each).backgroundColor));
      }
      return layers.reverse().reduce((under, [rgb, alpha]) => under.map((value, at) => value * (1 - alpha)
        + rgb[at] * alpha), [255, 255, 255]);
    };
    const worst = {};
    for (const element of document.querySelectorAll(a)) {
      const under = ground(element), [ink, alpha] = parse(getComputedStyle(element).color);
      const mixed = ink.map((value, at) => value * alpha + under[at] * (1 - alpha));
      const [low, high] = [lightness(mixed), lightness(under)].sort((one, other) => one - other);
      const name = element.className || element.tagName;
      worst[name] = Math.min(worst[name] ?? 99, (high + 0.05) / (low + 0.05));
    }
    return worst;
"""
#: JupyterLab's colors, as far as the views read them.
JUPYTER = {
    "light": "--jp-layout-color1: #fff; --jp-ui-font-color1: rgba(0, 0, 0, .87); "
             "--jp-ui-font-color2: rgba(0, 0, 0, .54); --jp-content-link-color: #1976d2;",
    "dark": "--jp-layout-color1: #212121; --jp-ui-font-color1: #fff; --jp-ui-font-color2: rgba(255, 255, 255, .7); "
            "--jp-content-link-color: #64b5f6;",
}


def code_page(folder: Path, jupyter: str = "") -> Path:
    """Write a page with an empty `#host`, and `codeView` and `diffView` as globals."""
    path = folder / "code.html"
    theme = f"body {{ {JUPYTER[jupyter]} background: var(--jp-layout-color1); }}" if jupyter else ""
    module = base64.b64encode(front_end("inspector").encode()).decode()
    path.write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>code</title><style>body {{ margin: 8px; }} {theme}</style></head>"
        f'<body><div id="host"></div><script type="module">'
        f'const module = await import("data:text/javascript;base64,{module}");\n'
        "const style = document.createElement('style');\nstyle.textContent = module.CODE_STYLE;\n"
        "document.head.append(style);\nObject.assign(window, module);</script></body></html>", encoding="utf-8")
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
              number: Number(row.querySelector(".ksc-lineno").textContent), box: row.getBoundingClientRect() }));
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




class Diff:
    """Drives one comparison: `window.diff` on the page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.wait_for_function("() => window.diffView")
        page.evaluate("() => { window.noticed = []; window.diff = diffView(document.querySelector('#host'), "
                      "{ notice: (text) => noticed.push(text) }); }")

    def show(self, left: str, right: str, language: str = "ptx", **content: Any) -> Diff:
        both = [{"text": text, "language": language, "name": name, **content}
                for text, name in ((left, "#1"), (right, "#2"))]
        self.page.evaluate("(both) => { diff.show(...both); }", both)
        self.page.evaluate(FRAME)
        return self

    def tell(self, code: str, argument: Any = None) -> Any:
        """Run code in which `d` is the comparison, and `a` the argument."""
        return self.page.evaluate(f"(a) => {{ const d = window.diff; {code} }}", argument)

    def pairs(self) -> list[list[Any]]:
        """Each row's left and right line number, None for none, and whether it is the same."""
        return self.tell("return Array.from(d.found.kinds, (kind, row) => [d.found.left, d.found.right].map("
                         "(lines) => lines[row] < 0 ? null : lines[row] + 1).concat(kind === 0));")


def big_ptx(ptx: str, times: int = 120) -> str:
    """A kernel's PTX with the blocks of its loop over and over: 24,000 lines of the stencil's."""
    body = ptx[ptx.index("$L__BB0_3:"):ptx.index("$L__BB0_18:")]
    return ptx.replace(body, "".join(body.replace("BB0_", f"BB{at}_") for at in range(times)))


def stencil_code() -> dict[str, str]:
    """The PTX, LLVM and SASS of a kernel with a loop, a branch and shared memory, compiled now with line information.

    The SASS is missing without nvdisasm.
    """
    import math

    import numpy as np
    from numba import cuda, types

    def stencil(a, out, n):
        i = cuda.grid(1)
        held = cuda.shared.array(128, np.float32)
        held[cuda.threadIdx.x] = a[i]
        cuda.syncthreads()
        if i < n:
            total = 0.0
            for k in range(n):
                total += math.sin(held[k % 128]) * a[i] if i else 1.0
            out[i] = total

    array = types.float32[::1]
    kernel = cuda.jit((array, array, types.int64), lineinfo=True)(stencil)
    (signature,) = kernel.signatures
    made = {"ptx": kernel.inspect_asm(signature), "llvm": kernel.inspect_llvm(signature)}
    with suppress(RuntimeError):
        made["sass"] = kernel.inspect_sass(signature)
    return made


def origins(ptx: str) -> list[int]:
    """The source line of each line of a PTX, by its `.loc`."""
    line, found = 0, []
    for text in ptx.split("\n"):
        if text.startswith("\t.loc\t"):
            line = int(text.split()[2])
        found.append(line)
    return found


SASS = """\t.target\tsm_90a

//--------------------- .debug_line               --------------------------
\t.section\t.debug_line,"",@progbits
.debug_line:
        /*0000*/ \t.byte\t0x81, 0x00

//--------------------- .text.kernel --------------------------
\t.section\t.text.kernel,"ax",@progbits
kernel:
.text.kernel:
\t//## File "axpy.py", line 5
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   S2R R2, SR_TID.X ;
        /*0020*/              @!P1 BRA `(.L_x_0) ;
        /*0030*/                   LDG.E R0, desc[UR12][R8.64] ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
.L_x_0:
        /*0050*/                   FFMA R3, R0, 2.5, R3.reuse ;
        /*0060*/                   EXIT ;

//--------------------- .nv.shared.kernel --------------------------
\t.section\t.nv.shared.kernel,"aw",@nobits
\t.zero\t1536
"""
