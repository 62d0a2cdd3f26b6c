"""Sphinx configuration. `make docs` builds with warnings as errors, on a machine without CUDA."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

import kernelscope  # noqa: E402

project = "KernelScope"
author = "The KernelScope authors"
copyright = author
version = release = kernelscope.__version__

extensions = [
    "advice_rules",
    "live_views",
    "myst_parser",
    "property_colons",
    "schema_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
# assistants: what programs read, beside the pages.
exclude_patterns = ["_ext", "assistants"]

# A name in single backticks in a docstring links where the name is known, and is plain code elsewhere.
default_role = "py:obj"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_mock_imports = ["cuda", "cupti", "numba"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
# As text: a line such as "regs, max_threads : int or None" names several attributes.
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
napoleon_preprocess_types = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css", "live.css"]
html_title = f"KernelScope {version}"
html_theme_options = {"navigation_with_keys": True}
