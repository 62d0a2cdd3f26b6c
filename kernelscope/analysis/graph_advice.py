"""Advice on graphs and build caches: what was built for nothing, and what could be launched as a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.advice import LARGE_SHARE, LOW_BUSY, Advice, cut, listed
from kernelscope.analysis.builds import BuildSummary
from kernelscope.analysis.executables import Executable
from kernelscope.analysis.execution import Spread
from kernelscope.analysis.gpu import GpuSummary
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.repetition import Repetition
from kernelscope.analysis.units import counted, duration, percent

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
