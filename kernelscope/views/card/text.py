"""The card as plain text: for terminals, tests and exports to plain text; and the table of launches."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.columns import ints, rows_at
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.analysis.launches import dims as dims_of
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, count, counted, duration
from kernelscope.views.base import (
    INDENT,
    clean,
    columns,
    cut,
    dims,
    shorten,
    table,
    with_notice,
    wrap,
)
from kernelscope.views.card.blocks import (
    Block,
    Card,
    Finding,
    Findings,
    Health,
    Lines,
    Section,
    Shares,
    Table,
)
from kernelscope.views.card.sections import EMPTY, card_of
from kernelscope.views.parts import phase_label

#: So many columns have room for all columns of a table.
_WIDE = 96
#: What tells nothing where all rows have it.
_DULL = ("", MISSING, "default", "0 B")


def summary(recording: Recording, width: int | None = None) -> str:
    """Return the card as plain text.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    return printed(card_of(recording), columns(width))


def printed(card: Card, width: int) -> str:
    """Return a card as text in lines of at most `width` columns; tables take what their numbers need."""
    sections = [_section(each, width) for each in card.sections]
    return "\n\n".join([_head(card, width), *[each for each in sections if each], _health(card.health, width)])


def _head(card: Card, width: int) -> str:
    status = f" ({card.status})" if card.status else ""
    device = f", {card.device}" if card.device else ""
    lines = [shorten(clean(f"KernelScope: {card.title}{status}{device}"), width)]
    if card.notice:
        lines.append(clean(f"*** {card.notice} ***"))
    problems = [f"{label}: {cut(text)}" if label else cut(text) for label, text in card.problems]
    action = [f"First: {card.action.text}" + (f" {card.action.effect}" if card.action.effect else "")
              ] if card.action else []
    said = [" ".join(card.verdict), card.since, card.stands_out, *action,
            ", ".join([each.value for each in card.figures]), *[line for each in card.shares for line in each.terminal]]
    lines += [wrap(clean(each), width, hanging=2) for each in (*problems, *said) if each]
    return "\n".join(lines)


def _section(section: Section, width: int) -> str:
    heading = clean(f"{section.heading}: {section.number}" if section.number else section.heading)
    blocks = [_block(each, width) for each in section.blocks]
    held = [each for each in blocks if each]
    return "\n".join([heading, *held]) if held or not blocks else ""


def _block(block: Block, width: int) -> str:
    match block:
        case Lines(lines, kind):
            dash = "" if kind == "notes" else "- "
            return "\n".join([wrap(clean(f"{dash}{line}"), width, 2, hanging=2) for line in lines])
        case Shares():
            return "\n".join([wrap(clean(line), width, 2) for line in block.terminal])
        case Table():
            return _table(block, width) if block.terminal and block.rows else ""
        case Findings() if block.is_first:
            lines = [line for each in block.findings for line in _finding(each, width)]
            return "\n".join([*lines, *_and_more(block.more)])
        case _:
            return ""


def _table(block: Table, width: int) -> str:
    rows = [["  " * row.depth + clean(row.name), *[clean(row.values.get(each.key, "")) for each in block.terminal]]
            for row in block.rows]
    shown = [0]
    for place, column in enumerate(block.terminal, start=1):
        is_dull = column.is_optional and all([row[place] in _DULL for row in rows])
        if not is_dull and (width >= _WIDE or not column.is_wide):
            shown.append(place)
    labels = [block.head[0].lower(), *[each.label for each in block.terminal]]
    left = [0, *[at for at, place in enumerate(shown) if place and block.terminal[place - 1].kind == "words"]]
    # `table` puts these lines further in.
    room = width - 2 * len(INDENT)
    below = [[line for text in row.terminal for line in wrap(clean(text), room, 0, 2).split("\n")]
             for row in block.rows]
    text = table([labels[place] for place in shown], [[row[place] for place in shown] for row in rows], width,
                 left=left, below=below)
    return "\n".join([text, *_and_more(block.more)])


def _finding(each: Finding, width: int) -> list[str]:
    lines = [wrap(clean(f"{cut(each.name)} {each.outcome}, {each.took}: {cut(each.why)}"), width, 2, hanging=4)]
    return [*lines, wrap(clean(f"fix: {cut(each.fix)}"), width, 6)] if each.fix else lines


def _and_more(more: str) -> list[str]:
    return [f"{INDENT}and {more}"] if more else []


def _health(lines: Sequence[Health], width: int) -> str:
    text = ["Recording"]
    for each in lines:
        text.append(wrap(clean(each.text), width, 2, hanging=2))
        if each.fix:
            text.append(wrap(clean(f"fix: {each.fix}"), width, 4))
    return "\n".join(text)


def launches_table(recording: Recording, limit: int = 20, width: int | None = None) -> str:
    """Return one line a launch, in the order in which they began.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    limit : int
        How many launches to show, from the first.
    width : int, optional
        Columns to keep to, as for `summary`.
    """
    recording = shareable(recording)
    total = len(ints(recording, "launches", "launch_id"))
    shown = min(total, max(limit, 0))
    if not total:
        return with_notice(recording.notice, EMPTY)
    phases = launch_phases(recording)
    names = [name for name in PHASES if name not in ("compile_wait", "measuring") or (
        phases.phases[name][:shown] > 0).any()]
    rows = recording.arrow("launches").slice(0, shown).to_pylist()
    kernels = rows_at(recording, "dispatchers", [row["dispatcher_id"] for row in rows])
    configurations = rows_at(recording, "configurations", [row["configuration_id"] for row in rows])
    lines: list[list[str]] = []
    for row in rows:
        at = int(row["launch_id"])
        used = configurations[row["configuration_id"]]
        times = [phases.host_ns[at], *(phases.phases[name][at] for name in names)]
        lines.append([
            count(at),
            clean(str(kernels[row["dispatcher_id"]]["name"])),
            *(dims(dims_of(used, each)) for each in ("griddim", "blockdim")),
            *(duration(None if time < 0 else float(time)) for time in times),
            clean(row["error"] or ("captured" if row["capture_event_id"] is not None else row["cache"]) or ""),
        ])
    headers = ["launch", "kernel", "grid", "block", "host", *map(phase_label, names), "from"]
    text = table(headers, lines, columns(width), left=(1, 10), flexible=1)
    if shown < total:
        text += f"\n{INDENT}and {counted(total - shown, 'more launch', 'more launches')}"
    return with_notice(recording.notice, text)
