"""Ids of a journal, made to hold: rows are numbered anew, and ids whose row was lost lead to "unknown" instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.recording.journal_rows import Row, RowFile
from kernelscope.recording.ranges import RawRanges
from kernelscope.schema import TABLES, UNFINISHED, UNKNOWN

#: What stands for a row that was lost, in the tables that must have one for each id.
_STAND_INS: dict[str, Row] = {
    "threads": {"ident": 0, "name": "unknown"},
    "dispatchers": {"framework": "unknown", "name": "unknown"},
    "configurations": {},
    "targets": {"dispatcher_id": UNKNOWN, "specialization_id": UNKNOWN, "device_id": UNKNOWN, "error": None},
    "range_labels": {"name": "unknown", "domain": None, "category": None, "color": None, "payload": None},
}
#: Columns that name a row, by table: the table that the row is in, and whether null will do where it is lost.
_REFERENCES: dict[str, dict[str, tuple[str, bool]]] = {
    "specializations": {"dispatcher_id": ("dispatchers", False)},
    "targets": {"dispatcher_id": ("dispatchers", False), "specialization_id": ("specializations", True),
                "device_id": ("devices", True)},
    "compilations": {"dispatcher_id": ("dispatchers", False), "thread_id": ("threads", False),
                     "specialization_id": ("specializations", True), "configuration_id": ("configurations", True)},
    "passes": {"compilation_id": ("compilations", True), "specialization_id": ("specializations", True)},
    "occupancies": {"specialization_id": ("specializations", True), "configuration_id": ("configurations", True),
                    "device_id": ("devices", True)},
    "builds": {"thread_id": ("threads", False), "nearest_build_id": ("builds", True)},
}
#: Found by the builder, whatever a journal says.
_DERIVED = {"cell_id", "launch_id", "compilation_id", "parent_launch_id", "build_id"}
#: In order: a table comes after those that its rows name.
_TABLES = ("cells", "threads", "devices", "dispatchers", "configurations", "specializations", "targets", "compilations",
           "passes", "occupancies", "builds", "range_labels", "health")


@dataclass(frozen=True)
class KnownIds:
    """Rows whose ids lead to one another.

    Attributes
    ----------
    tables : dict of str to list of dict
        Rows by table, numbered without gaps.
    ranges : RawRanges
        NVTX events.
    unfinished : list of str
        The kernels of the launches under way, in order of begin.
    unknown : int
        Ids whose row was lost.
    """

    tables: dict[str, list[Row]]
    ranges: RawRanges
    unfinished: list[str]
    unknown: int


def with_known_ids(launches: dict[str, Any], is_open: np.ndarray, rows: RowFile) -> KnownIds:
    """Return the rows numbered anew, and translate the launches' ids: ``thread_id`` is added, the others are replaced.

    Parameters
    ----------
    launches : dict of str to ndarray
        As in `kernelscope.recording.journal_slots.Slots`.
    is_open : ndarray of bool
        Which launches had not returned: they get targets of their own, with the error "unfinished".
    rows : RowFile
        The journal's rows by the numbers that launches and other rows name them by.
    """
    numbering = _Numbering(rows)
    launches["thread_id"] = numbering.translated("threads", launches.pop("thread", launches["target"]))
    launches["configuration"] = numbering.translated("configurations", launches["configuration"])
    launches["target"] = numbering.translated("targets", launches["target"])
    ranges = numbering.ranges(rows.ranges)
    targets = numbering.tables["targets"]
    kernels: list[str] = []
    for at in np.flatnonzero(is_open).tolist():
        held = targets[int(launches["target"][at])]
        targets.append({**held, "error": UNFINISHED})
        launches["target"][at] = len(targets) - 1
        kernels.append(str(numbering.tables["dispatchers"][held["dispatcher_id"]]["name"]))
    return KnownIds(numbering.tables, ranges, kernels, numbering.unknown)


class _Numbering:
    """Numbers rows table by table; stand-ins are made where they are needed."""

    def __init__(self, rows: RowFile) -> None:
        self.tables: dict[str, list[Row]] = {}
        self.unknown = 0
        self._places: dict[str, dict[int, int]] = {}
        self._stand_ins: dict[str, int] = {}
        for table in _TABLES:
            kept = {number: row for number in sorted(rows.tables[table])
                    if (row := _complete(table, rows.tables[table][number])) is not None}
            self._places[table] = {number: place for place, number in enumerate(kept)}
            self.tables[table] = list(kept.values())
            self.tables[table] = [row for row in self.tables[table] if self._follows(table, row)]

    def place(self, table: str, number: int | None, *, may_be_null: bool = False) -> int:
        """The row's place; -1 or that of the stand-in where it was lost."""
        found = UNKNOWN if number is None else self._places[table].get(number, UNKNOWN)
        if found != UNKNOWN or (may_be_null and number in (None, UNKNOWN)):
            return found
        self.unknown += 1
        if may_be_null:
            return UNKNOWN
        if table not in self._stand_ins:
            row = dict(_STAND_INS[table])
            if "dispatcher_id" in row:
                row["dispatcher_id"] = self.place("dispatchers", None)
                self.unknown -= 1
            self._stand_ins[table] = len(self.tables[table])
            self.tables[table].append(row)
        return self._stand_ins[table]

    def translated(self, table: str, numbers: np.ndarray) -> np.ndarray:
        """The places of the rows that a column names."""
        known, which = np.unique(numbers, return_inverse=True)
        places = np.array([self.place(table, number) for number in known.tolist()], np.int32)
        return places[which] if len(numbers) else np.empty(0, np.int32)

    def ranges(self, values: list[float]) -> RawRanges:
        """NVTX events with the places of their labels and threads; those of no kind that there is are left out."""
        events = np.array(values, np.float64).reshape(-1, 4)
        events = events[(events[:, 1:] >= UNKNOWN).all(axis=1) & (events[:, 1] >= 0)]
        events[:, 2] = self.translated("range_labels", events[:, 2].astype(np.int64))
        events[:, 3] = self.translated("threads", events[:, 3].astype(np.int64))
        return RawRanges(events, self.tables["range_labels"])

    def _follows(self, table: str, row: Row) -> bool:
        """Give a row's ids their new numbers; return whether the row can be kept."""
        for column, (named, may_be_null) in _REFERENCES.get(table, {}).items():
            place = self.place(named, row.get(column), may_be_null=may_be_null)
            row[column] = None if place == UNKNOWN and table != "targets" else place
        return table != "occupancies" or None not in (row[column] for column in _REFERENCES[table])


def _complete(table: str, row: Row) -> Row | None:
    """The row with what it must have; None where that cannot be made up."""
    if table in ("targets", "range_labels"):
        return {**_STAND_INS[table], **({"name": ""} if table == "range_labels" else {}), **row}
    made = dict(row)
    for column in TABLES[table].columns:
        if column.nullable or column.name in made or column.name in _REFERENCES.get(table, {}):
            continue
        if column.name in _DERIVED or (table != "occupancies" and column is TABLES[table].columns[0]
                                       and column.name.endswith("_id")):
            continue
        if table == "cells" and column.name in ("end_ns", "status"):
            continue
        if column.dtype in ("string", "category"):
            made[column.name] = "unknown"
        elif (table, column.name) == ("threads", "ident"):
            made[column.name] = 0
        else:
            return None
    return {name: value for name, value in made.items() if name not in _DERIVED or name in _REFERENCES.get(table, {})}
