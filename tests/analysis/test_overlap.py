from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import overlap, overlap_table


def story(script: Any) -> Any:
    made = script()
    made.device()
    made.device(ordinal=1)
    made.activity(start_ns=100, duration_ns=100)
    made.activity("memcpy", "HtoD", start_ns=150, duration_ns=100, size_bytes=400, memory="pageable to device")
    made.activity("memcpy", "HtoD", start_ns=200, duration_ns=100, size_bytes=600, memory="pinned to device", stream=9)
    made.activity("memcpy", "DtoH", start_ns=110, duration_ns=20, size_bytes=None)
    made.activity("memcpy", "HtoD", start_ns=150, duration_ns=10, size_bytes=1, device_id=1)  # no kernel runs there
    made.activity("memcpy", "DtoD", start_ns=None, size_bytes=8)
    return made


def test_copies_under_kernels_of_their_device(script: Any) -> None:
    found = {(each.device_id, each.direction): each for each in overlap(story(script).recording())}
    down, up = found[0, "HtoD"], found[0, "DtoH"]
    assert (down.copies, down.size_bytes, down.copy_ns, down.hidden_ns) == (2, 1_000, 150, 50)
    assert down.hidden_share == pytest.approx(1 / 3)
    assert down.bytes_per_second == pytest.approx(1_000 / 150e-9)
    assert (down.pageable, down.pageable_bytes, down.pageable_ns) == (1, 400, 100)
    assert (up.size_bytes, up.copy_ns, up.hidden_ns, up.hidden_share, up.bytes_per_second) == (None, 20, 20, 1.0, None)
    assert (found[1, "HtoD"].hidden_ns, found[1, "HtoD"].pageable, found[1, "HtoD"].pageable_ns) == (0, 0, None)
    untimed = found[0, "DtoD"]
    assert (untimed.copies, untimed.size_bytes, untimed.copy_ns, untimed.hidden_ns) == (1, 8, None, None)
    assert (untimed.hidden_share, untimed.bytes_per_second) == (None, None)


def test_order_and_table(script: Any) -> None:
    table = overlap_table(story(script).recording())
    assert table.direction.tolist() == ["HtoD", "DtoH", "HtoD", "DtoD"]
    assert table.device_id.tolist() == [0, 0, 1, 0]
    assert table.copy_ns.isna().tolist() == [False, False, False, True]
    assert len(overlap_table(script().recording())) == 0


@pytest.mark.parametrize("seed", range(12))
def test_as_moment_by_moment(script: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    made = script()
    held: dict[tuple[str, Any], set[int]] = {}
    for _ in range(30):
        device = random.choice([0, 1, None])
        what = str(random.choice(["kernel", "HtoD", "DtoH"]))
        start, length = int(random.integers(0, 200)), int(random.integers(0, 25))
        made.activity("kernel" if what == "kernel" else "memcpy", what, start_ns=start, duration_ns=length,
                      device_id=device)
        held.setdefault((what, device), set()).update(range(start, start + length))
    found = overlap(made.recording())
    assert {(each.direction, each.device_id) for each in found} == {key for key in held if key[0] != "kernel"}
    for each in found:
        own = held[each.direction, each.device_id]
        assert (each.copy_ns, each.hidden_ns) == (len(own), len(own & held.get(("kernel", each.device_id), set())))
