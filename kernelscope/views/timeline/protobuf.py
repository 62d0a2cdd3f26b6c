"""Perfetto's protobuf, written by columns: the bytes that the package ``perfetto`` would write, ten times as fast."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from kernelscope.analysis.columns import Bools, Floats, Ints
from kernelscope.schema import UNKNOWN
from kernelscope.views.timeline.model import Words
from kernelscope.views.timeline.trace import OPEN, Part, StackFrames, TraceLane, TraceSlices, TraceTrack

# Protobuf's wire format for a million like messages at once: columns of numbers in, bytes out.
#
# The perfetto package's own builder was measured: 100,000 events (launches with four phases, and their kernels) take it
# 6.4 s and this module 0.6 s, a million a minute instead of 5 s. Here each field of all messages is one array of bytes,
# and what a message does not use of it is cut out in the end. Numbers of fields come from the package's descriptors,
# and a test compares the bytes with those of its builder.

Bytes = NDArray[np.uint8]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2


class Piece(NamedTuple):
    """A run of bytes of every message.

    Attributes
    ----------
    content : ndarray of uint8, shape (messages, width)
        The bytes, from the left.
    length : ndarray of int64, shape (messages,)
        How many of them count.
    """

    content: Bytes
    length: Ints

    def where(self, present: Bools) -> Piece:
        """Return the piece, empty in the messages that do not have it."""
        return Piece(self.content, np.where(present, self.length, 0))


def constant(content: bytes, count: int) -> Piece:
    """Return the same bytes for every message."""
    row = np.frombuffer(content, dtype=np.uint8)
    return Piece(np.broadcast_to(row, (count, len(row))), np.full(count, len(row), dtype=np.int64))


def table(rows: Sequence[bytes], which: Ints) -> Piece:
    """Return for each message one of the given runs of bytes, or nothing where `which` is -1."""
    rows = [*rows, b""]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    content = np.zeros((len(rows), int(lengths.max())), dtype=np.uint8)
    for at, row in enumerate(rows):
        content[at, :len(row)] = np.frombuffer(row, dtype=np.uint8)
    return Piece(content[which], lengths[which])


def varints(values: Ints) -> Piece:
    """Return numbers, none below 0, in the base-128 encoding."""
    rest = values.astype(np.uint64)
    width = max(1, -(-int(rest.max(initial=0)).bit_length() // 7))
    content = np.empty((len(rest), width), dtype=np.uint8)
    length = np.ones(len(rest), dtype=np.int64)
    for place in range(width):
        low = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest > 0
        content[:, place] = low | (more.astype(np.uint8) << 7)
        length += more
    return Piece(content, length)


def number_field(field: int, values: Ints) -> list[Piece]:
    """Return a field of whole numbers; it is left out where the number is below 0."""
    present = values >= 0
    if not present.any():
        return []
    pieces = [constant(key(field, _VARINT), len(values)), varints(np.maximum(values, 0))]
    return pieces if bool(present.all()) else [piece.where(present) for piece in pieces]


def fixed_field(field: int, values: Ints) -> list[Piece]:
    """Return a field of eight bytes; it is left out where the number is 0."""
    if not values.any():
        return []
    content = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(len(values), 8)
    pieces = [constant(key(field, _FIXED64), len(values)), Piece(content, np.full(len(values), 8, dtype=np.int64))]
    return [piece.where(values != 0) for piece in pieces]


def double_field(field: int, values: Floats) -> list[Piece]:
    """Return a field of floats."""
    content = np.ascontiguousarray(values.astype("<f8")).view(np.uint8).reshape(len(values), 8)
    return [constant(key(field, _FIXED64), len(values)), Piece(content, np.full(len(values), 8, dtype=np.int64))]


def message_field(field: int, pieces: Sequence[Piece], present: Bools | None = None) -> list[Piece]:
    """Return a field that is a message made of the pieces; it is left out where `present` is false."""
    if present is not None and not present.any():
        return []
    size = np.sum([piece.length for piece in pieces], axis=0)
    found = [constant(key(field, _LENGTH), len(size)), varints(size), *pieces]
    return found if present is None else [piece.where(present) for piece in found]


def joined(pieces: Sequence[Piece]) -> bytes:
    """Return the messages one behind the other."""
    count = len(pieces[0].length)
    width = sum(piece.content.shape[1] for piece in pieces)
    content = np.empty((count, width), dtype=np.uint8)
    counts = np.empty((count, width), dtype=np.bool_)
    at = 0
    for piece in pieces:
        end = at + piece.content.shape[1]
        content[:, at:end] = piece.content
        if int(piece.length.min()) == end - at:
            counts[:, at:end] = True
        else:  # in 16 bits four times as many are compared at once; no piece is that wide
            counts[:, at:end] = np.arange(end - at, dtype=np.int16) < piece.length.astype(np.int16)[:, None]
        at = end
    return content[counts].tobytes()


def key(field: int, kind: int) -> bytes:
    """Return the bytes that stand before a field."""
    value, found = field << 3 | kind, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


# Lanes as a Perfetto trace: protobuf packets, defined by the classes of the ``perfetto`` package.
#
# Each lane is a packet sequence of its own, as Perfetto's own writers make one a thread: its names are interned
# once, its track is the sequence's default, and its times are differences on a clock of the sequence. That is 15
# to 25 bytes for the two ends of a slice. What comes once a lane is made with the package's builder; slices are
# encoded by columns , because there can be millions.

# The generated classes have no type stubs.
_PROTO: Any = proto
_PACKET, _EVENT, _NOTE = _PROTO.TracePacket, _PROTO.TrackEvent, _PROTO.DebugAnnotation
_FIRST, _FOLLOWING = _PACKET.SEQ_INCREMENTAL_STATE_CLEARED, _PACKET.SEQ_NEEDS_INCREMENTAL_STATE
_CLOCKS = _PROTO.BuiltinClock.Value
#: The number of a clock that belongs to one sequence, as in Perfetto's own library.
_SEQUENCE_CLOCK = 64
#: The sequence of what is about the whole trace.
_TRACE_SEQUENCE = 1
#: The field of a call path by its number, which packages of before 2025 lack.
_CALL_PATH = "callstack_iid"
#: As many slices at once as stay in a processor's cache.
_CHUNK = 1 << 13


class ProtoWriter:
    """Writes lanes into an open file, one after the other.

    Parameters
    ----------
    file : binary file
        Where to.
    seed : str
        What tells this trace's tracks from another trace's.
    """

    def __init__(self, file: IO[bytes], seed: str) -> None:
        self._file = file
        self._builder = StreamingTraceProtoBuilder(file)
        self._seed = seed
        self._sequence = _TRACE_SEQUENCE

    def begin(self, clock: Mapping[str, Any], name: str, about: str) -> None:
        """Write the host clock's relation to wall time, and the track that all others are in."""
        packet = self._packet(_TRACE_SEQUENCE)
        snapshot = packet.clock_snapshot
        snapshot.primary_trace_clock = _CLOCKS("BUILTIN_CLOCK_MONOTONIC")
        host, wall = clock.get("host_ns"), clock.get("wall_ns")
        if isinstance(host, int) and isinstance(wall, int) and min(host, wall) >= 0 and max(host, wall) < 2**63:
            snapshot.clocks.add(clock_id=_CLOCKS("BUILTIN_CLOCK_MONOTONIC"), timestamp=host)
            snapshot.clocks.add(clock_id=_CLOCKS("BUILTIN_CLOCK_REALTIME"), timestamp=wall)
            packet.timestamp = host
            packet.timestamp_clock_id = _CLOCKS("BUILTIN_CLOCK_MONOTONIC")
        self._write(packet)
        self._describe(TraceTrack((), name, 0, about))

    def group(self, track: TraceTrack) -> None:
        """Write a group of tracks; those inside follow."""
        self._describe(track)

    def lane(self, lane: TraceLane, told: Callable[[int], None]) -> None:
        """Write a lane, and tell `told` after each chunk how many slices it had."""
        self._describe(lane.track, is_counter=lane.slices.values is not None)
        self._sequence += 1
        lane = replace(lane, slices=replace(lane.slices, names=_used(lane.slices.names),
                                            categories=_used(lane.slices.categories)))
        names = _Names(lane.slices)
        base = int(lane.slices.start[0])
        self._open_sequence(lane.track, names, base)
        last = base
        if lane.slices.values is not None:
            times, values = lane.slices.steps()
            deltas, _ = _differences(times.reshape(-1, 1), base)
            event = [*number_field(_number(_EVENT, "type"), np.full(len(values), _EVENT.TYPE_COUNTER)),
                     *double_field(_number(_EVENT, "double_counter_value"), values)]
            self._file.write(joined(_packet(event, deltas[:, 0], self._sequence)))
            told(len(lane.slices))
            return
        for slices, begins, ends in _chunks(lane):
            pieces, last = _records(slices, begins, ends, names, last, self._sequence)
            self._file.write(joined(pieces))
            told(int(begins.sum()))

    def _open_sequence(self, track: TraceTrack, names: _Names, base: int) -> None:
        """Write what the packets of a lane have in common."""
        packet = self._packet(self._sequence, _FIRST)
        defaults = packet.trace_packet_defaults
        defaults.timestamp_clock_id = _SEQUENCE_CLOCK
        defaults.track_event_defaults.track_uuid = self._uuid(track.path)
        packet.interned_data.CopyFrom(names.interned())
        self._write(packet)
        packet = self._packet(self._sequence, _FOLLOWING)
        packet.timestamp = base
        packet.timestamp_clock_id = _CLOCKS("BUILTIN_CLOCK_MONOTONIC")
        clocks = packet.clock_snapshot.clocks
        clocks.add(clock_id=_CLOCKS("BUILTIN_CLOCK_MONOTONIC"), timestamp=base)
        clocks.add(clock_id=_SEQUENCE_CLOCK, timestamp=base, is_incremental=True)
        self._write(packet)

    def _describe(self, track: TraceTrack, *, is_counter: bool = False) -> None:
        packet = self._packet(_TRACE_SEQUENCE)
        held = packet.track_descriptor
        held.uuid = self._uuid(track.path)
        held.name = track.name
        held.child_ordering = _PROTO.TrackDescriptor.EXPLICIT
        # Two threads may have one name, and stay two tracks.
        held.sibling_merge_behavior = _PROTO.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
        if track.path:
            held.parent_uuid = self._uuid(track.path[:-1])
            held.sibling_order_rank = track.rank
        if is_counter:
            held.counter.unit_name = "%"
        if track.about:
            held.description = track.about
        self._write(packet)

    def _uuid(self, path: Sequence[str]) -> int:
        text = "\0".join((self._seed, *path))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1 | 1

    def _packet(self, sequence: int, flags: int = 0) -> Any:
        packet: Any = self._builder.create_packet()
        packet.trusted_packet_sequence_id = sequence
        if flags:
            packet.sequence_flags = flags
        return packet

    def _write(self, packet: Any) -> None:
        self._builder.write_packet(packet)


class _Names:
    """What a lane's packets name by number, and its slices' arguments as bytes that name their words so too."""

    def __init__(self, slices: TraceSlices) -> None:
        parts = _flat(slices.parts)
        self.names = [*slices.names.values, *(part.name for part in parts)]
        self.first_part = len(slices.names.values)
        self.categories = [*slices.categories.values, "phase"]
        self.keys: dict[str, int] = {name: at + 1 for at, name in enumerate(slices.numbers)}
        self.texts: dict[str, int] = {}
        used = np.unique(slices.details.codes) if slices.details is not None else np.empty(0, dtype=np.int64)
        self._place = np.full(int(used.max(initial=UNKNOWN)) + 2, UNKNOWN, dtype=np.int64)
        self._place[used] = np.arange(len(used))
        self._frames = slices.frames
        stacks = np.empty(0, dtype=np.int64) if slices.stacks is None else np.unique(slices.stacks)
        self.stacks: Ints = stacks[stacks >= 0]
        self._described = [self._note(slices.described(code)) for code in used.tolist()]

    def interned(self) -> Any:
        """Return the words by number."""
        data = _PROTO.InternedData()
        for field, texts in ((data.event_names, self.names), (data.event_categories, self.categories),
                             (data.debug_annotation_names, self.keys)):
            for at, text in enumerate(texts):
                field.add(iid=at + 1, name=text)
        for text, number in self.texts.items():
            data.debug_annotation_string_values.add(iid=number, str=text.encode())
        if self._frames is not None and len(self.stacks):
            self._intern_paths(data, self._frames)
        return data

    def _intern_paths(self, data: Any, frames: StackFrames) -> None:
        """Add the call paths; what they are in, which Perfetto asks of each frame, is Python."""
        data.mapping_paths.add(iid=1, str=b"Python")
        data.mappings.add(iid=1, path_string_ids=[1])
        known: set[int] = set()
        for number, stack in enumerate(self.stacks.tolist(), start=1):
            path = frames.path(stack)
            for label in {*path} - known:
                data.function_names.add(iid=label + 1, str=frames.labels[label].encode())
                # Frames of one place are one to Perfetto: each has a place of its own.
                data.frames.add(iid=label + 1, function_name_id=label + 1, mapping_id=1, rel_pc=label)
            known |= {*path}
            data.callstacks.add(iid=number, frame_ids=[label + 1 for label in path])

    def details(self, slices: TraceSlices) -> list[Piece]:
        """Return the arguments that many slices share."""
        if slices.details is None or not self._described:
            return []
        # A lane may have as many different arguments as slices: only a chunk's are laid side by side.
        used, which = np.unique(self._place[slices.details.codes], return_inverse=True)
        return [table([self._described[at] for at in used.tolist()], which)]

    def _note(self, arguments: Mapping[str, str | int | float]) -> bytes:
        event = _EVENT()
        for name, value in arguments.items():
            note = event.debug_annotations.add(name_iid=self.keys.setdefault(name, len(self.keys) + 1))
            if isinstance(value, str):
                note.string_value_iid = self.texts.setdefault(value, len(self.texts) + 1)
            elif isinstance(value, float):
                note.double_value = value
            else:
                note.int_value = value
        return event.SerializeToString()


def _used(words: Words) -> Words:
    """Return the words without those that a lane does not have, of more than it has slices."""
    if len(words.values) <= len(words.codes):
        return words
    used, codes = np.unique(words.codes, return_inverse=True)
    first = int(used[0] < 0)
    return Words(codes - first, [words.values[code] for code in used[first:].tolist()])


def _chunks(lane: TraceLane) -> Iterator[tuple[TraceSlices, Bools, Bools]]:
    """Return slices in packet order: which, whether they begin there, and whether they end there."""
    slices = lane.slices
    which: Ints | None = None
    if lane.nested:
        which, ends = lane.events()
        begins = ~ends
    else:
        begins = np.ones(len(slices), dtype=np.bool_)
        ends = (slices.end >= slices.start) & (slices.end < OPEN)
    for start in range(0, len(begins), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        yield slices.take(chunk if which is None else which[chunk]), begins[chunk], ends[chunk]


def _records(
    slices: TraceSlices, begins: Bools, ends: Bools, names: _Names, last: int, sequence: int
) -> tuple[list[Piece], int]:
    """Return all packets of some slices, and the time of the last one."""
    parts = [part for part in slices.parts]
    times = [np.where(begins, slices.start, UNKNOWN)]
    for part in parts:
        times += _part_times(part)
    times.append(np.where(ends, slices.end, UNKNOWN))
    deltas, last = _differences(np.stack(times, axis=1), last)
    column = iter(deltas.T)
    pieces = _packet(_begin(slices, names), next(column), sequence)
    number = names.first_part
    for part in parts:
        number = _part_pieces(pieces, part, number, len(names.categories), column, sequence)
    pieces += _same_packet(_EVENT(type=_EVENT.TYPE_SLICE_END), next(column), sequence)
    return pieces, last


def _part_times(part: Part) -> list[Ints]:
    return [part.start, *(times for inner in part.inner for times in _part_times(inner)), part.end]


def _part_pieces(
    pieces: list[Piece], part: Part, number: int, category: int, column: Iterator[Ints], sequence: int
) -> int:
    """Add a part's packets and those inside it; return the number of the next name."""
    event = _EVENT(type=_EVENT.TYPE_SLICE_BEGIN, name_iid=number + 1, category_iids=[category])
    pieces += _same_packet(event, next(column), sequence)
    number += 1
    for inner in part.inner:
        number = _part_pieces(pieces, inner, number, category, column, sequence)
    pieces += _same_packet(_EVENT(type=_EVENT.TYPE_SLICE_END), next(column), sequence)
    return number


def _differences(times: Ints, last: int) -> tuple[Ints, int]:
    """Return times (slices by events, -1 for no event) as differences to the previous event."""
    flat = times.ravel()
    held = np.flatnonzero(flat >= 0)
    found = np.full(len(flat), UNKNOWN, dtype=np.int64)
    if not len(held):
        return found.reshape(times.shape), last
    # A clock only runs forward here: what a damaged recording says otherwise becomes 0.
    reached = np.maximum.accumulate(np.maximum(flat[held], last))
    found[held] = np.diff(reached, prepend=last)
    return found.reshape(times.shape), int(reached[-1])


def _begin(slices: TraceSlices, names: _Names) -> list[Piece]:
    """Return the events that begin slices, with fields in the package's order of numbers."""
    count = len(slices)
    instant = slices.end < slices.start
    kind = np.where(instant, _EVENT.TYPE_INSTANT, _EVENT.TYPE_SLICE_BEGIN)
    found = number_field(_number(_EVENT, "category_iids"), _one_on(slices.categories.codes))
    for name, values in slices.numbers.items():
        present = values >= 0
        note = [*number_field(_number(_NOTE, "name_iid"), np.full(count, names.keys[name])),
                *number_field(_number(_NOTE, "int_value"), np.maximum(values, 0))]
        found += message_field(_number(_EVENT, "debug_annotations"), note, present)
    found += names.details(slices)
    found += number_field(_number(_EVENT, "type"), kind)
    found += number_field(_number(_EVENT, "name_iid"), _one_on(slices.names.codes))
    if slices.flow_out is not None:
        found += fixed_field(_number(_EVENT, "flow_ids"), slices.flow_out)
    if slices.flow_in is not None:
        found += fixed_field(_number(_EVENT, "terminating_flow_ids"), slices.flow_in)
    if slices.stacks is not None and _CALL_PATH in _EVENT.DESCRIPTOR.fields_by_name:
        place = np.where(slices.stacks >= 0, np.searchsorted(names.stacks, slices.stacks), UNKNOWN)
        found += number_field(_number(_EVENT, _CALL_PATH), _one_on(place))
    return found


def _packet(event: list[Piece], delta: Ints, sequence: int) -> list[Piece]:
    """Return packets with one event each; there is none where `delta` is -1."""
    count = len(delta)
    tail = constant(_PACKET(sequence_flags=_FOLLOWING).SerializeToString(), count)
    body = [
        *number_field(_number(_PACKET, "timestamp"), np.maximum(delta, 0)),
        constant(_PACKET(trusted_packet_sequence_id=sequence).SerializeToString(), count),
        *message_field(_number(_PACKET, "track_event"), event), tail,
    ]
    return message_field(_number(_PROTO.Trace, "packet"), body, delta >= 0)


def _same_packet(event: Any, delta: Ints, sequence: int) -> list[Piece]:
    """Return packets that differ in their time only, as one run of bytes: most of a trace."""
    rest = _PACKET(track_event=event, trusted_packet_sequence_id=sequence, sequence_flags=_FOLLOWING)
    body = [*number_field(_number(_PACKET, "timestamp"), np.maximum(delta, 0)),
            constant(rest.SerializeToString(), len(delta))]
    return message_field(_number(_PROTO.Trace, "packet"), body, delta >= 0)


def _one_on(codes: Ints) -> Ints:
    """Return codes as numbers of interned words, which begin with 1; -1 stays."""
    return np.where(codes >= 0, codes + 1, UNKNOWN)


def _flat(parts: Sequence[Part]) -> list[Part]:
    found: list[Part] = []
    for part in parts:
        found += [part, *_flat(part.inner)]
    return found


def _number(message: Any, field: str) -> int:
    number: int = message.DESCRIPTOR.fields_by_name[field].number
    return number
