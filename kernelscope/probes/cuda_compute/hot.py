"""The hooks of cuda.compute with Python 3.11, whose functions' calls cannot run through C: every call pays for them.

`Patches.lend` has the library's own functions run their code, with what they work with as keyword-only defaults: a
local name is the cheapest there is. What is rare (a build, a failure, a call on a stream) is in `requests` and `calls`.
"""

from __future__ import annotations

import inspect
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
            result = _ks_original(*args, **kwargs) if args else _ks_original(**kwargs)
        except BaseException as error:
            _ks_failed(args, kwargs, start, error)
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        known = _ks_known(id(result))
        if known is None:
            _ks_settle(args, kwargs, start, result)
        else:
            _ks_write((start, _ks_now(), known))
        return result

    return inner  # type: ignore[return-value]


_CALL = """
def {name}({parameters}):
    me = _ks_ident()
    if me in _ks_inside{or_asks}:
        try:
            return _ks_original({arguments})
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
    end = None
    start = _ks_now()
    try:
        _ks_inside.add(me)
        result = _ks_original({arguments})
        end = _ks_now()
        return result
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        _ks_inside.discard(me)
        _ks_write(me, start, end, {stream}, {built})
"""
_TOOLS = ("_ks_original", "_ks_ident", "_ks_inside", "_ks_now", "_ks_write")


def call_template(function: FunctionType, *, method: bool) -> FunctionType:
    """Return the hook on a call of an algorithm: one launch, with all that it does.

    It is made with the function's own parameters: passing them on by their names costs 0.15 us, as ``**kwargs`` 0.4 us.
    A `method` is the ``__call__`` of what a factory has built; one that only asks for how much memory is no launch.
    """
    parameters: list[str] = []
    arguments: list[str] = []
    given: list[inspect.Parameter] = list(inspect.signature(function).parameters.values())
    kinds = {parameter.kind for parameter in given}
    tools = [*([] if inspect.Parameter.VAR_POSITIONAL in kinds else ["*"]), *_TOOLS]
    for parameter in given:
        name, kind = parameter.name, parameter.kind
        if tools and kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            parameters, tools = parameters + tools, []
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(kind, "")
        parameters.append(f"{star}{name}=None" if parameter.default is not inspect.Parameter.empty else f"{star}{name}")
        arguments.append(f"{name}={name}" if kind is inspect.Parameter.KEYWORD_ONLY else f"{star}{name}")
        if kind is inspect.Parameter.POSITIONAL_ONLY and parameter is given[-1]:
            parameters.append("/")
    names = [parameter.name for parameter in given]
    text = _CALL.format(
        name=function.__name__, parameters=", ".join(parameters + tools), arguments=", ".join(arguments),
        or_asks=" or temp_storage is None" if method and "temp_storage" in names else "",
        stream="stream" if "stream" in names else None, built=names[0] if method else None)
    made: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), {"__name__": __name__}, made)
    hook = made[function.__name__]
    hook.__kwdefaults__ = dict(function.__kwdefaults__ or {})
    return hook
