"""`calibrate` measures the overhead of recording a launch on this machine, on real launches, and stores it.

Recording with each detail and not recording alternate in one process, in a new random order in each round; only batches
of the same round are compared. Each round has two batches without recording, which should show no difference.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from kernelscope.errors import CalibrationError, StudyError
from kernelscope.intervals import Values, median_interval
from kernelscope.recorder import overhead
from kernelscope.recorder.overhead import Calibration, Cost, Interval, Tail, measuring, store
from kernelscope.schema import DETAILS
from kernelscope.studies import process as studies_process
from kernelscope.studies.bench import main as bench_main
from kernelscope.studies.bench import timing
from kernelscope.studies.bench.main import Bench
from kernelscope.studies.bench.timing import TimedCase, freeze_garbage
from kernelscope.studies.cores import CpuNoise
from kernelscope.studies.overhead import is_dry_run, random_seed, refuse_simulator
from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError, kill_all
from kernelscope.studies.progress import Progress, showing_progress
from kernelscope.studies.target import check_settings

#: Device arrays that the two kernels take.
ARGUMENTS = (0, 4)
#: Launches that are timed together in a batch, and as many that are timed one by one.
LAUNCHES = 300
#: How long is measured by default, in seconds; starting, warming up and counting take some more.
SECONDS = 20.0
#: Rounds there are at least, however long they take; and quiet ones, for the others to be left out.
LEAST_ROUNDS = 12
_MOST_ROUNDS = 400
_QUANTILE = 0.99
_RESAMPLES = 400
_TIMEOUT_S = 120.0
_LABEL = "calibration"
# Started with -P: a module in the current folder takes the place of none that is measured.
_COMMAND = "from kernelscope.studies.calibration import main; import sys; main(*map(int, sys.argv[1:]))"


class Mode(NamedTuple):
    """How the launches of a batch are recorded.

    Attributes
    ----------
    detail : str or None
        ``launch`` or ``phases``; None where they are not recorded.
    again : bool
        Whether it is the second of the two batches without a recorder.
    """

    detail: str | None
    again: bool = False


class Batch(NamedTuple):
    """The times of one batch, in nanoseconds.

    Attributes
    ----------
    launch_ns : float
        The mean of the launches that were timed together.
    singles : sequence of int
        The launches that were timed one by one.
    """

    launch_ns: float
    singles: Sequence[int]


#: What asks a process, and returns its answer: `BenchProcess.ask`.
Ask = Callable[[Mapping[str, Any], float], dict[str, Any]]
#: The batches of one round, by number of arguments and mode.
Round = dict[tuple[int, Mode], Batch]

_UNRECORDED, _UNRECORDED_AGAIN = Mode(None), Mode(None, True)


def calibrate(*, seconds: float = SECONDS, dry_run: bool | None = None, pin: bool = True, seed: int | None = None,
              save: bool = True, path: Path | None = None,
              progress: Progress | Literal[False] | None = None) -> tuple[Calibration, ...]:
    """Measure the overhead of recording a launch on this machine, and store it for later recordings.

    Launches of numba-cuda are measured with each detail, of a kernel without arguments and of one with 4 device
    arrays. Later recordings with the same Python, GPU and versions report this overhead, in processes that have not
    yet ended a recording.

    Parameters
    ----------
    seconds : float
        How long to measure; it takes some seconds more to start and to end.
    dry_run : bool, optional
        Whether to measure on the dry run; by default where this process has it or is to have it, or there is no GPU.
    pin : bool
        Whether to measure on one processor core at a time, at quiet moments.
    seed : int, optional
        Of the order; by default another one each time.
    save : bool
        Whether to store it.
    path : Path, optional
        Where, if not in `kernelscope.calibration.calibration_file`.
    progress : callable or False, optional
        Called with the share that is done and a line of text; False: nothing is shown.

    Returns
    -------
    tuple of Calibration
        One for each detail.

    Raises
    ------
    CalibrationError
        It cannot be measured or stored, or another calibration is under way.
    """
    check_settings(seconds=seconds, seed=seed, dry_run=dry_run, pin=pin, progress=progress)
    refuse_simulator()
    seed = random_seed() if seed is None else seed
    with measuring(path), showing_progress(progress) as on_progress:
        on_progress(0.0, "starting")
        cores = studies_process.choose_cores() if pin else ()
        found = _measured(seconds, dry_run, cores, random.Random(seed), on_progress)
    if save:
        store(found, path)
    return found


def measure_rounds(ask: Ask, hello: Mapping[str, Any], seconds: float, order: random.Random,
                   on_progress: Progress, cores: Sequence[int] = (), clock: Callable[[], float] = time.monotonic,
                   ) -> tuple[list[Round], bool]:
    """Measure rounds until the time is over, and return them, the quiet ones if there are enough of those.

    Parameters
    ----------
    ask : callable
        Asks the process that measures the batches.
    hello : mapping
        Its answer to ``hello``.
    seconds : float
        How long; at least `LEAST_ROUNDS` are measured.
    order : random.Random
        For the order of the batches.
    on_progress : callable
        Called with the share that is done and a line of text.
    cores : sequence of int
        What the process may be put on.
    clock : callable
        Seconds.

    Returns
    -------
    rounds : list of dict
        The batches of each.
    quiet : bool
        Whether they are the quiet ones.
    """
    cpu_noise = CpuNoise(cores)
    cpu_noise.learn(_LABEL, int(hello["best_ns"]))
    modes = [_UNRECORDED, _UNRECORDED_AGAIN, *map(Mode, DETAILS)]
    turns = [(arguments, mode) for arguments in ARGUMENTS for mode in modes]
    for arguments, mode in turns:  # what a first batch takes, compiling and importing, is no measurement
        on_progress(0.0, f"warming up: {_named(arguments, mode)}")
        _batch(ask, cpu_noise, arguments, mode)
    begun = last = clock()
    rounds: list[tuple[Round, bool]] = []
    while len(rounds) < _MOST_ROUNDS:
        cpu_noise.next_round()
        made: Round = {}
        for arguments, mode in order.sample(turns, len(turns)):
            on_progress(min((clock() - begun) / seconds, 1.0), f"round {len(rounds) + 1}: {_named(arguments, mode)}")
            made[arguments, mode] = _batch(ask, cpu_noise, arguments, mode)
        rounds.append((made, cpu_noise.is_quiet))
        now = clock()
        if len(rounds) >= LEAST_ROUNDS and now - begun + (now - last) > seconds:
            break
        last = now
    quiet = [made for made, is_quiet in rounds if is_quiet]
    return (quiet, True) if len(quiet) >= LEAST_ROUNDS else ([made for made, _ in rounds], False)


def cost(rounds: Sequence[Round], arguments: int, mode: Mode) -> Cost:
    """Return the overhead that recording in one mode adds to launches with `arguments` arguments.

    Parameters
    ----------
    rounds : sequence of Round
        At least one.
    arguments : int
        Which launches.
    mode : Mode
        With a recorder.
    """
    plain, again, recorded = ([made[arguments, each] for made in rounds]
                              for each in (_UNRECORDED, _UNRECORDED_AGAIN, mode))
    first, second, third = (np.array([batch.launch_ns for batch in part]) for part in (plain, again, recorded))
    without = (first + second) / 2
    singles, with_recorder = (
        [np.asarray(batch.singles, np.float64) for batch in part] for part in (plain, recorded))
    return Cost(arguments, float(np.median(without)), middle(third - without), middle(second - first),
                tail(singles, with_recorder), len(rounds))


def middle(differences: Values) -> Interval:
    """Return the median of paired differences with its 95 % bootstrap interval."""
    low, high = median_interval(differences)
    value = float(np.median(differences))
    return Interval(value, min(low, value), max(high, value))


def tail(without: Sequence[Values], recorded: Sequence[Values], seed: int = 0) -> Tail:
    """Return the 99th percentile of single launches without and with recording, and what was added to it.

    The launches of all rounds are one sample; its interval comes from resampling rounds, as launches of one round are
    alike, with the same rounds of both.

    Parameters
    ----------
    without, recorded : sequence of ndarray of float64
        Nanoseconds, an array a round; as many rounds of both.
    seed : int
        For the resampling.
    """
    drawn = np.random.default_rng(seed).integers(0, len(without), (_RESAMPLES, len(without)))
    counts = np.stack([np.bincount(row, minlength=len(without)) for row in drawn])
    all_once = np.ones((1, len(without)), np.int64)
    base, most = (_percentiles(values, all_once)[0] for values in (without, recorded))
    differences = _percentiles(recorded, counts) - _percentiles(without, counts)
    low, high = np.quantile(differences, [0.025, 0.975])
    added = float(most - base)
    return Tail(float(base), float(most), Interval(added, min(float(low), added), max(float(high), added)))


def _percentiles(rounds: Sequence[Values], counts: np.ndarray) -> Values:
    """Return the 99th percentile with the rounds weighted by `counts`, one value for each row of `counts`."""
    values = np.concatenate(list(rounds))
    places = np.repeat(np.arange(len(rounds)), [len(each) for each in rounds])
    order = np.argsort(values)
    values, places = values[order], places[order]
    found = np.empty(len(counts))
    for row, times in enumerate(counts):
        weights = np.cumsum(times[places])
        found[row] = values[np.searchsorted(weights, _QUANTILE * weights[-1])]
    return found


def _measured(seconds: float, dry_run: bool | None, cores: Sequence[int], order: random.Random,
              on_progress: Progress) -> tuple[Calibration, ...]:
    process, hello = _started(dry_run, list(cores))
    try:
        rounds, is_quiet = measure_rounds(process.ask, hello, seconds, order, on_progress, cores)
        process.close()
    except (ProcessError, RefusedError) as error:
        raise CalibrationError(f"recording cannot be calibrated: {error}") from error
    finally:
        process.kill()
    on_progress(1.0, "comparing")
    now = datetime.now(UTC).replace(microsecond=0)
    return tuple(
        Calibration(overhead.setting(hello["gpu"], detail), now,
                    tuple(cost(rounds, arguments, Mode(detail)) for arguments in ARGUMENTS), is_quiet)
        for detail in DETAILS)


def _started(dry_run: bool | None, cores: list[int]) -> tuple[BenchProcess, dict[str, Any]]:
    """Return a process and its answer to ``hello``: on the GPU if there is one and nothing else is asked for."""
    if dry_run is None and not is_dry_run():
        with contextlib.suppress(RefusedError):
            return _greeted({}, cores)
    return _greeted(studies_process.dry_run_fields() if dry_run is not False else {}, cores)


def _greeted(fields: Mapping[str, Any], cores: list[int]) -> tuple[BenchProcess, dict[str, Any]]:
    environ = {name: value for name, value in os.environ.items() if name != "KERNELSCOPE_DRYRUN"}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (studies_process.package_folder(), environ.get("PYTHONPATH"))))
    started: list[BenchProcess] = []
    try:
        process = BenchProcess([sys.executable, "-P", "-u", "-c", _COMMAND], environ, Path.cwd(), started)
        return process, process.ask({"do": "hello", "pin": cores, **fields}, _TIMEOUT_S)
    except StudyError as error:
        kill_all(started)
        if isinstance(error, RefusedError) and not fields:
            raise
        raise CalibrationError(f"recording cannot be calibrated: {error}") from error
    except BaseException:
        kill_all(started)
        raise


def _batch(ask: Ask, cpu_noise: CpuNoise, arguments: int, mode: Mode) -> Batch:
    answer = ask({"do": "batch", "arguments": arguments, "detail": mode.detail,
                  "launches": LAUNCHES, **cpu_noise.request(_LABEL)}, _TIMEOUT_S)
    cpu_noise.took(_LABEL, answer["core"], int(answer["reference_ns"]))
    return Batch(answer["host_ns"] / LAUNCHES, answer["singles"])


def _named(arguments: int, mode: Mode) -> str:
    launch = f"{arguments} device arrays" if arguments else "no argument"
    return f"{launch}, {f'detail {mode.detail!r}' if mode.detail else 'not recorded'}"


#: Launches after a hook has come or gone, before any is timed.
WARM_UP = 120

_SETUP = """\
@cuda.jit
def kernel({names}):
    pass
{names}{equal}{arrays}
held = kernel[1, 1]
"""


# The process that `calibrate` measures in: real launches, recorded and not, one batch at a time.
#
# It uses the protocol of `bench.main` with two other requests:
#
# ===== =============================================== ================================================================
# do    asks with                                       answers with
# ===== =============================================== ================================================================
# hello dryrun, library, pin                            gpu, is_dry_run, best_ns
# batch arguments, detail, launches,                    host_ns of all launches, singles (ns of each of as many more),
#       core, quiet_ns                                  reference_ns, core
# ===== =============================================== ================================================================
#
# A batch whose detail is null is not recorded. Everything else is done alike: hooks that come and go make the
# interpreter adapt its instructions anew, so that each batch comes after some launches that are not timed.

class Calibrator(Bench):
    """Answers the requests in that process; has the framework, and the kernels by number of arguments."""

    def __init__(self) -> None:
        super().__init__()
        self._kernels: dict[int, tuple[TimedCase, TimedCase, list[int]]] = {}

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Find numba-cuda and the GPU."""
        self.framework = found = bench_main.find("numba-cuda", request.get("dryrun"), request.get("library"))
        cores, _ = timing.may_pin(request.get("pin"))
        self.quiet = timing.Quiet(cores)
        return {"gpu": None if found.is_dry_run else str(timing.gpu(False).get("name") or "unknown"),
                "is_dry_run": found.is_dry_run, "best_ns": self.quiet.best_ns()}

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time launches together, and as many one by one, with a new recorder or without one."""
        together, alone, singles = self._kernel(int(request["arguments"]))
        moved = self.quiet.seek(request.get("core"), request.get("quiet_ns"))
        launches = int(request["launches"])
        with _recording(request["detail"]):
            together.batch(WARM_UP)
            whole = together.batch(launches, moved)
            singles.clear()
            single = alone.batch(launches)
            times = singles[-launches:]  # those before are the batch's own warm-up
        together.batch(WARM_UP)
        return {"host_ns": whole.host_ns, "singles": times, "core": self.quiet.core,
                "reference_ns": max(whole.reference_ns, single.reference_ns)}

    def _kernel(self, arguments: int) -> tuple[TimedCase, TimedCase, list[int]]:
        if arguments not in self._kernels:
            if self.framework is None:
                raise RuntimeError("no framework yet: the first request must be a hello that goes well")
            singles: list[int] = []
            names = ", ".join(f"a{place}" for place in range(arguments))
            setup = _SETUP.format(names=names, equal=" = " if names else "", arrays=", ".join(
                ["cuda.device_array(64, np.float32)"] * arguments) + ("," if arguments == 1 else ""))
            known = {**self.framework.names(), "clock": time.perf_counter_ns, "add": singles.append}
            together, alone = (
                TimedCase({"name": f"{arguments} arguments, {how}", "setup": setup, "statement": statement}, known,
                          self.framework.synchronize)
                for how, statement in (("together", f"held({names})"),
                                       ("one by one", f"start = clock(); held({names}); add(clock() - start)")))
            for case in (together, alone):
                case.set_up()
                case.batch(WARM_UP)  # compiles
            # What a first recording imports and leaves would be walked before each batch.
            with _recording("phases"):
                together.batch(1)
            freeze_garbage()
            self._kernels[arguments] = together, alone, singles
        return self._kernels[arguments]


@contextlib.contextmanager
def _recording(detail: str | None) -> Any:
    if detail is None:
        yield
        return
    from kernelscope.recorder.recorder import Recorder

    recorder = Recorder("calibration", detail=detail, gpu="none").start()
    try:
        yield
    finally:
        recorder.stop()
    if not len(recorder.recording.launches):
        messages = "; ".join(str(row["message"]) for row in recorder.recording.rows("health") if row["message"])
        raise RuntimeError(f"launches are not recorded on this machine: {messages or 'none was seen'}")


def main(requests: int, answers: int) -> None:
    """Answer requests, from one file descriptor to another, until the pipe is closed or says bye."""
    bench_main.main(requests, answers, Calibrator())
