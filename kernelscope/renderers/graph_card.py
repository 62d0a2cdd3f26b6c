"""The card's parts about graphs and build caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.execution import Spread
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.units import MISSING, count, counted, duration
from kernelscope.renderers import graph_sentences
from kernelscope.renderers.base import escape
from kernelscope.renderers.elements import folded, heading, left_out, name_of, sentence, table_of, two

#: How many rows stand outside a <details>, and how many at most inside it.
TOP_GRAPHS = 8
TOP_MISSES = 6
MOST_ROWS = 200
#: Nodes of a graph whose picture is shown at once.
MOST_OPEN = 12


def graphs_part(shown: Overview, picture: Callable[[int], str] | None = None) -> str:
    """Return the graphs, those of one topology in one row: what building and launching them cost, what was rebuilt.

    Parameters
    ----------
    shown : Overview
        What to show.
    picture : callable, optional
        Draws a graph, by its row in ``graphs``, as HTML that is escaped already.
    """
    if not shown.by_topology:
        return ""
    html = heading("Graphs", graph_sentences.graphs_note(shown))
    html += _table(shown, shown.by_topology[:TOP_GRAPHS])
    if picture is not None:
        drawn = [each for each in shown.by_topology[:TOP_GRAPHS] if each.graph_ids]
        html += "".join(_drawn(each, picture(each.graph_ids[0]), len(drawn) == 1) for each in drawn)
    rest = shown.by_topology[TOP_GRAPHS:]
    if rest:
        html += folded(f"<b>{escape(counted(len(rest), 'more graph'))}</b>",
                       _table(shown, rest[:MOST_ROWS]) + left_out(len(rest), MOST_ROWS))
    if len(shown.by_graph) > len(shown.by_topology):
        html += folded(f"<b>{escape(counted(len(shown.by_graph), 'graph'))}</b> one by one",
                       _table(shown, shown.by_graph[:MOST_ROWS]) + left_out(len(shown.by_graph), MOST_ROWS))
    return html


def _drawn(graph: GraphSummary, picture: str, is_alone: bool) -> str:
    """The picture of a graph, which is open where it is the only one and small."""
    is_open = is_alone and (graph.nodes or 0) <= MOST_OPEN
    return folded(f"picture of <b>{escape(graph.name)}</b>", f'<div class="ks-graph">{picture}</div>', is_open)


def _table(shown: Overview, graphs: Sequence[GraphSummary]) -> str:
    columns = [
        ("", "Graph", "what happened"), ("built", "Builds", "median"), ("number", "Rebuilds", "all"),
        ("number", "Updates", "median"), ("word", "Launches", "host, median"),
    ]
    if shown.gpu is not None:
        columns.append(("time", "GPU time", "median"))
    return table_of(columns, [_row(each, shown) for each in graphs])


def _row(graph: GraphSummary, shown: Overview) -> str:
    cells = graph_sentences.cells_of(graph, shown)
    lines = [graph_sentences.nodes(graph), *graph_sentences.notes(graph), *([f"in {cells}"] if cells else [])]
    below = "".join(f'<small class="ks-wrap">{escape(line)}</small>' for line in lines)
    kernels = graph_sentences.kernels(graph)
    named = f' <span class="ks-code">{escape(kernels)}</span>' if kernels else ""
    refused = f"{graph.refused:,} refused" if graph.refused else _median(graph.update)
    return (
        f'<td class="ks-left"><b>{escape(graph_sentences.names(graph))}</b>{named}{below}</td>'
        + two(count(graph.builds), _median(graph.build))
        + two(count(graph.rebuilt), duration(graph.rebuild_ns) if graph.rebuilt else "")
        + two(count(graph.updates), refused)
        + two(count(graph.launches), _median(graph.launch))
        + ("" if shown.gpu is None else two(_total(graph.execute), _median(graph.execute)))
    )


def builds_part(shown: Overview) -> str:
    """Return the build caches by algorithm, and the requests that were no hits with why and what would avoid them."""
    if not shown.builds:
        return ""
    columns = (
        ("", "Algorithm", ""), ("requests", "Requests", ""), ("time", "Hits", "median"), ("time", "Misses", "median"),
        ("time", "Time", "building"),
    )
    html = heading("Build caches", graph_sentences.builds_note(shown))
    html += table_of(columns, [_build_row(each) for each in shown.builds[:MOST_ROWS]])
    html += left_out(len(shown.builds), MOST_ROWS)
    misses = graph_sentences.misses(shown)
    if misses:
        html += f'<div class="ks-sub">{_misses(shown, misses[:TOP_MISSES])}</div>'
    if len(misses) > TOP_MISSES:
        rest = misses[TOP_MISSES:]
        html += folded(f"<b>{len(rest):,} more</b> that were no hits",
                       _misses(shown, rest[:MOST_ROWS]) + left_out(len(rest), MOST_ROWS))
    return html


def _build_row(each: BuildSummary) -> str:
    below = ", ".join(part for part in (each.framework, graph_sentences.build_outcomes(each)) if part)
    return (
        f'<td class="ks-left">{name_of(each.algorithm)}<small>{escape(below)}</small></td>'
        f"<td>{escape(count(each.requests))}</td>"
        + two(count(each.hits), _median(each.hit))
        + two(count(each.misses), _median(each.miss))
        + two(duration(each.host_ns), duration(each.build_ns))
    )


def _misses(shown: Overview, misses: Sequence[Miss]) -> str:
    labels = graph_sentences.cell_labels(shown)
    columns = (("fifth", "Algorithm", ""), ("time", "Took", ""), ("word", "Outcome", ""), ("", "Why", "fix"))
    rows: list[str] = []
    for each in misses:
        fix = f'<span class="ks-fix"><b>Fix</b> {sentence(each.fix)}</span>' if each.fix else ""
        rows.append(
            f'<td class="ks-left">{name_of(each.algorithm)}</td><td>{escape(duration(each.duration_ns))}</td>'
            f'<td class="ks-left">{escape(graph_sentences.miss_outcome(each, labels))}</td>'
            f'<td class="ks-left"><span class="ks-why">{sentence(graph_sentences.why(each))}</span>{fix}</td>'
        )
    return table_of(columns, rows, left=(0, 2, 3))


def _median(spread: Spread | None) -> str:
    return "" if spread is None else duration(spread.p50_ns)


def _total(spread: Spread | None) -> str:
    return MISSING if spread is None else duration(spread.total_ns)
