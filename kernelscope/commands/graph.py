"""``kernelscope graph``: a CUDA graph of a ``.kscope`` file as text, for Graphviz, as a picture or as a page."""

from __future__ import annotations

import argparse
import sys

from kernelscope.commands.output import progress
from kernelscope.recording.file import load
from kernelscope.views.base import checked, whole_file
from kernelscope.views.graph.model import find_graph
from kernelscope.views.graph.svg import graph_svg
from kernelscope.views.graph.text import graph_text, to_dot


def main(arguments: argparse.Namespace) -> int:
    """Print or write what was asked for; return the exit code."""
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    graph_id = find_graph(recording, arguments.graph)
    if arguments.dot:
        sys.stdout.write(to_dot(recording, graph_id))
    elif arguments.svg:
        target = checked(arguments.svg)
        with whole_file(target) as file:
            file.write(graph_svg(recording, graph_id).encode("utf-8"))
        print(f"wrote {target}")
    elif arguments.html:
        # A widget needs IPython's machinery, which text and pictures do without.
        from kernelscope.views.graph.widget import GraphWidget

        print(f"wrote {GraphWidget(recording, graph_id).to_html(arguments.html)}")
    else:
        print(graph_text(recording, graph_id))
    return 0
