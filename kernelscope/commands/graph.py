"""``graph``: a CUDA graph of a ``.kscope`` file, or of what a notebook has recorded."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kernelscope.commands.output import loaded, print_answer, print_written
from kernelscope.commands.verb import Verb, add_json, number
from kernelscope.errors import UnknownGraphError
from kernelscope.views.base import checked, whole_file
from kernelscope.views.graph.answer import graph_answer
from kernelscope.views.graph.model import find_graph
from kernelscope.views.graph.svg import graph_svg
from kernelscope.views.graph.text import graph_text, to_dot

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

_ABOUT = """\
Show a CUDA graph of a .kscope file: its nodes in layers, with kernel, launch configuration and time; of a graph of more
than 80 nodes a summary.

ID is the graph's row in the table graphs; a file with one graph needs none."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if not in_notebook:
        parser.add_argument("file", metavar="FILE.kscope")
    parser.add_argument("graph", metavar="ID", nargs="?", help="which graph: its row in the table graphs",
                        type=number("a graph's number" + ("" if in_notebook else "; FILE.kscope comes before it"), 0))
    if not in_notebook:
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--dot", action="store_true", help="print it in Graphviz's language")
        form.add_argument("--svg", metavar="OUT.svg", help="write it as an SVG image")
        form.add_argument("--html", metavar="OUT.html", help="write a page in which it is moved, zoomed and opened")
        add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print or write the graph; return the exit code."""
    if arguments.dot and arguments.json:
        arguments.parser.error("--json prints nodes and edges as JSON; leave out --dot")
    recording = loaded(arguments.file)
    graph_id = find_graph(recording, arguments.graph)
    if arguments.dot:
        sys.stdout.write(to_dot(recording, graph_id))
    elif arguments.svg:
        target = checked(arguments.svg)
        with whole_file(target) as file:
            file.write(graph_svg(recording, graph_id).encode("utf-8"))
        print_written(arguments, target, "svg")
    elif arguments.html:
        # A widget needs IPython's machinery, which text and pictures do without.
        from kernelscope.views.graph.widget import GraphWidget

        print_written(arguments, GraphWidget(recording, graph_id).to_html(arguments.html), "html")
    elif arguments.json:
        print_answer(graph_answer(recording, graph_id, arguments.limit))
    else:
        print(graph_text(recording, graph_id))
    return 0


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Show a graph of the newest recording that has one."""
    from kernelscope.views.graph.widget import GraphWidget

    found = next((each for each in reversed(session.recordings) if each.arrow("graphs").num_rows), None)
    if found is None:
        raise UnknownGraphError("no recorded graph: no cell that was recorded built or launched a CUDA graph")
    GraphWidget(found, asked.graph)._ipython_display_()


VERBS = {"graph": Verb(_arguments, main, _magic, about=_ABOUT)}
