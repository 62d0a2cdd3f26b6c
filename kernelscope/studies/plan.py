"""What a study is to measure, and where: as plain data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelscope.studies.case import Case
from kernelscope.studies.measured import TargetReport

#: What a batch is to take, where the loops are not given.
BATCH_MS = 10.0


@dataclass(frozen=True)
class Plan:
    """What to measure, and how.

    Attributes
    ----------
    cases : tuple of Case
        In the order of the tables.
    loops : dict of str to int, or None
        How many loops a batch of each case has; None for as many as take `BATCH_MS` in the baseline's first process.
    repeats : int
        Batches of each case in a process.
    processes : int
        Processes of each target, at most.
    limit_s : float or None
        When to stop, in seconds of measuring.
    timeout_s : float
        How long one answer of a process may take.
    seed : int
        Of the order of batches.
    core : int or None
        The processor core for all processes while they are timed.
    hello : dict
        What else the first request to each process says: ``dryrun`` and ``library`` as `start.dry_run_fields` returns
        them, ``kernelscope``, the folder of the package for cases that use it.
    """

    cases: tuple[Case, ...]
    loops: dict[str, int] | None = None
    repeats: int = 5
    processes: int = 16
    limit_s: float | None = None
    timeout_s: float = 120.0
    seed: int = 0
    core: int | None = None
    hello: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(eq=False)
class Member:
    """A target of a study: how its processes are started, and what became of it.

    Attributes
    ----------
    report : TargetReport
        With its error, once it has failed.
    command, environ, cwd
        As `BenchProcess` takes them.
    framework : str or None
        ``numba-cuda`` or ``numba-cuda-mlir``, where that is known; else its processes find out.
    expected : Path or None
        The folder that its framework must come from.
    """

    report: TargetReport
    command: list[str] = field(default_factory=list[str])
    environ: dict[str, str] = field(default_factory=dict[str, str])
    cwd: Path = Path()
    framework: str | None = None
    expected: Path | None = None


def as_data(case: Case) -> dict[str, Any]:
    """Return a case's fields as JSON takes them, without its callable."""
    return {each.name: getattr(case, each.name) for each in dataclasses.fields(case) if each.name != "function"}
