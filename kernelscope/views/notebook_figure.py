"""A Plotly figure that a notebook shows wherever it is read: live, saved, and as the HTML that nbconvert makes of it.

In Jupyter, Plotly publishes a figure in its own media type alone, which nbconvert's HTML shows as nothing. These are
published as HTML as well, which needs no network. The 1.5 to 2 MB of plotly.js that this takes are in one output of a
kernel's session, the first that has a figure; all others draw with that.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NamedTuple

import plotly.graph_objects as go
import plotly.io as pio

#: Plotly's media type, which JupyterLab and VS Code draw with extensions.
MEDIA_TYPE = "application/vnd.plotly.v1+json"

# Plotly's renderers that publish its media type. Whoever has chosen another one, such as an image, gets that.
_RENDERERS = frozenset({"plotly_mimetype", "jupyterlab", "nteract", "vscode", "notebook"})


class _Run(NamedTuple):
    """A run of a cell: the session's shell, the cell if the front end names it, and the number of the run."""

    shell: int
    cell: str | None
    number: int


class NotebookFigure(go.Figure):
    """A figure that is shown in Plotly's media type and as HTML; else it is Plotly's own."""

    _library: ClassVar[_Run | None] = None

    def _ipython_display_(self) -> None:
        shell = notebook()
        if shell is None or not _wants_media_type():
            super()._ipython_display_()
            return
        shell.display_pub.publish(data=self._published(shell))

    def _published(self, shell: Any) -> dict[str, Any]:
        """Return the figure by media type, with plotly.js where no other output of the session has it."""
        # Imported late: it imports the charts, whose figures these are.
        from kernelscope.views.charts import figures_html

        parent: Any = getattr(shell, "get_parent", dict)()
        cell = parent.get("metadata", {}).get("cellId") if isinstance(parent, dict) else None
        run = _Run(id(shell), cell if isinstance(cell, str) else None, int(getattr(shell, "execution_count", 0)))
        held = NotebookFigure._library
        is_first = held is None or held.shell != run.shell
        # The cell whose output has it was run again: what it showed before is gone.
        is_again = held is not None and run.cell is not None and held.cell == run.cell and held.number != run.number
        if is_first or is_again:
            NotebookFigure._library = run
        html = figures_html([self], with_library=is_first or is_again)
        bundle: dict[str, Any] = pio.renderers["plotly_mimetype"].to_mimebundle(self.to_dict())
        title = str(self.layout.title.text or "").partition("<br>")[0].removeprefix("<b>").removesuffix("</b>")
        return {"text/plain": f"figure: {title}", "text/html": html, MEDIA_TYPE: bundle[MEDIA_TYPE]}


def show(figure: NotebookFigure, plain: str) -> None:
    """Show a figure whose form as text is `plain`: a terminal gets that alone."""
    shell = notebook()
    if shell is None:
        print(plain)
    elif _wants_media_type():
        shell.display_pub.publish(data=figure._published(shell) | {"text/plain": plain})
    else:
        figure._ipython_display_()


def notebook() -> Any:
    """Return the shell that shows HTML, None where there is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if "text/html" in getattr(getattr(shell, "display_formatter", None), "active_types", ()) else None


def _wants_media_type() -> bool:
    names = {each.strip() for each in str(pio.renderers.default or "").split("+")}
    return bool(pio.renderers.render_on_display) and bool(names & (_RENDERERS - {"notebook"})) and names <= _RENDERERS
