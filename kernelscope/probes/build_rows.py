"""Requests to a library's build cache, as they ended: hits are many, and so are kept as three numbers each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

Row = dict[str, Any]


class BuildRows(list[Any]):
    """Rows of the table ``builds`` in order of their ends; indexing and iterating give dicts.

    ``append(row)`` takes a row as a dict. ``append((start_ns, end_ns, known))`` takes a hit on something that is known:
    `known` is what `know` returned for it. A tuple of numbers costs the garbage collector nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: list[Row] = []

    def know(self, row: Row) -> int:
        """Return the number of something that further hits are to be on; `row` is what each has but its times."""
        self._known.append(row)  # atomic: who else appends meanwhile has a row before or behind this one
        return next(at for at in range(len(self._known) - 1, -1, -1) if self._known[at] is row)

    def __iter__(self) -> Iterator[Row]:
        return (self._row(each) for each in super().__iter__())

    @overload
    def __getitem__(self, at: int) -> Row: ...  # type: ignore[override]
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return [self._row(each) for each in found] if isinstance(at, slice) else self._row(found)

    def _row(self, kept: Any) -> Row:
        if isinstance(kept, dict):
            return kept
        start, end, known = kept
        return {**self._known[known], "start_ns": start, "end_ns": end}
