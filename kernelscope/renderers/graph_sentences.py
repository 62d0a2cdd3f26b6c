"""The sentences of a summary about graphs and build caches: the card and its text twin print the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.graphs import CHANGES, GraphSummary
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.units import MISSING, count, counted, duration, size
from kernelscope.renderers.graph_words import short_name

_KINDS = {
    "kernel": ("kernel", "kernels"), "memcpy": ("copy", "copies"), "memset": ("memset", "memsets"),
    "host": ("host function", "host functions"), "empty": ("empty node", "empty nodes"),
    "event_record": ("event record", "event records"), "event_wait": ("event wait", "event waits"),
    "child": ("child graph", "child graphs"), "if": ("if", "ifs"), "while": ("while", "whiles"),
    "switch": ("switch", "switches"), "mem_alloc": ("allocation", "allocations"), "mem_free": ("free", "frees"),
    "other": ("other node", "other nodes"),
}
_CHANGED = {
    "none": "nothing changed", "arguments": "other arguments", "configuration": "another launch configuration or size",
    "topology": "other nodes or edges",
}
_OUTCOMES = {"miss": "built", "wait": "waited for another thread", "failed": "failed"}
_FEW = 3


def nodes(graph: GraphSummary) -> str:
    """Return how many nodes a graph has, by kind."""
    if graph.nodes is None:
        return "its nodes were not seen"
    kinds = ", ".join(counted(number, *_KINDS.get(kind, (kind, kind))) for kind, number in graph.kinds.items())
    return f"{counted(graph.nodes, 'node')}{f' ({kinds})' if kinds else ''}, {counted(graph.edges or 0, 'edge')}"


def kernels(graph: GraphSummary) -> str:
    """Return the names of its first kernels, and how many more there are; of mangled names the short ones."""
    names = list(dict.fromkeys(short_name(name) if "(" in name else name for name in graph.kernels))
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def names(graph: GraphSummary) -> str:
    """Return what to call a graph, or several of one topology: ``graph 0``, ``graphs 0, 1``."""
    if len(graph.graph_ids) < 2:
        return graph.name
    more = f" and {len(graph.graph_ids) - _FEW:,} more" if len(graph.graph_ids) > _FEW else ""
    return f"graphs {', '.join(str(each) for each in graph.graph_ids[:_FEW])}{more}"


def notes(graph: GraphSummary) -> list[str]:
    """Return what else there is to say of a graph, one sentence a line."""
    found: list[str] = []
    if graph.captured and graph.captures:
        into = counted(graph.captures, "capture")
        spent = "" if graph.capture is None else f", {duration(graph.capture.total_ns)}"
        found.append(f"{counted(graph.captured, 'launch', 'launches')} captured in {into}{spent}")
    if graph.rebuilt:
        found.append(_rebuilds(graph))
    if graph.before:
        found.append("built before recording began")
    if graph.variants > 1:
        found.append(f"{graph.variants:,} graphs of one topology, with other launch configurations or sizes")
    if graph.uploads:
        again = f", {count(graph.reuploads)} of them though it was there" if graph.reuploads else ""
        found.append(counted(graph.uploads, "upload") + again)
    if graph.failed:
        found.append(f"{counted(graph.failed, 'instantiate')} failed")
    return found


def _rebuilds(graph: GraphSummary) -> str:
    """How many builds were rebuilds, of what, and how many were needed."""
    parts = [f"{graph.rebuilds[change]:,} with {_CHANGED[change]}" for change in CHANGES if change in graph.rebuilds]
    what = f" ({', '.join(graph.changes[:_FEW])}{' and more' if len(graph.changes) > _FEW else ''})" if (
        graph.changes) else ""
    kept = graph.rebuilt - sum(graph.replaced.values())
    beside = f"; {count(kept)} beside one that is kept" if kept else ""
    known = f": {', '.join(parts)}" if parts else ""
    return f"{counted(graph.rebuilt, 'rebuild')}, {duration(graph.rebuild_ns)}{known}{what}{beside}"


def graphs_note(shown: Overview) -> str:
    """Return what stands behind the heading of the graphs."""
    parts = [counted(len(shown.by_graph), "graph"), counted(sum(each.builds for each in shown.by_topology), "build"),
             counted(shown.graph_launches, "launch", "launches")]
    return ", ".join(parts)


def ran(shown: Overview) -> str:
    """Return what launches of graphs did on the GPU, as one sentence; an empty string where nothing was seen."""
    kernel_runs = sum(each.kernel_runs for each in shown.by_topology)
    others = sum(each.other_runs for each in shown.by_topology)
    if not kernel_runs and not others:
        return ""
    times = [each.busy_ns for each in shown.by_topology if each.busy_ns is not None]
    took = f", {duration(sum(times))}" if times else ""
    more = f" and {counted(others, 'copy or memset', 'copies and memsets')}" if others else ""
    seen = [each for each in shown.by_graph if each.kernel_runs or each.other_runs]
    launches = sum(each.launches for each in seen)
    how = f"{counted(launches, 'graph launch', 'graph launches')} of " if launches else ""
    return f"{how}{counted(len(seen), 'graph')} ran {counted(kernel_runs, 'kernel')}{more}{took}."


def builds_note(shown: Overview) -> str:
    """Return what stands behind the heading of the build caches."""
    requests = sum(each.requests for each in shown.builds)
    return f"{counted(requests, 'request')}, {duration(sum(each.host_ns for each in shown.builds))} in all"


def misses(shown: Overview) -> list[Miss]:
    """Return all requests that were no hits, longest first."""
    found = (miss for each in shown.builds for miss in each.not_hits)
    return sorted(found, key=lambda each: (-(each.duration_ns or 0), each.build_id))


def build_outcomes(each: BuildSummary) -> str:
    """Return what went otherwise than a hit or a miss, and how much machine code was built."""
    parts = [counted(each.waits, "wait")] if each.waits else []
    parts += [f"{count(each.failed)} failed"] if each.failed else []
    parts += [f"{size(each.cubin_bytes)} of machine code"] if each.cubin_bytes else []
    return ", ".join(parts)


def miss_outcome(miss: Miss, cells: Mapping[int, str]) -> str:
    """Return what came of a request that was no hit, and in which cell where there are several."""
    where = "" if miss.cell_id is None or len(cells) < 2 else f" in {cells.get(miss.cell_id, 'a cell')}"
    return _OUTCOMES.get(miss.outcome, miss.outcome) + where


def why(miss: Miss) -> str:
    """Return why a request was no hit."""
    return miss.error or miss.reason or ("another thread was building the same" if miss.outcome == "wait" else
                                         MISSING if miss.reason_code is None else miss.reason_code)


def cell_labels(shown: Overview) -> dict[int, str]:
    """Return what to call each cell, by its id."""
    return {each.cell_id: each.label for each in shown.by_cell if each.cell_id is not None}


def cells_of(graph: GraphSummary, shown: Overview) -> str:
    """Return in which cells a graph was built or launched, where there are several; else an empty string."""
    held = cell_labels(shown)
    if len(held) < 2:
        return ""
    found: Sequence[str] = [held.get(each, "?") for each in graph.cells]
    more = f" and {len(found) - _FEW:,} more" if len(found) > _FEW else ""
    return ", ".join(found[:_FEW]) + more
