"""The timeline's front end as one text: the modules of ``static/`` joined, with their style sheet inside."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files

#: In order: what a module imports comes before it.
MODULES = (
    "text", "data", "levels", "colors", "describe", "layout", "search", "sums", "view", "overlay", "paint", "minimap",
    "panels", "controls", "timeline",
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_REEXPORT = re.compile(r"^export \{[^}]*\};\n", re.MULTILINE)


@cache
def front_end() -> str:
    """Return an ES module that exports `mount`, and imports nothing."""
    parts = [f"const STYLE = {json.dumps(style_sheet())};\n"]
    for name in MODULES:
        text = _REEXPORT.sub("", _IMPORT.sub("", _read(f"{name}.js")))
        parts.append(re.sub(r"^export (?=(async )?(function|class|const|let) )", "", text, flags=re.MULTILINE))
    parts.append("export { mount };\n")
    return "\n".join(parts)


@cache
def style_sheet() -> str:
    """Return the timeline's style sheet; `mount` brings it along."""
    return _read("timeline.css")


def _read(name: str) -> str:
    return files("kernelscope.widgets").joinpath("static", name).read_text(encoding="utf-8")


#: The code view's modules, in order, after ``text``; their style sheet is ``code.css``.
CODE = (
    "code_dom", "code_text", "code_highlight", "code_folds", "code_line", "code_rows", "code_select", "code_find",
    "code_strip", "code_bar", "code_keys", "code_view", "code_align", "code_pairs", "code_diff",
)
