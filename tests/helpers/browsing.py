"""What tests in a browser share: a Chromium with named fonts, and the timeline's places, pixels and numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

#: Debian's browser and the names that other systems have for it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: No other machine is found.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]


class Font(NamedTuple):
    """The families that a page is set in, whatever it asks for, and Debian's package with both."""

    family: str
    monospace: str
    package: str


#: A narrow and a wide font. Layouts are tested in both, everything else in the wide one.
FONTS = {
    "narrow": Font("Liberation Sans Narrow", "Liberation Mono", "fonts-liberation"),
    "wide": Font("DejaVu Sans", "DejaVu Sans Mono", "fonts-dejavu-core"),
}

#: A test of a layout takes `font`, and opens its page in a browser with that font.
in_both_fonts = pytest.mark.parametrize("font", FONTS)

# Families that a style sheet names and that no font has are left out by Chromium; generic ones are looked up here.
_FONTCONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{folder}</dir>
  <cachedir>{folder}/cache</cachedir>
  <match target="pattern">
    <test name="family"><string>monospace</string></test>
    <edit name="family" mode="assign" binding="same"><string>{monospace}</string></edit>
  </match>
  <match target="pattern"><edit name="family" mode="append_last"><string>{family}</string></edit></match>
</fontconfig>
"""


def missing(what: str, package: str) -> NoReturn:
    """Skip and say what to install; in CI, where everything must run, fail."""
    said = f"{what} is missing: install {package}"
    if os.environ.get("CI"):
        pytest.fail(f"{said} (CI skips no test of the browser)")
    pytest.skip(said)


@contextmanager
def chromiums(folder: Path) -> Iterator[Callable[[str], Any]]:
    """Give a function that returns the Chromium with one of `FONTS`, and starts it when it is first asked for.

    Nothing else of the machine's fonts is seen by it, so that a layout is the same everywhere. What it needs of files
    is made in `folder`.
    """
    path = os.environ.get("KERNELSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("Chromium", "Debian's package chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright for Python", "playwright from PyPI")
    started: dict[str, Any] = {}

    def with_font(name: str) -> Any:
        if name not in started:
            environment = {**os.environ, "FONTCONFIG_FILE": str(_only_font(FONTS[name], folder / f"fonts-{name}"))}
            started[name] = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, env=environment)
        return started[name]

    with sync_playwright() as playwright:
        yield with_font
        for browser in started.values():
            browser.close()


def _only_font(font: Font, folder: Path) -> Path:
    """Make a folder of one font's files, and fontconfig's file for a process that is to see no other."""
    if shutil.which("fc-match") is None:
        missing("fc-match", "Debian's package fontconfig")
    folder.mkdir()
    # Signs that the narrow font does not have are taken from the wide one.
    for family, package in ((font.family, font.package), (font.monospace, font.package),
                            (FONTS["wide"].family, FONTS["wide"].package)):
        for weight in ("regular", "bold"):
            found, file = subprocess.run(["fc-match", "-f", "%{family[0]}\n%{file}", f"{family}:weight={weight}"],
                                         capture_output=True, text=True, check=True).stdout.split("\n")
            if found != family:
                missing(f"the font {family}", f"Debian's package {package}")
            link = folder / Path(file).name
            if not link.exists():
                link.symlink_to(file)
    config = folder / "fonts.conf"
    config.write_text(_FONTCONFIG.format(folder=folder, **font._asdict()), encoding="utf-8")
    return config


#: Waits until what was asked for is drawn.
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


# Pixels are read from a copy: reading the canvas itself would make the browser draw it without its GPU from then on.
_READ = """
    const copy = document.createElement("canvas");
    copy.width = k.canvas.width;
    copy.height = k.canvas.height;
    const reading = copy.getContext("2d", { willReadFrequently: true });
    reading.drawImage(k.canvas, 0, 0);
    const { data } = reading.getImageData(0, 0, copy.width, copy.height);
    const hex = (at) => "#" + [0, 1, 2].map((part) => data[at + part].toString(16).padStart(2, "0")).join("");
"""


class Timeline:
    """Drives a timeline on a page: `window.kernelscope` there."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def wait(self) -> Timeline:
        self.page.wait_for_function("() => window.kernelscope?.frames.whole")
        self.page.locator(".kst-bar").scroll_into_view_if_needed()
        self.page.evaluate("() => document.querySelector('.kst').scrollIntoView()")
        return self.settle()

    def settle(self) -> Timeline:
        self.page.evaluate(FRAME)
        return self

    def tell(self, code: str, argument: Any = None) -> Any:
        """Run code in which `k` is the timeline, `v` its view, and `a` the argument."""
        return self.page.evaluate(f"(a) => {{ const k = window.kernelscope, v = k.view; {code} }}", argument)

    def show(self, start: float, end: float) -> None:
        self.tell("k.show(a[0], a[1]);", [start, end])
        self.settle()

    @property
    def shown(self) -> list[float]:
        return self.tell("return [v.t0, v.t1];")

    @property
    def pinned(self) -> list[Any] | None:
        return self.tell("return v.pinned && [v.pinned.table, v.pinned.id];")

    def place(self, table: str, row: int) -> tuple[float, float]:
        """The middle of what is seen of an event, on the page."""
        x, y = self.tell("""
            const event = v.find(a[0], a[1]), row = v.layout.rowOf(event.track), box = k.canvas.getBoundingClientRect();
            const from = Math.max(0, v.x(event.track.start[event.index]));
            const to = Math.min(v.width, v.x(event.track.end[event.index]));
            return [box.left + (from + to) / 2, box.top + row.y + row.height * 0.6 - v.scroll];
        """, [table, row])
        return x, y

    def hover(self, table: str, row: int) -> str:
        self.page.mouse.move(*self.place(table, row))
        self.settle()
        return self.page.locator(".kst-tip").inner_text()

    def colors(self) -> dict[str, int]:
        """How often each color is on the canvas, as #rrggbb."""
        return self.tell(f"""
            {_READ}
            const found = {{}};
            for (let at = 0; at < data.length; at += 4) found[hex(at)] = (found[hex(at)] ?? 0) + 1;
            return found;
        """, None)

    def image(self) -> list[int]:
        """All pixels of the canvas, as numbers."""
        return self.tell(f"{_READ} return Array.from(new Uint32Array(data.buffer));")

    def pixel(self, table: str, row: int) -> str:
        """The color in the middle of an event."""
        return self.tell(f"""
            {_READ}
            const box = k.canvas.getBoundingClientRect(), x = Math.round((a[0] - box.left) * v.dpr);
            return hex(4 * (Math.round((a[1] - box.top) * v.dpr) * copy.width + x));
        """, self.place(table, row))
