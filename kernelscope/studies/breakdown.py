"""Anatomy of a launch: what each part of it costs, in several targets, and how they differ."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

import kernelscope
from kernelscope.errors import StudyArgumentError, StudyFileError
from kernelscope.recording.redact import shareable_values
from kernelscope.studies import files, overhead
from kernelscope.studies import process as studies_process
from kernelscope.studies.arguments import check_settings, paths
from kernelscope.studies.cases import Case, select
from kernelscope.studies.environments import Workspace
from kernelscope.studies.measured import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Measured, TargetReport
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError
from kernelscope.studies.runner import Member, Plan, Run, Running, Tell, homeless, showing
from kernelscope.studies.statistics import Column, Part, Values, intervals
from kernelscope.studies.target import Target

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


# The parts of a launch as they were timed, and what follows from that: estimates, and differences between targets.
#
# Pure functions from plain data to plain data. The independent unit is the process, as in a study: a process's
# value of a part is the median of its rounds' times less the median of what the stamps took. An estimate is the
# mean over the processes, because means add up: the parts and what is left over make the whole launch.

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


# An anatomy's result: the parts of a launch in each target, and where a target spends more than the baseline.

class AnatomyResult:
    """What an anatomy measured, and what was found in it.

    Parameters
    ----------
    dissected : Dissected
        What was measured.
    """

    def __init__(self, dissected: Dissected) -> None:
        self.dissected = without_paths(dissected)

    @property
    def measured(self) -> Measured:
        """Targets, cases, host, GPU and settings; its batches are the launches without stamps."""
        return self.dissected.measured

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub."""
        return self.measured.is_dry_run

    @cached_property
    def parts(self) -> tuple[PartTime, ...]:
        """The time of each part, in microseconds of the host, with what is left over and the whole launch."""
        return estimates(self.dissected)

    @cached_property
    def differences(self) -> tuple[PartDifference, ...]:
        """What each part costs more than in the baseline."""
        return differences(self.dissected)

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
        from kernelscope.studies import breakdown_views

        if kind is None:
            kind = "difference" if self.differences and target is None else "waterfall"
        return breakdown_views.plot(self, kind, target, case)

    def figures(self) -> list[go.Figure]:
        """Return every waterfall, then every difference, as the page of `to_html` has them."""
        drawn = [self.plot("waterfall", target=target.label, case=case.name) for case in self.measured.cases
                 for target in self.measured.targets if self.of(target.label, case.name)]
        pairs = dict.fromkeys((each.target, each.case) for each in self.differences)
        return drawn + [self.plot("difference", target=target, case=case) for target, case in pairs]

    def to_json(self) -> str:
        """Return everything that was measured, as JSON."""
        return to_json(self.dissected)

    def save(self, path: str | Path) -> Path:
        """Write everything that was measured to a JSON file, and return its path; `load` reads it.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies import files

        return files.write(path, to_json(self.dissected).encode("ascii"), files.SUFFIX)

    def to_html(self, path: str | Path) -> Path:
        """Write the card and the figures to one page, which needs no network, and return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies import breakdown_views, files

        return files.write(path, breakdown_views.page(self).encode("utf-8"), ".html")

    def _repr_html_(self) -> str:
        from kernelscope.studies import breakdown_views

        return breakdown_views.card(self)

    def __str__(self) -> str:
        from kernelscope.studies import breakdown_views

        return breakdown_views.text(self)

    __repr__ = __str__


def load(path: str | Path) -> AnatomyResult:
    """Read an anatomy from a JSON file.

    Raises
    ------
    StudyFileError
        It is no anatomy, is damaged, or is of another version; the message says what is wrong and where.
    """
    return AnatomyResult(read_file(path))


# Anatomies as JSON: a study of the launches without stamps, the parts of a launch, and what each took.
#
# An object with ``format`` and ``version``; ``study``, an object as `kernelscope.studies.files` writes it; ``parts``,
# as `PartReport` describes them; and ``times``, one list a column, in which ``target`` and ``case`` are places in
# the study's lists. What is read back is what was measured: estimates and differences are worked out anew.

FORMAT = "kernelscope-anatomy"
VERSION = 1

#: A launch has some ten parts and an argument each; more than this is no launch.
MOST_PARTS = 100_000
# What names things, and is the same everywhere.
_NAMES = ("target", "case", "key")
_ADVICE = "it may be damaged; save the anatomy again"
# A launch of an hour is none.
_MOST_NS = 3.6e12


def to_json(dissected: Dissected) -> str:
    """Return an anatomy as JSON, in ASCII."""
    study = json.loads(files.to_json(dissected.measured))
    labels = {each.label: place for place, each in enumerate(dissected.measured.targets)}
    names = {each.name: place for place, each in enumerate(dissected.measured.cases)}
    columns: dict[str, list[Any]] = {
        name: [row[place] for row in dissected.times] for place, name in enumerate(TIME)}
    columns["target"] = [labels[label] for label in columns["target"]]
    columns["case"] = [names[name] for name in columns["case"]]
    for name in ("part_ns", "stamps_ns"):
        columns[name] = [round(value, 3) for value in columns[name]]
    content = {"format": FORMAT, "version": VERSION, "kernelscope": kernelscope.__version__,
               "parts": shareable_values([dataclasses.asdict(part) for part in dissected.parts], _NAMES),
               "times": columns, "study": study}
    # A key a line: with everything in one line, nothing could be found.
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}"
                       for name, value in content.items())
    return f"{{\n{lines}\n}}\n"


def without_paths(dissected: Dissected) -> Dissected:
    """Return an anatomy without paths of this machine: see `kernelscope.studies.files.without_paths`."""
    parts = [dataclasses.replace(part, note=shareable_values(part.note), reason=shareable_values(part.reason))
             for part in dissected.parts]
    return Dissected(files.without_paths(dissected.measured), parts, dissected.times)


def is_anatomy(path: str | Path) -> bool:
    """Whether a file says that it is an anatomy; `load` finds out whether it is right."""
    try:
        return files.read(path, lambda content: f'"format": "{FORMAT}"'.encode() in content[:1000])
    except StudyFileError:
        return False


def read_file(path: str | Path) -> Dissected:
    """Read an anatomy from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        There is no such file; it is torn, no anatomy, of another version, or contradicts itself.
    """
    return files.read(path, from_json)


def from_json(text: str | bytes) -> Dissected:
    """Return the anatomy that JSON holds, or refuse it.

    Raises
    ------
    StudyFileError
        It is torn, no anatomy, of another version, or contradicts itself; the message says what is wrong and where.
    """
    content = files.parsed(text, FORMAT, "anatomy", "anatomy")
    version = content.get("version")
    if version != VERSION or type(version) is not int:
        shown = version if type(version) is int and abs(version) < 10**9 else "an unknown version"
        raise StudyFileError(f"it is of version {shown}, and this KernelScope ({kernelscope.__version__}) reads "
                             f"version {VERSION}; update KernelScope, or measure again")
    measured = files.from_json(json.dumps(content.get("study")))
    return Dissected(measured, _parts(content.get("parts"), measured), _times(content.get("times"), measured))


def _parts(content: Any, measured: Measured) -> list[PartReport]:
    parts: list[PartReport] = []
    labels, names = {each.label for each in measured.targets}, {each.name for each in measured.cases}
    for place, each in enumerate(_list(content, "'parts'")):
        where = f"'parts[{place}]'"
        if not isinstance(each, dict):
            raise StudyFileError(f"{where} is no object; {_ADVICE}")
        held = cast("dict[str, Any]", each)
        values: dict[str, Any] = {}
        for column in dataclasses.fields(PartReport):
            value = held.get(column.name, "" if column.default is dataclasses.MISSING else column.default)
            if not isinstance(value, str) and not (column.name == "reason" and value is None):
                raise StudyFileError(f"{where} has a {column.name} that is no text; {_ADVICE}")
            values[column.name] = value
        part = PartReport(**values)
        if part.target not in labels or part.case not in names or not part.key:
            raise StudyFileError(f"{where} is of no target and case of its study; {_ADVICE}")
        parts.append(part)
    if len(parts) > MOST_PARTS:
        raise StudyFileError(f"'parts' has {len(parts):,} rows, which no launch has; {_ADVICE}")
    return parts


def _times(content: Any, measured: Measured) -> list[tuple[str, str, int, int, str, float, float]]:
    if not isinstance(content, dict):
        raise StudyFileError(f"'times' is no object; {_ADVICE}")
    held = cast("dict[str, Any]", content)
    columns = [_time_column(name, kind, held.get(name), measured) for name, kind in TIME.items()]
    if len({len(column) for column in columns}) != 1:
        raise StudyFileError(f"the columns of 'times' have different lengths; {_ADVICE}")
    return list(cast("zip[tuple[str, str, int, int, str, float, float]]", zip(*columns, strict=True)))


def _time_column(name: str, kind: str, content: Any, measured: Measured) -> Sequence[Any]:
    where = f"'times.{name}'"
    column = _list(content, where)
    if name in ("target", "case"):
        labels, names = [each.label for each in measured.targets], [each.name for each in measured.cases]
        known = labels if name == "target" else names
        if any(type(value) is not int or not 0 <= value < len(known) for value in column):
            raise StudyFileError(f"{where} has a value that is no place in the study's list; {_ADVICE}")
        return [known[value] for value in column]
    if kind == "str":
        if not all(isinstance(value, str) and value for value in column):
            raise StudyFileError(f"{where} has a value that is no name, such as {LAUNCH!r}; {_ADVICE}")
        return column
    if kind == "int64":
        if any(type(value) is not int or not 0 <= value <= 1_000_000 for value in column):
            raise StudyFileError(f"{where} has a value that is no count; {_ADVICE}")
        return column
    # A stamp may come out dearer than a part; not a second dearer.
    if any(type(value) not in (int, float) or not math.isfinite(value) or not -1e9 <= value <= _MOST_NS
           for value in column):
        raise StudyFileError(f"{where} has a value that is no time of a launch; {_ADVICE}")
    return [float(value) for value in column]


def _list(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise StudyFileError(f"{where} is no list; {_ADVICE}")
    return cast("list[Any]", content)


# Anatomy of a launch: what each part of it costs, in several targets, and where one spends more than the baseline.

#: A batch of a part takes this share of a study's, half a millisecond: there are twenty kinds, each often repeated.
SHORTER = 20
#: As few launches as a batch has where their number is not given: what is around a batch would show in fewer.
LEAST_LOOPS = 10
_OF_A_PART = ("key", "begin", "end", "note", "reason")
#: What is taken apart where nothing else is said.
DEFAULT_CASES = tuple(select(None, ("4 args", "configured each time"), references=False))


def anatomy(
    targets: str | Target | Iterable[str | Target] | Mapping[str, str] = ("current",),
    case: str | Case | Iterable[str | Case] | None = None, *, loops: int | None = None, repeats: int = 5,
    processes: int = 8, limit_s: float | None = None, find_links: str | Path | Iterable[str | Path] = (),
    no_index: bool = False,
    install: bool = True, repo: str | Path = ".", dry_run: bool | None = None, pin: bool = True,
    seed: int | None = None, timeout_s: float = 120.0, progress: Tell | Literal[False] | None = None,
) -> AnatomyResult:
    """Measure what each part of a launch costs the host, in each of several targets.

    A part is timed in batches of its own, with a reading of the clock where it begins and one where it ends, and what
    the two readings cost is measured in the same places and taken off. The launch is timed without any reading as well:
    what it takes less its parts is in the result, as ``unattributed``. As in a study, several fresh processes of each
    target are started, and they are what the intervals are of.

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
    links = paths("find_links", find_links)
    overhead.refuse_simulator()
    wanted = overhead.targets_of(targets, str(repo))
    chosen = _cases(case)
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    reports = [TargetReport(each.label, each.kind, homeless(str(each))) for each in wanted]
    settings = {
        "targets": [report.source for report in reports], "cases": [each.name for each in chosen], "loops": loops,
        "repeats": repeats, "processes": processes, "limit_s": limit_s, "install": install, "pin": pin, "seed": seed,
        "timeout_s": timeout_s}
    measured = Measured(reports, [overhead.report_of(each) for each in chosen], settings=settings,
                        created=datetime.now(UTC).isoformat(timespec="seconds"))
    dissected = Dissected(measured)
    dry_run = overhead.is_dry_run() if dry_run is None else dry_run
    # A run's batches are a study's until it knows the loops; here they are given as a study's would be.
    given = None if loops is None else {each.name: loops * SHORTER for each in chosen}
    plan = Plan(tuple(chosen), given, repeats, processes, limit_s=limit_s, timeout_s=timeout_s, seed=seed,
                cores=studies_process.choose_cores() if pin else (), together=studies_process.together(len(wanted)),
                hello=overhead.hello_of(chosen, dry_run),
                batch_ms=SHORTER * 0.5)
    measured.host.update(studies_process.describe(plan.cores))
    try:
        with showing(progress) as tell, Workspace() as workspace:
            members = overhead.members_of(wanted, measured, workspace, tell, install=install, no_index=no_index,
                                          find_links=links)
            Dissection(plan, members, dissected, tell).run()
    except KeyboardInterrupt:
        measured.ended = "interrupted"
        overhead.done(measured)
        raise overhead.StudyInterrupted(AnatomyResult(dissected) if dissected.times else None) from None
    overhead.done(measured)
    return AnatomyResult(dissected)


class Dissection(Run):
    """An anatomy that is under way: a study whose batches are the parts of a launch.

    Parameters
    ----------
    plan, members, tell
        As `Run` takes them.
    dissected : Dissected
        Where the results go.
    """

    def __init__(self, plan: Plan, members: list[Member], dissected: Dissected, tell: Tell) -> None:
        super().__init__(plan, members, dissected.measured, tell)
        self._dissected = dissected
        self._cases = {case.name: case for case in plan.cases}

    def _turn(self, running: Running, member: Member, case: str, number: int) -> None:
        """Take one case apart in one process, once."""
        plan = self._plan
        begun = time.perf_counter_ns() - self._begun_ns
        loops = self._loops[case] // SHORTER
        if plan.loops is None:
            loops = max(LEAST_LOOPS, loops)
        request = {"do": "anatomy", "case": _as_data(self._cases[case]), "loops": loops,
                   "seed": self._chance.randrange(2**31), **self._quietness.request(member.report.label, seeks=True)}
        for asked, process, answer in self._ask((running, {member: request})):
            if isinstance(answer, RefusedError):
                self._without_case(asked, case, answer, running)
                continue
            self._quietness.took(asked.report.label, answer.get("core"))
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
        reports = [PartReport(label, case, **{name: part.get(name) for name in _OF_A_PART})
                   for part in answer["parts"]]
        known = self._dissected.parts
        # The last process' word holds: what one of them could not time is in no interval.
        lost = {part.key: part for part in known
                if (part.target, part.case) == (label, case) and part.reason is not None}
        known[:] = [part for part in known if (part.target, part.case) != (label, case)]
        known += [lost.get(part.key, part) for part in reports]
        where = (label, case, self._generation, number)
        self._dissected.times += [(*where, LAUNCH, bare_ns, 0.0)]
        self._dissected.times += [(*where, key, float(value), float(answer["stamps_ns"][key]))
                                  for key, value in times.items()]
        self.measured.batches.append((label, case, self._generation, number, self._place, begun, loops,
                                      max(1, round(bare_ns * loops)), 0, 0, 0))
        self._place += 1


def _cases(case: str | Case | Iterable[str | Case] | None) -> list[Case]:
    chosen = select(None, DEFAULT_CASES if case is None else cast("str | Iterable[str | Case]", case), references=False)
    for each in chosen:
        if each.is_live:
            raise StudyArgumentError(
                f"case {each.name!r} is a callable, and a launch is taken apart in processes of its "
                "own: give the case as text, studies.case('k[1, 1](a)', setup='...')")
    return chosen


def _as_data(case: Case) -> dict[str, Any]:
    return {each.name: getattr(case, each.name) for each in dataclasses.fields(case) if each.name != "function"}


def _is_whole(answer: dict[str, Any]) -> bool:
    """Whether an answer has parts, and their times as numbers."""
    parts, times, stamps = answer.get("parts"), answer.get("parts_ns"), answer.get("stamps_ns")
    if not isinstance(parts, list) or not isinstance(times, dict) or not isinstance(stamps, dict):
        return False
    rows: list[Any] = parts
    numbers: list[Any] = [*times.values(), *stamps.values()]
    return (all(isinstance(part, dict) and all(isinstance(part.get(name), str) for name in _OF_A_PART[:-1])
                and isinstance(part.get("reason"), str | None) for part in rows)
            and times.keys() == stamps.keys()
            and all(isinstance(value, int | float) and math.isfinite(value) for value in numbers))
