"""The source of a recorded cell, compiled to run it again."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kernelscope.errors import GraphError, UnknownCellError
from kernelscope.suggestions import did_you_mean
from kernelscope.units import counted

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


_HEADING = "%%kernelscope"
_FRAMEWORK = "numba-cuda"
_LOOKED_AT = ("kind", "name", "specialization_id", "cupti_graph_id")


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
    """Find a cell in a recording and compile its source; nothing of it runs.

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
    _check_frameworks(recording, row["cell_id"], label)
    return CellSource(label, _compiled(str(source), label, row["execution_count"]))


def _row(rows: Sequence[dict[str, Any]], cell: int | str | None) -> dict[str, Any]:
    fitting = [row for row in rows if cell is None or str(cell) in (str(row["execution_count"]), row["name"])]
    if not fitting:
        known = ", ".join(_label(row) for row in rows) or "none"
        near = did_you_mean(str(cell), [row["name"] for row in rows if row["name"]])
        raise UnknownCellError(
            f"no recorded cell {cell!r}; known: {known}{near}" if rows else "the recording has no cell")
    return fitting[-1]


def _label(row: dict[str, Any]) -> str:
    if row["execution_count"] is not None:
        return f"cell {row['execution_count']}"
    return "the cell" if row["name"] is None else f"the cell {row['name']!r}"


def _check_frameworks(recording: Recording, cell_id: int, label: str) -> None:
    """Refuse cells whose kernels are not all numba's: the others would be in neither way, and results could differ."""
    framework = {row["dispatcher_id"]: row["framework"] for row in recording.rows("dispatchers")}
    launches = _of_cell(recording, "launches", cell_id)
    others = {framework.get(each) for each in launches["dispatcher_id"].unique().to_pylist()} - {_FRAMEWORK, None}
    if others:
        raise GraphError(f"{label} cannot be compared: it launched kernels of {', '.join(sorted(map(str, others)))}, "
                         "and only launches of numba-cuda can be repeated")
    captured = launches.num_rows - launches["capture_event_id"].null_count
    if captured:
        raise GraphError(f"{label} cannot be compared: {counted(captured, 'launch', 'launches')} of it went into a "
                         "graph that its code captures itself")
    replayed = _of_cell(recording, "graph_events", cell_id)["kind"].to_pylist().count("launch")
    if replayed:
        raise GraphError(f"{label} cannot be compared: it launched graphs ({counted(replayed, 'launch', 'launches')}), "
                         "and only launches of numba-cuda can be repeated")
    if not launches.num_rows:
        raise GraphError(f"{label} cannot be a graph: it launched nothing")
    activities = _of_cell(recording, "activities", cell_id)
    unclaimed = activities.filter(pc.call_function("is_null", [activities["launch_id"]]))
    # A kernel that numba compiled is numba's launch even where it was not joined to one; in a graph it is not.
    foreign = [row["name"] for row in unclaimed.select(list(_LOOKED_AT)).to_pylist()
               if row["kind"] == "kernel" and (row["specialization_id"] is None or row["cupti_graph_id"] is not None)]
    if foreign:
        of_others = counted(len(foreign), "kernel of it was", "kernels of it were")
        raise GraphError(f"{label} cannot be compared: {of_others} launched by other libraries or by a graph (the "
                         f"first is {foreign[0]!r}), and only launches of numba-cuda can be repeated")


def _of_cell(recording: Recording, table: str, cell_id: int) -> Any:
    """Return a table's rows of one cell, as a `pyarrow.Table`."""
    rows = recording.arrow(table)
    return rows.filter(pc.call_function("equal", [rows["cell_id"], cell_id]))


def _compiled(source: str, label: str, number: int | None) -> CodeType:
    lines = source.splitlines(keepends=True)
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].strip().split(" ")[0] == _HEADING:
        lines[first] = "#\n"  # numbers of lines stay; IPython would take an empty one away
    text = "".join(lines)
    following = next((line for line in lines if line.strip() not in ("", "#")), "")
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
    """Return the source as Python, and the name under which tracebacks and numba's disk cache find it."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None:
        python = shell.transform_cell(text)
        return python, shell.compile.cache(python, number or 0, raw_code=text)
    name = f"<{label}, run again>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return text, name
