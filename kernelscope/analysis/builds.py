"""Build caches: what was asked of each algorithm's cache, what had to be built, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.execution import Spread, spread
from kernelscope.recording.model import Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Miss:
    """One request that built, waited or failed; what was not recorded is None.

    Attributes
    ----------
    build_id : int
        Its row in ``builds``.
    algorithm, outcome : str
        What was asked for; miss, wait or failed.
    duration_ns, build_ns : int or None
        How long it took, and of that in the library's compiler and linker.
    cell_id : int or None
        The cell that ran.
    reason_code, reason, fix, error : str or None
        Why it was a miss, what would avoid it, and what it raised.
    """

    build_id: int
    algorithm: str
    outcome: str
    duration_ns: int | None
    build_ns: int | None
    cell_id: int | None
    reason_code: str | None
    reason: str | None
    fix: str | None
    error: str | None


@dataclass(frozen=True)
class BuildSummary:
    """Requests for one algorithm; what was not recorded is None.

    Attributes
    ----------
    framework, algorithm : str
        Whose cache it is, and what was asked for.
    requests, hits, misses, waits, failed : int
        Requests, by what came of them.
    host_ns : int
        Time of all requests.
    build_ns : int or None
        Of that, in the library's compiler and linker.
    miss, hit : Spread or None
        Time of a request that built, and of one that found it.
    cubin_bytes : int or None
        Machine code that was built.
    not_hits : tuple of Miss
        The requests that were no hit, longest first.
    """

    framework: str
    algorithm: str
    requests: int
    hits: int
    misses: int
    waits: int
    failed: int
    host_ns: int
    build_ns: int | None
    miss: Spread | None
    hit: Spread | None
    cubin_bytes: int | None
    not_hits: tuple[Miss, ...]


def by_algorithm(recording: Recording) -> list[BuildSummary]:
    """Summarize the requests for each algorithm, most time first."""
    held: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in recording.rows("builds"):
        held.setdefault((str(row["framework"]), str(row["algorithm"])), []).append(row)
    found = [_summary(framework, algorithm, rows) for (framework, algorithm), rows in held.items()]
    return sorted(found, key=lambda each: (-each.host_ns, each.framework, each.algorithm))


def build_table(recording: Recording) -> pd.DataFrame:
    """Return `by_algorithm` as a DataFrame.

    Its columns are ``framework``, ``algorithm``, ``requests``, ``hits``, ``misses``, ``waits``, ``failed``,
    ``host_ns``, ``build_ns``, ``miss_p50_ns``, ``hit_p50_ns`` and ``cubin_bytes``.
    """
    import pandas as pd

    rows = by_algorithm(recording)
    columns: dict[str, Any] = {
        name: pd.Series([getattr(row, name) for row in rows], dtype=object) for name in ("framework", "algorithm")}
    for name in ("requests", "hits", "misses", "waits", "failed", "host_ns", "build_ns"):
        columns[name] = pd.array([getattr(row, name) for row in rows], dtype="Int64")
    for name in ("miss", "hit"):
        spreads: list[Spread | None] = [getattr(row, name) for row in rows]
        columns[f"{name}_p50_ns"] = pd.array([each and each.p50_ns for each in spreads], dtype="Float64")
    columns["cubin_bytes"] = pd.array([row.cubin_bytes for row in rows], dtype="Int64")
    return pd.DataFrame(columns)


def _summary(framework: str, algorithm: str, rows: list[dict[str, Any]]) -> BuildSummary:
    outcomes = [str(row["outcome"]) for row in rows]
    times = [_duration(row) for row in rows]
    # A hit builds nothing: its zero would make a sum of what is not known.
    built = [row["build_ns"] for row in rows if row["build_ns"] is not None and row["outcome"] != "hit"]
    sizes = [row["cubin_bytes"] for row in rows if row["cubin_bytes"] is not None]
    misses = [
        Miss(int(row["build_id"]), algorithm, outcome, took, row["build_ns"], row["cell_id"], row["reason_code"],
             row["reason"], row["fix"], row["error"])
        for row, outcome, took in zip(rows, outcomes, times, strict=True) if outcome != "hit"
    ]
    return BuildSummary(
        framework=framework, algorithm=algorithm, requests=len(rows), hits=outcomes.count("hit"),
        misses=outcomes.count("miss"), waits=outcomes.count("wait"), failed=outcomes.count("failed"),
        host_ns=sum(each or 0 for each in times), build_ns=sum(built) if built else None,
        miss=_spread(times, outcomes, "miss"), hit=_spread(times, outcomes, "hit"),
        cubin_bytes=sum(sizes) if sizes else None,
        not_hits=tuple(sorted(misses, key=lambda each: (-(each.duration_ns or 0), each.build_id))),
    )


def _spread(times: list[int | None], outcomes: list[str], outcome: str) -> Spread | None:
    chosen = [-1 if took is None else took for took, each in zip(times, outcomes, strict=True) if each == outcome]
    return spread(np.array(chosen, dtype=np.int64))


def _duration(row: dict[str, Any]) -> int | None:
    return None if row["end_ns"] is None else max(row["end_ns"] - row["start_ns"], 0)
