"""``roofline``: how far measured kernels are from the GPU's roofs, of ``.kscope`` files or of recorded cells."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.output import loaded, print_answer, print_written
from kernelscope.commands.show import find_cell
from kernelscope.commands.verb import Verb, add_json
from kernelscope.features.roofline.answer import roofline_answer
from kernelscope.features.roofline.view import roofline
from kernelscope.views.base import write_text
from kernelscope.views.html import document

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

_ABOUT = """\
Show the roofline of the kernels whose counters were measured: operations for each byte, operations a second, by what
each is bound, and how much of its roof it reaches. Several files are shown side by side."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("cells", metavar="CELL", nargs="*",
                            help="numbers or names of cells, side by side; the newest without")
        return
    parser.add_argument("files", metavar="FILE.kscope", nargs="+")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--svg", metavar="OUT.svg", help="write it as an SVG image")
    form.add_argument("--html", metavar="OUT.html", help="write a page with the figure")
    add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print or write the roofline; return the exit code."""
    recordings = [loaded(file) for file in arguments.files]
    view = roofline(*recordings)
    if arguments.svg:
        print_written(arguments, write_text(arguments.svg, ".svg", view.to_svg()), "svg")
    elif arguments.html:
        page = document("Roofline · KernelScope", f"<main>{view._repr_html_()}</main>")
        print_written(arguments, write_text(arguments.html, ".html", page), "html")
    elif arguments.json:
        print_answer(roofline_answer(recordings, arguments.limit))
    else:
        print(view)
    return 0


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Show the roofline of some cells."""
    roofline(*[find_cell(session.recordings, cell) for cell in asked.cells or [None]])._ipython_display_()


VERBS = {"roofline": Verb(_arguments, main, _magic, about=_ABOUT)}
