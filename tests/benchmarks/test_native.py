"""The benchmarks of the recorder: each part runs, and what tells lost launches from kept ones does."""

from __future__ import annotations

import importlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
UNDER_WAY = 1 << 63
Times = list[tuple[int, int]]


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("native_kills")


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("native_ways")


@pytest.mark.slow
def test_every_part_runs(tmp_path: Path) -> None:
    output = tmp_path / "native.json"
    ran = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / "native.py", "--quick", "--output", output], capture_output=True,
        text=True, timeout=600, check=False,
        env={**os.environ, "KERNELSCOPE_DRYRUN": "1", "KERNELSCOPE_BENCHMARK_FOLDER": str(tmp_path),
             "PYTHONPATH": str(FOLDER.parent)},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    parts = json.loads(output.read_text())["parts"]
    assert list(parts) == ["launches", "single", "kills", "memory", "profilers", "tables"]
    missing = [text for part in parts.values() for text in part["missing"]]
    assert not [text for text in missing if "failed" in text], missing
    for name, part in parts.items():
        assert part["rows"] or name == "kills", name
        assert all(f"| {row['figure']} | {row['at_most']} | {row['measured']} |" in ran.stdout for row in part["rows"])
    assert {row["way"] for row in parts["launches"]["rows"]} == {"off again", "launch", "phases"}
    assert parts["kills"]["rows"] or any("SIGKILL" in text for text in missing)
    assert "viztracer" in str(missing) or any("viztracer" in row["way"] for row in parts["profilers"]["rows"])
    assert {row["arguments"] for row in parts["launches"]["rows"]} == {0, 4}
    assert not list(tmp_path.glob("kernelscope-benchmark-*"))
    assert any(row["way"] == "cProfile" and row["arguments"] == 0 for row in json.loads(output.read_text())["against"])


def test_other_profilers_are_compared_with_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    native: Any = importlib.import_module("native")
    interval = {"median": 200.0, "low": 100.0, "high": 250.0}
    rows = [{"arguments": 0, "way": way, "added_ns": interval} for way in ("launch", "phases")]
    other = {"median": 20_000.0, "low": 10_000.0, "high": 30_000.0}
    profilers = [{"arguments": count, "way": way, "compared": way == "cProfile", "added_ns": other}
                 for count in (0, 4) for way in ("cProfile", "phases")]
    found = native.against({"launches": {"rows": rows}, "profilers": {"rows": profilers}}).rows
    assert [row["figure"] for row in found] == ["cProfile: 0 arrays, against phases"]
    assert found[0]["measured"].endswith("100 times as much, at least 40")
    assert found[0]["least"] == 40
    assert native.against({}).rows == []


def test_slots_are_read_as_they_are_published(kills: Any, tmp_path: Path) -> None:
    path = journal(tmp_path, [(10, 20), (30, 40), (50, -1)])
    slots = kills.read_slots(path)
    assert slots["start_ns"].tolist() == [10, 30, 50]
    assert slots["end_ns"].tolist() == [20, 40, -1]
    assert slots["target"].tolist() == [7, 7, 7]
    assert slots["site"].tolist() == [3, 3, 3]


def test_a_wrong_check_is_not_read_over(kills: Any, tmp_path: Path) -> None:
    path = journal(tmp_path, [(10, 20), (30, 40), (50, 60)])
    data = bytearray(path.read_bytes())
    data[4096 + 64 + 8] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="the check of slot 1 is wrong"):
        kills.read_slots(path)


def test_what_the_kill_tore_is_the_last_slot_and_left_out(kills: Any, tmp_path: Path) -> None:
    path = journal(tmp_path, [(10, 20), (30, 40)])
    data = bytearray(path.read_bytes())
    data[4096 + 64 + 40] ^= 1
    path.write_bytes(data)
    assert kills.read_slots(path)["start_ns"].tolist() == [10]


@pytest.mark.parametrize("header", [b"another file    " + struct.pack("<I", 2), b"kernelscope ring" + b"\1\0\0\0"])
def test_a_file_of_another_kind_is_refused(kills: Any, tmp_path: Path, header: bytes) -> None:
    path = journal(tmp_path, [(10, 20)])
    path.write_bytes(header + path.read_bytes()[len(header):])
    with pytest.raises(ValueError, match=r"slots: neither a ring nor version 2"):
        kills.read_slots(path)


@pytest.mark.parametrize(("kept", "lost", "wrong"), [
    ([(10, 20), (30, 40), (50, 60)], 0, 0),
    ([(10, 20), (30, 40), (50, 60), (70, -1)], 0, 0),
    ([(10, 20), (30, 40)], 1, 0),
    ([(10, 20), (30, 40), (50, -1)], 1, 0),
    ([], 3, 2),
    ([(10, 20), (50, 60)], 1, 1),
    ([(10, 20), (30, 48), (50, 60)], 1, 0),
])
def test_lost_launches_are_counted(kills: Any, tmp_path: Path, kept: Times, lost: int, wrong: int) -> None:
    told = np.array([(0, 9, 21), (1, 29, 41), (2, 49, 61)])
    found = kills.compare(told, kills.read_slots(journal(tmp_path, kept)))
    assert (found["acknowledged"], found["lost"], found["wrong"]) == (3, lost, wrong)
    assert found["recovered"] == len(kept)
    assert found["under_way"] == sum(end < 0 for _, end in kept)


def test_slots_out_of_order_are_counted(kills: Any, tmp_path: Path) -> None:
    told = np.array([(0, 9, 21), (1, 29, 41)])
    path = journal(tmp_path, [(10, 20), (30, 40)], sequences=[2, 1])
    assert kills.compare(told, kills.read_slots(path))["wrong"] == 1


def test_quiet_pairs_count_where_they_are_half(ways: Any) -> None:
    plain = [1000.0] * 10
    recorded = [1100.0] * 6 + [5000.0] * 4
    found = ways.paired(plain, recorded, [True] * 6 + [False] * 4)
    assert found["added_ns"] == {"median": 100.0, "low": 100.0, "high": 100.0}
    assert found["share"]["median"] == pytest.approx(0.1)
    assert (found["pairs"], found["of"], found["moments"]) == (6, 10, "quiet")
    found = ways.paired(plain, recorded, [True] * 4 + [False] * 6)
    assert (found["pairs"], found["of"], found["moments"]) == (10, 10, "all")
    assert found["added_ns"]["high"] > 100


def journal(folder: Path, times: Times, sequences: list[int] | None = None) -> Path:
    """A slots file of one thread, each launch with its start and end (-1: under way)."""
    path = folder / "slots"
    header = struct.pack("<16s5I", b"kernelscope ring", 2, 64, 4096, 0, 0).ljust(4096, b"\0")
    slots = [slot((sequences or range(1, len(times) + 1))[number], start, end)
             for number, (start, end) in enumerate(times)]
    path.write_bytes(header + b"".join(slots).ljust(4096 * 64, b"\0"))
    return path


def slot(sequence: int, start: int, end: int) -> bytes:
    """One slot, with its check worked out a word at a time."""
    under_way = end < 0
    inner = (start + 1, start + 2, -1, end)
    written = struct.pack("<Q5q3i2H", sequence | UNDER_WAY * under_way, start, *inner, 7, 2, 3, 1, 0)
    words = list(struct.unpack("<8Q", written))
    if under_way:
        words[2:6] = [(1 << 64) - 1] * 4
    check = 0
    for word in words:
        check = ((check << 9 | check >> 55) & ((1 << 64) - 1)) ^ word
    check ^= check >> 32
    check ^= check >> 16
    return written[:62] + struct.pack("<H", check & 0xFFFF)
