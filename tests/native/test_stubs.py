"""The stubs of the extension say what the compiled module has: names, methods, and names of parameters."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelscope import native

STUBS = Path(native.__file__).with_name("_core.pyi")


def declared(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a body of stubs declares, by name."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


STUBBED = declared(ast.parse(STUBS.read_text(encoding="utf-8")).body)
CLASSES = {name: node for name, node in STUBBED.items() if isinstance(node, ast.ClassDef)}


def public(names: Any) -> list[str]:
    return sorted(name for name in names if not name.startswith("_"))


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *filter(None, [given.vararg]), *given.kwonlyargs,
             *filter(None, [given.kwarg])]
    return [each.arg for each in named]


def has_parameters(function: Any, stub: ast.FunctionDef, *, bound: bool) -> bool:
    """Whether both take the same; of what was compiled without a signature it is not known."""
    try:
        compiled = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True
    return compiled[bound:] == parameters(stub)[bound:]


def test_names_and_functions(core: ModuleType) -> None:
    assert public(vars(core)) == public(STUBBED) != []
    for name in public(STUBBED):
        value, stub = getattr(core, name), STUBBED[name]
        assert isinstance(value, type) == isinstance(stub, ast.ClassDef), name
        if isinstance(stub, ast.FunctionDef):
            assert callable(value) and has_parameters(value, stub, bound=False), name


@pytest.mark.parametrize("name", CLASSES)
def test_methods_and_attributes(core: ModuleType, name: str) -> None:
    compiled, stubs = getattr(core, name), declared(CLASSES[name].body)
    assert public(vars(compiled)) == public(stubs)
    for member, stub in stubs.items():
        value = inspect.getattr_static(compiled, member)
        decorators = [ast.unparse(each) for each in getattr(stub, "decorator_list", [])]
        is_method = isinstance(stub, ast.FunctionDef) and "property" not in decorators
        # A callable that an object holds is declared as a method as well.
        routine = inspect.isroutine(value)
        assert routine == is_method or (is_method and inspect.ismemberdescriptor(value)), f"{name}.{member}: {value!r}"
        if is_method and isinstance(stub, ast.FunctionDef) and not member.startswith("__"):
            bound = not {"staticmethod", "classmethod"} & set(decorators)
            assert has_parameters(value, stub, bound=bound), f"{name}.{member}"
