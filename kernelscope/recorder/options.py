"""Options of a recording: each declared once, with its type, default, check, help and spelling on a line.

`kernelscope.record`, `Recorder` and `recorded` take the options as arguments, ``kernelscope run``, ``%%kernelscope``
and ``%kernelscope on`` as flags; all of them are made from `RecordingOptions`. An option needs nothing else than its
field here; whoever acts on it reads the field. Nothing heavy is imported: ``--help`` needs none of it.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, get_type_hints

from kernelscope.counter_sets import instruction_metric, metrics_of
from kernelscope.schema import DETAILS, MODES

if TYPE_CHECKING:
    import argparse

#: How the GPU's side is recorded.
GPU_SOURCES = ("cupti", "events", "none")
#: The value of ``stalls`` with which kernels run one by one.
LAUNCHES = "launches"
#: How many launches the modes ``ring`` and ``stop`` keep, where it is not said.
CAPACITY = 1_000_000

#: The lines that spell options: of ``kernelscope run``, ``%%kernelscope`` and ``%kernelscope on``.
RUN, CELL, ON = "run", "cell", "on"
#: The action of a flag that sets the constant where the option was not given otherwise: ``--journal`` beside
#: ``--journal-folder``.
_UNLESS = "unless"


class Flag(NamedTuple):
    """One spelling of an option.

    Attributes
    ----------
    names
        Such as ``-n`` and ``--name``.
    places
        The lines that take it: `RUN`, `CELL`, `ON`.
    help
        What it does; the option's own help where this is empty.
    arguments
        The other keywords of argparse's ``add_argument``.
    """

    names: tuple[str, ...]
    places: Sequence[str]
    help: str
    arguments: Mapping[str, Any]


class Option(NamedTuple):
    """What `RecordingOptions` knows of a field beside its name, type and default.

    Attributes
    ----------
    help
        What it does.
    flags
        How lines spell it; none for an option that only Python code has.
    choices
        The values that there are; empty where they cannot be listed.
    check
        Called with the options, returns what is wrong with this one, or None.
    inside
        Called with the options of a recording and with those of the recording around it, which are another's in this
        option: returns what became of it there, or None where that does what was asked for. Without it, the line names
        both values.
    is_separate
        Whether a recording inside another one has its own value of it.
    """

    help: str
    flags: tuple[Flag, ...]
    choices: tuple[str, ...]
    check: Callable[[Any], str | None] | None
    inside: Callable[[Any, Any], str | None] | None
    is_separate: bool


def flag(*names: str, places: Sequence[str] = (RUN, CELL, ON), help: str = "", **arguments: Any) -> Flag:
    """Return a spelling of an option; `arguments` are argparse's."""
    return Flag(names, places, help, arguments)


def option(help: str, *flags: Flag, choices: tuple[str, ...] = (), check: Callable[[Any], str | None] | None = None,
           inside: Callable[[Any, Any], str | None] | None = None, is_separate: bool = False) -> dict[str, Option]:
    """Return what `RecordingOptions` knows of a field, as the field's metadata."""
    return {"option": Option(help, flags, choices, check, inside, is_separate)}


def _capacity_problem(options: RecordingOptions) -> str | None:
    if options.mode == "grow":
        return (None if options.capacity is None else
                f"capacity {options.capacity!r} is for mode 'ring' or 'stop': mode 'grow' keeps all")
    if options.capacity is not None and (type(options.capacity) is not int or options.capacity < 1):
        return f"capacity {options.capacity!r} is no number of launches: it takes an int of 1 or more"
    return None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _lines_of_problem(options: RecordingOptions) -> str | None:
    if isinstance(options.lines_of, str):
        return f"lines_of {options.lines_of!r} is one text: it takes a list of names of packages"
    return None


def _stacks_problem(options: RecordingOptions) -> str | None:
    if options.stacks and not options.lines:
        return "stacks True needs lines: a call path is one of lines of code; leave lines=False, --no-lines, out"
    return None


def _stalls_problem(options: RecordingOptions) -> str | None:
    if not (isinstance(options.stalls, bool) or options.stalls == LAUNCHES):
        return f"stalls {options.stalls!r} is none of True, False and {LAUNCHES!r}"
    if options.stalls and options.gpu != "cupti":
        return f"stalls {options.stalls!r} needs CUPTI, and so gpu 'cupti', not {options.gpu!r}"
    return None


def _lanes_problem(options: RecordingOptions) -> str | None:
    if not options.lanes:
        return None
    if options.metrics is not None:
        return "lanes True cannot stand beside metrics, whose launches are replayed: record one after the other"
    if options.stalls:
        return "lanes True cannot stand beside stalls: the GPU samples one or the other; record one after the other"
    if options.gpu != "cupti":
        return f"lanes True needs CUPTI, and so gpu 'cupti', not {options.gpu!r}"
    return None


def _replay_problem(options: RecordingOptions) -> str | None:
    if options.replay == "user" and (options.metrics is None or options.metrics_of is not None):
        return ("replay 'user' needs metrics: there is nothing to repeat without" if options.metrics is None else
                "replay 'user' measures all kernels as one range: leave out metrics_of")
    return None


def _metrics_problem(options: RecordingOptions) -> str | None:
    if options.metrics is None:
        return None
    if type(options.metrics) is not str:
        return f"metrics {options.metrics!r} is no set of metrics: it takes a text, such as 'basic'"
    if options.stalls or options.gpu == "events":
        return "metrics needs CUPTI for itself: leave out stalls, or gpu 'events'"
    try:
        metrics_of(options.metrics)
    except ValueError as error:
        return str(error)
    return None


def _journal_problem(options: RecordingOptions) -> str | None:
    if options.journal is None or options.journal is True or isinstance(options.journal, str | Path):
        return None
    return f"journal {options.journal!r} is none of None, True and a folder's path"


# What a recording inside another one says of an option that is the other's.

_AROUND = "as the recording around it"


def _lines_inside(_: RecordingOptions, around: RecordingOptions) -> str:
    lines = f"lines of {', '.join(['your code', *around.lines_of])}" if around.lines else "no lines"
    return f"recorded {lines}, {_AROUND}"


def _stalls_inside(options: RecordingOptions, around: RecordingOptions) -> str:
    if options.stalls and around.stalls:
        how = "kernels one by one" if around.stalls == LAUNCHES else "kernels as they came"
        return f"recorded stall reasons of {how}, {_AROUND}"
    return f"recorded {'the' if around.stalls else 'no'} stall reasons of warps, {_AROUND}"


def _metrics_of_inside(_: RecordingOptions, around: RecordingOptions) -> str | None:
    """Say which kernels were measured; of none it is said that there are no metrics."""
    return f"measured {around.metrics_of or 'all kernels'}, {_AROUND}" if around.metrics else None


def _replay_inside(options: RecordingOptions, around: RecordingOptions) -> str | None:
    return f"measured with replay {around.replay!r}, {_AROUND}, not {options.replay!r}" if around.metrics else None


def _notify_inside(options: RecordingOptions, around: RecordingOptions) -> str | None:
    if options.notify is None or not around.metrics:
        return None
    return f"notify was not called: the recording around it has {'none' if around.notify is None else 'another one'}"


def _kept_inside(options: RecordingOptions, around: RecordingOptions) -> str | None:
    if options.mode == "grow":  # nothing was asked for; how many launches are lost is said anyway
        return None
    return (f"launches were kept in {_kept(around)}, as in the recording around it, "
            f"not in {_kept(options)}")


def _kept(options: RecordingOptions) -> str:
    return f"mode {options.mode!r}" + ("" if options.capacity is None else f" with capacity {options.capacity:,}")


def _journal_inside(options: RecordingOptions, around: RecordingOptions) -> str | None:
    if options.journal is None:  # nothing was asked for
        return None
    there = "no journal" if around.journal is None else "the journal"
    return f"launches went to {there} of the recording around it, not to a separate one"


@dataclass(frozen=True)
class RecordingOptions:
    """Options of a recording; `options_text` describes each field.

    Raises
    ------
    ValueError
        A value is none that there is; the message names the option, the value and what it takes.
    """

    name: str | None = field(default=None, metadata=option(
        "what to call the recording",
        flag("-n", "--name", places=(RUN, CELL), help="what to call the recording; quote a name with spaces"),
        is_separate=True))
    _: KW_ONLY
    detail: str = field(default="phases", metadata=option(
        "record every phase of a launch (phases, the default), or its two ends at less than half the cost (launch)",
        flag("--detail"), choices=DETAILS, inside=lambda options, around: (
            f"recorded with detail {around.detail!r}, {_AROUND}, not {options.detail!r}")))
    gpu: str = field(default="cupti", metadata=option(
        "how the GPU's side is recorded: cupti where that is possible, events times numba-cuda's kernels with CUDA "
        "events, which perturbs what it measures, none leaves it out",
        flag("--no-gpu", action="store_const", const="none",
             help="leave what the GPU did out: no CUPTI, and none of its cost"),
        flag("--events", action="store_const", const="events",
             help="time kernels with CUDA events where CUPTI cannot be had; this perturbs what it measures"),
        choices=GPU_SOURCES, inside=lambda options, around: (
            f"recorded the GPU's side with {around.gpu!r}, {_AROUND}, not {options.gpu!r}")))
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
    stacks: bool = field(default=False, metadata=option(
        "record the call path of each launch and compile too: all Python frames from the outermost of your code on",
        flag("--stacks", action="store_true"), check=_stacks_problem, inside=lambda _, around: (
            f"recorded {'call paths' if around.stacks else 'no call paths'}, {_AROUND}")))
    torch_ops: bool = field(default=False, metadata=option(
        "record which of PyTorch's operators, such as aten::addmm, launched each kernel; this adds to every operator",
        flag("--torch-ops", action="store_true"), inside=lambda _, around: (
            f"recorded {'the' if around.torch_ops else 'no'} operators of PyTorch, {_AROUND}")))
    stalls: bool | str = field(default=False, metadata=option(
        "have the GPU sample at which line of which kernel its warps are, and why they wait; the kernels' code is "
        "recorded with it. With 'launches' kernels run one by one, so that each sample has its launch",
        flag("--stalls", action="store_const", const=True,
             help="sample at which lines of kernels the GPU's warps wait, and why; records the kernels' code too"),
        flag("--stalls-by-launch", action="store_const", const=LAUNCHES,
             help="the same with kernels one by one, so that each sample has its launch"),
        check=_stalls_problem, inside=_stalls_inside))
    lanes: bool = field(default=False, metadata=option(
        "sample ten thousand times a second how busy each GPU's multiprocessors, memory and tensor cores are: lanes "
        "under its kernels in the timeline", flag("--lanes", action="store_true"), check=_lanes_problem,
        inside=lambda _, around: (
            f"recorded {'lanes' if around.lanes else 'no lanes'} of the GPU's counters, {_AROUND}")))
    metrics: str | None = field(default=None, metadata=option(
        "measure the first launch of each kernel with the GPU's counters: basic, roofline, memory, full, or Nsight "
        "Compute's names of metrics with commas between; launches are replayed, and the GPU's times are not recorded",
        flag("--metrics", nargs="?", const="basic", metavar="SET",
             help="measure the first launch of each kernel with the GPU's counters: basic (the default), roofline, "
                  "memory, full, or names of metrics; launches are replayed"),
        check=_metrics_problem,
        inside=lambda _, around: f"measured {around.metrics or 'no metrics'}, {_AROUND}"))
    metrics_of: str | None = field(default=None, metadata=option(
        "measure only kernels of this name, or that match it (* and ?); all without it",
        flag("--metrics-of", metavar="KERNEL", help="with --metrics: only kernels of this name or pattern"),
        check=lambda options: "metrics_of needs metrics" if options.metrics_of and not options.metrics else None,
        inside=_metrics_of_inside))
    replay: str = field(default="kernel", metadata=option(
        "who repeats what is measured with metrics: CUPTI, each kernel, and restores memory (kernel); or you, in a "
        "loop over the recorder's passes(), and all that is launched in it is measured as one range (user)",
        choices=("kernel", "user"), check=_replay_problem, inside=_replay_inside))
    notify: Callable[[str, bool], object] | None = field(default=None, metadata=option(
        "told what a measurement with metrics does: called with a line, and whether it is to stay or makes room for "
        "the next one", inside=_notify_inside))
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
        flag("--journal", places=(RUN,), action=_UNLESS, nargs=0, const=True,
             help="keep what is recorded in files as well, from which `kernelscope recover` brings it back"),
        flag("--journal-folder", places=(RUN,), metavar="FOLDER",
             help="where to keep the journal; implies --journal"),
        flag("--journal", places=(CELL, ON), nargs="?", const=True, metavar="FOLDER",
             help="keep what is recorded in files as well: if the kernel dies, %%kernelscope recover brings it back"),
        flag("--no-journal", places=(ON,), action="store_const", const=False, help="keep no journal"),
        check=_journal_problem, inside=_journal_inside))

    children: bool = field(default=False, metadata=option(
        "record the processes that Python starts meanwhile too, each as a process of this recording",
        flag("--children", action="store_true"), is_separate=True))

    @property
    def needs_code(self) -> bool:
        """Whether the code of kernels is recorded: for lines, and for operations, which it tells."""
        return bool(self.code or self.stalls) or any(map(instruction_metric, metrics_of(self.metrics or "basic")))

    def __post_init__(self) -> None:
        """Check the values, and fill in the capacity."""
        for each in fields(self):
            known, value = _known(each), getattr(self, each.name)
            problem = None if known.check is None else known.check(self)
            if known.choices and value not in known.choices and not (value is None and each.default is None):
                problem = f"{each.name} {value!r} is not one of {', '.join(known.choices)}"
            if problem is not None:
                raise ValueError(problem)
        if self.mode != "grow" and self.capacity is None:
            object.__setattr__(self, "capacity", CAPACITY)
        object.__setattr__(self, "lines_of", tuple(self.lines_of))

    @classmethod
    def of(cls, arguments: argparse.Namespace, **others: Any) -> RecordingOptions:
        """Return the options that a line was read as having, and `others` in their place.

        Raises
        ------
        ValueError
            They do not go together.
        """
        given = {each.name: getattr(arguments, each.name) for each in fields(cls) if hasattr(arguments, each.name)}
        return cls(**given | others)

    def differences(self, around: RecordingOptions) -> list[str]:
        """Return a line for each option that is another one in the recording around this one, and counts here."""
        lines: list[str] = []
        for each in fields(RecordingOptions):
            known, value, other = _known(each), getattr(self, each.name), getattr(around, each.name)
            if known.is_separate or value == other:
                continue
            line = (f"{each.name} was {other!r}, {_AROUND}, not {value!r}" if known.inside is None else
                    known.inside(self, around))
            if line is not None:
                lines.append(line)
        return [*dict.fromkeys(lines)]


def _known(each: Field[Any]) -> Option:
    found: Option = each.metadata["option"]
    return found


def add_arguments(parser: argparse.ArgumentParser, place: str) -> None:
    """Add the options that a line takes, `RUN`, `CELL` or `ON`, to its parser; `RecordingOptions.of` reads them."""
    from argparse import Action

    class Unless(Action):
        def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                     option_string: str | None = None) -> None:
            if getattr(namespace, self.dest) == self.default:
                setattr(namespace, self.dest, self.const)

    parser.register("action", _UNLESS, Unless)
    for each in fields(RecordingOptions):
        known = _known(each)
        flags = [spelled for spelled in known.flags if place in spelled.places]
        constants = [spelled for spelled in flags if spelled.arguments.get("action") == "store_const"]
        group = parser.add_mutually_exclusive_group() if constants[1:] else parser
        for spelled in flags:
            arguments: dict[str, Any] = {"dest": each.name, "default": each.default,
                                         "help": spelled.help or known.help, **spelled.arguments}
            if known.choices and "action" not in arguments:
                arguments["choices"] = known.choices
            group.add_argument(*spelled.names, **arguments)


# The options as arguments of functions.

P = ParamSpec("P")
Made = TypeVar("Made", bound=RecordingOptions)
Owner = TypeVar("Owner")
Result = TypeVar("Result")


def takes_options(make: Callable[P, Made]) -> Callable[[Callable[[Made], Result]], Callable[P, Result]]:
    """Return a decorator for a function of options, with which it takes the arguments of `make` in their place.

    Parameters
    ----------
    make : type
        `RecordingOptions`, or a class derived from it. Its fields are the function's signature, and are described
        where its docstring says ``{options}``.
    """
    def decorate(function: Callable[[Made], Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            return function(make(*args, **kwargs))

        return _described(call, function, make)

    return decorate


def set_up_by(
    make: Callable[P, Made],
) -> Callable[[Callable[[Owner, Made], None]], Callable[Concatenate[Owner, P], None]]:
    """Return the same decorator as `takes_options`, for an ``__init__``."""
    def decorate(function: Callable[[Owner, Made], None]) -> Callable[Concatenate[Owner, P], None]:
        @functools.wraps(function)
        def call(self: Owner, *args: P.args, **kwargs: P.kwargs) -> None:
            function(self, make(*args, **kwargs))

        return _described(call, function, make, inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY))

    return decorate


def _described(call: Any, function: Callable[..., Any], make: Callable[..., Any], *first: inspect.Parameter) -> Any:
    """Give a function the signature of its options, and its docstring what each of them does."""
    returns = inspect.signature(function, eval_str=True).return_annotation
    call.__signature__ = inspect.Signature([*first, *parameters(make)], return_annotation=returns)
    if call.__doc__ is not None:
        call.__doc__ = inspect.cleandoc(call.__doc__).replace("{options}", options_text(make))
    return call


def parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the options as parameters of a function, with their types and defaults."""
    types = _types(make)
    return [each.replace(annotation=types[each.name]) for each in inspect.signature(make).parameters.values()]


_types = functools.cache(get_type_hints)


@functools.cache
def options_text(make: Any = RecordingOptions) -> str:
    """Return what each option is, as the section ``Parameters`` of a docstring."""
    lines = ["Parameters", "----------"]
    for each in fields(make):
        known = _known(each)
        lines.append(f"{each.name} : {each.type}")
        lines += textwrap.wrap(known.help[:1].upper() + known.help[1:] + ".", 110, initial_indent=" " * 4,
                               subsequent_indent=" " * 4)
    return "\n".join(lines)
