"""What a study measured, as plain data: batches, and what is needed to judge them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The columns of `Measured.batches`, each with its dtype. A row is one batch: `loops` launches, timed together.
BATCH = {
    "target": "str",  # the target's label
    "case": "str",  # the case's name
    "process": "int64",  # which process of the target, from 0; the n-th of all targets ran side by side
    "round": "int64",  # which batch of this case in its process, from 0
    "place": "int64",  # in which order batches ran, from 0, over the whole study
    "start_ns": "int64",  # since the study's start
    "loops": "int64",
    "host_ns": "int64",  # of all loops together, on the host: what passed, less `waited_ns`
    "sync_ns": "int64",  # the wait for the device after them, untimed: long where the device was what was waited for
    "waited_ns": "int64",  # how long another process had the processor meanwhile; 0 where that is not known
    "reference_ns": "int64",  # a short loop beside them, the same always: how fast the core was; 0 where not known
}

#: A row of `Measured.batches`.
BatchRow = tuple[str, str, int, int, int, int, int, int, int, int, int]


@dataclass
class TargetReport:
    """What became of a target.

    Attributes
    ----------
    label, kind, source : str
        As in `Target`; `source` is its text.
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``; empty if it never started.
    versions : dict of str to str
        Of Python and of each package that matters: numba, numba-cuda, numba-cuda-mlir, cuda-core, cuda-bindings, NumPy.
    revision : str or None
        Of a checkout or ref: the commit, with ``+changes`` where the folder has some.
    unavailable : dict of str to str
        Cases that it cannot run, and why.
    error : str or None
        Why it did not finish. What was measured before is kept.
    warnings : list of str
        What to know about it.
    processes : int
        How many of its processes were measured to their end.
    """

    label: str
    kind: str
    source: str
    framework: str = ""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    revision: str | None = None
    unavailable: dict[str, str] = field(default_factory=dict[str, str])
    error: str | None = None
    warnings: list[str] = field(default_factory=list[str])
    processes: int = 0


@dataclass
class CaseReport:
    """A case as it was measured: `Case` without its callable."""

    name: str
    statement: str
    setup: str = ""
    args: int | None = None
    group: str = "own"
    against: str | None = None
    before: str = ""
    after: str = ""


@dataclass
class Measured:
    """Everything that a study measured.

    Attributes
    ----------
    targets : list of TargetReport
        The first is the baseline.
    cases : list of CaseReport
        In the order of the tables.
    batches : list of tuple
        Rows of `BATCH`, in its columns' order.
    host : dict
        ``processor``, ``cores``, ``pinned_to`` (the cores on one of which they are; None where not), ``moves`` (how
        often they went on to a quieter one), ``quiet`` (the share of batches at quiet moments, 0 to 1), ``system``,
        ``governor``, ``clock_resolution_ns``, ``clock_read_ns``, ``load_before``, ``load_after``, ``noise`` (the share
        of time that a loop which does nothing lost to others, 0 to 1, median over the processes), ``sees_waits``
        (whether the system tells how long another process had the processor, so that it is taken off).
    gpu : dict
        ``name``, ``driver``, ``cuda``, ``clocks_mhz``; empty for none.
    settings : dict
        What `launch_overhead` was asked for: args, loops, repeats, processes, half_width, limit_s, seed, install, ...
    created : str
        When it began: ISO 8601, in UTC.
    seconds : float
        How long it took.
    ended : str
        Why it ended: ``narrow enough``, ``all processes``, ``time limit``, ``interrupted``, ``failed``.
    is_dry_run : bool
        Whether the driver call was a stub.
    is_live : bool
        Whether it was measured in the running process, so that differences between processes are not in the intervals.
    notes : list of str
        What else there is to know.
    """

    targets: list[TargetReport]
    cases: list[CaseReport]
    batches: list[BatchRow] = field(default_factory=list[BatchRow])
    host: dict[str, Any] = field(default_factory=dict[str, Any])
    gpu: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    created: str = ""
    seconds: float = 0.0
    ended: str = "all processes"
    is_dry_run: bool = False
    is_live: bool = False
    notes: list[str] = field(default_factory=list[str])
