"""``%kernelscope on``, ``off``, ``status``, ``attach``, ``dryrun``: what a notebook records, and how."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from kernelscope.commands.cell import CellOptions
from kernelscope.commands.recover import journal_for
from kernelscope.commands.verb import Verb, recording_options
from kernelscope.errors import UnknownKernelError
from kernelscope.recorder.option import ON
from kernelscope.recorder.options import add_arguments
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _on_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="show no cards")
    add_arguments(parser, ON)


def _on(session: NotebookSession, asked: Namespace) -> None:
    recording_options(asked, asked.parser, journal=None)  # what does not go together makes no journal
    journal, problem = journal_for(asked.journal)
    session.always = CellOptions(recording_options(asked, asked.parser, journal=journal), quiet=asked.quiet)
    shown = "no cards are shown" if asked.quiet else "cells that launch and compile nothing show no card"
    print(f"kernelscope: every cell from the next one on is recorded; {shown}")
    if problem is not None:
        print(f"kernelscope: {problem}")


def _off(session: NotebookSession, asked: Namespace) -> None:
    session.always = None
    print("kernelscope: only cells that begin with %%kernelscope are recorded")


def _status(session: NotebookSession, asked: Namespace) -> None:
    print(session.state())


def _attach_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("kernel", metavar="KERNEL", help="an expression that is a kernel")


def _attach(session: NotebookSession, asked: Namespace) -> None:
    try:
        kernel = session.shell.ev(asked.kernel)
    except Exception as error:
        from kernelscope.commands.inspect import live_kernels

        near = did_you_mean(asked.kernel, live_kernels(session.shell))
        raise UnknownKernelError(f"{asked.kernel!r} is no kernel: {type(error).__name__}: {error}{near}") from None
    if not session.attach(kernel):
        print(f"kernelscope: {asked.kernel} is attached when the next recording starts")


def _dryrun(session: NotebookSession, asked: Namespace) -> None:
    from kernelscope import dryrun

    dryrun.enable()
    print("kernelscope: dry run: kernels compile and launch, and do not execute")


VERBS = {
    "on": Verb(_on_arguments, magic=_on),
    "off": Verb(magic=_off),
    "status": Verb(magic=_status),
    "attach": Verb(_attach_arguments, magic=_attach, whole="kernel"),
    "dryrun": Verb(magic=_dryrun),
}
