"""Calibrations by hand, and a process that measures nothing and says what it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kernelscope.recorder.overhead import Calibration, Cost, Interval, Setting, Tail

TODAY = datetime(2026, 11, 22, 9, tzinfo=UTC)
HERE = Setting("box", "Fast 9000", "3.12.1", "0.1.0", "0.30.4", None, "phases")


def cost(middle: float = 95.0, low: float = 90.0, high: float = 101.0, arguments: int = 4,
         same: tuple[float, float, float] = (1.0, -3.0, 4.0)) -> Cost:
    return Cost(arguments, 5000.0, Interval(middle, low, high), Interval(*same),
                Tail(9000.0, 9500.0, Interval(500.0, 200.0, 700.0)), 50)


def calibration(*costs: Cost, measured: datetime = TODAY, quiet: bool = True, here: Setting = HERE,
                **setting: Any) -> Calibration:
    return Calibration(replace(here, **setting), measured, costs or (cost(),), quiet)


class FakeProcess:
    """What `measure_rounds` asks: a launch takes what `launch_ns` says, and each batch a tenth of a second.

    `launch_ns` is given the request and its number.
    """

    def __init__(self, launch_ns: Callable[[Mapping[str, Any], int], float], batch_s: float = 0.1) -> None:
        self.launch_ns = launch_ns
        self.batch_s = batch_s
        self.asked: list[Mapping[str, Any]] = []
        self.reference_ns: Callable[[int], int] = lambda number: 100
        self.core: int | None = None

    def seconds(self) -> float:
        return len(self.asked) * self.batch_s

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        number = len(self.asked)
        self.asked.append(request)
        each = self.launch_ns(request, number)
        return {"ok": True, "host_ns": each * request["launches"], "singles": [each] * request["launches"],
                "core": self.core, "reference_ns": self.reference_ns(number)}
