"""Compiles that repeat: an argument of many types, a kernel that is defined again and again, the same code twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.advice import Advice, cut, listed
from kernelscope.analysis.arguments import argument_name, argument_names
from kernelscope.analysis.columns import json_object, owner_of
from kernelscope.analysis.reason_words import short
from kernelscope.analysis.signatures import parse_signature
from kernelscope.analysis.units import counted, duration
from kernelscope.recording.model import Recording

#: An argument of more types than this is worth a word.
FEW_TYPES = 3
#: So many types, and so many places, are listed.
_LISTED = 4

_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Churn:
    """Compiles of one kind that repeat.

    Attributes
    ----------
    code : str
        ``argument_types``, ``recreated`` or ``same_code``.
    dispatchers : tuple of int
        The kernel, or all that have the same code.
    argument : str
        Of ``argument_types`` the argument's Python name, else empty.
    types : tuple of str
        Of ``argument_types`` the argument's types in order, as numba prints them.
    compiles : int
        Compiles in this recording that it is about.
    spent_ns : int
        What they took.
    cells : int
        In how many runs of cells they happened; 0 outside of cells.
    """

    code: str
    dispatchers: tuple[int, ...]
    argument: str
    types: tuple[str, ...]
    compiles: int
    spent_ns: int
    cells: int


def find_churn(recording: Recording) -> list[Churn]:
    """Return the compiles that repeat; one entry for each kernel's worst argument and for each repeated definition."""
    made = [row for row in recording.rows("compilations") if row["outcome"] == "compiled" and row["end_ns"] is not None]
    if not made:
        return []
    dispatchers = recording.rows("dispatchers")
    by_dispatcher: dict[int, list[_Row]] = {}
    for row in made:
        by_dispatcher.setdefault(row["dispatcher_id"], []).append(row)
    before: dict[int, list[str]] = {}
    for row in recording.rows("specializations"):
        if row["origin"] != "compiled":
            before.setdefault(row["dispatcher_id"], []).append(row["signature"])
    found = [
        each for dispatcher, rows in by_dispatcher.items()
        if (each := _argument_types(dispatchers[dispatcher], rows, before.get(dispatcher, []))) is not None
    ]
    return [*found, *_repeated_definitions(dispatchers, by_dispatcher)]


def churn_advice(recording: Recording) -> list[Advice]:
    """Return a line of advice for each of `find_churn`."""
    dispatchers = recording.rows("dispatchers")
    words = {"argument_types": _many_types, "recreated": _recreated, "same_code": _same_code}
    return [
        Advice(each.code, dispatchers[each.dispatchers[0]]["name"], words[each.code](each, dispatchers),
               float(each.spent_ns))
        for each in find_churn(recording)
    ]


def _argument_types(dispatcher: _Row, rows: Sequence[_Row], before: Iterable[str]) -> Churn | None:
    """The argument in which alone most specializations of a kernel differ, if they are more than a few."""
    texts = [*before]
    for row in rows:
        texts += [str(each) for each in json_object(row["attributes"]).get("known_signatures") or ()]
    texts += [row["signature"] for row in rows]
    groups: dict[tuple[int, tuple[str, ...]], dict[str, str]] = {}
    for signature in dict.fromkeys(texts):
        types = tuple(kind.text for kind in parse_signature(signature))
        for at, kind in enumerate(types):
            groups.setdefault((at, (*types[:at], "", *types[at + 1:])), {})[kind] = signature
    if not groups:
        return None
    (position, _), types = max(groups.items(), key=lambda each: len(each[1]))
    if len(types) <= FEW_TYPES:
        return None
    # One compile of each: what forall compiled once more has nothing to do with it.
    signatures = set(types.values())
    about = list({row["signature"]: row for row in reversed(rows) if row["signature"] in signatures}.values())
    if not about:
        return None
    name = argument_name(argument_names(dispatcher["arguments"]), position)
    return _churn("argument_types", (dispatcher["dispatcher_id"],), about, name, tuple(types))


def _repeated_definitions(dispatchers: Sequence[_Row], by_dispatcher: Mapping[int, Sequence[_Row]]) -> list[Churn]:
    """Dispatchers of the same code, each of which compiled the same types."""
    groups: dict[Any, list[_Row]] = {}
    for row in dispatchers:
        if row["dispatcher_id"] in by_dispatcher:
            same = row["code_sha256"] or (row["module"], row["name"], row["filename"], row["lineno"])
            groups.setdefault((row["framework"], same), []).append(row)
    found: list[Churn] = []
    for members in groups.values():
        numbers = tuple(row["dispatcher_id"] for row in members)
        asked = [row for number in numbers for row in by_dispatcher[number]]
        owners: dict[str, set[Any]] = {}
        for row in asked:
            # A second dispatcher of one function is no row of its own.
            again = json_object(row["attributes"]).get("another_dispatcher")
            owner = (row["dispatcher_id"], row["compilation_id"] if again else None)
            owners.setdefault(row["signature"], set()).add(owner)
        repeated = [row for row in asked if len(owners[row["signature"]]) > 1]
        if repeated:
            places = {(row["module"], row["name"], row["options"]) for row in members}
            if len(places) > 1 and owner_of(members[0]) == "library":
                continue  # it is not the user's to have one definition of both
            found.append(_churn("recreated" if len(places) == 1 else "same_code", numbers, repeated))
    return found


def _churn(code: str, dispatchers: tuple[int, ...], rows: Sequence[_Row], argument: str = "",
           types: tuple[str, ...] = ()) -> Churn:
    cells = {row["cell_id"] for row in rows if row["cell_id"] is not None}
    spent = sum(row["end_ns"] - row["start_ns"] for row in rows)
    return Churn(code, dispatchers, argument, types, len(rows), spent, len(cells))


def _many_types(churn: Churn, dispatchers: Sequence[_Row]) -> str:
    kernel = dispatchers[churn.dispatchers[0]]
    shown = [short(kind) for text in churn.types[:_LISTED] for kind in parse_signature(f"({text},)")]
    more = f" and {len(churn.types) - _LISTED} more" if len(churn.types) > _LISTED else ""
    name = churn.argument if churn.argument.startswith("argument ") else f"argument `{cut(churn.argument)}`"
    return (
        f"{name} of {cut(kernel['name'])} took {len(churn.types):,} types while all others stayed as they were "
        f"({', '.join(shown)}{more}): {counted(churn.compiles, 'compile')}, {duration(churn.spent_ns)} in all. Pass it "
        "as one type."
    )


#: What spares the kernels that numba-cuda defines anew in each call.
_INSTEAD = {"numba.cuda.kernels.transpose": "transpose on the host, or keep what .T of a device array returns"}


def _recreated(churn: Churn, dispatchers: Sequence[_Row]) -> str:
    kernel = dispatchers[churn.dispatchers[0]]
    spent = f"{counted(churn.compiles, 'compile')}, {duration(churn.spent_ns)} in all"
    owner = owner_of(kernel)
    if owner == "library":
        instead = _INSTEAD.get(str(kernel["module"]), "keep what the library returned instead of calling it again")
        return (
            f"{cut(kernel['name'])} of {kernel['module']} was defined again with the same code, and compiled again for "
            f"the same types: {spent}. It is the library's own kernel: {instead}."
        )
    if churn.cells > 1:
        where, remedy = f", in {churn.cells:,} runs of cells", "keep it out of the cell that is run again"
    else:
        where, remedy = "", "keep the definition out of the loop or function that runs again"
    name = json_object(kernel["attributes"]).get("function") or kernel["name"]
    passed = ", and pass what it captures as arguments" if owner in (None, "user") else ""
    return (
        f"{cut(name)} was defined again with the same code{where}, and compiled again for the same types: {spent}. "
        f"Define it once: {remedy}{passed}."
    )


def _same_code(churn: Churn, dispatchers: Sequence[_Row]) -> str:
    rows = [dispatchers[number] for number in churn.dispatchers]
    names = list(dict.fromkeys(str(row["name"]) for row in rows))
    options = list(dict.fromkeys(row["options"] or "none" for row in rows))
    what = f"{listed(names)} have the same code" if len(names) > 1 else (
        f"{cut(names[0])} has the same code in {len(rows)} dispatchers")
    if len(options) > 1:
        what += " with different options"
    return (
        f"{what}, each compiled for the same types: {counted(churn.compiles, 'compile')}, {duration(churn.spent_ns)} "
        "in all. One definition that all launches use would need fewer."
    )
