"""`kernelscope demo`: a notebook, executed and written as one HTML file that loads nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.commands import demo
from kernelscope.errors import KernelScopeError

KERNEL = """@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

array = cuda.to_device(np.zeros(64, np.float32))"""


def write_notebook(path: Path, *sources: str, tags: dict[int, list[str]] | None = None) -> Path:
    import nbformat  # half a second, in which its schemas are compiled

    new = nbformat.v4
    cells = [new.new_markdown_cell("# Title\n\nText with $x^2$ and a [link](https://example.org).")]
    cells += [new.new_code_cell(source, metadata={"tags": (tags or {}).get(place, [])})
              for place, source in enumerate(sources)]
    nbformat.write(new.new_notebook(cells=cells), path)
    return path


def loaded(html: str) -> list[str]:
    """What a browser would fetch for this page."""
    html = re.sub(r"/\*.*?\*/", "", html, flags=re.DOTALL)
    tags = "script|img|iframe|link|source|video|audio|object|embed"
    found = re.findall(rf"<(?:{tags})\b[^>]*?(?:src|href|data)=[\"']?([^\"' >]+)", html)
    found += re.findall(r"url\(\s*[\"']?([^\"')]+)", html) + re.findall(r"@import[^;]+", html)
    found += re.findall(r"(?:import|from)\s+[\"'](https?:[^\"']+)", html)
    return [each for each in found if not each.startswith(("data:", "#"))]


@pytest.mark.slow
def test_the_notebook_is_executed_and_written(cli: Any, tmp_path: Path) -> None:
    write_notebook(
        tmp_path / "tiny.ipynb", "%load_ext kernelscope\nimport numpy as np\nfrom numba import cuda", KERNEL,
        "%%kernelscope -n first\naxpy[2, 32](array, 2.0, array)\nprint('done')",
        "%%kernelscope -n \"<b>second\" -r\naxpy[2, 4096](array, 2.0, array)",
        "import ipywidgets\nipywidgets.IntSlider()",
        tags={3: ["raises-exception"]})
    ran = cli("demo", "--notebook", "tiny.ipynb", "--out", "deep/er/out.html", KERNELSCOPE_DRYRUN=None)
    where = "as a dry run: kernels do not execute"
    assert ran.stdout.startswith(f"running tiny.ipynb {where}\n")
    assert ran.stdout.endswith(f"ran {where}\nwrote {tmp_path / 'deep/er/out.html'}\n")
    assert "KernelScope: In [3] first (ok)" in ran.stdout
    assert "(error)" in ran.stdout
    assert ran.stderr.splitlines()[-1] == "[5/5] import ipywidgets"
    html = (tmp_path / "deep/er/out.html").read_text()
    assert loaded(html) == []
    assert html.count("<script") == 1  # the cards' own
    assert html.count('<div class="kscope"') == 2
    assert "&lt;b&gt;second" in html
    assert "dry run: kernels did not execute" in html
    assert "array" in html and "done" in html


@pytest.mark.slow
def test_a_cell_that_fails_is_one_line(cli: Any, tmp_path: Path) -> None:
    write_notebook(tmp_path / "bad.ipynb", "x = 1", "1 / 0")
    ran = cli("demo", "--notebook", "bad.ipynb", code=1)
    last = ran.stderr.splitlines()[-1]
    assert last == "kernelscope: cell 2 of the notebook failed: ZeroDivisionError: division by zero"


def test_what_is_no_notebook_is_one_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.ipynb").write_text("{")
    assert "is no notebook" in cli("demo", "--notebook", "bad.ipynb", code=1).stderr
    write_notebook(tmp_path / "good.ipynb", "x = 1")
    assert "a folder has that name" in cli("demo", "--notebook", "good.ipynb", "--out", str(tmp_path), code=1).stderr


def test_the_quickstart_is_found_in_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "kernelscope"
    monkeypatch.setattr(demo.kernelscope, "__file__", str(package / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KernelScopeError, match="run the demo in a checkout"):
        demo.find_notebook(None)
    (tmp_path / "notebooks").mkdir()
    quickstart = write_notebook(tmp_path / "notebooks" / "00_quickstart.ipynb", "x = 1")
    assert demo.find_notebook(None) == quickstart
    with pytest.raises(KernelScopeError, match="there is no notebook missing.ipynb"):
        demo.find_notebook("missing.ipynb")


def test_missing_packages_are_named_with_the_command(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nbclient", None)
    ran = cli("demo", "--notebook", "good.ipynb", code=1)
    assert ran.stderr == "kernelscope: the demo needs nbclient: pip install 'kernelscope[notebook]'\n"
