"""What tables and columns are made of: see `kernelscope.schema` for the tables themselves."""

from __future__ import annotations

from dataclasses import dataclass

#: The last instant, and minus the first one, that a recording may name: 73 years, so that a difference of two is still
#: an int64. Times before 0 come of merging recordings of several machines.
MAX_TIME_NS = 2**61
#: What one table's durations or sizes may add up to, so that sums are exact.
MAX_SUM = 2**62
#: The most that an int32 holds: ids and counts.
MAX_COUNT = 2**31 - 1
#: Above every address that a process can have, and so above every handle.
MAX_HANDLE = 2**62


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name, with the unit at its end where it has one (``start_ns``, ``sharedmem_bytes``).
    dtype : str
        ``int64``, ``int32``, ``float64``, ``bool``, ``string``, or ``category`` (a string of few distinct values).
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
    """

    name: str
    dtype: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    is_path: bool = False
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Table:
    """One table: what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """Return the column called `name`; raises `KeyError` where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name!r} has no column {name!r}; it has {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


def column_of_ids(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of row numbers of the table that it names."""
    return Column(name, "int32", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def column_of_long_ids(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of row numbers of one of the tables that can be long: launches, activities and API calls."""
    return Column(name, "int64", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def column_of_times(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of instants on the host clock."""
    return Column(name, "int64", meaning, unit="ns", nullable=nullable, low=-MAX_TIME_NS, high=MAX_TIME_NS)


def column_of_durations(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of differences of times."""
    return Column(name, "int64", meaning, unit="ns", nullable=nullable, low=0, high=MAX_TIME_NS)


def column_of_amounts(name: str, meaning: str) -> Column:
    """Return a column of nanoseconds that were worked out: they have fractions, and may be unknown."""
    return Column(name, "float64", meaning, unit="ns", nullable=True, low=0, high=MAX_TIME_NS)


def column_of_bytes(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of sizes."""
    return Column(name, "int64", meaning, unit="bytes", nullable=nullable, low=0, high=MAX_TIME_NS)


def column_of_counts(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of small whole numbers."""
    return Column(name, "int32", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def column_of_handles(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of handles and ids that the system, the driver or CUPTI gave."""
    return Column(name, "int64", meaning, nullable=nullable, low=0, high=MAX_HANDLE)


def column_of_text(name: str, meaning: str, *, nullable: bool = True, is_path: bool = False) -> Column:
    """Return a column of texts."""
    return Column(name, "string", meaning, nullable=nullable, is_path=is_path)


def column_of_words(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of texts of which few are distinct."""
    return Column(name, "category", meaning, nullable=nullable)
