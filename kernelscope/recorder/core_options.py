"""The options that every recording has; `kernelscope.recorder.options` adds those of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kernelscope.recorder.option import AROUND, CELL, ON, RUN, flag, option, option_of
from kernelscope.schema import DETAILS, MODES

if TYPE_CHECKING:
    import argparse

#: How the GPU's side is recorded.
GPU_SOURCES = ("cupti", "events", "none")
#: How many launches the modes ``ring`` and ``stop`` keep, where it is not said.
CAPACITY = 1_000_000
#: What options that sample or measure need for themselves: see `kernelscope.recorder.option.Option.exclusive`.
COUNTERS = "the GPU's counters"
#: The action of a flag that sets the constant where the option was not given otherwise: ``--journal`` beside
#: ``--journal-folder``.
UNLESS = "unless"


def _capacity_problem(options: CoreOptions) -> str | None:
    if options.mode == "grow":
        return (None if options.capacity is None else
                f"capacity {options.capacity!r} is for mode 'ring' or 'stop': mode 'grow' keeps all")
    if options.capacity is not None and (type(options.capacity) is not int or options.capacity < 1):
        return f"capacity {options.capacity!r} is no number of launches: it takes an int of 1 or more"
    return None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _lines_of_problem(options: CoreOptions) -> str | None:
    if isinstance(options.lines_of, str):
        return f"lines_of {options.lines_of!r} is one text: it takes a list of names of packages"
    return None


def _journal_problem(options: CoreOptions) -> str | None:
    if options.journal is None or options.journal is True or isinstance(options.journal, str | Path):
        return None
    return f"journal {options.journal!r} is none of None, True and a folder's path"


# What a recording inside another one says of an option that is the other's.

def _lines_inside(_: CoreOptions, around: CoreOptions) -> str:
    lines = f"lines of {', '.join(['your code', *around.lines_of])}" if around.lines else "no lines"
    return f"recorded {lines}, {AROUND}"


def _kept_inside(options: CoreOptions, around: CoreOptions) -> str | None:
    if options.mode == "grow":  # nothing was asked for; how many launches are lost is said anyway
        return None
    return (f"launches were kept in {_kept(around)}, as in the recording around it, "
            f"not in {_kept(options)}")


def _kept(options: CoreOptions) -> str:
    return f"mode {options.mode!r}" + ("" if options.capacity is None else f" with capacity {options.capacity:,}")


def _journal_inside(options: CoreOptions, around: CoreOptions) -> str | None:
    if options.journal is None:  # nothing was asked for
        return None
    there = "no journal" if around.journal is None else "the journal"
    return f"launches went to {there} of the recording around it, not to a separate one"


@dataclass(frozen=True)
class CoreOptions:
    """Options of a recording; `options_text` describes each field.

    Raises
    ------
    ValueError
        A value is none that there is; the message names the option, the value and what it takes.
    """

    name: str | None = field(default=None, metadata=option(
        "what to call the recording",
        flag("-n", "--name", places=(RUN, CELL), help="what to call the recording; quote a name with spaces"),
        is_separate=True, is_inherited=False))
    _: KW_ONLY
    detail: str = field(default="phases", metadata=option(
        "record every phase of a launch (phases, the default), or its two ends at less than half the cost (launch)",
        flag("--detail"), choices=DETAILS, inside=lambda options, around: (
            f"recorded with detail {around.detail!r}, {AROUND}, not {options.detail!r}")))
    gpu: str = field(default="cupti", metadata=option(
        "how the GPU's side is recorded: cupti where that is possible, events times numba-cuda's kernels with CUDA "
        "events, which perturbs what it measures, none leaves it out",
        flag("--no-gpu", action="store_const", const="none",
             help="leave what the GPU did out: no CUPTI, and none of its cost"),
        flag("--events", action="store_const", const="events",
             help="time kernels with CUDA events where CUPTI cannot be had; this perturbs what it measures"),
        choices=GPU_SOURCES, inside=lambda options, around: (
            f"recorded the GPU's side with {around.gpu!r}, {AROUND}, not {options.gpu!r}")))
    synchronize: bool = field(default=True, metadata=option(
        "whether to wait for the device before stopping", is_separate=True))
    code: bool = field(default=False, metadata=option(
        "record the kernels' code too, from the source to the machine code; it may be private, and is read when "
        "recording stops, which takes that much longer", flag("--code", action="store_true"), is_separate=True))
    lines: bool = field(default=True, metadata=option(
        "record which line of your code each launch, compile and range comes from",
        flag("--no-lines", action="store_false", help="leave out which lines of your code launched"),
        inside=_lines_inside))
    lines_of: Sequence[str] = field(default=(), metadata=option(
        "packages, or folders, whose lines count as yours; the working folder's, and those of packages that are "
        "installed editable, do anyway",
        flag("--lines-of", type=_names, metavar="PACKAGE[,PACKAGE]",
             help="count the lines of these packages, or folders, as yours too"),
        check=_lines_of_problem, inside=_lines_inside))
    mode: str = field(default="grow", metadata=option(
        "keep all launches (grow, the default), the newest (ring), or the first ones (stop), by the order in which "
        "they began; what was not kept is counted", flag("--mode"), choices=MODES,
        inside=_kept_inside))
    capacity: int | None = field(default=None, metadata=option(
        f"how many launches the modes ring and stop keep (default: {CAPACITY})",
        flag("--capacity", metavar="N", type=int), check=_capacity_problem, inside=_kept_inside))
    journal: bool | str | Path | None = field(default=None, metadata=option(
        "keep what is recorded in files as well, in the default folder (True) or in this one, from which `recover` "
        "brings it back if the process dies",
        flag("--journal", places=(RUN,), action=UNLESS, nargs=0, const=True,
             help="keep what is recorded in files as well, from which `kernelscope recover` brings it back"),
        flag("--journal-folder", places=(RUN,), metavar="FOLDER",
             help="where to keep the journal; implies --journal"),
        flag("--journal", places=(CELL, ON), nargs="?", const=True, metavar="FOLDER",
             help="keep what is recorded in files as well: if the kernel dies, %%kernelscope recover brings it back"),
        flag("--no-journal", places=(ON,), action="store_const", const=False, help="keep no journal"),
        check=_journal_problem, inside=_journal_inside, is_inherited=False))

    children: bool = field(default=False, metadata=option(
        "record the processes that Python starts meanwhile too, each as a process of this recording",
        flag("--children", action="store_true"), is_separate=True, is_inherited=False))

    @property
    def needs_code(self) -> bool:
        """Whether the code of kernels is recorded.

        A feature whose option needs it overrides this, and asks the next class with ``super()``.
        """
        return self.code

    @property
    def traces_gpu(self) -> bool:
        """Whether CUPTI traces what the GPU does.

        A feature whose option needs CUPTI for itself overrides this, and asks the next class with ``super()``.
        """
        return self.gpu == "cupti"

    @property
    def records_call_paths(self) -> bool:
        """Whether the call paths of launches and compiles are recorded, beside their lines.

        A feature whose option needs them overrides this, and asks the next class with ``super()``.
        """
        return False

    def __post_init__(self) -> None:
        """Check the values, and fill in the capacity."""
        for declared in fields(self):
            about, value = option_of(declared), getattr(self, declared.name)
            problem = None if about.check is None else about.check(self)
            if about.choices and value not in about.choices and not (value is None and declared.default is None):
                problem = f"{declared.name} {value!r} is not one of {', '.join(about.choices)}"
            if problem is not None:
                raise ValueError(problem)
        self._refuse_two_of_one_kind()
        if self.mode != "grow" and self.capacity is None:
            object.__setattr__(self, "capacity", CAPACITY)
        object.__setattr__(self, "lines_of", tuple(self.lines_of))

    @classmethod
    def of(cls, arguments: argparse.Namespace, **others: Any) -> Self:
        """Return the options that a line was read as having, and `others` in their place.

        Raises
        ------
        ValueError
            They do not go together.
        """
        names = [declared.name for declared in fields(cls) if hasattr(arguments, declared.name)]
        return cls(**{name: getattr(arguments, name) for name in names} | others)

    def differences(self, around: CoreOptions) -> list[str]:
        """Return a line for each option that is another one in the recording around this one, and counts here."""
        lines: list[str] = []
        for declared in fields(self):
            about, value, other = option_of(declared), getattr(self, declared.name), getattr(around, declared.name)
            if about.is_separate or value == other:
                continue
            line = (f"{declared.name} was {other!r}, {AROUND}, not {value!r}" if about.inside is None else
                    about.inside(self, around))
            if line is not None:
                lines.append(line)
        return [*dict.fromkeys(lines)]

    def _refuse_two_of_one_kind(self) -> None:
        """Raise `ValueError` where two options need the same part of the GPU for themselves."""
        users: dict[str, str] = {}
        for declared in fields(self):
            name, needs = declared.name, option_of(declared).exclusive
            if not needs or getattr(self, name) == declared.default:
                continue
            first = users.setdefault(needs, name)
            if first != name:
                pair = " cannot stand beside ".join(f"{option} {getattr(self, option)!r}" for option in (first, name))
                raise ValueError(f"{pair}: both need {needs}; record one after the other")
