"""The measurement: generations of fresh processes, one of each target, timed in turn.

Two processes of one version differ by more than the batches within one do: where their code and data lie in memory is
another one each time. So a study starts many, takes short batches in each, and compares the processes of one generation
with each other: they run side by side, each idle while another is timed, and what drifts hits them alike.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelscope.errors import StudyError
from kernelscope.renderers.base import clean, shorten
from kernelscope.studies import schedule
from kernelscope.studies.measured import Measured
from kernelscope.studies.plan import LEAST_GENERATIONS, Member, Plan, as_data
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError, ask_all, close_all, kill_all
from kernelscope.studies.quietness import Quietness
from kernelscope.studies.samples import quiet_share

#: What a batch's answer has, in the order of `BATCH`, and the least that each may be.
_TIMES = {"host_ns": 1, "sync_ns": 0, "waited_ns": 0, "reference_ns": 0}
#: So many times as many rounds as are asked for are made at most, until as many are quiet.
MOST_ROUNDS = 1.5
_NOISE_MS = 20
# Until the first generation has shown it: how much of a generation passes before its first batch.
_START_UP_SHARE = 0.7

Tell = Callable[[float, str], None]
#: A generation: the process of each target that has not failed.
Running = dict[Member, BenchProcess]
Stop = Callable[[Measured], bool]


class Run:
    """A study that is under way; `measured` has at any time what was measured so far.

    Parameters
    ----------
    plan : Plan
        What to do.
    members : list of Member
        The targets; the first is the baseline. Those whose report has an error take no part.
    measured : Measured
        Where the results go.
    tell : callable
        Told the share that is done, and a line of text.
    is_enough : callable, optional
        Given `measured` after a generation, says whether it is.
    """

    def __init__(self, plan: Plan, members: list[Member], measured: Measured, tell: Tell,
                 is_enough: Stop | None = None) -> None:
        self.measured = measured
        self._plan = plan
        self._members = members
        self._tell = tell
        self._is_enough = is_enough
        self._chance = random.Random(plan.seed)
        self._loops: dict[str, int] = {}
        self._noise: list[float] = []
        self._quietness = Quietness(plan.cores)
        self._ready: list[Running] = []
        self._started: list[BenchProcess] = []
        self._unstable: Counter[tuple[str, str]] = Counter()
        self._place = 0
        self._begun_ns = time.perf_counter_ns()
        self._generation = 0
        self._durations: list[float] = []
        self._start_up_share = _START_UP_SHARE

    def run(self) -> None:
        """Measure until it is enough.

        Raises
        ------
        StudyError
            The baseline failed before one process of it was measured, or no case can be run in any target.
        """
        self._begun_ns = time.perf_counter_ns()
        self.measured.ended = "all processes"
        try:
            while self._generation < self._plan.processes:
                begun = self._elapsed_s()
                self._one_generation()
                self._generation += 1
                self._durations.append(self._elapsed_s() - begun)
                if self._members[0].report.error:
                    self._without_baseline()
                    break
                if self._is_over():
                    break
        except KeyboardInterrupt:
            self.measured.ended = "interrupted"
            raise
        finally:
            kill_all(self._started)
            self._finish()
        if not self.measured.batches:
            raise StudyError(self._nothing_measured())

    def _one_generation(self) -> None:
        begun = self._elapsed_s()
        starts = not self._ready
        if starts:
            self._start()
        running = self._ready.pop(0)
        self._listen(running)
        started = self._elapsed_s()
        if running and not self._members[0].report.error:
            self._rounds(running, self._start_up_share if starts else 0.0)
        if starts:
            spent = self._elapsed_s() - begun
            self._start_up_share = (started - begun) / spent if spent > 0 else _START_UP_SHARE
        for member in running:
            member.report.processes += 1
        close_all(running.values())

    def _start(self) -> None:
        """Start the processes of the next generations, side by side, up to where they can be timed."""
        for _ in range(min(self._plan.together, self._plan.processes - self._generation)):
            self._ready.append(running := {})
            for member in self._members:
                if not member.report.error:
                    try:
                        self._started.append(BenchProcess(member.command, member.environ, member.cwd))
                        running[member] = self._started[-1]
                    except ProcessError as error:
                        self._drop(member, error)
        self._say(0, "starting " + _counted(sum(map(len, self._ready)), "process", "processes"))
        self._hello()
        self._prepare()

    def _hello(self) -> None:
        plan = self._plan
        # A process goes to a core when it is timed first: until then they may all start and compile side by side.
        request = {"do": "hello", "pin": list(plan.cores) or None, **plan.hello}
        requests = {member: {**request, "framework": member.framework} for member in self._members}
        for member, _, answer in self._ask(*((running, requests) for running in self._ready)):
            if isinstance(answer, RefusedError):
                self._drop(member, answer)
                continue
            problem = _wrong_module(answer.get("module"), member.expected)
            if problem:
                self._drop(member, ProcessError(problem))
            elif not member.report.framework:
                self._introduce(member, answer)

    def _introduce(self, member: Member, answer: dict[str, Any]) -> None:
        report, measured = member.report, self.measured
        report.framework = str(answer.get("framework") or "")
        versions: Any = answer.get("versions")
        if isinstance(versions, dict):
            report.versions = {str(name): str(version) for name, version in versions.items()}
        if answer.get("python"):
            report.versions.setdefault("python", str(answer["python"]))
        measured.is_dry_run = measured.is_dry_run or answer.get("is_dry_run") is True
        if not measured.gpu and isinstance(answer.get("gpu"), dict):
            measured.gpu = dict(answer["gpu"])
        for name in ("pinned_to", "clock_resolution_ns", "clock_read_ns", "sees_waits"):
            if answer.get(name) is not None:
                measured.host.setdefault(name, answer[name])
        if answer.get("pin_error"):
            problem = f"the processes were not put on one processor core: {clean(answer['pin_error'])}"
            if problem not in measured.notes:
                measured.notes.append(problem)

    def _prepare(self) -> None:
        """Compile and warm up each case, in all processes side by side: this is not timed.

        In each generation the cases come in an order of its own. On an H100 the same launches differed by 5 %, in all
        processes alike, by which case of a process they were: no interval could know.
        """
        plan = self._plan
        orders = [self._chance.sample(plan.cases, len(plan.cases)) for _ in self._ready]
        found: dict[str, list[tuple[int, int]]] = {}
        for place in range(len(plan.cases)):
            self._say(self._start_up_share * (place + 1) / (len(plan.cases) + 1),
                      f"preparing {shorten(clean(orders[0][place].name), 40)}")
            asks: list[tuple[Running, dict[Member, dict[str, Any]]]] = []
            prepared: dict[BenchProcess, str] = {}
            for running, order in zip(self._ready, orders, strict=True):
                case = order[place]
                request = {"do": "prepare", "case": as_data(case), "batch_ms": plan.batch_ms}
                asks.append((running, {member: request for member in self._members
                                       if case.name not in member.report.unavailable}))
                prepared.update(dict.fromkeys(running.values(), case.name))
            for member, process, answer in self._ask(*asks):
                if member.report.error:
                    continue  # another one's answer has ended it
                name = prepared[process]
                if isinstance(answer, RefusedError):
                    self._without_case(member, name, answer)
                    continue
                try:
                    loops = process.number(answer, "loops", 1)
                except ProcessError as error:
                    self._drop(member, error)
                    continue
                found.setdefault(name, []).append((self._members.index(member), -loops))
                self._unstable[member.report.label, name] += answer.get("stable") is False
        for case in plan.cases:
            if case.name not in self._loops and case.name in found:
                # The most that one process of the baseline has found: others may have come to a slow core.
                most = -min(found[case.name])[1] if plan.loops is None else plan.loops[case.name]
                self._loops[case.name] = min(most, case.most_loops or 10**9)

    def _listen(self, running: Running) -> None:
        """Measure which share of the time others take, and how fast a core is at best, in one process after another."""
        for asked in list(running):
            request = {"do": "noise", "ms": _NOISE_MS, **self._quietness.request(asked.report.label, seeks=False)}
            for member, process, answer in self._ask((running, {asked: request})):
                try:
                    if isinstance(answer, dict):
                        self._noise.append(process.number(answer, "lost", 0.0, float))
                        self._quietness.learn(member.report.label, process.number(answer, "reference_ns", 1))
                except ProcessError as error:
                    self._drop(member, error, running)

    def _rounds(self, running: Running, begin: float) -> None:
        """Take rounds until as many are quiet as are asked for; `begin` is the share of the generation that is done."""
        plan = self._plan
        members = {member.report.label: member for member in running}
        rounds = schedule.generation(list(members), [case.name for case in plan.cases],
                                     round(MOST_ROUNDS * plan.repeats), self._chance)
        quiet = 0
        for number, turns in enumerate(rounds):
            if (number and self._is_late()) or quiet == plan.repeats:
                break
            self._say(begin + (1 - begin) * max(number / len(rounds), quiet / plan.repeats),
                      f"round {quiet + 1} of {plan.repeats}")
            self._quietness.next_round()
            for turn in turns:
                member = members[turn.target]
                if member in running and turn.case not in member.report.unavailable:
                    self._turn(running, member, turn.case, number)
            quiet += self._quietness.is_quiet
            if self._members[0].report.error:
                break

    def _turn(self, running: Running, member: Member, case: str, number: int) -> None:
        """Measure one case in one process, once, in the round `number`."""
        begun = time.perf_counter_ns() - self._begun_ns
        loops = self._loops[case]
        taken = self._batch(running, member, case, loops)
        if taken:
            self.measured.batches.append((member.report.label, case, self._generation, number, self._place, begun,
                                          loops, *taken))
            self._place += 1

    def _batch(self, running: Running, asked: Member, case: str, loops: int) -> tuple[int, int, int, int] | None:
        """Time one batch; return its four times in nanoseconds, in `BATCH`'s order, or None where it failed."""
        label = asked.report.label
        request = {"do": "batch", "case": case, "loops": loops, **self._quietness.request(label)}
        for member, process, answer in self._ask((running, {asked: request})):
            if isinstance(answer, RefusedError):
                self._without_case(member, case, answer, running)
                continue
            try:
                host_ns, sync_ns, waited_ns, reference_ns = (
                    process.number(answer, name, least) for name, least in _TIMES.items())
            except ProcessError as error:
                self._drop(member, error, running)
            else:
                self._quietness.took(label, answer.get("core"), reference_ns)
                return host_ns, sync_ns, waited_ns, reference_ns
        return None

    def _ask(self, *asks: tuple[Running, Mapping[Member, dict[str, Any]]],
             ) -> list[tuple[Member, BenchProcess, dict[str, Any] | RefusedError]]:
        """Ask side by side, in generations each of its targets; one whose process fails is dropped, without answer."""
        owners = {running[member]: member for running, requests in asks for member in requests if member in running}
        requested = {running[member]: request for running, requests in asks for member, request in requests.items()
                     if member in running}
        answers: list[tuple[Member, BenchProcess, dict[str, Any] | RefusedError]] = []
        for process, answer in ask_all(requested, self._plan.timeout_s).items():
            if isinstance(answer, ProcessError):
                self._drop(owners[process], answer, *(running for running, _ in asks))
            else:
                answers.append((owners[process], process, answer))
        return [each for each in answers if not each[0].report.error]

    def _drop(self, member: Member, error: StudyError, *generations: Running) -> None:
        """Take a target out of the study; what was measured of it stays."""
        if member.report.error:
            return  # its process of another generation has said so
        done = member.report.processes
        where = f"process {done + 1}: " if done else ""
        member.report.error = homeless(f"{where}{error}")
        for running in (*self._ready, *generations):
            process = running.pop(member, None)
            if process is not None:
                process.kill()

    def _without_case(self, member: Member, case: str, error: RefusedError, *generations: Running) -> None:
        text = str(error) if error.kind == "unavailable" else f"failed: {error}"
        member.report.unavailable[case] = homeless(text)
        if all(each.name in member.report.unavailable for each in self._plan.cases):
            why = next(iter(member.report.unavailable.values()))
            self._drop(member, StudyError(f"none of the cases can be run; the first {why}"
                                          if why.startswith("failed") else
                                          f"none of the cases can be run: {why}"), *generations)

    def _without_baseline(self) -> None:
        baseline = self._members[0].report
        self.measured.ended = "failed"
        if not baseline.processes:
            # Minutes of measuring the others would compare them with nothing.
            raise StudyError(f"the baseline {baseline.label!r} failed: {baseline.error}")
        self.measured.notes.append(
            f"the baseline {baseline.label!r} failed after {_counted(baseline.processes, 'process', 'processes')}; "
            "the study ended there")

    def _is_over(self) -> bool:
        plan, measured = self._plan, self.measured
        if plan.limit_s is not None and self._elapsed_s() + statistics.fmean(self._durations) > plan.limit_s:
            measured.ended = "time limit" if self._generation < plan.processes else measured.ended
            return True
        if self._is_enough and LEAST_GENERATIONS <= self._generation < plan.processes and self._is_enough(measured):
            measured.ended = "narrow enough"
            return True
        return all(member.report.error for member in self._members)

    def _is_late(self) -> bool:
        late = self._plan.limit_s is not None and self._elapsed_s() > self._plan.limit_s
        if late:
            self.measured.ended = "time limit"
        return late

    def _finish(self) -> None:
        measured, plan = self.measured, self._plan
        measured.seconds = self._elapsed_s()
        measured.host["noise"] = statistics.median(self._noise) if self._noise else None
        measured.host.update(quiet=quiet_share(measured), moves=self._quietness.moves)
        for member in self._members:
            for case in plan.cases:
                often = self._unstable[member.report.label, case.name]
                if often > member.report.processes / 2:
                    member.report.warnings.append(
                        f"{case.name!r} was not stable after its warm-up in {_counted(often, 'process', 'processes')}")
        for case in plan.cases:
            reasons = [member.report.unavailable.get(case.name) for member in self._members if not member.report.error]
            if len(reasons) > 1 and all(reasons):
                measured.notes.append(f"{case.name!r} can be run in no target: {reasons[0]}")

    def _nothing_measured(self) -> str:
        errors = [f"{member.report.label!r}: {member.report.error}" for member in self._members if member.report.error]
        return "nothing could be measured; " + ("; ".join(errors) or "no target is left")

    def _elapsed_s(self) -> float:
        return (time.perf_counter_ns() - self._begun_ns) / 1e9

    def _say(self, within: float, text: str) -> None:
        """Tell of the progress: `within` is the share of this generation that is done."""
        plan = self._plan
        done = (self._generation + within) / plan.processes
        left = ""
        if self._durations:
            seconds = statistics.fmean(self._durations) * plan.processes * (1 - done)
            if plan.limit_s is not None:
                seconds = max(0.0, min(seconds, plan.limit_s - self._elapsed_s()))
                done = max(done, min(1.0, self._elapsed_s() / plan.limit_s))
            left = f", {_duration(seconds)} left at most"
        self._tell(min(done, 1.0), f"process {self._generation + 1} of {plan.processes}: {text}{left}")


def _wrong_module(module: object, expected: Path | None) -> str | None:
    """Say what is wrong where the framework does not come from the folder that it must come from."""
    if expected is None or not isinstance(module, str):
        return None
    if Path(module).resolve().is_relative_to(expected.resolve()):
        return None
    return (f"it would measure another one: its framework comes from {clean(module)}, not from {clean(expected)}; look "
            "for a .pth file, a sitecustomize or an editable installation that comes first")


def homeless(text: str) -> str:
    """Return text with the user's home folder as ``~``: results are passed on to others."""
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
