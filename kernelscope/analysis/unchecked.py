"""Launches whose arguments are of other types than the only signature of their kernel, which numba-cuda does not check.

The probe notes them with the specialization: see `kernelscope.probes.numba_cuda.declared`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelscope.analysis.columns import items, json_object, launch_counts, mapping, rows_at
from kernelscope.analysis.signatures import argument_name, argument_names, short_type
from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class UncheckedLaunches:
    """Launches of one kernel that passed an argument of another type than the declared one.

    Attributes
    ----------
    name : str
        The kernel's qualified name.
    argument : str or None
        The argument's Python name; None where the number of arguments differs.
    declared, passed : str
        Both types, in short.
    launches : int
        How many launches did so.
    fix : str
        What to do.
    """

    name: str
    argument: str | None
    declared: str
    passed: str
    launches: int
    fix: str


def unchecked_launches(recording: Recording) -> list[UncheckedLaunches]:
    """Return launches by what they passed for what, most launches first."""
    launched = launch_counts(recording)
    rows = [row for row in recording.rows("specializations")
            if "unchecked" in (row["attributes"] or "") and row["specialization_id"] in launched]
    dispatchers = rows_at(recording, "dispatchers", [row["dispatcher_id"] for row in rows])
    found: list[UncheckedLaunches] = []
    for row in rows:
        kernel = dispatchers[row["dispatcher_id"]]
        for each in map(mapping, items(json_object(row["attributes"]).get("unchecked"))):
            position, launches = each.get("position"), each.get("launches")
            if isinstance(position, int) and isinstance(launches, int):
                names = argument_names(kernel["arguments"])
                argument = None if position < 0 else argument_name(names, position)
                declared, passed = short_type(str(each.get("declared"))), short_type(str(each.get("passed")))
                found.append(UncheckedLaunches(str(kernel["name"]), argument, declared, passed, launches,
                                               _fix(argument, declared, passed)))
    return sorted(found, key=lambda each: -each.launches)


def _fix(argument: str | None, declared: str, passed: str) -> str:
    if argument is None:
        return f"pass {declared}"
    if passed == "an integer that it does not hold":
        return f"declare `{argument}` as a wider integer, such as int64"
    return (f"pass `{argument}` as {declared}, or declare all signatures in a list, as in @cuda.jit([...]), which "
            "numba-cuda does check")
