"""The rows of a journal: what is whole is found again behind whatever is torn or garbled."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from handmade_journals import record
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.errors import JournalError
from kernelscope.recording import journal
from kernelscope.recording.journal import cleaned, read_rows

RECORDS = [record({"t": "dispatchers", "i": number, "r": {"framework": "numba-cuda", "name": f"k{number}"}})
           for number in range(40)]
DATA = b"".join(RECORDS)
STARTS = [sum(map(len, RECORDS[:number])) for number in range(41)]


def read(tmp_path: Path, data: bytes) -> Any:
    path = tmp_path / "rows"
    path.write_bytes(data)
    return read_rows(path)


def names(found: Any) -> dict[int, str]:
    return {number: row["name"] for number, row in found.tables["dispatchers"].items()}


def test_rows_are_read_by_number_and_later_ones_win(tmp_path: Path) -> None:
    found = read(tmp_path, DATA + record({"t": "dispatchers", "i": 3, "r": {"name": "new"}}))
    assert names(found) == {number: "new" if number == 3 else f"k{number}" for number in range(40)}
    assert (found.records, found.damaged, found.skipped_bytes) == (41, 0, 0)


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "rows").records == 0
    (tmp_path / "rows").mkdir()
    with pytest.raises(JournalError, match="cannot be read"):
        read_rows(tmp_path / "rows")


def test_values_are_taken_as_the_schema_has_them() -> None:
    row = {"framework": "f", "name": 5, "lineno": 2**31, "options": "[1]", "attributes": '{"a": 1}', "extra": 1,
           "dispatcher_id": True, "arguments": None}
    assert cleaned("dispatchers", row) == {"framework": "f", "attributes": '{"a": 1}'}
    assert cleaned("specializations", {"launch_config_sensitive": 1, "regs": -1, "cubin_bytes": 2**62}) == {
        "cubin_bytes": 2**62}
    assert cleaned("specializations", {"launch_config_sensitive": False, "regs": 1.0}) == {
        "launch_config_sensitive": False}
    assert cleaned("health", {"cost_ns": 3, "total_cost_ns": float("inf"), "clock_error_ns": True}) == {"cost_ns": 3.0}
    assert cleaned("cells", {"start_ns": -5, "end_ns": 2**60, "synchronized_ns": 2**60 - 1}) == {
        "synchronized_ns": 2**60 - 1}
    assert cleaned("targets", {"dispatcher_id": 3, "error": "TypeError", "other": 1}) == {
        "dispatcher_id": 3, "error": "TypeError"}


def test_half_characters_become_whole(tmp_path: Path) -> None:
    found = read(tmp_path, record(b'{"t": "dispatchers", "i": 0, "r": {"name": "a\\ud800b"}}'))
    assert names(found) == {0: "a?b"}


def test_ranges_are_joined(tmp_path: Path) -> None:
    found = read(tmp_path, b"".join(record({"t": "ranges", "v": [number + 0.5, 0, 1, 2]}) for number in range(3)))
    assert found.ranges == [0.5, 0, 1, 2, 1.5, 0, 1, 2, 2.5, 0, 1, 2]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(DATA)))
def test_torn_anywhere(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    found = read(tmp_path_factory.mktemp("torn"), DATA[:length])
    kept = sum(start <= length for start in STARTS[1:])
    assert names(found) == {number: f"k{number}" for number in range(kept)}
    assert found.skipped_bytes == length - STARTS[kept] and found.damaged == (length != STARTS[kept])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(1, 255)), min_size=1, max_size=12))
def test_bytes_changed_anywhere(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]) -> None:
    data = bytearray(DATA)
    for at, value in changes:
        data[at] ^= value
    found = read(tmp_path_factory.mktemp("changed"), bytes(data))
    whole = [number for number in range(40) if data[STARTS[number]:STARTS[number + 1]] == RECORDS[number]]
    assert {number: f"k{number}" for number in whole}.items() <= names(found).items()
    # The four reserved bytes of a record are in no checksum.
    assert all(name == f"k{number}" for number, name in names(found).items())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(DATA)), st.binary(min_size=1, max_size=200))
def test_garbage_in_between(tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes) -> None:
    found = read(tmp_path_factory.mktemp("noise"), DATA[:at] + noise + DATA[at:])
    inside = at not in STARTS
    lost = {number for number in range(40) if STARTS[number] < at < STARTS[number + 1]}
    assert names(found) == {number: f"k{number}" for number in range(40) if number not in lost}
    assert inside == bool(lost)
    assert found.damaged >= 1 and found.skipped_bytes >= len(noise)


def test_a_length_that_leads_far_costs_one_record(tmp_path: Path) -> None:
    head = struct.pack("<IIII", 0x5752534B, 1 << 31, 0, 0)
    found = read(tmp_path, RECORDS[0] + head + RECORDS[1])
    assert names(found) == {0: "k0", 1: "k1"} and found.skipped_bytes == 16


@pytest.mark.timeout(30)
def test_nothing_but_beginnings_is_read_in_time(tmp_path: Path) -> None:
    """Each of a million would have its checksum taken over megabytes."""
    head = struct.pack("<IIII", 0x5752534B, 4 << 20, 0, 0)
    found = read(tmp_path, head * (1 << 19) + RECORDS[0])
    assert found.records == 0 and found.damaged > 0


def test_more_than_is_read_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BYTES", STARTS[3])
    found = read(tmp_path, DATA)
    assert len(names(found)) == 3 and found.damaged == 1 and found.skipped_bytes == len(DATA) - STARTS[3]


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"t":' * 90_000, b"\xff", b"9" * 5000, b"",
                                     b'{"t": "health", "i": 0, "r": ' + b'{"a":' * 60 + b"1" + b"}" * 61])
def test_a_record_that_is_no_plain_json_is_counted(tmp_path: Path, content: bytes) -> None:
    found = read(tmp_path, RECORDS[0] + record(content) + RECORDS[1])
    assert names(found) == {0: "k0", 1: "k1"} and (found.records, found.damaged) == (3, 1)
