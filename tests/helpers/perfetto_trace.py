"""Reads a Perfetto trace back into slices, by the rules that Perfetto's own trace processor follows.

Packets of one sequence share interned words, defaults and an incremental clock; slices of one track nest in the order
of their packets once those are sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

OPEN = None


@dataclass
class Slice:
    track: tuple[str, ...]
    name: str
    category: str
    start: int
    end: int | None = None
    instant: bool = False
    parent: Slice | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    arriving: list[int] = field(default_factory=list)


@dataclass
class Read:
    slices: list[Slice]
    tracks: dict[tuple[str, ...], Any]
    snapshots: list[Any]

    def of(self, category: str) -> list[Slice]:
        return [each for each in self.slices if each.category == category]


def read(content: bytes) -> Read:
    trace = proto.Trace()
    trace.ParseFromString(content)
    descriptors = {packet.track_descriptor.uuid: packet.track_descriptor
                   for packet in trace.packet if packet.HasField("track_descriptor")}
    names = {uuid: _path(uuid, descriptors) for uuid in descriptors}
    states: dict[int, dict[str, Any]] = {}
    events: list[tuple[int, int, Any, dict[str, Any]]] = []
    snapshots = []
    for place, packet in enumerate(trace.packet):
        number = packet.trusted_packet_sequence_id
        assert number
        if packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            assert number not in states, "each lane has a sequence of its own"
            defaults = packet.trace_packet_defaults
            data = packet.interned_data
            states[number] = {
                "track": defaults.track_event_defaults.track_uuid, "clock": defaults.timestamp_clock_id,
                "now": None, "names": {each.iid: each.name for each in data.event_names},
                "categories": {each.iid: each.name for each in data.event_categories},
                "keys": {each.iid: each.name for each in data.debug_annotation_names},
                "texts": {each.iid: each.str.decode() for each in data.debug_annotation_string_values},
            }
            assert defaults.track_event_defaults.track_uuid in descriptors
        if packet.HasField("clock_snapshot"):
            snapshots.append(packet.clock_snapshot)
            for clock in packet.clock_snapshot.clocks:
                if clock.is_incremental:
                    assert clock.clock_id == states[number]["clock"] and 64 <= clock.clock_id <= 127
                    states[number]["now"] = clock.timestamp
        if packet.HasField("track_event"):
            state = states[number]
            assert packet.sequence_flags == proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            assert packet.HasField("timestamp") and state["now"] is not None
            state["now"] += packet.timestamp
            events.append((state["now"], place, packet.track_event, state))
    return Read(_slices(sorted(events, key=lambda each: each[:2]), names), {
        names[uuid]: descriptor for uuid, descriptor in descriptors.items()}, snapshots)


def _slices(events: list[Any], names: dict[int, tuple[str, ...]]) -> list[Slice]:
    slices: list[Slice] = []
    stacks: dict[int, list[Slice]] = {}
    for time, _, event, state in events:
        stack = stacks.setdefault(state["track"], [])
        if event.type == proto.TrackEvent.TYPE_SLICE_END:
            stack.pop().end = time
            continue
        assert event.type in (proto.TrackEvent.TYPE_SLICE_BEGIN, proto.TrackEvent.TYPE_INSTANT)
        found = Slice(
            names[state["track"]], state["names"][event.name_iid], state["categories"][event.category_iids[0]], time,
            instant=event.type == proto.TrackEvent.TYPE_INSTANT, parent=stack[-1] if stack else None,
            arguments={state["keys"][note.name_iid]: _value(note, state) for note in event.debug_annotations},
            flows=list(event.flow_ids), arriving=list(event.terminating_flow_ids))
        slices.append(found)
        if not found.instant:
            stack.append(found)
    return slices


def _value(note: Any, state: dict[str, Any]) -> Any:
    which = note.WhichOneof("value")
    value = getattr(note, which)
    return state["texts"][value] if which == "string_value_iid" else value


def _path(uuid: int, descriptors: dict[int, Any]) -> tuple[str, ...]:
    held = descriptors[uuid]
    return (*(_path(held.parent_uuid, descriptors) if held.parent_uuid else ()), held.name)
