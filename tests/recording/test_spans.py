"""Spans by group, against a search that looks at each of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernelscope.recording.columns import FOREVER, Spans


@pytest.mark.parametrize("seed", range(40))
def test_as_the_slow_search(seed: int) -> None:
    chance = random.Random(seed)
    groups = [-1, 0, 7, 2**47]
    spans = []
    for _ in range(chance.randint(0, 30)):
        start = chance.randint(0, 40)
        spans.append((chance.choice(groups), start, chance.choice([start, start + chance.randint(0, 30), FOREVER])))
    group, start, end = np.array(spans, np.int64).reshape(-1, 3).T
    held = Spans(group, start, end)
    asked = [(chance.choice([*groups, 3]), chance.randint(-5, 80)) for _ in range(200)]
    of, time = np.array(asked, np.int64).T

    def last(inside: bool, of: int, time: int) -> tuple[int, ...]:
        found = [(begin, row) for row, (each, begin, done) in enumerate(spans)
                 if each == of and begin <= time and (done >= time or not inside)]
        return max(found, default=(-1, -1))

    assert held.before(of, time).tolist() == [last(False, *each)[1] for each in asked]
    assert held.around(of, time).tolist() == [last(True, *each)[1] for each in asked]
    place = held.place(of, time)
    for (group_asked, _), at, after, first in zip(
            asked, place.tolist(), held.following(place).tolist(), held.first(of).tolist(), strict=True):
        own = [row for row in held.rows.tolist() if spans[row][0] == group_asked]
        if at >= 0:
            behind = own[own.index(held.rows[at]) + 1:]
            assert (held.rows[after] if after >= 0 else None) == (behind[0] if behind else None)
        else:
            assert after == -1
        assert (held.rows[first] if first >= 0 else None) == (own[0] if own else None)


def test_no_spans() -> None:
    none = np.empty(0, np.int64)
    held = Spans(none, none, none)
    asked = np.array([1, 2])
    for found in (held.place(asked, asked), held.before(asked, asked), held.around(asked, asked), held.first(asked)):
        assert found.tolist() == [-1, -1]
    assert held.around(none, none).tolist() == []
