"""What tests of the timeline in a browser share: places of events, pixels, and the page's own numbers."""

from __future__ import annotations

from typing import Any

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
        self.page.wait_for_function("() => window.kernelscope?.frames.count > 0")
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
