"""What the live views share in a notebook: the front ends' texts, their models, outputs, and when they close."""

from __future__ import annotations

import hashlib
import uuid
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, cast
from weakref import WeakSet

import anywidget
import ipywidgets
import traitlets
from IPython.core.display_functions import publish_display_data
from IPython.core.getipython import get_ipython


@cache
def front_end(name: str) -> str:
    """Return one of the modules that ``frontend/`` builds into ``static/``; it imports nothing.

    ``timeline``, ``inspector`` and ``graph`` export `mount` and bring their style sheets along; ``widget`` and
    ``inspector_widget`` are what anywidget loads, which fetch those from their models; ``timeline_page`` and
    ``graph_page`` show what a page of its own holds.
    """
    return files("kernelscope").joinpath("static", f"{name}.js").read_text(encoding="utf-8")


# What the live views share in a notebook: their front ends' models, their outputs, and when they are closed.
#
# A display is two outputs. The first is the widget; the second its static version, as HTML, which the widget's view
# hides while it is shown. A saved notebook has no live widget, so that the static version is seen: in JupyterLab and
# Notebook, whose line "Error displaying widget" the static version's style hides, in nbconvert's HTML, and where there
# are no widgets.

_VIEW = "application/vnd.jupyter.widget-view+json"

# JupyterLab and Notebook put each output of a cell into such a child; what draws a widget there is a panel. Both rules
# are about the widget that a static version follows: until it is live it is hidden, with the message of a model
# that is not found, and once it is live the place of the hidden static version takes no room.
_STYLE = (
    ".jp-OutputArea-child:has(> .jp-OutputArea-output.lm-Panel):has(+ .jp-OutputArea-child [data-ks-picture])"
    ":not(:has(.ks-live)) { display: none; }\n"
    ".jp-OutputArea-child:has(.ks-painted) + .jp-OutputArea-child:has([data-ks-picture]) { display: none; }\n"
)


class FrontEnd(ipywidgets.Widget):
    """A front end's text: one model in a kernel, which every view of its kind refers to."""

    source = traitlets.Unicode().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)


class View(anywidget.AnyWidget):
    """A live view with a static version; its data are sent in messages, and are no part of a saved notebook's state.

    A subclass names its bundle, and makes the static version and the data.

    Attributes
    ----------
    picture : str
        By what name its page finds the static version.
    """

    #: Which front end draws it.
    bundle: ClassVar[str]

    front_end = traitlets.Instance(FrontEnd).tag(sync=True, **ipywidgets.widget_serialization)
    picture = traitlets.Unicode().tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(front_end=shared_front_end(self.bundle), picture=uuid.uuid4().hex, **state)

    def send_data(self) -> None:
        """Send the page what it shows."""
        raise NotImplementedError

    def twin(self) -> tuple[str, str]:
        """Return the static version as plain text and as HTML."""
        raise NotImplementedError

    def show(self) -> None:
        """Display the view and its static version as outputs of the running cell."""
        close_earlier(self)
        # The view first, which the page makes while the kernel makes the data; then the data, which it paints while
        # the kernel makes the static version. What is told that data are coming does not ask for them.
        self.send({"kind": "coming"})
        view, metadata = cast(Any, self._repr_mimebundle_())
        # Where widgets are unknown nothing is shown twice: the static version and its text say it.
        publish_display_data({**view, "text/html": "<span hidden></span>", "text/plain": ""},
                             {**metadata, "kernelscope": {self.bundle: "widget"}})
        self.send_data()
        self._publish_twin(update=False)

    def close(self) -> None:
        """Close the view, with its layout, which would otherwise stay in the kernel and the page."""
        if self.comm is not None:
            self.layout.close()
        super().close()

    def show_twin_again(self) -> None:
        """Replace the static version by one of what is shown now."""
        self._publish_twin(update=True)

    def _publish_twin(self, *, update: bool) -> None:
        text, html = self.twin()
        html = f'<style>{_STYLE}</style><div data-ks-picture="{self.picture}">{html}</div>'
        publish_display_data({"text/plain": text, "text/html": html}, {"kernelscope": {self.bundle: "picture"}},
                             transient={"display_id": f"kernelscope-{self.picture}"}, update=update)


def shared_front_end(bundle: str) -> FrontEnd:
    """Return the one model with a front end's text; made anew where `ipywidgets.Widget.close_all` closed it."""
    source, digest = _text(bundle)
    held = _shared.get(bundle)
    if held is None or held.comm is None or held.digest != digest:
        held = _shared[bundle] = FrontEnd(source=source, digest=digest)
    return held


_shared: dict[str, FrontEnd] = {}


@cache
def _text(bundle: str) -> tuple[str, str]:
    text = front_end(bundle)
    return text, hashlib.sha256(text.encode()).hexdigest()


# The views that each cell of the notebook has shown, by the page's id of the cell, and in which run of it.
_shown: dict[str, tuple[str, WeakSet[View]]] = {}


def close_earlier(widget: View) -> None:
    """Close what the running cell had shown when it ran before, and what cells had shown that are deleted since.

    A widget that is shown no more would otherwise be kept, with its recording, by the kernel and by the page.
    """
    close_deleted()
    cell, run, _ = _running_cell()
    if cell is None:
        return
    if cell in _shown and _shown[cell][0] != run:
        _close(cell)
    _shown.setdefault(cell, (run, WeakSet()))[1].add(widget)


def close_deleted() -> None:
    """Close what cells had shown that are deleted, as the page tells with the next cell that runs, and only then."""
    for each in _running_cell()[2]:
        _close(each)


def _close(cell: str) -> None:
    for widget in _shown.pop(cell, ("", ()))[1]:
        widget.close()


def _running_cell() -> tuple[str | None, str, list[str]]:
    """Return the page's ids of the running cell, of this run and of deleted cells, where known."""
    shell: Any = get_ipython()
    parent = getattr(shell, "parent_header", None) or {}
    metadata, header = parent.get("metadata") or {}, parent.get("header") or {}
    return metadata.get("cellId"), str(header.get("msg_id", "")), list(metadata.get("deletedCells") or ())
