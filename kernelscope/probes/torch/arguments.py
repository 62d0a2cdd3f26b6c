"""What is known of a compiled function's arguments, as text: ``x: float32[dynamic, 16], n: int 3``."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import Any

_MOST_ARGUMENTS = 24
_VARARGS, _VARKEYWORDS = 4, 8
_TENSOR = re.compile(r"^check_tensor\(L\['(\w+)'\], .*?\bsize=\[([^\]]*)\]")
_NUMBER = re.compile(r"^L\['(\w+)'\] == ")


def names_of(code: CodeType) -> list[str]:
    """Return the names of a function's arguments, those after ``*`` included."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(bool(code.co_flags & flag) for flag in (_VARARGS, _VARKEYWORDS))
    # What comes after a graph break is a function whose first arguments dynamo makes.
    return [name for name in code.co_varnames[:count] if not name.startswith(("__nested_", "___stack"))]


def described(code: CodeType, values: Mapping[str, Any]) -> dict[str, str]:
    """Return what is known of each argument before a compile: dtype, sizes and more of tensors, numbers with value.

    Numbers stand with their values because torch compiles them in. Of all else there is only the type.
    """
    found: dict[str, str] = {}
    for name in names_of(code)[:_MOST_ARGUMENTS]:
        try:
            value = values[name]
        except KeyError:  # a cell variable, or one that the frame has deleted
            continue
        found[name] = _text(value)
    return found


def with_dynamic(arguments: Mapping[str, str], guards: Iterable[str]) -> dict[str, str]:
    """Return the arguments as they were compiled: sizes and numbers that no guard fixes are dynamic.

    Parameters
    ----------
    arguments : mapping
        What `described` has returned.
    guards : iterable of str
        The guards of what was compiled, as torch writes them.
    """
    found, fixed = dict(arguments), set[str]()
    for guard in guards:
        tensor, number = _TENSOR.match(guard), _NUMBER.match(guard)
        if number:
            fixed.add(number[1])
        if tensor and tensor[1] in found and "[" in found[tensor[1]]:
            dtype, _, rest = found[tensor[1]].partition("[")
            sizes = ", ".join("dynamic" if size.strip() == "None" else size.strip() for size in tensor[2].split(","))
            found[tensor[1]] = f"{dtype}[{sizes}]{rest.partition(']')[2]}"
    for name, text in found.items():
        if re.match(r"(int|float) ", text) and name not in fixed:
            found[name] = text.partition(" ")[0]
    return found


def signature(arguments: Mapping[str, str]) -> str:
    """Return the arguments as one text."""
    return ", ".join(f"{name}: {text}" for name, text in arguments.items())


def _text(value: Any) -> str:
    torch = sys.modules["torch"]
    kind = type(value)
    if isinstance(value, torch.Tensor):
        # A subclass's own code is not run for this.
        with torch._C.DisableTorchFunctionSubclass(), contextlib.suppress(RuntimeError, NotImplementedError):
            return _tensor(value)
        return kind.__name__
    if value is None or kind in (bool, int, float):
        return "None" if value is None else f"{kind.__name__} {value}"
    if kind in (list, tuple, dict, set):
        return f"{kind.__name__} of {len(value)}"
    name = getattr(value, "__name__", None)
    return f"{kind.__name__} {name}" if callable(value) and isinstance(name, str) else kind.__name__


def _tensor(value: Any) -> str:
    text = f"{str(value.dtype).removeprefix('torch.')}[{', '.join(str(size) for size in value.shape)}]"
    if value.device.type != "cpu":
        text += f" {value.device}"
    if str(value.layout) != "torch.strided":
        return f"{text} {str(value.layout).removeprefix('torch.')}"
    if not value.is_contiguous():
        text += f" strides ({', '.join(str(stride) for stride in value.stride())})"
    return f"{text} requires_grad" if value.requires_grad else text
