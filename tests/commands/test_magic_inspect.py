"""``%kernelscope inspect``: of a name, of an expression, of all, and of what there is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VIEW = "application/vnd.jupyter.widget-view+json"
CLOSE = "import ipywidgets; ipywidgets.Widget.close_all()"


def parts(ran: Any) -> list[str]:
    return [part for _, content in ran.messages
            if (part := content.get("metadata", {}).get("kernelscope", {}).get("inspector"))]


def text(ran: Any) -> str:
    """The static twin's text."""
    return next(content["data"]["text/plain"] for _, content in ran.messages
                if content.get("metadata", {}).get("kernelscope", {}).get("inspector") == "picture")


@pytest.fixture(autouse=True)
def closed(notebook: Any) -> Any:
    yield
    notebook.ok(CLOSE)
    assert notebook.value("[f for f in shell.events.callbacks['post_run_cell'] if '_after_cell' in str(f)]") == "[]"


@pytest.mark.slow
def test_a_kernel_by_its_name(notebook: Any) -> None:
    ran = notebook.ok("%kernelscope inspect axpy")
    assert parts(ran) == ["widget", "picture"]
    assert "float32[:] C" in text(ran)
    ran = notebook.ok("axpy[2, 32](cuda.to_device(np.zeros(8)), 1.0, cuda.to_device(np.zeros(8)))")
    assert parts(ran) == ["picture"]
    assert "float64[:] C" in text(ran)
    assert parts(notebook.ok("x = 1")) == []


def test_a_name_that_is_deleted_shows_what_it_meant_last(notebook: Any) -> None:
    notebook.ok("@cuda.jit\ndef mine(x):\n    x[0] = 1")
    notebook.ok("%kernelscope inspect mine")
    assert "y" in text(notebook.ok("@cuda.jit\ndef mine(y):\n    y[0] = 2"))
    assert parts(notebook.ok("del mine")) == []


def test_a_kernel_by_an_expression(notebook: Any) -> None:
    notebook.ok("held = {'the kernel': axpy}")
    assert "axpy" in text(notebook.ok("%kernelscope inspect held['the kernel']"))


def test_what_was_recorded(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\naxpy[2, 32](a, 2.0, a)\naxpy[2, 32](a, 2.0, a)")
    assert "axpy" in text(notebook.ok("%kernelscope inspect"))
    notebook.ok("kept, axpy = axpy, None")
    said = text(notebook.ok("%kernelscope inspect axpy"))
    assert "float32[:] C" in said
    notebook.ok("axpy = kept")
    assert "axpy" in text(notebook.ok("%kernelscope inspect _kernelscope"))


@pytest.mark.parametrize("wanted", ["nothing_like_it", "np", "1 +", "axpy[2, 32]"])
def test_names_that_are_none_are_told_in_a_line(notebook: Any, wanted: str) -> None:
    ran = notebook.run(f"%kernelscope inspect {wanted}")
    assert ran.reply["ename"] == "UsageError"
    said = ran.stderr or ran.traceback
    assert "no recorded kernel" in said or "nothing to inspect" in said
    assert "kernels in the notebook: " in said
    assert "axpy" in said
    assert said.strip().count("\n") == 0


@pytest.mark.slow
def test_a_terminal_shows_the_text(run_python: Callable[..., Any], tmp_path: Path) -> None:
    ran = run_python("""
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True)
shell.run_line_magic("load_ext", "kernelscope")
shell.run_cell("%kernelscope inspect", store_history=True)
shell.run_cell("import numpy as np\\nfrom numba import cuda\\n@cuda.jit\\ndef scale(x):\\n    x[0] = 2",
               store_history=True)
shell.run_cell("scale[1, 1](np.zeros(1))", store_history=True)
shell.run_cell("%kernelscope inspect scale", store_history=True)
shell.run_cell("import kernelscope\\nkernelscope.inspect(scale)", store_history=True)
shell.run_line_magic("unload_ext", "kernelscope")
""", IPYTHONDIR=str(tmp_path))
    assert "there is nothing to inspect: no cell was recorded yet" in ran.stdout + ran.stderr
    assert ran.stdout.count("float64[:] C") >= 2
    assert "<div" not in ran.stdout
