"""What is shown of a recording, as lines of text that are the same on every machine: one function an output.

Long columns are told by their length, a digest and the first values; real numbers by six digits.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import perfetto_trace
from unpack import Unpacked, unpacked

from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_text
from kernelscope.views.graph.text import graph_text, to_dot
from kernelscope.views.inspector.text import inspection_text

_FIRST, _LONGEST, _KERNELS, _WIDTH = 4, 100, 4, 110


# Columns and rows as one line.

def plain(value: Any) -> Any:
    """A value without what differs between machines and versions: real numbers of six digits, no NumPy types."""
    if value is None or type(value) in (str, int):  # most are, of a million
        return value
    if isinstance(value, dict):
        return {key: plain(each) for key, each in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return float(f"{value:.6g}") if isinstance(value, float) else value


def as_json(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def cut(text: str) -> str:
    """A text; of a long one the beginning and a digest."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters, {digest(text)})"


def digest(value: Any) -> str:
    return hashlib.sha256(as_json(value).encode()).hexdigest()[:12]


def column(values: Sequence[Any]) -> str:
    """All of a few values, or the first of many and a digest; a value that is alone in its column is said once."""
    texts = [cut(as_json(value)) for value in values[:_FIRST + 1]]
    if len(values) > 1 and all(value == values[0] for value in values):
        return f"all {texts[0]}"
    if len(values) <= _FIRST:
        return ", ".join(texts)
    return f"{', '.join(texts[:_FIRST])}, … ({len(values):,} values, {digest(list(values))})"


def lines(texts: Iterable[str]) -> str:
    """Lines without blanks at their ends, and with one line break at the last."""
    return "\n".join(line.rstrip() for text in texts for line in text.split("\n")).rstrip("\n") + "\n"


# The outputs.

class _Texts(HTMLParser):
    """The text of HTML, a line for each block or row of a table; what a pointer or a screen reader is told as well."""

    BLOCKS = frozenset({"details", "div", "g", "h1", "h2", "h3", "li", "ol", "p", "section", "summary", "svg", "table",
                        "text", "tr", "ul"})

    def __init__(self) -> None:
        super().__init__()
        self.hidden = ""
        self.found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script"):
            self.hidden = tag
        self.found += "\n" if tag in self.BLOCKS else " | " if tag in ("td", "th") else ""
        self.found += "".join(f" [{value}] " for name, value in attrs if name in ("title", "aria-label"))

    def handle_endtag(self, tag: str) -> None:
        self.hidden = "" if tag == self.hidden else self.hidden
        self.found += "\n" if tag in self.BLOCKS else ""

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.found += f" {' '.join(data.split())} "


def html_text(html: str) -> str:
    texts = _Texts()
    texts.feed(html)
    texts.close()
    rows = (" ".join(line.split()) for line in texts.found.split("\n"))
    return lines(row for row in rows if row)


def card(recording: Recording, folder: Path) -> str:
    return lines([recording.summary()])


def card_html(recording: Recording, folder: Path) -> str:
    return html_text(recording._repr_html_())


def listings(recording: Recording, folder: Path) -> str:
    """What ``kernelscope show`` prints with ``--cells`` and ``--launches``, and the table of ranges."""
    parts = ["cells", cells_text([recording]), "\nlaunches", launches_table(recording, 12, _WIDTH), "\nranges"]
    ranges = recording.by_range()
    ranges = ranges.astype(object).where(ranges.notna(), None)
    return lines([*parts, *(f"{name}  {column(ranges[name].tolist())}" for name in ranges)])


def timeline(recording: Recording, folder: Path) -> str:
    """What the front end is given: lanes, columns and texts, decoded."""
    shown = unpacked(recording)
    head = {name: value for name, value in shown.header.items()
            if name not in ("lanes", "tables", "format", "bytes", "inflated")}
    parts = [f"{name}  {as_json(value)}" for name, value in head.items()]
    for lane in shown.header["lanes"]:
        tracks = ", ".join(f"{each['table']} {each['depth']} (track {each['track']})" for each in lane["tracks"])
        parts.append(f"lane  {lane['group']}: {lane['label']}{lane['note'] and ' · '}{lane['note']}: {tracks}")
    for table in shown.header["tables"]:
        parts.append(f"\n{table}: {shown.rows(table):,} rows")
        if shown.rows(table):
            parts += [f"  {name}  {column(_column(shown, table, name))}" for name in sorted(shown.columns(table))]
    parts.append("\ntexts")
    for name, value in sorted(shown.texts.items()):
        if name != "words":
            rows = value if isinstance(value, list) else [value]
            parts.append(f"  {name}: {len(rows):,}, {digest(rows)}")
            parts += [f"    {cut(as_json(row))}" for row in rows[:_FIRST]]
    return lines(parts)


def _column(shown: Unpacked, table: str, name: str) -> list[Any]:
    if f"{table}.{name}" in shown.texts["words"]:
        return shown.words(table, name)
    return shown.col(table, name).tolist()


def trace(recording: Recording, folder: Path) -> str:
    """A trace of Perfetto's own format, read as Perfetto reads it."""
    found = perfetto_trace.read(recording.to_perfetto(folder / "trace.pftrace").read_bytes())
    rows = [((" / ".join(each.track)), each.category, each.name, each.start, each.end, each.arguments)
            for each in found.slices]
    ends = {flow: (" / ".join(each.track), each.start) for each in found.slices for flow in each.arriving}
    arrows = [(" / ".join(each.track), each.start, *ends.get(flow, ())) for each in found.slices
              for flow in each.flows]
    clocks = [[(clock.clock_id, clock.timestamp) for clock in each.clocks if not clock.is_incremental]
              for each in found.snapshots]
    return lines([f"tracks  {len(found.tracks)}", f"clocks  {as_json([each for each in clocks if each][:1])}",
                  *_tracks(rows), f"\narrows  {column(sorted(arrows, key=as_json))}"])


def chrome_trace(recording: Recording, folder: Path) -> str:
    """A trace of Chrome's JSON, with times in nanoseconds."""
    content = json.loads(recording.to_perfetto(folder / "trace.json").read_text(encoding="utf-8"))
    events = content.pop("traceEvents")
    names = {(each["name"], each["pid"], each["tid"]): each["args"]["name"] for each in events
             if each["ph"] == "M" and each["name"].endswith("_name")}

    def track(each: dict[str, Any]) -> str:
        process = names["process_name", each["pid"], 0]
        return f"{process} / {names.get(('thread_name', each['pid'], each['tid']), each['tid'])}"

    def ns(each: dict[str, Any], name: str) -> int | None:
        return None if name not in each else round(each[name] * 1000)

    rows = [(track(each), each.get("cat"), each["name"], ns(each, "ts"), ns(each, "dur"), each.get("args", {}))
            for each in events if each["ph"] not in "Mstf"]
    ends = {each["id"]: (track(each), ns(each, "ts")) for each in events if each["ph"] == "f"}
    arrows = [(track(each), ns(each, "ts"), *ends.get(each["id"], ())) for each in events if each["ph"] == "s"]
    kinds = {kind: sum(each["ph"] == kind for each in events) for kind in sorted({each["ph"] for each in events})}
    return lines([*(f"{name}  {as_json(value)}" for name, value in content.items()), f"events  {as_json(kinds)}",
                  *_tracks(rows), f"\narrows  {column(sorted(arrows, key=as_json))}"])


def _tracks(rows: Sequence[tuple[Any, ...]]) -> Iterable[str]:
    of: dict[str, list[tuple[Any, ...]]] = {}
    for name, *row in rows:
        of.setdefault(name, []).append(tuple(row))
    for name, slices in of.items():
        begin = Counter(row[2] for row in slices)
        slices.sort(key=lambda row: (row[2], as_json(row) if begin[row[2]] > 1 else ""))
        yield f"\n{name}: {len(slices):,} slices, {digest(slices)}"
        for category, title, start, end, arguments in slices[:_FIRST]:
            yield f"  {category}  {cut(title)}  {start}  {end}  {cut(as_json(arguments))}"


def tables(recording: Recording, folder: Path) -> str:
    """Every table of the file: types in Arrow and in pandas, and values."""
    parts = [f"{name}  {as_json(value)}" for name, value in sorted(recording.metadata.items())]
    for name in TABLES:
        table = recording.arrow(name)
        parts.append(f"\n{name}: {table.num_rows:,} rows")
        if table.num_rows:
            frame = recording.table(name)
            parts += [f"  {each}  {_type(table.schema.field(each).type)}  {_type(frame[each].dtype)}  "
                      f"{column(table[each].to_pylist())}" for each in table.column_names]
    return lines(parts)


def _type(of: Any) -> str:
    """The name of a type; texts have another one in each version of pandas."""
    text = str(of)
    return "text" if text in ("object", "str", "string") else "words" if text.startswith("dictionary") else text


def inspector(recording: Recording, folder: Path) -> str:
    """What ``kernelscope inspect`` prints: all kernels, the first ones, and a specialization of each of those."""
    parts = [inspection_text(recording, width=_WIDTH)]
    for number in range(recording.arrow("dispatchers").num_rows)[:_KERNELS]:
        parts += [f"\n--- {number}", inspection_text(recording, f"{number}", width=_WIDTH)]
        if (recording.column("specializations", "dispatcher_id") == number).any():
            parts += [f"\n--- {number}, 1", inspection_text(recording, f"{number}", 1, _WIDTH)]
    return lines(parts)


def graphs(recording: Recording, folder: Path) -> str:
    """What ``kernelscope graph`` prints of each graph, as text and for Graphviz."""
    if not recording.arrow("graphs").num_rows:
        return "no graphs\n"
    return lines(part for number in range(recording.arrow("graphs").num_rows) for part in (
        f"--- {number}", graph_text(recording, number, _WIDTH), f"--- {number}, dot", to_dot(recording, number)))


#: What makes each output, by the name of its file.
OUTPUTS: dict[str, Callable[[Recording, Path], str]] = {
    "card": card, "card_html": card_html, "listings": listings, "timeline": timeline, "trace": trace,
    "chrome_trace": chrome_trace, "tables": tables, "inspector": inspector, "graphs": graphs}
