"""Cards read strictly, and names that must run nothing."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"col", "meta", "br", "img"}
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\x1b[31mred", "gnp\u202egpj.exe", "a\nb", "'&lt;",
)


class Reader(HTMLParser):
    """Reads a card strictly: every element is closed in order; keeps text, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.texts.append(data)
        if self.rows and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data}".strip()

    @property
    def text(self) -> str:
        return "\n".join(self.texts)
