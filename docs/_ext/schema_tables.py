"""Sphinx directives for what the package says of itself: tables, the launch record, the formats of exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kernelscope.native.record import LAYOUT
from kernelscope.schema import LAUNCH_RECORD, METADATA, TABLES, Column, Table
from kernelscope.views.exports import reference_table

HEADINGS = ("Column", "Type", "Unit", "Range", "Null", "Meaning")
WIDTHS = (24, 9, 7, 12, 6, 42)
METADATA_HEADINGS, METADATA_WIDTHS = ("Key", "Type", "Range", "Null", "Meaning"), (26, 10, 14, 6, 44)
RECORD_HEADINGS, RECORD_WIDTHS = ("Bytes", "Field", "Type", "Unit", "Meaning"), (10, 20, 10, 6, 54)


class SchemaTables(SphinxDirective):
    """Render one section a table: what a row is, then the columns in their order."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        sections = [_section(table) for table in TABLES.values()]
        for section in sections:
            self.state.document.note_explicit_target(section)
        return list(sections)


class LaunchRecord(SphinxDirective):
    """Render the fields of the launch record, with their bytes."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows, first = [], 0
        for field, (_, code) in zip(LAUNCH_RECORD, LAYOUT, strict=True):
            last = first + int(code[2:]) - 1
            rows.append([[nodes.Text(f"{first} to {last}")], [nodes.literal("", field.name)],
                         [nodes.literal("", field.c_type)], [nodes.Text(field.unit)], inline(field.meaning)])
            first = last + 1
        return [table_of(RECORD_HEADINGS, RECORD_WIDTHS, rows)]


class MetadataKeys(SphinxDirective):
    """Render the keys of a recording's metadata."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [[[nodes.literal("", each.key)], [nodes.Text(each.kind)],
                 [nodes.Text("" if each.low is None else f"{_number(each.low)} to {_number(each.high or 0)}")],
                 [nodes.Text("yes" if each.nullable else "")], inline(each.meaning)] for each in METADATA]
        return [table_of(METADATA_HEADINGS, METADATA_WIDTHS, rows)]


class ExporterTable(SphinxDirective):
    """Render the table of formats in which a recording can be written."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return self.parse_text_to_nodes(reference_table())


def _section(table: Table) -> nodes.section:
    section = nodes.section(ids=[f"table-{nodes.make_id(table.name)}"], names=[table.name])
    section += nodes.title("", "", nodes.literal("", table.name))
    section += nodes.paragraph("", "", *inline(f"A row is {table.row}."))
    section += table_of(HEADINGS, WIDTHS, [list(_cells(column)) for column in table.columns])
    return section


def _cells(column: Column) -> Iterator[list[nodes.Node]]:
    yield [nodes.literal("", column.name)]
    yield [nodes.Text(column.dtype)]
    yield [nodes.Text(column.unit)]
    yield [nodes.Text("" if column.low is None else f"{_number(column.low)} to {_number(column.high)}")]
    yield [nodes.Text("yes" if column.nullable else "")]
    meaning = column.meaning
    if column.is_path:
        meaning += " A saved file keeps the file's name only, unless paths are asked for."
    yield inline(meaning)


def _number(value: int) -> str:
    """A number; one that is a power of two, or one less, as that."""
    power = abs(value).bit_length() - 1
    if power >= 30:
        return f"{'-' * (value < 0)}2^{power}" if abs(value) == 2**power else f"2^{power + 1} - 1"
    return str(value)


def table_of(headings: Iterable[str], widths: Sequence[int], rows: list[list[list[nodes.Node]]]) -> nodes.table:
    """Return a table whose cells are nodes."""
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row([[nodes.Text(heading)] for heading in headings]))
    group += nodes.tbody("", *[_row(row) for row in rows])
    return nodes.table("", group, classes=["schema"])


def _row(cells: list[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells])


def inline(text: str) -> list[nodes.Node]:
    """Return text with what stands in single or double backticks as code."""
    parts = re.split(r"``?([^`]+)``?", text)
    return [nodes.literal("", part) if index % 2 else nodes.Text(part) for index, part in enumerate(parts)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("schema-tables", SchemaTables)
    app.add_directive("launch-record", LaunchRecord)
    app.add_directive("metadata-keys", MetadataKeys)
    app.add_directive("exporter-table", ExporterTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
