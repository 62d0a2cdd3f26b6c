"""What frames of call paths are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelscope.views.base import clean, cut


@dataclass(frozen=True)
class Frame:
    """A frame of Python, or what stands beside or below frames: a kernel, a copy.

    Attributes
    ----------
    name : str
        A function, a kernel, or a cell.
    place : str
        File and line, as ``sim.py:12``; empty for what is no frame of Python.
    kind : str
        ``user`` or ``library`` for frames of Python; what else there is has other words.
    code : str
        The line itself, where it is of a recorded cell.
    """

    name: str
    place: str = ""
    kind: str = "user"
    code: str = ""

    @property
    def label(self) -> str:
        """Return name and place on one line; of a cell its line alone."""
        return self.place if self.place.startswith(f"{self.name}:") else f"{self.name} {self.place}".rstrip()

    @property
    def line(self) -> str:
        """Return it as other tools name frames: ``step (sim.py:12)``, or the name alone."""
        return f"{self.name} ({self.place})" if self.place else self.name


def frame_of_line(row: Mapping[str, object], code: str = "") -> Frame:
    """Return a row of ``lines`` as a frame."""
    file = str(row["file"]).replace("\\", "/").rpartition("/")[2] or str(row["file"])
    kind = "library" if row.get("user_code") is False else "user"
    return Frame(clean(cut(str(row["function"] or file))), clean(cut(f"{file}:{row['line']}")), kind, clean(cut(code)))
