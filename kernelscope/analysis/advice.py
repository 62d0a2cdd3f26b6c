"""Advice: one line each, with the numbers that prove it. What the data does not prove is not said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelscope.analysis.activities import Spread, distinct, known_id
from kernelscope.analysis.builds import BuildSummary
from kernelscope.analysis.columns import Bools, Ints, codes, ints, json_object, matches, owner_of, ran
from kernelscope.analysis.compiles import CompilationSummary, short
from kernelscope.analysis.gpu import LAUNCHING, GpuSummary
from kernelscope.analysis.graphs import Executable, GraphSummary
from kernelscope.analysis.launches import WARP, KernelSummary, LaunchPhases, launch_phases, long_ones
from kernelscope.analysis.signatures import argument_name, argument_names, parse_signature
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, duration, percent, size

#: As many launches as a round has at most.
LONGEST_ROUND = 32
#: So many rounds are plainly a loop.
LEAST_ROUNDS = 20
#: The first launches of a thread in a cell show what its loop is.
_MOST_LAUNCHES = 1 << 16


@dataclass(frozen=True)
class Repetition:
    """Rounds of the same launches, one after another on one thread in one cell.

    Rounds that took more than `kernelscope.analysis.launches.LONG` times the median waited for something, and are
    summed by themselves.

    Attributes
    ----------
    dispatchers : tuple of int
        The kernels of one round, in order: rows of ``dispatchers``.
    rounds : int
        How many there were, the last one whole.
    cell_id : int or None
        The cell; None between cells.
    usual_rounds : int
        How many of the rounds were not long.
    usual_ns : int
        Host time in their launches, without compiles.
    long_ns : int
        The same of the long ones.
    """

    dispatchers: tuple[int, ...]
    rounds: int
    cell_id: int | None
    usual_rounds: int
    usual_ns: int
    long_ns: int


def repetition(recording: Recording, phases: LaunchPhases | None = None) -> Repetition | None:
    """Return the longest stretch of rounds of at least two launches each; None where there is no plain loop.

    Launches are the same that have one kernel, one specialization and one launch configuration. Those inside others and
    those that were captured into a graph are not looked at.
    """
    phases = phases or launch_phases(recording)
    outer = ran(recording) & (ints(recording, "launches", "parent_launch_id") < 0)
    thread, cell = (ints(recording, "launches", name) for name in ("thread_id", "cell_id"))
    best: Repetition | None = None
    for within in distinct(cell[outer]):
        mine = outer & (cell == within)
        for on in distinct(thread[mine]):
            rows = np.flatnonzero(mine & (thread == on))[:_MOST_LAUNCHES]
            found = _on_one_thread(recording, phases, rows, known_id(within))
            if found is not None and (best is None or found.usual_ns > best.usual_ns):
                best = found
    return best


def plain_loop(keys: Ints) -> tuple[int, int, int] | None:
    """Return `longest_rounds` where they are plainly a loop of at least two launches a round, else None."""
    begin, size, rounds = longest_rounds(keys)
    return None if size < 2 or rounds < LEAST_ROUNDS else (begin, size, rounds)


def longest_rounds(keys: Ints) -> tuple[int, int, int]:
    """Return where the longest stretch of rounds begins, how long a round is, and how many whole ones there are.

    The shortest round is taken that explains as many launches as any; no rounds are all zeros.
    """
    found, most = (0, 0, 0), 0
    for length in range(1, min(LONGEST_ROUND, len(keys) // 2) + 1):
        breaks = np.flatnonzero(keys[length:] != keys[:-length])
        edges = np.concatenate(([-1], breaks, [len(keys) - length]))
        lengths = np.diff(edges) - 1
        at = int(np.argmax(lengths))
        covered = int(lengths[at]) + length if lengths[at] >= length else 0
        # A multiple of the true round explains no more than the round itself but for the rest of a round.
        if covered > most + (found[1] if found[1] and length % found[1] == 0 else 0):
            most, found = covered, (int(edges[at]) + 1, length, covered // length)
    return found


def _on_one_thread(recording: Recording, phases: LaunchPhases, rows: Ints, cell: int | None) -> Repetition | None:
    if len(rows) < 2 * LEAST_ROUNDS:
        return None
    columns = [ints(recording, "launches", name)[rows]
               for name in ("dispatcher_id", "specialization_id", "configuration_id")]
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        keys = keys * (int(column.max()) + 2) + column + 1
    loop = plain_loop(keys)
    if loop is None:
        return None
    begin, size, rounds = loop
    chosen = rows[begin:begin + size * rounds].reshape(rounds, size)
    host = phases.host_ns[chosen] - np.maximum(phases.phases["compile"][chosen], 0)
    if bool((phases.host_ns[chosen] < 0).any()):
        return None
    spent = host.sum(axis=1)
    dispatcher = ints(recording, "launches", "dispatcher_id")[chosen[0]]
    long = long_ones(np.zeros(rounds, dtype=np.int64), spent, 1)
    long_ns = int(spent[long].sum())
    return Repetition(tuple(dispatcher.tolist()), rounds, cell, rounds - len(long), int(spent.sum()) - long_ns, long_ns)


# Compiles that repeat: an argument of many types, a kernel that is defined again and again, the same code twice.

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
    words = {"argument_types": _many_types, "recreated": _recreated, "same_code": _compiled_twice}
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


def _compiled_twice(churn: Churn, dispatchers: Sequence[_Row]) -> str:
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


# Quadrants' graph kernels: which launches were one graph launch, and which fell back to plain launches, and why.
#
# A kernel with ``graph=True`` runs without a graph where its backend makes none, and says nothing. A launch fell
# back if no graph launch was made inside of it, and its specialization was seen to: where graphs could not be
# watched, nothing is said.

_FRAMEWORK = "quadrants"


@dataclass(frozen=True)
class GraphKernel:
    """A Quadrants kernel with ``graph=True``.

    Attributes
    ----------
    dispatcher_id : int
        The kernel's row.
    name : str
        Its qualified name.
    launches : int
        Its launches that raised nothing.
    replayed, plain : int
        How many of them were a graph launch, and how many fell back to plain launches.
    plain_ns : int
        Host time of those.
    because : tuple of str
        Why they fell back, each reason once.
    loops : int
        ``qd.graph.do_while`` loops of it, over all nestings.
    """

    dispatcher_id: int
    name: str
    launches: int
    replayed: int
    plain: int
    plain_ns: int
    because: tuple[str, ...]
    loops: int


def graph_kernels(recording: Recording) -> list[GraphKernel]:
    """Return the recording's Quadrants kernels with ``graph=True`` that were launched, in order of their rows."""
    asked = [row for row in recording.rows("dispatchers")
             if row["framework"] == _FRAMEWORK and json_object(row["options"]).get("graph")]
    if not asked:
        return []
    launched, specialization = ints(recording, "launches", "dispatcher_id"), ints(
        recording, "launches", "specialization_id")
    start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
    fine = codes(recording, "launches", "error")[0] == UNKNOWN
    replayed = _around_graph_launches(recording, start, end)
    held: dict[int, dict[str, Any]] = {
        row["specialization_id"]: json_object(row["attributes"]) for row in recording.rows("specializations")}
    fell_back = np.array(sorted(number for number, each in held.items() if each.get("plain_because")), dtype=np.int64)
    found: list[GraphKernel] = []
    for row in asked:
        mine = fine & (launched == row["dispatcher_id"])
        if not mine.any():
            continue
        plain = mine & ~replayed & np.isin(specialization, fell_back)
        facts = [held[number] for number in np.unique(specialization[mine]).tolist() if number in held]
        reasons = [held[number]["plain_because"] for number in np.unique(specialization[plain]).tolist()]
        found.append(GraphKernel(
            row["dispatcher_id"], row["name"], int(mine.sum()), int((mine & replayed).sum()), int(plain.sum()),
            int((end - start)[plain].sum()), tuple(dict.fromkeys(map(str, reasons))),
            max((len(each.get("do_while") or ()) for each in facts), default=0)))
    return found


def plain_launch_advice(recording: Recording) -> list[Advice]:
    """Return a line of advice for each graph kernel that fell back to plain launches."""
    return [Advice("graph_fell_back", each.name, _text(each), float(each.plain_ns))
            for each in graph_kernels(recording) if each.plain]


def _text(kernel: GraphKernel) -> str:
    launches = counted(kernel.launches, "launch", "launches")
    text = (f"{kernel.plain:,} of {launches} of {cut(kernel.name)}, a graph kernel, fell back to plain launches, "
            f"{duration(kernel.plain_ns)} in all: {'; '.join(kernel.because)}.")
    if kernel.loops:
        loops = counted(kernel.loops, "qd.graph.do_while loop")
        text += f" Its {loops} went through the host, which waits for the flag after each turn."
    return text


def _around_graph_launches(recording: Recording, start: Ints, end: Ints) -> Bools:
    """Which launches have a graph launch of their thread inside of them."""
    found = np.zeros(len(start), dtype=bool)
    thread = ints(recording, "launches", "thread_id")
    launches = matches(recording, "graph_events", "kind", "launch")
    when, whose = (ints(recording, "graph_events", name)[launches] for name in ("start_ns", "thread_id"))
    for number in np.unique(whose).tolist():
        times = np.sort(when[whose == number])
        mine = np.flatnonzero(thread == number)
        found[mine] = np.searchsorted(times, start[mine]) < np.searchsorted(times, end[mine], side="right")
    return found


# Advice on graphs and build caches: what was built for nothing, and what could be launched as a graph.

#: Of a library's cache: only the operator's name differs from what was built before.
OPERATOR_NAME = "new_operator_name"
#: Time that a graph which is launched once must have cost to be worth a word.
WORTH_NS = 100_000

_FEW_CHANGES = 3
_DIFFERS = {
    "arguments": "arguments had changed", "configuration": "launch configurations or sizes had",
    "topology": "nodes or edges had",
}


def graph_advice(
    graphs: Sequence[GraphSummary],
    made: Sequence[Executable],
    builds: Sequence[BuildSummary],
    cells: Mapping[int, str],
    loop: Repetition | None = None,
    dispatchers: Sequence[Mapping[str, Any]] = (),
    loop_cell: str = "",
    wall_ns: int | None = None,
    gpu: GpuSummary | None = None,
) -> list[Advice]:
    """Return the advice that the data proves.

    Parameters
    ----------
    graphs, made, builds
        What `by_topology`, `executables` and `by_algorithm` return.
    cells : mapping of int to str
        What to call each cell, by its id.
    loop : Repetition, optional
        What `repetition` returns.
    dispatchers : sequence of mapping
        The rows of ``dispatchers``.
    loop_cell : str
        The loop's cell as ``%kernelscope whatif graph`` takes it; empty where it has neither a number nor a name.
    wall_ns : int, optional
        The cells' wall time.
    gpu : GpuSummary, optional
        What `gpu_summary` returns, where the GPU was recorded.
    """
    found: list[Advice] = []
    owner = {graph: at for at, each in enumerate(graphs) for graph in each.graph_ids}
    mine: dict[int, list[Executable]] = {}
    for each in made:
        if each.graph_id is not None and each.build_ns is not None and each.graph_id in owner:
            mine.setdefault(owner[each.graph_id], []).append(each)
    for at, graph in enumerate(graphs):
        rebuilt = _rebuilt(graph, cells)
        found += rebuilt or _launched_once(graph, mine.get(at, []))
        found += [*_unlaunched(graph, mine.get(at, [])), *_refused(graph)]
    return [*found, *_operator_names(builds), *_repeated_sequence(loop, dispatchers, loop_cell, wall_ns, gpu)]


def _rebuilt(graph: GraphSummary, cells: Mapping[int, str]) -> list[Advice]:
    count = sum(graph.replaced.values())
    if count < 2 or graph.build is None:
        return []
    what: list[str] = []
    if graph.replaced.get("none"):
        what.append(f"{_times(graph.replaced['none'])} nothing had changed, so reuse the executable graph")
    others = [change for change in graph.replaced if change in _DIFFERS]
    if others:
        how = ", ".join(f"{_times(graph.replaced[change])} {_DIFFERS[change]}" for change in others)
        took = f" ({_updates(graph.update)})" if graph.update else ""
        what.append(f"{how}{_named(graph.changes)}, so update it{took}")
    text = (
        f"{_where(graph, cells)} instantiated one topology ({graph.name}, {counted(graph.nodes or 0, 'node')}) "
        f"{graph.builds:,} times, {duration(graph.build.total_ns)} in all; {count:,} of them, "
        f"{duration(graph.replaced_ns)}, replaced an executable graph: {'; '.join(what)}."
    )
    return [Advice("rebuilt_graph", graph.name, text, float(graph.replaced_ns))]


def _updates(spread: Spread) -> str:
    average = "" if spread.count == 1 else f", {duration(spread.mean_ns)} each on average"
    return f"{counted(spread.count, 'update')} here took {duration(spread.total_ns)}{average}"


def _where(graph: GraphSummary, cells: Mapping[int, str]) -> str:
    if len(cells) < 2 and len(graph.cells) == 1:
        return "this cell"
    if len(graph.cells) == 1:
        return cut(cells.get(graph.cells[0], "a cell"))
    return counted(len(graph.cells), "cell") if graph.cells else "code between cells"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _named(changes: Sequence[str]) -> str:
    if not changes:
        return ""
    more = f" and {len(changes) - _FEW_CHANGES:,} more" if len(changes) > _FEW_CHANGES else ""
    return f" ({', '.join(changes[:_FEW_CHANGES])}{more})"


def _launched_once(graph: GraphSummary, made: Sequence[Executable]) -> list[Advice]:
    """Executable graphs of which all that became is known: they were closed."""
    once = [each for each in made if each.is_closed and each.launches == 1]
    spent = sum(each.build_ns or 0 for each in once)
    if not once or spent < WORTH_NS or graph.launch is None:
        return []
    took = [f"a capture {duration(graph.capture.mean_ns)}"] if graph.capture is not None else []
    took.append(f"a launch {duration(graph.launch.mean_ns)} on the host")
    if graph.execute is not None:
        took.append(f"{duration(graph.execute.mean_ns)} on the GPU")
    many = " in all; on average" if len(once) > 1 or graph.launch.count > 1 else ","
    how = "was" if len(once) == 1 else f"was {len(once):,} times"
    text = (
        f"{graph.name} ({counted(graph.nodes or 0, 'node')}) {how} instantiated, launched once and closed: "
        f"instantiating took {duration(spent)}{many} {', '.join(took)}. A graph saves time only where it is launched "
        "again."
    )
    return [Advice("graph_launched_once", graph.name, text, float(spent))]


def _unlaunched(graph: GraphSummary, made: Sequence[Executable]) -> list[Advice]:
    never = [each for each in made if each.is_closed and not each.launches]
    if not never:
        return []
    spent = sum(each.build_ns or 0 for each in never)
    text = (
        f"{graph.name} ({counted(graph.nodes or 0, 'node')}) was instantiated {_times(len(never))} and closed without "
        f"a launch, {duration(spent)} in all: instantiate it where it is needed."
    )
    return [Advice("unlaunched_graph", graph.name, text, float(spent))]


def _refused(graph: GraphSummary) -> list[Advice]:
    if not graph.refused:
        return []
    total = " in all" if graph.refused > 1 else ""
    took = "" if graph.refusal is None else f", {duration(graph.refusal.total_ns)}{total}"
    text = (
        f"{counted(graph.refused, 'update')} of {graph.name} {'was' if graph.refused == 1 else 'were'} refused by the "
        f"driver{took}: an update can change arguments, launch configurations and sizes. Where nodes or edges change, "
        "instantiate without trying."
    )
    return [Advice("refused_updates", graph.name, text, float(graph.refusal.total_ns if graph.refusal else 0))]


def _operator_names(builds: Sequence[BuildSummary]) -> list[Advice]:
    found: list[Advice] = []
    for each in builds:
        named = [miss for miss in each.not_hits if miss.outcome == "miss" and miss.reason_code == OPERATOR_NAME]
        spent = sum(miss.duration_ns or 0 for miss in named)
        if named:
            text = (
                f"{cut(each.algorithm)} was built {counted(len(named), 'more time')} for an operator's name alone, "
                f"{duration(spent)} in all: {cut(each.framework)} keeps what it built by the operator's name too. "
                "Define the operator once, under one name."
            )
            found.append(Advice("operator_names", each.algorithm, text, float(spent)))
    return found


def _repeated_sequence(
    loop: Repetition | None, dispatchers: Sequence[Mapping[str, Any]], cell: str, wall_ns: int | None,
    gpu: GpuSummary | None,
) -> list[Advice]:
    """A loop of the same launches that takes much of the time, while the GPU waits for it or was not recorded."""
    if loop is None or not wall_ns or loop.usual_ns < LARGE_SHARE * wall_ns:
        return []
    shares = [] if gpu is None else [each.share for each in gpu.busy if each.share is not None]
    if any(share >= LOW_BUSY for share in shares):
        return []
    rows = [dispatchers[at] for at in loop.dispatchers]
    kernels = listed(list(dict.fromkeys(str(row["name"]) for row in rows)))
    long = loop.rounds - loop.usual_rounds
    spent = (f"{duration(loop.usual_ns)} of host time, {percent(loop.usual_ns / wall_ns)} of the wall time and "
             f"{duration(loop.usual_ns / loop.usual_rounds)} a round on average")
    if long:
        spent = (f"{loop.usual_rounds:,} of the rounds took {spent}; {counted(long, 'longer one')}, "
                 f"{duration(loop.long_ns)} in all, waited for something that a graph need not spare")
    # Launches of other frameworks cannot be made again.
    measured = f": %kernelscope whatif graph{f' {cell}' if cell else ''} measures what that would save" if all(
        row["framework"] == "numba-cuda" for row in rows) else ""
    text = (f"the same {len(rows):,} launches ({kernels}) were made {loop.rounds:,} times one after another: {spent}. "
            f"As a CUDA graph a round is one launch{measured}.")
    return [Advice("repeated_sequence", "", text, float(loop.usual_ns))]


# Advice: one line each, with the numbers that prove it. What the data does not prove is not said.
#
# The numbers of a line can be multiplied and divided: a share is of a sum that stands beside it, and what one of
# them took is the sum over their count, an average. Launches that took far longer than the others are in a line
# of their own, and in no other sum: what would spare a usual launch does not spare them.

#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000
#: So many launches of one kernel are worth a word on what each of them costs.
MANY_LAUNCHES = 500
#: Launches that take this share of the wall time are what the cell does.
LARGE_SHARE = 0.25
#: A GPU that is busy for less of the time waits for something.
LOW_BUSY = 0.5
#: Copies that take this share of the time are worth a word.
LARGE_COPIES = 0.05
#: A launch that prepares its arguments for this long copies or converts something.
SLOW_PREPARE_NS = 50_000

_NAME = 40
#: What a launch that took long may have done in each phase.
_LONG_IN = {
    "dispatch": "which looks the argument types up and runs Python alone",
    "prepare": "where host arrays are copied in, and a first launch loads its module",
    "submit": "where a launch waits as long as the device's queue is full",
    "finish": "where host arrays are copied back",
}
#: How code is kept on disk, and what makes arrays that need no copy, by framework; others do as numba-cuda does.
_KEEPING, _ON_DEVICE = {"quadrants": "qd.init(offline_cache=True)"}, {"quadrants": "qd.ndarray"}


@dataclass(frozen=True)
class Advice:
    """One line of advice.

    Attributes
    ----------
    code : str
        The rule: argument_types, recreated, same_code, repeated_layouts, repeated_dtypes, repeated_scalars,
        repeated_tuples, launch_configurations, no_disk_cache, launch_bound, many_launches, long_launches,
        pageable_copies, slow_prepare, few_blocks or partial_warps; of graphs and build caches rebuilt_graph,
        unlaunched_graph, graph_launched_once, refused_updates, repeated_sequence, graph_fell_back or operator_names.
    kernel : str
        The kernel, the graph or the algorithm that it is about; empty for several.
    text : str
        What is so, with numbers, and what to do.
    weight_ns : float
        Host time that it is about: advice is sorted by it.
    """

    code: str
    kernel: str
    text: str
    weight_ns: float


def advise(
    kernels: Sequence[KernelSummary],
    compiled: Sequence[CompilationSummary],
    wall_ns: int | None,
    multiprocessors: int | None = None,
    gpu: GpuSummary | None = None,
    churn: Sequence[Advice] = (),
    graphs: Sequence[Advice] = (),
) -> list[Advice]:
    """Return the advice that the data proves, most host time first; one line a rule names the kernels it fits.

    Parameters
    ----------
    kernels, compiled
        What `by_kernel` and `compilations` return.
    wall_ns : int or None
        The cells' wall time.
    multiprocessors : int or None
        Multiprocessors of the one device that was launched on.
    gpu : GpuSummary, optional
        What `gpu_summary` returns, where the GPU was recorded.
    churn : sequence of Advice
        What `kernelscope.analysis.advice.churn_advice` returns.
    graphs : sequence of Advice
        What `kernelscope.analysis.advice.graph_advice` returns.
    """
    named = {each.kernel for each in churn if each.code == "argument_types"}
    # What is said of one argument says more than that dtypes differ.
    repeated = [each for each in _repeated_compiles(compiled)
                if each.kernel not in named or each.code == "launch_configurations"]
    found = [*churn, *graphs, *repeated, *_no_disk_cache(compiled)]
    bound = _launch_bound(kernels, gpu)
    found += [*bound, *_pageable_copies(gpu, kernels)]
    for kernel in kernels:
        # Both say the same, and the one that knows the GPU proves it.
        found += [] if bound else _many_launches(kernel, wall_ns)
        found += _long_launches(kernel, wall_ns)
        found += _slow_prepare(kernel)
        found += _few_blocks(kernel, multiprocessors)
        found += _partial_warps(kernel)
    return _one_a_rule(sorted(found, key=lambda each: (-each.weight_ns, each.code, each.kernel)))


def _one_a_rule(found: Sequence[Advice]) -> list[Advice]:
    """Keep the first advice of each rule, and name the other kernels that it fits."""
    rules: dict[str, list[Advice]] = {}
    for each in found:
        rules.setdefault(each.code, []).append(each)
    kept: list[Advice] = []
    for first, *others in rules.values():
        text = first.text
        if others:
            text += f" The same goes for {listed([each.kernel for each in others])}."
        kept.append(replace(first, text=text))
    return kept


_REPEATED = {
    "new_layout": ("repeated_layouts", "memory layouts", "pass arrays of one layout"),
    "new_dtype": ("repeated_dtypes", "dtypes", "cast its arguments to one dtype before the launch"),
    "new_scalar": ("repeated_scalars", "types of numbers", "pass numbers of one type, such as int(value)"),
    "tuple_arity": ("repeated_tuples", "numbers of elements in a tuple", "pass an array, which takes any number"),
    "launch_config": (
        "launch_configurations", "launch configurations (it is launch-config sensitive)",
        "use fewer distinct grids, blocks and shared-memory sizes",
    ),
}


def _repeated_compiles(compiled: Sequence[CompilationSummary]) -> list[Advice]:
    counts: Counter[tuple[int, str]] = Counter()
    spent: Counter[tuple[int, str]] = Counter()
    names: dict[int, str] = {}
    for each in compiled:
        if each.outcome == "compiled" and each.reason_code in _REPEATED:
            key = (each.dispatcher_id, each.reason_code)
            counts[key] += 1
            spent[key] += each.duration_ns
            names[each.dispatcher_id] = each.name
    found: list[Advice] = []
    for (dispatcher, reason), count in counts.items():
        if count < 2:
            continue
        code, what, remedy = _REPEATED[reason]
        took = duration(spent[dispatcher, reason])
        text = (
            f"{cut(names[dispatcher])} was compiled {counted(count, 'more time')} for other {what}, {took} in all: "
            f"{remedy}."
        )
        found.append(Advice(code, names[dispatcher], text, float(spent[dispatcher, reason])))
    return found


def _no_disk_cache(compiled: Sequence[CompilationSummary]) -> list[Advice]:
    slow = [
        each for each in compiled
        if each.outcome == "compiled" and not each.cached_on_disk and each.duration_ns >= SLOW_COMPILE_NS
        and each.owner in (None, "user")
    ]
    if not slow:
        return []
    names = list(dict.fromkeys(each.name for each in slow))
    spent = sum(each.duration_ns for each in slow)
    by_remedy: dict[str, list[str]] = {}
    for each in slow:
        held = by_remedy.setdefault(_KEEPING.get(each.framework, "cache=True in @cuda.jit"), [])
        held += [each.name] if each.name not in held else []
    remedies = [f"{remedy} would spare the next session those of {listed(held)}" for remedy, held in by_remedy.items()]
    text = f"{counted(len(slow), 'compile')} took {duration(spent)} without a disk cache: {'; '.join(remedies)}."
    return [Advice("no_disk_cache", names[0] if len(names) == 1 else "", text, float(spent))]


def _many_launches(kernel: KernelSummary, wall_ns: int | None) -> list[Advice]:
    count, spent = kernel.usual_launches, kernel.usual.launching_ns
    if count < MANY_LAUNCHES or spent is None or not wall_ns or spent < LARGE_SHARE * wall_ns:
        return []
    text = (
        f"{count:,} launches of {cut(kernel.name)} took {duration(spent)} on the host, {percent(spent / wall_ns)} of "
        f"the wall time and {duration(spent / count)} each on average{_beside_long(kernel)}: launch less often with "
        "more work, or as a CUDA graph."
    )
    return [Advice("many_launches", kernel.name, text, float(spent))]


def _beside_long(kernel: KernelSummary) -> str:
    long = kernel.long
    if long is None:
        return ""
    return f", besides {counted(long.launches, 'longer one')} of {duration(long.totals.launching_ns)} in all"


def _long_launches(kernel: KernelSummary, wall_ns: int | None) -> list[Advice]:
    """A few launches of many that took much of the time."""
    long, usual = kernel.long, kernel.usual.launching_ns
    if long is None or long.phase is None or usual is None or not wall_ns:
        return []
    count, spent = kernel.usual_launches + long.launches, long.totals.launching_ns or 0
    if count < MANY_LAUNCHES or spent < LARGE_SHARE * wall_ns:
        return []
    which = "the longest took" if long.launches > 1 else "it took"
    text = (
        f"{long.launches:,} of {count:,} launches of {cut(kernel.name)} took {duration(spent)} of the "
        f"{duration(spent + usual)} of host time of all ({percent(spent / (spent + usual))}); {which} "
        f"{duration(long.longest_ns)}, {duration(long.phase_ns)} of it in {long.phase}, {_LONG_IN[long.phase]}. The "
        "timeline shows when. Neither fewer launches nor a CUDA graph is sure to spare that."
    )
    return [Advice("long_launches", kernel.name, text, float(spent))]


def _launch_bound(kernels: Sequence[KernelSummary], gpu: GpuSummary | None) -> list[Advice]:
    """The GPU idles because launches take longer on the host than their kernels on the GPU."""
    if gpu is None or len(gpu.busy) != 1 or not gpu.idle or gpu.execute is None:
        return []
    share, idle = gpu.busy[0].share, gpu.idle[0]
    launching = sum(idle.by_state[state] for state in LAUNCHING)
    # Some of the long launches' time was idle time: at most all of it.
    usually = launching - sum(kernel.long.totals.launching_ns or 0 for kernel in kernels if kernel.long is not None)
    if share is None or share >= LOW_BUSY or usually < 0.5 * idle.idle_ns:
        return []
    found = gpu.of_dispatcher()
    slow = [
        (kernel, spent, run.execute) for kernel in kernels
        if kernel.usual_launches >= MANY_LAUNCHES and (spent := kernel.usual.launching_ns)
        and (run := found.get(kernel.dispatcher_id)) and run.execute
        and run.execute.mean_ns < spent / kernel.usual_launches
    ]
    if not slow:
        return []
    kernel, spent, execute = slow[0]
    text = (
        f"the GPU was busy for {percent(share)} of the time only, and for {percent(launching / idle.idle_ns)} of its "
        f"idle time the host was making launches: {kernel.usual_launches:,} of {cut(kernel.name)} took "
        f"{duration(spent)} on the host, {duration(spent / kernel.usual_launches)} each on average"
        f"{_beside_long(kernel)}, and its {counted(execute.count, 'kernel')} ran for {duration(execute.total_ns)} on "
        f"the GPU, {duration(execute.mean_ns)} each. Give each launch more work, launch less often, or replay the "
        "launches as a CUDA graph."
    )
    return [Advice("launch_bound", kernel.name, text, float(usually))]


def _pageable_copies(gpu: GpuSummary | None, kernels: Sequence[KernelSummary]) -> list[Advice]:
    """Copies from or to pageable memory that take much of the time."""
    if gpu is None or not gpu.busy:
        return []
    window = gpu.busy[0].window_ns
    slow = [each for each in gpu.copies if (each.pageable_ns or 0) >= LARGE_COPIES * window]
    if not slow:
        return []
    copies, moved = sum(each.pageable for each in slow), sum(each.pageable_bytes for each in slow)
    spent = sum(each.pageable_ns or 0 for each in slow)
    directions = " and ".join(dict.fromkeys(each.direction for each in slow))
    is_numba = not kernels or any(kernel.framework.startswith("numba") for kernel in kernels)
    text = (
        f"{counted(copies, f'{directions} copy', f'{directions} copies')} from or to pageable memory took "
        f"{duration(spent)} ({size(moved)}); the driver copies such memory once more on the host: keep these arrays in "
        f"pinned memory{' (cuda.pinned_array)' if is_numba else ''}, or on the device."
    )
    return [Advice("pageable_copies", "", text, float(spent))]


def _slow_prepare(kernel: KernelSummary) -> list[Advice]:
    count, spent, prepare = kernel.usual_launches, kernel.usual.launching_ns, kernel.usual.prepare_ns
    if prepare is None or not spent or prepare < SLOW_PREPARE_NS * count:
        return []
    # Host arrays are copied back in finish: which of the two takes longer is chance.
    if prepare + (kernel.usual.finish_ns or 0) < 0.5 * spent:
        return []
    text = (
        f"{counted(count, 'launch', 'launches')} of {cut(kernel.name)} took {duration(spent)} on the host"
        f"{_beside_long(kernel)}, {duration(prepare)} of it ({percent(prepare / spent)}) in prepare, where host arrays "
        "are copied in and a first launch loads its module: if it takes host arrays, pass device arrays "
        f"({_ON_DEVICE.get(kernel.framework, 'cuda.to_device')})."
    )
    return [Advice("slow_prepare", kernel.name, text, float(prepare))]


def _few_blocks(kernel: KernelSummary, multiprocessors: int | None) -> list[Advice]:
    most = kernel.most_blocks
    if not multiprocessors or not most or kernel.launches < MANY_LAUNCHES or most * 4 > multiprocessors:
        return []
    text = (
        f"all {kernel.launches:,} launches of {cut(kernel.name)} have {counted(most, 'block')} at most, on a GPU "
        f"with {multiprocessors} multiprocessors: the others are idle unless launches overlap."
    )
    return [Advice("few_blocks", kernel.name, text, float(kernel.host_ns or 0))]


def _partial_warps(kernel: KernelSummary) -> list[Advice]:
    launches, threads = kernel.partial_warps
    if not launches:
        return []
    text = (
        f"{counted(launches, 'launch', 'launches')} of {cut(kernel.name)} had blocks that are no multiple of a "
        f"warp's {WARP} threads: in the largest, of {counted(threads, 'thread')}, {-threads % WARP} of the last warp's "
        "lanes idle."
    )
    return [Advice("partial_warps", kernel.name, text, 0.0)]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(cut(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def cut(name: str) -> str:
    """Return a name from user code, cut in the middle where it is long."""
    return name if len(name) <= _NAME else f"{name[:_NAME // 2]}…{name[-_NAME // 2:]}"
