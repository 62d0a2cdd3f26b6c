"""The timeline in a notebook: a live widget, and a static picture that stands in its place in a saved notebook.

A display is two outputs. The first is the widget; the second the picture, as HTML, which the widget's view hides while
it is shown. A saved notebook has no live widget, so that the picture is seen: in JupyterLab and Notebook, whose line
"Error displaying widget" the picture's style hides, in nbconvert's HTML, and where there are no widgets.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from importlib import resources
from typing import Any, cast
from weakref import WeakSet

import anywidget
import ipywidgets
import traitlets
from IPython.core.display_functions import publish_display_data
from IPython.core.getipython import get_ipython

from kernelscope.recording.model import Recording
from kernelscope.widgets.frontend import front_end
from kernelscope.widgets.packing import pack
from kernelscope.widgets.picture import describe, image

_VIEW = "application/vnd.jupyter.widget-view+json"

# JupyterLab and Notebook put each output of a cell into such a child; what draws a widget there is a panel. Both rules
# are about the widget that a picture follows: until it is live it is hidden, with what is said when its model is not
# found, and once it is live the place of the hidden picture takes no room.
_STYLE = (
    ".jp-OutputArea-child:has(> .jp-OutputArea-output.lm-Panel):has(+ .jp-OutputArea-child [data-ks-picture])"
    ":not(:has(.ks-live)) { display: none; }\n"
    ".jp-OutputArea-child:has(.ks-painted) + .jp-OutputArea-child:has([data-ks-picture]) { display: none; }\n"
)


class FrontEnd(ipywidgets.Widget):
    """The front end's text: one model in a kernel, which every timeline refers to."""

    source = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)


class TimelineWidget(anywidget.AnyWidget):
    """The timeline of a recording as a widget.

    Shown by itself it leaves a picture in a saved notebook; as a part of another widget it is the live view alone.
    The data are sent when it is shown, and again when a page that was loaded anew asks for them; they are no part of
    the widget's state, so that neither the kernel nor a notebook saved with its widgets keeps them.

    Parameters
    ----------
    recording : Recording
        What to show.
    height : int, optional
        The view's height in pixels; by default as high as its lanes need, within limits.

    Attributes
    ----------
    recording : Recording
        What is shown.
    height : int
        As given, or 0.
    """

    _esm = resources.files("kernelscope.widgets").joinpath("static/widget.js").read_text(encoding="utf-8")

    height = traitlets.Int(0, min=0).tag(sync=True)
    front_end = traitlets.Instance(FrontEnd).tag(sync=True, **ipywidgets.widget_serialization)
    picture = traitlets.Unicode().tag(sync=True)

    def __init__(self, recording: Recording, height: int | None = None) -> None:
        if height is not None and height <= 0:
            raise ValueError(f"height {height} is no height: give pixels, or None for as many as the lanes need")
        self.recording = recording
        super().__init__(height=height or 0, front_end=_shared_front_end(), picture=uuid.uuid4().hex)
        self.on_msg(_answer)

    def send_data(self) -> None:
        """Send header and payload to the page; a problem is sent as what it says."""
        try:
            packed = pack(self.recording)
        except Exception as problem:
            self.send({"kind": "error", "message": f"{type(problem).__name__}: {problem}"})
        else:
            self.send({"kind": "data", "header": packed.header}, [packed.payload])

    def _ipython_display_(self) -> None:
        _close_earlier(self)
        # The view first, which the page makes while the kernel packs; then the data, which it unpacks and paints while
        # the kernel draws the picture. What is told that data are coming does not ask for them.
        self.send({"kind": "coming"})
        view, metadata = cast(Any, self._repr_mimebundle_())
        # Where widgets are unknown nothing is shown twice: the picture and its text say it.
        publish_display_data({**view, "text/html": "<span hidden></span>", "text/plain": ""},
                             {**metadata, "kernelscope": {"timeline": "widget"}})
        self.send_data()
        picture = f'<style>{_STYLE}</style><div data-ks-picture="{self.picture}">{image(self.recording)}</div>'
        publish_display_data({"text/plain": describe(self.recording), "text/html": picture},
                             {"kernelscope": {"timeline": "picture"}})


def timeline(recording: Recording, height: int | None = None) -> TimelineWidget:
    """Return the timeline of a recording, which a notebook shows live and, once saved, as a picture.

    Parameters
    ----------
    recording : Recording
        What to show.
    height : int, optional
        Its height in pixels; by default as high as its lanes need, within limits.

    Raises
    ------
    ValueError
        The height is not positive.
    """
    return TimelineWidget(recording, height)


def _answer(widget: Any, content: object, buffers: object) -> None:
    if isinstance(content, dict) and cast(dict[str, object], content).get("kind") == "ask":
        widget.send_data()


@functools.cache
def _front_end_text() -> tuple[str, str]:
    text = front_end()
    return text, hashlib.sha256(text.encode()).hexdigest()


_shared: list[FrontEnd] = []


def _shared_front_end() -> FrontEnd:
    """The one model with the front end's text; made anew where `ipywidgets.Widget.close_all` closed it."""
    source, digest = _front_end_text()
    if not _shared or _shared[0].comm is None or _shared[0].digest != digest:
        _shared[:] = [FrontEnd(source=source, digest=digest)]
    return _shared[0]


# The timelines that each cell of the notebook has shown, by the front end's id of the cell, and in which run of it.
_shown: dict[str, tuple[str, WeakSet[TimelineWidget]]] = {}


def _close_earlier(widget: TimelineWidget) -> None:
    """Close what the running cell had shown when it ran before, and what cells had shown that are deleted since.

    A widget that is shown no more would otherwise be kept, with its recording, by the kernel and by the page.
    """
    cell, run, deleted = _running_cell()
    for each in deleted:
        _close(each)
    if cell is None:
        return
    if cell in _shown and _shown[cell][0] != run:
        _close(cell)
    _shown.setdefault(cell, (run, WeakSet()))[1].add(widget)


def _close(cell: str) -> None:
    for widget in _shown.pop(cell, ("", ()))[1]:
        widget.close()


def _running_cell() -> tuple[str | None, str, list[str]]:
    """The front end's id of the running cell, the id of this run, and the ids of deleted cells, as far as told."""
    shell: Any = get_ipython()
    parent = getattr(shell, "parent_header", None) or {}
    metadata, header = parent.get("metadata") or {}, parent.get("header") or {}
    return metadata.get("cellId"), str(header.get("msg_id", "")), list(metadata.get("deletedCells") or ())
