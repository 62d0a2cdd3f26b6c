"""Cases that are callables, measured in this process: no other one has what they close over."""

from __future__ import annotations

import platform
import random
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from kernelscope.errors import StudyError
from kernelscope.recorder.session import Session
from kernelscope.studies.bench import timing
from kernelscope.studies.bench.main import Framework, find
from kernelscope.studies.bench.timing import CaseError, TimedCase, Unavailable, frozen_garbage, warm_up
from kernelscope.studies.cases import Case
from kernelscope.studies.progress import Progress
from kernelscope.studies.result import Measured
from kernelscope.studies.runner import LEAST_GENERATIONS, Plan, Stop, as_data
from kernelscope.studies.statistics import quiet_share
from kernelscope.views.base import clean, shorten

_NOISE_MS = 50
_CONFIGS = ("numba.core.config", "numba.cuda.core.config", "numba_cuda_mlir.numba_cuda.core.config")
_ADVICE = ("CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY")


def measure(plan: Plan, measured: Measured, on_progress: Progress, is_enough: Stop | None = None) -> None:
    """Measure cases in this process, in turn, as a benchmark process does.

    There are as many rounds as all processes of a study have together; each is of one batch of each case.

    Parameters
    ----------
    plan : Plan
        What to do.
    measured : Measured
        Where the results go; its first target is this process.
    on_progress : callable
        Called with the share that is done and a line of text.
    is_enough : callable, optional
        Given `measured` now and then, says whether it is.

    Raises
    ------
    StudyError
        There is no GPU, a recording is under way, or no case can be run.
    """
    if Session.active is not None:
        raise StudyError("a recording is under way, and what it costs would be measured as well: measure outside of "
                         "it, in a notebook in a cell of its own")
    begun_ns = time.perf_counter_ns()
    report = measured.targets[0]
    framework = _framework()
    report.framework, report.versions = framework.name, dict(framework.versions)
    report.versions.setdefault("python", platform.python_version())
    measured.is_dry_run = framework.is_dry_run
    measured.gpu = timing.gpu(framework.is_dry_run) or {}
    resolution_ns, read_ns = timing.clock()
    measured.host.update(clock_resolution_ns=resolution_ns, clock_read_ns=read_ns, noise=timing.noise(_NOISE_MS),
                         sees_waits=timing.counts_waits())
    try:
        with frozen_garbage(), _without_advice():
            prepared = _prepare(plan, measured, framework, on_progress)
            report.processes = 1
            _rounds(plan, measured, prepared, on_progress, is_enough, begun_ns)
    except KeyboardInterrupt:
        measured.ended = "interrupted"
        raise
    finally:
        measured.seconds = (time.perf_counter_ns() - begun_ns) / 1e9
        measured.host["quiet"] = quiet_share(measured)


def _prepare(plan: Plan, measured: Measured, framework: Framework,
             on_progress: Progress) -> list[tuple[TimedCase, int]]:
    """Warm up the cases and return those that can be run, with the loops of a batch."""
    report = measured.targets[0]
    prepared: list[tuple[TimedCase, int]] = []
    problem: Exception | None = None
    for case in plan.cases:
        on_progress(0.0, f"preparing {shorten(clean(case.name), 40)}")
        try:
            timed = TimedCase(as_data(case), framework.names(), framework.synchronize, case.function)
            timed.set_up()
            warm = warm_up(timed, plan.batch_ms)
        except (Unavailable, CaseError) as error:
            problem = problem or error
            text = " ".join(str(error).split())
            report.unavailable[case.name] = text if isinstance(error, Unavailable) else f"failed: {text}"
            continue
        if not warm.stable:
            report.warnings.append(f"{case.name!r} was not stable after its warm-up")
        prepared.append((timed, _loops(plan, case, warm.loops)))
    if not prepared:
        raise StudyError(f"none of the cases can be run: {problem}") from (problem and problem.__cause__)
    return prepared


def _rounds(plan: Plan, measured: Measured, prepared: list[tuple[TimedCase, int]], on_progress: Progress,
            is_enough: Stop | None,
            begun_ns: int) -> None:
    label = measured.targets[0].label
    chance = random.Random(plan.seed)
    rounds = plan.processes * plan.repeats
    started_ns = time.perf_counter_ns()
    for number in range(rounds):
        elapsed_s = (time.perf_counter_ns() - begun_ns) / 1e9
        if number and plan.limit_s is not None and elapsed_s > plan.limit_s:
            measured.ended = "time limit"
            return
        if (is_enough and number >= LEAST_GENERATIONS * plan.repeats and number % plan.repeats == 0
                and is_enough(measured)):
            measured.ended = "narrow enough"
            return
        left_s = (time.perf_counter_ns() - started_ns) / 1e9 / max(number, 1) * (rounds - number)
        left = f", {left_s:.0f} s left at most" if number else ""
        on_progress(number / rounds, f"round {number + 1} of {rounds}{left}")
        for timed, loops in chance.sample(prepared, len(prepared)):
            at_ns = time.perf_counter_ns() - begun_ns
            try:
                taken = timed.batch(loops)
            except (Unavailable, CaseError) as error:
                raise StudyError(f"{error}; it went well before, and what was measured is dropped") from error.__cause__
            measured.batches.append((label, timed.name, 0, number, len(measured.batches), at_ns, loops,
                                     max(1, taken.host_ns), *taken[1:]))


def _loops(plan: Plan, case: Case, found: int) -> int:
    return min(found if plan.loops is None else plan.loops[case.name], case.most_loops or 10**9)


def _framework() -> Framework:
    try:
        return find(None)
    except RuntimeError as error:
        raise StudyError(str(error)) from error


@contextmanager
def _without_advice() -> Generator[None]:
    """Disable the warnings about small grids and host arrays, which cost microseconds a launch."""
    configs = [sys.modules[name] for name in _CONFIGS if name in sys.modules]
    before = [(config, name, getattr(config, name)) for config in configs for name in _ADVICE if hasattr(config, name)]
    for config, name, _ in before:
        setattr(config, name, 0)
    try:
        yield
    finally:
        for config, name, value in before:
            setattr(config, name, value)
