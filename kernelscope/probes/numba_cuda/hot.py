"""The hooks themselves: the only code of KernelScope that every launch pays for.

These functions are templates. Their parameters behind the launch's own are what they work with; `LaunchHooks` gives
them as defaults, which is how numba-cuda's own functions can run this code (`Patches.hook`): no global and no closure
is needed, and a local name is the cheapest there is. They spend no call, no lookup and no branch that was not
measured on a launch path whose caches are cold: see ``benchmarks/``. What is not on that path (a kernel seen for the
first time, a full chunk, an exception, a launch within a launch) is in `LaunchHooks`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any


def _unbound(*_: Any) -> Any:
    raise RuntimeError("the submit hooks run only with the globals that LaunchHooks gives them")


# What stands here in the globals of the submit hooks, which take any number of arguments and so have no defaults.
states: Any = {}
only: Any = None
ident: Callable[[], int] = _unbound
new_state = now = original_submit = _unbound


def call_phases(self: Any, args: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
                write: Any, size: Any, room: Any, targets: Any, configurations: Any, nested: Any, settle: Any,
                original: Any) -> Any:
    """In place of ``CUDADispatcher.call``: one launch, with every phase boundary."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        try:
            return nested(state, self, args, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    end = 0.0
    start = now()  # a signal handler can raise here: the launch is not open yet
    state.launch_config = launch_config
    state.kernel = None
    try:
        result = original(self, args, launch_config)
        end = now()
        target = targets[state.kernel]
        configuration = configurations[launch_config]
        offset = state.offset
        if offset == room:
            raise BufferError
        state.offset = offset + size
        state.launch_config = None
        # No call since the offset was read: a signal handler or a finalizer that launches comes before or after.
        write(state.buffer, offset, start, state.dispatch_end, state.submit_start, state.submit_end, end, target,
              configuration)
        return result
    except BaseException as error:
        if not settle(state, self, launch_config, start, end, error):
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        return result  # type: ignore[possibly-unbound]


def call_ends(self: Any, args: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
              write: Any, size: Any, room: Any, targets: Any, configurations: Any, nested: Any, settle: Any,
              original: Any) -> Any:
    """In place of ``CUDADispatcher.call``: one launch, its two ends."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        try:
            return nested(state, self, args, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    end = 0.0
    start = now()  # a signal handler can raise here: the launch is not open yet
    state.launch_config = launch_config
    state.kernel = None
    try:
        result = original(self, args, launch_config)
        end = now()
        target = targets[state.kernel]
        configuration = configurations[launch_config]
        offset = state.offset
        if offset == room:
            raise BufferError
        state.offset = offset + size
        state.launch_config = None
        write(state.buffer, offset, start, end, target, configuration)
        return result
    except BaseException as error:
        if not settle(state, self, launch_config, start, end, error):
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
        return result  # type: ignore[possibly-unbound]


def found_phases(self: Any, kernel: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
                 only: Any, original: Any) -> None:
    """In place of ``CUDADispatcher._update_launch_config_sensitivity``: dispatch has found the specialization.

    numba-cuda's function does nothing for most kernels; this one asks what it asks and so need not call it for them.
    """
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.kernel = kernel
    state.dispatch_end = now()
    if getattr(kernel, "launch_config_sensitive", False):
        try:
            original(self, kernel, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise


def found_phases_alone(self: Any, kernel: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
                       only: Any, original: Any) -> None:
    """As `found_phases`, while one thread is all that launches: its state need not be looked up."""
    only.kernel = kernel
    only.dispatch_end = now()
    if getattr(kernel, "launch_config_sensitive", False):
        try:
            original(self, kernel, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise


def found_ends(self: Any, kernel: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
               only: Any, original: Any) -> None:
    """As `found_phases`, without the boundary."""
    try:
        states[ident()].kernel = kernel
    except KeyError:
        new_state().kernel = kernel
    if getattr(kernel, "launch_config_sensitive", False):
        try:
            original(self, kernel, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise


def found_ends_alone(self: Any, kernel: Any, launch_config: Any, ident: Any, states: Any, new_state: Any, now: Any,
                     only: Any, original: Any) -> None:
    """As `found_ends`, while one thread is all that launches."""
    only.kernel = kernel
    if getattr(kernel, "launch_config_sensitive", False):
        try:
            original(self, kernel, launch_config)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise


def load(self: Any, ident: Any, states: Any, new_state: Any, original: Any) -> Any:
    """In place of ``CUDACodeLibrary.get_cufunc`` where there are several devices: each has a function of its own."""
    try:
        function = original(self)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    try:
        states[ident()].kernel = function
    except KeyError:
        new_state().kernel = function
    return function


def submit_phases(*arguments: Any) -> Any:
    """In place of the global ``launch``, the driver call, which is no Python function and so is replaced.

    numba-cuda passes no keywords; taking them would cost 60 ns.
    """
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.submit_start = now()
    try:
        result = original_submit(*arguments)  # where it raises, it never returned: the boundary stays unknown
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    state.submit_end = now()
    return result


def submit_phases_alone(*arguments: Any) -> Any:
    """As `submit_phases`, while one thread is all that launches."""
    state = only
    state.submit_start = now()
    try:
        result = original_submit(*arguments)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    state.submit_end = now()
    return result


#: For `kernelscope.probes.base.hook_codes`.
CODES: frozenset[CodeType] = frozenset(hook.__code__ for hook in (
    call_phases, call_ends, found_phases, found_phases_alone, found_ends, found_ends_alone, load, submit_phases,
    submit_phases_alone))
