"""The measurement: what is planned, and generations of fresh processes, timed in turn."""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from kernelscope.errors import StudyArgumentError, StudyError
from kernelscope.studies.cases import Case
from kernelscope.studies.cores import CpuNoise
from kernelscope.studies.environments import shortened
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError, ask_all, close_all, kill_all
from kernelscope.studies.progress import Progress
from kernelscope.studies.result import Measured, TargetReport
from kernelscope.studies.statistics import judge, quiet_share
from kernelscope.studies.target import shown
from kernelscope.units import counted
from kernelscope.views.base import clean, shorten

#: How long a batch is to take where the loops are not given, and how many a process makes of each case. On a busy
#: machine the scheduler takes a process off its core for some milliseconds at a time: most of short batches are spared,
#: and so is the median of many. (With others taking half of a core's time, two processes of one version differed by
#: 12 %, one standard deviation, in 5 batches of 10 ms, and by 2 % in 25 of 2 ms; on an idle one by 1 to 2 % in both. In
#: 60 of 1 ms, which take as long as 25 of 2 ms, by 1.5 % where those differed by 2.2 %.)
BATCH_MS, REPEATS = 1.0, 60

#: How many processes each target has, at most. On a machine that others keep busy, three targets and five cases had
#: intervals of 0.8 to 1.8 % to both sides after 20 of them.
PROCESSES = 20
#: A study ends early when all intervals reach this share to each side. At 1.2 % a quiet host needs 13 processes, and a
#: difference of 2 % is found as surely as with 20; at 1.5 % simulated studies missed what they should hold too often.
HALF_WIDTH = 0.012
#: It has at least so many then: the critical value of fewer is Student's, divided by the number of differences.
LEAST_GENERATIONS = 8


@dataclass(frozen=True)
class Plan:
    """The plan of a study: what to measure, and how.

    Attributes
    ----------
    cases : tuple of Case
        In the order of the tables.
    loops : dict of str to int, or None
        How many loops a batch of each case has; None for as many as take `batch_ms` in one of the baseline's first
        processes.
    repeats : int
        Batches of each case in a process.
    processes : int
        Processes of each target, at most.
    limit_s : float or None
        When to stop, in seconds of measuring.
    timeout_s : float
        How long one answer of a process may take.
    seed : int
        Of the order of batches.
    cores : tuple of int
        The processor cores for processes while they are timed, on one of which all are; none where they are not put on
        any.
    together : int
        Of how many generations the processes are started side by side.
    hello : dict
        What else the first request to each process says: ``dryrun`` and ``library`` as `start.dry_run_fields` returns
        them, ``kernelscope``, the folder of the package for cases that use it.
    batch_ms : float
        How long a batch is to take, where the loops are not given.
    """

    cases: tuple[Case, ...]
    loops: dict[str, int] | None = None
    repeats: int = REPEATS
    processes: int = PROCESSES
    limit_s: float | None = None
    timeout_s: float = 120.0
    seed: int = 0
    cores: tuple[int, ...] = ()
    together: int = 1
    hello: dict[str, Any] = field(default_factory=dict[str, Any])
    batch_ms: float = BATCH_MS


@dataclass(eq=False)
class Member:
    """A target of a study: how its processes are started, and its report.

    Attributes
    ----------
    report : TargetReport
        With its error, once it has failed.
    command, environ, cwd
        As `BenchProcess` takes them.
    framework : str or None
        ``numba-cuda`` or ``numba-cuda-mlir``, where that is known; else its processes find out.
    expected : Path or None
        The folder that its framework must come from.
    """

    report: TargetReport
    command: list[str] = field(default_factory=list[str])
    environ: dict[str, str] = field(default_factory=dict[str, str])
    cwd: Path = Path()
    framework: str | None = None
    expected: Path | None = None


def as_data(case: Case) -> dict[str, Any]:
    """Return a case's fields as JSON takes them, without its callable."""
    return {each.name: getattr(case, each.name) for each in dataclasses.fields(case) if each.name != "function"}


# In which order batches run, and of how many loops they are: pure functions.

_FORMS = "give one number (10000), one for each case (10000,10000,5000), or the first and the last (100000,...,10000)"
_MOST_LOOPS = 10**9


class Turn(NamedTuple):
    """The round, the case and the target of one batch."""

    round: int
    case: str
    target: str


def generation(targets: Sequence[str], cases: Sequence[str], repeats: int, chance: random.Random) -> list[list[Turn]]:
    """Return the rounds of one generation of processes, each a list of turns.

    In each round the cases come in an order of its own, so that none is always after the same one. For each case all
    targets follow one another, so that what is compared is close in time, and from round to round their order is
    rotated (A B C, C A B, B C A), so that each comes first as often as the others. Where the rotation starts is by
    chance, for each case anew.

    Parameters
    ----------
    targets, cases : sequence of str
        Labels and names.
    repeats : int
        How many rounds.
    chance : random.Random
        Where chance comes from.
    """
    starts = {case: chance.randrange(max(1, len(targets))) for case in cases}
    rounds: list[list[Turn]] = []
    for number in range(repeats):
        order = chance.sample(list(cases), len(cases))
        rounds.append([Turn(number, case, target)
                       for case in order for target in rotated(targets, starts[case] - number)])
    return rounds


def rotated(values: Sequence[str], places: int) -> list[str]:
    """Return the values from one of them on, and then those before it."""
    if not values:
        return []
    places %= len(values)
    return [*values[places:], *values[:places]]


def parse_loops(loops: int | str | Sequence[int] | None, cases: Sequence[str]) -> dict[str, int] | None:
    """Return how many loops a batch of each case has.

    Parameters
    ----------
    loops : int, str, sequence of int or None
        One number for all cases; one for each, in their order; or a text such as ``100000,...,10000``: from the first
        to the last, spread over the cases by equal factors. None: the first process finds out.
    cases : sequence of str
        Names, in order.

    Raises
    ------
    StudyArgumentError
        It is none of these.
    """
    if loops is None:
        return None
    given = cast("object", loops)
    if isinstance(given, bool) or not isinstance(given, Iterable | int):
        raise StudyArgumentError(f"loops={shown(loops)}: {_FORMS}")
    texts = [str(each).strip() for each in (loops.split(",") if isinstance(loops, str) else
                                            [loops] if isinstance(loops, int) else loops)]
    gaps = [place for place, word in enumerate(texts) if word in ("...", "…")]
    if gaps:
        if gaps != [1] or len(texts) != 3:
            raise StudyArgumentError(f"loops={loops!r}: {_FORMS}")
        numbers = _spread(_number(texts[0], loops), _number(texts[2], loops), len(cases))
    else:
        numbers = [_number(word, loops) for word in texts]
        if len(numbers) == 1:
            numbers *= len(cases)
    if len(numbers) != len(cases):
        raise StudyArgumentError(f"loops={loops!r} are {len(numbers)} numbers for {len(cases)} cases: {_FORMS}")
    return dict(zip(cases, numbers, strict=True))


def _number(word: str, loops: object) -> int:
    plain = word.replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 20) or not 1 <= int(plain) <= _MOST_LOOPS:
        raise StudyArgumentError(f"loops={loops!r}: {word!r} is no number from 1 to {_MOST_LOOPS:,}; {_FORMS}")
    return int(plain)


def _spread(first: int, last: int, count: int) -> list[int]:
    if count < 2:
        return [first] * count
    factor = (last / first) ** (1 / (count - 1))
    return [first, *(max(1, round(first * factor**place)) for place in range(1, count - 1)), last]


# When a study has measured enough.

class Narrow:
    """A stopping rule: all intervals of differences, or else those of medians, are narrow enough.

    It looks at the intervals' widths and never at where they are: a study that stops when it has found what it looked
    for finds too much.

    Parameters
    ----------
    half_width : float or None
        How far an interval may reach to one side, as `Judgement.widest` has it; None: never enough.
    """

    def __init__(self, half_width: float | None) -> None:
        self._half_width = half_width

    def __call__(self, measured: Measured) -> bool:
        """Return whether it is enough."""
        if self._half_width is None:
            return False
        # Those of a target that failed will not become narrower.
        living = [report.label for report in measured.targets if not report.error]
        return judge(measured).widest(living) <= self._half_width


# The measurement: generations of fresh processes, one of each target, timed in turn.
#
# Two processes of one version differ by more than the batches within one do: where their code and data lie in
# memory is another one each time. So a study starts many, takes short batches in each, and compares the processes
# of one generation with each other: they run side by side, each idle while another is timed, and what drifts hits
# them alike.

#: What a batch's answer has, in the order of `BATCH`, and the least that each may be.
_TIMES = {"host_ns": 1, "sync_ns": 0, "waited_ns": 0, "reference_ns": 0}
#: So many times as many rounds as are asked for are made at most, until as many are quiet.
MOST_ROUNDS = 1.5
_NOISE_MS = 20
# Until the first generation has shown it: how much of a generation passes before its first batch.
_START_UP_SHARE = 0.7


#: A generation: the process of each target that has not failed.
Running = dict[Member, BenchProcess]
Stop = Callable[[Measured], bool]


class Run:
    """A running study; `measured` has at any time what was measured so far.

    Parameters
    ----------
    plan : Plan
        What to do.
    members : list of Member
        The targets; the first is the baseline. Those whose report has an error take no part.
    measured : Measured
        Where the results go.
    on_progress : callable
        Called with the share that is done and a line of text.
    is_enough : callable, optional
        Given `measured` after a generation, says whether it is.
    """

    def __init__(self, plan: Plan, members: list[Member], measured: Measured, on_progress: Progress,
                 is_enough: Stop | None = None) -> None:
        self.measured = measured
        self._plan = plan
        self._members = members
        self._on_progress = on_progress
        self._is_enough = is_enough
        self._chance = random.Random(plan.seed)
        self._loops: dict[str, int] = {}
        self._noise: list[float] = []
        self._cpu_noise = CpuNoise(plan.cores)
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
            errors = [f"{each.report.label!r}: {each.report.error}" for each in self._members if each.report.error]
            raise StudyError("nothing could be measured; " + ("; ".join(errors) or "no target is left"))

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
                        running[member] = BenchProcess(member.command, member.environ, member.cwd, self._started)
                    except ProcessError as error:
                        self._drop(member, error)
        self._say(0, "starting " + counted(sum(map(len, self._ready)), "process", "processes"))
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
            problem = wrong_module(answer.get("module"), member.expected)
            if problem:
                self._drop(member, ProcessError(problem))
            elif not member.report.framework:
                introduce(member.report, self.measured, answer)

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
            request = {"do": "noise", "ms": _NOISE_MS, **self._cpu_noise.request(asked.report.label, seeks=False)}
            for member, process, answer in self._ask((running, {asked: request})):
                try:
                    if isinstance(answer, dict):
                        self._noise.append(process.number(answer, "lost", 0.0, float))
                        self._cpu_noise.learn(member.report.label, process.number(answer, "reference_ns", 1))
                except ProcessError as error:
                    self._drop(member, error, running)

    def _rounds(self, running: Running, begin: float) -> None:
        """Take rounds until as many are quiet as are asked for; `begin` is the share of the generation that is done."""
        plan = self._plan
        members = {member.report.label: member for member in running}
        rounds = generation(list(members), [case.name for case in plan.cases],
                                     round(MOST_ROUNDS * plan.repeats), self._chance)
        quiet = 0
        for number, turns in enumerate(rounds):
            if (number and self._is_late()) or quiet == plan.repeats:
                break
            self._say(begin + (1 - begin) * max(number / len(rounds), quiet / plan.repeats),
                      f"round {quiet + 1} of {plan.repeats}")
            self._cpu_noise.next_round()
            for turn in turns:
                member = members[turn.target]
                if member in running and turn.case not in member.report.unavailable:
                    self._turn(running, member, turn.case, number)
            quiet += self._cpu_noise.is_quiet
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
        request = {"do": "batch", "case": case, "loops": loops, **self._cpu_noise.request(label)}
        for member, process, answer in self._ask((running, {asked: request})):
            if isinstance(answer, RefusedError):
                self._without_case(member, case, answer, running)
                continue
            try:
                host_ns, sync_ns, waited_ns, reference_ns = process.numbers(answer, _TIMES)
            except ProcessError as error:
                self._drop(member, error, running)
            else:
                self._cpu_noise.took(label, answer.get("core"), reference_ns)
                return host_ns, sync_ns, waited_ns, reference_ns
        return None

    def _ask(self, *asks: tuple[Running, Mapping[Member, dict[str, Any]]],
             ) -> list[tuple[Member, BenchProcess, dict[str, Any] | RefusedError]]:
        """Send the requests side by side and return the answers; targets whose process fails are dropped."""
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
        member.report.error = shortened(f"{where}{error}")
        for running in (*self._ready, *generations):
            process = running.pop(member, None)
            if process is not None:
                process.kill()

    def _without_case(self, member: Member, case: str, error: RefusedError, *generations: Running) -> None:
        text = str(error) if error.kind == "unavailable" else f"failed: {error}"
        member.report.unavailable[case] = shortened(text)
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
            f"the baseline {baseline.label!r} failed after {counted(baseline.processes, 'process', 'processes')}; "
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
        measured.host.update(quiet=quiet_share(measured), moves=self._cpu_noise.moves)
        for member in self._members:
            for case in plan.cases:
                often = self._unstable[member.report.label, case.name]
                if often > member.report.processes / 2:
                    member.report.warnings.append(
                        f"{case.name!r} was not stable after its warm-up in {counted(often, 'process', 'processes')}")
        for case in plan.cases:
            reasons = [member.report.unavailable.get(case.name) for member in self._members if not member.report.error]
            if len(reasons) > 1 and all(reasons):
                measured.notes.append(f"{case.name!r} can be run in no target: {reasons[0]}")

    def _elapsed_s(self) -> float:
        return (time.perf_counter_ns() - self._begun_ns) / 1e9

    def _say(self, within: float, text: str) -> None:
        """Report the progress: `within` is the share of this generation that is done."""
        plan = self._plan
        done = (self._generation + within) / plan.processes
        left = ""
        if self._durations:
            seconds = statistics.fmean(self._durations) * plan.processes * (1 - done)
            if plan.limit_s is not None:
                seconds = max(0.0, min(seconds, plan.limit_s - self._elapsed_s()))
                done = max(done, min(1.0, self._elapsed_s() / plan.limit_s))
            duration = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
            left = f", {duration} left at most"
        self._on_progress(min(done, 1.0), f"process {self._generation + 1} of {plan.processes}: {text}{left}")


def wrong_module(module: object, expected: Path | None) -> str | None:
    """Return an error message if the framework was not imported from the expected folder, else an empty text."""
    if expected is None or not isinstance(module, str):
        return None
    if Path(module).resolve().is_relative_to(expected.resolve()):
        return None
    return (f"it would measure another one: its framework comes from {clean(module)}, not from {clean(expected)}; look "
            "for a .pth file, a sitecustomize or an editable installation that comes first")


def introduce(report: TargetReport, measured: Measured, answer: Mapping[str, Any]) -> None:
    """Take from an answer to a hello what the target, its GPU and its clock are."""
    report.framework = str(answer.get("framework") or "")
    versions: Any = answer.get("versions")
    if isinstance(versions, dict):
        report.versions = {str(name): str(version) for name, version in cast("dict[Any, Any]", versions).items()}
    if answer.get("python"):
        report.versions.setdefault("python", str(answer["python"]))
    measured.is_dry_run = measured.is_dry_run or answer.get("is_dry_run") is True
    if not measured.gpu and isinstance(answer.get("gpu"), dict):
        measured.gpu = dict(answer["gpu"])
    for name in ("clock_resolution_ns", "clock_read_ns", "sees_waits"):
        if answer.get(name) is not None:
            measured.host.setdefault(name, answer[name])
    if answer.get("pin_error"):
        measured.host["pinned_to"] = None
        problem = f"the processes were not put on one processor core: {clean(answer['pin_error'])}"
        if problem not in measured.notes:
            measured.notes.append(problem)
