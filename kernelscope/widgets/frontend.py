"""The front ends as one text each: the modules of ``static/`` joined, with their style sheets inside."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
    return files("kernelscope.widgets").joinpath("static", name).read_text(encoding="utf-8")
