"""The first sentence of a card: where the time went."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import MS

from kernelscope.analysis.wall_time import PARTS, ThreadTime, WallTime
from kernelscope.views.card.model import Overview
from kernelscope.views.card.verdict import GROUPS, groups, verdict

NOTHING = dict.fromkeys(PARTS, 0)


def time(wall_ns: int = 1_000_000, threads: tuple[ThreadTime, ...] = (), **parts: int) -> WallTime:
    rest = wall_ns - sum(parts.values())
    return WallTime(0, wall_ns, NOTHING | {"python": rest} | parts, {}, threads)


def test_every_part_is_of_one_group() -> None:
    assert sorted(part for parts in GROUPS.values() for part in parts) == sorted(PARTS)


def test_parts_are_listed_by_time_and_small_ones_are_not() -> None:
    spent = time(dispatch=100_000, submit=60_000, wait=300_000, copy=9_000, graph=10_000)
    assert groups(spent) == [("python", 521_000), ("wait", 300_000), ("launch", 160_000), ("graph", 10_000),
                             ("copy", 9_000)]
    assert verdict(spent, 1, (), 7, None) == (
        "1.00 ms: 52 % Python outside launches, 30 % waiting for the GPU, 16 % launching 7 times, "
        "1.0 % working on graphs.",)


def test_nothing_but_python() -> None:
    assert verdict(time(), 1, (), 0, None) == ("1.00 ms: 100 % Python outside launches.",)
    assert verdict(time(wall_ns=0), 1, (), 0, None) == ()
    assert verdict(None, 0, (), 0, None) == ()


def test_other_threads_are_a_sentence_of_their_own() -> None:
    one = ThreadTime(1, "worker \x1b[31m", {"dispatch": 500_000})
    assert verdict(time(threads=(one,)), 1, (), 9, None)[1] == (
        "Another thread (worker \\x1b[31m) launched and called CUDA meanwhile, for 500 µs.")
    assert verdict(time(threads=(one, replace(one, thread_id=2))), 3, (), 9, None) == (
        "1.00 ms in 3 cells: 100 % Python outside launches.",
        "2 other threads launched and called CUDA meanwhile, for up to 500 µs each.")


@pytest.mark.parametrize("reasons, said", [
    (["first_use"], "compiling axpy (its first use)"),
    (["new_dtype", "new_layout"], "compiling axpy twice (a new dtype, then a new layout)"),
    (["new_dtype", "new_dtype", "first_use"], "compiling axpy 3 times (a new dtype, then its first use)"),
    (["new_dtype", "unknown"], "compiling axpy twice"),
    (["new_dtype"] * 9, "compiling axpy 9 times"),
])
def test_what_was_compiled_and_why(script: Any, reasons: list[str], said: str) -> None:
    made = script()
    made.kernel()
    for reason in reasons:
        made.compilation(reason_code=reason, reason="it was")
    compiled = Overview(made.recording()).compilations
    assert verdict(time(compile=900_000), 1, compiled, 0, None) == (
        f"1.00 ms: 90 % {said}, 10 % Python outside launches.",)


def test_several_kernels_are_counted(script: Any) -> None:
    made = script()
    made.kernel("axpy")
    made.kernel("scale")
    for dispatcher in (0, 1, 1):
        made.compilation(dispatcher, reason_code="first_use", reason="it was")
    compiled = Overview(made.recording()).compilations
    assert "compiling 2 kernels, 3 times," in verdict(time(compile=900_000), 1, compiled, 0, None)[0]
    from_disk = tuple(replace(each, outcome="disk") for each in compiled)
    assert "compiling or loading code from disk," in verdict(time(compile=900_000), 1, from_disk, 0, None)[0]


def test_devices_are_said_together(gpu_story: Any) -> None:
    made = gpu_story()
    start = made.rows["cells"][0]["start_ns"]
    said = verdict((shown := Overview(made.recording())).time, 1, (), 0, shown.gpu)
    assert said[-1] == "The GPU worked 13 % of the time."
    made.device(ordinal=5)
    made.activity(device_id=1, start_ns=start, duration_ns=5 * MS)
    said = verdict((shown := Overview(made.recording())).time, 1, (), 0, shown.gpu)
    assert said[-1] == "The 2 GPUs worked 13 % to 50 % of the time."
    for device in (0, 1):
        made.activity(device_id=device, start_ns=start, duration_ns=9 * MS)
    said = verdict((shown := Overview(made.recording())).time, 1, (), 0, shown.gpu)
    assert said[-1] == "The 2 GPUs worked 90 % of the time each."
