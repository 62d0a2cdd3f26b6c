"""Anatomy of a launch: what each part of it costs, in several targets, and where one spends more than the baseline."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.studies import host, overhead
from kernelscope.studies.anatomy_parts import LAUNCH, Dissected, PartReport
from kernelscope.studies.anatomy_result import AnatomyResult
from kernelscope.studies.arguments import check_settings, paths
from kernelscope.studies.case import Case
from kernelscope.studies.cases import select
from kernelscope.studies.measured import Measured, TargetReport
from kernelscope.studies.plan import Member, Plan
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError
from kernelscope.studies.progress import Tell, showing
from kernelscope.studies.running import Run, Running, homeless
from kernelscope.studies.target import Target
from kernelscope.studies.workspace import Workspace

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
                cores=host.choose_cores() if pin else (), together=host.together(len(wanted)),
                hello=overhead.hello_of(chosen, dry_run),
                batch_ms=SHORTER * 0.5)
    measured.host.update(host.describe(plan.cores))
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
