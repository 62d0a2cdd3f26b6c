from __future__ import annotations

import pytest

from kernelscope.probes.functions import argument_text, code_sha256, function_facts


def _code(source, name="f"):
    space = {}
    exec(source, space)
    return space[name].__code__


@pytest.mark.parametrize(("source", "arguments"), [
    ("def f(): pass", ""),
    ("def f(x): y = 1", "x"),
    ("def f(x, y=2, *rest): z = 3", "x, y, *rest"),
    ("def f(*args): pass", "*args"),
    ("def f(x, *, k): pass", "x"),
    ("def f(x, *rest, k=1): z = 3", "x, *rest"),
])
def test_arguments_in_order(source, arguments):
    assert argument_text(_code(source)) == arguments
    assert function_facts(_code(source))["arguments"] == arguments


def test_equal_code_has_one_hash_wherever_it_stands():
    body = "def f(x):\n    g = lambda i: i + 1\n    return x in {1, 'a', 2} and g(x)\n"
    inside = "def make():\n" + "".join(f"    {line}\n" for line in body.splitlines()) + "    return f\nf = make()\n"
    assert code_sha256(_code(body)) == code_sha256(_code("\n\n\n" + body)) == code_sha256(_code(inside))
    assert code_sha256(_code(body)) == code_sha256(_code(body.replace("def f", "def h"), "h"))


@pytest.mark.parametrize("other", [
    "def f(x, y): return x + 2", "def f(x, y): return x + 1.0", "def f(x, y): return x + True",
    "def f(x, y): return x - 1", "def f(x, z): return x + 1", "def f(x, *y): return x + 1",
    "def f(x, y): return (lambda: x + 1)()", "def f(x, y): return z + 1",
])
def test_other_code_has_another_hash(other):
    assert code_sha256(_code(other)) != code_sha256(_code("def f(x, y): return x + 1"))


def test_captured_values_do_not_count():
    made = [_code(f"def make():\n    a = {value}\n    def f(): return a\n    return f\nf = make()") for value in (1, 2)]
    assert code_sha256(made[0]) == code_sha256(made[1])
