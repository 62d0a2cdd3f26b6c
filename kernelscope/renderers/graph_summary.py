"""The text twin of the card's parts about graphs and build caches."""

from __future__ import annotations

from kernelscope.analysis.execution import Spread
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.units import MISSING, count, duration
from kernelscope.renderers import graph_sentences
from kernelscope.renderers.base import clean
from kernelscope.renderers.layout import INDENT, rest, table, wrap

#: How many rows of each part are printed before "and N more".
TOP_GRAPHS = 8
TOP_MISSES = 8


def graphs_lines(shown: Overview, width: int) -> str:
    """Return the graphs, those of one topology in one row."""
    if not shown.by_topology:
        return ""
    gpu = shown.gpu is not None
    headers = ["graph", "builds", "median", "rebuilds", "all", "updates", "refused", "launches", "host",
               *(["GPU"] if gpu else [])]
    top = shown.by_topology[:TOP_GRAPHS]
    rows = [
        [clean(graph_sentences.names(each)), count(each.builds), _median(each.build), count(each.rebuilt),
         duration(each.rebuild_ns) if each.rebuilt else MISSING, count(each.updates), count(each.refused),
         count(each.launches), _median(each.launch), *([_median(each.execute)] if gpu else [])]
        for each in top
    ]
    text = table(headers, rows, width, below=[_below(each, shown, width) for each in top])
    return (f"Graphs ({graph_sentences.graphs_note(shown)}; host and GPU: median of a launch)\n{text}"
            f"{rest(len(shown.by_topology), TOP_GRAPHS, 'graph')}")


def builds_lines(shown: Overview, width: int) -> str:
    """Return the build caches by algorithm, then the requests that were no hits."""
    if not shown.builds:
        return ""
    headers = ["algorithm", "requests", "hits", "median", "misses", "median", "time", "building"]
    rows = [
        [clean(each.algorithm), count(each.requests), count(each.hits), _median(each.hit), count(each.misses),
         _median(each.miss), duration(each.host_ns), duration(each.build_ns)]
        for each in shown.builds
    ]
    below = [[clean(", ".join(part for part in (each.framework, graph_sentences.build_outcomes(each)) if part))]
             for each in shown.builds]
    lines = [f"Build caches ({graph_sentences.builds_note(shown)})\n{table(headers, rows, width, below=below)}"]
    misses = graph_sentences.misses(shown)
    labels = graph_sentences.cell_labels(shown)
    for each in misses[:TOP_MISSES]:
        outcome = clean(graph_sentences.miss_outcome(each, labels))
        lines.append(f"{INDENT}{duration(each.duration_ns):>8}  {outcome}: {clean(each.algorithm)}")
        lines.append(wrap(f"why: {clean(graph_sentences.why(each))}", width, 12))
        if each.fix:
            lines.append(wrap(f"fix: {clean(each.fix)}", width, 12))
    return "\n".join(lines) + rest(len(misses), TOP_MISSES, "request")


def _below(graph: GraphSummary, shown: Overview, width: int) -> list[str]:
    cells, kernels = graph_sentences.cells_of(graph, shown), graph_sentences.kernels(graph)
    first = graph_sentences.nodes(graph) + (f" · {kernels}" if kernels else "")
    found = [first, *graph_sentences.notes(graph), *([f"in {cells}"] if cells else [])]
    # `table` puts them further in.
    return [line.strip() for text in found for line in wrap(clean(text), width - 2 * len(INDENT), 0, 2).split("\n")]


def _median(spread: Spread | None) -> str:
    return MISSING if spread is None else duration(spread.p50_ns)
