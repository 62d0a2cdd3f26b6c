"""The NVTX probe: ranges and marks that are made in Python with the package ``nvtx``; no tool is needed."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Patches, Probe, hide_frame, hook_codes, signature_problems
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.sink import RANGE_EXIT, RANGE_MARK, RANGE_POP, RANGE_PUSH, RANGE_START, Sink

#: Longer texts are cut off.
LONGEST = 1000
_FEW = 8


def label_row(message: Any, color: Any, domain: Any, category: Any, payload: Any) -> dict[str, Any]:
    """Return a range label's row; the arguments are those of ``nvtx.annotate``, in its order."""
    return {
        "name": "" if message is None else _text(message),
        "domain": None if domain is None else _text(domain),
        "category": None if category is None else _text(category),
        "color": _color(color),
        "payload": None if payload is None else _payload(payload),
    }


def hashable(*arguments: Any) -> tuple[Any, ...]:
    """Return a key for arguments that may be no keys themselves, such as an array as payload."""
    return tuple(each if type(each) in (str, int, float, bool, type(None)) else _payload(each) for each in arguments)


def _text(value: Any) -> str:
    text = value if type(value) is str else _read(value, str, type(value).__name__)
    # Half a surrogate pair is legal in Python, and in no file.
    return text[:LONGEST].encode("utf-8", "backslashreplace").decode()


def _read(value: Any, text: Callable[[Any], Any], otherwise: str | None) -> Any:
    """Return ``text(value)``, or `otherwise` where an object of the user's raises; nvtx does not ask it."""
    try:
        return text(value)
    except Exception as problem:
        if from_signal_handler(problem):
            raise
        return otherwise


def _color(color: Any) -> str | None:
    """A color as #rrggbb. Matplotlib knows more names than nvtx; it is asked only where the user has imported it."""
    return None if color is None else _read(color, _hexadecimal, None)


def _hexadecimal(color: Any) -> str | None:
    if isinstance(color, int):
        return f"#{color & 0xFFFFFF:06x}"
    known = getattr(sys.modules.get("nvtx.colors"), "_NVTX_COLORS", {})
    if isinstance(color, str):
        if color in known:
            return f"#{known[color]:06x}"
        if re.fullmatch(r"#[0-9a-fA-F]{6}", color):
            return color.lower()
    colors = sys.modules.get("matplotlib.colors")
    try:
        return str(colors.to_hex(color)) if colors is not None else None
    except (TypeError, ValueError):
        return None


def _payload(value: Any) -> str:
    return _read(value, _payload_text, type(value).__name__)


def _payload_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(bool(value))
    if isinstance(value, int):
        return int.__repr__(value)[:LONGEST] if abs(value) < 1 << 64 else "int"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, range):
        return repr(value)
    if isinstance(value, bytes):
        return f"bytes[{len(value)}]"
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)
        short = len(items) <= _FEW and all(type(each) in (int, float) for each in items)
        return repr(value) if short and type(value) in (list, tuple) else f"{kind}[{len(items)}]"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{getattr(value, 'dtype', kind)}[{', '.join(str(each) for each in shape)}]"[:LONGEST]
    return kind


# Ranges made with a Domain object: while recording, one without a tool has a name, and its methods are recorded.

_FIELDS = ("message", "color", "category", "payload")

# By domain name: asked twice, nvtx returns the same object.
_named: dict[Any, Any] = {}
_classes: dict[Any, tuple[type, type]] = {}


def get_domain(module: Any, original: Any) -> FunctionType:
    """In place of ``nvtx.get_domain``: without a tool, a dummy that knows its name. Nvtx itself gets its own.

    It has no closure: nvtx's function runs its code, which ``annotate`` and the functions call each time.
    """
    named, _ = _dummies(module)

    def of_name(name: Any) -> Any:
        try:
            if name not in _named:
                domain = named()
                domain.name = name
                _named.setdefault(name, domain)  # another thread may ask for it as well
            return _named[name]
        except Exception as problem:  # an object of the user's that cannot be compared
            if from_signal_handler(problem):
                raise
            return module.dummy_domain

    return FunctionType(_get_domain.__code__, globals(), "get_domain", (
        *(original.__defaults__ or ()), original, module.dummy_domain, sys._getframe, vars(module), of_name))


def _get_domain(name: Any, _original: Any, _dummy: Any, _frame: Any, _inside: Any, _of_name: Any) -> Any:
    try:
        domain = _original(name)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    if name is None or domain is not _dummy or _frame(1).f_globals is _inside:
        return domain
    return _of_name(name)


def hook_domains(writer: RangeWriter, patches: Patches, module: Any) -> None:
    """Hook the methods of nvtx's two kinds of Domain."""
    _, recorded = _dummies(module)
    for owner in (module.DummyDomain, module.Domain):
        dummy = owner is module.DummyDomain
        for name, kind in (("push_range", RANGE_PUSH), ("mark", RANGE_MARK)):
            patches.hook(owner, name, lambda original, kind=kind: _push(writer, original, kind))
        patches.hook(owner, "pop_range", lambda original: _pop(writer, original))
        patches.hook(owner, "start_range", lambda original, dummy=dummy: _start(writer, original, dummy))
        patches.hook(owner, "end_range", lambda original: _end(writer, original))
    patches.hook(module.DummyDomain, "get_event_attributes", lambda original: _attributes(writer, original, recorded))
    patches.hook(module.DummyDomain, "set_event_attributes", lambda original: _change(original, recorded))


def _dummies(module: Any) -> tuple[type, type]:
    """A dummy domain with a name, and attributes that remember what they were given: both are of nvtx's own types.

    Nvtx's methods take them, also when recording has ended, so that it does not matter who holds them.
    """
    key = module.DummyDomain
    if key not in _classes:
        base = sys.modules["nvtx._lib.lib"].EventAttributes
        named = type("DummyDomain", (module.DummyDomain,), {"__module__": key.__module__})
        # Plain attributes in place of the C ones, which want handles of strings that only a tool has.
        recorded = type("EventAttributes", (base,), {"__module__": base.__module__, **dict.fromkeys(_FIELDS)})
        _classes[key] = named, recorded
    return _classes[key]


def _given(writer: RangeWriter, domain: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """What a range was given, in the order of ``annotate``; of objects that cannot be read the domain only."""
    found = writer.guarded(lambda: _arguments(domain, args, keywords))
    return (None, None, getattr(domain, "name", None), None, None) if found is None else found


def _arguments(domain: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Keywords go over the attributes' own."""
    attributes = args[0] if args else keywords.get("attributes")
    values = {name: keywords.get(name, getattr(attributes, name, None)) for name in _FIELDS}
    message = getattr(values["message"], "string", values["message"])
    category = values["category"] or None
    names = getattr(domain, "categories", None)
    if isinstance(category, int) and isinstance(names, dict):
        category = next((name for name, number in names.items() if number == category), category)
    return message, values["color"], getattr(domain, "name", None), category, values["payload"]


def _push(writer: RangeWriter, original: Any, kind: int) -> Callable[..., Any]:
    def push_range(self: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, *args, **keywords)
        if is_current(writer):
            writer.event(kind, _given(writer, self, args, keywords))
        return result

    return push_range


def _pop(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    def pop_range(self: Any) -> Any:
        if is_current(writer):
            writer.event(RANGE_POP, (None, None, getattr(self, "name", None), None, None))
        return original(self)

    return pop_range


def _start(writer: RangeWriter, original: Any, dummy: bool) -> Callable[..., Any]:
    def start_range(self: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, *args, **keywords)
        if not is_current(writer):
            return result
        return writer.start(_given(writer, self, args, keywords), None if dummy else result)

    return start_range


def _end(writer: RangeWriter, original: Any) -> Callable[..., Any]:
    def end_range(self: Any, range_id: Any) -> Any:
        if is_current(writer):
            writer.end(range_id)
        return original(self, range_id)

    return end_range


def _attributes(writer: RangeWriter, original: Any, recorded: Any) -> Callable[..., Any]:
    def get_event_attributes(self: Any, message: Any = None, color: Any = None, category: Any = None,
                             payload: Any = None) -> Any:
        result = original(self, message, color, category, payload)
        if result is not None or not is_current(writer):
            return result
        return writer.guarded(lambda: _remember(recorded(self), (message, color, category, payload)))

    return get_event_attributes


def _remember(attributes: Any, values: tuple[Any, ...]) -> Any:
    for name, value in zip(_FIELDS, values, strict=True):
        setattr(attributes, name, value)
    return attributes


def _change(original: Any, recorded: Any) -> Callable[..., Any]:
    def set_event_attributes(self: Any, attributes: Any, **keywords: Any) -> Any:
        result = original(self, attributes, **keywords)
        if issubclass(type(attributes), recorded):
            for name, value in keywords.items():
                setattr(attributes, name, value)
        return result

    return set_event_attributes


# What nvtx's functions do while ranges are recorded.
#
# `enter` and `leave` are templates, as in ``numba_cuda.hot``: nvtx's own methods run their code, with what they work
# on as defaults. All hooks call nvtx's own function first, or last where a range ends, and return what it
# returns; the one exception are the ids of start/end ranges. Without a tool nvtx gives every such range the same
# one, None or 0, which does not tell them apart. There they return what nvtx documents: an id that no other range
# has, and which `end_range` takes, also after recording has ended, and ignores.

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
            number = self.labels.get(arguments)
            if number is None:
                number = self.labels[arguments] = self._intern(arguments, arguments)
            return number
        except Exception as problem:  # a list or an array as payload, or an object that raises
            if from_signal_handler(problem):
                raise
            return self._intern(hashable(*arguments), arguments)

    def event(self, kind: int, arguments: tuple[Any, ...]) -> None:
        """Write one event of now; what goes wrong is counted and swallowed."""
        try:
            self._write((self._now(), kind, self.labels[arguments], self._states[_ident()].here()))
        except Exception as problem:
            self.first(kind, arguments, problem)

    def start(self, arguments: tuple[Any, ...], given: int | None = None) -> int:
        """Write the start of a start/end range; return its id: the one that a tool has given, or a new one."""
        number = next(_numbers)
        token = FIRST_ID + number if given is None else given
        self.open[token] = number
        self.event(RANGE_START + 2 * number, arguments)
        return token

    def end(self, token: Any) -> None:
        """Write the end of the start/end range of that id, if it began in this session."""
        number = self.open.pop(token, None) if type(token) is int else None
        if number is not None:
            self.event(RANGE_START + 2 * number + 1, (None,) * 5)

    def guarded(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns; None where it raises, which is counted and swallowed."""
        try:
            return work()
        except Exception as problem:
            self.sink.guard(self.name, problem)
            return None

    def first(self, kind: int, arguments: tuple[Any, ...], problem: BaseException | None) -> None:
        """Write an event whose label or thread is seen for the first time, or whose label cannot be a key.

        `problem` is what kept it from being written at once: raised again where a signal handler has raised it.
        """
        try:
            now = self._now()
            self._write((now, kind, self.label(*arguments), self.sink.state().here()))
        except Exception as another:
            self.sink.guard(self.name, another)
        if problem is not None and from_signal_handler(problem):
            raise problem

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
        _write((_now(), 0, _labels[self.init_args], _states[_ident()].here()))
    except Exception:
        _slow(self)
    return result


def leave(self: Any, exc_type: Any, exc_value: Any, traceback: Any, _original: Any, _write: Any, _now: Any,
          _labels: Any, _states: Any, _ident: Any, _slow: Any) -> Any:
    """In place of ``annotate.__exit__``."""
    try:
        _write((_now(), 2, _labels[self.init_args], _states[_ident()].site))
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
        writer.first(kind, tuple(getattr(annotation, "init_args", (None,) * 5)), sys.exception())

    return FunctionType(template.__code__, template.__globals__, template.__name__, (
        original, sink.ranges.extend, sink.seconds, writer.labels, sink.states, threading.get_ident, slow))


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
        if type(range_id) is tuple and range_id:
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


# The NVTX probe.

_MAKES = ["message", "color", "domain", "category", "payload"]

class NvtxProbe(Probe):
    """Hooks nvtx where it is imported, or as soon as it is."""

    name = "nvtx"
    fix = "pip install 'nvtx==0.2.17'"

    def unhook(self) -> None:
        """Undo every hook, and have decorated functions write nothing. See `Probe.unhook`."""
        set_current(None)
        super().unhook()

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Cost a launch nothing: `trial` is of a range. See `ProbeProtocol.cost_per_launch_ns`."""
        return None

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two ``annotate`` blocks. See `Probe.trial`."""
        plain, hooked = _block(), _block()
        hook_annotate(patches, type(hooked), RangeWriter(sink, self.name))
        return (lambda: _open_and_close(plain)), (lambda: _open_and_close(hooked))

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook ``annotate`` and the functions beside it. See `Probe.hook`."""
        package, module = module, module.nvtx
        if not package.enabled():
            self.report(sink, "NVTX_DISABLE is set: nvtx is switched off, and no range is recorded",
                        status="unavailable", fix="unset NVTX_DISABLE")
            return
        problems = self_check(module)
        if problems:
            raise ProbeUnavailableError(f"this nvtx is unknown: {'; '.join(problems)}; no range is recorded")
        writer = RangeWriter(sink, self.name)
        writer.handle = sys.modules["nvtx._lib.lib"].DomainHandle()
        decorator = module.annotate.__call__.__code__  # before it is hooked
        hook_annotate(self.patches, module.annotate, writer)
        for name, make in (
            ("push_range", lambda original: push(writer, original, RANGE_PUSH)),
            ("mark", lambda original: push(writer, original, RANGE_MARK)),
            ("pop_range", lambda original: pop(writer, original)),
            ("start_range", lambda original: start(writer, original)),
            ("end_range", lambda original: end(writer, original)),
            ("get_domain", lambda original: get_domain(module, original)),
        ):
            self.patches.hook(module, name, make)
        for name, kind in (("libnvtx_push_range", RANGE_PUSH), ("libnvtx_pop_range", RANGE_POP)):
            self.patches.hook(module, name, lambda original, kind=kind: of_decorated(
                writer, original, decorator, kind))
        hook_domains(writer, self.patches, module)
        set_current(writer)


def hook_annotate(patches: Patches, annotate: Any, writer: RangeWriter) -> None:
    """Hook ``annotate`` as a context manager and as a decorator."""
    patches.hook(annotate, "__enter__", lambda original: bound(enter, writer, RANGE_PUSH, original))
    patches.hook(annotate, "__exit__", lambda original: bound(leave, writer, RANGE_EXIT, original))
    patches.hook(annotate, "__call__", lambda original: call(writer, original))


def self_check(module: Any) -> list[str]:
    """Return how the functions that the hooks rely on differ from what they should be."""
    problems = signature_problems(module, (
        *((name, _MAKES, ()) for name in ("push_range", "mark", "start_range")),
        ("pop_range", ["domain"], ()),
        ("end_range", ["range_id"], ()),
        ("get_domain", ["name"], ()),
        ("annotate.__init__", ["self", *_MAKES], ("init_args",)),
        ("annotate.__enter__", ["self"], ()),
        ("annotate.__exit__", ["self", "exc_type", "exc_value", "traceback"], ()),
        ("annotate.__call__", ["self", "func"], ()),
    ))
    needed = ("Domain", "DummyDomain", "dummy_domain", "libnvtx_push_range", "libnvtx_pop_range")
    return problems + [f"it has no {name}" for name in needed if not hasattr(module, name)]


def _open_and_close(block: Any) -> None:
    with block:
        other_work()


def _block() -> Any:
    """Return what does as an ``annotate`` block without a tool; it is of a class of its own."""
    class Block:
        init_args = ("block", "blue", "domain", None, None)
        domain = dummy = object()

        def __enter__(self) -> Any:
            if self.domain is not self.dummy:
                raise RuntimeError("never")
            return self

        def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
            if self.domain is not self.dummy:
                raise RuntimeError("never")
            return False

        def __call__(self, func: Any) -> Any:
            return func

    return Block()
