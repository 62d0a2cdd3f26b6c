"""The join of both sides: each launch with the kernel that it made, and the kernels that no recorded launch made.

A kernel belongs to the launch that its ``launch_id`` names; a launch that is one call of an algorithm has several. The
others are kernels of graph launches, where they have a ``cupti_graph_id``, or of libraries that no probe of a framework
knows: *other* kernels. A launch that was captured into a graph has none: its node's kernels are the graph's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelscope.analysis.activities import KERNEL
from kernelscope.analysis.columns import Ints, count_by, ints, matches, ran, sum_by
from kernelscope.analysis.phases import PHASES, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: What a kernel was made by, in the order of `Joined.source`.
SOURCES = ("launch", "graph", "other")


@dataclass(frozen=True)
class Joined:
    """Both sides of a recording joined; -1 where something is unknown or there is none.

    Attributes
    ----------
    kernel : ndarray of int64, shape (launches,)
        The row in ``activities`` of each launch's kernel: of several, the one that started first.
    queue_ns, execute_ns : ndarray of int64, shape (launches,)
        From the end of submit to the kernel's start, 0 where it started before the call returned; and how long it ran,
        or all kernels of the launch together.
    activity : ndarray of int64, shape (kernels,)
        The rows in ``activities`` of all kernels.
    launch : ndarray of int64, shape (kernels,)
        The launch that each of those was joined to; -1 for graph and other kernels.
    source : ndarray of int64, shape (kernels,)
        What made it, as a place in `SOURCES`.
    kernel_queue_ns, kernel_execute_ns : ndarray of int64, shape (kernels,)
        The same as of launches, from the kernel's own driver call.
    """

    kernel: Ints
    queue_ns: Ints
    execute_ns: Ints
    activity: Ints
    launch: Ints
    source: Ints
    kernel_queue_ns: Ints
    kernel_execute_ns: Ints

    @cached_property
    def joined(self) -> int:
        """How many launches have a kernel."""
        return int((self.kernel >= 0).sum())


def join(recording: Recording) -> Joined:
    """Join launches with kernels.

    What ``launches`` says of queue and execute is taken where no activity tells: kernels that were timed with CUDA
    events have none.
    """
    is_kernel = matches(recording, "activities", "kind", KERNEL)
    rows = np.arange(len(is_kernel)) if is_kernel.all() else np.flatnonzero(is_kernel)

    def of_kernels(name: str) -> Ints:
        values = ints(recording, "activities", name)
        return values if len(rows) == len(values) else values[rows]

    launched = of_kernels("launch_id")
    graph = np.maximum(of_kernels("cupti_graph_id"), of_kernels("graph_event_id"))
    start, end = of_kernels("start_ns"), of_kernels("end_ns")
    returned = of_kernels("submit_end_ns")
    submitted = ints(recording, "launches", "submit_end_ns")
    count = len(submitted)
    if count <= int(launched.max(initial=UNKNOWN)):
        launched = np.where(launched < count, launched, UNKNOWN)

    # Of several assignments the last one stays, which is the first kernel: the order is turned around.
    place = np.full(count + 1, UNKNOWN, dtype=np.int64)
    place[launched[::-1]] = np.arange(len(launched) - 1, -1, -1)
    place = place[:count]
    is_joined = place >= 0
    first = np.flatnonzero(is_joined)
    chosen = place if len(first) == count else place[first]
    if len(first) == len(rows):
        joined_to, source = np.empty(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        joined_to[chosen] = first
    else:
        joined_to = launched
        source = np.where(joined_to >= 0, 0, np.where(graph >= 0, 1, 2))

    execute = end - start
    execute[(start < 0) | (execute < 0)] = UNKNOWN
    since = returned
    if bool((submitted >= 0).any()):
        own = submitted if len(first) == count else submitted[first]
        since = returned.copy()
        since[chosen] = own if (own >= 0).all() else np.where(own >= 0, own, returned[chosen])
    queue = np.maximum(start - since, 0)
    queue[(since < 0) | (execute < 0)] = UNKNOWN
    took = execute[chosen]
    if int((joined_to >= 0).sum()) > len(first):
        took = np.where(count_by(joined_to, count, execute >= 0) > 0, sum_by(joined_to, execute, count), UNKNOWN)[first]
    return Joined(
        kernel=_spread(count, first, rows[chosen]),
        queue_ns=_told(recording, "queue_ns", _spread(count, first, queue[chosen])),
        execute_ns=_told(recording, "execute_ns", _spread(count, first, took)),
        activity=rows, launch=joined_to, source=source, kernel_queue_ns=queue, kernel_execute_ns=execute,
    )


def correlate(recording: Recording, joined: Joined | None = None) -> pd.DataFrame:
    """Return one row a launch with its kernel, then one for each graph kernel and other kernel.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined : Joined, optional
        `join` of it, where it is at hand.

    Returns
    -------
    DataFrame
        ``source`` (launch, captured, graph or other), ``launch_id``, ``activity_id``, ``name`` (of the dispatcher, or
        else of the kernel), ``dispatcher_id``, ``device_id``, ``stream``, ``host_ns``, a column a phase, ``queue_ns``,
        ``execute_ns``, ``graph_event_id`` and ``graph_node_id``, ``cupti_graph_id`` and ``cupti_node_id``, and
        ``correlation_id``, which is one for all kernels of one graph launch. What is unknown is null.
    """
    import pandas as pd

    joined = joined or join(recording)
    phases = launch_phases(recording)
    count = len(joined.kernel)
    rest = np.flatnonzero(joined.source != 0)
    activity = np.concatenate((joined.kernel, joined.activity[rest]))
    launch = np.concatenate((np.arange(count), np.full(len(rest), UNKNOWN, dtype=np.int64)))
    overload = _at(recording, "activities", "specialization_id", activity)
    dispatcher = _at(recording, "specializations", "dispatcher_id", overload)
    dispatcher[:count] = ints(recording, "launches", "dispatcher_id")
    correlation = _at(recording, "activities", "correlation_id", activity)
    correlation[:count] = np.where(
        correlation[:count] >= 0, correlation[:count], ints(recording, "launches", "correlation_id"))
    device = _at(recording, "activities", "device_id", activity)
    device[:count] = np.where(device[:count] >= 0, device[:count], ints(recording, "launches", "device_id"))
    none = np.full(len(rest), UNKNOWN, dtype=np.int64)
    columns = {
        "launch_id": launch,
        "activity_id": activity,
        "dispatcher_id": dispatcher,
        "device_id": device,
        "stream": _at(recording, "activities", "stream", activity),
        "host_ns": np.concatenate((phases.host_ns, none)),
        **{f"{name}_ns": np.concatenate((phases.phases[name], none)) for name in PHASES},
        "queue_ns": np.concatenate((joined.queue_ns, joined.kernel_queue_ns[rest])),
        "execute_ns": np.concatenate((joined.execute_ns, joined.kernel_execute_ns[rest])),
        **{name: _at(recording, "activities", name, activity) for name in ("graph_event_id", "graph_node_id")},
        "cupti_graph_id": _at(recording, "activities", "cupti_graph_id", activity),
        "cupti_node_id": _at(recording, "activities", "cupti_node_id", activity),
        "correlation_id": correlation,
    }
    table: Any = pd.DataFrame({name: pd.array(_masked(values), dtype="Int64") for name, values in columns.items()})
    captured = len(SOURCES)
    source = np.concatenate((np.where(ran(recording), 0, captured), joined.source[rest]))
    table.insert(0, "source", np.array([*SOURCES, "captured"], dtype=object)[source])
    table.insert(3, "name", _names(recording, dispatcher, activity))
    return cast("pd.DataFrame", table)


def kernel_dispatchers(recording: Recording, joined: Joined) -> Ints:
    """Return the dispatcher of each kernel of `joined`, through its launch or its specialization; -1 where unknown."""
    overload = _at(recording, "activities", "specialization_id", joined.activity)
    known = _at(recording, "specializations", "dispatcher_id", overload)
    launched = _at(recording, "launches", "dispatcher_id", joined.launch)
    return np.where(launched >= 0, launched, known)


def _names(recording: Recording, dispatcher: Ints, activity: Ints) -> Any:
    source: Any = recording
    called = np.array([*(row["name"] for row in recording.rows("dispatchers")), None], dtype=object)
    names = called[np.where(dispatcher < len(called) - 1, dispatcher, UNKNOWN)]
    unnamed = np.flatnonzero((dispatcher < 0) & (activity >= 0))
    names[unnamed] = source.column("activities", "name")[activity[unnamed]]
    return names


def _at(recording: Recording, table: str, name: str, rows: Ints) -> Ints:
    """A column's values at rows; -1 for a row that is -1 or that the table does not have."""
    values = np.append(ints(recording, table, name), UNKNOWN)
    return values[np.where(rows < len(values) - 1, rows, UNKNOWN)]


def _spread(size: int, places: Ints, values: Ints) -> Ints:
    if len(places) == size:
        return values
    result = np.full(size, UNKNOWN, dtype=np.int64)
    result[places] = values
    return result


def _told(recording: Recording, name: str, found: Ints) -> Ints:
    """What was found, or else what the launches' own column says."""
    source: Any = recording.arrow("launches").column(name)
    if source.null_count == len(source):
        return found
    missing = found < 0
    return np.where(missing, ints(recording, "launches", name), found) if missing.any() else found


def _masked(values: Ints) -> Any:
    import pandas as pd

    return pd.arrays.IntegerArray(values.astype(np.int64), values < 0)
