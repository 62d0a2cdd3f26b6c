"""Gaps: when the GPU had nothing to do, on each stream and over all streams of a device, and what the host did then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import Activities, gpu_activities, known_id
from kernelscope.analysis.columns import Ints
from kernelscope.analysis.host import STATES, HostStates, dominant, host_states
from kernelscope.analysis.intervals import Intervals
from kernelscope.recording.model import Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LaneGaps:
    """The gaps of one stream, or of one device over all of its streams.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    stream : int or None
        CUPTI's id of the stream; None where it is unknown, and over all streams.
    all_streams : bool
        Whether these are the gaps over all streams of the device.
    activities : int
        How many activities it had.
    busy_ns : int
        Time in which any of them ran.
    idle : Intervals
        The gaps: between activities, or all idle time of the windows that were asked for.
    by_state : dict of str to int
        Time in each state of the host (`kernelscope.analysis.host.STATES`), in nanoseconds; they add up to `idle_ns`.
    """

    device_id: int | None
    stream: int | None
    all_streams: bool
    activities: int
    busy_ns: int
    idle: Intervals
    by_state: dict[str, int]

    @property
    def idle_ns(self) -> int:
        """All gaps together."""
        return self.idle.total_ns

    @property
    def idle_share(self) -> float | None:
        """Gaps over gaps and busy time, 0 to 1; None where there was no time."""
        whole = self.idle_ns + self.busy_ns
        return self.idle_ns / whole if whole else None

    @property
    def dominant(self) -> str | None:
        """The state in which the host was for most of that time; None without gaps."""
        return dominant(self.by_state)


@dataclass(frozen=True)
class Gap:
    """One gap.

    Attributes
    ----------
    device_id, stream : int or None
        As of `LaneGaps`.
    start_ns, end_ns : int
        When it was, on the host clock.
    before, after : int or None
        The row in ``activities`` of the one that ended last before it, and of the one that ended it; None at the edge
        of a window.
    by_state : dict of str to int
        What the host did meanwhile.
    """

    device_id: int | None
    stream: int | None
    start_ns: int
    end_ns: int
    before: int | None
    after: int | None
    by_state: dict[str, int]

    @property
    def duration_ns(self) -> int:
        """How long it was."""
        return self.end_ns - self.start_ns

    @property
    def dominant(self) -> str | None:
        """The state in which the host was for most of it."""
        return dominant(self.by_state)


def gaps(
    recording: Recording, within: Intervals | None = None, *, by_stream: bool = True,
    activities: Activities | None = None, host: HostStates | None = None,
) -> list[LaneGaps]:
    """Return the gaps of each device over all its streams, each followed by those of its streams.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    within : Intervals, optional
        Where to look, such as `kernelscope.analysis.activities.windows`: all idle time inside, before the first
        activity and after the last one too. Without it, gaps are what is between activities.
    by_stream : bool
        Whether streams have rows of their own.
    activities, host : optional
        `gpu_activities` and `host_states` of the recording, where they are at hand.
    """
    activities = gpu_activities(recording) if activities is None else activities
    host = host_states(recording) if host is None else host
    lanes: list[LaneGaps] = []
    for device, own in activities.by_device():
        whole = _lane(own, known_id(device), None, True, within, host)
        streams = list(own.by_stream()) if by_stream else []
        lanes.append(whole)
        for stream, each in streams:
            if len(streams) == 1:  # the same gaps
                lanes.append(LaneGaps(whole.device_id, known_id(stream), False, whole.activities, whole.busy_ns,
                                      whole.idle, whole.by_state))
            else:
                lanes.append(_lane(each, known_id(device), known_id(stream), False, within, host))
    return lanes


def largest_gaps(
    recording: Recording, count: int = 10, within: Intervals | None = None, *, by_stream: bool = False,
) -> list[Gap]:
    """Return the longest gaps with what the host did in each, longest first.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    count : int
        How many at most.
    within : Intervals, optional
        As of `gaps`.
    by_stream : bool
        Whether to look on each stream, rather than over all streams of each device.
    """
    activities, host = gpu_activities(recording), host_states(recording)
    found: list[tuple[LaneGaps, Activities, int]] = []
    for lane in gaps(recording, within, by_stream=by_stream, activities=activities, host=host):
        if lane.all_streams == by_stream:
            continue
        mask = activities.device == (-1 if lane.device_id is None else lane.device_id)
        if by_stream:
            mask &= activities.stream == (-1 if lane.stream is None else lane.stream)
        own = activities.where(mask)
        longest = np.argsort(-lane.idle.durations, kind="stable")[:count].tolist()
        found += [(lane, own, place) for place in longest]
    found.sort(key=lambda each: -int(each[0].idle.durations[each[2]]))
    return [_gap(lane, own, place, host) for lane, own, place in found[:count]]


def gap_table(recording: Recording, within: Intervals | None = None) -> pd.DataFrame:
    """Return `gaps` as a DataFrame: a row a device and a row a stream.

    Its columns are ``device_id``, ``stream`` (null over all streams), ``all_streams``, ``activities``, ``busy_ns``,
    ``gaps``, ``idle_ns``, ``longest_ns``, ``dominant`` and a column a state of the host, such as ``dispatch_ns``.
    """
    import pandas as pd

    lanes = gaps(recording, within)
    columns: dict[str, Any] = {
        "device_id": pd.array([lane.device_id for lane in lanes], dtype="Int64"),
        "stream": pd.array([lane.stream for lane in lanes], dtype="Int64"),
        "all_streams": pd.array([lane.all_streams for lane in lanes], dtype="boolean"),
        "activities": pd.array([lane.activities for lane in lanes], dtype="Int64"),
        "busy_ns": pd.array([lane.busy_ns for lane in lanes], dtype="Int64"),
        "gaps": pd.array([len(lane.idle) for lane in lanes], dtype="Int64"),
        "idle_ns": pd.array([lane.idle_ns for lane in lanes], dtype="Int64"),
        "longest_ns": pd.array(
            [int(lane.idle.durations.max()) if len(lane.idle) else None for lane in lanes], dtype="Int64"),
        "dominant": pd.Series([lane.dominant for lane in lanes], dtype=object),
    }
    for state in STATES:
        columns[f"{state}_ns"] = pd.array([lane.by_state[state] for lane in lanes], dtype="Int64")
    return pd.DataFrame(columns)


def _lane(
    own: Activities, device: int | None, stream: int | None, all_streams: bool, within: Intervals | None,
    host: HostStates,
) -> LaneGaps:
    busy = own.busy
    if within is None:
        idle = busy.between()
        busy_ns = busy.total_ns
    else:
        idle = within.minus(busy)
        busy_ns = within.common_ns(busy)
    return LaneGaps(device, stream, all_streams, len(own), busy_ns, idle, host.time_in(idle))


def _gap(lane: LaneGaps, own: Activities, place: int, host: HostStates) -> Gap:
    start, end = lane.idle.start[place:place + 1], lane.idle.end[place:place + 1]
    return Gap(
        lane.device_id, lane.stream, int(start[0]), int(end[0]),
        _first(own.row[(own.end == start[0])]), _first(own.row[(own.start == end[0])]),
        host.time_in(Intervals(start, end)),
    )


def _first(rows: Ints) -> int | None:
    return int(rows[0]) if len(rows) else None
