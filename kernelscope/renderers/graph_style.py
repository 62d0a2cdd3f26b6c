"""What kinds of nodes look like in the picture of a graph: a color, an outline and a sign each, beside their word.

Nodes bring their own ground and are drawn in white on it, lines and frames in a gray between: so that one picture is
readable on a light and on a dark page. The widget's front end gets the same table.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Lines, frames and words beside nodes: readable on white and on black.
INK = "#7d858f"
FONT = "system-ui,-apple-system,'Segoe UI',sans-serif"
MONO = "ui-monospace,'SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace"
#: Where a node's text begins and its sign stands, from its left side and from its top.
TEXT_X, NAME_Y, DETAIL_Y = 37, 20, 34
#: Where a name stands that is alone.
LONE_Y = 28
SIGN_X, SIGN_Y = 12, 14
#: The advance of a letter of a node's name, which is monospaced; the size of other texts, and of a node's second line.
NAME_LETTER, SIZE, DETAIL_SIZE = 6.95, 11, 10.5


@dataclass(frozen=True)
class Kind:
    """How one kind of node is drawn.

    Attributes
    ----------
    word, plural : str
        What it is called.
    color : str
        Its ground; white on it has a contrast of 4.5 at least.
    outline : str
        One of the outlines that `outline` knows.
    sign : str
        A sign of 16 by 16 pixels, as an SVG path that is stroked.
    """

    word: str
    plural: str
    color: str
    outline: str
    sign: str


KINDS = {
    "kernel": Kind("kernel", "kernels", "#2d66b0", "round",
                   "M1.5 1.5h5v5h-5zM9.5 1.5h5v5h-5zM1.5 9.5h5v5h-5zM9.5 9.5h5v5h-5z"),
    "memcpy": Kind("memcpy", "memcpy nodes", "#b0501c", "slant",
                   "M2 5h11M10 2l3 3-3 3M14 11.5H3M6 8.5l-3 3 3 3"),
    "memset": Kind("memset", "memsets", "#86620f", "roof", "M2 3.5h12M2 8h12M2 12.5h12"),
    "host": Kind("host function", "host functions", "#7549a8", "cut", "M5.5 3L1.5 8l4 5M10.5 3l4 5-4 5"),
    "empty": Kind("empty", "empty nodes", "#626a75", "pill", "M8 3a5 5 0 1 0 .01 0z"),
    "event_record": Kind("event record", "event records", "#a53a68", "pill", "M4 15V2l8.5 3.5L4 9"),
    "event_wait": Kind("event wait", "event waits", "#8f3f86", "pill", "M4 2h8L4 14h8z"),
    "child": Kind("child graph", "child graphs", "#2f6777", "stack", "M1.5 1.5h13v13h-13zM5.5 5.5h5v5h-5z"),
    "if": Kind("if", "ifs", "#0b716a", "hex", "M8 1.2L14.8 8 8 14.8 1.2 8z"),
    "while": Kind("while", "whiles", "#1c7046", "hex", "M13.5 8.5A5.5 5.5 0 1 1 11.5 4M12 .8V4.4H8.4"),
    "switch": Kind("switch", "switches", "#4b6a10", "hex", "M8 1.5V6M8 6L2.5 13.5M8 6v8M8 6l5.5 7.5"),
    "mem_alloc": Kind("memory allocation", "memory allocations", "#a4414a", "drum", "M2 2h12v12H2zM8 5v6M5 8h6"),
    "mem_free": Kind("memory free", "memory frees", "#7d4b4b", "drum", "M2 2h12v12H2zM5 8h6"),
}
#: Whatever else there is, such as what a later driver calls by another name.
OTHER = Kind("other node", "other nodes", "#545c68", "round", "M3 8h.1M8 8h.1M13 8h.1")

_OUTLINES = {
    "round": lambda w, h: f"M9 0H{w - 9}Q{w} 0 {w} 9V{h - 9}Q{w} {h} {w - 9} {h}H9Q0 {h} 0 {h - 9}V9Q0 0 9 0z",
    "slant": lambda w, h: f"M13 0H{w - 3}Q{w} 0 {w - 1} 4L{w - 11} {h - 4}Q{w - 12} {h} {w - 16} {h}H3Q0 {h} 1 {h - 4}"
                          "L9 4Q10 0 13 0z",
    "roof": lambda w, h: f"M13 0H{w - 13}Q{w - 9} 0 {w - 8} 4L{w} {h - 4}Q{w} {h} {w - 4} {h}H4Q0 {h} 0 {h - 4}"
                         "L8 4Q9 0 13 0z",
    "cut": lambda w, h: f"M4 0H{w - 14}L{w} 14V{h - 4}Q{w} {h} {w - 4} {h}H4Q0 {h} 0 {h - 4}V4Q0 0 4 0z",
    "pill": lambda w, h: f"M{h / 2:g} 0H{w - h / 2:g}A{h / 2:g} {h / 2:g} 0 0 1 {w - h / 2:g} {h}H{h / 2:g}"
                         f"A{h / 2:g} {h / 2:g} 0 0 1 {h / 2:g} 0z",
    "stack": lambda w, h: f"M0 6Q0 0 6 0H{w - 11}Q{w - 5} 0 {w - 5} 5Q{w} 5 {w} 11V{h - 6}Q{w} {h} {w - 6} {h}H11"
                          f"Q5 {h} 5 {h - 5}Q0 {h - 5} 0 {h - 11}z",
    "hex": lambda w, h: f"M12 0H{w - 12}L{w} {h / 2:g} {w - 12} {h}H12L0 {h / 2:g}z",
    "drum": lambda w, h: f"M0 7Q0 0 {w / 2:g} 0 {w} 0 {w} 7V{h - 7}Q{w} {h} {w / 2:g} {h} 0 {h} 0 {h - 7}z",
}


def kind_of(name: str) -> Kind:
    """Return how a kind of node is drawn."""
    return KINDS.get(name, OTHER)


def outline(kind: Kind, width: float, height: float) -> str:
    """Return the outline of a node of that kind and size as an SVG path."""
    return _OUTLINES[kind.outline](round(width), round(height))
