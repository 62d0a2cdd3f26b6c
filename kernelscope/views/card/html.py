"""The card as HTML: a self-contained fragment for notebooks, and pages of cards.

A fragment carries its style inside and needs no script, no network and no id, so that any number of cards stand in one
notebook, and a saved or exported notebook shows them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kernelscope.analysis.signatures import parse_signature
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.base import clean, escape, shorten
from kernelscope.views.card.sections import (
    Bar,
    Block,
    Card,
    Column,
    Figure,
    Finding,
    Findings,
    Fold,
    Health,
    Lines,
    Picture,
    Row,
    Section,
    Shares,
    Table,
    card_of,
)
from kernelscope.views.graph.svg import small
from kernelscope.views.html import (
    bar,
    document,
    folded,
    heading,
    left_out,
    name_of,
    sentence,
    style,
    table_of,
    two,
)

#: Of a name that is no name of code, such as a cell's label.
_NAME_WIDTH = 80

_Draw = Callable[[int], str]


def card(recording: Recording, *, paths: bool = False) -> str:
    """Return a self-contained fragment of HTML that shows what the recording holds.

    Parameters
    ----------
    recording : Recording
        What to show.
    paths : bool
        Keep full paths of this machine.
    """
    return f"<style>{style()}</style>{_of(recording, paths)}"


def page(recordings: Recording | Sequence[Recording], title: str) -> str:
    """Return a self-contained HTML document with one card a recording.

    Parameters
    ----------
    recordings : Recording or sequence of Recording
        What to show, in order.
    title : str
        The document's title and heading.
    """
    shown = [recordings] if isinstance(recordings, Recording) else recordings
    cards = "\n".join(map(_of, shown))
    return document(title, f"<main><h1>{escape(title)}</h1>\n{cards}\n</main>", style())


def _of(recording: Recording, paths: bool = False) -> str:
    return printed(card_of(recording, paths=paths), partial(small, shareable(recording, paths=paths)))


def printed(card: Card, draw: _Draw) -> str:
    """Return a card as HTML without its style sheet; `draw` makes the picture of a graph, by its row in ``graphs``."""
    sections = "".join([_section(each, draw) for each in card.sections])
    waited = f'<div class="ks-soft">{escape(card.waited)}</div>' if card.waited else ""
    return f'<div class="kscope">{_head(card)}{_figures(card.figures)}{waited}{sections}{_foot(card.health)}</div>'


def _head(card: Card) -> str:
    bad = "" if card.status == "ok" else " ks-bad"
    chip = f'<span class="ks-chip{bad}">{escape(card.status)}</span>' if card.status else ""
    title, maker = escape(card.title), escape(f"KernelScope · {card.device}" if card.device else "KernelScope")
    notice = f'<div class="ks-notice" role="note">{escape(card.notice)}</div>' if card.notice else ""
    problems = "".join([f'<div class="ks-error">{escape(text)}</div>' for _, text in card.problems])
    return (
        f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3" title="{title}">{title}</span>'
        f'{chip}<span class="ks-maker">{maker}</span></div>{notice}{problems}'
    )


def _figures(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    tiles = "".join([
        f'<div><div class="ks-label">{escape(figure.label)}</div><div class="ks-value">{escape(figure.value)}</div>'
        f'<div class="ks-note">{escape(figure.note)}</div></div>'
        for figure in figures
    ])
    six = " ks-six" if len(figures) > 5 else ""
    return f'<div class="ks-figures{six}">{tiles}</div>'


def _foot(lines: Sequence[Health]) -> str:
    texts: list[str] = []
    for each in lines:
        kind = ' class="ks-trouble"' if each.is_trouble else ""
        fix = f' <span class="ks-fix"><b>Fix</b> {escape(each.fix)}</span>' if each.fix else ""
        texts.append(f"<div{kind}>{escape(each.text)}{fix}</div>")
    return f'<div class="ks-foot">{"".join(texts)}</div>'


def _section(section: Section, draw: _Draw) -> str:
    blocks = [_block(each, draw) for each in section.blocks]
    return heading(section.heading, section.note) + "".join(blocks) if any(blocks) or not blocks else ""


def _block(block: Block, draw: _Draw) -> str:
    match block:
        case Table():
            return _table(block) if block.page and block.rows else ""
        case Fold():
            inside = "".join([_block(each, draw) for each in block.blocks])
            name = f"{name_of(block.name)} " if block.name else ""
            bold = f"<b>{escape(block.bold)}</b>" if block.bold else ""
            summary = f"{name}{escape(block.before)}{bold}{escape(block.after)}"
            return folded(summary, inside, block.is_open, scrolls=block.scrolls)
        case Findings():
            return _findings(block)
        case Lines(lines, "notes"):
            return "".join([f'<div class="ks-soft">{escape(line)}</div>' for line in lines])
        case Lines(lines, kind):
            facts = " ks-facts" if kind == "facts" else ""
            return f'<ul class="ks-list{facts}">{"".join([f"<li>{sentence(line)}</li>" for line in lines])}</ul>'
        case Shares():
            return _shares(block)
        case Picture(graph_id):
            return f'<div class="ks-graph">{draw(graph_id)}</div>'


def _shares(block: Shares) -> str:
    label = f'<div class="ks-soft ks-device">{escape(block.label)}</div>' if block.label else ""
    entries = [
        f'<div title="{escape(meaning)}"><span class="ks-key ks-{name}"></span><b>{escape(label)}</b> {escape(share)}'
        "</div>"
        for name, label, share, meaning in block.legend
    ]
    if block.note:
        entries.append(f'<div class="ks-soft ks-wrap">{escape(block.note)}</div>')
    return f'{label}{_bars(block.bars, "ks-bar ks-large")}<div class="ks-legend">{"".join(entries)}</div>'


def _bars(bars: Sequence[Bar], kind: str = "ks-bar") -> str:
    return "".join([
        bar([(part.name, part.label, part.duration_ns) for part in each.parts], each.whole_ns,
            "ks-bar ks-thin" if each.prefix else kind, each.prefix)
        for each in bars
    ])


def _table(block: Table) -> str:
    columns = [("", *block.head), *[(each.width, each.label, each.below_label) for each in block.page]]
    left = [0, *[at for at, each in enumerate(block.page, start=1) if each.kind != "number"]]
    rows = [_name(block.named, row) + "".join([_cell(each, row) for each in block.page]) for row in block.rows]
    return _apart(block, table_of(columns, rows, left=left, dense=block.is_dense))


def _apart(block: Table | Findings, table: str) -> str:
    table = f'<div class="ks-sub">{table}</div>' if block.is_apart else table
    return table + left_out(block.left_out)


def _name(named: str, row: Row) -> str:
    title, place = "", escape(row.place)
    match named:
        case "name":
            name = name_of(row.name)
        case "signature":
            name = f'<span class="ks-code">{_signature(row.name)}</span>'
        case "bold":
            name = f"<b>{escape(row.name)}</b>"
        case _:
            short = shorten(row.name, _NAME_WIDTH)
            title, name = "" if short == row.name else f' title="{escape(row.name)}"', escape(short)
    code = f' <span class="ks-code">{escape(row.code)}</span>' if row.code else ""
    below = f'<small class="ks-line" title="{place}">{place}</small>' if place else ""
    notes = "".join([f"<small>{escape(each)}</small>" for each in row.notes])
    return f'<td class="ks-left"{title}>{name}{code}{below}{notes}</td>'


def _cell(column: Column, row: Row) -> str:
    if column.kind == "bars":
        return f'<td class="ks-phase">{_bars(row.bars) or "–"}</td>'  # noqa: RUF001 - a dash, as tables print it
    value = row.values[column.key]
    if column.below:
        return two(value, row.values[column.below])
    left = ' class="ks-left"' if column.kind == "words" else ""
    return f"<td{left}>{escape(value)}</td>"


def _findings(block: Findings) -> str:
    columns = (
        (block.width, *block.head), ("time", "Took", ""), ("word", "Outcome", block.requested), ("", "Why", "fix"))
    rows = [_finding(each) for each in block.findings]
    return _apart(block, table_of(columns, rows, left=(0, 2, 3)))


def _finding(each: Finding) -> str:
    fix = f'<span class="ks-fix"><b>Fix</b> {sentence(each.fix)}</span>' if each.fix else ""
    signature = requested = ""
    if each.signature:
        signature = (f'<small class="ks-code ks-clip" title="{escape(each.signature)}">{_signature(each.signature)}'
                     "</small>")
    if each.requested:
        requested = f"<small>{escape(each.requested)}</small>"
    return (
        f'<td class="ks-left">{name_of(each.name)}{signature}</td><td>{escape(each.took)}</td>'
        f'<td class="ks-left">{escape(each.outcome)}{requested}</td>'
        f'<td class="ks-left"><span class="ks-why">{sentence(each.why)}</span>{fix}</td>'
    )


def _signature(text: str) -> str:
    """Return a signature that wraps between arguments, not inside an argument's type."""
    types = [clean(kind.text) for kind in parse_signature(text)]
    if clean(text) != f"({', '.join(types)})":
        return escape(text)
    return f"({', '.join([escape(kind).replace(' ', '&nbsp;') for kind in types])})"
