"""Medians, intervals and the comparison of arrays; and the result as text, card and DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.graphs.comparison import NOTICE, Unequal, WhatIf, card, compare, text, unequal


def result(**changes: Any) -> WhatIf:
    noise = np.random.default_rng(1).normal(0, 100, 50)
    values: dict[str, Any] = {
        "label": "cell 5", "rounds": None, "launches": 20, "copies": 0, "nodes": 20, "kernels": ("step",), "streams": 1,
        "samples": 50,
        "host": compare(300_000 + noise, 17_000 + noise[::-1]), "gpu": compare(305_000 + noise, 33_000 + noise[::-1]),
        "unequal": (), "eager_repeats": True, "arrays": 1, "compared_bytes": 8000, "capture_ns": 800_000,
        "instantiate_ns": 100_000, "left_out": (), "notes": (), "run_again": "Cell 5 was run again once.",
        "is_dry_run": False, **changes,
    }
    return WhatIf(**values)


DRY: dict[str, Any] = {"is_dry_run": True, "host": None, "gpu": None, "samples": 0, "capture_ns": None,
                       "instantiate_ns": None}


def test_medians_and_intervals() -> None:
    rng = np.random.default_rng(0)
    compared = compare(rng.normal(300, 10, 200), rng.normal(17, 1, 200))
    assert compared.eager.low_ns < 300 < compared.eager.high_ns
    assert compared.eager.low_ns < compared.eager.median_ns < compared.eager.high_ns
    assert compared.eager.high_ns - compared.eager.low_ns < 8
    assert not compared.saved.covers_zero
    assert compared == compare(*[rng2.normal(m, s, 200) for rng2 in [np.random.default_rng(0)]
                                 for m, s in ((300, 10), (17, 1))])


@pytest.mark.parametrize("seed", range(2))
def test_the_same_against_the_same_is_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed + 20)
    assert compare(rng.normal(300, 10, 50), rng.normal(300, 10, 50)).saved.covers_zero


def test_what_slows_both_down_is_no_difference() -> None:
    drift = np.linspace(0, 1000, 50)
    saved = compare(100 + drift, 90 + drift).saved
    assert (saved.median_ns, saved.low_ns, saved.high_ns) == pytest.approx((10, 10, 10))


def test_arrays() -> None:
    def of(values: list[float], dtype: Any) -> np.ndarray:
        return np.array(values, dtype).view(np.uint8)

    eight = np.dtype(np.float64)
    assert unequal("a", of([1, 2, 3], "f8"), of([1, 2, 3], "f8"), eight) is None
    assert unequal("a", of([1, np.nan], "f8"), of([1, np.nan], "f8"), eight) is None  # bit for bit
    assert unequal("a", of([1, 2, 3], "f8"), of([1, 2.5, 3], "f8"), eight) == Unequal("a", 1, 3, 0.5)
    assert unequal("a", of([1, 2, 3], "f8"), of([1, np.inf, 4], "f8"), eight) == Unequal("a", 2, 3, None)
    assert unequal("a", of([255, 0], "u1"), of([0, 0], "u1"), np.dtype("u1")) == Unequal("a", 1, 2, 255)
    assert unequal("a", of([1, 2], "c16"), of([1, 3], "c16"), np.dtype("c16")) == Unequal("a", 1, 2, None)
    assert unequal("a", of([1, 2], "i4"), of([1, 3], "i4"), None) == Unequal("a", 1, 8, 1)
    assert unequal("a", of([1, 2], "i4")[:7], of([1, 3], "i4")[:7], np.dtype("i4")) == Unequal("a", 1, 7, 1)


def test_when_it_pays_off() -> None:
    assert result().replays_to_pay_off == 4
    assert result(host=compare([100.0] * 10, [100.0] * 10)).replays_to_pay_off is None
    assert result(host=compare([100.0] * 10, [200.0] * 10)).replays_to_pay_off is None


def test_the_frame() -> None:
    frame = result().to_frame()
    assert list(frame.columns) == ["time", "way", "median_ns", "low_ns", "high_ns"]
    assert list(zip(frame.time, frame.way, strict=True)) == [(time, way) for time in ("host", "gpu")
                                                             for way in ("eager", "graph", "saved")]
    assert (frame.low_ns <= frame.median_ns).all() and (frame.median_ns <= frame.high_ns).all()
    assert result(gpu=None).to_frame().time.unique().tolist() == ["host"]


def test_the_text() -> None:
    said = text(result())
    assert said.splitlines()[0] == "What if cell 5 were a graph: 20 launches of step"
    assert "host  300 µs (300 µs to 300 µs)  17.0 µs (17.0 µs to 17.0 µs)  283 µs saved, 17.6 times faster" in said
    assert "Results are equal bit for bit (1 array, 7.8 KiB)." in said
    assert "it breaks even after 4 launches of the graph." in said
    assert said.endswith("Cell 5 was run again once.")
    assert "***" not in said
    assert str(result()) == repr(result()) == said


@pytest.mark.parametrize(("changes", "expected"), [
    ({"host": compare([1e5, 1.1e5] * 10, [1.1e5, 1e5] * 10)}, "no difference seen"),
    ({"host": compare([1e5] * 10, [2e5] * 10)}, "100 µs longer as a graph"),
    ({"host": compare([1e5] * 10, [2e5] * 10)}, "no host time is saved that would pay for it"),
    ({"copies": 2, "launches": 1}, "1 launch of step, and 2 device copies"),
    ({"kernels": tuple("abcdefg")}, "of a, b, c, d, e and 2 more"),
    ({"streams": 2}, "went to 2 streams"),
    ({"left_out": ("synchronize at line 3",)}, "after the last: synchronize at line 3."),
    ({"notes": ("A recording was under way.",)}, "A recording was under way."),
    ({"arrays": 0}, "Results were not compared"),
    ({"unequal": (Unequal("out (a of step)", 3, 1000, 1e-7),)}, "Results are NOT equal: 1 of 1 array, 7.8 KiB."),
    ({"unequal": (Unequal("out (a of step)", 3, 1000, 1e-7),)},
     "out (a of step): 3 of 1,000 elements differ, by at most 1e-07"),
    ({"unequal": (Unequal("x", 1, 1, None),) * 7, "arrays": 7}, "and 2 more arrays"),
    ({"unequal": (Unequal("x", 1, 1, None),) * 6, "arrays": 6}, "and 1 more array"),
    ({"unequal": (Unequal("x", 1, 1, None),), "eager_repeats": False}, "eagerly a second time gave other results too"),
    ({"rounds": 500, "launches": 4}, "What if a round of cell 5 were a graph: 4 launches of step"),
    ({"rounds": 500}, "Cell 5 made 500 such rounds one after another."),
    ({"rounds": 500, "left_out": ("synchronize at line 3",)}, "it comes outside of the round: synchronize at line 3."),
    (DRY, NOTICE),
    (DRY, "Captured and instantiated: 20 nodes, on 1 array of 7.8 KiB."),
    (DRY, "What the graph would save, and whether it gives the same results, takes a GPU to tell."),
])
def test_what_is_said(changes: dict[str, Any], expected: str) -> None:
    said = text(result(**changes))
    assert expected in said
    assert expected in card(result(**changes))


@pytest.mark.parametrize("shown", [text, card])
def test_a_dry_run_claims_nothing(shown: Any) -> None:
    made = result(**DRY)
    assert (made.equal, made.replays_to_pay_off, len(made.to_frame())) == (None, None, 0)
    said = shown(made).lower()
    for word in ("saved", "faster", "breaks even", "equal", "median", " µs", " ms", "no difference"):
        assert word not in said, word


def test_names_are_escaped() -> None:
    shown = card(result(label="<b>cell</b>", kernels=("<script>",), notes=("<i>",), left_out=("\x1b[31m<u>",)))
    assert not {"<b>", "<script>", "<i>", "<u>", "\x1b"} & set(__import__("re").findall(r"<\w+>|\x1b", shown))
    assert "\x1b" not in text(result(kernels=("\x1b[31mred",)))
