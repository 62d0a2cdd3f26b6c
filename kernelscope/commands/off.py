"""``%kernelscope off``: ends what ``%kernelscope on`` began."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    session.always = None
    print("kernelscope: only cells that begin with %%kernelscope are recorded")


VERB = Verb(magic=_magic)
