"""Machine code as text: which instruction is on which line, and from which line of the source it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.code import (
    Chain,
    CodeRows,
    is_same_file,
    line_map,
    sass_offsets,
    type_entries,
    with_own_file,
)
from kernelscope.analysis.columns import Ints, json_object
from kernelscope.schema import UNKNOWN


def instruction_text(line: str) -> str:
    """Return the instruction of a line of SASS."""
    return line.partition("*/")[2].strip().rstrip(";").strip()


@dataclass(frozen=True)
class SassLines:
    """The instructions of a function's SASS, and the lines of the source that they came from.

    Attributes
    ----------
    lines : dict of int to int
        By an instruction's offset its line in the text, from 0.
    chains : tuple of Chain
        Distinct places, an inlined function's first; the kernel's own file has no name.
    ties : list of int
        For each line of the text its place, an index into `chains`; -1 for none.
    """

    lines: dict[int, int]
    chains: tuple[Chain, ...]
    ties: list[int]

    @classmethod
    def of(cls, text: str, entry: str, dispatcher: Mapping[str, Any] | None) -> SassLines:
        """Read SASS as a recording holds it."""
        found = line_map("sass", text)
        return cls(sass_offsets(text, entry), with_own_file(found, (dispatcher or {}).get("filename")), found.chain)

    def places(self, offsets: Ints) -> Ints:
        """Return the place of each instruction, an index into `chains`; -1 for none."""
        return np.array([self.ties[self.lines[each]] if each in self.lines else UNKNOWN for each in offsets.tolist()],
                        np.int64)


def source_lines(code: CodeRows, dispatcher_id: int, specializations: list[int]) -> dict[tuple[str, int], str]:
    """Return the lines of a kernel's source and of the functions that it calls, by file and number, where recorded.

    The kernel's own file has no name.
    """
    found: dict[tuple[str, int], str] = {}
    for number in specializations[:1]:
        source, called = (code.row(dispatcher_id, number, kind) for kind in ("source", "functions"))
        own = None if source is None else json_object(source["attributes"]).get("file")
        for each in type_entries(called["text"]) if called is not None else []:
            file, first, text = each.get("file"), each.get("lineno"), each.get("text")
            if isinstance(file, str) and isinstance(first, int) and isinstance(text, str):
                name = "" if is_same_file(file, own) else file
                found |= {(name, first + at): line.strip() for at, line in enumerate(text.split("\n"))}
        if source is not None:
            first = source["lineno"] or 1
            found |= {("", first + at): line.strip() for at, line in enumerate(str(source["text"]).split("\n"))}
    return found
