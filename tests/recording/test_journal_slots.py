"""The slots of a journal: what is whole is kept, and nothing that was not written is ever read from them."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade_journals import START, Handmade, Launch, check
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.errors import JournalError
from kernelscope.recording.journal import SLOT, read_slots, slot_checks


def read(tmp_path: Path, data: bytes) -> Any:
    path = tmp_path / "slots"
    path.write_bytes(data)
    return read_slots(path)


def sequences(slots: Any) -> list[int]:
    return slots.launches["sequence"].tolist()


@given(st.lists(st.binary(min_size=64, max_size=64), min_size=1, max_size=20))
def test_checks_are_those_of_the_description(contents: list[bytes]) -> None:
    found = slot_checks(np.frombuffer(b"".join(contents), SLOT))
    assert found.tolist() == [check(struct.unpack("<8Q", each[:62] + b"\0\0")) for each in contents]


def test_launches_are_read_in_order_of_begin(tmp_path: Path) -> None:
    found = read(tmp_path, Handmade([Launch(index) for index in range(5000)]).slots())
    assert sequences(found) == list(range(1, 5001))
    assert found.launches["start_ns"].tolist() == [START + 10_000 * index for index in range(5000)]
    assert (found.damaged, found.missing, found.lost, found.repeated, found.notes) == (0, 0, 0, 0, ())
    assert (found.mode, found.capacity, found.pid) == ("grow", None, 999999)


def test_a_ring_is_turned_and_says_what_it_lost(tmp_path: Path) -> None:
    launches = [Launch(3, is_open=True), *(Launch(index) for index in range(9, 16))]
    # Launch 3 is under way and keeps its slot: 11 was passed on to the next place, and so on.
    places = [3, *(index % 8 for index in (9, 10)), 4, 5, 6, 7, 0]
    made = Handmade(launches, places=places, mode=1, capacity=8, next=16)
    found = read(tmp_path, made.slots())
    assert sequences(found) == [4, *range(10, 17)]
    assert found.is_open.tolist() == [True] + [False] * 7
    assert (found.mode, found.capacity, found.lost, found.missing, found.damaged) == ("ring", 8, 8, 0, 0)


def test_stop_keeps_the_first_and_counts_the_others(tmp_path: Path) -> None:
    made = Handmade([Launch(index) for index in range(6)], mode=2, capacity=6, next=6, lost=94)
    found = read(tmp_path, made.slots())
    assert (len(found.is_open), found.mode, found.lost, found.missing) == (6, "stop", 94, 0)


def test_under_way_boundaries_need_no_check_and_must_be_in_order(tmp_path: Path) -> None:
    data = bytearray(Handmade([Launch(0, is_open=True), Launch(1, is_open=True)]).slots())
    struct.pack_into("<4q", data, 4096 + 16, START + 1, START + 5, START + 9, START + 99)
    struct.pack_into("<4q", data, 4096 + 64 + 16, START + 10_001, START + 10_000, -7, 1 << 62)
    found = read(tmp_path, bytes(data)).launches
    assert [found[name][0] - START for name in ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")] == [1, 5, 9]
    assert [found[name][1] for name in ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")] == [
        START + 10_001, -1, -1]
    assert found["end_ns"].tolist() == [-1, -1]


@pytest.mark.parametrize(("launch", "kept"), [
    (Launch(1, start_ns=0), True), (Launch(1, times_ns=(-1, -1, -1, -1)), True),
    (Launch(1, times_ns=(-1, -1, -1, START)), False), (Launch(1, start_ns=1 << 61), False),
    (Launch(1, times_ns=(-1, -1, -1, 1 << 61)), False), (Launch(1, kind=2), False),
    (Launch(1, times_ns=(5, -5, 1 << 61, START + 90_000)), True),
])
def test_times_that_cannot_be_are_not_believed(tmp_path: Path, launch: Launch, kept: bool) -> None:
    found = read(tmp_path, Handmade([Launch(0), launch, Launch(2)]).slots())
    assert sequences(found) == ([1, 2, 3] if kept else [1, 3])
    assert (found.damaged, found.missing) == ((0, 0) if kept else (1, 1))
    assert all((found.launches[name] >= -1).all() for name in found.launches)


def test_a_voided_slot_is_no_launch_and_nothing_is_missing(tmp_path: Path) -> None:
    found = read(tmp_path, Handmade([Launch(0), Launch(1, kind=0), Launch(2)]).slots())
    assert sequences(found) == [1, 3] and (found.damaged, found.missing) == (0, 0)


def test_a_launch_that_died_as_it_wrote_its_end_has_ended(tmp_path: Path) -> None:
    data = bytearray(Handmade([Launch(index) for index in range(3)]).slots())
    data[4096 + 64 + 7] |= 0x80  # the sequence number is written last
    found = read(tmp_path, bytes(data))
    assert sequences(found) == [1, 2, 3] and not found.is_open.any() and found.damaged == 0
    assert found.launches["end_ns"][1] == START + 18_000


def test_a_launch_in_two_slots_is_there_once(tmp_path: Path) -> None:
    begun = Launch(2, is_open=True)
    made = Handmade([Launch(0), Launch(1), begun, Launch(2), Launch(1, target=9)], places=range(5))
    found = read(tmp_path, made.slots())
    assert sequences(found) == [1, 2, 3] and found.repeated == 2
    assert not found.is_open.any() and found.launches["target"].tolist() == [0, 0, 0]


def test_gaps_are_counted(tmp_path: Path) -> None:
    found = read(tmp_path, Handmade([Launch(index) for index in (0, 1, 5, 6)], next=9).slots())
    assert sequences(found) == [1, 2, 6, 7] and found.missing == 5 and found.damaged == 0


def test_a_slot_torn_while_it_was_written_is_no_launch(tmp_path: Path) -> None:
    data = bytearray(Handmade([Launch(index) for index in range(3)]).slots())
    data[4096 + 64:4096 + 72] = bytes(8)  # everything but the sequence number
    found = read(tmp_path, bytes(data))
    assert sequences(found) == [1, 3] and (found.damaged, found.missing) == (1, 1)


@pytest.mark.parametrize(("at", "value", "notes"), [
    (28, struct.pack("<I", 7), 1), (64, struct.pack("<Q", 1 << 60), 1),
    (64, struct.pack("<Q", 1), 0), (64, bytes(8), 0),  # what it counts may be half a segment behind
    (32, struct.pack("<Q", 1 << 60), 0), (28, struct.pack("<I", 1), 0), (24, struct.pack("<I", 0), 0),
    (40, struct.pack("<Q", 1 << 60), 0),
])
def test_a_damaged_header_costs_no_launch(tmp_path: Path, at: int, value: bytes, notes: int) -> None:
    data = bytearray(Handmade([Launch(index) for index in range(10)]).slots())
    data[at:at + len(value)] = value
    found = read(tmp_path, bytes(data))
    assert sequences(found) == list(range(1, 11)) and len(found.notes) == notes


def test_launches_that_moved_are_still_found(tmp_path: Path) -> None:
    data = Handmade([Launch(index) for index in range(20)]).slots()
    found = read(tmp_path, data[:4096 + 5 * 64] + data[4096 + 9 * 64:])
    assert sequences(found) == [1, 2, 3, 4, 5, *range(10, 21)] and found.missing == 4


@pytest.mark.parametrize(("data", "words"), [
    (b"", "cut off at byte 0, within its header"), (b"kernelscope ring" + bytes(50), "cut off at byte 66"),
    (b"PK\x03\x04" + bytes(8192), "is no journal of launches"), (bytes(8192), "is no journal of launches"),
])
def test_what_is_no_slots_file_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(JournalError, match=words):
        read(tmp_path, data)


def test_another_slot_size_is_refused(tmp_path: Path) -> None:
    data = bytearray(Handmade([Launch(0)]).slots())
    data[20:24] = struct.pack("<I", 128)
    with pytest.raises(JournalError, match="version 2 and 128 bytes"):
        read(tmp_path, bytes(data))


def test_a_file_far_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    path.write_bytes(Handmade([Launch(0)]).slots())
    os.truncate(path, 1 << 36)
    with pytest.raises(JournalError, match="at most 268,435,456 are read"):
        read_slots(path)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be read: No such file"):
        read_slots(tmp_path / "slots")
    (tmp_path / "slots").mkdir()
    with pytest.raises(JournalError, match="cannot be read"):
        read_slots(tmp_path / "slots")


# ---- Damage anywhere ----

SIZE = 300
WHOLE = [Launch(index, is_open=index % 97 == 50, target=index % 3, site=index % 2) for index in range(SIZE)]
DATA = Handmade(WHOLE).slots()
END = 4096 + SIZE * 64
BY_SEQUENCE = {launch.index + 1: launch for launch in WHOLE}


def assert_written(found: Any) -> None:
    """Every launch that was read is one of those that were written, with its own values."""
    for at, sequence in enumerate(sequences(found)):
        launch = BY_SEQUENCE[sequence]
        assert launch.times_ns is not None
        values = {name: int(found.launches[name][at]) for name in found.launches}
        assert (values["start_ns"], values["target"], values["site"], values["configuration"]) == (
            launch.start_ns, launch.target, launch.site, launch.configuration)
        assert bool(found.is_open[at]) == launch.is_open
        if not launch.is_open:
            assert (values["dispatch_end_ns"], values["submit_start_ns"], values["submit_end_ns"],
                    values["end_ns"]) == launch.times_ns


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(DATA)))
def test_torn_anywhere(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    if length < 80:
        with pytest.raises(JournalError):
            read(tmp_path_factory.mktemp("torn"), DATA[:length])
        return
    found = read(tmp_path_factory.mktemp("torn"), DATA[:length])
    assert_written(found)
    kept = min(max((length - 4096) // 64, 0), SIZE)
    assert len(sequences(found)) == kept and found.missing == SIZE - kept


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(80, END - 1), st.integers(0, 7)), min_size=1, max_size=60))
def test_a_bit_flipped_in_any_slot(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    data, hit = bytearray(DATA), {}
    for at, bit in flips:
        if hit.setdefault((at - 4096) // 64, at) == at:  # the check is sure to see one flip in a slot, not two
            data[at] ^= 1 << bit
    changed = {place for place in hit if place >= 0 and data[4096 + place * 64:4160 + place * 64]
               != DATA[4096 + place * 64:4160 + place * 64]}
    found = read(tmp_path_factory.mktemp("flip"), bytes(data))
    # Boundaries of launches under way are not checked: they may be filled in at any time.
    unchecked = {place for place in changed if WHOLE[place].is_open and 16 <= (hit[place] - 4096) % 64 < 48}
    # The bit that says "under way" is taken away last.
    unchecked |= {place for place in changed if not WHOLE[place].is_open and hit[place] == 4096 + place * 64 + 7
                  and data[hit[place]] == 0x80}
    assert set(sequences(found)) == {place + 1 for place in range(SIZE) if place not in changed - unchecked}
    assert_written(found)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 79), st.integers(0, 7))
def test_a_bit_flipped_in_the_header(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    data = bytearray(DATA)
    data[at] ^= 1 << bit
    if at < 24:
        with pytest.raises(JournalError):
            read(tmp_path_factory.mktemp("head"), bytes(data))
        return
    found = read(tmp_path_factory.mktemp("head"), bytes(data))
    assert_written(found)
    assert len(sequences(found)) == SIZE


def test_garbage_alone_holds_no_launch(tmp_path: Path) -> None:
    noise = np.random.default_rng(7).integers(0, 256, 64 << 16, np.uint8).tobytes()
    found = read(tmp_path, DATA[:4096] + noise)
    assert sequences(found) == [] and found.damaged == 1 << 16 and found.missing == SIZE
