"""The cases that a study knows, which of them are meant, and a line for one of one's own."""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from types import CodeType
from typing import Any, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.studies.arguments import is_whole, paths, shown, text
from kernelscope.studies.case import Case
from kernelscope.studies.catalogue_arguments import args_name, argument_cases, empty
from kernelscope.studies.catalogue_ways import graph, launches, recorded, unrecorded, way_cases
from kernelscope.suggestions import did_you_mean

#: The numbers of arguments that are measured where nothing else is said.
DEFAULT_ARGS = "0-4"

#: A kernel's parameters take at most 4 KiB on older devices, a device array of one dimension 56 bytes of them.
MOST_ARGS = 64


def catalogue() -> dict[str, Case]:
    """Return the built-in cases by name: the empty kernel with 0 to 4 arguments, and the other groups.

    `empty` makes more of the first, `graph` and `launches` more of the group ``graph``.
    """
    built_in = [*(empty(count) for count in range(5)), *argument_cases(), *way_cases()]
    return {one.name: one for one in built_in}


def groups() -> tuple[str, ...]:
    """Return the names of the groups of built-in cases, in their order."""
    return tuple(dict.fromkeys(one.group for one in catalogue().values()))


def case(what: str | Callable[[], Any], setup: str = "", name: str | None = None, *, args: int | None = None,
         against: str | None = None, before: str = "", after: str = "", most_loops: int | None = None,
         needs: Iterable[str] = ()) -> Case:
    """Return a case of one's own.

    Parameters
    ----------
    what : str or callable
        One launch: source text, which every target can run, or a callable without arguments, which only this process
        can: ``case(lambda: k[1, 1](a))``. A call of a callable costs some 0.05 µs that text does not cost.
    setup : str
        Source text that comes before, once in each process; it has ``cuda``, ``np`` and ``Unavailable``.
    name : str, optional
        By default the text of `what`, on one line and at most 60 characters of it.
    args : int, optional
        How many arguments the kernel has.
    against : str, optional
        The name of a case that this one is also compared with, in the same target.
    before, after : str
        Source text around each batch of loops, which is not timed.
    most_loops : int, optional
        The most loops that a batch may have.
    needs : iterable of str
        Modules that a target must have, besides the framework and NumPy.

    Raises
    ------
    StudyArgumentError
        If a text is none, or no Python, if there is nothing to time, if a callable has a setup, or if a number is out
        of range.
    """
    needs = tuple(paths("needs", needs))
    _check_facts(name, args, against, most_loops)
    if callable(what):
        for part, code in (("setup", setup), ("before", before), ("after", after)):
            if code:
                raise StudyArgumentError(
                    f"a case that is a callable has no {part}: do it before, in your own code, or give "
                    "the case as text")
        _refuse_unfinished(what)
        return Case(name or _name_of(what), args=args, against=against, most_loops=most_loops, needs=needs,
                    function=what)
    given = {"what": what, "setup": setup, "before": before, "after": after}
    texts = {"statement" if part == "what" else part: textwrap.dedent(text(part, code, "source text")).strip("\n")
             for part, code in given.items()}
    name = name or _shortened(texts["statement"])
    if not texts["statement"].strip():
        raise StudyArgumentError("a case needs something to time: its statement is empty")
    for part, code in texts.items():
        _check(code, part, name)
    return Case(name, texts["statement"], texts["setup"], args, against=against, before=texts["before"],
                after=texts["after"], most_loops=most_loops, needs=needs)


def select(args: str | int | Iterable[int] | None = None, names: str | Iterable[str | Case | Callable[[], Any]] = (), *,
           references: bool = True) -> list[Case]:
    """Return the cases that are meant, each once, in the order of the tables.

    Parameters
    ----------
    args : str, int or iterable of int, optional
        Numbers of arguments of the empty kernel: ``"0-4"``, ``"0,2,4"``, ``"0-2,26"``, 3. Without `args` and `names`
        it is `DEFAULT_ARGS`.
    names : str or iterable of str, Case or callable
        Names of built-in cases, of groups (`groups`), or ``all``; cases of one's own. A string may name several,
        separated by commas.
    references : bool
        Whether what a case is also compared with comes too, before that case. What does not come is left out of
        `Case.against`.

    Raises
    ------
    StudyArgumentError
        If a number or name is unknown, with names that are near, or if two different cases have one name.
    """
    given = cast("object", names)
    if not (isinstance(given, Iterable | Case) or callable(given)):
        raise StudyArgumentError(f"cases={shown(names)} are no names and no cases; names are {', '.join(groups())}")
    wanted = [names] if isinstance(names, (str, Case)) or callable(names) else list(names)
    counts = parse_args(DEFAULT_ARGS if args is None and not wanted else args)
    known = catalogue()
    chosen: dict[str, Case] = {}
    found = [*(empty(count) for count in counts), *(one for what in wanted for one in _named(what, known))]
    own = {one.name: one for one in found if one.name not in known}
    if not found:
        raise StudyArgumentError(
            f"no case is named: there is nothing to measure. Groups are {', '.join(groups())}; the empty "
            "kernel's numbers of arguments are such as 0-4")
    for one in found:
        before = own.get(one.against or "") or _built_in(one.against, known)
        if one.against and before is None:
            raise StudyArgumentError(
                f"case {one.name!r} is to be compared with {one.against!r}, which is no case of the study"
                f"{did_you_mean(one.against, known, 3)}")
        if references and before is not None:
            _add(chosen, before)
        _add(chosen, one)
    return [one if one.against is None or one.against in chosen else replace(one, against=None)
            for one in chosen.values()]


def parse_args(args: str | int | Iterable[int] | None) -> list[int]:
    """Return the numbers of arguments that `args` means, each once, in its order.

    Raises
    ------
    StudyArgumentError
        If it is something else, or if a number is above `MOST_ARGS`.
    """
    if args is None:
        return []
    if isinstance(args, str):
        numbers = [number for part in args.split(",") if part.strip() for number in _range(part.strip(), args)]
    else:
        numbers: list[Any] = list(args) if isinstance(args, Iterable) else [args]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise StudyArgumentError(f"args={args!r}: {number!r} is no number of arguments")
        if not 0 <= int(number) <= MOST_ARGS:
            raise StudyArgumentError(f"a kernel with {number} arguments: a study makes kernels with 0 to {MOST_ARGS}")
    return list(dict.fromkeys(int(number) for number in numbers))


def _range(part: str, args: str) -> range:
    matched = re.fullmatch(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", part)
    if matched is None:
        raise StudyArgumentError(f"numbers of arguments {args!r}: {part!r} is no number and no range such as 0-4")
    first, last = int(matched[1]), int(matched[2] or matched[1])
    if last < first:
        raise StudyArgumentError(f"numbers of arguments {args!r}: {part!r} goes backwards; write {last}-{first}")
    return range(first, min(last, MOST_ARGS + 1) + 1)


def _named(what: str | Case | Callable[[], Any], known: dict[str, Case]) -> list[Case]:
    if isinstance(what, Case):
        return [what]
    if not isinstance(what, str):
        if not callable(what):
            raise StudyArgumentError(f"{shown(what)} is no case: name one, or make one with studies.case")
        return [case(what)]
    found: list[Case] = []
    for name in (part.strip() for part in what.split(",") if part.strip()):
        members = [one for one in known.values() if name in ("all", one.group)]
        one = _built_in(name, known)
        if not members and one is None:
            raise StudyArgumentError(f"there is no case and no group {name!r}; groups are {', '.join(groups())}; a "
                                     f"case of your own is studies.case({name!r}, setup=...)"
                                     f"{did_you_mean(name, [*known, *groups()], 3)}")
        found += members or ([one] if one is not None else [])
    return found


def _built_in(name: str | None, known: dict[str, Case]) -> Case | None:
    """Return the built-in case of that name, also one that is made on request: ``7 args``, ``graph of 50 kernels``."""
    if name is None or name in known:
        return known.get(name or "")
    matched = re.fullmatch(r"(\d{1,3}) args? \+ (?:no recorder|(python|native) recorder \((launch|phases)\))", name)
    if matched is not None:
        (count,) = parse_args(matched[1])
        return recorded(matched[2], matched[3], count) if matched[2] else unrecorded(count)
    for pattern, make in ((r"(\d{1,3}) args?", empty), (r"graph of (\d{1,4}) kernels?", graph),
                          (r"(\d{1,4}) launch(?:es)?", launches)):
        matched = re.fullmatch(pattern, name)
        if matched is not None and int(matched[1]) >= (0 if make is empty else 1):
            return empty(*parse_args(matched[1])) if make is empty else make(int(matched[1]))
    return None


def _add(chosen: dict[str, Case], one: Case) -> None:
    if chosen.setdefault(one.name, one) != one:
        raise StudyArgumentError(f"two different cases are called {one.name!r}: give one of them another name")


def _check_facts(name: str | None, args: int | None, against: str | None, most_loops: int | None) -> None:
    """Refuse what a case cannot be called, have, be compared with or hold."""
    for what, given in (("name", name), ("against", against)):
        if given is not None:
            text(what, given, "name of a case")
    if args is not None and not is_whole(args, 0):
        raise StudyArgumentError(f"args={shown(args)} is no number of arguments")
    if most_loops is not None and not is_whole(most_loops, 1):
        raise StudyArgumentError(f"most_loops={shown(most_loops)} is no number of loops from 1")


def _check(code: str, part: str, name: str) -> None:
    """Raise `StudyArgumentError` if `code` is no Python, or leaves the loop that it is put into."""
    try:
        compile(code, f"<{part} of {name}>", "exec")
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise StudyArgumentError(f"the {part} of case {name!r} is no Python{line}: {said}") from None


def _refuse_unfinished(function: Callable[[], Any]) -> None:
    """Raise `StudyArgumentError` for a function whose call runs nothing of it: it would be timed as a fast launch."""
    for kind, is_it in (("a coroutine", inspect.iscoroutinefunction), ("a generator", inspect.isgeneratorfunction),
                        ("an asynchronous generator", inspect.isasyncgenfunction)):
        if is_it(function) or is_it(getattr(function, "__call__", None)):  # noqa: B004 - what is called is looked at
            raise StudyArgumentError(f"a call of {_name_of(function)!r} makes {kind} and runs nothing of it: give a "
                                     "function that launches when it is called")


def _name_of(function: Callable[[], Any]) -> str:
    """Return what to call a callable: its name, or the text of a lambda."""
    name: str = getattr(function, "__name__", "") or type(function).__name__
    code: object = getattr(function, "__code__", None)
    if name != "<lambda>" or not isinstance(code, CodeType):
        return name
    return _shortened(_body(code)) or f"lambda at line {code.co_firstlineno}"


def _body(code: CodeType) -> str:
    """Return the source of a lambda's body, as far as its instructions say where it is; empty if they do not."""
    spots = [(line, column, last, end) for line, last, column, end in code.co_positions()
             if line is not None and last is not None and column is not None and end is not None and end > column]
    # That name is of all texts that were evaluated; newer Pythons keep one of them, the script of `python -c`.
    lines = [] if code.co_filename == "<string>" else linecache.getlines(code.co_filename)
    if not spots or not lines:
        return ""
    (line, column), (last, end) = min(spot[:2] for spot in spots), max(spot[2:] for spot in spots)
    # Columns count bytes of UTF-8.
    text = [one.encode() for one in lines[line - 1:last]]
    if len(text) != last - line + 1:
        return ""
    text[-1] = text[-1][:end]
    text[0] = text[0][column:]
    return b"".join(text).decode("utf-8", "replace")


def _shortened(text: str) -> str:
    """Return `text` on one line, at most 60 characters of it."""
    line = " ".join(inspect.cleandoc(text).split())
    return line if len(line) <= 60 else line[:59] + "…"


__all__: Sequence[str] = ("DEFAULT_ARGS", "MOST_ARGS", "args_name", "case", "catalogue", "empty", "graph", "groups",
                          "launches", "parse_args", "recorded", "select", "unrecorded")
