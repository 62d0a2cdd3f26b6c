"""Ranges made with a Domain object: while recording, one without a tool has a name, and its methods are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernelscope.probes.base import Patches
from kernelscope.probes.nvtx.hooks import RangeWriter, is_current
from kernelscope.probes.sink import RANGE_MARK, RANGE_POP, RANGE_PUSH

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
        if name not in _named:
            _named[name] = named()
            _named[name].name = name
        return _named[name]

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


def _given(domain: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """What a range was given, in the order of ``annotate``: keywords over the attributes' own."""
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
            writer.guarded(lambda: writer.event(kind, _given(self, args, keywords)))
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
        token = writer.guarded(lambda: writer.start(_given(self, args, keywords), None if dummy else result))
        return result if token is None else token

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
        if isinstance(attributes, recorded):
            for name, value in keywords.items():
                setattr(attributes, name, value)
        return result

    return set_event_attributes
