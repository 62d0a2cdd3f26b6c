"""What an option of a recording is: its help, its check, its spelling on a line. Features declare theirs with it too.

Nothing heavy is imported: ``--help`` needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from typing import Any, NamedTuple

#: The lines that spell options: of ``kernelscope run``, ``%%kernelscope`` and ``%kernelscope on``.
RUN, CELL, ON = "run", "cell", "on"
#: What messages say of an option's value that is the one of the recording around.
AROUND = "as the recording around it"


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
    """What a dataclass of options knows of a field beside its name, type and default.

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
    exclusive
        What of the GPU it needs for itself: two such options of one name cannot stand beside each other.
    is_inherited
        Whether processes that record themselves for this one have its value of it.
    reports_on
        Of an option that is called with what happens meanwhile: the option without which it is not. Commands print what
        it is called with.
    """

    help: str
    flags: tuple[Flag, ...]
    choices: tuple[str, ...]
    check: Callable[[Any], str | None] | None
    inside: Callable[[Any, Any], str | None] | None
    is_separate: bool
    exclusive: str
    is_inherited: bool
    reports_on: str


def flag(*names: str, places: Sequence[str] = (RUN, CELL, ON), help: str = "", **arguments: Any) -> Flag:
    """Return a spelling of an option; `arguments` are argparse's."""
    return Flag(names, places, help, arguments)


def option(help: str, *flags: Flag, choices: tuple[str, ...] = (), check: Callable[[Any], str | None] | None = None,
           inside: Callable[[Any, Any], str | None] | None = None, is_separate: bool = False,
           exclusive: str = "", is_inherited: bool = True, reports_on: str = "") -> dict[str, Option]:
    """Return what a dataclass of options knows of a field, as the field's metadata."""
    return {"option": Option(help, flags, choices, check, inside, is_separate, exclusive, is_inherited, reports_on)}


def option_of(field: Field[Any]) -> Option:
    """Return what is known of the option that a dataclass has as this field."""
    option: Option = field.metadata["option"]
    return option
