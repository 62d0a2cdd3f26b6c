"""What features count by line of a kernel's code: bars beside the lines, and sentences below a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernelscope.analysis.columns import Ints
from kernelscope.recording.model import Recording
from kernelscope.registry import features, loaded
from kernelscope.views.inspector.model import Code, Kernel, Specialization


class Group(NamedTuple):
    """What several categories have in common: its name, its color as #rrggbb, and its label in the legend."""

    name: str
    color: str
    label: str


class Category(NamedTuple):
    """What is counted by itself: its name, the name of its group, its label, and one sentence or an empty text."""

    name: str
    group: str
    label: str
    meaning: str


@dataclass(frozen=True)
class LineCounts:
    """Counts of one form of a specialization's code, by line and category.

    Attributes
    ----------
    title : str
        What is counted, such as ``samples of warps``.
    noun : str
        What one count is, in the plural: ``samples``.
    total : int
        All counts of the specialization, also those of instructions that no line of the form stands for.
    groups : sequence of Group
        In the order of their bars.
    categories : sequence of Category
        One for each column of `counts`.
    lines : ndarray of int64, shape (n,)
        The lines of the text that have counts, from 0, in order. Where several lines of a form were made from the same
        line of the source, the first of them stands for all.
    counts : ndarray of int64, shape (n, categories)
        Their counts.
    """

    title: str
    noun: str
    total: int
    groups: Sequence[Group]
    categories: Sequence[Category]
    lines: Ints
    counts: Ints

    def message(self) -> dict[str, Any]:
        """Return it as JSON values: see ``LineCounts`` in ``frontend/inspector/wire.ts``."""
        return {"title": self.title, "noun": self.noun, "total": self.total, "groups": [*self.groups],
                "categories": [*self.categories], "lines": self.lines.tolist(), "counts": self.counts.tolist()}


class Note(NamedTuple):
    """What is said below a kernel: a heading, a figure behind it, and sentences."""

    heading: str
    figure: str
    sentences: Sequence[str]


class CodeCounts(NamedTuple):
    """What a feature counts by line.

    Attributes
    ----------
    tables : tuple of str
        The tables that it is made from: where none of them has a row it is not asked.
    by_line : callable
        Returns the counts of one form (`kernelscope.views.inspector.model.FORMS`) of a specialization's code, None
        where there are none.
    by_kernel : callable
        Returns a note on each kernel that was counted, by dispatcher id.
    """

    tables: tuple[str, ...]
    by_line: Callable[[Recording, Kernel, Specialization, str, Code], LineCounts | None]
    by_kernel: Callable[[Recording], dict[int | None, Note]]


def _code_counts(recording: Recording) -> Iterator[CodeCounts]:
    for feature in features():
        if feature.code_counts:
            counts: CodeCounts = loaded(feature.code_counts)
            if any(recording.arrow(table).num_rows for table in counts.tables):
                yield counts


def line_counts(recording: Recording, kernel: Kernel, specialization: Specialization, form: str,
                code: Code) -> LineCounts | None:
    """Return what was counted of the lines of a form of a specialization's code; None where nothing was.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    kernel, specialization
        Which one.
    form : str
        One of `kernelscope.views.inspector.model.FORMS`.
    code : Code
        That form, as `kernelscope.views.inspector.model.code_of` returns it.
    """
    for counts in _code_counts(recording):
        by_line = counts.by_line(recording, kernel, specialization, form, code)
        if by_line is not None:
            return by_line
    return None


def kernel_notes(recording: Recording) -> dict[int | None, list[Note]]:
    """Return what features say of kernels, by dispatcher id."""
    notes: dict[int | None, list[Note]] = {}
    for counts in _code_counts(recording):
        for dispatcher_id, note in counts.by_kernel(recording).items():
            notes.setdefault(dispatcher_id, []).append(note)
    return notes
