"""Compare runs of numba-cuda's own benchmarks of launches, and files of pytest-benchmark, as studies are."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from kernelscope.errors import StudyArgumentError, StudyError, StudyFileError
from kernelscope.studies import environments, overhead
from kernelscope.studies import files as studies_files
from kernelscope.studies import process as studies_process
from kernelscope.studies.environments import Workspace
from kernelscope.studies.process import BenchProcess, close_all
from kernelscope.studies.progress import Progress
from kernelscope.studies.result import BatchRow, CaseReport, Measured, StudyResult, TargetReport
from kernelscope.studies.runner import Member, introduce, wrong_module
from kernelscope.studies.target import Target, check_paths, check_settings, shown
from kernelscope.views.base import clean, shorten

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
    """The contents of one file of pytest-benchmark.

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
    return StudyResult(measured_of({label: [read_file(path) for path in paths] for label, paths in _labelled(files)}))


def measured_of(files: Mapping[str, Sequence[BenchmarkFile]]) -> Measured:
    """Return what files hold, by target, as a study has it."""
    measured = Measured([TargetReport(label, "file", ", ".join(each.path for each in found), processes=len(found))
                         for label, found in files.items()], [])
    first = _enter(measured, files)
    measured.created = first.isoformat(timespec="seconds") if first else ""
    for report, found in zip(measured.targets, files.values(), strict=True):
        _describe(report, found, [case.name for case in measured.cases])
    every = [each for found in files.values() for each in found]
    if every:
        measured.host = host_of(every[0])
    measured.notes += _notes(every)
    return measured


def _enter(measured: Measured, files: Mapping[str, Sequence[BenchmarkFile]]) -> datetime | None:
    """Make cases and batches of files by target; return when the first was written, if that is known."""
    every = [each for found in files.values() for each in found]
    first = min((each.created for each in every if each.created is not None), default=None)
    measured.cases = case_reports(every)
    measured.batches.clear()
    # In the order in which they were written, where that is known: it is the place of a batch in the study.
    order = sorted(((label, number, each) for label, found in files.items() for number, each in enumerate(found)),
                   key=lambda one: (since(one[2], first), one[1]))
    for label, number, each in order:
        measured.batches += batch_rows(each, label, number, len(measured.batches), since(each, first))
    return first


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
    """Yield the batches of one file, in `kernelscope.studies.result.BATCH`'s columns."""
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
    def parse(content: bytes) -> BenchmarkFile:
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise StudyFileError(f"is no JSON ({error}): write it with pytest --benchmark-json=FILE") from None
        return _parsed(Path(path).name, data)

    return studies_files.read(path, parse, MOST_BYTES)


def _labelled(files: Files) -> list[tuple[str, list[Path]]]:
    labelled: dict[str, list[Path]] = {}
    if isinstance(files, Mapping):
        for label, some in files.items():
            labelled[str(label)] = [Path(each) for each in check_paths(f"files[{label!r}]", some)]
    else:
        for text in check_paths("files", files):
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
        raise StudyFileError("is no file of pytest-benchmark: it has no list 'benchmarks'")
    whole = cast("dict[str, Any]", data)
    version = whole.get("version")
    if not isinstance(version, str) or version.partition(".")[0] not in VERSIONS:
        raise StudyFileError(f"is of pytest-benchmark {shown(version)}; this KernelScope reads the files of "
                             f"versions {' and '.join(VERSIONS)}: run the benchmarks again with one of them")
    machine, commit = whole.get("machine_info"), whole.get("commit_info")
    commit = cast("dict[str, Any]", commit) if isinstance(commit, dict) else {}
    file = BenchmarkFile(name, _date(whole.get("datetime")), revision=_revision(commit),
                         machine=cast("dict[str, Any]", machine) if isinstance(machine, dict) else {})
    for number, benchmark in enumerate(cast("list[Any]", whole["benchmarks"])):
        _add(file, f"benchmark {number}", benchmark)
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
        raise StudyFileError(f"{place}: {shown(name)} is there twice")
    iterations = _number(place, "iterations", stats.get("iterations"))
    rounds = stats.get("data")
    if isinstance(rounds, list) and rounds:
        seconds = [_number(place, "data", one) for one in cast("list[Any]", rounds)]
    else:
        seconds = [_number(place, "median", stats.get("median"))]
        file.has_rounds = False
    if iterations != int(iterations):
        raise StudyFileError(f"{place}: its iterations {shown(iterations)} are no whole number")
    if math.fsum(seconds) * iterations * 1e9 > _MOST_NS:
        raise StudyFileError(f"{place}: its rounds took {math.fsum(seconds) * iterations:.3g} seconds together, "
                             "which nobody has waited for")
    file.rounds[name] = (int(iterations), seconds)
    file.statements[name] = full


def _number(place: str, what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST_NS:
        raise StudyFileError(f"{place}: its {what} {shown(value)} is no number above 0, or too large")
    return value


def _date(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        date = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise StudyFileError(f"its datetime {shown(value)} is no date") from None
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


# numba-cuda's own benchmarks, run in each target.

#: What runs the benchmarks; environments that the study makes get it.
TOOLS = ("pytest>=8", "pytest-benchmark>=4")
#: Where numba-cuda keeps its benchmarks, in its package `numba_cuda`.
SUITE = "numba/cuda/tests/benchmarks"

_CONFTEST = Path(__file__).with_name("suite_conftest.py")
# What a target's interpreter says of itself, without an import of the framework.
_LOOK = """
import importlib.util, json, os, sys
if sys.path and sys.path[0] == '':
    del sys.path[0]
found = importlib.util.find_spec('numba_cuda')
folders = [os.path.join(one, *sys.argv[1].split('/')) for one in (found.submodule_search_locations if found else [])]
print(json.dumps({
    'tools': [name for name in ('pytest', 'pytest_benchmark') if importlib.util.find_spec(name)],
    'folder': next((one for one in folders if os.path.isdir(one)), None),
}))
"""
# The same benchmarks, for a target whose `cuda` is numba-cuda-mlir's.
_FOR_MLIR = (
    (re.compile(r"\bfrom numba import cuda\b"), "from numba_cuda_mlir import cuda"),
    (re.compile(r"\bfrom numba\.cuda import\b"), "from numba_cuda_mlir.cuda import"),
    (re.compile(r"\bnumba\.cuda\."), "numba_cuda_mlir.numba_cuda."),
    (re.compile(r"\bconfig\.ENABLE_CUDASIM\b"), "False"),  # it has no simulator
)


@dataclass
class _Runner:
    """A target that runs the benchmarks, and its files so far."""

    member: Member
    folder: Path = Path()
    own: Path | None = None
    files: list[BenchmarkFile] = field(default_factory=list[BenchmarkFile])

    @property
    def report(self) -> TargetReport:
        return self.member.report


def suite(
    targets: str | Target | Iterable[str | Target] | Mapping[str, str] = ("current",), keyword: str | None = None, *,
    processes: int = 8, max_time_s: float = 0.25, find_links: str | Path | Iterable[str | Path] = (),
    no_index: bool = False,
    install: bool = True, repo: str | Path = ".", dry_run: bool | None = None, pin: bool = True,
    timeout_s: float = 600.0, progress: Progress | Literal[False] | None = None,
) -> StudyResult:
    """Run numba-cuda's benchmarks of launches (``numba.cuda.tests.benchmarks``) in each target, and compare them.

    Each run is a process, and the targets take turns: the n-th runs of all targets are compared with each other. All
    targets run the same benchmarks, those of the first that has any, else of this environment, as another version's may
    time something else under the same name: once a round was a hundred launches. For numba-cuda-mlir, which has none,
    their imports are changed.

    Parameters
    ----------
    targets
        As `launch_overhead` takes them; the first is the baseline. Environments that are made get `TOOLS`; others must
        have them.
    keyword : str, optional
        As pytest's ``-k``: which benchmarks, such as ``one_arg``.
    processes : int
        Runs of each target.
    max_time_s : float
        How long each benchmark takes in each run, about.
    find_links, no_index, install, repo, dry_run, pin, timeout_s, progress
        As in `launch_overhead`; `timeout_s` is for one run.

    Returns
    -------
    StudyResult
        Its cases are the benchmarks. What was skipped, such as torch's and CuPy's where they are not installed, is said
        in each target's report.

    Raises
    ------
    StudyError
        If a target or setting is wrong, or if the baseline ran nothing.
    StudyInterrupted
        At a Ctrl-C, with what was finished; see `launch_overhead`.
    """
    check_settings(keyword=keyword, processes=processes, max_time_s=max_time_s, timeout_s=timeout_s, repo=repo,
                   install=install, no_index=no_index, dry_run=dry_run, pin=pin, progress=progress)
    wanted, links = overhead.asked_for(targets, repo, find_links)
    dry_run = overhead.is_dry_run() if dry_run is None else dry_run
    measured = overhead.begun(wanted, (), pin=pin, settings={
        "suite": keyword or "all", "processes": processes, "max_time_s": max_time_s, "install": install, "pin": pin,
        "timeout_s": timeout_s})
    cores = overhead.cores_of(measured)[:1]
    measured.host["pinned_to"] = list(cores) or None
    began = time.monotonic()
    runners: list[_Runner] = []
    with overhead.measuring(wanted, measured, lambda: StudyResult(measured), progress, install=install,
                            no_index=no_index, find_links=links, also=TOOLS) as (members, on_progress, workspace):
        dry: dict[str, Any] = dict(studies_process.dry_run_fields()) if dry_run else {}
        runners += [_Runner(member) for member in members]
        try:
            _introduce(runners, measured, dry, timeout_s)
            _lay_out(runners, measured, workspace,
                     {"core": cores[0] if cores else None, "dryrun": None, "library": None, **dry})
            options = ["-q", "-W", "ignore", "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider",
                       "--benchmark-disable-gc", "--benchmark-warmup=on", f"--benchmark-max-time={max_time_s:g}",
                       "--benchmark-timer=time.perf_counter", "--benchmark-json=benchmarks.json"]
            _run(runners, [*options, "-k", keyword] if keyword else options, processes, timeout_s, on_progress)
        finally:
            _enter(measured, {runner.report.label: runner.files for runner in runners})
            measured.seconds = round(time.monotonic() - began, 1)
    if not any(runner.files for runner in runners):
        raise StudyError("; ".join(f"{each.label!r}: {each.error or 'no benchmark ran'}" for each in measured.targets))
    return StudyResult(measured)


def _introduce(runners: Sequence[_Runner], measured: Measured, dry: Mapping[str, Any], timeout_s: float) -> None:
    """Fill in the targets' versions, and check that they have the tools that run benchmarks."""
    for runner in runners:
        member, report = runner.member, runner.member.report
        if report.error is not None:
            continue
        try:
            answer = _hello(member, dry, timeout_s)
            wrong = wrong_module(answer.get("module"), member.expected)
            if wrong:
                raise StudyError(wrong)
            looked = environments.run([member.command[0], "-c", _LOOK, SUITE], cwd=member.cwd, environ=member.environ,
                                      timeout_s=timeout_s)
            found = json.loads(looked.output.splitlines()[-1]) if looked.status == 0 else {}
            missing = {"pytest", "pytest_benchmark"} - set(found.get("tools", ()))
            if missing:
                raise StudyError(f"it has no {' and no '.join(sorted(missing)).replace('_', '-')}: install them there, "
                                 f"{Path(member.command[0]).name} -m pip install pytest pytest-benchmark")
        except (StudyError, ValueError, IndexError) as error:
            report.error = environments.shortened(str(error))
            continue
        runner.own = Path(found["folder"]) if found.get("folder") else None
        introduce(report, measured, answer)


def _hello(member: Member, dry: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    started: list[BenchProcess] = []
    try:
        process = BenchProcess(member.command, member.environ, member.cwd, started)
        return process.ask({"do": "hello", "pin": None, "framework": member.framework, **dry}, timeout_s)
    finally:
        close_all(started)


def _lay_out(runners: Sequence[_Runner], measured: Measured, workspace: Workspace, settings: Mapping[str, Any]) -> None:
    """Copy the same benchmarks to a folder of each target."""
    # The folder of the benchmarks that are installed here: a checkout that is used as it is has no tests.
    found = importlib.util.find_spec("numba_cuda")
    folders = [Path(each, SUITE) for each in (found.submodule_search_locations or () if found else ())]
    whose, source = next(((repr(runner.report.label), runner.own) for runner in runners if runner.own is not None),
                         ("this environment", next((folder for folder in folders if folder.is_dir()), None)))
    if source is None:
        for runner in runners:
            runner.report.error = runner.report.error or f"it has no benchmarks: no folder {SUITE} in numba_cuda"
        return
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(source.glob("test_*.py"))}
    known = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:12]
    measured.settings["benchmarks"] = {"of": whose, "sha256": known, "files": sorted(texts)}
    measured.notes.append(f"all targets ran the benchmarks of {whose}; pytest-benchmark does not wait for the device "
                          "after a launch")
    for runner in runners:
        if runner.report.error is not None:
            continue
        runner.folder = workspace.folder("suite", runner.report.label)
        for name, text in texts.items():
            if runner.report.framework == "numba-cuda-mlir":
                for pattern, other in _FOR_MLIR:
                    text = pattern.sub(other, text)
            (runner.folder / name).write_text(text, encoding="utf-8")
        (runner.folder / "conftest.py").write_text(_CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
        # So that no settings of a folder above are taken.
        (runner.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (runner.folder / "suite.json").write_text(json.dumps(dict(settings)), encoding="utf-8")


def _run(runners: Sequence[_Runner], options: Sequence[str], processes: int, timeout_s: float,
         on_progress: Progress) -> None:
    """Run the benchmarks in the targets in turn, each round beginning with another one."""
    began = time.monotonic()
    for number in range(processes):
        able = [runner for runner in runners if runner.report.error is None]
        turn = number % max(len(able), 1)
        for place, runner in enumerate(able[turn:] + able[:turn]):
            done = (number + place / len(able)) / processes
            left = (time.monotonic() - began) * (1 - done) / done if done else None
            on_progress(done, f"run {number + 1} of {processes}, {clean(runner.report.label)}"
                       + (f", about {left:.0f} s left" if left is not None else ""))
            try:
                runner.files.append(_one_run(runner, options, timeout_s))
                runner.report.processes += 1
            except StudyError as error:
                runner.report.error = environments.shortened(str(error))


def _one_run(runner: _Runner, options: Sequence[str], timeout_s: float) -> BenchmarkFile:
    written = runner.folder / "benchmarks.json"
    written.unlink(missing_ok=True)
    (runner.folder / "outcome.json").unlink(missing_ok=True)
    # Only the plugin that is asked for: others cost time in each test, or fail on one another.
    # Those of a pytest that this runs in are for that one: beside xdist's, pytest-benchmark measures nothing.
    environ = {name: value for name, value in runner.member.environ.items() if not name.startswith("PYTEST_")}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    finished = environments.run([runner.member.command[0], "-m", "pytest", *options], cwd=runner.folder,
                                environ=environ, timeout_s=timeout_s)
    try:
        outcome = json.loads((runner.folder / "outcome.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome = {"skipped": {}, "failed": {}}
    for how, found in outcome.items():
        for benchmark, why in found.items():
            name = short_name(benchmark.rpartition("::")[2])
            why = " ".join(str(why).split()).removeprefix("Skipped: ")
            runner.report.unavailable[name] = shorten(clean(f"{how}: {why}"), 300)
    if not written.exists():
        why = next(iter(outcome["failed"].values()), None) or next(iter(outcome["skipped"].values()), None)
        raise StudyError(f"no benchmark ran: {shorten(clean(why), 300) if why else environments.error_line(finished)}")
    return read_file(written)

