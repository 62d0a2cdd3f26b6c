"""Decodes what `kernelscope.views.timeline.wire.pack` makes, independently of the front end."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from kernelscope import Recording
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.wire import Packed, pack


def packed(recording: Recording) -> Packed:
    return pack(timeline_of(recording))


def unpacked(recording: Recording) -> Unpacked:
    return Unpacked(packed(recording))


class Unpacked:
    """Columns and texts of a packed recording."""

    def __init__(self, packed: Packed) -> None:
        # Through JSON, as the browser gets it.
        self.header: dict[str, Any] = json.loads(json.dumps(packed.header))
        self.data = zlib.decompress(packed.payload, -15)
        assert len(self.data) == self.header["inflated"]
        self.texts = json.loads(self.data[self.header["bytes"]:])
        self._held: dict[tuple[str, str], np.ndarray] = {}

    def rows(self, table: str) -> int:
        return self.header["tables"][table]["rows"]

    def columns(self, table: str) -> list[str]:
        return [spec["n"] for spec in self.header["tables"][table]["columns"]]

    def col(self, table: str, name: str) -> np.ndarray:
        if (table, name) not in self._held:
            spec = next(each for each in self.header["tables"][table]["columns"] if each["n"] == name)
            self._held[table, name] = self._decode(table, spec)
        return self._held[table, name]

    def words(self, table: str, name: str) -> list[str | None]:
        known = self.texts["words"][f"{table}.{name}"]
        return [None if code < 0 else known[code] for code in self.col(table, name).tolist()]

    def _decode(self, table: str, spec: dict[str, Any]) -> np.ndarray:
        rows = self.rows(table)
        if spec.get("p") == "sum":
            return np.sum([self.col(table, part) for part in spec["of"]], axis=0)
        out = np.full(rows, spec["b"], dtype=np.int64)
        for place in range(spec.get("k", 0)):
            at = spec["at"] + place * rows
            out += np.frombuffer(self.data[at:at + rows], dtype=np.uint8).astype(np.int64) << (8 * place)
        way = spec.get("p")
        before = spec.get("v", 0)
        if way == "delta":
            return np.cumsum(out) + before
        if way == "gap":
            lasting = self.col(table, spec["dur"])
            for row in range(rows):
                out[row] += before
                before = out[row] + lasting[row]
        elif way == "via":
            key, near = self.col(table, spec["key"]), self.col(*spec["of"])
            for row in range(rows):
                out[row] += near[key[row]] if key[row] >= 0 else before
                before = out[row]
        elif way == "map":
            out += np.array(spec["map"])[self.col(table, spec["key"]) + 1]
        return out
