"""What nvtx's functions do while ranges are recorded.

`enter` and `leave` are templates, as in ``numba_cuda.hot``: nvtx's own methods run their code, with what they work on
as defaults. All hooks call nvtx's own function first, or last where a range ends, and return what it returns; the one
exception are the ids of start/end ranges. Without a tool nvtx gives every such range the same one, None or 0, which
does not tell them apart. There they return what nvtx documents: an id that no other range has, and which `end_range`
takes, also after recording has ended, and ignores.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernelscope.probes.base import hide_frame, hook_codes
from kernelscope.probes.nvtx.labels import hashable, label_row
from kernelscope.probes.sink import RANGE_EXIT, RANGE_POP, RANGE_PUSH, RANGE_START, Sink

#: Ids of start/end ranges that no tool has given begin here; nvtx takes any unsigned integer of 64 bits.
FIRST_ID = 1 << 62

_ident = threading.get_ident

# Numbers of all sessions: an id that is held from an earlier one ends no range of this one.
_numbers = itertools.count()


class RangeWriter:
    """Writes NVTX events to a sink.

    Parameters
    ----------
    sink : Sink
        Where to.
    name : str
        The probe, for errors of our own.
    """

    def __init__(self, sink: Sink, name: str) -> None:
        self.sink = sink
        self.name = name
        self.labels: dict[Any, int] = {}
        self.open: dict[int, int] = {}
        self.handle: Any = None
        self._write, self._now, self._states = sink.ranges.extend, sink.seconds, sink.states

    def label(self, *arguments: Any) -> int:
        """Return the id of a label; the arguments are those of ``nvtx.annotate``."""
        try:
            return self.labels[arguments]
        except KeyError:
            number = self._intern(arguments, arguments)
            self.labels[arguments] = number
            return number
        except TypeError:  # a list or an array as payload
            return self._intern(hashable(*arguments), arguments)

    def event(self, kind: int, arguments: tuple[Any, ...]) -> None:
        """Write one event of now; what goes wrong is counted and swallowed."""
        try:
            self._write((self._now(), kind, self.labels[arguments], self._states[_ident()].thread_id))
        except Exception:
            self._first(kind, arguments)

    def start(self, arguments: tuple[Any, ...], given: int | None = None) -> int:
        """Write the start of a start/end range; return its id: the one that a tool has given, or a new one."""
        number = next(_numbers)
        token = FIRST_ID + number if given is None else given
        self.open[token] = number
        self.event(RANGE_START + 2 * number, arguments)
        return token

    def end(self, token: Any) -> None:
        """Write the end of the start/end range of that id, if it began in this session."""
        number = self.open.pop(token, None) if isinstance(token, int) else None
        if number is not None:
            self.event(RANGE_START + 2 * number + 1, (None,) * 5)

    def guarded(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns; None where it raises, which is counted and swallowed."""
        try:
            return work()
        except Exception as problem:
            self.sink.swallow(self.name, problem)
            return None

    def _first(self, kind: int, arguments: tuple[Any, ...]) -> None:
        """Write an event whose label or thread is seen for the first time, or whose label cannot be a key."""
        try:
            now = self._now()
            self._write((now, kind, self.label(*arguments), self.sink.state().thread_id))
        except Exception as problem:
            self.sink.swallow(self.name, problem)

    def _intern(self, key: Any, arguments: tuple[Any, ...]) -> int:
        return self.sink.range_labels.intern(key, lambda: label_row(*arguments))


def enter(self: Any, _original: Any, _write: Any, _now: Any, _labels: Any, _states: Any, _ident: Any,
          _slow: Any) -> Any:
    """In place of ``annotate.__enter__``."""
    try:
        result = _original(self)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    try:
        _write((_now(), 0, _labels[self.init_args], _states[_ident()].thread_id))
    except Exception:
        _slow(self)
    return result


def leave(self: Any, exc_type: Any, exc_value: Any, traceback: Any, _original: Any, _write: Any, _now: Any,
          _labels: Any, _states: Any, _ident: Any, _slow: Any) -> Any:
    """In place of ``annotate.__exit__``."""
    try:
        _write((_now(), 2, _labels[self.init_args], _states[_ident()].thread_id))
    except Exception:
        _slow(self)
    try:
        return _original(self, exc_type, exc_value, traceback)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise


def bound(template: Any, writer: RangeWriter, kind: int, original: Any) -> FunctionType:
    """Return `enter` or `leave` with what they work on as defaults."""
    sink = writer.sink

    def slow(annotation: Any) -> None:
        """What is seen for the first time, or cannot be a key."""
        writer.event(kind, tuple(getattr(annotation, "init_args", (None,) * 5)))

    hook = FunctionType(template.__code__, template.__globals__, template.__name__, (
        original, sink.ranges.extend, sink.seconds, writer.labels, sink.states, threading.get_ident, slow))
    hook_codes.add(hook.__code__)
    return hook


class _Current:
    """The writer of the recording that is under way: what functions go by that were decorated in any recording."""

    writer: RangeWriter | None = None


def decorated(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a function that makes a range a call while something records, and else only calls `function`.

    That is what ``annotate`` as a decorator returns while a tool is attached; without one it returns `function` itself.
    What is no plain function, such as a kernel, and what runs on after the call (coroutines, generators) stays so.
    """
    if type(function) is not FunctionType or function.__code__.co_flags & _SUSPENDS:
        return function
    message, *others = arguments
    label = (function.__name__ if message is None else message, *others)

    def inner(*args: Any, **kwargs: Any) -> Any:
        writer = _Current.writer
        if writer is not None:
            writer.event(RANGE_PUSH, label)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        finally:
            if writer is not None:
                writer.event(RANGE_EXIT, label)

    hook_codes.add(inner.__code__)
    return functools.wraps(function)(inner)


# CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR
_SUSPENDS = 0x20 | 0x80 | 0x100 | 0x200


def set_current(writer: RangeWriter | None) -> None:
    """Say who writes for functions that were decorated while something recorded; None for nobody."""
    _Current.writer = writer


def is_current(writer: RangeWriter) -> bool:
    """Whether that writer's recording is under way; a hook that outlives it, under another's wrapper, asks."""
    return _Current.writer is writer


def call(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    """In place of ``annotate.__call__``: the decorator."""

    def __call__(self: Any, func: Any) -> Any:
        result = original(self, func)
        return decorated(func, tuple(self.init_args)) if result is func else result

    return __call__


def push(writer: RangeWriter, original: Any, kind: int) -> Callable[..., Any]:
    """In place of ``nvtx.push_range`` and ``nvtx.mark``."""

    def push_range(message: Any = None, color: Any = "blue", domain: Any = None, category: Any = None,
                   payload: Any = None) -> Any:
        result = original(message, color, domain, category, payload)
        writer.event(kind, (message, color, domain, category, payload))
        return result

    return push_range


def pop(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    """In place of ``nvtx.pop_range``."""

    def pop_range(domain: Any = None) -> Any:
        writer.event(RANGE_POP, (None, None, domain, None, None))
        return original(domain)

    return pop_range


def start(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    """In place of ``nvtx.start_range``."""

    def start_range(message: Any = None, color: Any = None, domain: Any = None, category: Any = None,
                    payload: Any = None) -> Any:
        result = original(message, color, domain, category, payload)
        given = result[0] if isinstance(result, tuple) else None
        token = writer.start((message, color, domain, category, payload), given)
        return (token, writer.handle) if result is None and writer.handle is not None else result

    return start_range


def end(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    """In place of ``nvtx.end_range``."""

    def end_range(range_id: Any) -> Any:
        if isinstance(range_id, tuple) and range_id:
            writer.end(range_id[0])
        return original(range_id)

    return end_range


def of_decorated(writer: RangeWriter, original: Any, decorator: Any, kind: int) -> Callable[..., Any]:
    """In place of the C functions to which a function that was decorated while a tool was attached pushes and pops.

    Nvtx's other functions call them too: those have hooks of their own, so that only this caller counts here.
    """
    callers = {each for each in decorator.co_consts if getattr(each, "co_name", "") == "inner"}

    def library_function(*args: Any) -> Any:
        if _Current.writer is writer and sys._getframe(1).f_code in callers:
            handle = args[-1]
            attributes = args[0] if kind == RANGE_PUSH else None
            message = getattr(getattr(attributes, "message", None), "string", None)
            writer.event(kind, (message, getattr(attributes, "color", None), handle.name or None,
                                getattr(attributes, "category", None) or None, getattr(attributes, "payload", None)))
        try:
            return original(*args)
        except BaseException as error:
            hide_frame(error)
            raise

    return library_function
