"""``%kernelscope status``: says what is on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    print(session.state())


VERB = Verb(magic=_magic)
