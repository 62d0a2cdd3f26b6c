"""What a study is to measure, and where: as plain data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelscope.studies.case import Case
from kernelscope.studies.measured import TargetReport

#: How long a batch is to take where the loops are not given, and how many a process makes of each case. On a busy
#: machine the scheduler takes a process off its core for some milliseconds at a time: most of short batches are spared,
#: and so is the median of many. (With others taking half of a core's time, two processes of one version differed by
#: 12 %, one standard deviation, in 5 batches of 10 ms, and by 2 % in 25 of 2 ms; on an idle one by 1 to 2 % in both. In
#: 60 of 1 ms, which take as long as 25 of 2 ms, by 1.5 % where those differed by 2.2 %.)
BATCH_MS, REPEATS = 1.0, 60

#: How many processes each target has, at most. On a machine that others keep busy, three targets and five cases had
#: intervals of 0.8 to 1.8 % to both sides after 20 of them.
PROCESSES = 20
#: A study ends early when all intervals reach this share to each side. At 1.2 % a quiet host needs 13 processes, and a
#: difference of 2 % is found as surely as with 20; at 1.5 % simulated studies missed what they should hold too often.
HALF_WIDTH = 0.012
#: It has at least so many then: the critical value of fewer is Student's, divided by the number of differences.
LEAST_GENERATIONS = 8


@dataclass(frozen=True)
class Plan:
    """What to measure, and how.

    Attributes
    ----------
    cases : tuple of Case
        In the order of the tables.
    loops : dict of str to int, or None
        How many loops a batch of each case has; None for as many as take `batch_ms` in one of the baseline's first
        processes.
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
    cores : tuple of int
        The processor cores for processes while they are timed, on one of which all are; none where they are not put on
        any.
    together : int
        Of how many generations the processes are started side by side.
    hello : dict
        What else the first request to each process says: ``dryrun`` and ``library`` as `start.dry_run_fields` returns
        them, ``kernelscope``, the folder of the package for cases that use it.
    batch_ms : float
        How long a batch is to take, where the loops are not given.
    """

    cases: tuple[Case, ...]
    loops: dict[str, int] | None = None
    repeats: int = REPEATS
    processes: int = PROCESSES
    limit_s: float | None = None
    timeout_s: float = 120.0
    seed: int = 0
    cores: tuple[int, ...] = ()
    together: int = 1
    hello: dict[str, Any] = field(default_factory=dict[str, Any])
    batch_ms: float = BATCH_MS


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
