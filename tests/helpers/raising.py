"""Objects of a user's whose every special method raises, and what a call of a framework with them comes to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from launched_kernels import make_kernels

import kernelscope
from kernelscope.recording.model import Recording

ROOT = Path(__file__).resolve().parents[2] / "kernelscope"

_NAMES = ("abs", "add", "and", "bool", "bytes", "call", "ceil", "complex", "contains", "delitem", "dir", "divmod",
          "enter", "eq", "exit", "float", "floor", "floordiv", "format", "fspath", "ge", "getattr", "getitem", "gt",
          "hash", "index", "int", "invert", "iter", "le", "len", "length_hint", "lt", "missing", "mod", "mul", "ne",
          "neg", "next", "or", "pos", "pow", "radd", "reduce", "reduce_ex", "repr", "reversed", "rmul", "round",
          "setattr", "setitem", "sizeof", "str", "sub", "truediv", "trunc", "xor")


class Trouble(Exception):
    """What the methods raise; it cannot be printed either."""

    def __str__(self) -> str:
        raise RuntimeError("an exception that cannot be printed")

    __repr__ = __str__


def _raise(*_: Any, **__: Any) -> Any:
    raise Trouble


def _methods(*leave: str) -> dict[str, Any]:
    return {f"__{name}__": _raise for name in _NAMES if name not in leave}


#: An object, a number, a text and a tuple: the last three are what a framework asks for, as far as their type goes.
Anything = type("Anything", (), _methods())
Liar = type("Liar", (), {**_methods(), "__class__": property(_raise)})
Number = type("Number", (int,), _methods())
Text = type("Text", (str,), _methods())
Items = type("Items", (tuple,), _methods())

RAISING: dict[str, Callable[[], Any]] = {
    "object": Anything, "object without a class": Liar, "number": lambda: Number(1), "text": lambda: Text("red"),
    "tuple": lambda: Items((1, 2))}


def outcome(action: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what an action raises and the frames that it passed, or the type of what it returns."""
    try:
        result = action()
    except BaseException as error:
        frames = [(entry.tb_frame.f_code.co_filename, entry.tb_frame.f_code.co_name, entry.tb_lineno)
                  for entry in _entries(error)]
        assert not [frame for frame in frames if frame[0].startswith(str(ROOT))], frames
        return type(error), frames
    return type(result), ()


def _entries(error: BaseException) -> list[Any]:
    found: list[Any] = []
    entry = error.__traceback__
    while entry is not None:
        found.append(entry)
        entry = entry.tb_next
    return found


@cache
def _compiled() -> Any:
    kernel = make_kernels().noop
    kernel[1, 1]()
    return kernel


def same_outcome(action: Callable[[], Any], **options: Any) -> Recording:
    """Assert that an action, twice in a recording, comes to what it does without; return the recording.

    A kernel that is launched afterwards is recorded.
    """
    kernel = _compiled()
    before = outcome(action)
    with kernelscope.record(**options) as recorder:
        found, again = outcome(action), outcome(action)
        kernel[1, 1]()
    assert before == found == again
    assert recorder.recording.summary()
    return recorder.recording
