"""``%kernelscope attach``: follows one kernel by documented means."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import Verb
from kernelscope.errors import UnknownKernelError
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("kernel", metavar="KERNEL", help="an expression that is a kernel")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    try:
        kernel = session.shell.ev(asked.kernel)
    except Exception as error:
        from kernelscope.commands.inspect import live_kernels

        near = did_you_mean(asked.kernel, live_kernels(session.shell))
        raise UnknownKernelError(f"{asked.kernel!r} is no kernel: {type(error).__name__}: {error}{near}") from None
    if not session.attach(kernel):
        print(f"kernelscope: {asked.kernel} is attached when the next recording starts")


VERB = Verb(_arguments, magic=_magic, whole="kernel")
