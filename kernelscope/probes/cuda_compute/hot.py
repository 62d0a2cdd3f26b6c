"""The hooks of cuda.compute that every call pays for.

They are templates: `Patches.lend` has the library's own functions run their code, with what they work with as
keyword-only defaults. A local name is the cheapest there is. What is rare (a build, a failure, a call on a stream) is
left to `requests` and `calls`.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any


def request_template(cache_name: Any, func: Any) -> FunctionType:
    """Return the hook on a ``make_*`` factory's cache: its free variables are those of the library's function."""

    def inner(*args: Any, _ks_original: Any, _ks_now: Any, _ks_known: Any, _ks_write: Any, _ks_settle: Any,
              _ks_failed: Any, **kwargs: Any) -> Any:
        if False:
            _ = cache_name, func  # free variables, as many as the library's function has
        start = _ks_now()
        try:
            result = _ks_original(*args, **kwargs)
        except BaseException as error:
            _ks_failed(args, kwargs, start, error)
            raise
        known = _ks_known.get(id(result))
        if known is None:
            _ks_settle(args, kwargs, start, result)
        else:
            _ks_write((start, _ks_now(), known))
        return result

    return inner  # type: ignore[return-value]


def algorithm(*args: Any, _ks_original: Any, _ks_ident: Any, _ks_inside: Any, _ks_now: Any, _ks_write: Any,
              **kwargs: Any) -> Any:
    """In place of an algorithm such as ``reduce_into``: one launch, with all that it does."""
    me = _ks_ident()
    if me in _ks_inside:
        return _ks_original(*args, **kwargs)
    end = None
    start = _ks_now()
    try:
        _ks_inside.add(me)
        result = _ks_original(*args, **kwargs)
        end = _ks_now()
        return result
    finally:
        _ks_inside.discard(me)
        _ks_write(me, start, end, args, kwargs)


def built(self: Any, *args: Any, _ks_original: Any, _ks_ident: Any, _ks_inside: Any, _ks_now: Any, _ks_write: Any,
          **kwargs: Any) -> Any:
    """In place of ``__call__`` of what a factory has built: one launch, unless it only asks for how much memory."""
    me = _ks_ident()
    if me in _ks_inside or kwargs.get("temp_storage", me) is None:
        return _ks_original(self, *args, **kwargs)
    end = None
    start = _ks_now()
    try:
        _ks_inside.add(me)
        result = _ks_original(self, *args, **kwargs)
        end = _ks_now()
        return result
    finally:
        _ks_inside.discard(me)
        _ks_write(me, start, end, args, kwargs, self)
