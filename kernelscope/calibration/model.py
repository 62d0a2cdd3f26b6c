"""A calibration: what was measured, in which setting, and what may be said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, cast

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
    backend, detail : str
        The recorder, ``python`` or ``native``, and what it recorded of a launch, ``launch`` or ``phases``.
    """

    machine: str
    processor: str
    python: str
    kernelscope: str
    numba_cuda: str
    gpu: str | None
    backend: str
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

        Recorder and detail do not matter: each has a calibration of its own. Of the GPU it is asked only where both
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
        held = {"measured": self.measured.astimezone(UTC).isoformat(timespec="seconds"), "quiet": self.quiet}
        return {**asdict(self.setting), **held, "costs": [_rounded(asdict(cost)) for cost in self.costs]}

    @classmethod
    def from_json(cls, held: Any) -> Calibration:
        """Return what `to_json` wrote; raises `ValueError`, which names the field, for anything else."""
        row = _mapping(held, "a calibration")
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


def _rounded(held: dict[str, Any]) -> dict[str, Any]:
    """Nanoseconds with one decimal: what is beyond that is noise."""
    return {name: _rounded(cast("dict[str, Any]", value)) if isinstance(value, dict)
            else round(value, 1) if isinstance(value, float) else value for name, value in held.items()}


def _cost(held: Any) -> Cost:
    row = _mapping(held, "a cost")
    tail = _mapping(row.get("tail"), "tail")
    return Cost(
        round(_number(row, "arguments", 0)), _number(row, "launch_ns", 0), _interval(row, "added"),
        _interval(row, "same"),
        Tail(_number(tail, "without_ns", 0), _number(tail, "recorded_ns", 0), _interval(tail, "added")),
        round(_number(row, "rounds", 1)))


def _interval(row: Mapping[str, Any], name: str) -> Interval:
    held = _mapping(row.get(name), name)
    made = Interval(*(_number(held, field.name) for field in fields(Interval)))
    if not made.low_ns <= made.middle_ns <= made.high_ns:
        raise ValueError(f"{name} is {_shown(dict(held))}, and its middle is not between its ends")
    return made


def _mapping(held: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(held, dict):
        raise ValueError(f"{name} is {_shown(held)}, and no JSON object")
    return cast("dict[str, Any]", held)


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
