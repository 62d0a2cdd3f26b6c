"""What the live views share in a notebook: the front ends' texts, their models, outputs, and when they close."""

from __future__ import annotations

import hashlib
import uuid
import zlib
from abc import ABCMeta, abstractmethod
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, cast
from weakref import WeakSet

import anywidget
import ipywidgets
import traitlets
from IPython.core.display_functions import publish_display_data
from IPython.core.getipython import get_ipython

from kernelscope.views.html import style_element


@cache
def front_end(name: str) -> str:
    """Return one of the modules that ``frontend/`` builds into ``static/``; it imports nothing.

    ``timeline``, ``inspector``, ``graph`` and ``cells`` export `mount` and bring their style sheets along;
    ``widget`` and ``inspector_widget`` are what anywidget loads, which fetch those from their models;
    ``timeline_page``, ``inspector_page``, ``graph_page`` and ``cards_page`` show what a page of its own holds. Features
    name theirs in a `kernelscope.registry.LiveDrawing`.
    """
    return files("kernelscope").joinpath("static", f"{name}.js").read_text(encoding="utf-8")


# A display is two outputs. The first is the widget; the second its static version, as HTML, which the widget's view
# hides while it is shown. A saved notebook has no live widget, so that the static version is seen: in JupyterLab and
# Notebook, whose line "Error displaying widget" the static version's style hides, in nbconvert's HTML, and where there
# are no widgets.

#: Data of more bytes are packed faster, and a little larger.
_LONG = 100_000

# JupyterLab and Notebook put each output of a cell into such a child; what draws a widget there is a panel. Both rules
# are about the widget that a static version follows: until it is live it is hidden, with the message of a model
# that is not found, and once it is live the place of the hidden static version takes no room. The third and fourth make
# a picture light or dark as the notebook's theme is; without them it follows the system.
_STYLE = (
    ".jp-OutputArea-child:has(> .jp-OutputArea-output.lm-Panel):has(+ .jp-OutputArea-child [data-ks-picture])"
    ":not(:has(.ks-live)) { display: none; }\n"
    ".jp-OutputArea-child:has(.ks-painted) + .jp-OutputArea-child:has([data-ks-picture]) { display: none; }\n"
    ":is([data-jp-theme-light=true], .vscode-light) [data-ks-picture] img { color-scheme: light; }\n"
    ":is([data-jp-theme-light=false], .vscode-dark) [data-ks-picture] img { color-scheme: dark; }\n"
)


class FrontEnd(ipywidgets.Widget):
    """A front end's text: one model in a kernel, which every view of its kind refers to.

    It is deflated, because a notebook that is saved with its widgets' state holds it.
    """

    source = traitlets.Bytes().tag(sync=True)
    digest = traitlets.Unicode().tag(sync=True)


class _AbstractWidget(ABCMeta, traitlets.MetaHasTraits):
    """The metaclass of widgets with abstract methods."""


class View(anywidget.AnyWidget, metaclass=_AbstractWidget):
    """A live view with a static version; its data are sent in messages, and are no part of a saved notebook's state.

    A subclass names its bundle, and makes the data and the static version.

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
        self.on_msg(_received)

    @abstractmethod
    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return what the page shows: fields of its message, and a packed buffer."""

    @abstractmethod
    def static_version(self) -> tuple[str, str]:
        """Return the static version as plain text and as HTML, without the paths of this machine."""

    def send_data(self) -> None:
        """Send the page what it shows, or what went wrong."""
        try:
            fields, packed = self.data()
        except Exception as problem:
            self.send({"kind": "error", "message": message_of(problem)})
        else:
            self.send({"kind": "data", **fields}, [packed])

    def asked(self, question: dict[str, Any]) -> None:
        """Answer a question of the page: by default with the data."""
        self.send_data()

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
        self.publish_static()

    def close(self) -> None:
        """Close the view, with its layout, which would otherwise stay in the kernel and the page."""
        if self.comm is not None:
            self.layout.close()
        super().close()

    def publish_static(self, *, update: bool = False) -> None:
        """Display the static version of what is shown now, with `update` in place of the earlier one."""
        text, html = self.static_version()
        html = f'{style_element(_STYLE)}<div data-ks-picture="{self.picture}">{html}</div>'
        publish_display_data({"text/plain": text, "text/html": html}, {"kernelscope": {self.bundle: "picture"}},
                             transient={"display_id": f"kernelscope-{self.picture}"}, update=update)

    def _ipython_display_(self) -> None:
        shell: Any = get_ipython()
        if shell is not None and "text/html" not in getattr(shell.display_formatter, "active_types", ()):
            print(self.static_version()[0])
        else:
            self.show()


def _received(view: View, content: object, buffers: object) -> None:
    if isinstance(content, dict) and (asked := cast("dict[str, Any]", content)).get("kind") == "ask":
        view.asked(asked)


def message_of(problem: BaseException) -> str:
    """Return what a page says of an exception."""
    return f"{type(problem).__name__}: {problem}"


def checked_height(height: int | None, content: str) -> int:
    """Return the height of a view in pixels; 0 for None, which is as much as its content needs.

    Raises
    ------
    ValueError
        It is not positive.
    """
    if height is not None and height <= 0:
        raise ValueError(f"height {height} is no height: give pixels, or None for as many as the {content}")
    return height or 0


def deflated(data: bytes, level: int | None = None) -> bytes:
    """Return a raw deflate stream, by default at a level that favors speed for long data."""
    level = level or (6 if len(data) < _LONG else 1)
    packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def shared_front_end(bundle: str) -> FrontEnd:
    """Return the one model with a front end's text; made anew where `ipywidgets.Widget.close_all` closed it."""
    source, digest = _text(bundle)
    held = _shared.get(bundle)
    if held is None or held.comm is None or held.digest != digest:
        held = _shared[bundle] = FrontEnd(source=source, digest=digest)
    return held


_shared: dict[str, FrontEnd] = {}


@cache
def _text(bundle: str) -> tuple[bytes, str]:
    text = front_end(bundle).encode()
    return deflated(text, level=9), hashlib.sha256(text).hexdigest()


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
