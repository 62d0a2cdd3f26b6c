"""What recording costs a launch: calibrated on this machine and stored, or estimated on launches that do nothing."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.metadata
import json
import os
import platform
import re
import secrets
import stat
import statistics
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import kernelscope
from kernelscope import dryrun
from kernelscope.clock import now
from kernelscope.errors import CalibrationError
from kernelscope.native import core
from kernelscope.probes.base import ProbeProtocol
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.nvtx import NvtxProbe
from kernelscope.probes.sink import Sink
from kernelscope.recorder.environment import processor

#: A calibration that is older says nothing any more: systems, drivers and firmware have changed since.
MOST_DAYS = 180
# Clocks of hosts that share a home folder differ; what is from later than that was not measured yet.
_AHEAD_DAYS = 1
# A longer text, or a launch that takes longer, is none that was measured.
_LONGEST_TEXT, _LONGEST_NS = 200, 1e12


@dataclass(frozen=True)
class Interval:
    """A difference with its 95 % interval, in nanoseconds."""

    middle_ns: float
    low_ns: float
    high_ns: float

    @property
    def is_seen(self) -> bool:
        """Whether recording is seen to cost something: all of the interval is above zero."""
        return self.low_ns > 0

    @property
    def counted_ns(self) -> float:
        """What a launch is counted with: the middle, or the upper end where no difference is seen; never nothing."""
        if self.is_seen:
            return self.middle_ns
        # Below zero altogether it is no saving, but how far the measurement is off.
        return max(self.high_ns if self.high_ns > 0 else -self.low_ns, 1.0)


@dataclass(frozen=True)
class Tail:
    """The slowest in a hundred launches: the 99th percentile of single launches, each with the clock around it.

    Attributes
    ----------
    without_ns, recorded_ns : float
        Of launches that nobody recorded, and of recorded ones.
    added : Interval
        The difference of the two.
    """

    without_ns: float
    recorded_ns: float
    added: Interval


@dataclass(frozen=True)
class Cost:
    """What recording adds to a launch with so many arguments.

    Attributes
    ----------
    arguments : int
        Device arrays that the kernel takes.
    launch_ns : float
        The median launch that nobody recorded.
    added : Interval
        The median of the paired differences.
    same : Interval
        The same of two times not recording, which should show no difference.
    tail : Tail
        Of single launches.
    rounds : int
        Pairs that were compared.
    """

    arguments: int
    launch_ns: float
    added: Interval
    same: Interval
    tail: Tail
    rounds: int


@dataclass(frozen=True)
class Setting:
    """Where and how something was measured: a calibration holds for recordings of the same setting.

    Attributes
    ----------
    machine, processor : str
        The host's name, and the model of its processor.
    python, kernelscope, numba_cuda : str
        Versions.
    gpu : str or None
        The name of the GPU; None for the dry run.
    detail : str
        What was recorded of a launch, ``launch`` or ``phases``.
    """

    machine: str
    processor: str
    python: str
    kernelscope: str
    numba_cuda: str
    gpu: str | None
    detail: str


@dataclass(frozen=True)
class Calibration:
    """What recording costs in one setting.

    Attributes
    ----------
    setting : Setting
        Where and how it was measured.
    measured : datetime
        When, with its time zone.
    costs : tuple of Cost
        By number of arguments; at least one.
    quiet : bool
        Whether it was measured at quiet moments only; else something kept the machine busy.
    """

    setting: Setting
    measured: datetime
    costs: tuple[Cost, ...]
    quiet: bool = True

    @property
    def worst(self) -> Cost:
        """The cost that is stated, as how many arguments a launch had is not recorded: the largest that is seen.

        Where none is seen, it is the one whose upper end is the farthest.
        """
        seen = [cost for cost in self.costs if cost.added.is_seen]
        return max(seen or self.costs, key=lambda cost: cost.added.counted_ns)

    @property
    def is_sound(self) -> bool:
        """Whether two times not recording showed no difference."""
        return all(cost.same.low_ns <= 0 <= cost.same.high_ns for cost in self.costs)

    def days(self, today: datetime) -> float:
        """How old it is, in days."""
        return (today - self.measured).total_seconds() / 86_400

    def objection(self, here: Setting, today: datetime) -> str | None:
        """Return why it does not hold for `here`, in one line; None where it does.

        The detail does not matter: each has a calibration of its own. Of the GPU it is asked only where both
        have one, and a name for `here` is known.
        """
        there = self.setting
        if (there.machine, there.processor) != (here.machine, here.processor):
            return f"of another machine: {there.machine}, {there.processor}"
        for name, mine, its in (("Python", here.python, there.python),
                                ("kernelscope", here.kernelscope, there.kernelscope),
                                ("numba-cuda", here.numba_cuda, there.numba_cuda)):
            if mine != its:
                return f"of {name} {its}, and this is {mine}"
        if there.gpu and here.gpu and there.gpu != here.gpu:
            return f"of another GPU: {there.gpu}"
        days = self.days(today)
        if days > MOST_DAYS:
            return f"{days:.0f} days old, and {MOST_DAYS} is the most"
        if days < -_AHEAD_DAYS:
            return f"from the future: {self.measured.date()}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        content = {"measured": self.measured.astimezone(UTC).isoformat(timespec="seconds"), "quiet": self.quiet}
        return {**asdict(self.setting), **content, "costs": [_rounded(asdict(cost)) for cost in self.costs]}

    @classmethod
    def from_json(cls, content: Any) -> Calibration:
        """Return what `to_json` wrote; raises `ValueError`, which names the field, for anything else."""
        row = _mapping(content, "a calibration")
        texts = {field.name: _text(row, field.name) for field in fields(Setting) if field.name != "gpu"}
        setting = Setting(gpu=None if row.get("gpu") is None else _text(row, "gpu"), **texts)
        try:
            measured = datetime.fromisoformat(_text(row, "measured"))
        except ValueError:
            raise ValueError(f"measured is {_shown(row.get('measured'))}, and no date") from None
        if measured.tzinfo is None:
            raise ValueError(f"measured is {_shown(row['measured'])}, without a time zone")
        costs: Any = row.get("costs")
        if not isinstance(costs, list) or not costs:
            raise ValueError(f"costs is {_shown(costs)}, and no list of costs")
        quiet: Any = row.get("quiet")
        if not isinstance(quiet, bool):
            raise ValueError(f"quiet is {_shown(quiet)}, and neither true nor false")
        return cls(setting, measured, tuple(_cost(cost) for cost in cast("list[Any]", costs)), quiet)


def _rounded(content: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds with one decimal: what is beyond that is noise."""
    return {name: _rounded(cast("dict[str, Any]", value)) if isinstance(value, dict)
            else round(value, 1) if isinstance(value, float) else value for name, value in content.items()}


def _cost(content: Any) -> Cost:
    row = _mapping(content, "a cost")
    tail = _mapping(row.get("tail"), "tail")
    return Cost(
        round(_number(row, "arguments", 0)), _number(row, "launch_ns", 0), _interval(row, "added"),
        _interval(row, "same"),
        Tail(_number(tail, "without_ns", 0), _number(tail, "recorded_ns", 0), _interval(tail, "added")),
        round(_number(row, "rounds", 1)))


def _interval(row: Mapping[str, Any], name: str) -> Interval:
    content = _mapping(row.get(name), name)
    made = Interval(*(_number(content, field.name) for field in fields(Interval)))
    if not made.low_ns <= made.middle_ns <= made.high_ns:
        raise ValueError(f"{name} is {_shown(dict(content))}, and its middle is not between its ends")
    return made


def _mapping(content: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{name} is {_shown(content)}, and no JSON object")
    return cast("dict[str, Any]", content)


def _text(row: Mapping[str, Any], name: str) -> str:
    return _checked(row, name, lambda value: isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT
                    and value.isprintable(), "text")


def _number(row: Mapping[str, Any], name: str, least: float = -_LONGEST_NS) -> float:
    return float(_checked(row, name, lambda value: isinstance(value, int | float) and not isinstance(value, bool)
                          and least <= value <= _LONGEST_NS, "number"))  # NaN is not either


def _checked(row: Mapping[str, Any], name: str, fits: Callable[[Any], bool], what: str) -> Any:
    value = row.get(name)
    if not fits(value):
        raise ValueError(f"{name} is {_shown(value)}, and no {what} that a calibration has")
    return value


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


# Calibrations in a file: ``$XDG_STATE_HOME/kernelscope/calibration.json``; ``~/.local/state`` stands for the
# variable.
#
# A home folder may be that of many machines, and a machine may have many Pythons: the file holds a calibration
# for each setting, and a new one takes the place of that of the same setting.

FORMAT = 2
_LARGEST = 4 * 2**20
#: Of so many settings at most; the oldest go first.
_MOST = 500


@dataclass(frozen=True)
class Stored:
    """What the file holds.

    Attributes
    ----------
    path : Path
        The file.
    calibrations : tuple of Calibration
        The newest first.
    problems : tuple of str
        Why the file, or some of what is in it, is left out; a line each.
    is_newer : bool
        Whether a newer version of KernelScope wrote the file.
    """

    path: Path
    calibrations: tuple[Calibration, ...] = ()
    problems: tuple[str, ...] = ()
    is_newer: bool = False

    def find(self, here: Setting, today: datetime | None = None) -> Calibration | None:
        """Return the newest calibration that holds for a setting, or None."""
        today = today or datetime.now(UTC)
        for each in self.calibrations:
            if each.setting == here and each.objection(here, today) is None:
                return each
        return None


def calibration_file() -> Path:
    """Return where calibrations are stored; the file may not be there yet."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(configured) if os.path.isabs(configured) else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise CalibrationError(f"there is no home folder for calibrations ({error}): set XDG_STATE_HOME to a folder "
                               "that you can write") from None
    return base / "kernelscope" / "calibration.json"


def stored(path: Path | None = None) -> Stored:
    """Return what is stored; a file that is missing, damaged or no such file at all is never an error.

    Parameters
    ----------
    path : Path, optional
        Another file than `calibration_file`.
    """
    if path is None:
        try:
            path = calibration_file()
        except CalibrationError as error:
            return Stored(Path("calibration.json"), problems=(str(error),))
    try:
        content = _content(path)
    except FileNotFoundError:
        return Stored(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Stored(path, problems=(f"{path.name} cannot be read: {reason}",))
    if isinstance(content, dict) and isinstance(number := content.get("format"), int) and number > FORMAT:
        return Stored(path, is_newer=True, problems=(
            f"{path.name} has format {number} of a newer kernelscope, and this one reads format {FORMAT}: upgrade it",))
    rows: Any = cast("dict[str, Any]", content).get("calibrations") if isinstance(content, dict) else None
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(rows, list):
        return Stored(path, problems=(f"{path.name} holds no calibrations of format {FORMAT}",))
    found: list[Calibration] = []
    problems: list[str] = []
    for place, row in enumerate(cast("list[Any]", rows), 1):
        try:
            found.append(Calibration.from_json(row))
        except (ValueError, RecursionError) as error:
            problems.append(f"{path.name}, calibration {place}: {error}")
    found.sort(key=lambda each: each.measured, reverse=True)
    return Stored(path, tuple(found), tuple(problems))


def store(new: Iterable[Calibration], path: Path | None = None) -> Path:
    """Add calibrations to the file, in the place of those of the same settings, and return where it is.

    Another process that stores at the same time is waited for, and nobody ever reads half a file.

    Raises
    ------
    CalibrationError
        The folder cannot be written, or the file is of a newer version.
    """
    path = calibration_file() if path is None else path
    new = list(new)
    with _writing(path), open(path.with_name("calibration.lock"), "ab") as lock:
        _locks(lock, wait=True)
        existing = stored(path)
        if existing.is_newer:
            raise CalibrationError(f"{existing.problems[0]}, or remove {path}")
        replaced = {each.setting for each in new}
        others = [each for each in existing.calibrations if each.setting not in replaced]
        everything = sorted([*new, *others], key=lambda each: each.measured, reverse=True)[:_MOST]
        text = json.dumps({"format": FORMAT, "calibrations": [each.to_json() for each in everything]}, indent=1)
        partial = path.with_name(f".{path.name}-{secrets.token_hex(6)}.partial")
        try:
            with open(partial, "x", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def measuring(path: Path | None = None) -> Generator[None]:
    """Be the only one on this machine that calibrates: two would find each other's work on the processor.

    It finds out whether the folder can be written, too, before anything is measured for it.

    Raises
    ------
    CalibrationError
        Another calibration is under way, or the folder cannot be written.
    """
    path = calibration_file() if path is None else path
    name = re.sub(r"[^\w.-]", "_", platform.node() or "unnamed")
    trial = path.with_name(f".{path.name}-{secrets.token_hex(6)}.partial")
    with _writing(path):
        if (existing := stored(path)).is_newer:
            raise CalibrationError(f"{existing.problems[0]}, or remove {path}")
        trial.touch(exist_ok=False)
        trial.unlink()
        lock = open(path.with_name(f"calibrating-{name}.lock"), "ab")  # noqa: SIM115 - it is closed below
    with lock:
        if not _locks(lock, wait=False):
            raise CalibrationError("another calibration is under way on this machine, and two would disturb each "
                                   "other: wait until it has ended")
        yield


@contextlib.contextmanager
def _writing(path: Path) -> Generator[None]:
    """Make the file's folder, and turn what the system refuses into a `CalibrationError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise CalibrationError(f"the calibration cannot be stored in {path.parent}: {error.strerror or error}; set "
                               "XDG_STATE_HOME to a folder that you can write") from error


def _locks(file: IO[bytes], wait: bool) -> bool:
    """Lock a file until it is closed and return whether that went well; where there are no locks, go on without."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _content(path: Path) -> Any:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for ever
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > _LARGEST:
            raise ValueError(f"it has {status.st_size} bytes, and {_LARGEST} is the most")
        return json.loads(file.read(_LARGEST).decode("utf-8"))


# The setting of this process.

def setting(gpu: str | None, detail: str) -> Setting:
    """Return this process' setting.

    Parameters
    ----------
    gpu : str or None
        The GPU's name; None on the dry run.
    detail : str
        As `Setting` has it.
    """
    return Setting(platform.node() or "unnamed", _processor(), platform.python_version(), kernelscope.__version__,
                   _numba_cuda(), gpu, detail)


@functools.cache
def _processor() -> str:
    return processor()


@functools.cache
def _numba_cuda() -> str:
    try:
        return importlib.metadata.version("numba-cuda")
    except importlib.metadata.PackageNotFoundError:
        return "none"


# What a recording states of its own cost.

@dataclass(frozen=True)
class Stated:
    """The cost that a probe's launches are counted with.

    Attributes
    ----------
    cost_ns : float
        A launch.
    message : str
        What health says.
    how : dict
        What the recording's metadata have of it as ``own_cost``: ``kind``, which is ``calibrated`` or ``estimated``; of
        a calibration also ``measured``, ``low_ns``, ``high_ns`` and whether a difference ``is_seen``.
    """

    cost_ns: float
    message: str
    how: dict[str, Any] = field(default_factory=dict[str, Any])


def estimated(cost_ns: float, detail: str) -> Stated:
    """Return what is stated of a cost that comes from a stand-in for a launch."""
    return Stated(cost_ns, f"estimated: {cost_ns:.0f} ns a launch with detail '{detail}'", {"kind": "estimated"})


def calibrated(calibration: Calibration) -> Stated:
    """Return what is stated of a cost that was measured on this machine."""
    added, detail = calibration.worst.added, calibration.setting.detail
    when = calibration.measured.date().isoformat()
    if added.is_seen:
        said = f"{added.middle_ns:.0f} ns a launch with detail '{detail}' ({added.low_ns:.0f} to {added.high_ns:.0f})"
    else:
        said = (f"no difference seen with detail '{detail}' ({added.low_ns:.0f} to {added.high_ns:.0f} ns a launch), "
                f"counted as {added.counted_ns:.0f} ns")
    return Stated(added.counted_ns, f"calibrated on this machine on {when}: {said}", {
        "kind": "calibrated", "measured": calibration.to_json()["measured"], "low_ns": added.low_ns,
        "high_ns": added.high_ns, "is_seen": added.is_seen})


def known(gpus: Collection[str | None], detail: str, file: Stored | None = None,
          today: datetime | None = None) -> Calibration | None:
    """Return the calibration that holds for a recording of this process, the worst of several GPUs'; None without one.

    Parameters
    ----------
    gpus : collection of str or None
        The names of those that were launched on, None for the dry run's; where one of them was not calibrated,
        nothing is known.
    detail : str
        As `Setting` has it.
    file : Stored, optional
        By default what the file contained when this process first asked.
    today : datetime, optional
        The present.
    """
    file = of_process() if file is None else file
    found = [file.find(setting(gpu, detail), today) for gpu in sorted(gpus, key=str)]
    sure = [each for each in found if each is not None]
    return max(sure, key=lambda each: each.worst.added.counted_ns) if sure and len(sure) == len(found) else None


@functools.cache
def of_process() -> Stored:
    """Return what is stored, read once a process."""
    return stored()


def recording_cost(probes: Iterable[ProbeProtocol], sink: Sink, launches: Mapping[str, int],
                   ranges: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what recording cost: rows of health, and by probe what the metadata say of how that is known.

    The cost of a launch is what was calibrated on this machine, else an estimate.

    Parameters
    ----------
    probes : iterable of ProbeProtocol
        Each is named after the framework whose launches it records.
    sink : Sink
        What they recorded.
    launches : mapping of str to int
        How many there were, by framework.
    ranges : int
        How many NVTX ranges and marks there were.
    """
    rows: list[dict[str, Any]] = []
    how: dict[str, Any] = {}
    for probe in probes:
        stated = _stated(probe, sink)
        if stated is not None and sink.has_stacks:
            path_ns = call_path_ns()
            kind = "partly calibrated" if stated.how["kind"] == "calibrated" else stated.how["kind"]
            stated = replace(stated, cost_ns=stated.cost_ns + path_ns, how={"kind": kind},
                             message=f"{stated.message}; {path_ns:.0f} ns more for its call path, estimated")
        if stated is not None:
            rows.append({"probe": probe.name, "status": "ok", "cost_ns": stated.cost_ns, "message": stated.message,
                         "total_cost_ns": stated.cost_ns * launches.get(probe.name, 0)})
            how[probe.name] = stated.how
        if isinstance(probe, NumbaCudaProbe):
            checks, checks_ns = probe.checking_cost()
            if checks:
                rows.append({"probe": probe.name, "status": "ok", "total_cost_ns": checks_ns,
                             "message": f"measured: {checks_ns / checks:.0f} ns to compare the arguments of a launch "
                                        f"with its kernel's only declared signature, {checks} times"})
                if how.get(probe.name, {}).get("kind") == "calibrated":
                    how[probe.name] = {"kind": "partly calibrated"}
        if ranges and isinstance(probe, NvtxProbe):
            cost = _estimate("a range", sink.detail, probe.measure_cost)
            if cost is not None:
                rows.append({"probe": probe.name, "status": "ok", "total_cost_ns": cost * ranges,
                             "message": f"estimated: {cost:.0f} ns a range"})
    if ranges:
        how[NvtxProbe.name] = {"kind": "estimated"}
    return rows, how


def _stated(probe: ProbeProtocol, sink: Sink) -> Stated | None:
    """Return what one of a probe's launches is counted with; None where that is not known."""
    if isinstance(probe, NumbaCudaProbe) and probe.is_hooked:
        gpus = {None} if dryrun.is_enabled() else {str(row["name"]) for row in sink.devices.rows}
        calibration = known(gpus, sink.detail)
        if calibration is not None:
            return calibrated(calibration)
    cost = _estimate(probe.name, sink.detail, probe.cost_per_launch_ns)
    return None if cost is None else estimated(cost, sink.detail)


def call_path_ns() -> float:
    """Return how long a launch as deep as this call looks up its call path, in nanoseconds: 0.1 ms of measuring."""
    ring, times = core.Ring(), list[int]()
    ring.new_stack = lambda frames: 0
    here = core.State(ring, 0).here
    for _ in range(_PATH_ROUNDS):
        begin = now()
        for _ in range(_PATHS):
            here()
        times.append(now() - begin)
    return statistics.median(times) / _PATHS


_PATH_ROUNDS, _PATHS = 15, 50


_estimates: dict[tuple[str, str], float] = {}


def _estimate(what: str, detail: str, measure: Callable[[str], float | None]) -> float | None:
    """Return the cost that a probe measures, once a process: 10 ms are too much for every cell."""
    cost = _estimates.get((what, detail))
    if cost is None:
        cost = measure(detail)
        if cost is not None:
            _estimates[what, detail] = cost
    return cost
