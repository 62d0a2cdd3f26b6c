"""What a table and a column are, and a function for the columns of each kind."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: The last instant, and minus the first one, that a recording may name: 73 years, so that a difference of two is still
#: an int64. Times before 0 come of merging recordings of several machines.
MAX_TIME_NS = 2**61
#: What one table's durations or sizes may add up to, so that sums are exact.
MAX_SUM = 2**62
#: The most that an int32 holds: ids and counts.
MAX_COUNT = 2**31 - 1
#: Above every address that a process can have, and so above every handle.
MAX_HANDLE = 2**62


class Neutral(NamedTuple):
    """Redaction that puts a neutral name in the place of each distinct text, such as kernel_1.

    Attributes
    ----------
    kind : str
        The name before the number. Columns of one kind have one name for one text.
    suffix : str
        What stands behind the number, such as .nbi.
    """

    kind: str
    suffix: str = ""


class Column(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name, with the unit at its end where it has one (``start_ns``, ``sharedmem_bytes``).
    dtype : str
        ``int64``, ``int32``, ``float64``, ``bool``, ``string``, or ``category`` (a string of few distinct values).
    kind : str
        ``key`` (the table's own row numbers), ``id`` (those of another one), ``instant``, ``duration``, ``amount``
        (nanoseconds that were worked out), ``size``, ``count``,
        ``handle``, ``number``, ``flag``, ``text``, ``word``, ``enumeration`` or ``json``.
    meaning : str
        One sentence for the reference.
    unit : str
        The unit, or an empty string.
    nullable : bool
        Whether a row may leave it out.
    is_path : bool
        Whether it holds a file's path, which a saved file cuts down to the file's name unless asked.
    low, high : int or None
        The least and the most that its numbers may be; None where it holds none. A file with another one is refused.
    values : tuple of str
        The texts that an enumeration consists of, which redaction keeps; empty for other columns. A file with another
        one is refused, unless the column is open.
    is_open : bool
        Whether it holds other texts beside `values`: names that users, libraries and probes give.
    of : str
        The table that an id counts rows of, where its key has another name.
    redaction : Neutral or str
        What redaction does with texts that are none of `values`: it names them, or it does what
        `kernelscope.recording.redact` has under this name. Without one they are emptied.
    """

    name: str
    dtype: str
    kind: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    is_path: bool = False
    low: int | None = None
    high: int | None = None
    values: tuple[str, ...] = ()
    is_open: bool = False
    of: str = ""
    redaction: Neutral | str = ""

    @property
    def is_enumeration(self) -> bool:
        """Whether it holds its `values` and nothing else."""
        return self.kind == "enumeration"


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    name : str
        Its name: that of an attribute of a recording, and of a file in a saved one.
    row : str
        What a row is.
    columns : tuple of Column
        Its columns in order; its key, where it has one, comes first.
    since : int
        The schema's version in which it came: files of an older one lack it.
    is_event : bool
        Whether its rows happened at a time, or were measured: each is of one cell or process, and merging recordings
        keeps all of them. Rows of other tables are what events refer to; equal ones become one.
    is_ordered : bool
        Whether its rows are in order of ``start_ns``.
    is_replay : bool
        Whether a row is a launch that ran several times to be measured, from ``start_ns`` to ``end_ns``: its
        ``launch_id`` and ``device_id`` say which and where, as far as that is known.
    part_of : str
        The table whose rows take those of this one with them; empty for most.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    since: int = 1
    is_event: bool = False
    is_ordered: bool = False
    is_replay: bool = False
    part_of: str = ""

    def column(self, name: str) -> Column:
        """Return the column called `name`; raises `KeyError` where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name!r} has no column {name!r}; it has {', '.join(self.names)}")

    @property
    def key(self) -> str | None:
        """Return the column that numbers the rows, None where there is none."""
        return self.columns[0].name if self.columns[0].kind == "key" else None

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names, in order."""
        return tuple(column.name for column in self.columns)


def key(name: str, meaning: str) -> Column:
    """Return a table's first column: its rows, counted from 0."""
    return Column(name, "int32", "key", meaning, low=0, high=MAX_COUNT)


def long_key(name: str, meaning: str) -> Column:
    """Return the first column of a table that can be long: launches, activities and API calls."""
    return Column(name, "int64", "key", meaning, low=0, high=MAX_COUNT)


def row_id(name: str, meaning: str, *, nullable: bool = False, of: str = "") -> Column:
    """Return a column of row numbers of another table, or of the same one."""
    return Column(name, "int32", "id", meaning, nullable=nullable, low=0, high=MAX_COUNT, of=of)


def long_row_id(name: str, meaning: str, *, nullable: bool = False, of: str = "") -> Column:
    """Return a column of row numbers of a table that can be long."""
    return Column(name, "int64", "id", meaning, nullable=nullable, low=0, high=MAX_COUNT, of=of)


def instant(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of instants on the host clock."""
    return Column(name, "int64", "instant", meaning, unit="ns", nullable=nullable, low=-MAX_TIME_NS, high=MAX_TIME_NS)


def duration(name: str, meaning: str, *, nullable: bool = False, low: int = 0) -> Column:
    """Return a column of differences of times."""
    return Column(name, "int64", "duration", meaning, unit="ns", nullable=nullable, low=low, high=MAX_TIME_NS)


def amount(name: str, meaning: str) -> Column:
    """Return a column of nanoseconds that were worked out: they have fractions, and may be unknown."""
    return Column(name, "float64", "amount", meaning, unit="ns", nullable=True, low=0, high=MAX_TIME_NS)


def size(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of bytes."""
    return Column(name, "int64", "size", meaning, unit="bytes", nullable=nullable, low=0, high=MAX_TIME_NS)


def count(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of small whole numbers."""
    return Column(name, "int32", "count", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def handle(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of handles and ids that the system, the driver or CUPTI gave."""
    return Column(name, "int64", "handle", meaning, nullable=nullable, low=0, high=MAX_HANDLE)


def number(name: str, meaning: str, dtype: str = "float64", *, nullable: bool = True, low: int = 0,
           high: int = MAX_TIME_NS) -> Column:
    """Return a column of other numbers."""
    return Column(name, dtype, "number", meaning, nullable=nullable, low=low, high=high)


def flag(name: str, meaning: str) -> Column:
    """Return a column of true, false, and null for unknown."""
    return Column(name, "bool", "flag", meaning, nullable=True)


def text(name: str, meaning: str, values: Iterable[str] = (), *, nullable: bool = True, is_path: bool = False,
         redaction: Neutral | str = "") -> Column:
    """Return a column of texts, some of which may be known beforehand."""
    return Column(name, "string", "text", meaning, nullable=nullable, is_path=is_path, values=tuple(values),
                  is_open=True, redaction=redaction)


def json_text(name: str, meaning: str, *, redaction: Neutral | str = "") -> Column:
    """Return a column of JSON objects as text."""
    return Column(name, "string", "json", meaning, nullable=True, is_open=True, redaction=redaction)


def word(name: str, meaning: str, values: Iterable[str] = (), *, nullable: bool = False,
         redaction: Neutral | str = "") -> Column:
    """Return a column of texts of which few are distinct, some of which may be known beforehand."""
    return Column(name, "category", "word", meaning, nullable=nullable, values=tuple(values), is_open=True,
                  redaction=redaction)


def enumeration(name: str, values: Mapping[str, str], *, lead: str = "", end: str = "",
                nullable: bool = False) -> Column:
    """Return a column of these texts and no others, each with a note on it or an empty one.

    A text of another version of the schema, which redaction does not know, becomes a neutral one.
    """
    *most, last = (f"{value} ({note})" if note else value for value, note in values.items())
    return Column(name, "category", "enumeration", f"{lead}{', '.join(most)}{',' if len(most) > 1 else ''} or "
                  f"{last}{end}.", nullable=nullable, values=tuple(values), redaction=Neutral(name))


#: The last column of tables whose rows are of one process.
PROCESS_ID = row_id("process_id", "The process; null in files of older versions, which do not say.", nullable=True)
