"""Launch-overhead studies: from targets and cases to a result."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from kernelscope import dryrun
from kernelscope.dryrun.switch import read_switch
from kernelscope.errors import StudyArgumentError, StudyError
from kernelscope.studies import process
from kernelscope.studies.cases import Case, select
from kernelscope.studies.environments import Workspace, add_version_warnings, prepare, shortened
from kernelscope.studies.progress import Progress, showing_progress
from kernelscope.studies.result import CaseReport, Measured, StudyResult, TargetReport
from kernelscope.studies.runner import HALF_WIDTH, PROCESSES, REPEATS, Member, Narrow, Plan, Run, parse_loops
from kernelscope.studies.target import Target, check_paths, check_settings, parse_targets, shown

if TYPE_CHECKING:
    from kernelscope.studies.breakdown import AnatomyResult


Cases = str | Case | Callable[[], Any] | Iterable[str | Case | Callable[[], Any]]
Targets = str | Path | Target | Iterable[str | Path | Target] | Mapping[str, str]


class StudyInterrupted(KeyboardInterrupt):
    """Raised when a study is interrupted: a `KeyboardInterrupt` with the result so far.

    Attributes
    ----------
    result : StudyResult, AnatomyResult or None
        The result of what was measured; None if nothing was.
    """

    def __init__(self, result: StudyResult | AnatomyResult | None) -> None:
        super().__init__("the study was interrupted; the attribute result has what was measured" if result else
                         "the study was interrupted before anything was measured")
        self.result = result


def launch_overhead(
    targets: Targets = ("current",), cases: Cases | None = None, *,
    args: str | int | Iterable[int] | None = None, loops: int | str | Sequence[int] | None = None,
    repeats: int = REPEATS, processes: int = PROCESSES, half_width: float | None = HALF_WIDTH,
    limit_s: float | None = None, find_links: str | Path | Iterable[str | Path] = (), no_index: bool = False,
    install: bool = True, repo: str | Path = ".", dry_run: bool | None = None, pin: bool = True,
    seed: int | None = None, timeout_s: float = 120.0, progress: Progress | Literal[False] | None = None,
) -> StudyResult:
    """Measure the host time of a launch, in one or several targets.

    Several new processes of each target are started, because two processes of the same version differ more than the
    batches of one process do. The n-th processes of all targets run side by side and are timed in turn, one at a time.

    Parameters
    ----------
    targets : str, Path, Target, iterable of them, or mapping of labels to texts
        Each as `parse_target` reads it; the first is the baseline. ``current`` is this environment.
    cases : str, Case, callable, or iterable of them, optional
        Names of built-in cases or of their groups, or cases of your own, as `case` makes them. A callable can be
        measured in this process only, whose one target is ``current``; then all cases are measured here.
    args : str or int or iterable of int, optional
        Numbers of arguments of the empty kernel: ``"0-4"``, which is meant where no cases are named.
    loops : int, str or sequence of int, optional
        Launches in a batch: one number, one for each case, or a text such as ``100000,...,10000``, from the first case
        to the last. By default as many as take 1 ms in one of the baseline's first processes.
    repeats : int
        Batches of each case in a process: many short ones, as most of those are spared by what else runs. Where the
        machine is not quiet, up to half as many more.
    processes : int
        Processes of each target, at most.
    half_width : float or None
        After 8 processes the study stops as soon as every interval of a difference is at most this share to both sides,
        of the greater of the two medians that are compared; None: it does not.
    limit_s : float, optional
        Seconds of measuring after which it stops; environments are made before.
    find_links : str, Path or iterable of them
        Folders with wheels, for pip.
    no_index : bool
        Whether pip uses `find_links` alone.
    install : bool
        Whether a checkout or ref is installed into a new environment; else its source is used as it is.
    repo : str or Path
        The repository that ``git:REF`` means.
    dry_run : bool, optional
        Whether the driver is the null driver; by default as in this process.
    pin : bool
        Whether processes are put on one processor core, the same at a time for all, while they are timed.
    seed : int, optional
        Of the order of batches; by default another one each time. The result has it.
    timeout_s : float
        How long one answer of a process may take before it is ended.
    progress : callable or False, optional
        Called with the share that is done and a line of text; False: nothing is shown.

    Returns
    -------
    StudyResult
        Also where a target failed: its report says why.

    Raises
    ------
    StudyError
        If a target, case or setting is wrong, or if the baseline fails before one process of it is measured.
    StudyInterrupted
        At a Ctrl-C: a `KeyboardInterrupt` whose attribute ``result`` has what was measured. Processes, worktrees and
        unfinished environments are gone.
    """
    check_settings(repeats=repeats, processes=processes, half_width=half_width, limit_s=limit_s, timeout_s=timeout_s,
                   seed=seed, repo=repo, install=install, no_index=no_index, dry_run=dry_run, pin=pin,
                   progress=progress)
    wanted, links = asked_for(targets, repo, find_links)
    chosen = select(args, () if cases is None else cast("str | Iterable[str | Case | Callable[[], Any]]", cases))
    by_name = parse_loops(loops, [case.name for case in chosen])
    is_live = any(case.is_live for case in chosen)
    if is_live:
        _refuse_other_processes(wanted, chosen)
    seed = random_seed() if seed is None else seed
    measured = begun(wanted, chosen, pin=pin and not is_live, settings={
        "loops": by_name, "repeats": repeats, "processes": processes, "half_width": half_width, "limit_s": limit_s,
        "install": install, "pin": pin, "seed": seed, "timeout_s": timeout_s})
    measured.is_live = is_live
    dry_run = is_dry_run() if dry_run is None else dry_run
    plan = Plan(tuple(chosen), by_name, repeats, processes, limit_s=limit_s, timeout_s=timeout_s, seed=seed,
                cores=cores_of(measured), together=process.together(len(wanted)),
                hello=hello_of(chosen, dry_run and not is_live))
    with measuring(() if is_live else wanted, measured, lambda: StudyResult(measured), progress, install=install,
                   no_index=no_index, find_links=links) as (members, on_progress, _):
        if is_live:
            from kernelscope.studies.live import measure

            measure(plan, measured, on_progress, Narrow(half_width))
        else:
            if not dry_run:
                for member in members:  # the argument overrides the environment of this process
                    member.environ.pop("KERNELSCOPE_DRYRUN", None)
            Run(plan, members, measured, on_progress, Narrow(half_width)).run()
    return StudyResult(measured)


def against(*refs: str, repo: str | Path = ".", **options: Any) -> StudyResult:
    """Measure the host time of a launch in several git refs of one repository; the first is the baseline.

    Parameters
    ----------
    *refs : str
        Branches, tags or commits, such as ``HEAD~`` and ``HEAD``; two at least.
    repo : str or Path
        The repository's folder.
    **options
        As `launch_overhead` takes them.

    Returns
    -------
    StudyResult
        As from `launch_overhead`, which also documents the exceptions.
    """
    if len(refs) < 2:
        raise StudyArgumentError(
            f"a comparison needs two git refs or more, such as 'HEAD~', 'HEAD'; there are {len(refs)}")
    check_settings(repo=repo)
    targets: list[Target] = []
    for place, ref in enumerate(refs):
        if not isinstance(ref, str) or not ref or ref.startswith("-"):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StudyArgumentError(f"{shown(ref)} is no git ref")
        again = refs[:place].count(ref)
        targets.append(Target(f"{ref} ({again + 1})" if again else ref, "ref", ref, str(repo)))
    return launch_overhead(targets, **options)


# What all functions that measure begin and end with.

def asked_for(targets: Targets, repo: str | Path, find_links: str | Path | Iterable[str | Path],
              ) -> tuple[tuple[Target, ...], list[str]]:
    """Return the targets and the folders of wheels that were asked for, or refuse them."""
    links = check_paths("find_links", find_links)
    refuse_simulator()
    return targets_of(targets, str(repo)), links


def random_seed() -> int:
    """Return a seed for a study that was given none."""
    return random.SystemRandom().randrange(2**31)


def begun(targets: Sequence[Target], cases: Sequence[Case], *, pin: bool, settings: Mapping[str, Any]) -> Measured:
    """Return what is known of a study before anything is measured; `cores_of` it are those to be timed on."""
    cores = process.choose_cores() if pin else ()
    reports = [TargetReport(each.label, each.kind, shortened(str(each))) for each in targets]
    return Measured(reports, [report_of(case) for case in cases],
                    created=datetime.now(UTC).isoformat(timespec="seconds"),
                    host={**process.describe(cores), "pinned_to": list(cores) or None},
                    settings={"targets": [each.source for each in reports], "cases": [case.name for case in cases],
                              **settings})


def cores_of(measured: Measured) -> tuple[int, ...]:
    """Return the processor cores that the processes of a study are put on; none where they are not."""
    return tuple(measured.host["pinned_to"] or ())


@contextmanager
def measuring(targets: Sequence[Target], measured: Measured, result: Callable[[], StudyResult | AnatomyResult],
              progress: Progress | Literal[False] | None, **how: Any,
              ) -> Generator[tuple[list[Member], Progress, Workspace]]:
    """Yield the prepared targets, what is told the progress, and the folder of what is made, which then is gone.

    A Ctrl-C becomes a `StudyInterrupted` with what `result` returns, if something was measured. `how` is passed to
    `prepare`.
    """
    try:
        with showing_progress(progress) as on_progress, Workspace() as workspace:
            yield _members(targets, measured, workspace, on_progress, **how), on_progress, workspace
    except KeyboardInterrupt:
        measured.ended = "interrupted"
        _done(measured)
        raise StudyInterrupted(result() if measured.batches else None) from None
    _done(measured)


def _done(measured: Measured) -> None:
    measured.host["load_after"] = process.load()
    add_version_warnings(measured.targets)


def _members(targets: Sequence[Target], measured: Measured, workspace: Workspace, on_progress: Progress,
             **how: Any) -> list[Member]:
    """Make the targets' environments.

    One that cannot be made is an error in its target's report; for the baseline it is raised.
    """
    members: list[Member] = []
    for place, target in enumerate(targets):
        def say(text: str, label: str = target.label) -> None:
            on_progress(0.0, f"{label}: {text}")

        say("making its environment")
        try:
            prepared = prepare(target, workspace, progress=say, **how)
        except StudyError as error:
            if not members:
                raise StudyError(f"the baseline cannot be prepared: {error}") from error
            measured.targets[place].error = shortened(str(error)).removeprefix(f"target {target.label!r}: ")
            members.append(Member(measured.targets[place]))
        else:
            measured.targets[place] = prepared.report
            members.append(Member(prepared.report, process.command(prepared.python), prepared.environ, prepared.cwd,
                                  prepared.framework, prepared.expected))
    return members


def targets_of(targets: Targets, repo: str) -> tuple[Target, ...]:
    """Return the targets that `launch_overhead` was given, parsed."""
    if isinstance(targets, Mapping):
        for label, text in cast("Mapping[object, object]", targets).items():
            if not (isinstance(label, str) and isinstance(text, str | Path)):
                raise StudyArgumentError(f"targets: {shown(label)}: {shown(text)} is no label with a target's text")
        targets = [f"{label}={text}" for label, text in targets.items()]
    found = parse_targets(targets, repo)
    for target in found:
        if target.kind == "ref" and not Path(target.repo or ".").expanduser().is_dir():
            raise StudyArgumentError(
                f"target {target.label!r} is a ref of the repository {target.repo!r}, and there is no "
                "such folder")
    return found


def _refuse_other_processes(targets: Sequence[Target], cases: Sequence[Case]) -> None:
    name = next(case.name for case in cases if case.is_live)
    other = next((target for target in targets if target.kind != "current"), None)
    if other is not None:
        raise StudyArgumentError(
            f"case {name!r} is a callable, which only this process can run, and {other.label!r} is "
            "another one: give the case as text, studies.case('k[1, 1](a)', setup='...')")
    if len(targets) > 1:
        raise StudyArgumentError(
            f"case {name!r} is a callable, which is measured in this process: it can have one target, "
            f"'current', and there are {len(targets)}")


def refuse_simulator() -> None:
    """The processes would refuse it too, after environments were made."""
    config = sys.modules.get("numba.core.config")
    value = os.environ.get("NUMBA_ENABLE_CUDASIM", "")
    if value.strip() not in ("", "0") or getattr(config, "ENABLE_CUDASIM", 0):
        raise StudyError("the CUDA simulator is on (NUMBA_ENABLE_CUDASIM): its launches say nothing about those of "
                         "CUDA. Unset it, and for the host's side without a GPU use a dry run (dry_run=True, --dryrun)")


def is_dry_run() -> bool:
    """Whether this process has, or is to have, the null driver."""
    return dryrun.is_enabled() or read_switch(os.environ)


def hello_of(cases: Sequence[Case], dry_run: bool) -> dict[str, Any]:
    """Return what the first request to each process says besides the core."""
    fields: dict[str, Any] = dict(process.dry_run_fields()) if dry_run else {}
    if any(case.group == "recording" for case in cases):
        fields["kernelscope"] = process.package_folder()
    return fields


def report_of(case: Case) -> CaseReport:
    """Return a case as it is measured."""
    return CaseReport(case.name, case.statement or case.name, case.setup, case.args, case.group, case.against,
                      case.before, case.after)

