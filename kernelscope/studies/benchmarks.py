"""Reads what pytest-benchmark has written, so that it is compared as studies are: a file is a process."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kernelscope.errors import StudyArgumentError, StudyFileError
from kernelscope.studies.arguments import paths
from kernelscope.studies.measured import BatchRow, CaseReport, Measured, TargetReport
from kernelscope.views.base import clean, shorten

if TYPE_CHECKING:
    from kernelscope.studies.result import StudyResult

Files = Mapping[str, str | Path | Iterable[str | Path]] | Iterable[str | Path] | str | Path

#: The versions of pytest-benchmark whose files are read.
VERSIONS = ("4", "5")
#: A file of numba-cuda's suite with all its timings has some megabytes.
MOST_BYTES = 512 * 2**20
#: The rounds of one benchmark in one file become this many batches at most, each of rounds that followed each other.
BATCHES = 20
# 30 years, which a file of a study holds.
_MOST_NS = 10**18



@dataclass
class BenchmarkFile:
    """What a study needs of one file of pytest-benchmark.

    Attributes
    ----------
    path : str
        Its name, without folders.
    created : datetime or None
        When it was written.
    rounds : dict of str to (int, list of float)
        By benchmark: the iterations of a round, and of each round the seconds of one iteration. Where the file has no
        single rounds there is one, their median.
    statements : dict of str to str
        By benchmark: its full name, with its file.
    machine : dict
        As pytest-benchmark describes the machine.
    revision : str or None
        The commit that it ran in; with ``+changes`` where there were some.
    has_rounds : bool
        Whether it has single rounds.
    """

    path: str
    created: datetime | None = None
    rounds: dict[str, tuple[int, list[float]]] = field(default_factory=dict[str, tuple[int, list[float]]])
    statements: dict[str, str] = field(default_factory=dict[str, str])
    machine: dict[str, Any] = field(default_factory=dict[str, Any])
    revision: str | None = None
    has_rounds: bool = True


def read_benchmarks(files: Files) -> StudyResult:
    """Compare files of pytest-benchmark, as ``pytest --benchmark-json=FILE`` writes them.

    The unit is the process, and a file is one: several files of a target, written in turn with those of the others,
    are what tells a difference from how processes of one version differ. Files of a target are its processes in their
    order, and the n-th of each target are compared with each other.

    Parameters
    ----------
    files : mapping, iterable or path
        Files by label; or paths, or texts such as ``v2=run1.json``, where a label may come again. A path without a
        label is a target of its own, called after the file. The first label is the baseline.

    Returns
    -------
    StudyResult
        Its cases are the benchmarks, without ``test_``. ``sync_ns`` is 0: pytest-benchmark does not wait for the
        device. One with an eager signature, as numba-cuda's are called, is also compared with that without:
        ``one_arg[signature-device_array]`` with ``one_arg[dispatch-device_array]``.

    Raises
    ------
    StudyFileError
        If a file cannot be read, is none of pytest-benchmark's, is damaged, or is of another version than `VERSIONS`.
    StudyError
        If there is no file, or if `files` are none.
    """
    from kernelscope.studies.result import StudyResult

    return StudyResult(measured_of({label: [read_file(path) for path in paths] for label, paths in _labelled(files)}))


def measured_of(files: Mapping[str, Sequence[BenchmarkFile]]) -> Measured:
    """Return what files hold, by target, as a study has it."""
    measured = Measured([TargetReport(label, "file", ", ".join(each.path for each in found), processes=len(found))
                         for label, found in files.items()], [])
    every = [each for found in files.values() for each in found]
    first = min((each.created for each in every if each.created is not None), default=None)
    measured.created = first.isoformat(timespec="seconds") if first else ""
    measured.cases = case_reports(every)
    # In the order in which they were written, where that is known: it is the place of a batch in the study.
    order = sorted(((label, number, each) for label, found in files.items() for number, each in enumerate(found)),
                   key=lambda one: (since(one[2], first), one[1]))
    for label, number, each in order:
        measured.batches += batch_rows(each, label, number, len(measured.batches), since(each, first))
    for report, found in zip(measured.targets, files.values(), strict=True):
        _describe(report, found, [case.name for case in measured.cases])
    if every:
        measured.host = host_of(every[0])
    measured.notes += _notes(every)
    return measured


def case_reports(files: Iterable[BenchmarkFile]) -> list[CaseReport]:
    """Return the benchmarks of files as cases, in the order in which they come first."""
    statements: dict[str, str] = {}
    for each in files:
        for name, statement in each.statements.items():
            statements.setdefault(name, statement)
    twins = {name: name.replace("[signature-", "[dispatch-") for name in statements if "[signature-" in name}
    return [CaseReport(name, statement, group="suite", against=twins[name] if twins.get(name) in statements else None)
            for name, statement in statements.items()]


def batch_rows(file: BenchmarkFile, label: str, process: int, place: int, start_ns: int) -> Iterator[BatchRow]:
    """Yield the batches of one file, in `kernelscope.studies.measured.BATCH`'s columns."""
    for name, (iterations, seconds) in file.rounds.items():
        size = math.ceil(len(seconds) / BATCHES)
        for number, begin in enumerate(range(0, len(seconds), size)):
            some = seconds[begin:begin + size]
            took_ns = max(1, round(math.fsum(some) * iterations * 1e9))
            yield label, name, process, number, place, start_ns, len(some) * iterations, took_ns, 0, 0, 0
            start_ns += took_ns
            place += 1


def short_name(benchmark: str) -> str:
    """Return what to call a benchmark: the name of its test, without the ``test_`` that all have."""
    return benchmark.removeprefix("test_") or benchmark


def since(file: BenchmarkFile, first: datetime | None) -> int:
    """Return the nanoseconds from the first file to this one; 0 where a file does not say when it was."""
    return min(round((file.created - first).total_seconds() * 1e9), _MOST_NS) if first and file.created else 0


def host_of(file: BenchmarkFile) -> dict[str, Any]:
    """Return what a file says of its machine, as `Measured.host` has it."""
    cpu = file.machine.get("cpu")
    cpu = cast("dict[str, Any]", cpu) if isinstance(cpu, dict) else {}
    system = " ".join(str(file.machine[part]) for part in ("system", "release", "machine") if file.machine.get(part))
    cores = cpu.get("count")
    return {"processor": str(cpu.get("brand_raw") or cpu.get("brand") or file.machine.get("processor") or ""),
            "cores": cores if isinstance(cores, int) else None, "pinned_to": None, "system": system}


def read_file(path: str | Path) -> BenchmarkFile:
    """Return what a study needs of one file, or raise `StudyFileError`."""
    path = Path(path).expanduser()
    try:
        held = path.stat()
        if not (stat.S_ISREG(held.st_mode) or stat.S_ISDIR(held.st_mode)):
            raise StudyFileError(f"{path}: is no regular file")  # reading a pipe or a device might never end
        if held.st_size > MOST_BYTES:
            raise StudyFileError(f"{path.name}: {held.st_size:,} bytes are too many for a file of pytest-benchmark")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise StudyFileError(f"{path.name}: is no JSON ({error}): write it with pytest --benchmark-json=FILE") from None
    return _parsed(path.name, data)


def _labelled(files: Files) -> list[tuple[str, list[Path]]]:
    labelled: dict[str, list[Path]] = {}
    if isinstance(files, Mapping):
        for label, some in files.items():
            labelled[str(label)] = [Path(each) for each in paths(f"files[{label!r}]", some)]
    else:
        for text in paths("files", files):
            label, equals, rest = str(text).partition("=")
            if not equals or Path(text).exists() or not label.strip():
                label, rest = Path(text).stem, str(text)
            labelled.setdefault(label.strip(), []).append(Path(rest))
    if not any(labelled.values()):
        raise StudyArgumentError(
            "there are no files to compare: give those that pytest --benchmark-json=FILE has written")
    for label, held in labelled.items():
        if not held:
            raise StudyArgumentError(f"target {label!r} has no file")
    return list(labelled.items())


def _parsed(name: str, data: Any) -> BenchmarkFile:
    if not isinstance(data, dict) or not isinstance(cast("dict[str, Any]", data).get("benchmarks"), list):
        raise StudyFileError(f"{name}: is no file of pytest-benchmark: it has no list 'benchmarks'")
    whole = cast("dict[str, Any]", data)
    version = whole.get("version")
    if not isinstance(version, str) or version.partition(".")[0] not in VERSIONS:
        raise StudyFileError(f"{name}: is of pytest-benchmark {_shown(version)}; this KernelScope reads the files of "
                             f"versions {' and '.join(VERSIONS)}: run the benchmarks again with one of them")
    machine, commit = whole.get("machine_info"), whole.get("commit_info")
    commit = cast("dict[str, Any]", commit) if isinstance(commit, dict) else {}
    file = BenchmarkFile(name, _date(name, whole.get("datetime")), revision=_revision(commit),
                         machine=cast("dict[str, Any]", machine) if isinstance(machine, dict) else {})
    for number, benchmark in enumerate(cast("list[Any]", whole["benchmarks"])):
        _add(file, f"{name}: benchmark {number}", benchmark)
    return file


def _add(file: BenchmarkFile, place: str, benchmark: Any) -> None:
    if not isinstance(benchmark, dict):
        raise StudyFileError(f"{place} is no object")
    benchmark = cast("dict[str, Any]", benchmark)
    name, stats = benchmark.get("name"), benchmark.get("stats")
    if not isinstance(name, str) or not name or not isinstance(stats, dict):
        raise StudyFileError(f"{place} has no name or no stats")
    stats = cast("dict[str, Any]", stats)
    full = benchmark.get("fullname")
    full = full if isinstance(full, str) and full else name
    name = short_name(name.encode("utf-8", "backslashreplace").decode())
    # The same test name in two files of tests.
    name = name if name not in file.rounds else full
    if name in file.rounds:
        raise StudyFileError(f"{place}: {_shown(name)} is there twice")
    iterations = _number(place, "iterations", stats.get("iterations"))
    rounds = stats.get("data")
    if isinstance(rounds, list) and rounds:
        seconds = [_number(place, "data", one) for one in cast("list[Any]", rounds)]
    else:
        seconds = [_number(place, "median", stats.get("median"))]
        file.has_rounds = False
    if iterations != int(iterations):
        raise StudyFileError(f"{place}: its iterations {_shown(iterations)} are no whole number")
    if math.fsum(seconds) * iterations * 1e9 > _MOST_NS:
        raise StudyFileError(f"{place}: its rounds took {math.fsum(seconds) * iterations:.3g} seconds together, "
                             "which nobody has waited for")
    file.rounds[name] = (int(iterations), seconds)
    file.statements[name] = full


def _number(place: str, what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST_NS:
        raise StudyFileError(f"{place}: its {what} {_shown(value)} is no number above 0, or too large")
    return value


def _date(name: str, value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        date = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise StudyFileError(f"{name}: its datetime {_shown(value)} is no date") from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _revision(commit: Mapping[str, Any]) -> str | None:
    revision = commit.get("id")
    if not isinstance(revision, str) or revision == "unversioned":
        return None
    return revision + ("+changes" if commit.get("dirty") else "")


def _describe(report: TargetReport, files: Sequence[BenchmarkFile], cases: Sequence[str]) -> None:
    revisions = list(dict.fromkeys(each.revision for each in files))
    report.revision = revisions[0]
    if len(revisions) > 1:
        report.warnings.append(f"its files are of several commits: {', '.join(str(one) for one in revisions)}")
    python = {str(each.machine.get("python_version")) for each in files if each.machine.get("python_version")}
    report.versions = {"python": ", ".join(sorted(python))} if python else {}
    where = "its file" if len(files) == 1 else "its files"
    for case in cases:
        if not any(case in each.rounds for each in files):
            report.unavailable[case] = f"not in {where}: skipped, failed, or not run"


def _notes(files: Sequence[BenchmarkFile]) -> list[str]:
    notes = ["read from files of pytest-benchmark, which does not wait for the device after a launch"]
    if not all(each.has_rounds for each in files):
        notes.append("some files have no single rounds, only their median: write them with --benchmark-json=FILE or "
                     "--benchmark-save-data")
    machines = {(str(each.machine.get("node")), host_of(each)["processor"]) for each in files}
    if len(machines) > 1:
        notes.append("the files are of different machines: "
                     f"{', '.join(sorted(str(processor or node) for node, processor in machines))}")
    return notes


def _shown(value: Any) -> str:
    """A value of a file in a message."""
    try:
        return shorten(clean(repr(value)), 60)
    except ValueError:  # a whole number of thousands of digits
        return "of thousands of digits"
