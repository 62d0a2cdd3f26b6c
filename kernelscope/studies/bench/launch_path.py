"""Where a launch passes in each framework, and syntax trees of the framework's functions to put statements into.

Standard library only; Python 3.9 and later.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

_TURNS = "_kernelscope_turns"

CONFIGURATION = "configuration object"


class Path:
    """Where one framework's launch passes: the functions with boundaries in them.

    Parameters
    ----------
    module : str
        Where the classes are.
    entered : tuple of str
        The class and method that a configured launch enters: dispatch begins.
    launched : tuple of str
        The class and method that launches a specialization: dispatch ends. It holds the places below.
    prepares : str or None
        The function that it calls for each argument, in a loop.
    submits : tuple of str
        The functions that it calls to give the launch to the driver, whichever it has.
    unseen : dict of str to str
        Parts that this framework does not show, and why.
    """

    def __init__(self, module: str, entered: tuple[str, str], launched: tuple[str, str], prepares: str | None,
                 submits: tuple[str, ...], unseen: dict[str, str]) -> None:
        self.module = module
        self.entered = entered
        self.launched = launched
        self.prepares = prepares
        self.submits = submits
        self.unseen = unseen


PATHS = {
    "numba-cuda": Path("numba.cuda.dispatcher", ("CUDADispatcher", "call"), ("_Kernel", "launch"), "_prepare_args",
                       ("launch", "launch_kernel", "cuLaunchKernel", "cuLaunchKernelEx"), {}),
    "numba-cuda-mlir": Path(
        "numba_cuda_mlir.descriptor", ("_ArgMarshaller", "__call__"), ("_ArgMarshaller", "_launch"), None,
        ("launcher",),
        {"arguments": "numba-cuda-mlir prepares device arguments in native code: they are in submit",
         CONFIGURATION: "numba-cuda-mlir makes the launch's configuration in native code: it is in submit"}),
}


class UnseenError(Exception):
    """A function cannot be looked into."""


class Source:
    """A function of the framework, and its syntax tree to put stamps into."""

    def __init__(self, function: Any) -> None:
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            raise UnseenError("it is no Python function")
        if code.co_freevars:
            raise UnseenError("it is a closure")
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError) as error:
            raise UnseenError("its source cannot be read") from error
        definition: Any = tree.body[0]
        if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
            raise UnseenError("its source is no plain function")
        definition.decorator_list = []
        ast.increment_lineno(definition, code.co_firstlineno - 1)
        self.function = function
        self.name = getattr(function, "__qualname__", code.co_name)
        self.names = code.co_names
        self.first = 1 if ast.get_docstring(definition, clean=False) is not None else 0
        self._tree = definition
        if self.compile(self.tree()).co_freevars != code.co_freevars:
            raise UnseenError("it is a closure")

    def tree(self) -> Any:
        """Return a copy of the tree, to change."""
        return copy.deepcopy(self._tree)

    def compile(self, tree: Any) -> CodeType:
        """Return the code of the function with another tree."""
        code: CodeType = self.function.__code__
        features = code.co_flags & __future__.annotations.compiler_flag
        module = compile(ast.fix_missing_locations(ast.Module(body=[tree], type_ignores=[])), code.co_filename, "exec",
                         flags=features, dont_inherit=True)
        return next(each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name)


def statements(text: str) -> list[Any]:
    """Return the syntax trees of statements."""
    return ast.parse(text).body


def split_loop(body: list[Any], at: int, marks: list[Any]) -> None:
    """Put stamps between what a loop goes over being made and its first turn."""
    loop = body[at]
    made = ast.Assign(targets=[ast.Name(_TURNS, ast.Store())],
                      value=ast.Call(func=ast.Name("iter", ast.Load()), args=[loop.iter], keywords=[]))
    loop.iter = ast.Name(_TURNS, ast.Load())
    body[at:at] = [made, *marks]


def _bodies(tree: Any) -> Iterator[list[Any]]:
    """Yield the lists of statements of a function, without those of functions in it."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(tree, field, None)
        if isinstance(body, list):
            yield body
            for statement in body:
                if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from _bodies(statement)
    for handler in getattr(tree, "handlers", ()):
        yield from _bodies(handler)


def loops_that_call(tree: Any, name: str | None) -> list[tuple[list[Any], int]]:
    """Return where the loops are that call a function: pairs of a list of statements and the place in it."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, ast.For) and _has_call(statement, (name,))]


def statements_that_call(tree: Any, names: Sequence[str]) -> list[tuple[list[Any], int]]:
    """Return where the statements are that call one of some functions, as in `loops_that_call`."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, (ast.Expr, ast.Assign, ast.Return)) and _has_call(statement, names)]


def _has_call(tree: Any, names: Sequence[str | None]) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
            if name in names:
                return True
    return False


def described(local: dict[str, Any]) -> list[str]:
    """Return what the arguments of a launch are, as text, from the local names of the function that launches."""
    values = local.get("args", local.get("launch_args", ()))
    kernel: Any = local.get("self")
    types = getattr(kernel, "argument_types", None) or local.get("argtypes") or ()
    names: list[str] = []
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        names = list(inspect.signature(kernel.py_func).parameters)
    described: list[str] = []
    for index, value in enumerate(values):
        kind = str(types[index]) if index < len(types) else type(value).__name__
        name = names[index] if index < len(names) else ""
        described.append(f"{name}: {kind}" if name else kind)
    return described
