"""``%kernelscope study``: launch-overhead studies in a notebook, in the command line's words."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core.error import UsageError

from kernelscope import cli_study, cli_study_parser, magic_output
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import explained, parse_arguments, see

#: The variable that holds the newest result.
VARIABLE = "_kernelscope_study"

_HELP = "%kernelscope study --help"


def run_study(shell: Any, line: str | None, keep: Callable[[Any], object] = lambda result: None) -> None:
    """Measure or read what the line asks for, and show it as an output of the running cell.

    The result, a `StudyResult`, `Comparison` or `AnatomyResult`, becomes the variable `VARIABLE`. What was measured
    before a Ctrl-C is shown as well.

    Parameters
    ----------
    shell : InteractiveShell
        Where the cell runs, and is shown. A name after ``--case`` may be one of its variables: a `Case`, or a callable.
    line : str or None
        What follows ``study``; ``launch`` is meant where it names nothing to do.
    keep : callable
        Called with the result, before it is shown.

    Raises
    ------
    UsageError
        The line is wrong, or it cannot be had; one line says why.
    """
    arguments = parse(line)
    if arguments is None:
        return
    try:
        told = cli_study.told_only(arguments)
        if told is not None:
            print(told)
            return
        cli_study.check_outputs(arguments)
        for name in ("cases", "case"):
            setattr(arguments, name, _cases(shell, getattr(arguments, name, None)))
        result, is_partial = _measured(arguments)
        shell.push({VARIABLE: result}, interactive=False)
        keep(result)
        _show(shell, result, arguments, is_partial=is_partial)
    except KernelScopeError as error:
        raise UsageError(_one_line(error)) from None
    if is_partial:
        # The notebook's next cells must not run as if the study were whole.
        raise KeyboardInterrupt(f"the study was interrupted; {VARIABLE} has what was measured") from None


def parse(line: str | None) -> argparse.Namespace | None:
    """Return what a line asks for; None where it asked for help, which has been printed.

    Raises
    ------
    UsageError
        It is wrong; one line says what is allowed.
    """
    try:
        lexer = shlex.shlex(line or "", posix=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise UsageError(see(f"{_one_line(error).lower()} in {(line or '').strip()!r}", _HELP)) from None
    is_whole = words[:1] in (["-h"], ["--help"])
    if not is_whole and (not words or words[0].startswith("-")):
        words.insert(0, cli_study_parser.VERBS[0])
    parser = _Parser(prog="%kernelscope study")
    cli_study_parser.fill(parser, in_notebook=True)
    try:
        return parse_arguments(parser, words)
    except _HelpShown:
        return None


def forget(shell: Any, result: Any) -> None:
    """Take the variable out of the shell, if it still is what was put there."""
    if result is not None and shell.user_ns.get(VARIABLE) is result:
        shell.drop_by_id({VARIABLE: result})


class _HelpShown(Exception):
    """Help was printed: there is nothing to do."""


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are a `UsageError` of one line, and nothing ends the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(see(explained(self, message), f"{self.prog} --help"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _HelpShown


def _measured(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """The result, and whether an interruption left a part of it."""
    try:
        return cli_study.run(arguments), False
    except KeyboardInterrupt as stopped:
        result = cli_study.partial_result(stopped)
        if result is None:
            # Without the frames of ours in which it was.
            raise KeyboardInterrupt(str(stopped)) from None
        return result, True


def _show(shell: Any, result: Any, arguments: argparse.Namespace, *, is_partial: bool) -> None:
    """Write files, and show the card, the figures that were asked for, and what the limit came to."""
    data = {"text/plain": str(result)}
    html = "text/html" in getattr(shell.display_formatter, "active_types", ())
    if html:
        data["text/html"] = result._repr_html_()
    shell.display_pub.publish(data=data, metadata={"kernelscope": {"study": True}})
    if getattr(arguments, "charts", False):
        if html:
            _show_figures(shell, result)
        else:
            magic_output.report(f"--charts needs a notebook; {VARIABLE}.figures() has them")
    found = None if is_partial else cli_study.limit_check(result, arguments)
    for said in [*cli_study.write(result, arguments), *(str(found).splitlines() if found is not None else [])]:
        print(f"kernelscope: {said}")


def _show_figures(shell: Any, result: Any) -> None:
    """Show the result's figures; a problem of ours with them must not look like one of the study."""
    try:
        from kernelscope.renderers.charts_html import figures_html

        html = figures_html(result.figures())
    except Exception as error:
        magic_output.report(f"the figures cannot be shown: {type(error).__name__}: {error}")
    else:
        shell.display_pub.publish(data={"text/plain": "figures", "text/html": html})


def _cases(shell: Any, names: list[str] | None) -> list[Any] | None:
    """Cases by name, with the user's variables in the place of their names."""
    if names is None:
        return None
    from kernelscope.studies.case import Case

    found: list[Any] = []
    for name in names:
        value = shell.user_ns.get(name) if name.isidentifier() else None
        found.append(value if isinstance(value, Case) or callable(value) else name)
    return found


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
