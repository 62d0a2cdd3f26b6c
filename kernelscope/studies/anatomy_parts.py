"""The parts of a launch as they were timed, and what follows from that: estimates, and differences between targets.

Pure functions from plain data to plain data. The independent unit is the process, as in a study: a process's value of
a part is the median of its rounds' times less the median of what the stamps took. An estimate is the mean over the
processes, because means add up: the parts and what is left over make the whole launch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelscope.studies.judged import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.studies.measured import Measured
from kernelscope.studies.resampling import Column, Part, Values, intervals

#: The columns of `Dissected.times`, each with its dtype. A row is one part in one round; times are of one launch.
TIME = {
    "target": "str",  # the target's label
    "case": "str",  # the case's name
    "process": "int64",  # which process of the target, from 0
    "round": "int64",  # which round of its process, from 0
    "part": "str",  # the part's key; `LAUNCH` for the launch without stamps
    "part_ns": "float64",  # with the stamps' time
    "stamps_ns": "float64",  # the stamps' time alone
}
#: The key of the whole launch, and of what it takes longer than its parts.
LAUNCH, UNATTRIBUTED = "launch", "unattributed"
#: An interval of a difference that is wider than this share of the baseline's launch to each side says too little.
RESOLUTION = 0.05
# What a stamp is uncertain by does not shrink with the part: a part's noise is like that of at least this share of
# its launch.
_LEAST_SCALE = 0.05


@dataclass(frozen=True)
class PartReport:
    """A part of a launch, as a target has it.

    Attributes
    ----------
    target, case, key : str
        Which. Keys are ``configure``, ``dispatch``, ``set-up``, ``argument 0`` and on, ``configuration object``,
        ``submit``, ``finish``, and ``other`` for the time between two boundaries whose parts cannot be told apart.
    begin, end : str
        The boundaries that it lies between; of a part that cannot be told apart inside of another one, that one's;
        empty where nothing is known.
    note : str
        What it is, such as the type of an argument.
    reason : str or None
        Why it cannot be timed.
    """

    target: str
    case: str
    key: str
    begin: str = ""
    end: str = ""
    note: str = ""
    reason: str | None = None


@dataclass
class Dissected:
    """Everything that an anatomy measured.

    Attributes
    ----------
    measured : Measured
        Targets, cases, host, GPU and settings; its batches are the launches without stamps.
    parts : list of PartReport
        In the order in which a launch passes them, by target and case.
    times : list of tuple
        Rows of `TIME`, in its columns' order.
    """

    measured: Measured
    parts: list[PartReport] = field(default_factory=list[PartReport])
    times: list[tuple[str, str, int, int, str, float, float]] = field(
        default_factory=list[tuple[str, str, int, int, str, float, float]])


@dataclass(frozen=True)
class PartTime:
    """What a part of a launch costs in a target.

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
    """What a part costs more in a target than in the baseline.

    Attributes
    ----------
    target, case, baseline : str
        Which.
    label : str
        The part. Where the two have not the same parts between two boundaries that both have, it names all of them.
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


def estimates(dissected: Dissected) -> tuple[PartTime, ...]:
    """Return each part's time, with the whole launch and what is left over, by case and target."""
    found: list[PartTime] = []
    values = _values(dissected)
    for case in dissected.measured.cases:
        for target in dissected.measured.targets:
            found += _estimates_of(dissected, values, target.label, case.name)
    return tuple(found)


def differences(dissected: Dissected) -> tuple[PartDifference, ...]:
    """Return what each part costs more than in the first target that was measured, the baseline.

    Parts are compared where both targets have them. Where they have not the same parts between two boundaries that both
    have, what lies between those is compared as a whole.
    """
    values = _values(dissected)
    keys: list[tuple[str, str, str, str]] = []
    columns: list[Column] = []
    launches: list[float] = []
    for case in dissected.measured.cases:
        labels = [each.label for each in dissected.measured.targets if (each.label, case.name, LAUNCH) in values]
        for target in labels[1:]:
            baseline = labels[0]
            launch = float(np.mean(list(values[baseline, case.name, LAUNCH].values()))) / 1e3
            pairs = _comparable(_all(dissected, baseline, case.name), _all(dissected, target, case.name))
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


def unseen(dissected: Dissected, target: str, case: str) -> dict[str, list[str]]:
    """Return the parts that cannot be timed in a target, by the reason."""
    reasons: dict[str, list[str]] = {}
    for part in dissected.parts:
        if (part.target, part.case) == (target, case) and part.reason is not None:
            reasons.setdefault(part.reason, []).append(part.key)
    return reasons


def _values(dissected: Dissected) -> dict[tuple[str, str, str], dict[int, float]]:
    """Each process's value of each part, in nanoseconds, by target, case and key; then by process."""
    rows: dict[tuple[str, str, str], dict[int, tuple[list[float], list[float]]]] = {}
    for target, case, process, _, key, part_ns, stamps_ns in dissected.times:
        times, stamps = rows.setdefault((target, case, key), {}).setdefault(process, ([], []))
        times.append(part_ns)
        stamps.append(stamps_ns)
    return {key: {process: float(np.median(times) - np.median(stamps)) for process, (times, stamps) in by.items()}
            for key, by in rows.items()}


def _all(dissected: Dissected, target: str, case: str) -> list[PartReport]:
    return [part for part in dissected.parts if (part.target, part.case) == (target, case)]


def _estimates_of(dissected: Dissected, values: dict[tuple[str, str, str], dict[int, float]], target: str,
                  case: str) -> Iterable[PartTime]:
    launch = values.get((target, case, LAUNCH))
    if not launch:
        return
    whole = float(np.mean(list(launch.values()))) / 1e3
    attributed = 0.0
    left_over = dict(launch)
    for part in dissected.parts:
        if (part.target, part.case) != (target, case):
            continue
        by_process = values.get((target, case, part.key), {})
        if part.reason is not None or by_process.keys() != launch.keys():
            yield PartTime(target, case, part.key, part.note, reason=part.reason or "not timed in every process")
            continue
        time = _estimate(PartTime(target, case, part.key, part.note), by_process, whole)
        attributed += time.us or 0.0
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
    """Yield what can be compared: a label, and the keys of the parts on both sides that are summed for it."""
    ours, theirs = _seen(all_ours), _seen(all_theirs)
    shared = {part.begin for part in ours} & {part.begin for part in theirs}
    # A part that one of them has inside of another part, and not before it, makes that one hold more.
    shared -= _holding(all_ours, theirs) | _holding(all_theirs, ours)
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


def _holding(parts: Sequence[PartReport], others: Sequence[PartReport]) -> set[str]:
    """Where parts begin that hold others, which cannot be told apart there, while the other side has those by name."""
    begins, known = {part.begin for part in _seen(parts)}, {_short(part.key) for part in others}
    return {part.begin for part in parts if part.reason is not None and part.begin in begins and part.key in known}


def _cut(parts: Sequence[PartReport], boundaries: set[str]) -> dict[str, list[PartReport]]:
    """Cut the parts in pieces, each of which begins at one of some boundaries."""
    pieces: dict[str, list[PartReport]] = {}
    begin = ""
    for part in parts:
        if part.begin in boundaries:
            begin = part.begin
        if begin:
            pieces.setdefault(begin, []).append(part)
    return pieces


def _has_gap(parts: Sequence[PartReport]) -> bool:
    """Whether a part between them cannot be timed; the arguments have the same two boundaries."""
    return any(part.begin not in (before.begin, before.end) for before, part in itertools.pairwise(parts))


def _short(key: str) -> str:
    return "arguments" if key.startswith("argument ") else key


def _sum(values: dict[tuple[str, str, str], dict[int, float]], target: str, case: str,
         keys: Sequence[str]) -> dict[int, float]:
    columns = [values.get((target, case, key), {}) for key in keys]
    processes = set[int].intersection(*(set(column) for column in columns))
    return {process: sum(column[process] for column in columns) for process in processes}


def _column(ours: dict[int, float], theirs: dict[int, float], launch_us: float) -> Column | None:
    """The differences of the processes of one generation, in microseconds."""
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
