"""``%kernelscope dryrun``: switches the dry run on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    from kernelscope import dryrun

    dryrun.enable()
    print("kernelscope: dry run: kernels compile and launch, and do not execute")


VERB = Verb(magic=_magic)
