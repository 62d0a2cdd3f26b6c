"""Whether a text still makes a function's code."""

from __future__ import annotations

import ast

import pytest

from kernelscope.probes.functions import code_sha256, functions_of

CELL = """import math


def root(x):
    return math.sqrt(x)


x = await nothing if False else root(4)
"""


@pytest.mark.parametrize("by_statement", [False, True], ids=["as a file", "as a notebook's cell"])
def test_a_function_is_found_however_its_text_was_compiled(by_statement):
    # A name that the compiled text imports is called by other instructions than one that is only used.
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = ast.parse(CELL)
    module = ast.Module([tree.body[1]], []) if by_statement else tree
    code, = (each for each in compile(module, "cell", "exec", flags).co_consts if hasattr(each, "co_code"))
    assert ("root", 4, code_sha256(code)) in functions_of(CELL, code)
    assert ("root", 4, code_sha256(code)) not in functions_of(CELL.replace("sqrt", "cbrt"), code)


def test_a_text_that_is_no_python_has_none():
    assert functions_of("def", test_a_text_that_is_no_python_has_none.__code__) == frozenset()
