from __future__ import annotations

import gc
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelscope.errors import RecordingFileError
from kernelscope.recording import parquet
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import (
    BINARY,
    BOOL,
    I16,
    I32,
    I64,
    Budget,
    arrow_schema,
    decode,
    empty_table,
    encode,
    fixed_bytes,
    make_table,
    read_struct,
    table_of_rows,
)
from kernelscope.schema import TABLES


@pytest.fixture
def threads(full: Recording) -> pa.Table:
    """A small table with an int32, an int64 and a text."""
    return full.arrow("threads")


def _decode(data: Any, rows: int = 2, name: str = "threads", budget: Budget | None = None) -> pa.Table:
    return decode(name, memoryview(bytes(data)), rows, budget or Budget(0))


def _parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    defaults = {"store_schema": False, "write_statistics": False, "compression": "zstd"}
    pq.write_table(table, sink, **{**defaults, **options})
    return bytes(sink.getvalue())


@pytest.mark.parametrize("name", TABLES)
def test_tables_come_back(name: str, full: Recording) -> None:
    table = full.arrow(name)
    data = encode(name, table)
    assert _decode(data, table.num_rows, name).to_pylist() == table.to_pylist()
    assert _decode(encode(name, empty_table(name)), 0, name).schema == arrow_schema(name)


def test_file_is_as_documented_and_row_groups_share_one_dictionary(many: Recording) -> None:
    data = encode("launches", many.arrow("launches"))
    cache = _decode(data, 300_000, "launches").column("cache")
    assert cache.num_chunks == 1
    assert sorted(cache.chunk(0).dictionary.to_pylist()) == ["compiled", "memory"]
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        metadata = file.metadata
    assert metadata.metadata is None
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [131072] * 2 + [37856]
    for index, column in enumerate(TABLES["launches"].columns):
        chunk = metadata.row_group(0).column(index)
        assert chunk.compression == "ZSTD"
        others = ("graph_node_id", "compilation_id", "capture_event_id", "build_id")
        says_whose = column.dtype == "int32" and column.name not in others
        coded = column.dtype == "category" or says_whose
        assert ("RLE_DICTIONARY" if coded else "DELTA_BINARY_PACKED") in chunk.encodings
        assert not chunk.is_stats_set


@pytest.mark.parametrize("name", TABLES)
def test_columns_that_an_older_file_lacks_are_null(name: str, full: Recording) -> None:
    table = full.arrow(name)
    added = [column.name for column in TABLES[name].columns if column.nullable]
    for left_out in (added, added[::2]):
        found = _decode(_parquet(table.drop_columns(left_out)), table.num_rows, name)
        assert found.schema == arrow_schema(name)
        assert found.to_pylist() == [{**row, **dict.fromkeys(left_out)} for row in table.to_pylist()]


def test_columns_without_values_cost_next_to_nothing(many: Recording) -> None:
    nothing = pa.Table.from_arrays(
        [pa.nulls(300_000, field.type) if field.nullable else column
         for field, column in zip(arrow_schema("launches"), many.arrow("launches").columns, strict=True)],
        schema=arrow_schema("launches"))
    # What is left are three columns of noise, of 1, 1 and 3 bits, and times without any.
    start = nothing.schema.get_field_index("start_ns")
    regular = nothing.set_column(start, nothing.schema.field(start), pa.array(range(300_000), pa.int64()))
    assert len(encode("launches", regular)) < 300_000


def _renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns(["thread_id", "ident", "nom", "process_id"])


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t.drop_columns(["ident"]), "table 'threads' has no column 'ident'"),
    (_renamed, "table 'threads' has a column 'nom' too many"),
    (lambda t: t.append_column("extra", t.column(0)), "has a column 'extra' too many"),
    (lambda t: t.append_column("name", t.column(2)), "too many or out of its place"),
    (lambda t: t.select([1, 0, 2]), "out of its place"),
    (lambda t: t.set_column(1, t.schema.field(1).with_type(pa.int32()), pa.array([1, 2], pa.int32())),
     "column threads.ident is not of type int64"),
    (lambda t: t.set_column(0, pa.field("thread_id", pa.uint32(), nullable=False), pa.array([0, 1], pa.uint32())),
     "table 'threads' has a damaged footer, or one of another program"),
    (lambda t: t.set_column(1, pa.field("ident", pa.timestamp("ns"), nullable=False),
                            pa.array([0, 1], pa.timestamp("ns"))), "damaged footer"),
    (lambda t: t.set_column(2, "name", pa.array([b"x", b"y"], pa.binary())),
     "column threads.name is not of type string"),
    (lambda t: t.set_column(2, "name", pa.array([["x"], ["y"]], pa.list_(pa.string()))), "threads"),
    (lambda t: t.set_column(2, "name", pa.array([{"a": 1}] * 2)), "threads"),
    (lambda t: t.set_column(0, pa.field("thread_id", pa.int32()), pa.array([0, None], pa.int32())),
     "column threads.thread_id may not be null"),
    (lambda t: t.set_column(2, pa.field("name", pa.string(), nullable=False), pa.array(["a", "b"])),
     "column threads.name may be null"),
    (lambda t: t.slice(0, 1), "table 'threads' has 1 rows; the manifest says 2"),
    (lambda t: pa.concat_tables([t, t]), "table 'threads' has 4 rows; the manifest says 2"),
])
def test_other_columns_are_refused(change: Callable[[pa.Table], pa.Table], message: str, threads: pa.Table) -> None:
    with pytest.raises(RecordingFileError) as caught:
        _decode(_parquet(change(threads)))
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [
    {"compression": "snappy"}, {"compression": "gzip"}, {"compression": "brotli"}, {"data_page_version": "2.0"},
    {"write_statistics": True}, {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}},
    {"use_dictionary": False, "column_encoding": {"ident": "BYTE_STREAM_SPLIT"}}, {"store_schema": True},
])
def test_what_is_not_written_is_not_read(options: dict[str, Any], threads: pa.Table) -> None:
    with pytest.raises(RecordingFileError):
        _decode(_parquet(threads, **options))


class _Trap:
    """What a hostile pickle would run: it leaves a file behind."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def test_pickled_extension_type_is_not_evaluated(threads: pa.Table, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    field = threads.schema.field(2).with_metadata({
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(_Trap(str(trap))),
    })
    with pytest.raises(RecordingFileError, match="carries metadata, from which types would be restored"):
        _decode(_parquet(threads.set_column(2, field, threads.column(2)), store_schema=True))
    assert not trap.exists()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(4) + b"PAR1", b"PARE" * 5, bytes(100),
                                  b"PAR1" + b"\xff" * 4 + b"PAR1", b"PAR1\x00" + b"\x01\0\0\0PAR1"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RecordingFileError, match="table 'threads'"):
        _decode(data)


# Files whose checksums are right: made to harm, or written by a broken program.

@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_no_changed_byte_does_more_than_change_a_value(compression: str, full: Recording) -> None:
    rng = random.Random(7)
    for name in ("threads", "specializations", "launches"):
        table = full.arrow(name)
        sound = _parquet(table, compression=compression, column_encoding=None)
        for _ in range(300):
            data = bytearray(sound)
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            try:
                found = _decode(data, table.num_rows, name)
            except RecordingFileError as error:
                assert f"{name}" in str(error) or "more than" in str(error)
            else:
                assert found.schema == arrow_schema(name)
                assert found.num_rows == table.num_rows
                found.to_pylist()


def test_unknown_codec_does_not_end_the_process(threads: pa.Table) -> None:
    # pyarrow 26 aborts when it is asked for the name of a codec that it does not know.
    data = bytes(encode("threads", threads))
    size = int.from_bytes(data[-8:-4], "little")
    # The fields path_in_schema and codec of the first column.
    codec = data.index(b"thread_id\x15\x0c\x16", len(data) - 8 - size) + len("thread_id")
    with pytest.raises(RecordingFileError, match="codec"):
        _decode(data[:codec] + b"\x15\x2c" + data[codec + 2:])


def test_page_that_inflates_to_more_than_it_says_is_refused(threads: pa.Table) -> None:
    data = bytes(encode("threads", threads))
    # The first page begins at byte 4: type, then its size uncompressed as a zigzag varint.
    assert data[4:7] == b"\x15\x00\x15"
    assert data[7] < 127
    with pytest.raises(RecordingFileError, match=r"threads\.thread_id says that it inflates to \d+ bytes, its pag"):
        _decode(data[:7] + bytes([data[7] + 2]) + data[8:])


def test_page_that_inflates_to_less_than_it_says_is_refused(threads: pa.Table) -> None:
    data = bytearray(encode("threads", threads))
    size = int.from_bytes(data[-8:-4], "little")
    page, chunk = data[7], data.index(bytes([0x16, 4, 0x16]), len(data) - 8 - size) + 3
    for place in (7, chunk):
        data[place] += 2
    assert page + 2 == data[7]
    with pytest.raises(RecordingFileError, match="cannot be decoded"):
        _decode(data)


def test_pages_beyond_the_budget_are_not_decoded(full: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "FLOOR_BYTES", 1 << 20)
    bomb = pa.table({"probe": ["x"], "text": ["0" * (5 << 20)]})
    health = full.arrow("health").slice(0, 1)
    health = health.set_column(2, health.schema.field(2), bomb.column("text"))
    data = encode("health", health)
    assert len(data) < 4000
    monkeypatch.setattr(parquet.pq, "ParquetFile", None)
    with pytest.raises(RecordingFileError, match=r"column health\.message would take more than the 1 MiB of memory"):
        _decode(data, 1, "health", Budget(len(data)))


def test_tables_that_repeat_are_counted_each_time(threads: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode("threads", threads)
    first = Budget(0)
    assert _decode(data, budget=first) is _decode(data, budget=Budget(0))
    taken = first.limit_bytes - first.left_bytes
    assert taken > 0
    monkeypatch.setattr(Budget, "FLOOR_BYTES", 3 * taken - 1)
    budget = Budget(0)
    for _ in range(2):
        _decode(data, budget=budget)
    with pytest.raises(RecordingFileError, match="table 'threads' would take more"):
        _decode(data, budget=budget)
    with pytest.raises(RecordingFileError, match="the manifest says 3"):
        _decode(data, 3)


def test_text_that_repeats_beyond_the_budget_is_not_spelled_out(threads: pa.Table,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    # A megabyte once, named by a thousand rows: 1 GB of text from 1 kB of file.
    monkeypatch.setattr(Budget, "FLOOR_BYTES", 16 << 20)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["0" * (1 << 20)]))
    schema = pa.schema([*list(threads.schema)[:2], pa.field("name", text.type)])
    numbers = [pa.array(range(1000), pa.int32()), pa.array(range(1000), pa.int64())]
    bomb = pa.Table.from_arrays([*numbers, text], schema=schema)
    data = _parquet(bomb)
    gc.collect()
    before = pa.total_allocated_bytes()
    with pytest.raises(RecordingFileError, match="its text would take more than the 16 MiB"):
        _decode(data, 1000, budget=Budget(len(data)))
    gc.collect()
    # Arrow's own pool counts what other tests' threads do meanwhile as well; spelled out it would be 1 GB.
    assert pa.total_allocated_bytes() - before < 16 << 20


def test_text_that_is_not_unicode_is_refused(threads: pa.Table) -> None:
    data = _parquet(threads.set_column(2, "name", pa.array(["abcd", None])), compression="none", use_dictionary=False)
    with pytest.raises(RecordingFileError, match="table 'threads' cannot be decoded"):
        _decode(data.replace(b"abcd", b"\xff\xfe\xfd\xfc"))


def test_budget_grows_with_the_file() -> None:
    Budget(0).take(512 << 20, "x")
    Budget(100 << 20).take(10_000 << 20, "x")
    budget = Budget(0)
    budget.take(512 << 20, "x")
    with pytest.raises(RecordingFileError, match="x would take more than the 512 MiB of memory"):
        budget.take(1, "x")


def test_fixed_bytes_counts_what_rows_take() -> None:
    assert fixed_bytes({"threads": 10}) == 10 * (4 + 8 + 8 + 4)
    assert fixed_bytes({"threads": 10, "devices": 0}) == 240


def test_minus_one_in_a_nullable_integer_array_is_null() -> None:
    table = make_table("threads", {"thread_id": np.arange(2), "ident": np.array([-1, 5])})
    assert table.column("ident").to_pylist() == [-1, 5]
    devices = make_table("devices", {"device_id": np.arange(2), "ordinal": np.array([-1, 5])})
    assert devices.column("ordinal").to_pylist() == [None, 5]


def test_minus_one_in_a_list_stays() -> None:
    assert table_of_rows("devices", [{"device_id": 0, "ordinal": -1}]).column("ordinal").to_pylist() == [-1]


@pytest.mark.parametrize("words", [
    ["ok", "failed"], np.array(["ok", "failed"], dtype=object), pa.array(["ok", "failed"]),
    pa.array(["ok", "failed"]).dictionary_encode(), pa.chunked_array([["ok"], ["failed"]]),
    pa.chunked_array([pa.array(["ok"]).dictionary_encode(), pa.array(["failed"]).dictionary_encode()]),
])
def test_categories_come_from_texts_of_any_kind(words: Any) -> None:
    table = make_table("health", {"probe": ["a", "b"], "status": words})
    assert table.schema == arrow_schema("health")
    assert table.column("status").to_pylist() == ["ok", "failed"]


def test_narrower_and_wider_integers_are_cast() -> None:
    table = make_table("threads", {"thread_id": np.arange(2, dtype=np.int64), "ident": np.arange(2, dtype=np.int16)})
    assert table.schema == arrow_schema("threads")


@pytest.mark.parametrize(("columns", "message"), [
    ({"nothing": [1]}, "table 'threads' has no column nothing"),
    ({"thread_id": [0]}, "table 'threads' needs column 'ident'"),
    ({"thread_id": [0], "ident": [1, 2]}, "column threads.ident has 2 rows, not 1"),
    ({"thread_id": [0], "ident": [None]}, "column threads.ident has 1 nulls and may have none"),
    ({"thread_id": [2**40], "ident": [1]}, "1099511627776"),
    ({"thread_id": np.array([2**40]), "ident": [1]}, "1099511627776"),
])
def test_wrong_columns_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_table("threads", columns)


def test_wrong_key_of_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="table 'threads' has no column b, c"):
        table_of_rows("threads", [{"thread_id": 0, "ident": 1}, {"c": 1, "b": 2}])


def test_rows_without_columns_need_their_number() -> None:
    assert make_table("threads", {}).num_rows == 0
    assert table_of_rows("threads", []).num_rows == 0
    with pytest.raises(ValueError, match="needs column"):
        make_table("threads", {}, rows=2)


FIELDS: dict[int, Any] = {1: I32, 2: I64, 3: BINARY, 4: BOOL, 5: [I32], 6: {1: BOOL}, 7: I16, 8: [{}], 9: b"\x11\0",
                          10: [b"\x11\0"], 11: [BINARY], 15: BOOL}


@pytest.mark.parametrize(("data", "found"), [
    ("00", {}),
    ("15 01 00", {1: -1}),
    ("15 fe ff ff ff 0f 00", {1: 2**31 - 1}),
    ("26 ff ff ff ff ff ff ff ff ff 01 00", {2: -(2**63)}),
    ("38 03 61 62 63 00", {3: b"abc"}),
    ("41 00", {4: True}),
    ("42 00", {4: False}),
    ("59 35 02 04 06 00", {5: [1, 2, 3]}),
    ("59 f5 0f" + "02" * 15 + "00", {5: [1] * 15}),
    ("6c 11 00 00", {6: {1: True}}),
    ("74 03 00", {7: -2}),
    ("89 2c 00 00 00", {8: [{}, {}]}),
    ("15 02 e2 00", {1: 1, 15: False}),
    ("9c 11 00 00", {9: b"\x11\0"}),
    ("a9 2c 11 00 11 00 00", {10: [b"\x11\0"] * 2}),
    ("a9 0c 00", {10: []}),
    ("b9 28 01 61 00 00", {11: [b"a", b""]}),
    ("59 25 80 01 02 00", {5: [64, 1]}),
])
def test_values_are_read(data: str, found: dict[int, Any]) -> None:
    raw = bytes.fromhex(data)
    assert read_struct(raw, 0, FIELDS) == (found, len(raw))
    assert read_struct(memoryview(b"\xff" + raw + b"\xff"), 1, FIELDS) == (found, len(raw) + 1)
    for size in range(len(raw)):
        with pytest.raises((IndexError, ValueError)):
            read_struct(raw[:size], 0, FIELDS)


@pytest.mark.parametrize("data", [
    "c5 02 00",  # field 12
    "16 02 00",  # an i64 where an i32 is expected
    "15 02 05 02 02 00",  # the long form: field 1 again
    "15 80 80 80 80 10 00",  # 33 bits
    "15 80 80 80 80 80 00 00",  # more bytes than any i32
    "26 80 80 80 80 80 80 80 80 80 02 00",  # 65 bits
    "38 80 80 80 80 80 00 00",  # a text's length
    "59 36 02 02 02 00",  # a list of i64
    "58 00 00",  # no list
    "59 f5 ff ff ff ff 0f 00",  # 4 billion elements
    "65 02 00",  # no struct
    "45 02 00",  # no bool
    "89 fc ff ff ff ff 0f 00",  # 4 billion empty structs
    "9c 12 00 00",  # another struct than the one that can be
    "9c 11 11 00",  # the same and more
    "95 02 00",  # a number in its place
    "a9 2c 11 00 12 00 00",  # another struct in a list
    "a9 25 02 02 00",  # numbers in its place
    "a9 fc ff ff ff ff 0f 00",  # 4 billion of them
    "59 22 02 02 00",  # a list of bools
    "b9 26 02 02 00",  # numbers in the place of text
])
def test_anything_else_is_refused(data: str) -> None:
    with pytest.raises((IndexError, ValueError)):
        read_struct(bytes.fromhex(data), 0, FIELDS)
