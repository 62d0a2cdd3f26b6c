"""The hooks that every launch of numba-cuda-mlir pays for; see `kernelscope.probes.numba_cuda.hot` for how they work.

``_ArgMarshaller.__call__`` takes any number of arguments, and so what its hook works with cannot be defaults behind the
launch's own: it is one keyword of that function, a tuple, which costs less than keywords one by one.
"""

from __future__ import annotations

from types import CodeType
from typing import Any


def call_phases(self: Any, *args: Any, _kernelscope: Any) -> Any:
    """In place of ``_ArgMarshaller.__call__``: one launch, with the boundaries that there are."""
    ident, states, new_state, now, write, size, room, known, nested, settle, original = _kernelscope
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        try:
            return nested(state, self, args)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    end = 0.0
    start = now()  # a signal handler can raise here: the launch is not open yet
    state.launch_config = self
    state.kernel = None
    try:
        result = original(self, *args)
        end = now()
        target, configuration, _ = known[self._launcher, id(state.kernel)]
        offset = state.offset
        if offset == room:
            raise BufferError
        state.offset = offset + size
        state.launch_config = None
        # No call since the offset was read: a signal handler or a finalizer that launches comes before or after.
        write(state.buffer, offset, start, -1.0, -1.0, state.submit_end, end, target, configuration)
        return result
    except BaseException as error:
        if not settle(state, self, start, end, error):
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        return result  # type: ignore[possibly-unbound]


def call_ends(self: Any, *args: Any, _kernelscope: Any) -> Any:
    """In place of ``_ArgMarshaller.__call__``: one launch, its two ends."""
    ident, states, new_state, now, write, size, room, known, nested, settle, original = _kernelscope
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        try:
            return nested(state, self, args)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    end = 0.0
    start = now()  # a signal handler can raise here: the launch is not open yet
    state.launch_config = self
    state.kernel = None
    try:
        result = original(self, *args)
        end = now()
        target, configuration, _ = known[self._launcher, id(state.kernel)]
        offset = state.offset
        if offset == room:
            raise BufferError
        state.offset = offset + size
        state.launch_config = None
        write(state.buffer, offset, start, end, target, configuration)
        return result
    except BaseException as error:
        if not settle(state, self, start, end, error):
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        return result  # type: ignore[possibly-unbound]


def launch_phases(self: Any, argtypes: Any, launch_args: Any, launch_values: Any = None, ident: Any = None,
                  states: Any = None, new_state: Any = None, now: Any = None, original: Any = None) -> Any:
    """In place of ``_ArgMarshaller._launch``: which types the arguments have, and when the native launcher returned.

    In it are the look for the specialization, a compile, the module's load and the driver call, all of it native.
    """
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.kernel = argtypes
    try:
        result = original(self, argtypes, launch_args, launch_values)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    state.submit_end = now()
    return result


def launch_ends(self: Any, argtypes: Any, launch_args: Any, launch_values: Any = None, ident: Any = None,
                states: Any = None, new_state: Any = None, now: Any = None, original: Any = None) -> Any:
    """As `launch_phases`, without the boundary."""
    try:
        states[ident()].kernel = argtypes
    except KeyError:
        new_state().kernel = argtypes
    try:
        return original(self, argtypes, launch_args, launch_values)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise


#: For `kernelscope.probes.base.hook_codes`.
CODES: frozenset[CodeType] = frozenset(hook.__code__ for hook in (
    call_phases, call_ends, launch_phases, launch_ends))
