"""The source of a recorded cell as code that can be run again, in IPython as IPython would."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from kernelscope.errors import GraphError, UnknownCellError
from kernelscope.recording.select import select_cell

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

_HEADING = "%%kernelscope"
_FRAMEWORK = "numba-cuda"


@dataclass(frozen=True)
class CellSource:
    """A cell's source.

    Attributes
    ----------
    label : str
        What to call the cell.
    code : CodeType
        Its code; line numbers are those of the cell.
    """

    label: str
    code: CodeType


def prepared(recording: Recording, cell: int | str | None) -> CellSource:
    """Find a cell in a recording and compile its source.

    Parameters
    ----------
    recording : Recording
        Where to look.
    cell : int or str, optional
        Its execution count or name; the last one without.

    Raises
    ------
    UnknownCellError
        There is no such cell; the message lists those that there are.
    GraphError
        Its source is not there, or cannot be run again; or it launched what a re-run cannot follow.
    """
    row = _row(recording.rows("cells"), cell)
    label = _label(row)
    source = row["source"]
    if not source:
        raise GraphError(f"{label} cannot be run again: the recording does not have its source")
    _check_frameworks(select_cell(recording, row["cell_id"]), label)
    return CellSource(label, _compiled(str(source), label, row["execution_count"]))


def _row(rows: Sequence[dict[str, Any]], cell: int | str | None) -> dict[str, Any]:
    fitting = [row for row in rows if cell is None or str(cell) in (str(row["execution_count"]), row["name"])]
    if not fitting:
        known = ", ".join(_label(row) for row in rows) or "none"
        raise UnknownCellError(f"no recorded cell {cell!r}; known: {known}" if rows else "the recording has no cell")
    return fitting[-1]


def _label(row: dict[str, Any]) -> str:
    if row["execution_count"] is not None:
        return f"cell {row['execution_count']}"
    return "the cell" if row["name"] is None else f"the cell {row['name']!r}"


def _check_frameworks(recording: Recording, label: str) -> None:
    """Refuse cells whose kernels are not all numba's: the others would be in neither way, and results could differ."""
    framework = {row["dispatcher_id"]: row["framework"] for row in recording.rows("dispatchers")}
    others = {framework.get(row["dispatcher_id"]) for row in recording.rows("launches")} - {_FRAMEWORK, None}
    if others:
        raise GraphError(f"{label} cannot be compared: it launched kernels of {', '.join(sorted(map(str, others)))}, "
                         "and only launches of numba-cuda can be repeated")
    if not recording.arrow("launches").num_rows:
        raise GraphError(f"{label} cannot be a graph: it launched nothing")
    foreign = [row["name"] for row in recording.rows("activities")
               if row["kind"] == "kernel" and row["launch_id"] is None]
    if foreign:
        raise GraphError(f"{label} cannot be compared: {len(foreign):,} of its kernels were launched by other "
                         f"libraries or by a graph (the first is {foreign[0]!r}), and only launches of numba-cuda can "
                         "be repeated")


def _compiled(source: str, label: str, number: int | None) -> CodeType:
    lines = source.splitlines(keepends=True)
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].strip().split(" ")[0] == _HEADING:
        lines[first] = "\n"  # numbers of lines stay
    text = "".join(lines)
    following = next((line for line in lines if line.strip()), "")
    if following.startswith("%%"):
        raise GraphError(f"{label} cannot be run again: it begins with the cell magic {following.split()[0]!r}")
    text, name = _named(text, label, number)
    try:
        code = compile(text, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        raise GraphError(f"{label} cannot be run again: line {error.lineno} is no Python ({error.msg})") from None
    if code.co_flags & inspect.CO_COROUTINE:
        raise GraphError(f"{label} cannot be run again: it awaits at its top level")
    return code


def _named(text: str, label: str, number: int | None) -> tuple[str, str]:
    """The source as Python, and the name under which tracebacks and numba's disk cache find it."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None:
        python = shell.transform_cell(text)
        return python, shell.compile.cache(python, number or 0, raw_code=text)
    name = f"<{label}, run again>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return text, name
