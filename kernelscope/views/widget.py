"""What the live views share in a notebook: the front ends' texts, their models, outputs, and when they close."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, cast
from weakref import WeakSet

import anywidget
import ipywidgets
import traitlets
from IPython.core.display_functions import publish_display_data
from IPython.core.getipython import get_ipython

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_REEXPORT = re.compile(r"^export \{[^}]*\};\n", re.MULTILINE)


@dataclass(frozen=True)
class Bundle:
    """Modules that become one.

    Attributes
    ----------
    modules : tuple of str
        Names in ``static/``, in order: what a module imports comes before it.
    styles : tuple of str
        Style sheets in ``static/``; they become the constant ``STYLE``, where there are any.
    exports : str
        The statement that exports, at the end; empty where a module's own ``export default`` is kept.
    """

    modules: tuple[str, ...]
    styles: tuple[str, ...] = ()
    exports: str = "export { mount };\n"


#: The code view's modules, in order, after ``text``; their style sheet is ``code.css``.
CODE = (
    "code_dom", "code_text", "code_highlight", "code_folds", "code_line", "code_rows", "code_select", "code_find",
    "code_strip", "code_bar", "code_keys", "code_view", "code_align", "code_pairs", "code_diff",
)

#: Front ends, and the small modules that anywidget loads, which fetch a front end's text from its model.
BUNDLES = {
    "timeline": Bundle((
        "text", "data", "levels", "colors", "describe", "layout", "search", "sums", "view", "overlay", "paint",
        "minimap", "panels", "controls", "timeline",
    ), ("timeline",)),
    "timeline_widget": Bundle(("hosting", "widget"), exports=""),
    "inspector": Bundle((
        "text", *CODE, "inspector_elements", "inspector_kernels", "inspector_table", "inspector_panes",
        "inspector_passes", "inspector_code", "inspector_compare", "inspector_tabs", "inspector",
    ), ("code", "inspector")),
    "inspector_widget": Bundle(("hosting", "inspector_widget"), exports=""),
    "graph": Bundle(("text", "graph_place", "graph_draw", "graph_view", "graph_relations", "graph"), ("graph",)),
    "graph_widget": Bundle(("hosting", "widget"), exports=""),
}


@cache
def front_end(name: str = "timeline") -> str:
    """Return one of `BUNDLES` as an ES module that imports nothing: those of a view export `mount`."""
    bundle = BUNDLES[name]
    parts = [f"const STYLE = {json.dumps(style_sheet(name))};\n"] if bundle.styles else []
    for module in bundle.modules:
        text = _REEXPORT.sub("", _IMPORT.sub("", _read(f"{module}.js")))
        parts.append(re.sub(r"^export (?=(async )?(function|class|const|let) )", "", text, flags=re.MULTILINE))
    return "\n".join([*parts, bundle.exports] if bundle.exports else parts)


@cache
def style_sheet(name: str = "timeline") -> str:
    """Return a bundle's style sheets as one; `mount` brings them along."""
    return "".join(_read(f"{style}.css") for style in BUNDLES[name].styles)


def _read(name: str) -> str:
    return files("kernelscope").joinpath("static", name).read_text(encoding="utf-8")


# What the live views share in a notebook: their front ends' models, their outputs, and when they are closed.
#
# A display is two outputs. The first is the widget; the second its static twin, as HTML, which the widget's view
# hides while it is shown. A saved notebook has no live widget, so that the twin is seen: in JupyterLab and
# Notebook, whose line "Error displaying widget" the twin's style hides, in nbconvert's HTML, and where there are
# no widgets.

_VIEW = "application/vnd.jupyter.widget-view+json"

# JupyterLab and Notebook put each output of a cell into such a child; what draws a widget there is a panel. Both rules
# are about the widget that a twin follows: until it is live it is hidden, with what is said when its model is not
# found, and once it is live the place of the hidden twin takes no room.
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
    """A live view with a static twin; its data are sent in messages, and are no part of a saved notebook's state.

    A subclass names its bundle, and makes the twin and the data.

    Attributes
    ----------
    picture : str
        By what name its page finds the static twin.
    """

    #: Which of `kernelscope.views.widget.BUNDLES` draws it.
    bundle: ClassVar[str]

    front_end = traitlets.Instance(FrontEnd).tag(sync=True, **ipywidgets.widget_serialization)
    picture = traitlets.Unicode().tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(front_end=shared_front_end(self.bundle), picture=uuid.uuid4().hex, **state)

    def send_data(self) -> None:
        """Send the page what it shows."""
        raise NotImplementedError

    def twin(self) -> tuple[str, str]:
        """Return the static twin as plain text and as HTML."""
        raise NotImplementedError

    def show(self) -> None:
        """Display the view and its twin as outputs of the running cell."""
        close_earlier(self)
        # The view first, which the page makes while the kernel makes the data; then the data, which it paints while
        # the kernel makes the twin. What is told that data are coming does not ask for them.
        self.send({"kind": "coming"})
        view, metadata = cast(Any, self._repr_mimebundle_())
        # Where widgets are unknown nothing is shown twice: the twin and its text say it.
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
        """Replace the static twin by one of what is shown now."""
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


@functools.cache
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
    """The page's id of the running cell, the id of this run, and the ids of deleted cells, as far as told."""
    shell: Any = get_ipython()
    parent = getattr(shell, "parent_header", None) or {}
    metadata, header = parent.get("metadata") or {}, parent.get("header") or {}
    return metadata.get("cellId"), str(header.get("msg_id", "")), list(metadata.get("deletedCells") or ())
