"""Every table and column of a recording, the record of a launch, and the keys of the metadata."""

from __future__ import annotations

from kernelscope.registry import features, loaded
from kernelscope.schema.columns import MAX_COUNT, MAX_HANDLE, MAX_SUM, MAX_TIME_NS, Column, Neutral, Table
from kernelscope.schema.launch_record import LAUNCH_RECORD, RECORD_TIMES, RECORD_VERSION, Field
from kernelscope.schema.metadata import METADATA, Metadatum
from kernelscope.schema.tables import (
    BUILD_REASONS,
    COMPILE_REASONS,
    CORE_TABLES,
    DETAILS,
    MAX_STACK_FRAMES,
    MODES,
    UNFINISHED,
)

__all__ = [
    "BUILD_REASONS", "COMPILE_REASONS", "DETAILS", "FEATURE_TABLES", "INSTANTS", "JSON_COLUMNS", "LAUNCH_RECORD",
    "MAX_COUNT", "MAX_HANDLE", "MAX_STACK_FRAMES", "MAX_SUM", "MAX_TIME_NS", "METADATA", "MODES", "RECORD_TIMES",
    "RECORD_VERSION", "REFERENCES", "SCHEMA_VERSION", "TABLES", "UNFINISHED", "UNKNOWN", "Column", "Field",
    "Metadatum", "Neutral", "Table",
]

#: Raised whenever a table or column is added, or changes its meaning, its name or its dtype, or how a file holds it.
SCHEMA_VERSION = 7

#: The value that a fixed-width buffer uses for "not known"; tables have null instead.
UNKNOWN = -1

_OF_FEATURES: tuple[Table, ...] = tuple(
    table for feature in features() if feature.tables for table in loaded(feature.tables))
#: The names of tables that features add, which a file need not have.
FEATURE_TABLES = frozenset(table.name for table in _OF_FEATURES)
#: Every table by name, in the order in which documents list them: the core's, those of features, and health.
TABLES: dict[str, Table] = {table.name: table for table in (*CORE_TABLES[:-1], *_OF_FEATURES, CORE_TABLES[-1])}


def _references() -> dict[str, str]:
    keys = {table.key: table.name for table in TABLES.values()}
    return {column.name: keys[column.name] if column.kind == "key" else column.of or keys[column.name]
            for table in TABLES.values() for column in table.columns if column.kind in ("key", "id")}


def _of_kind(kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.name for table in TABLES.values() for column in table.columns
                               if column.kind == kind))


#: Columns of instants, as distinct from durations, which have the same unit.
INSTANTS = _of_kind("instant")
#: Text columns that hold JSON objects.
JSON_COLUMNS = _of_kind("json")
#: Which table the rows of a key or id are in, by the column's name.
REFERENCES = _references()
