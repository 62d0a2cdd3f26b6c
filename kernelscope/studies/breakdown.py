"""Anatomy of a launch: what each part of it costs, in several targets, and how they differ."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from kernelscope.errors import StudyArgumentError
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Column, Part, Values, intervals
from kernelscope.recording.redact import shareable_values
from kernelscope.studies import overhead
from kernelscope.studies import process as studies_process
from kernelscope.studies import text as studies_text
from kernelscope.studies.cases import Case, select
from kernelscope.studies.files import anatomy_to_json
from kernelscope.studies.files import without_paths as without_paths_of
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError
from kernelscope.studies.progress import Progress
from kernelscope.studies.result import Measured, Saved
from kernelscope.studies.runner import Member, Plan, Run, Running, as_data
from kernelscope.studies.target import Target, check_settings
from kernelscope.studies.text import difference as difference_text
from kernelscope.studies.text import difference_interval, micros, share
from kernelscope.units import counted
from kernelscope.views.base import clean, columns, shorten, width_of, with_notice, wrap

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


# The parts of a launch as they were timed, and what follows from that: estimates, and differences between targets.
#
# Pure functions from plain data to plain data. The independent unit is the process, as in a study: a process's
# value of a part is the median of its rounds' times less the median of what the stamps took. An estimate is the
# mean over the processes, because means add up: the parts and what is left over make the whole launch.

#: The key of the whole launch, and of what it takes longer than its parts.
LAUNCH, UNATTRIBUTED = "launch", "unattributed"
#: An interval of a difference that is wider than this share of the baseline's launch to each side says too little.
RESOLUTION = 0.05
# What a stamp is uncertain by does not shrink with the part: a part's noise is like that of at least this share of
# its launch.
_LEAST_SCALE = 0.05


@dataclass(frozen=True)
class PartReport:
    """A part of a launch in one target.

    Attributes
    ----------
    target, case, key : str
        The target's label, the case's name and the part's key: ``configure``, ``dispatch``, ``set-up``,
        ``argument 0`` and on, ``configuration object``, ``submit``, ``finish``, and ``other`` for the time between two
        boundaries whose parts cannot be separated.
    begin, end : str
        The boundaries of the part. A part that cannot be separated from an enclosing part has the boundaries of that
        part. Empty where nothing is known.
    note : str
        A description, such as the type of an argument.
    reason : str or None
        Why the part cannot be timed.
    """

    target: str
    case: str
    key: str
    begin: str = ""
    end: str = ""
    note: str = ""
    reason: str | None = None


@dataclass
class MeasuredBreakdown:
    """The measurements of an anatomy.

    Attributes
    ----------
    measured : Measured
        Targets, cases, host, GPU and settings; its batches are the launches without stamps.
    parts : list of PartReport
        In the order in which a launch passes them, by target and case.
    times : list of tuple
        A row a part and round: the target's label, the case's name, which process of the target, which round of it,
        the part's key (`LAUNCH` for the launch without stamps), and, in nanoseconds a launch, its time with that of the
        stamps and the stamps' alone.
    """

    measured: Measured
    parts: list[PartReport] = field(default_factory=list[PartReport])
    times: list[tuple[str, str, int, int, str, float, float]] = field(
        default_factory=list[tuple[str, str, int, int, str, float, float]])


@dataclass(frozen=True)
class PartTime:
    """The time of one part of a launch in one target.

    Attributes
    ----------
    target, case, key, note : str
        As in `PartReport`; `LAUNCH` and `UNATTRIBUTED` are keys too.
    us : float or None
        Mean over the processes, in microseconds; None where it cannot be timed. What is unattributed may be negative.
    low_us, high_us : float or None
        Its 95 % interval.
    share : float or None
        Of the whole launch, 0 to 1.
    reason : str or None
        Why it cannot be timed.
    """

    target: str
    case: str
    key: str
    note: str = ""
    us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    share: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class PartDifference:
    """The difference of one part's time between a target and the baseline.

    Attributes
    ----------
    target, case, baseline : str
        The labels of both targets and the case's name.
    label : str
        The part. Where the targets have different parts between two common boundaries, the names of all of them.
    difference_us, low_us, high_us : float
        Positive is slower than the baseline; the intervals of all differences hold together with 95 %.
    verdict : str
        ``faster``, ``slower``, ``no difference seen``, ``too noisy``.
    """

    target: str
    case: str
    baseline: str
    label: str
    difference_us: float
    low_us: float
    high_us: float
    verdict: str


def estimates(breakdown: MeasuredBreakdown) -> tuple[PartTime, ...]:
    """Return the times of all parts, of the whole launch and of the unattributed rest, by case and target."""
    found: list[PartTime] = []
    values = _values(breakdown)
    for case in breakdown.measured.cases:
        for target in breakdown.measured.targets:
            found += _estimates_of(breakdown, values, target.label, case.name)
    return tuple(found)


def differences(breakdown: MeasuredBreakdown) -> tuple[PartDifference, ...]:
    """Return the differences of all parts from the baseline, which is the first target that was measured.

    Parts are compared where both targets have them. Where the targets have different parts between two common
    boundaries, the sums of the parts between these boundaries are compared.
    """
    values = _values(breakdown)
    keys: list[tuple[str, str, str, str]] = []
    columns: list[Column] = []
    launches: list[float] = []
    for case in breakdown.measured.cases:
        labels = [each.label for each in breakdown.measured.targets if (each.label, case.name, LAUNCH) in values]
        for target in labels[1:]:
            baseline = labels[0]
            launch = float(np.mean(list(values[baseline, case.name, LAUNCH].values()))) / 1e3
            pairs = _comparable(_all(breakdown, baseline, case.name), _all(breakdown, target, case.name))
            for label, ours, theirs in [*pairs, (LAUNCH, [LAUNCH], [LAUNCH])]:
                column = _column(_sum(values, baseline, case.name, ours), _sum(values, target, case.name, theirs),
                                 launch)
                if column is not None:
                    keys.append((target, case.name, baseline, label))
                    columns.append(column)
                    launches.append(launch)
    middles, halves = intervals(columns) if columns else (np.zeros(0), np.zeros(0))
    return tuple(
        PartDifference(*key, float(middle), float(middle - half), float(middle + half), _verdict(middle, half, launch))
        for key, middle, half, launch in zip(keys, middles, halves, launches, strict=True))


def unseen(breakdown: MeasuredBreakdown, target: str, case: str) -> dict[str, list[str]]:
    """Return the parts that cannot be timed in a target, by the reason."""
    reasons: dict[str, list[str]] = {}
    for part in breakdown.parts:
        if (part.target, part.case) == (target, case) and part.reason is not None:
            reasons.setdefault(part.reason, []).append(part.key)
    return reasons


def _values(breakdown: MeasuredBreakdown) -> dict[tuple[str, str, str], dict[int, float]]:
    """Return each process's value of each part, in nanoseconds, by target, case and key; then by process."""
    rows: dict[tuple[str, str, str], dict[int, tuple[list[float], list[float]]]] = {}
    for target, case, process, _, key, part_ns, stamps_ns in breakdown.times:
        times, stamps = rows.setdefault((target, case, key), {}).setdefault(process, ([], []))
        times.append(part_ns)
        stamps.append(stamps_ns)
    return {key: {process: float(np.median(times) - np.median(stamps)) for process, (times, stamps) in by.items()}
            for key, by in rows.items()}


def _all(breakdown: MeasuredBreakdown, target: str, case: str) -> list[PartReport]:
    return [part for part in breakdown.parts if (part.target, part.case) == (target, case)]


def _estimates_of(breakdown: MeasuredBreakdown, values: dict[tuple[str, str, str], dict[int, float]], target: str,
                  case: str) -> Iterable[PartTime]:
    launch = values.get((target, case, LAUNCH))
    if not launch:
        return
    whole = float(np.mean(list(launch.values()))) / 1e3
    left_over = dict(launch)
    for part in breakdown.parts:
        if (part.target, part.case) != (target, case):
            continue
        by_process = values.get((target, case, part.key), {})
        if part.reason is not None or by_process.keys() != launch.keys():
            yield PartTime(target, case, part.key, part.note, reason=part.reason or "not timed in every process")
            continue
        time = _estimate(PartTime(target, case, part.key, part.note), by_process, whole)
        left_over = {process: rest - by_process[process] for process, rest in left_over.items()}
        yield time
    yield _estimate(PartTime(target, case, UNATTRIBUTED), left_over, whole)
    yield _estimate(PartTime(target, case, LAUNCH), launch, whole)


def _estimate(part: PartTime, by_process: dict[int, float], whole_us: float) -> PartTime:
    values = np.array(list(by_process.values())) / 1e3
    mean = float(values.mean())
    _, (half,) = intervals([Column(Part(values, np.arange(len(values))), scale=max(abs(mean), 1e-9))])
    return PartTime(part.target, part.case, part.key, part.note, mean, mean - float(half), mean + float(half),
                    mean / whole_us if whole_us > 0 else None)


def _comparable(all_ours: Sequence[PartReport], all_theirs: Sequence[PartReport],
                ) -> Iterable[tuple[str, list[str], list[str]]]:
    """Yield the comparisons: a label, and the keys of the parts of both targets that are summed for it."""
    ours, theirs = _seen(all_ours), _seen(all_theirs)
    shared = {part.begin for part in ours} & {part.begin for part in theirs}
    # Where one target cannot separate a part from the enclosing one, the enclosing parts are not comparable.
    shared -= _coarser_boundaries(all_ours, theirs) | _coarser_boundaries(all_theirs, ours)
    pieces = _cut(theirs, shared)
    for begin, mine in _cut(ours, shared).items():
        other = pieces[begin]
        keys, others = [part.key for part in mine], [part.key for part in other]
        if mine[-1].end != other[-1].end or _has_gap(mine) or _has_gap(other):
            continue
        if keys == others:
            yield from ((key, [key], [key]) for key in keys)
        else:
            yield " + ".join(dict.fromkeys(_short(key) for key in [*keys, *others])), keys, others


def _seen(parts: Sequence[PartReport]) -> list[PartReport]:
    return [part for part in parts if part.reason is None]


def _coarser_boundaries(parts: Sequence[PartReport], others: Sequence[PartReport]) -> set[str]:
    """Return the boundaries of parts that include others, which only the other target times separately."""
    begins, known = {part.begin for part in _seen(parts)}, {_short(part.key) for part in others}
    return {part.begin for part in parts if part.reason is not None and part.begin in begins and part.key in known}


def _cut(parts: Sequence[PartReport], boundaries: set[str]) -> dict[str, list[PartReport]]:
    """Return the parts grouped by the last of `boundaries` before them."""
    pieces: dict[str, list[PartReport]] = {}
    begin = ""
    for part in parts:
        if part.begin in boundaries:
            begin = part.begin
        if begin:
            pieces.setdefault(begin, []).append(part)
    return pieces


def _has_gap(parts: Sequence[PartReport]) -> bool:
    """Return whether a part between them cannot be timed; all arguments have the same two boundaries."""
    return any(part.begin not in (before.begin, before.end) for before, part in itertools.pairwise(parts))


def _short(key: str) -> str:
    return "arguments" if key.startswith("argument ") else key


def _sum(values: dict[tuple[str, str, str], dict[int, float]], target: str, case: str,
         keys: Sequence[str]) -> dict[int, float]:
    columns = [values.get((target, case, key), {}) for key in keys]
    processes = set[int].intersection(*(set(column) for column in columns))
    return {process: sum(column[process] for column in columns) for process in processes}


def _column(ours: dict[int, float], theirs: dict[int, float], launch_us: float) -> Column | None:
    """Return the differences of the processes of the same generations, in microseconds."""
    places = sorted(ours.keys() & theirs.keys())
    if not places:
        return None
    values: Values = np.array([theirs[place] - ours[place] for place in places]) / 1e3
    scale = max(float(np.mean([abs(ours[place]) for place in places])) / 1e3, _LEAST_SCALE * launch_us, 1e-9)
    return Column(Part(values, np.array(places, np.int64)), scale=scale)


def _verdict(middle: float, half: float, launch_us: float) -> str:
    if abs(middle) > half:
        return SLOWER if middle > 0 else FASTER
    return NO_DIFFERENCE if half <= RESOLUTION * launch_us else TOO_NOISY


# An anatomy's result.

class AnatomyResult(Saved):
    """What an anatomy measured, and what was found in it.

    Parameters
    ----------
    breakdown : MeasuredBreakdown
        What was measured.
    """

    def __init__(self, breakdown: MeasuredBreakdown) -> None:
        self.breakdown = without_paths(breakdown)

    @property
    def measured(self) -> Measured:
        """Targets, cases, host, GPU and settings; its batches are the launches without stamps."""
        return self.breakdown.measured

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub."""
        return self.measured.is_dry_run

    @cached_property
    def parts(self) -> tuple[PartTime, ...]:
        """The time of each part, in microseconds of the host, with what is left over and the whole launch."""
        return estimates(self.breakdown)

    @cached_property
    def differences(self) -> tuple[PartDifference, ...]:
        """What each part costs more than in the baseline."""
        return differences(self.breakdown)

    def of(self, target: str, case: str) -> dict[str, PartTime]:
        """Return the parts of one target's launch, by key, in the order in which a launch passes them."""
        return {each.key: each for each in self.parts if (each.target, each.case) == (target, case)}

    def to_frame(self) -> pd.DataFrame:
        """Return a row a part, target and case.

        Its columns are ``us``, ``low_us``, ``high_us``, ``share``, ``reason``, and the difference from the baseline
        where the same part was compared (``difference_us`` and on), else null.
        """
        import pandas as pd

        compared = {(each.target, each.case, each.label): each for each in self.differences}
        rows: list[dict[str, Any]] = []
        for each in self.parts:
            found = compared.get((each.target, each.case, each.key))
            rows.append({
                "case": each.case, "target": each.target, "part": each.key, "note": each.note, "us": each.us,
                "low_us": each.low_us, "high_us": each.high_us, "share": each.share,
                "difference_us": found.difference_us if found else None,
                "difference_low_us": found.low_us if found else None,
                "difference_high_us": found.high_us if found else None,
                "verdict": found.verdict if found else None, "reason": each.reason})
        columns = ["case", "target", "part", "note", "us", "low_us", "high_us", "share", "difference_us",
                   "difference_low_us", "difference_high_us", "verdict", "reason"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, kind: str | None = None, *, target: str | None = None, case: str | None = None) -> go.Figure:
        """Return a Plotly figure.

        Parameters
        ----------
        kind : str, optional
            ``waterfall``: the parts of one target's launch. ``difference``: from the baseline's launch to a target's,
            which is meant where targets were compared and none is named.
        target : str, optional
            Its label; the baseline's launch, or the difference of the second target, by default.
        case : str, optional
            Its name; the first by default.

        Raises
        ------
        StudyError
            There is no figure, target or case of that name.
        """
        from kernelscope.studies.breakdown_figures import plot

        if kind is None:
            kind = "difference" if self.differences and target is None else "waterfall"
        return plot(self, kind, target, case)

    def figures(self) -> list[go.Figure]:
        """Return every waterfall, then every difference, as the page of `to_html` has them."""
        drawn = [self.plot("waterfall", target=target.label, case=case.name) for case in self.measured.cases
                 for target in self.measured.targets if self.of(target.label, case.name)]
        pairs = dict.fromkeys((each.target, each.case) for each in self.differences)
        return drawn + [self.plot("difference", target=target, case=case) for target, case in pairs]

    def to_json(self) -> str:
        """Return everything that was measured, as JSON."""
        return anatomy_to_json(self.breakdown)

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        from kernelscope.studies.breakdown_card import card

        return card(self)

    def _page(self) -> str:
        from kernelscope.studies.breakdown_card import page

        return page(self)


def without_paths(breakdown: MeasuredBreakdown) -> MeasuredBreakdown:
    """Return a copy without paths of this machine: see `kernelscope.studies.files.without_paths`."""
    parts = [dataclasses.replace(part, note=shareable_values(part.note), reason=shareable_values(part.reason))
             for part in breakdown.parts]
    return MeasuredBreakdown(without_paths_of(breakdown.measured), parts, breakdown.times)


# Anatomy of a launch.

#: A batch of a part takes this share of a study's, half a millisecond: there are twenty kinds, each often repeated.
SHORTER = 20
#: As few launches as a batch has where their number is not given: what is around a batch would show in fewer.
LEAST_LOOPS = 10
_PART_FIELDS = ("key", "begin", "end", "note", "reason")
#: The cases of an anatomy by default.
DEFAULT_CASES = tuple(select(None, ("4 args", "configured each time"), references=False))


def anatomy(
    targets: str | Target | Iterable[str | Target] | Mapping[str, str] = ("current",),
    case: str | Case | Iterable[str | Case] | None = None, *, loops: int | None = None, repeats: int = 5,
    processes: int = 8, limit_s: float | None = None, find_links: str | Path | Iterable[str | Path] = (),
    no_index: bool = False,
    install: bool = True, repo: str | Path = ".", dry_run: bool | None = None, pin: bool = True,
    seed: int | None = None, timeout_s: float = 120.0, progress: Progress | Literal[False] | None = None,
) -> AnatomyResult:
    """Measure the host time of each part of a launch, in one or several targets.

    Each part is timed in separate batches, with one reading of the clock where the part begins and one where it ends.
    The cost of the two readings is measured in the same places and subtracted. The launch is also timed without any
    reading; the difference between it and the sum of its parts is reported as ``unattributed``. As in a study, several
    new processes of each target are started, and the intervals are computed from their values.

    Parameters
    ----------
    targets : str, Target, iterable of them, or mapping of labels to texts
        Each as `parse_target` reads it; the first is the baseline. ``current`` is this environment.
    case : str, Case, or iterable of them, optional
        Which launches: names of built-in cases, or cases of your own, given as text. By default `DEFAULT_CASES`: an
        empty kernel with four device arrays, with a configuration that is held, and with one that is made each time.
    loops : int, optional
        Launches in a batch. By default as many as take 0.5 ms in one of the baseline's first
        processes.
    repeats : int
        Rounds in a process: each has every part of each case once, in twelve batches.
    processes : int
        Processes of each target.
    limit_s : float, optional
        Seconds of measuring after which it stops; environments are made before.
    find_links, no_index, install, repo, dry_run, pin, seed, timeout_s, progress
        As `launch_overhead` takes them.

    Returns
    -------
    AnatomyResult
        Also where a target failed: its report says why.

    Raises
    ------
    StudyError
        If a target, case or setting is wrong, or if the baseline fails before one process of it is measured.
    StudyInterrupted
        At a Ctrl-C: a `KeyboardInterrupt` whose attribute ``result`` has what was measured.
    """
    check_settings(loops=loops, repeats=repeats, processes=processes, limit_s=limit_s, timeout_s=timeout_s, seed=seed,
                   repo=repo, install=install, no_index=no_index, dry_run=dry_run, pin=pin, progress=progress)
    wanted, links = overhead.asked_for(targets, repo, find_links)
    chosen = _cases(case)
    seed = overhead.random_seed() if seed is None else seed
    measured = overhead.begun(wanted, chosen, pin=pin, settings={
        "loops": loops, "repeats": repeats, "processes": processes, "limit_s": limit_s, "install": install, "pin": pin,
        "seed": seed, "timeout_s": timeout_s})
    breakdown = MeasuredBreakdown(measured)
    dry_run = overhead.is_dry_run() if dry_run is None else dry_run
    # A run's batches are a study's until it knows the loops; here they are given as a study's would be.
    given = None if loops is None else {each.name: loops * SHORTER for each in chosen}
    plan = Plan(tuple(chosen), given, repeats, processes, limit_s=limit_s, timeout_s=timeout_s, seed=seed,
                cores=overhead.cores_of(measured), together=studies_process.together(len(wanted)),
                hello=overhead.hello_of(chosen, dry_run), batch_ms=SHORTER * 0.5)
    with overhead.measuring(wanted, measured, lambda: AnatomyResult(breakdown), progress, install=install,
                            no_index=no_index, find_links=links) as (members, on_progress, _):
        BreakdownRun(plan, members, breakdown, on_progress).run()
    return AnatomyResult(breakdown)


class BreakdownRun(Run):
    """A running anatomy: a study whose batches are the parts of a launch.

    Parameters
    ----------
    plan, members, on_progress
        As `Run` takes them.
    breakdown : MeasuredBreakdown
        Where the results go.
    """

    def __init__(self, plan: Plan, members: list[Member], breakdown: MeasuredBreakdown,
                 on_progress: Progress) -> None:
        super().__init__(plan, members, breakdown.measured, on_progress)
        self._breakdown = breakdown
        self._cases = {case.name: case for case in plan.cases}

    def _turn(self, running: Running, member: Member, case: str, number: int) -> None:
        """Take one case apart in one process, once."""
        plan = self._plan
        begun = time.perf_counter_ns() - self._begun_ns
        loops = self._loops[case] // SHORTER
        if plan.loops is None:
            loops = max(LEAST_LOOPS, loops)
        request = {"do": "anatomy", "case": as_data(self._cases[case]), "loops": loops,
                   "seed": self._chance.randrange(2**31), **self._cpu_noise.request(member.report.label, seeks=True)}
        for asked, process, answer in self._ask((running, {member: request})):
            if isinstance(answer, RefusedError):
                self._without_case(asked, case, answer, running)
                continue
            self._cpu_noise.took(asked.report.label, answer.get("core"))
            try:
                self._enter(process, asked.report.label, case, number, begun, answer)
            except ProcessError as error:
                self._drop(asked, error, running)

    def _enter(self, process: BenchProcess, label: str, case: str, number: int, begun: int,
               answer: dict[str, Any]) -> None:
        loops = process.number(answer, "loops", 1)
        bare_ns = process.number(answer, "bare_ns", 0.0, float)
        if not _is_whole(answer):
            raise process.failure("answered what is no anatomy of a launch")
        times: dict[str, float] = answer["parts_ns"]
        reports = [PartReport(label, case, **{name: part.get(name) for name in _PART_FIELDS})
                   for part in answer["parts"]]
        known = self._breakdown.parts
        # A part that one process could not time stays without an interval.
        lost = {part.key: part for part in known
                if (part.target, part.case) == (label, case) and part.reason is not None}
        known[:] = [part for part in known if (part.target, part.case) != (label, case)]
        known += [lost.get(part.key, part) for part in reports]
        where = (label, case, self._generation, number)
        self._breakdown.times += [(*where, LAUNCH, bare_ns, 0.0)]
        self._breakdown.times += [(*where, key, float(value), float(answer["stamps_ns"][key]))
                                  for key, value in times.items()]
        self.measured.batches.append((label, case, self._generation, number, self._place, begun, loops,
                                      max(1, round(bare_ns * loops)), 0, 0, 0))
        self._place += 1


def _cases(case: str | Case | Iterable[str | Case] | None) -> list[Case]:
    chosen = select(None, DEFAULT_CASES if case is None else cast("str | Iterable[str | Case]", case), references=False)
    for each in chosen:
        if each.is_live:
            raise StudyArgumentError(
                f"case {each.name!r} is a callable, which an anatomy cannot measure, as it starts new processes: give "
                "the case as text, studies.case('k[1, 1](a)', setup='...')")
    return chosen


def _is_whole(answer: dict[str, Any]) -> bool:
    """Return whether an answer has parts, and their times as finite numbers."""
    parts, times, stamps = answer.get("parts"), answer.get("parts_ns"), answer.get("stamps_ns")
    if not isinstance(parts, list) or not isinstance(times, dict) or not isinstance(stamps, dict):
        return False
    rows: list[Any] = parts
    numbers: list[Any] = [*times.values(), *stamps.values()]
    return (all(isinstance(part, dict) and all(isinstance(part.get(name), str) for name in _PART_FIELDS[:-1])
                and isinstance(part.get("reason"), str | None) for part in rows)
            and times.keys() == stamps.keys()
            and all(isinstance(value, int | float) and math.isfinite(value) for value in numbers))


#: What each part is, from where to where.
MEANINGS = {
    "configure": "the statement, until the dispatcher is entered: k[grid, block], and the call of what it returns",
    "dispatch": "from argument types to the specialization; pre-launch callbacks",
    "set-up": "the specialization's function on this device, and what else comes before the arguments",
    "arguments": "each one to what the driver takes; host arrays are copied",
    "configuration object": "cuda.core's LaunchConfig",
    "submit": "the driver call",
    "finish": "until the statement is over: host arrays are copied back",
    "other": "between two boundaries whose parts cannot be separated in this version",
    UNATTRIBUTED: "the launch without stamps less its parts: what stamps cost beyond what was taken off is negative",
}
_LABEL_WIDTH, _COMPARED_WIDTH, _NAME_WIDTH = 46, 64, 24


def text(result: AnatomyResult, width: int | None = None) -> str:
    """Return the anatomy as lines of text: the differences between targets, the times, and notes.

    Sentences keep to `width` columns, by default the terminal's, between 80 and 120; tables are as wide as they are.
    """
    width = columns(width)
    found = conclusions(result)
    lines = [title(result)]
    lines += [wrap(f"{label} {sentence}", width) for label, sentence in studies_text.failures(result.measured)]
    lines += [wrap(each, width) for each in found]
    for case in result.measured.cases:
        targets = [each.label for each in result.measured.targets if result.of(each.label, case.name)]
        if targets:
            lines += ["", f"{studies_text.name(case.name)}: µs/launch, with intervals of 95 %"]
            lines += _table(result, targets, case.name)
            for target in targets[1:]:
                lines += ["", *_differences(result, target, case.name)]
    lines += ["", "To know", *(wrap(each, width, 2, hanging=2) for each in sentences(result)[len(found):])]
    return with_notice(studies_text.notice(result.measured), "\n".join(lines))


def title(result: AnatomyResult) -> str:
    """Return what was taken apart."""
    measured = result.measured
    cases = counted(len(measured.cases), "case")
    return f"Anatomy of a launch: {counted(len(measured.targets), 'target')}, {cases}"


def sentences(result: AnatomyResult) -> list[str]:
    """Return the notes: conclusions, explanations of the parts, warnings and the method."""
    messages = conclusions(result)
    for case in result.measured.cases:
        for target in result.measured.targets:
            for reason, keys in unseen(result.breakdown, target.label, case.name).items():
                of = f" in {studies_text.name(case.name)}" if len(result.measured.cases) > 1 else ""
                messages.append(f"{studies_text.name(target.label)}, not to be seen{of}: {_listed(keys)} "
                            f"({studies_text.name(reason)}).")
    keys = dict.fromkeys(part_kind(each.key) for each in result.parts if each.key != LAUNCH)
    messages += [f"{key}: {MEANINGS[key]}." for key in keys if key in MEANINGS]
    messages += [f"{label}: {why}".removeprefix(": ") for label, why in studies_text.remarks(result.measured)]
    method = studies_text.method(result.measured)
    # The batches of the measured data are the rounds of an anatomy.
    return [*messages, _amounts(result), *(sentence for sentence in method[1:] if sentence != studies_text.METHOD)]


def conclusions(result: AnatomyResult) -> list[str]:
    """Return where each target spends more, or less, than the baseline: a sentence a case and target."""
    messages: list[str] = []
    for case in result.measured.cases:
        for target in result.measured.targets[1:]:
            found = [each for each in result.differences if (each.target, each.case) == (target.label, case.name)]
            if not found:
                continue
            whole = next(each for each in found if each.label == LAUNCH)
            parts = sorted((each for each in found if each.label != LAUNCH and each.verdict in ("slower", "faster")),
                           key=lambda each: -abs(each.difference_us))
            is_one = len(result.measured.cases) == 1
            what = studies_text.name(target.label) + ("" if is_one else f" in {studies_text.name(case.name)}")
            where = ", ".join(f"{each.label} {difference_text(each)} µs" for each in parts[:4])
            much = (f"{whole.verdict} than {studies_text.name(whole.baseline)} by {abs(whole.difference_us):.2f} µs "
                    "a launch")
            overall = much if whole.verdict in ("slower", "faster") else f"the launch as a whole: {whole.verdict}"
            messages.append(f"{what} is {much}: {where}." if whole.verdict in ("slower", "faster") and where else
                        f"{what}: {overall}; {where or 'no part differs'}.")
    return messages


def part_kind(key: str) -> str:
    """Return the key under which a part is described."""
    return "arguments" if key.startswith("argument ") else key.partition(" ")[0] if key.startswith("other") else key


def label_of(part: PartTime) -> str:
    """Return a part's name, with what is known of it."""
    note = clean(part.note)
    return f"{part.key}, {note}" if note else part.key


def amount(part: PartTime | None) -> tuple[str, str]:
    """Return a part's time with half of its interval, and its share; empty texts where it was not timed."""
    if part is None or part.us is None or part.high_us is None:
        return "-", ""
    half = part.high_us - part.us
    percent = "" if part.share is None else share(part.share * 100)
    if not math.isfinite(half):  # one process is none that an interval is of
        return micros(part.us), percent
    return f"{micros(part.us, half)} +/- {micros(half, half)}", percent


def rows_of(result: AnatomyResult, targets: Sequence[str], case: str) -> list[tuple[str, list[PartTime | None]]]:
    """Return a row for each part that any of the targets has: its name, and its time in each of them."""
    held = [result.of(target, case) for target in targets]
    keys: list[str] = []
    for parts in held:
        for place, key in enumerate(parts):
            if key not in keys:
                # After the part that it follows in its own target.
                before = list(parts)[place - 1] if place else None
                keys.insert(keys.index(before) + 1 if before is not None else 0, key)
    rows: list[tuple[str, list[PartTime | None]]] = []
    for key in keys:
        found = [parts.get(key) for parts in held]
        if any(each is not None and each.us is not None for each in found):
            first = next(each for each in found if each is not None and each.us is not None)
            rows.append((label_of(first), found))
    return rows


def _table(result: AnatomyResult, targets: Sequence[str], case: str) -> list[str]:
    rows = [("part", [(shorten(clean(target), _NAME_WIDTH), "%") for target in targets])]
    for label, parts in rows_of(result, targets, case):
        rows.append((shorten(label, _LABEL_WIDTH), [amount(each) for each in parts]))
    first = max(width_of(label) for label, _ in rows)
    widths = [max(width_of(cells[place][0]) for _, cells in rows) for place in range(len(targets))]
    lines: list[str] = []
    for label, cells in rows:
        line = "  " + _padded(label, first)
        for width, (value, part) in zip(widths, cells, strict=True):
            line += f"  {_padded(value, width)} {part:>6}"
        lines.append(line.rstrip())
    return lines


def _differences(result: AnatomyResult, target: str, case: str) -> list[str]:
    found = [each for each in result.differences if (each.target, each.case) == (target, case)]
    if not found:
        return [f"{studies_text.name(target)} was not compared."]
    rows = [(shorten(each.label, _COMPARED_WIDTH), difference_text(each), difference_interval(each), each.verdict)
            for each in found]
    widths = [max(width_of(row[place]) for row in rows) for place in range(3)]
    lines = [f"{studies_text.name(target)} less {studies_text.name(found[0].baseline)}, µs/launch:"]
    for row in rows:
        cells = [_padded(value, width) for value, width in zip(row, widths, strict=False)]
        lines.append(f"  {'  '.join(cells)}  {row[3]}".rstrip())
    return lines


def _amounts(result: AnatomyResult) -> str:
    rows = result.measured.batches
    if not rows:
        return "Nothing was measured."
    processes, rounds = len({row[2] for row in rows}), len({row[3] for row in rows})
    of = " of each target" if len(result.measured.targets) > 1 else ""
    loops = sorted({row[6] for row in rows})
    launches = f"{loops[0]:,} to {loops[-1]:,}" if len(loops) > 1 else f"{loops[0]:,}"
    return (f"{counted(processes, 'process', 'processes')}{of}, in each {counted(rounds, 'round')} with a dozen "
            f"batches a part, of {launches} launch{'es' * (loops[-1] > 1)}.")


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(part_kind(key) for key in keys))


def _padded(value: str, width: int) -> str:
    return value + " " * (width - width_of(value))
