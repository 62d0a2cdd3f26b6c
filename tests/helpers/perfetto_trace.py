"""Reads a Perfetto trace back into slices, by the rules that Perfetto's own trace processor follows.

Packets of one sequence share interned words, defaults and an incremental clock; slices of one track nest in the order
of their packets once those are sorted by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handmade import MS, Script
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from kernelscope import Recording
from kernelscope.views.timeline.perfetto import to_perfetto

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
    counters: dict[tuple[str, ...], list[tuple[int, float]]]

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
    counters: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for time, _, event, state in events:
        if event.type == proto.TrackEvent.TYPE_COUNTER:
            assert event.HasField("double_counter_value") and descriptors[state["track"]].HasField("counter")
            counters.setdefault(names[state["track"]], []).append((time, event.double_counter_value))
    slices = [each for each in events if each[2].type != proto.TrackEvent.TYPE_COUNTER]
    return Read(_slices(sorted(slices, key=lambda each: each[:2]), names), {
        names[uuid]: descriptor for uuid, descriptor in descriptors.items()}, snapshots, counters)


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



def odd() -> Recording:
    """Everything that a recording can have, the odd cases included."""
    made = Script(name="odd", clock={"host_ns": 900 * MS, "wall_ns": 1_700_000_000_000_000_000, "error_ns": 50},
                  gpu={"source": "cupti"})
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made._add("threads", "thread_id", {"ident": 2, "name": "worker"})
    made.device(ordinal=0, name="H100")
    made.device(ordinal=1, name="H100")
    made.cell(execution_count=3, name="first", synchronized_ns=1_120 * MS, source="axpy[1, 32](x)")
    axpy, total = made.kernel("axpy"), made.kernel("block_sum")
    made.specialization(axpy, regs=18)
    made.specialization(total, origin="before")
    made.configuration((4, 2), cluster_x=2, cluster_y=1, cluster_z=1, sharedmem_bytes=1024, stream=2)
    made.range("outer", domain="train", color="#ff0000", category="io", payload="7")
    start = made.now
    compiled = made.compilation(axpy, 2 * MS, start_ns=start + 1_000, end_ns=start + 1_000 + 2 * MS, launch_id=0,
                                cell_id=0, specialization_id=0, reason_code="first", reason="first launch",
                                fix="warm up", configuration_id=0)
    for name, took in (("typing", 300_000), ("lowering", 700_000)):
        made._add("passes", None, {"compilation_id": compiled, "kind": "pass", "name": name, "duration_ns": took})
    made._add("passes", None, {"compilation_id": compiled, "kind": "phase", "name": "nvvm", "duration_ns": 400_000,
                               "start_ns": start + 1_500_000})
    made._add("passes", None, {"specialization_id": 1, "kind": "phase", "name": "load", "duration_ns": 9_000,
                               "start_ns": start + 50 * MS})
    first = made.launch(axpy, (2_000, 2 * MS, 4_000, 2_000, 1_000), compilation_id=compiled, correlation_id=11,
                        queue_ns=0, execute_ns=40_000, device_id=0)
    at = made.rows["launches"][first]["start_ns"]
    # A kernel that starts before its launch's end, as happens when the driver call returns late.
    made.activity("kernel", "axpy", 40_000, start_ns=at + 2 * MS + 7_000, launch_id=first, correlation_id=11,
                  specialization_id=0, configuration_id=0, regs=18, api="cuLaunchKernelEx")
    outer = made.launch(total, specialization=1, thread_id=1)
    base = made.rows["launches"][outer]["start_ns"]
    made.launch(axpy, (500, 0, 500, 500, 500), parent_launch_id=outer, start_ns=base + 500, thread_id=1,
                **{f"{name}_ns": base + 500 + step for name, step in (
                    ("dispatch_end", 500), ("submit_start", 1000), ("submit_end", 1500), ("end", 2000))})
    made.launch(total, None, specialization=1, end_ns=None)
    made.launch(total, specialization=1, end_ns=None, error="CudaAPIError")
    made.activity("kernel", "at::native", 5_000, stream=8, cell_id=None)
    # Two at once on one stream, and one of another device.
    made.activity("memcpy", "HtoD", 60_000, size_bytes=4096, memory="pageable to device", start_ns=made.now + 1_000)
    made.activity("memcpy", "DtoH", 60_000, size_bytes=512, start_ns=made.now + 31_000)
    made.activity("memset", "memset", 1_000, device_id=1, size_bytes=64)
    made.activity("sync", "stream", 30_000, device_id=None, stream=None)
    made.activity("kernel", "unmeasured", 0, start_ns=None)
    made.activity("kernel", "no end", 0, end_ns=None, stream=9)
    made.activity("memcpy", "HtoD", 2_000, stream=11, correlation_id=70, api="cuMemcpyAsync", size_bytes=8,
                  submit_start_ns=made.now - 9_000, submit_end_ns=made.now - 4_000)
    made.now += MS
    made.api_call("cuGraphLaunch", correlation_id=50)
    made.api_call("cuMemAlloc_v2", result=2, thread_id=1)
    for node in range(3):
        made.activity("kernel", f"node_{node}", 2_000, correlation_id=50, cupti_graph_id=4, cupti_node_id=node,
                      start_ns=made.now + 3_000 * node)
    made.range("inner", domain="train", start_ns=at, end_ns=at + 10_000, parent_range_id=0, depth=1, cell_id=0)
    made.range("epoch 1", kind="start_end", start_ns=at + 5, end_ns=at + 900_000)
    made.range("epoch 2", kind="start_end", start_ns=at + 400_000, end_ns=None, thread_id=1)
    made.range("here", kind="mark", start_ns=at + 7, end_ns=None)
    made.range("before", start_ns=None, end_ns=at + 50, thread_id=1)
    for table in ("ranges", "activities"):
        held = sorted(made.rows[table], key=lambda row: -1 if row["start_ns"] is None else row["start_ns"])
        moved = {row["range_id"]: place for place, row in enumerate(held)} if table == "ranges" else {}
        for place, row in enumerate(held):
            row["range_id" if table == "ranges" else "activity_id"] = place
            if table == "ranges" and row.get("parent_range_id") is not None:
                row["parent_range_id"] = moved[row["parent_range_id"]]
        made.rows[table] = held
    return made.recording()


def written(recording: Recording, folder: Path) -> Read:
    return read(to_perfetto(recording, folder / "trace").read_bytes())
