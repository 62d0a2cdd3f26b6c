"""A Sphinx directive that shows a view of a recording live, as the page of its own that the package writes.

::

    ```{kernelscope} timeline gpu.kscope
    :height: 480
    ```

The page is written once into ``_static/kernelscope``, however many pages show it, and shown there in a frame, which is
loaded when it comes near. It holds its data and its script, and without scripts a picture or a table.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

import kernelscope
from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.views.charts import figures_html
from kernelscope.views.graph import widget as graph
from kernelscope.views.graph.layout import drawing_of
from kernelscope.views.html import FRAMED, document
from kernelscope.views.inspector import page as inspector
from kernelscope.views.page import card_page, timeline_page

RECORDINGS = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
FOLDER = "_static/kernelscope"
#: Written once for all rooflines: it is the only thing that pages of this folder have in common.
PLOTLY = "plotly.min.js"


class View(NamedTuple):
    """A view of a recording: its kind, the recording's file, and which kernel, graph or cell it begins with."""

    kind: str
    recording: str
    which: str = ""

    @property
    def page(self) -> str:
        """Return the name of its page: one inspector has all kernels."""
        which = [self.which] if self.which and self.kind != "inspector" else []
        return "-".join([self.kind, Path(self.recording).stem, *which]) + ".html"

    @property
    def uri(self) -> str:
        """Return where it is from the site's root."""
        return f"{FOLDER}/{self.page}" + (f"#{self.which}" if self.which and self.kind == "inspector" else "")


def _timeline(recording: Recording, which: str) -> str:
    return timeline_page(recording)


def _card(recording: Recording, which: str) -> str:
    return card_page(recording.select(cell=int(which)) if which else recording)


def _inspector(recording: Recording, which: str) -> str:
    return inspector.page(recording, which or None)  # which is checked so, and every link names its own


def _graph(recording: Recording, which: str) -> str:
    return graph.page(drawing_of(recording, int(which) if which else None), framed=True)


def _roofline(recording: Recording, which: str) -> str:
    import plotly

    view = recording.roofline()
    held = f'window.__kernelscopePlotly = {{"{plotly.__version__}": window.Plotly}};'
    body = (f'<main><script src="{PLOTLY}"></script><script>{held}</script>'
            f"{figures_html([view.figure()], recording.notice, with_library=False)}"
            f"<noscript>{view.to_svg()}<style>.ks-charts-note {{ display: none; }}</style></noscript></main>")
    style = f"{FRAMED} main svg {{ max-width: 100%; }}"
    return document("Roofline · KernelScope", body, style)


KINDS: dict[str, Callable[[Recording, str], str]] = {
    "card": _card, "timeline": _timeline, "inspector": _inspector, "graph": _graph, "roofline": _roofline,
}


class LiveView(nodes.General, nodes.Element):
    """A frame with a view."""


class KernelScopeDirective(SphinxDirective):
    """Show a view: ``{kernelscope} KIND FILE.kscope``, and as options the frame's height and what it begins with."""

    required_arguments = 2
    option_spec = {"height": directives.positive_int, "which": directives.unchanged, "title": directives.unchanged}  # noqa: RUF012 - docutils has it so

    def run(self) -> list[nodes.Node]:
        """Return the frame, and have its page written when all pages are read."""
        kind, name = self.arguments
        if kind not in KINDS:
            raise self.error(f"there is no view {kind!r}; known: {', '.join(KINDS)}")
        if not (RECORDINGS / name).is_file():
            raise self.error(f"there is no recording {name!r} in notebooks/recordings")
        self.env.note_dependency(str(RECORDINGS / name))
        view = View(kind, name, self.options.get("which", ""))
        _views(self.env).setdefault(self.env.docname, set()).add(view)
        title = self.options.get("title") or f"{kind.capitalize()} of {name}"
        return [LiveView(uri=view.uri, title=title, height=self.options.get("height", 480))]


def _views(env: BuildEnvironment) -> dict[str, set[View]]:
    """Return the views of each page."""
    if not hasattr(env, "kernelscope_views"):
        env.kernelscope_views = {}
    return env.kernelscope_views


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _views(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    _views(env).update({name: _views(other)[name] for name in docnames if name in _views(other)})


def _write(app: Sphinx, problem: Exception | None) -> None:
    """Write every page that is shown, and none that is no longer."""
    if problem is not None or app.builder.format != "html":
        return
    # accessible-pygments, which furo brings along, has every library's INFO printed: the layout of graphs says much.
    logging.getLogger().setLevel(logging.WARNING)
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    views = sorted(set().union(*_views(app.env).values()))
    kept = {view.page for view in views}
    if any(view.kind == "roofline" for view in views):
        from plotly.offline import get_plotlyjs

        kept.add(PLOTLY)
        (folder / PLOTLY).write_text(get_plotlyjs(), encoding="utf-8")
    for view in views:
        try:
            text = KINDS[view.kind](kernelscope.load(RECORDINGS / view.recording), view.which)
        except (KernelScopeError, ValueError) as error:
            raise ExtensionError(f"{{kernelscope}} {view.kind} {view.recording}: {error}") from error
        (folder / view.page).write_text(text, encoding="utf-8")
    for each in folder.iterdir():
        if each.name not in kept:
            each.unlink()


def _visit(self: Any, node: LiveView) -> None:
    page, _, which = node["uri"].partition("#")
    uri = relative_uri(self.builder.get_target_uri(self.builder.current_docname), page) + (f"#{which}" if which else "")
    title = html.escape(node["title"])
    self.body.append(
        f'<figure class="live-view"><iframe src="{uri}" title="{title}" loading="lazy" height="{node["height"]}">'
        f'</iframe><figcaption>{title} · <a href="{uri}">open it on its own page</a></figcaption></figure>\n')


def _skip(self: Any, node: LiveView) -> None:
    raise nodes.SkipNode


def _depart(self: Any, node: LiveView) -> None:
    """Add nothing: the frame is closed."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, its node, and what writes the pages."""
    app.add_node(LiveView, html=(_visit, _depart), latex=(_skip, None), text=(_skip, None), man=(_skip, None),
                 texinfo=(_skip, None))
    app.add_directive("kernelscope", KernelScopeDirective)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("build-finished", _write)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
