"""Recording a block of code, or each call of a function.

Apart from `kernelscope.recorder.recorder`, because a process that records itself needs neither at its start.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from kernelscope.probes import base
from kernelscope.recorder.core_options import CoreOptions
from kernelscope.recorder.options import P, RecordingOptions, options_text, parameters, takes_options
from kernelscope.recorder.recorder import Recorder, recorder_of

Function = TypeVar("Function", bound=Callable[..., Any])


@takes_options(RecordingOptions)
def record(options: RecordingOptions) -> Recorder:
    """Return a `Recorder` for a ``with`` block; after it, its ``recording`` is the `Recording`.

    {options}

    Examples
    --------
    >>> with kernelscope.record("warm-up") as r:  # doctest: +SKIP
    ...     kernel[1, 32](array)
    >>> r.recording.launches  # doctest: +SKIP
    """
    return recorder_of(options)


class Recorded(Protocol[P]):
    """How `recorded` is called: with a function, or with options, and then it is a decorator."""

    @overload
    def __call__(self, function: Function, /) -> Function: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Callable[[Function], Function]: ...


def function_or_options(make: Callable[P, CoreOptions]) -> Callable[[Callable[..., Any]], Recorded[P]]:
    """Return a decorator for `recorded`, which gives it the options' signature beside the function."""
    def decorate(recorded: Any) -> Recorded[P]:
        taken = [each.replace(kind=each.KEYWORD_ONLY) for each in parameters(make)]
        given = inspect.Parameter("function", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        recorded.__signature__ = inspect.Signature([given, *taken])
        recorded.__doc__ = inspect.cleandoc(recorded.__doc__).replace("{options}", options_text(make))
        return recorded

    return decorate


@function_or_options(RecordingOptions)
def recorded(function: Any = None, **options: Any) -> Any:
    """Record every call of a function; the newest call's recording is its ``recording`` attribute.

    The function's result, exceptions and signature stay as they are.

    {options}
    """
    if function is None:
        return functools.partial(recorded, **options)
    if not callable(function):
        raise TypeError(f"recorded() takes a function, and {function!r} is none: options are given by their names")
    given: dict[str, Any] = {**options, "name": options.get("name") or function.__qualname__}
    each_call = RecordingOptions(**given)
    call: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            recorder = recorder_of(each_call)
            try:
                with recorder:
                    return await function(*args, **kwargs)
            except BaseException as error:
                base.hide_frame(error)
                raise
            finally:
                call.recording = recorder._finished()

        call = call_async
        call.recording = None
        return call

    @functools.wraps(function)
    def call_plain(*args: Any, **kwargs: Any) -> Any:
        recorder = recorder_of(each_call)
        try:
            with recorder:
                return function(*args, **kwargs)
        except BaseException as error:
            base.hide_frame(error)
            raise
        finally:
            call.recording = recorder._finished()

    call = call_plain
    call.recording = None
    return call
