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
from kernelscope.units import counted
from kernelscope.views.base import clean, cut, escape, shorten
from kernelscope.views.card.blocks import (
    Bar,
    Block,
    Card,
    CodeLine,
    Column,
    Drawing,
    Figure,
    Finding,
    Findings,
    Fold,
    FoldedLines,
    Lines,
    Listing,
    Picture,
    Row,
    Section,
    Shares,
    Table,
)
from kernelscope.views.card.meanings import COLUMNS, column_meaning
from kernelscope.views.card.sections import card_of
from kernelscope.views.graph.svg import small
from kernelscope.views.html import (
    LINES_STYLE,
    bar,
    document,
    folded,
    histogram,
    left_out,
    name_of,
    part,
    sentence,
    style,
    style_element,
    table_of,
    two,
)

#: Of a name that is no name of code, such as a cell's label.
_NAME_WIDTH = 80

#: A line of code with more letters than this has them in its title: it may be cut off.
_LONG_CODE = 20

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
    blocks = [block for section in card_of(recording, paths=paths).sections for block in section.blocks]
    lines = [LINES_STYLE] if any(isinstance(block, Listing) for block in blocks) else []
    return style_element(style(), *lines) + _of(recording, paths)


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
    return document(title, f"<main><h1>{escape(title)}</h1>\n{cards}\n</main>", style() + LINES_STYLE)


def _of(recording: Recording, paths: bool = False) -> str:
    return printed(card_of(recording, paths=paths), partial(small, shareable(recording, paths=paths)))


def printed(card: Card, draw: _Draw) -> str:
    """Return a card as HTML without its style sheet; `draw` makes the picture of a graph, by its row in ``graphs``."""
    shares = "".join([_shares(each) for each in card.shares])
    sections = "".join([_section(each, draw) for each in card.sections])
    cell = f' data-ks-cell="{card.cell}"' if card.cell else ""
    return (f'<div class="kscope"{cell}>{_head(card)}{_verdict(card)}{shares}'
            f'<div class="ks-sections">{sections}{_recording(card)}</div></div>')


def _head(card: Card) -> str:
    bad = "" if card.status == "ok" else " ks-bad"
    chip = f'<span class="ks-chip{bad}">{escape(card.status)}</span>' if card.status else ""
    title, maker = escape(cut(card.title)), escape(f"KernelScope · {card.device}" if card.device else "KernelScope")
    notice = f'<span class="ks-notice" role="note">{escape(card.notice)}</span>' if card.notice else ""
    problems = "".join([f'<div class="ks-error">{escape(cut(text))}</div>' for _, text in card.problems])
    return (
        f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3" title="{title}">{title}</span> '
        f'{chip} {notice} {_figures(card.figures)} <span class="ks-maker">{maker}</span></div>{problems}'
    )


def _verdict(card: Card) -> str:
    """Return where the time went, what changed since the last run, what stands out, and what to do first."""
    lines = [f'<div class="ks-verdict">{escape(" ".join(card.verdict))}</div>'] if card.verdict else []
    if card.since:
        lines.append(f'<div class="ks-said">{escape(card.since)}</div>')
    if card.stands_out:
        lines.append(f'<div class="ks-said"><span{_at(card.stands_out_at)}>{escape(card.stands_out)}</span></div>')
    if card.action:
        said = escape(card.action.effect).replace(" %", "&nbsp;%")
        effect = f' <span class="ks-soft">{said}</span>' if said else ""
        lines.append(f'<div class="ks-said ks-fix"><b>First</b> {sentence(card.action.text)}{effect}'
                     f"{_go('show', _at(card.action.at))}</div>")
    return "".join(lines)


def _figures(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    texts = " ".join([f'<span title="{escape(each.meaning)}">{escape(each.value)}</span>' for each in figures])
    return f'<span class="ks-figures">{texts}</span>'


def _recording(card: Card) -> str:
    """Return what recording cost and how it went: unfolded where something is wrong, or nothing was launched."""
    texts: list[str] = []
    for each in card.health:
        kind = ' class="ks-trouble"' if each.is_trouble else ""
        fix = f' <span class="ks-fix"><b>Fix</b> {escape(each.fix)}</span>' if each.fix else ""
        texts.append(f"<div{kind}>{escape(each.text)}{fix}</div>")
    first, *rest = texts
    bad = sum(each.is_trouble for each in card.health)
    is_open = bad > 0 or any(each.key == "empty" for each in card.sections)
    number = counted(bad, "problem") if bad else "complete"
    return part("recording", "Recording", number, f'<div class="ks-foot">{first}{"".join(rest)}</div>', is_open,
                "what recording itself cost, and whether anything is missing")


def _section(section: Section, draw: _Draw) -> str:
    blocks = [_block(each, draw) for each in section.blocks]
    if blocks and not any(blocks):
        return ""
    return part(section.key, section.heading, section.number, "".join(blocks), section.is_open, section.explanation)


def _block(block: Block, draw: _Draw) -> str:
    match block:
        case Table():
            return printed_table(block) if block.page and block.rows else ""
        case Fold():
            inside = "".join([_block(each, draw) for each in block.blocks])
            name = f"{name_of(block.name)} " if block.name else ""
            bold = f"<b>{escape(block.bold)}</b>" if block.bold else ""
            summary = f"{name}{escape(block.before)}{bold}{escape(block.after)}"
            return folded(summary, inside, block.is_open, scrolls=block.scrolls)
        case Findings():
            return _apart(block,
                          f'<div class="ks-findings">{"".join([_finding(each) for each in block.findings])}</div>')
        case Lines(lines, "notes"):
            return "".join([f'<div class="ks-soft">{escape(line)}</div>' for line in lines])
        case Lines(lines, kind):
            facts = " ks-facts" if kind == "facts" else ""
            ends = [_go("show", _at(at)) for at in block.at] or [""] * len(lines)
            items = "".join([f"<li>{sentence(line)}{end}</li>" for line, end in zip(lines, ends, strict=True)])
            return f'<ul class="ks-list{facts}">{items}</ul>'
        case Shares():
            return _shares(block)
        case Listing():
            return printed_listing(block)
        case Drawing(html):
            return html()
        case Picture(graph_id):
            return f'<div class="ks-graph">{draw(graph_id)}</div>'


def _shares(block: Shares) -> str:
    label = f'<div class="ks-soft ks-device">{escape(block.label)}</div>' if block.label else ""
    kind = ' class="ks-share"' if block.label else ""
    entries = [
        f'<div title="{escape(meaning)}"><span class="ks-key ks-{name}"></span><b>{escape(label)}</b> {escape(share)}'
        "</div>"
        for name, label, share, meaning in block.legend
    ]
    if block.note:
        entries.append(f'<div class="ks-soft">{escape(block.note)}</div>')
    return (f'<div{kind}>{label}<div>{_bars(block.bars, "ks-bar ks-large")}'
            f'<div class="ks-legend">{"".join(entries)}</div></div></div>')


def _bars(bars: Sequence[Bar], kind: str = "ks-bar") -> str:
    return "".join([
        bar([(part.name, part.label, part.duration_ns) for part in each.parts], each.whole_ns,
            "ks-bar ks-thin" if each.prefix else kind, each.prefix)
        for each in bars
    ])


def printed_table(block: Table) -> str:
    """Return a table as HTML; see `printed`."""
    columns = [("", *block.head), *[(each.width, each.label, each.below_label) for each in block.page]]
    left = [0, *[at for at, each in enumerate(block.page, start=1) if each.kind != "number"]]
    rows = [_name(block.named, row) + "".join([_cell(each, row) for each in block.page]) for row in block.rows]
    titled = [{block.head[0]: ""}, *[{each.label: each.key, **({each.below_label: each.below} if each.below else {})}
                                     for each in block.page]]
    meanings = [column_meaning(block.head[0], each) for each in titled]
    return _apart(block, table_of(columns, rows, left=left, dense=block.is_dense, meanings=meanings,
                                  label=f"{block.head[0]}s", is_rest=block.is_rest))


def _apart(block: Table | Findings, table: str) -> str:
    table = f'<div class="ks-sub">{table}</div>' if block.is_apart else table
    return table + left_out(block.left_out, is_sorted=isinstance(block, Table))


def _name(named: str, row: Row) -> str:
    title, place = "", escape(cut(row.place))
    match named:
        case "name":
            name = name_of(row.name)
        case "signature":
            name = f'<span class="ks-code">{_signature(cut(row.name))}</span>'
        case "bold":
            name = f"<b>{escape(cut(row.name))}</b>"
        case _:
            short = shorten(row.name, _NAME_WIDTH)
            title, name = "" if short == row.name else f' title="{escape(cut(row.name))}"', escape(short)
    code = f' <span class="ks-code">{escape(cut(row.code))}</span>' if row.code else ""
    below = f'<small class="ks-line" title="{place}">{place}</small>' if place else ""
    notes = "".join([f"<small>{escape(each)}</small>" for each in row.notes])
    linked = f"<span{_at(row.at, row.command)}>{name}</span>" if row.at else name
    inset = f' style="padding-left:{4 + 14 * row.depth}px"' if row.depth else ""
    return f'<td class="ks-left"{title}{inset}>{_inspect(row.inspect)}{linked}{code}{below}{notes}</td>'


def _cell(column: Column, row: Row) -> str:
    if column.kind == "bars":
        bars = _bars(row.bars) or "–"  # noqa: RUF001 - a dash
        times = histogram(row.histogram) + histogram(row.gpu_histogram, on_gpu=True)
        times = f'<div class="ks-histograms">{times}</div>' if times else ""
        return f'<td class="ks-phase">{bars}{times}</td>'
    value = row.values[column.key]
    if column.below:
        return two(value, row.values[column.below])
    left = ' class="ks-left"' if column.kind == "words" else ""
    return f"<td{left}>{escape(value)}</td>"


def printed_listing(block: Listing) -> str:
    """Return code with a gutter as HTML; it scrolls where it is high. See `printed`."""
    digits = max([len(str(line.number)) for _, lines in block.sources for each in lines
                  for line in (each.lines if isinstance(each, FoldedLines) else (each,))], default=1)
    empty = "<td></td>" * (len(block.columns) + 1)
    about = COLUMNS["Line"]
    heads = "".join([f'<th scope="col" title="{escape(about[each.key])}">{escape(each.label)}</th>'
                     for each in block.columns])
    heads += (f'<td title="{escape(about["bars"])}"></td>'
              f'<th scope="col" class="ks-left" title="{escape(about[""])}">Line</th>')
    bodies: list[str] = []
    for name, lines in block.sources:
        if name:
            bodies.append(f'<tbody><tr>{empty}<th scope="rowgroup" class="ks-src">{name_of(name)}</th></tr></tbody>')
        rows = [f"<tr>{empty}{_folded_lines(each, digits)}</tr>" if isinstance(each, FoldedLines)
                else f"<tr>{_gutter(each, block)}{_code(each, digits)}</tr>" for each in lines]
        bodies.append(f"<tbody>{''.join(rows)}</tbody>")
    sums = "".join([f'<tr>{_gutter(each, block)}<td class="ks-src">{escape(each.text)}</td></tr>'
                    for each in block.sums])
    return (f'<div class="ks-x ks-scroll"><table class="ks-table ks-dense ks-lines" aria-label="Lines of code"><thead>'
            f"<tr>{heads}</tr></thead>{''.join(bodies)}<tfoot>{sums}</tfoot></table></div>")


def _gutter(line: CodeLine, block: Listing) -> str:
    if not line.values:
        return "<td></td>" * (len(block.columns) + 1)
    titles = [line.meanings.get(each.key, "") for each in block.columns]
    cells = "".join([f'<td title="{escape(title)}">{escape(line.values[each.key])}</td>' if title else
                     f"<td>{escape(line.values[each.key])}</td>"
                     for each, title in zip(block.columns, titles, strict=True)])
    if line.number is None:
        return f"{cells}<td></td>"
    # At least 2 % wide: what is little is still something.
    parts = [(each.name, max(round(100 * each.duration_ns / max(block.longest_ns, 1)), 2)) for each in line.parts
             if each.duration_ns > 0]
    bars = "".join([f'<span class="ks-{name}" style="width:{width}%"></span>' for name, width in parts])
    return f'{cells}<td class="ks-heat">{bars}</td>'


def _code(line: CodeLine, digits: int) -> str:
    text = escape(line.text)
    if not line.values:
        return f'<td class="ks-src ks-quiet">{_number(line, digits)}{text}</td>'
    title = f' title="{text}"' if len(line.text) > _LONG_CODE else ""
    return f'<td class="ks-src"{title}>{_number(line, digits)}<span{_at(line.at)}>{text or "…"}</span></td>'


def _number(line: CodeLine, digits: int) -> str:
    return f"<i>{line.number:>{digits}}</i>"


def _folded_lines(each: FoldedLines, digits: int) -> str:
    if not each.lines:
        return f'<td class="ks-src ks-quiet"><i>{"":{digits}}</i>{escape(each.summary)}</td>'
    lines = "\n".join([f"{_number(line, digits)}{escape(line.text)}" for line in each.lines])
    return (f'<td class="ks-src ks-quiet"><details><summary><i>{"":{digits}}</i>{escape(each.summary)}</summary>'
            f"<div>{lines}</div></details></td>")


def _at(at: str, command: str = "") -> str:
    """Return the attributes by which a page's script makes a link: to where, and what to run where that is missing."""
    where = f' data-ks-at="{escape(cut(at))}"' if at else ""
    return where + (f' data-ks-command="{escape(command)}"' if command else "")


def _inspect(key: str) -> str:
    """Return what leads to the inspector at a kernel or a specialization; see `_go`."""
    return _go("inspect", _at(f"inspect:{key}" if key else ""))


def _go(text: str, where: str) -> str:
    """Return a link that a page's script brings to life, and that is not in sight without one."""
    return f'<span class="ks-go"{where}>{text}</span>' if where else ""


def _finding(each: Finding) -> str:
    fix = f'<div class="ks-fix"><b>Fix</b> {sentence(cut(each.fix))}</div>' if each.fix else ""
    title = f' title="{escape(cut(each.detail))}"' if each.detail else ""
    name, why = f"<span{_at(each.at)}>{name_of(each.name)}</span>", sentence(cut(each.why))
    line = f"{name} {escape(each.outcome)}, <b>{escape(each.took)}</b>: {why}{_inspect(each.inspect)}"
    return f'<div class="ks-finding"><div{title}>{line}</div>{fix}</div>'


def _signature(text: str) -> str:
    """Return a signature that wraps between arguments, not inside an argument's type."""
    types = [clean(kind.text) for kind in parse_signature(text)]
    if clean(text) != f"({', '.join(types)})":
        return escape(text)
    return f"({', '.join([escape(kind).replace(' ', '&nbsp;') for kind in types])})"
