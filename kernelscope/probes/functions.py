"""What a kernel's Python function tells by itself: its arguments' names, and which other functions are the same."""

from __future__ import annotations
import __future__

import ast
import hashlib
import inspect
import warnings
from types import CodeType


def function_facts(code: CodeType) -> dict[str, str]:
    """Return the columns ``arguments`` and ``code_sha256`` of a kernel's row."""
    return {"arguments": argument_text(code), "code_sha256": code_sha256(code)}


def argument_text(code: CodeType) -> str:
    """Return a function's arguments as ``x, y, *rest``; kernels have no keyword-only ones."""
    count = code.co_argcount
    names = list(code.co_varnames[:count])
    if code.co_flags & inspect.CO_VARARGS:
        names.append(f"*{code.co_varnames[count + code.co_kwonlyargcount]}")
    return ", ".join(names)


def functions_of(text: str, like: CodeType) -> frozenset[tuple[str, int, str]]:
    """Return name, first line and `code_sha256` of every function that a file's text makes; nothing of it runs.

    Parameters
    ----------
    text : str
        Python source; where it is none there are no functions.
    like : CodeType
        A function of the file, whose ``__future__`` imports count.
    """
    future = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
                 if like.co_flags & getattr(__future__, name).compiler_flag)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A cell of a notebook may await.
            flags = future | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(text, like.co_filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            # IPython compiles a cell's statements one by one, and then names that it imports are called otherwise.
            parts = [tree, *(ast.Module([statement], []) for statement in tree.body)]
            pending: list[CodeType] = [compile(part, like.co_filename, "exec", flags, dont_inherit=True)
                                       for part in parts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[tuple[str, int, str]] = set()
    while pending:
        inner = [each for each in pending.pop().co_consts if isinstance(each, CodeType)]
        found |= {(each.co_name, each.co_firstlineno, code_sha256(each)) for each in inner}
        pending += inner
    return frozenset(found)


def code_sha256(code: CodeType) -> str:
    """Return a hash of a function's bytecode, constants and names: equal for equal code, wherever it stands.

    Captured values and globals, which are not in the code, do not count.
    """
    digest = hashlib.sha256()
    pending = [code]
    while pending:
        each = pending.pop()
        parts = (each.co_code, each.co_names, each.co_varnames, each.co_freevars, each.co_cellvars, each.co_argcount,
                 each.co_kwonlyargcount, each.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
        digest.update(repr(parts).encode("utf-8", "backslashreplace"))
        for constant in each.co_consts:
            if isinstance(constant, CodeType):
                digest.update(b"code")
                pending.append(constant)
            else:
                digest.update(_constant_text(constant).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _constant_text(constant: object) -> str:
    """A constant of the bytecode as text; a set has no order of its own."""
    if isinstance(constant, str):
        return f"str:{constant.rpartition('<locals>.')[2]}"  # until Python 3.11 an inner function's qualified name
    if isinstance(constant, frozenset):
        return f"frozenset({sorted(repr(each) for each in constant)})"
    return f"{type(constant).__name__}:{constant!r}"
