"""The picture of a CUDA graph in a notebook: live, with boxes that open, and a static picture for a saved notebook."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import traitlets
from IPython.core.getipython import get_ipython

from kernelscope.analysis.graph_layout import lay_out
from kernelscope.analysis.graph_nodes import read_graph
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import graph_dot, graph_svg, graph_text
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.files import checked, whole_file
from kernelscope.widgets.frontend import front_end
from kernelscope.widgets.graph_page import page, twin_html
from kernelscope.widgets.graph_wire import pack
from kernelscope.widgets.hosting import View


class GraphWidget(View):
    """The picture of one graph of a recording as a widget.

    In a notebook it is live: it is moved and zoomed, boxes open, a node that is chosen stands out with what is before
    and after it. A saved notebook shows a static picture. `str` of it is the same as text.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that the picture takes of the page's height, in pixels.

    Attributes
    ----------
    graph_id : int
        The graph that is shown.
    height : int
        As given, or 0.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named; the message lists those that it has.
    ValueError
        The height is not positive.
    """

    bundle = "graph"
    _esm = front_end("graph_widget")

    height = traitlets.Int(0, min=0).tag(sync=True)
    #: What a page calls it where it cannot be shown.
    what = traitlets.Unicode("the graph").tag(sync=True)

    def __init__(self, recording: Recording, graph_id: int | None = None, height: int | None = None) -> None:
        if height is not None and height <= 0:
            raise ValueError(f"height {height} is no height: give pixels, or None for as many as the graph needs")
        self._graph = read_graph(shareable(recording), graph_id)
        self._layout = lay_out(self._graph)
        self._notice = recording.notice
        super().__init__(height=height or 0)
        self.on_msg(_answer)

    @property
    def graph_id(self) -> int:
        """The graph that is shown: its row in ``graphs``."""
        return self._graph.graph_id

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language, bodies as clusters."""
        return graph_dot.dot(self._graph)

    def to_svg(self, path: str | Path | None = None) -> str:
        """Return the picture as an SVG document, and write it where a path is given.

        Parameters
        ----------
        path : str or Path, optional
            Where to; ``.svg`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        drawn = graph_svg.draw(self._graph, self._layout, notice=self._notice)
        if path is not None:
            _write(path, graph_svg.MAKES.suffix, drawn)
        return drawn

    def to_html(self, path: str | Path) -> Path:
        """Write the live picture as one HTML file that needs neither a server nor a kernel, and return its path.

        Parameters
        ----------
        path : str or Path
            Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return _write(path, ".html", page(self._graph, self._layout, self._notice))

    def send_data(self) -> None:
        """Send what is shown; a problem is sent as what it says."""
        try:
            packed = pack(self._graph, self._layout, self._notice)
        except Exception as problem:
            self.send({"kind": "error", "message": f"{type(problem).__name__}: {problem}"})
        else:
            self.send({"kind": "data", "header": {"title": words.headline(self._graph)}}, [packed])

    def twin(self) -> tuple[str, str]:
        """Return the graph as text, and its picture as static HTML."""
        return str(self), twin_html(self._graph, self._layout, self._notice)

    def __repr__(self) -> str:
        return graph_text.text(self._graph, self._layout, notice=self._notice)

    def __str__(self) -> str:
        return repr(self)

    def _ipython_display_(self) -> None:
        shell = get_ipython()
        if shell is not None and "text/html" not in getattr(shell.display_formatter, "active_types", ()):
            print(str(self))
            return
        self.show()


def graph(recording: Recording, graph_id: int | None = None, height: int | None = None) -> GraphWidget:
    """Return the picture of a CUDA graph: its nodes in layers, with kernel, launch configuration and time.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that the picture takes of the page's height, in pixels.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named; the message lists those that it has.
    ValueError
        The height is not positive.
    """
    return GraphWidget(recording, graph_id, height)


def _answer(widget: GraphWidget, content: object, buffers: object) -> None:
    if isinstance(content, dict) and cast("dict[str, object]", content).get("kind") == "ask":
        widget.send_data()


def _write(path: str | Path, suffix: str, text: str) -> Path:
    target = checked(path)
    if not target.suffix:
        target = target.with_suffix(suffix)
    with whole_file(target) as file:
        file.write(text.encode("utf-8"))
    return target
