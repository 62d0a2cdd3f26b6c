"""The parts of a build's key by name: types, operators, iterators and options, and never a value of the user's.

cuda.compute's own key says of each argument what the machine code depends on. An operator is known there by its name,
its bytecode and constants, and what it captures: numbers by value, device arrays by dtype and shape, and anything else
by its identity. Here numbers and objects are told apart by running numbers: ``int, value 2``.
"""

from __future__ import annotations

import enum
import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

Parts = dict[str, str]

_LONGEST = 200
_MOST_CAPTURED = 20
_ABSENT: Any = object()
# `OpKind` as it is called by itself, and in other builds of the library.
_OP_KINDS = ("cccl_op_kind_t", "OpKind")
# Of arguments, pointers are in the key of the built object only, and what it was built for has a part of its own.
_LEFT_OUT = ("compute_capability", "kwargs")


class KeyParts:
    """Names the parts of keys; tells values and objects apart by numbers that mean nothing outside this recording."""

    def __init__(self) -> None:
        self._values: dict[Any, int] = {}

    def of_call(self, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
        """Return the parts of a request to `factory`, a ``make_*`` function.

        Raises
        ------
        TypeError
            The factory does not take these arguments.
        """
        bound = inspect.signature(factory).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {**bound.arguments, **bound.arguments.get("kwargs", {})}
        parts: Parts = {}
        for name, value in arguments.items():
            if name not in _LEFT_OUT and not name.endswith("_ptr"):
                parts |= {key: text[:_LONGEST] for key, text in self._of_argument(name, value)}
        return parts

    def _of_argument(self, name: str, value: Any) -> Iterator[tuple[str, str]]:
        if value is None:
            yield name, "none"
        elif is_operator(value):
            yield from self._of_operator(name, value)
        elif _is_iterator(value):
            yield from self._of_iterator(name, value)
        elif isinstance(value, enum.Enum):
            yield name, str(value.name)
        elif hasattr(value, "current") and hasattr(value, "alternate"):
            yield f"{name} kind", "DoubleBuffer"
            yield f"{name} dtype", _dtype(value.current())
        elif _is_array(value):
            yield f"{name} kind", _type_name(value)
            yield f"{name} dtype", _dtype(value)
        elif isinstance(value, bool):
            yield name, str(value)
        elif type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "itemsize"):
            yield name, str(value)  # a dtype
        else:
            yield name, self._numbered(value)

    def _of_iterator(self, name: str, iterator: Any) -> Iterator[tuple[str, str]]:
        """The kind of an iterator: a tuple of names, types, operators and further tuples."""
        dtypes: list[str] = []
        operators: list[Any] = []
        yield f"{name} kind", _structure(iterator.kind, dtypes, operators)
        yield f"{name} dtype", ", ".join(dtypes)
        for number, operator in enumerate(operators):
            yield from self._of_operator(f"{name} op" if number == 0 else f"{name} op {number + 1}", operator)

    def _of_operator(self, name: str, operator: Any) -> Iterator[tuple[str, str]]:
        kind = getattr(operator, "_kind", operator)
        if type(kind).__name__ in _OP_KINDS:
            yield f"{name} kind", f"OpKind.{kind.name}"
            return
        function = getattr(operator, "py_func", None) or getattr(operator, "_func", None) or operator
        if isinstance(function, FunctionType):
            yield f"{name} kind", "function"
            yield f"{name} name", function.__name__
            yield f"{name} code", _digest(function.__code__)
            yield from self._captured(name, function)
        elif hasattr(operator, "_ltoir"):
            yield f"{name} kind", type(operator).__name__
            yield f"{name} name", str(operator._name)
            code = getattr(operator._ltoir, "op_bytes", operator._ltoir)
            yield f"{name} code", hashlib.sha256(bytes(code)).hexdigest()[:12]
            yield f"{name} state", f"{len(operator._state)} bytes"
        else:
            yield f"{name} kind", f"{type(operator).__name__}, {self._numbered(operator)}"

    def _captured(self, name: str, function: FunctionType) -> Iterator[tuple[str, str]]:
        """What an operator's key has of its closure, and of the globals that it names."""
        found: list[tuple[str, Any]] = []
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                found.append((f"{name} captured {variable}", cell.cell_contents))
            except ValueError:  # not assigned yet: the library fails on it
                continue
        for variable in function.__code__.co_names:
            value = function.__globals__.get(variable, _ABSENT)
            if value is not _ABSENT:
                found.append((f"{name} global {variable}", value))
        for label, value in found[:_MOST_CAPTURED]:
            yield label, self._captured_text(value)

    def _captured_text(self, value: Any) -> str:
        if _is_array(value):
            return f"{_dtype(value)} {tuple(int(size) for size in value.shape)}"
        inner = getattr(value, "py_func", None)
        if isinstance(inner, FunctionType):
            return f"function {inner.__name__}, code {_digest(inner.__code__)}"
        return self._numbered(value)

    def _numbered(self, value: Any) -> str:
        """A value or an object without saying which: equal ones have one number."""
        if isinstance(value, (bool, int, float)):
            return f"{type(value).__name__}, value {self._number((type(value), value))}"
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return f"{value.dtype}, value {self._number((str(value.dtype), value.tobytes()))}"
        if isinstance(value, (list, tuple)):
            inner = tuple(self._numbered(each) for each in value)
            return f"{type(value).__name__}, value {self._number((type(value), inner))}"
        shown = getattr(value, "__name__", None)
        kind = type(value).__name__ if not isinstance(shown, str) else f"{type(value).__name__} {shown}"
        return f"{kind}, object {self._number(('object', id(value)))}"

    def _number(self, key: Any) -> int:
        return self._values.setdefault(key, len(self._values) + 1)


def is_operator(value: Any) -> bool:
    """Return whether a value is what cuda.compute takes for an operator."""
    return (type(value).__name__ in _OP_KINDS or isinstance(value, FunctionType)
            or isinstance(getattr(value, "py_func", None), FunctionType)
            or any(cls.__name__ == "_OpAdapter" for cls in type(value).__mro__))


def _is_iterator(value: Any) -> bool:
    return any(cls.__name__ == "IteratorBase" for cls in type(value).__mro__)


def _is_array(value: Any) -> bool:
    if (hasattr(value, "dtype") and hasattr(value, "shape")) or hasattr(type(value), "__cuda_array_interface__"):
        return True
    return any(cls.__name__ in ("_Struct", "ProxyValue", "ProxyArray") for cls in type(value).__mro__)


def _dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        dtype = dict(value.__cuda_array_interface__).get("typestr", "unknown")
    return str(dtype)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _structure(kind: Any, dtypes: list[str], operators: list[Any]) -> str:
    """The names in an iterator's kind; its dtypes and operators are put into the lists."""
    if isinstance(kind, tuple):
        inner = [_structure(each, dtypes, operators) for each in kind]
        shown = [each for each in inner if each]
        head = inner[0] if kind and isinstance(kind[0], str) else ""
        return f"{head}({', '.join(shown[1:])})" if head and len(shown) > 1 else head or ", ".join(shown)
    if is_operator(kind) or hasattr(kind, "_func"):
        operators.append(kind)
        return "op"
    if hasattr(kind, "dtype") or hasattr(kind, "_dtype"):
        dtypes.append(str(kind.dtype if hasattr(kind, "dtype") else kind._dtype))
        return ""
    if kind is True:  # whether an iterator is read from, which its argument tells
        return ""
    return str(kind) if isinstance(kind, (str, int)) else type(kind).__name__


def _digest(code: CodeType) -> str:
    """The start of a hash of bytecode and constants, which is what a key has of a function's code."""
    digest = hashlib.sha256()
    pending = [code]
    while pending:
        each = pending.pop()
        digest.update(each.co_code)
        for constant in each.co_consts:
            if isinstance(constant, CodeType):
                pending.append(constant)
            else:
                digest.update(f"{type(constant).__name__}:{constant!r};".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:12]
