from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from unpack import Unpacked

from kernelscope.views.timeline.model import EXACT
from kernelscope.views.timeline.wire import Columns, Link

N = 50_000


def unpacked(columns: Columns) -> Unpacked:
    columns.add_text("{}")
    header = {
        "bytes": columns.size, "inflated": columns.whole_size,
        "tables": {name: {"rows": len(next(iter(columns.values[name].values()))), "columns": specs}
                   for name, specs in columns.specs.items()},
    }
    packed: Any = SimpleNamespace(header=header, payload=columns.deflate())
    return Unpacked(packed)


def values(kind: str) -> np.ndarray:
    random = np.random.default_rng(1)
    return {
        "constant": np.full(N, 7),
        "counting": np.arange(N) * 3 + 11,
        "noise": random.integers(0, 200, N),
        "wide": random.integers(-2**40, 2**40, N),
        "extreme": np.where(random.random(N) < 0.001, EXACT, -EXACT),
        "steps": np.cumsum(random.integers(0, 900, N)) * 1000,
        "one": np.array([-3]),
        "two": np.array([5, -3]),
        "none": np.empty(0, dtype=np.int64),
    }[kind]


@pytest.mark.parametrize("kind", ["constant", "counting", "noise", "wide", "extreme", "steps", "one", "two", "none"])
def test_columns_come_back_exactly(kind: str) -> None:
    columns = Columns()
    columns.add("t", "c", values(kind))
    assert unpacked(columns).col("t", "c").tolist() == values(kind).tolist()


@pytest.mark.parametrize("kind", ["constant", "counting"])
def test_what_can_be_foretold_takes_no_bytes(kind: str) -> None:
    columns = Columns()
    columns.add("t", "c", values(kind))
    assert columns.size == 0


def test_starts_are_near_the_end_before_or_near_what_asked_for_them() -> None:
    random = np.random.default_rng(2)
    lasting = random.integers(1_000, 90_000, N)
    start = np.cumsum(lasting) - lasting + 40
    columns = Columns()
    columns.add("host", "dur", lasting)
    columns.add("host", "start", start, duration="dur")
    columns.add("gpu", "key", np.where(np.arange(N) % 10 == 3, -1, np.arange(N)))
    columns.add("gpu", "start", start + random.integers(0, 30, N), link=Link("key", "host", "start"))
    columns.add("gpu", "like", start % 7, like="")
    columns.add("gpu", "same", (start % 7) * 100 + 1, like="like")
    ways = {spec["n"]: spec.get("p") for spec in columns.specs["gpu"]}
    assert columns.specs["host"][1].get("k") is None
    assert columns.specs["host"][1]["p"] == "gap"
    assert ways["start"] == "via"
    assert ways["same"] == "map"
    back = unpacked(columns)
    for table, held in columns.values.items():
        for name, wanted in held.items():
            assert back.col(table, name).tolist() == wanted.tolist(), (table, name)


def test_a_sum_is_computed() -> None:
    columns = Columns()
    columns.add("t", "a", np.arange(9))
    columns.add("t", "b", np.arange(9) * 5)
    size = columns.size
    columns.add_sum("t", "c", ["a", "b"])
    assert columns.size == size
    assert unpacked(columns).col("t", "c").tolist() == (np.arange(9) * 6).tolist()


def test_the_stream_is_one_deflate_stream() -> None:
    columns = Columns()
    columns.add("t", "a", values("wide"))
    columns.add("t", "b", values("noise"))
    columns.add_text("ü")
    reader = zlib.decompressobj(-15)
    data = reader.decompress(columns.deflate())
    assert reader.eof
    assert len(data) == columns.whole_size
    assert data[-2:].decode() == "ü"
