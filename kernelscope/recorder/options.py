"""Options of a recording: each declared once, with its type, default, check, help and spelling on a line.

`kernelscope.record`, `Recorder` and `recorded` take the options as arguments, ``kernelscope run``, ``%%kernelscope``
and ``%kernelscope on`` as flags; all of them are made from `RecordingOptions`: the fields of `CoreOptions` and those
that features add. An option needs nothing else than its field; whoever acts on it reads the field. Nothing heavy is
imported: ``--help`` needs none of it.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from kernelscope.recorder.core_options import UNLESS, CoreOptions
from kernelscope.recorder.option import option_of
from kernelscope.registry import features, loaded

if TYPE_CHECKING:
    import argparse

    class RecordingOptions(CoreOptions):
        """Options of a recording."""
else:
    # Fields come in the reverse order of the bases: the core's first, then those of features by name.
    RecordingOptions = make_dataclass("RecordingOptions", (), bases=(
        *(loaded(feature.options) for feature in reversed(features()) if feature.options), CoreOptions), frozen=True,
        namespace={"__module__": __name__, "__doc__": CoreOptions.__doc__})


def add_arguments(parser: argparse.ArgumentParser, place: str) -> None:
    """Add the options that a line takes, `RUN`, `CELL` or `ON`, to its parser; `RecordingOptions.of` reads them."""
    from argparse import Action

    class Unless(Action):
        def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                     option_string: str | None = None) -> None:
            if getattr(namespace, self.dest) == self.default:
                setattr(namespace, self.dest, self.const)

    parser.register("action", UNLESS, Unless)
    for declared in fields(RecordingOptions):
        about = option_of(declared)
        flags = [spelled for spelled in about.flags if place in spelled.places]
        constants = [spelled for spelled in flags if spelled.arguments.get("action") == "store_const"]
        group = parser.add_mutually_exclusive_group() if constants[1:] else parser
        for spelled in flags:
            arguments: dict[str, Any] = {"dest": declared.name, "default": declared.default,
                                         "help": spelled.help or about.help, **spelled.arguments}
            if about.choices and "action" not in arguments:
                arguments["choices"] = about.choices
            group.add_argument(*spelled.names, **arguments)


# The options as arguments of functions.

P = ParamSpec("P")
Made = TypeVar("Made", bound=CoreOptions)
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
    declared = inspect.signature(make).parameters
    return [parameter.replace(annotation=types[name]) for name, parameter in declared.items()]


_types = functools.cache(get_type_hints)


@functools.cache
def options_text(make: Any = RecordingOptions) -> str:
    """Return what each option is, as the section ``Parameters`` of a docstring."""
    lines = ["Parameters", "----------"]
    for declared in fields(make):
        about = option_of(declared)
        lines.append(f"{declared.name} : {declared.type}")
        lines += textwrap.wrap(about.help[:1].upper() + about.help[1:] + ".", 110, initial_indent=" " * 4,
                               subsequent_indent=" " * 4)
    return "\n".join(lines)
