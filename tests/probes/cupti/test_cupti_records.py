"""The walk over CUPTI's buffers, against a naive one, and what is read of a record."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from kernelscope.probes.cupti.records import (
    BUFFER_BYTES,
    FIELDS,
    KERNEL,
    SHAPE,
    Buffers,
    Sizes,
    fields,
    positions,
    shapes,
)

SIZES = {1: 112, 2: 104, 4: 40, 5: 40, 10: 248, 38: 56, 51: 72, 77: 8}


def mixed(source, count):
    """Kinds with runs, patterns and noise."""
    kinds = []
    while len(kinds) < count:
        choice = source.random()
        if choice < 0.3:
            kinds += [source.choice(list(SIZES))] * source.randint(1, 200)
        elif choice < 0.6:
            kinds += source.choices(list(SIZES), k=source.randint(2, 15)) * source.randint(1, 60)
        else:
            kinds += source.choices(list(SIZES), k=source.randint(1, 40))
    return kinds[:count]


def laid_out(source, buffers):
    """An arena of buffers; their starts, their ends, and where each record is with its kind."""
    room = 1 << 17
    arena = np.frombuffer(source.randbytes(room * buffers), np.uint8).copy()
    words = arena.view(np.int32)
    starts, ends, expected = [], [], []
    for number in range(buffers):
        at = number * room
        starts.append(at)
        for kind in mixed(source, source.choice([0, 1, 23, 24, 25, 700])):
            if at + SIZES[kind] > (number + 1) * room:
                break
            words[at // 4] = kind
            expected.append((at, kind))
            at += SIZES[kind]
        ends.append(at)
    return arena, np.array(starts), np.array(ends), expected


def size_of(arena, asked=None):
    def ask(at, end):
        kind = int(arena.view(np.int32)[at // 4])
        if asked is not None:
            asked.append(kind)
        if kind not in SIZES:
            raise ValueError("CUPTI itself does not know")
        return min(SIZES[kind], end - at)

    return ask


@pytest.mark.parametrize("seed", range(25))
def test_every_record_is_found(seed):
    source = random.Random(seed)
    arena, starts, ends, expected = laid_out(source, 5)
    order = source.sample(range(5), 5)
    asked = []
    found, problem = positions(arena, starts[order], ends[order], Sizes(), size_of(arena, asked))
    assert problem is None
    assert in_order(found) == expected
    buffers = {kind: np.searchsorted(starts, at, side="right") - 1 for kind, at in found.items()}
    for kind, at in found.items():  # buffer after buffer as they were given, ascending in each
        assert (np.diff(np.argsort(order)[buffers[kind]]) >= 0).all()
        assert all((np.diff(at[buffers[kind] == buffer]) > 0).all() for buffer in order)
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("seed", range(25))
def test_what_follows_a_torn_record_is_left_out_of_its_buffer_only(seed):
    source = random.Random(seed)
    arena, starts, ends, expected = laid_out(source, 4)
    sizes = Sizes()
    for kind, size in SIZES.items():
        sizes.learn(kind, size)
    at, kind = source.choice(expected)
    arena.view(np.int32)[at // 4] = source.choice([0, -1, 60, 127, 128, 1 << 30])
    buffer = int(np.searchsorted(starts, at, side="right")) - 1
    found, problem = positions(arena, starts, ends, sizes, size_of(arena))
    assert in_order(found) == [row for row in expected if row[0] < at or row[0] >= ends[buffer]]
    assert problem is not None


def test_a_record_beyond_the_end_is_none():
    arena = np.zeros(4096, np.uint8)
    arena.view(np.int32)[:20:10] = 4
    sizes = Sizes()
    sizes.learn(4, 40)
    found, problem = positions(arena, np.array([0]), np.array([79]), sizes, size_of(arena))
    assert in_order(found) == [(0, 4)]
    assert problem == "a record of kind 4 reaches over the end of its buffer"
    assert in_order(positions(arena, np.array([0]), np.array([44]), sizes, size_of(arena))[0]) == [(0, 4)]


@pytest.mark.parametrize(("kind", "size"), [(1, 72), (10, 184), (1, 84), (128, 64), (-1, 64), (51, 0)])
def test_sizes_that_cannot_be_are_refused(kind, size):
    with pytest.raises(ValueError, match="activity record"):
        Sizes().learn(kind, size)


@pytest.mark.parametrize("kind", FIELDS)
def test_fields_are_read_where_they_are(kind):
    count, size = 9_000, 256
    arena = np.frombuffer(random.Random(kind).randbytes(count * size), np.uint8)
    at = np.arange(count, dtype=np.int64) * size
    found = fields(arena, at, kind)
    for name, dtype, offset in FIELDS[kind]:
        if kind == KERNEL and name in SHAPE:
            continue
        width = np.dtype(dtype).itemsize
        expected = [int.from_bytes(arena[row + offset:row + offset + width].tobytes(), "little", signed=dtype[0] == "i")
                    for row in at[::500].tolist()]
        mask = (1 << 64) - 1
        assert [value & mask for value in found[name][::500].tolist()] == [value & mask for value in expected]


def test_equal_configurations_have_one_number_and_others_another():
    source = np.random.default_rng(3)
    rows = source.integers(0, 3, (5_000, 10)).astype(np.int32)
    arena = np.zeros((5_000, 256), np.uint8)
    words = arena.view(np.int32)
    offsets = [offset // 4 for name in SHAPE for field, _, offset in FIELDS[KERNEL] if field == name]
    words[:, offsets] = rows
    at = np.arange(5_000) * 256
    assert shapes(arena.ravel(), at[:50]) == [tuple(row) for row in rows[:50].tolist()]
    numbers = fields(arena.ravel(), at, KERNEL)["shape"]
    _, expected = np.unique(rows, axis=0, return_inverse=True)
    pairs = set(zip(numbers.tolist(), expected.ravel().tolist(), strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len({number for _, number in pairs})


class TestBuffers:
    def test_what_is_lent_is_apart_and_comes_back(self):
        buffers = Buffers()
        addresses = [buffers.lend() for _ in range(5)]
        assert all(second - first == BUFFER_BYTES for first, second in itertools.pairwise(addresses))
        for address in addresses:
            buffers.lent[address] = True
        assert buffers.collect() == 5
        for address in addresses[:3]:
            buffers.give(0, 7, address, BUFFER_BYTES, 0)
        assert buffers.collect() == 2
        buffers.give_up()
        assert buffers.collect() == 0
        buffers.read(lambda *_: 0, lambda *_: pytest.fail("there is no record"))
        assert {buffers.lend() for _ in range(3)} == set(addresses[:3])

    def test_a_foreign_buffer_and_a_second_return_are_ignored(self):
        buffers = Buffers()
        address = buffers.lend()
        buffers.lent[address] = True
        buffers.give(0, 0, 0, 0, 0)
        buffers.give(0, 0, 12345, 8, 8)
        buffers.give(0, 0, address, BUFFER_BYTES, 0)
        buffers.give(0, 0, address, BUFFER_BYTES, 0)
        assert buffers.collect() == 0
        buffers.read(lambda *_: 0, lambda *_: None)
        assert buffers.lend() == address
        assert buffers.lend() != address

    def test_memory_goes_back_to_the_system(self):
        buffers = Buffers()
        before = resident()
        for _ in range(200):
            address = buffers.lend()
            buffers.lent[address] = True
            place = address - buffers.arena.ctypes.data
            buffers.arena[place:place + BUFFER_BYTES] = 1
            buffers.give(0, 0, address, BUFFER_BYTES, 0)
        assert resident() > before + 150 * BUFFER_BYTES
        buffers.read(lambda *_: 0, lambda *_: None)
        buffers.release()
        assert resident() < before + 50 * BUFFER_BYTES

    def test_the_log_begins_again(self, monkeypatch):
        monkeypatch.setattr("kernelscope.probes.cupti.records._LOG_BYTES", 4096)
        buffers = Buffers()
        for _ in range(2_000):
            address = buffers.lend()
            buffers.lent[address] = True
            buffers.give(0, 0, address, BUFFER_BYTES, 0)
            assert buffers.collect() == 0
            buffers.read(lambda *_: 0, lambda *_: None)
            buffers.release()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def in_order(found):
    """Offsets and kinds of all records, by offset."""
    return sorted((place, kind) for kind, at in found.items() for place in at.tolist())
