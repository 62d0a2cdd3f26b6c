"""Errors of a recorded cell look as without a recording."""

from __future__ import annotations

import re
from typing import Any

import pytest

FAIL = "axpy[2, 4096](a, 2.0, a)"


def comparable(traceback: str) -> str:
    """A traceback without its cell's number, and without the cell's first line, which is empty or a comment."""
    shown = re.sub(r"In\[\d+\]", "In[n]", traceback)
    return re.sub(r"^ +1 *#? *\n", "", shown, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("body", [
    FAIL,
    f"def caller():\n    {FAIL}\ncaller()",
    f"try:\n    {FAIL}\nexcept Exception as error:\n    raise ValueError('wrapped') from error",
    f"try:\n    {FAIL}\nexcept Exception:\n    1 / 0",
    "axpy[1, 1]('text')",
    "noop = cuda.jit(lambda x: undefined)\nnoop[1, 1](a)",
    f"async def caller():\n    {FAIL}\nawait caller()",
])
def test_the_traceback_is_that_of_the_cell_without_it(notebook: Any, body: str) -> None:
    plain = notebook.run(f"#\n{body}")
    ran = notebook.run(f"%%kernelscope\n{body}")
    assert "kernelscope" not in ran.traceback.lower()
    assert comparable(ran.traceback) == comparable(plain.traceback)
    assert [content["traceback"] for kind, content in ran.messages if kind == "error"] == [ran.reply["traceback"]]


def test_tb_and_last_traceback_are_clean_too(notebook: Any) -> None:
    notebook.run(f"%%kernelscope -q\n{FAIL}")
    assert "kernelscope" not in notebook.ok("%tb").traceback.lower()
    assert notebook.value("'kernelscope' in ''.join(__import__('traceback').format_tb(sys.last_traceback))") == "False"


def test_somebody_else_s_showtraceback_survives(notebook: Any) -> None:
    notebook.ok("seen = []\ndef theirs(*args, **kwargs):\n    seen.append(1)\n"
                "    type(shell).showtraceback(shell, *args, **kwargs)")
    notebook.ok("shell.showtraceback = theirs")
    notebook.run(f"%%kernelscope -q\n{FAIL}")
    assert notebook.value("shell.showtraceback is theirs, len(seen)") == "(True, 1)"
    notebook.ok("del shell.showtraceback")


def test_one_that_comes_during_the_cell_stays(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\nours = shell.showtraceback\ndef theirs(*args, **kwargs): ours(*args, **kwargs)\n"
                "shell.showtraceback = theirs")
    assert notebook.value("shell.showtraceback is theirs") == "True"
    assert "ZeroDivisionError" in notebook.run("1 / 0").traceback
    notebook.ok("del shell.showtraceback")
