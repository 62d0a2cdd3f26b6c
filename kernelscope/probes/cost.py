"""What hooks add to one launch: measured in one way for every probe, on launches that do nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kernelscope.clock import now

#: A launch that does nothing, and another one of its kind that is hooked.
Trial = tuple[Callable[[], Any], Callable[[], Any]]

_ADAPTED = 100  # launches until the interpreter has adapted to most of what has changed
_WORK = {"numbers": [1, 2.5, "x"] * 3, "nested": {"nothing": None, "flags": [True] * 4}}


def measure(trial: Trial, rounds: int = 60, launches: int = 10) -> float:
    """Return what hooks add to one launch, in nanoseconds: the median difference of rounds A B B A.

    Where no difference is seen, the result is how large one could be: two standard errors of that median.
    ``benchmarks/`` compares the result with real launches.

    Parameters
    ----------
    trial : tuple of callable
        A launch, and another one of its kind that is hooked. They are two, because the interpreter adapts its
        instructions anew where hooks come and go, which a recording's later launches pay nothing for. Each calls
        `other_work`.
    rounds : int
        How many differences are measured; two at least.
    launches : int
        How many of each are made in a round: few, so that the system interrupts few rounds for another process.
    """
    import statistics

    plain, hooked = trial
    for launch in trial:
        _launches_ns(launch, _ADAPTED)
    differences: list[float] = []
    for place in range(max(2, rounds)):
        if place % 2:
            without, recorded = _launches_ns(plain, launches), _launches_ns(hooked, launches)
        else:
            recorded, without = _launches_ns(hooked, launches), _launches_ns(plain, launches)
        differences.append((recorded - without) / launches)
    first, _, third = statistics.quantiles(differences)
    return max(statistics.median(differences), 2 * 0.93 * (third - first) / len(differences) ** 0.5, 1.0)


def other_work() -> None:
    """Do some JSON in a launch's place, so that hooks find the processor's caches as a launch leaves them."""
    json.loads(json.dumps(_WORK))


def _launches_ns(launch: Callable[[], Any], launches: int) -> int:
    start = now()
    for _ in range(launches):
        launch()
    return now() - start
