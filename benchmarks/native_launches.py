"""What recording adds to a launch, and how single launches are distributed, for benchmarks/native.py."""

from __future__ import annotations

import gc
import statistics
import time
from array import array
from typing import Any

import numpy as np
from native_ways import (
    AGAIN,
    OFF,
    WARM_UP,
    Moments,
    Part,
    Way,
    batch,
    estimate,
    in_folder,
    journal_way,
    kernel_of,
    launch,
    microseconds,
    paired,
    percent,
    rounds,
    ways,
)

#: Of each round the first launch after the hooks were set, and the mean of the next ones, in nanoseconds.
Firsts = list[tuple[float, float]]
#: Launches between two looks at whether the moment is quiet.
BLOCK = 500
SLOTS_A_PAGE = 4096 // 64
TARGETS = {"launch": "0.08 µs", "phases": "0.2 µs"}
SHARES = {0: "2 %", 4: "1 %"}
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "maximum": 100.0}


def added(most: int = 200, launches: int = 400, seconds: float = 120.0,
          arguments: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Part:
    """What recording adds to a launch with 0 to 4 device arrays, and what not recording adds to itself (A/A)."""
    part = Part()
    recorded = ways()
    for count in arguments:
        kernel, given = kernel_of(count)
        times, quiet, first = interleaved(kernel, given, [OFF, AGAIN, *recorded], most, launches,
                                          seconds / len(arguments))
        for way in (AGAIN, *recorded):
            both = [one and other for one, other in zip(quiet[OFF.name], quiet[way.name], strict=True)]
            found = paired(times[OFF.name], times[way.name], both)
            opening, early = map(estimate, np.subtract(first[way.name], first[OFF.name]).T)
            what = "A/A, not recording twice" if way is AGAIN else f"added to a launch, {way.name}"
            base = f"{found['base_ns'] / 1e3:.2f} µs"
            limit = "no difference" if way is AGAIN else TARGETS[way.detail or ""]
            share = SHARES.get(count) if way.detail == "phases" else None
            part.add(f"{what}: {count} arrays",
                     f"{microseconds(found['added_ns'], 3)} of {base}; {percent(found['share'])}; "
                     f"the first {opening['median'] / 1e3:+.0f} µs, the next {WARM_UP - 1}: "
                     f"{early['median'] / 1e3:+.2f} µs; "
                     f"{found['pairs']} of {found['of']} pairs ({found['moments']} moments)",
                     "; ".join(filter(None, (limit, share and f"{share} on a GPU"))),
                     arguments=count, way=way.name, first_added_ns=opening, next_added_ns=early, **found)
    return part


def interleaved(kernel: Any, given: tuple[Any, ...], compared: list[Way], most: int, launches: int,
                seconds: float) -> tuple[dict[str, list[float]], dict[str, list[bool]], dict[str, Firsts]]:
    """Nanoseconds a launch of each way, one value a round; whether at a quiet moment; the first, and the next ones."""
    times: dict[str, list[float]] = {way.name: [] for way in compared}
    quiet: dict[str, list[bool]] = {way.name: [] for way in compared}
    first: dict[str, Firsts] = {way.name: [] for way in compared}
    orders = np.random.default_rng(0)
    with Moments(pinned=True) as moments:
        for _ in rounds(most, seconds):
            moments.seek()
            for place in orders.permutation(len(compared)).tolist():
                way = compared[place]
                taken, still, early = batch(kernel, given, way, launches, moments)
                times[way.name].append(taken)
                quiet[way.name].append(still)
                first[way.name].append(early)
    return times, quiet, first


def single(most: int = 24, launches: int = 10_000, seconds: float = 90.0) -> Part:
    """The time of each single launch: percentiles with and without recording, a journal among them.

    A recording of so many launches fills its ring's first segments, so that growing is among what is timed; a thread
    of the recorder's own may run on any core.
    """
    return in_folder(lambda folder: _single(folder, most, launches, seconds))


def _single(folder: str, most: int, launches: int, seconds: float) -> Part:
    part = Part()
    compared = [OFF, AGAIN, *ways(("phases",))]
    journal = journal_way(folder, "single launches with a journal", part.missing)
    compared += [] if journal is None else [journal]
    kernel, given = kernel_of(0)
    times: dict[str, list[np.ndarray]] = {way.name: [] for way in compared}
    quiet: dict[str, list[np.ndarray]] = {way.name: [] for way in compared}
    orders = np.random.default_rng(0)
    with Moments(pinned=False) as moments:
        for _ in rounds(most, seconds):
            for place in orders.permutation(len(compared)).tolist():
                way = compared[place]
                taken, still = each(kernel, given, way, launches, moments)
                times[way.name].append(taken)
                quiet[way.name].append(still)
    _distribution(part, compared, times, quiet)
    return part


def each(kernel: Any, given: tuple[Any, ...], way: Way, launches: int,
         moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """The time of each launch of one recording, and whether it was in a quiet block.

    The garbage collector is on, as it is for users.
    """
    from numba import cuda

    clock, taken = time.perf_counter_ns, array("q", bytes(8 * launches))
    still: list[bool] = []
    gc.collect()
    recorder = way.start()
    try:
        launch(kernel, given, WARM_UP)
        cuda.synchronize()
        before = moments.is_quiet()
        for first in range(0, launches, BLOCK):
            for index in range(first, min(first + BLOCK, launches)):
                start = clock()
                kernel(*given)
                taken[index] = clock() - start
            after = moments.is_quiet()
            still.append(before and after)
            before = after
    finally:
        if recorder is not None:
            recorder.stop()
    cuda.synchronize()
    return np.asarray(taken), np.repeat(still, BLOCK)[:launches]


def _distribution(part: Part, compared: list[Way], times: dict[str, list[np.ndarray]],
                  quiet: dict[str, list[np.ndarray]]) -> None:
    count = sum(map(len, times[OFF.name]))
    for way in compared:
        every = np.concatenate(times[way.name])
        calm = every[np.concatenate(quiet[way.name])]
        found = {name: float(np.percentile(every, rank)) for name, rank in PERCENTILES.items()}
        at_quiet = {name: float(np.percentile(calm, rank)) for name, rank in PERCENTILES.items()} if len(calm) else {}
        words = ", ".join(f"{name} {value / 1e3:.2f}" for name, value in found.items())
        calmly = ""
        if at_quiet:
            calmly = f"; at quiet moments ({len(calm) / len(every):.0%}) p99 {at_quiet['p99'] / 1e3:.2f}"
        part.add(f"single launches, {way.name}: {count:,}", f"{words} µs{calmly}", way=way.name, launches=count,
                 all=found, quiet=at_quiet)
    for way in compared[1:]:
        changes = {name: estimate([np.percentile(recorded, rank) - np.percentile(plain, rank)
                                   for plain, recorded in zip(times[OFF.name], times[way.name], strict=True)])
                   for name, rank in PERCENTILES.items()}
        calm = [_at_quiet(times, quiet, way, OFF, number) for number in range(len(times[OFF.name]))]
        calm = [value for value in calm if value is not None]
        words = f"{microseconds(changes['p99'])}, p50 {microseconds(changes['p50'], 3)}"
        if len(calm) > 1:
            words += f"; at quiet moments {microseconds(estimate(calm))}"
        limit = "no difference" if way is AGAIN else "0.4 µs"
        part.add(f"added at p99 of single launches, {way.name}", words, limit, way=way.name, added_ns=changes,
                 quiet_added_ns=estimate(calm) if len(calm) > 1 else None)
    _pages(part, compared, times)
    part.values["launches in a recording"] = statistics.median(map(len, times[OFF.name]))


def _pages(part: Part, compared: list[Way], times: dict[str, list[np.ndarray]]) -> None:
    """What launches take longer that are the first in a page of the ring, which is where a fault of memory shows."""
    for way in compared:
        if way.detail is None:
            continue
        every = np.stack(times[way.name])
        first = (np.arange(every.shape[1]) + WARM_UP) % SLOTS_A_PAGE == 0
        longer = estimate(np.median(every[:, first], axis=1) - np.median(every[:, ~first], axis=1))
        slowest = [(int(place % every.shape[1]) + WARM_UP, int(every.flat[place]))
                   for place in np.argsort(every, axis=None)[:-11:-1]]
        part.add(f"launches whose slot is the first in a page take longer, {way.name}", microseconds(longer),
                 way=way.name, longer_ns=longer, slowest=slowest)


def _at_quiet(times: dict[str, list[np.ndarray]], quiet: dict[str, list[np.ndarray]], way: Way, plain: Way,
              number: int) -> float | None:
    """What is added at p99 in one round, of the launches in quiet blocks; None where there are too few."""
    found = [times[each.name][number][quiet[each.name][number]] for each in (way, plain)]
    if min(map(len, found)) < BLOCK:
        return None
    recorded, bare = (float(np.percentile(values, 99)) for values in found)
    return recorded - bare
