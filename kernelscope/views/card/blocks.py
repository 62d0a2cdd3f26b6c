"""The card as plain data: sections of tables, bars, findings and lines, whose values are formatted already.

The encoders `text` and `html` beside this module print them. What only one of them can show (bars and folded parts on a
page, a table that stands for bars on a terminal) is a block of its own, which the other one leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeVar

from kernelscope.units import counted, percent
from kernelscope.views.base import cut

#: How many rows are in sight before "and N more", and how many lines of code.
FIRST_ROWS = 12
FIRST_LINES = 5
#: So many rows, and letters of the user's names, a page has at most in a folded part, or a notebook becomes large.
MOST_ROWS = 500
MOST_LETTERS = 40_000
#: So many letters of a kernel's name stand before a sentence about it.
KERNEL_WIDTH = 48

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Figure:
    """One figure of the headline: a value with its unit, and what it means with further figures."""

    value: str
    meaning: str


@dataclass(frozen=True)
class Action:
    """What to do first: the advice with the largest effect, the host time it is about, and where that is (`Row`)."""

    text: str
    effect: str
    at: str = ""


@dataclass(frozen=True)
class Part:
    """One part of a bar.

    Attributes
    ----------
    name, label : str
        The name that selects its color, and its label.
    duration_ns : int
        How long it is.
    """

    name: str
    label: str
    duration_ns: int


@dataclass(frozen=True)
class Bar:
    """Parts of a whole. The text before their labels (`prefix`) is empty except for the thinner bar."""

    parts: tuple[Part, ...]
    whole_ns: int
    prefix: str = ""


@dataclass(frozen=True)
class Shares:
    """Bars with their legend; on a terminal, lines.

    Attributes
    ----------
    label : str
        What they are of, where there are several.
    bars : tuple of Bar
        A large one, and one of a part of it.
    legend : tuple of tuple
        Of each part its name, its label, its share and what it is.
    note : str
        What is below the legend.
    terminal : tuple of str
        The same as lines.
    """

    label: str
    bars: tuple[Bar, ...]
    legend: tuple[tuple[str, str, str, str], ...]
    note: str
    terminal: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lines:
    """Sentences, one a line; `kind` is ``list``, ``facts`` (a list without room above it) or ``notes`` (no list).

    `at` is where each of them leads to, as of `Row`, or empty.
    """

    lines: tuple[str, ...]
    kind: str = "list"
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    name : str
        What it is about: the first column.
    values : mapping of str to str
        Formatted values by the keys of the columns.
    code : str
        Code beside the name, such as a graph's kernels.
    place : str
        Where it is defined: below the name on a page, which cuts it off after two lines.
    notes : tuple of str
        Lines below that.
    bars : tuple of Bar
        Its column ``bars``.
    histogram, gpu_histogram : tuple of int
        Below them: how many launches took how long on the host, and how many kernels on the GPU.
    terminal : tuple of str
        Lines below the row on a terminal.
    at : str
        Where a page leads to: a table of the timeline and a row of it, as in ``cells:3``, ``name:`` and what to search
        for in the timeline, ``part:`` and the key of a section, or ``card:`` and the start of a cell that has a card of
        its own; empty where there is nothing to show.
    inspect : str
        The key of a kernel or a specialization that the inspector shows, of `kernelscope.views.keys`; or empty.
    command : str
        A notebook's line that shows what `at` names, where the page does not have it.
    depth : int
        How far it is indented, in a table that shows a tree.
    """

    name: str
    values: Mapping[str, str]
    code: str = ""
    place: str = ""
    notes: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    histogram: tuple[int, ...] = ()
    gpu_histogram: tuple[int, ...] = ()
    terminal: tuple[str, ...] = ()
    at: str = ""
    inspect: str = ""
    command: str = ""
    depth: int = 0


@dataclass(frozen=True)
class Column:
    """One column of a page's table: `key` names the value, `below` what is below it, `width` is a class of the sheet.

    `kind` is ``number``, ``words`` or ``bars``.
    """

    label: str
    key: str = ""
    below_label: str = ""
    below: str = ""
    width: str = "number"
    kind: str = "number"


@dataclass(frozen=True)
class TerminalColumn:
    """One column of a terminal's table.

    One with `is_wide` is left out where there is little room, one with `is_optional` where every row has the default,
    or nothing was recorded.
    """

    label: str
    key: str
    kind: str = "number"
    is_wide: bool = False
    is_optional: bool = False


@dataclass(frozen=True)
class Table:
    """A table. It is on a page where it has columns for it (`page`), and on a terminal likewise (`terminal`).

    Attributes
    ----------
    head : tuple of str
        The labels of the first column: of the name and of what is below it.
    rows : tuple of Row
        In order.
    page, terminal : tuple
        The columns behind the first one.
    named : str
        What the rows' names are: ``name`` (of code), ``signature``, ``bold`` or ``words``.
    is_dense, is_apart : bool
        Whether its rows are close to each other, and whether there is some room above it.
    more : str
        What a terminal says of the rows that are not in it, such as ``3 more kernels``.
    left_out : int
        How many rows a page leaves out.
    is_rest : bool
        Whether its rows come behind those of the table before it, and are sorted together with them.
    """

    head: tuple[str, str]
    rows: tuple[Row, ...]
    page: tuple[Column, ...] = ()
    terminal: tuple[TerminalColumn, ...] = ()
    named: str = "name"
    is_dense: bool = False
    is_apart: bool = False
    more: str = ""
    left_out: int = 0
    is_rest: bool = False


@dataclass(frozen=True)
class Finding:
    """Something that took time, why it was needed, and what would avoid it: a line, and a line for the fix.

    Attributes
    ----------
    name : str
        The kernel or the algorithm.
    outcome, took : str
        What came of it, such as ``compiled again``, and how long it took.
    why : str
        The reason in brief, or as a sentence in which names in `backticks` are code.
    detail : str
        All that is known of it, which a page shows on hover: the argument types and the whole reason.
    fix : str
        What would avoid it, as a sentence.
    at, inspect : str
        As of `Row`.
    """

    name: str
    outcome: str
    took: str
    why: str
    detail: str
    fix: str
    at: str = ""
    inspect: str = ""


@dataclass(frozen=True)
class Findings:
    """Findings, longest first; `is_first` where they are in sight, and so on a terminal too. See `Table`."""

    findings: tuple[Finding, ...]
    is_first: bool = True
    is_apart: bool = False
    more: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class CodeLine:
    """One line of code with what it did, or sums of lines.

    Attributes
    ----------
    number : int or None
        From 1; None for sums.
    text : str
        The code; what is summed up.
    values : mapping of str to str
        Formatted values by the keys of the columns; none where it did nothing.
    meanings : mapping of str to str
        By key, what else there is to say: why a value is missing, which kernels were launched.
    parts : tuple of Part
        What it took.
    at : str
        As of `Row`: ``line:`` and its rows in ``lines``.
    """

    number: int | None
    text: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    meanings: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: tuple[Part, ...] = ()
    at: str = ""


@dataclass(frozen=True)
class FoldedLines:
    """Lines that are folded; those that are beyond what a page has room for are only counted."""

    lines: tuple[CodeLine, ...]
    summary: str


@dataclass(frozen=True)
class Listing:
    """Code with a gutter: on pages.

    Attributes
    ----------
    columns : tuple of Column
        The gutter's.
    sources : tuple
        Of each source its heading, empty for the card's only cell, and its lines.
    sums : tuple of CodeLine
        Lines that are left out, what has no known line, and the total.
    longest_ns : int
        How long the line took that took longest: its parts are as wide as the bars' column.
    """

    columns: tuple[Column, ...]
    sources: tuple[tuple[str, tuple[CodeLine | FoldedLines, ...]], ...]
    sums: tuple[CodeLine, ...]
    longest_ns: int


@dataclass(frozen=True)
class Picture:
    """The picture of a graph, a row of ``graphs``: on pages."""

    graph_id: int


@dataclass(frozen=True)
class Drawing:
    """What a feature draws: on pages. `html` returns it, in which what comes from user code is escaped."""

    html: Callable[[], str]


@dataclass(frozen=True)
class Fold:
    """A folded part, on pages only. `name` or `bold` is emphasized in its summary, between `before` and `after`."""

    blocks: tuple[Block, ...]
    name: str = ""
    before: str = ""
    bold: str = ""
    after: str = ""
    is_open: bool = False
    scrolls: bool = True


Block = Shares | Lines | Table | Findings | Listing | Picture | Drawing | Fold


@dataclass(frozen=True)
class Section:
    """A part of the card that can be folded; one none of whose blocks an encoder prints is left out.

    Attributes
    ----------
    key : str
        By what a page remembers whether the reader has folded it.
    heading, number : str
        What it is about, and its figures: together ``Compiles: 2, 128 ms``.
    blocks : tuple of Block
        What is in it.
    explanation : str
        One sentence about the figures.
    is_open : bool
        Whether it is unfolded at first.
    """

    key: str
    heading: str
    number: str = ""
    blocks: tuple[Block, ...] = ()
    explanation: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class Health:
    """A line about the recording itself, what to do about it, and whether something is wrong."""

    text: str
    fix: str = ""
    is_trouble: bool = False


@dataclass(frozen=True)
class Card:
    """Everything that a card shows.

    Attributes
    ----------
    title, status, notice, device : str
        As in `Overview`; empty where there is none.
    problems : tuple of tuple of str
        What went wrong: a label, which may be empty, and a message.
    verdict : tuple of str
        Where the time went, in sentences; none where it was not recorded.
    stands_out, stands_out_at : str
        Which launches took far longer than others, or an empty string; and where the longest is, as of `Row`.
    action : Action or None
        What to do first.
    figures : tuple of Figure
        The headline; none where nothing ran.
    shares : tuple of Shares
        The cells' time, and that of each device.
    sections : tuple of Section
        In order.
    health : tuple of Health
        What recording cost, and how it went.
    cell : str
        When its only cell began, by which other cards find it; empty for several.
    since : str
        What changed since the run of the same cell before, or an empty string.
    """

    title: str
    status: str
    notice: str
    device: str
    problems: tuple[tuple[str, str], ...]
    verdict: tuple[str, ...]
    stands_out: str
    stands_out_at: str
    action: Action | None
    figures: tuple[Figure, ...]
    shares: tuple[Shares, ...]
    sections: tuple[Section, ...]
    health: tuple[Health, ...]
    cell: str = ""
    since: str = ""


def share_text(value: float | None, whole: float | None) -> str:
    """Return the percentage that a value is of a whole, or what stands for an unknown one."""
    return percent(value / whole if whole and value is not None else None)


def more_text(total: int, first: int, noun: str, nouns: str = "") -> str:
    """Return how many there are beyond the first, such as ``3 more kernels``; empty where there are none."""
    return counted(total - first, f"more {noun}", f"more {nouns or noun + 's'}") if total > first else ""


def terminal_columns(*columns: str | tuple[str, str]) -> tuple[TerminalColumn, ...]:
    """Return columns of numbers on a terminal: keys, or pairs of a label and a key."""
    pairs = [(column, column) if isinstance(column, str) else column for column in columns]
    return tuple([TerminalColumn(label, key) for label, key in pairs])


def first_and_folded(table: Table, total: int, noun: str, nouns: str = "") -> tuple[Block, ...]:
    """Return a table of the first rows, and on a page the remaining rows folded."""
    more = more_text(total, FIRST_ROWS, noun, nouns)
    top = replace(table, rows=table.rows[:FIRST_ROWS], more=more)
    if not more:
        return (top,)
    folded = fitting(table.rows[FIRST_ROWS:], row_letters)
    rest = replace(table, rows=folded, terminal=(), left_out=total - FIRST_ROWS - len(folded), is_rest=True)
    return top, Fold((rest,), bold=more)


def fitting(items: Sequence[_Item], letters: Callable[[_Item], int], limit: int = MOST_LETTERS) -> tuple[_Item, ...]:
    """Return the first items of a folded part, as many as have together no more letters than the limit."""
    ends = accumulate(map(letters, items))
    return tuple([item for item, end in zip(items, ends, strict=True) if end <= limit])


def row_letters(row: Row) -> int:
    """Return how many letters of a row count for `fitting`: those of its name."""
    return len(cut(row.name))
