"""What every module keeps: its public docstrings, and a place in the reference."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "kernelscope").rglob("*.py"))
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


@each_module
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    assert [name for name, node in _public(tree.body) if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("name", kernelscope.__all__)
def test_public_name_is_importable_and_documented(name: str) -> None:
    assert getattr(kernelscope, name) is not None
    if name == "__version__":
        return
    directive = rf"^\.\. auto(class|function|exception):: kernelscope\.{name}$"
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")]
    assert any(re.search(directive, page, re.MULTILINE) for page in pages), f"no reference page documents {name}"


def test_public_names_are_listed() -> None:
    assert set(kernelscope.__all__) <= set(dir(kernelscope))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kernelscope.nothing


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions, classes and methods of a module; not what is inside functions, nor property setters."""
    for node in body:
        if not isinstance(node, DEFINITIONS) or node.name.startswith("_") or _is_overload_or_setter(node):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node.body, f"{prefix}{node.name}.")


def _is_overload_or_setter(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(name.endswith(("overload", ".setter", ".deleter", "override")) for name in decorators)
