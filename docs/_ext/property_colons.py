"""Keep colons in the docstrings of properties: napoleon would read ``What was on: a mapping`` as type and meaning."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

# A private-use character stands for the colon while napoleon (at priority 500) reads the docstring.
COLON, STAND_IN = ":", "\ue000"


def hide(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the stand-in in the colons' place."""
    if what == "property":
        lines[:] = [line.replace(COLON, STAND_IN) for line in lines]


def restore(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the colons back."""
    if what == "property":
        lines[:] = [line.replace(STAND_IN, COLON) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both sides of napoleon."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", hide, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
