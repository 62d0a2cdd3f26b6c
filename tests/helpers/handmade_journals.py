"""Journals made by hand from the layout's description: a second writer, slow and obvious, to check the reader by."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPEN = 1 << 63
ONES = (1 << 64) - 1
NAME = "20250102-030405-999999-abcd"
START = 5_000_000_000_000


def check(words: Sequence[int]) -> int:
    """The check of a slot's eight words, of which the last has no check yet."""
    state = 0
    for place, word in enumerate(words):
        if words[0] & OPEN and 2 <= place <= 5:
            word = ONES
        state = ((state << 9 | state >> 55) & ONES) ^ word
    state ^= state >> 32
    state ^= state >> 16
    return state & 0xFFFF


@dataclass
class Launch:
    """One launch: when it began, what it went to, and whether it returned."""

    index: int
    is_open: bool = False
    target: int = 0
    configuration: int = 0
    site: int = 0
    start_ns: int = -1
    times_ns: tuple[int, int, int, int] | None = None
    kind: int = 1

    def __post_init__(self) -> None:
        if self.start_ns < 0:
            self.start_ns = START + self.index * 10_000
        if self.times_ns is None:
            first, last = self.start_ns, -1 if self.is_open else self.start_ns + 8_000
            self.times_ns = (first + 2_000, first + 4_000, -1 if self.is_open else first + 7_000, last)

    def packed(self) -> bytes:
        sequence = self.index + 1 | (OPEN if self.is_open else 0)
        assert self.times_ns is not None
        head = struct.pack("<Qqqqqqii", sequence, self.start_ns, *self.times_ns, self.target, self.configuration)
        tail = struct.pack("<iHH", self.site, self.kind, 0)
        return head + tail[:-2] + struct.pack("<H", check(struct.unpack("<8Q", head + tail)))


@dataclass
class Handmade:
    """A journal: its facts, its header, its slots by place, and its rows."""

    launches: Sequence[Launch] = ()
    places: Sequence[int] | None = None
    rows: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    ranges: list[float] = field(default_factory=list)
    facts: Mapping[str, Any] | None = field(default_factory=lambda: {
        "format": 1, "pid": 999999, "boot_id": "another", "created": "2025-01-02T03:04:05+00:00", "name": "training",
        "cwd": "/somewhere", "metadata": {
            "detail": "phases", "dry_run": True, "python": "3.11.9", "packages": {"numba-cuda": "0.30.4"},
            "clock": {"host_ns": START, "wall_ns": 10**18, "error_ns": 5}}})
    version: int = 2
    mode: int = 0
    capacity: int = 0
    next: int | None = None
    lost: int = 0

    def slots(self) -> bytes:
        places = [launch.index for launch in self.launches] if self.places is None else self.places
        following = max((launch.index + 1 for launch in self.launches), default=0) if self.next is None else self.next
        header = struct.pack("<16sIIIIQQq", b"kernelscope ring", self.version, 64, 4096, self.mode, self.capacity,
                             999999, START)
        header = header.ljust(64, b"\0") + struct.pack("<QQ", following, self.lost)
        segments = -(-(max(places, default=0) + 1) // 4096)
        data = bytearray(header.ljust(4096, b"\0") + bytes(segments * 4096 * 64))
        for place, launch in zip(places, self.launches, strict=True):
            data[4096 + place * 64:4160 + place * 64] = launch.packed()
        return bytes(data)

    def row_records(self) -> list[bytes]:
        records = [record({"t": table, "i": number, "r": row}) for table, number, row in self.rows]
        return records + ([record({"t": "ranges", "v": self.ranges})] if self.ranges else [])

    def write(self, base: Path, name: str = NAME) -> Path:
        """Make the folder and return it."""
        folder = base / name
        folder.mkdir(parents=True)
        if self.facts is not None:
            (folder / "journal.json").write_text(json.dumps(self.facts))
        (folder / "slots").write_bytes(self.slots())
        (folder / "rows").write_bytes(b"".join(self.row_records()))
        os.utime(folder, (1_700_000_000, 1_700_000_000))
        return folder


def record(content: Any) -> bytes:
    """One record of the rows."""
    payload = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<IIII", 0x5752534B, len(payload), zlib.crc32(payload), 0) + payload


def rows_of_axpy() -> list[tuple[str, int, dict[str, Any]]]:
    """Everything that launches of `axpy` with target, configuration and site 0 name; target 1 is `scale`."""
    dims = {f"{which}dim_{axis}": 1 for which in ("grid", "block") for axis in "xyz"}
    return [
        ("cells", 0, {"name": None, "execution_count": 3, "source": "axpy[1, 1](a)", "status": "ok",
                      "start_ns": START - 5_000}),
        ("threads", 0, {"ident": 140_000, "name": "MainThread"}),
        ("lines", 0, {"file": "In[3]", "line": 2, "function": "step"}),
        ("lines", 1, {"file": "library.py", "line": 7, "function": "solve", "user_code": False}),
        ("stacks", 0, {"parent_stack_id": None, "line_id": 0}),
        ("stacks", 1, {"parent_stack_id": 0, "line_id": 1}),
        ("sites", 0, {"thread_id": 0, "line_id": 0, "stack_id": 1}),
        ("devices", 0, {"ordinal": 0, "name": "NVIDIA H100"}),
        ("dispatchers", 0, {"framework": "numba-cuda", "name": "axpy", "module": "__main__",
                            "filename": "<ipython-input-3-x>", "lineno": 1, "attributes": "{}"}),
        ("dispatchers", 1, {"framework": "numba-cuda", "name": "scale"}),
        ("specializations", 0, {"dispatcher_id": 0, "signature": "(array(float32, 1d, C),)", "origin": "compiled"}),
        ("configurations", 0, {**dims, "sharedmem_bytes": 0, "stream": 0}),
        ("targets", 0, {"dispatcher_id": 0, "specialization_id": 0, "device_id": 0, "error": None}),
        ("targets", 1, {"dispatcher_id": 1, "specialization_id": -1, "device_id": -1, "error": "TypeError"}),
        ("compilations", 0, {"dispatcher_id": 0, "specialization_id": 0, "thread_id": 0, "configuration_id": 0,
                             "trigger": "launch", "signature": "(array(float32, 1d, C),)", "outcome": "compiled",
                             "start_ns": START + 100, "end_ns": START + 1_900}),
        ("passes", 0, {"compilation_id": 0, "kind": "pass", "name": "0_translate", "duration_ns": 500}),
        ("health", 0, {"probe": "numba-cuda", "status": "ok", "message": "fine"}),
    ]
