"""Whether an instant is known is asked of `kernelscope.recording.time` alone: an instant may be 0, -1, or below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelscope.schema import INSTANTS

PACKAGE = Path(__file__).resolve().parents[2] / "kernelscope"
#: What writes and reads records, journals and traces of other tools: no instant is below zero there, and -1 is unknown.
OF_RECORDS = ("counters", "dask", "dryrun", "importers", "native", "probes", "recorder", "recording/journal.py",
              "recording/time.py", "recording/traces.py", "studies")
#: Functions that return instants, and those that return instants where they are given some.
SOURCES, KEEPERS = {"instants", "recorded", "halfway", "otherwise"}, {
    "append", "asarray", "array", "clip", "concatenate", "copy", "int", "max", "maximum", "min", "minimum", "sort",
    "stack", "tolist", "where"}
SENTINELS = {"UNKNOWN", "UNKNOWN_INSTANT"}


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


class _Function(ast.NodeVisitor):
    """Finds comparisons of instants in one function: names become instants where instants are assigned to them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.found: list[int] = []

    def is_instant(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Subscript):
            is_column = isinstance(node.slice, ast.Constant) and node.slice.value in INSTANTS
            return is_column or self.is_instant(node.value)
        if isinstance(node, ast.Call):
            called = _called(node)
            if called == "get":
                return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value in INSTANTS
            return called in SOURCES or (called in KEEPERS and any(map(self.is_instant, (*node.args, node.func))))
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            inner = _Function()
            inner.names = {*self.names, *(name for each in node.generators if self.is_instant(each.iter)
                                          for name in _names(each.target))}
            return inner.is_instant(node.elt)
        return isinstance(node, ast.Attribute | ast.Starred) and self.is_instant(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs = ([*zip(target.elts, node.value.elts, strict=True)]
                     if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                     and len(target.elts) == len(node.value.elts) else [(target, node.value)])
            for each, value in pairs:
                (self.names.update if self.is_instant(value) else self.names.difference_update)(_names(each))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        if self.is_instant(node.iter):
            self.names.update(_names(node.target))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(map(self.is_instant, sides)) and any(map(_is_sentinel, sides)):
            self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        if isinstance(node.op, ast.Or) and any(map(self.is_instant, node.values[:-1])):
            self.found.append(node.lineno)  # 0 is an instant
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Go through a function with what is known around it, without names that its parameters hide."""
        around = {*self.names}
        self.names -= {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
        self.generic_visit(node)
        self.names = around


def _names(target: ast.AST) -> Iterator[str]:
    yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def _is_sentinel(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return ((isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1))
            or (isinstance(node, ast.Name) and node.id in SENTINELS))


def comparisons(text: str) -> list[int]:
    """The lines that ask of an instant whether it is 0, below zero or unknown."""
    visitor = _Function()
    visitor.visit(ast.parse(text))
    return visitor.found


def test_no_instant_is_compared_with_what_stands_for_an_unknown_one() -> None:
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(OF_RECORDS):
            found += [f"{name}:{line}" for line in comparisons(path.read_text(encoding="utf-8"))]
    assert not found, f"ask kernelscope.recording.time instead (is_known, duration_ns, row_end_ns): {', '.join(found)}"


@pytest.mark.parametrize("code", [
    "start, end = instants(recording, 'launches', 'start_ns', 'end_ns')\nknown = (start >= 0)",
    "end = instants(column)\nlast = end[rows]\nprint(last < 0)",
    "start, end = (each[rows] for each in instants(recording, 'cells', 'start_ns', 'end_ns'))\nx = end == UNKNOWN",
    "if launches['end_ns'] == UNKNOWN: pass",
    "ended = np.asarray(launches['submit_end_ns'])\nrows = ended != -1",
    "end = row['end_ns'] or row['start_ns']",
    "end = row.get('end_ns') or 7",
    "for start in instants(recording, 'cells', 'start_ns'):\n    print(start > UNKNOWN_INSTANT)",
])
def test_what_asks_an_instant_is_found(code: str) -> None:
    assert comparisons(code)


@pytest.mark.parametrize("code", [
    "start, end = instants(recording, 'cells', 'start_ns', 'end_ns')\ntook = duration_ns(start, end)\nx = took >= 0",
    "start = instants(column)\nstart = text.find('(')\nprint(start < 0)",
    "place = np.searchsorted(instants(column), time) - 1\nprint(place >= 0)",
    "if row['end_ns'] is None: pass",
    "if row['duration_ns'] > 0 and row['wait_ns'] or 0: pass",
    "if row['end_ns'] > row['start_ns']: pass",
])
def test_other_comparisons_are_not(code: str) -> None:
    assert not comparisons(code)
