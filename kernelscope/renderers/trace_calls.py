"""Driver calls and what they made on the GPU: calls that no launch of ours explains, and the launches of graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches
from kernelscope.analysis.graph_names import run_names
from kernelscope.analysis.graph_runs import graph_runs
from kernelscope.recording.model import Recording
from kernelscope.renderers.base import clean
from kernelscope.renderers.lanes import Words

#: Numbers of arrows: a launch has its row number and the one, a driver call its correlation id and the other.
LAUNCH_FLOW = 1
CALL_FLOW = 1 << 48


class GraphLaunches(NamedTuple):
    """Launches of graphs by column, in order of start; `names` are those of their graphs."""

    names: Words
    event: Ints
    correlation: Ints
    graph: Ints
    cupti_graph: Ints
    device: Ints
    start: Ints
    end: Ints
    activities: Ints


class Calls(NamedTuple):
    """Driver calls by column, each with the first activity that it made."""

    row: Ints
    correlation: Ints
    api: Ints
    cell: Ints
    thread: Ints
    start: Ints
    end: Ints


def graph_launches(recording: Recording) -> GraphLaunches:
    """Return the launches of graphs that made an activity with a time."""
    runs = graph_runs(recording)
    of = np.flatnonzero((runs.start >= 0) & (runs.activities > 0))
    of = of[np.argsort(runs.start[of], kind="stable")]
    name, names = run_names(recording, runs)
    return GraphLaunches(
        Words(name[of], [clean(each) for each in names]), runs.event[of], runs.correlation[of], runs.graph[of],
        runs.cupti_graph[of], runs.device[of], runs.start[of], np.maximum(runs.end[of], runs.start[of]),
        runs.activities[of])


def calls_with_activities(recording: Recording) -> Calls:
    """Return the driver calls behind activities that no recorded launch made; a launch's own is its submit."""
    correlation = ints(recording, "activities", "correlation_id")
    begun, ended = (ints(recording, "activities", f"submit_{which}_ns") for which in ("start", "end"))
    alone = (ints(recording, "activities", "launch_id") < 0) & (correlation >= 0) & (begun >= 0)
    rows = np.flatnonzero(alone & ~matches(recording, "activities", "kind", "sync"))
    rows = rows[np.unique(correlation[rows], return_index=True)[1]]
    cell, thread = (ints(recording, "activities", name)[rows] for name in ("cell_id", "thread_id"))
    api = codes(recording, "activities", "api")[0][rows]
    return Calls(rows, correlation[rows], api, cell, thread, begun[rows], ended[rows])


def is_called(recording: Recording, correlation: Ints) -> Bools:
    """Return which correlation ids are those of a driver call that is drawn."""
    drawn = np.concatenate((ints(recording, "api_calls", "correlation_id"),
                            calls_with_activities(recording).correlation))
    return np.isin(correlation, drawn[drawn >= 0])


def call_flows(recording: Recording, correlation: Ints) -> Ints:
    """Return the arrows that begin at driver calls: to a graph's launch, or to the call's first activity."""
    made = ints(recording, "activities", "correlation_id")[called_activities(recording)]
    arriving = np.isin(correlation, np.concatenate((made, graph_launches(recording).correlation)))
    return np.where(arriving & (correlation >= 0), correlation + CALL_FLOW, 0)


def called_activities(recording: Recording) -> Ints:
    """The activities at which arrows from driver calls end: the first of each call that launched no graph."""
    correlation = ints(recording, "activities", "correlation_id")
    alone = (ints(recording, "activities", "launch_id") < 0) & (correlation >= 0) & is_timed(recording)
    alone &= (ints(recording, "activities", "cupti_graph_id") < 0) & is_called(recording, correlation)
    rows = np.flatnonzero(alone & ~matches(recording, "activities", "kind", "sync"))
    return rows[np.unique(correlation[rows], return_index=True)[1]]


def is_timed(recording: Recording) -> Bools:
    """Return which activities have a start: others cannot be drawn."""
    return ints(recording, "activities", "start_ns") >= 0
