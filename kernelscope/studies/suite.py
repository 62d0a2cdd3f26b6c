"""Runs numba-cuda's own benchmarks of launches in each target, and compares them as studies are."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelscope.errors import StudyError
from kernelscope.studies import benchmarks, environments, overhead
from kernelscope.studies import process as studies_process
from kernelscope.studies import runner as studies_runner
from kernelscope.studies.arguments import check_settings, paths
from kernelscope.studies.benchmarks import BenchmarkFile
from kernelscope.studies.benchmarks import read_benchmarks as read_benchmarks
from kernelscope.studies.environments import Workspace
from kernelscope.studies.measured import Measured, TargetReport
from kernelscope.studies.process import BenchProcess, close_all
from kernelscope.studies.runner import Member, Tell, showing
from kernelscope.studies.target import Target
from kernelscope.views.base import clean, shorten

if TYPE_CHECKING:
    from kernelscope.studies.result import StudyResult

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
    """A target that runs the benchmarks, and what it has written so far."""

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
    timeout_s: float = 600.0, progress: Tell | Literal[False] | None = None,
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
    from kernelscope.studies.result import StudyResult

    check_settings(keyword=keyword, processes=processes, max_time_s=max_time_s, timeout_s=timeout_s, repo=repo,
                   install=install, no_index=no_index, dry_run=dry_run, pin=pin, progress=progress)
    links = paths("find_links", find_links)
    overhead.refuse_simulator()
    wanted = overhead.targets_of(targets, str(repo))
    dry_run = overhead.is_dry_run() if dry_run is None else dry_run
    cores = studies_process.choose_cores()[:1] if pin else ()
    reports = [TargetReport(each.label, each.kind, studies_runner.homeless(str(each))) for each in wanted]
    measured = Measured(reports, [],
                        host={**studies_process.describe(cores), "pinned_to": list(cores) or None},
                        settings={"suite": keyword or "all", "processes": processes, "max_time_s": max_time_s,
                                  "install": install, "pin": pin, "timeout_s": timeout_s},
                        created=datetime.now(UTC).isoformat(timespec="seconds"))
    began = time.monotonic()
    runners: list[_Runner] = []
    try:
        with showing(progress) as tell, Workspace() as workspace:
            members = overhead.members_of(wanted, measured, workspace, tell, install=install, no_index=no_index,
                                        find_links=links, also=TOOLS)
            dry: dict[str, Any] = dict(studies_process.dry_run_fields()) if dry_run else {}
            runners += [_Runner(member) for member in members]
            _introduce(runners, measured, dry, timeout_s)
            _lay_out(runners, measured, workspace,
                     {"core": cores[0] if cores else None, "dryrun": None, "library": None, **dry})
            _run(runners, _options(keyword, max_time_s), processes, timeout_s, tell)
    except KeyboardInterrupt:
        _collect(measured, runners, began)
        measured.ended = "interrupted"
        raise overhead.StudyInterrupted(StudyResult(measured) if measured.batches else None) from None
    _collect(measured, runners, began)
    if not any(runner.files for runner in runners):
        raise StudyError("; ".join(f"{each.label!r}: {each.error or 'no benchmark ran'}" for each in measured.targets))
    return StudyResult(measured)


def _introduce(runners: Sequence[_Runner], measured: Measured, dry: Mapping[str, Any], timeout_s: float) -> None:
    """Ask each target what it is, and whether it has what runs benchmarks."""
    for runner in runners:
        member, report = runner.member, runner.member.report
        if report.error is not None:
            continue
        try:
            answer = _hello(member, dry, timeout_s)
            wrong = studies_runner._wrong_module(answer.get("module"), member.expected)
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
            report.error = studies_runner.homeless(str(error))
            continue
        runner.own = Path(found["folder"]) if found.get("folder") else None
        report.framework = str(answer.get("framework") or "")
        report.versions = {str(name): str(version) for name, version in dict(answer.get("versions") or {}).items()}
        measured.is_dry_run = measured.is_dry_run or answer.get("is_dry_run") is True
        if not measured.gpu and isinstance(answer.get("gpu"), dict):
            measured.gpu = dict(answer["gpu"])


def _hello(member: Member, dry: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    process = BenchProcess(member.command, member.environ, member.cwd)
    try:
        return process.ask({"do": "hello", "pin": None, "framework": member.framework, **dry}, timeout_s)
    finally:
        close_all([process])


def _lay_out(runners: Sequence[_Runner], measured: Measured, workspace: Workspace, settings: Mapping[str, Any]) -> None:
    """Put the same benchmarks into a folder of each target."""
    whose, source = next(((repr(runner.report.label), runner.own) for runner in runners if runner.own is not None),
                         ("this environment", _of_this_environment()))
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


def _of_this_environment() -> Path | None:
    """Return the folder of the benchmarks that are installed here: a checkout that is used as it is has no tests."""
    found = importlib.util.find_spec("numba_cuda")
    folders = [Path(each, SUITE) for each in (found.submodule_search_locations or () if found else ())]
    return next((folder for folder in folders if folder.is_dir()), None)


def _options(keyword: str | None, max_time_s: float) -> list[str]:
    options = ["-q", "-W", "ignore", "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider",
               "--benchmark-disable-gc", "--benchmark-warmup=on", f"--benchmark-max-time={max_time_s:g}",
               "--benchmark-timer=time.perf_counter", "--benchmark-json=benchmarks.json"]
    return [*options, "-k", keyword] if keyword else options


def _run(runners: Sequence[_Runner], options: Sequence[str], processes: int, timeout_s: float, tell: Tell) -> None:
    """Let the targets take turns, each time beginning with another one."""
    began = time.monotonic()
    for number in range(processes):
        able = [runner for runner in runners if runner.report.error is None]
        turn = number % max(len(able), 1)
        for place, runner in enumerate(able[turn:] + able[:turn]):
            done = (number + place / len(able)) / processes
            left = (time.monotonic() - began) * (1 - done) / done if done else None
            tell(done, f"run {number + 1} of {processes}, {clean(runner.report.label)}"
                       + (f", about {left:.0f} s left" if left is not None else ""))
            try:
                runner.files.append(_one_run(runner, options, timeout_s))
                runner.report.processes += 1
            except StudyError as error:
                runner.report.error = studies_runner.homeless(str(error))


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
            name = benchmarks.short_name(benchmark.rpartition("::")[2])
            why = " ".join(str(why).split()).removeprefix("Skipped: ")
            runner.report.unavailable[name] = shorten(clean(f"{how}: {why}"), 300)
    if not written.exists():
        why = next(iter(outcome["failed"].values()), None) or next(iter(outcome["skipped"].values()), None)
        raise StudyError(f"no benchmark ran: {shorten(clean(why), 300) if why else environments.last_words(finished)}")
    return benchmarks.read_file(written)


def _collect(measured: Measured, runners: Sequence[_Runner], began: float) -> None:
    """Make cases and batches of what the targets have written."""
    every = [each for runner in runners for each in runner.files]
    first = min((each.created for each in every if each.created is not None), default=None)
    measured.cases = benchmarks.case_reports(every)
    measured.batches.clear()
    order = sorted(((number, place, runner, each) for place, runner in enumerate(runners)
                    for number, each in enumerate(runner.files)),
                   key=lambda one: (benchmarks.since(one[3], first), one[:2]))
    for number, _, runner, each in order:
        measured.batches += benchmarks.batch_rows(each, runner.report.label, number, len(measured.batches),
                                                  benchmarks.since(each, first))
    measured.host["load_after"] = studies_process.load()
    measured.seconds = round(time.monotonic() - began, 1)
