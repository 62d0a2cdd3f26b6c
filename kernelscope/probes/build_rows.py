"""Requests to a library's build cache, as they ended: hits are many, and so are kept as three numbers each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

Row = dict[str, Any]
#: A hit: when it was asked for and answered (ns), and the number that `BuildRows.know` has returned for it.
Hit = tuple[int, int, int]


class BuildRows(Sequence[Row]):
    """Rows of the table ``builds`` in order of their ends: a sequence of dicts that can only grow.

    Attributes
    ----------
    append : callable
        Takes a row as a dict, or a hit on something that is known as a tuple of three numbers, which costs the garbage
        collector nothing. It is atomic, so that threads need no lock.
    """

    def __init__(self) -> None:
        self._kept: list[Row | Hit] = []
        self._known: list[Row] = []
        self.append: Callable[[Row | Hit], None] = self._kept.append

    def know(self, row: Row) -> int:
        """Return the number of something that further hits are to be on; `row` is what each has but its times."""
        self._known.append(row)  # other threads append as well, but never the same dict
        return next(at for at in range(len(self._known) - 1, -1, -1) if self._known[at] is row)

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        """Return a row, or a list of rows; those of hits are made anew."""
        return [self._row(each) for each in self._kept[at]] if isinstance(at, slice) else self._row(self._kept[at])

    def _row(self, kept: Row | Hit) -> Row:
        if isinstance(kept, dict):
            return kept
        start, end, known = kept
        return {**self._known[known], "start_ns": start, "end_ns": end}
