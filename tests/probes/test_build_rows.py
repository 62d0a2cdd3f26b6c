"""Rows of requests to build caches: misses as dicts, hits as numbers, read alike."""

from __future__ import annotations

import gc
import threading
from typing import Any

from kernelscope.probes.sink import BuildRows


def test_hits_are_read_as_rows_of_what_is_known() -> None:
    rows = BuildRows()
    rows.append({"outcome": "miss", "start_ns": 1})
    known = rows.know({"outcome": "hit", "algorithm": "select"})
    rows.append((5, 7, known))
    assert len(rows) == 2
    assert rows[1] == {"outcome": "hit", "algorithm": "select", "start_ns": 5, "end_ns": 7}
    assert rows[-1] == list(rows)[1] == rows[1:][0]
    assert [row["start_ns"] for row in rows[:]] == [1, 5]
    assert rows[1] is not rows[1]


def test_equal_rows_are_known_apart() -> None:
    rows = BuildRows()
    first, second = rows.know({"a": 1}), rows.know({"a": 1})
    assert (first, second) == (0, 1)


def test_threads_know_their_own() -> None:
    rows = BuildRows()
    found: dict[int, int] = {}

    def know(name: int) -> None:
        for _ in range(200):
            found[name] = rows.know({"name": name})
            rows.append((0, 1, found[name]))

    threads = [threading.Thread(target=know, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows) == 1200
    for name, number in found.items():
        rows.append((0, 0, number))
        assert rows[-1]["name"] == name


def test_hits_are_nothing_for_the_garbage_collector() -> None:
    rows = BuildRows()
    known = rows.know({})
    hits: list[Any] = [(at, at + 1, known) for at in range(1000)]
    for hit in hits:
        rows.append(hit)
    gc.collect()
    assert not any(gc.is_tracked(hit) for hit in hits)
