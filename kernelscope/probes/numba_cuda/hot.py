"""The hooks themselves: the only code of KernelScope that every launch pays for.

These functions are templates. `bind` makes each recording's own from them, with a namespace of its own for the names
that stand at the top here: a closure would cost every call a copy of all its cells (60 ns a launch in CPython 3.11).
They spend no call, no lookup and no branch that was not measured on a launch path whose caches are cold: see
``benchmarks/``. What is not on that path (a kernel seen for the first time, a full chunk, an exception, a launch
within a launch) is in `LaunchHooks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import get_ident as ident
from types import CodeType, FunctionType
from typing import Any

from kernelscope.probes.sink import ENDS, PHASES, ThreadState

# What `bind` gives each recording: the values here are never used.
states: Any = {}
targets: dict[Any, int] = {}
configurations: dict[Any, int] = {}
now: Callable[[], float] = time.perf_counter
new_state: Callable[[], ThreadState]
nested: Callable[..., Any]
settle: Callable[..., bool]
original_call: Callable[..., Any]
original_launch: Callable[..., Any]
original_submit: Callable[..., Any]
write_phases, phases_size = PHASES.pack_into, PHASES.size
write_ends, ends_size = ENDS.pack_into, ENDS.size


def call_phases(self: Any, args: Any, launch_config: Any) -> Any:
    """In place of ``CUDADispatcher.call``: one launch, with every phase boundary."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        return nested(state, self, args, launch_config)
    state.launch_config = launch_config
    state.kernel = None
    end = 0.0
    start = now()
    try:
        result = original_call(self, args, launch_config)
        end = now()
        write_phases(state.buffer, state.offset, start, state.dispatch_end, state.submit_start, state.submit_end,
                     end, targets[state.kernel], configurations[launch_config])
        state.offset += phases_size
        state.launch_config = None
        return result
    except BaseException as error:
        if not settle(state, self, launch_config, start, end, error):
            raise
        return result  # type: ignore[possibly-unbound]


def launch_phases(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> Any:
    """In place of ``_Kernel.launch``: dispatch has ended, and `self` is the specialization."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.kernel = self
    state.dispatch_end = now()
    return original_launch(self, args, griddim, blockdim, stream, sharedmem)


def submit_phases(*arguments: Any) -> Any:
    """In place of the global ``launch``: the driver call. numba-cuda passes no keywords; taking them costs 60 ns."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.submit_start = now()
    result = original_submit(*arguments)  # where it raises, it never returned: the boundary stays unknown
    state.submit_end = now()
    return result


def submit_phases_of_devices(*arguments: Any) -> Any:
    """As `submit_phases`, where there are several devices: the driver's kernel tells which it is."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    state.kernel = arguments[2]
    state.submit_start = now()
    result = original_submit(*arguments)
    state.submit_end = now()
    return result


def call_ends(self: Any, args: Any, launch_config: Any) -> Any:
    """In place of ``CUDADispatcher.call``: one launch, its two ends."""
    try:
        state = states[ident()]
    except KeyError:
        state = new_state()
    if state.launch_config is not None:
        return nested(state, self, args, launch_config)
    state.launch_config = launch_config
    state.kernel = None
    end = 0.0
    start = now()
    try:
        result = original_call(self, args, launch_config)
        end = now()
        write_ends(state.buffer, state.offset, start, end, targets[state.kernel], configurations[launch_config])
        state.offset += ends_size
        state.launch_config = None
        return result
    except BaseException as error:
        if not settle(state, self, launch_config, start, end, error):
            raise
        return result  # type: ignore[possibly-unbound]


def launch_ends(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> Any:
    """In place of ``_Kernel.launch``: `self` is the specialization."""
    try:
        states[ident()].kernel = self
    except KeyError:
        new_state().kernel = self
    return original_launch(self, args, griddim, blockdim, stream, sharedmem)


def submit_ends_of_devices(*arguments: Any) -> Any:
    """In place of the global ``launch`` where there are several devices: the driver's kernel tells which it is."""
    try:
        states[ident()].kernel = arguments[2]
    except KeyError:
        new_state().kernel = arguments[2]
    return original_submit(*arguments)


#: In place of the call, the kernel's launch, the driver call, and the driver call where there are several devices.
PHASE_HOOKS = (call_phases, launch_phases, submit_phases, submit_phases_of_devices)
END_HOOKS = (call_ends, launch_ends, None, submit_ends_of_devices)
#: For `kernelscope.probes.base.hook_codes`.
CODES: frozenset[CodeType] = frozenset(hook.__code__ for hook in (*PHASE_HOOKS, *END_HOOKS) if hook)


def bind(hook: Any, namespace: dict[str, Any]) -> Any:
    """Return a function with the hook's code and `namespace` as its globals."""
    return FunctionType(hook.__code__, namespace, hook.__name__, hook.__defaults__)
