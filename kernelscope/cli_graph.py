"""``kernelscope graph``: a CUDA graph of a ``.kscope`` file as text, for Graphviz, as a picture or as a page."""

from __future__ import annotations

import argparse
import sys

from kernelscope.analysis.graph_nodes import find_graph
from kernelscope.magic_output import progress
from kernelscope.recording.io import load
from kernelscope.renderers.files import checked, whole_file
from kernelscope.renderers.graph_dot import to_dot
from kernelscope.renderers.graph_svg import graph_svg
from kernelscope.renderers.graph_text import graph_text


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
        from kernelscope.widgets.graph import GraphWidget

        print(f"wrote {GraphWidget(recording, graph_id).to_html(arguments.html)}")
    else:
        print(graph_text(recording, graph_id))
    return 0
