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
from kernelscope.schema import UNKNOWN

def _unbound(*_: Any) -> Any:
    raise RuntimeError("a hook runs only as bind() makes it")


# What `bind` gives each recording: the values here stand for them.
states: Any = {}
only = ThreadState(UNKNOWN, PHASES)
targets: dict[Any, int] = {}
configurations: dict[Any, int] = {}
now: Callable[[], float] = time.perf_counter
new_state: Callable[[], ThreadState] = _unbound
nested = settle = original_call = original_launch = original_submit = original_load = _unbound
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


def launch_phases_alone(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0,
                        sharedmem: Any = 0) -> Any:
    """As `launch_phases`, while one thread is all that launches: its state need not be looked up."""
    state = only
    state.kernel = self
    state.dispatch_end = now()
    return original_launch(self, args, griddim, blockdim, stream, sharedmem)


def submit_phases_alone(*arguments: Any) -> Any:
    """As `submit_phases`, while one thread is all that launches."""
    state = only
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


def launch_ends_alone(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0,
                      sharedmem: Any = 0) -> Any:
    """As `launch_ends`, while one thread is all that launches."""
    only.kernel = self
    return original_launch(self, args, griddim, blockdim, stream, sharedmem)


def load(self: Any) -> Any:
    """In place of ``CUDACodeLibrary.get_cufunc`` where there are several devices: each has a function of its own."""
    function = original_load(self)
    try:
        states[ident()].kernel = function
    except KeyError:
        new_state().kernel = function
    return function


#: For the call, the kernel's launch and the driver call: the hook for one thread, and the one for several.
PHASE_HOOKS = ((call_phases, call_phases), (launch_phases_alone, launch_phases), (submit_phases_alone, submit_phases))
END_HOOKS = ((call_ends, call_ends), (launch_ends_alone, launch_ends))
#: For `kernelscope.probes.base.hook_codes`.
CODES: frozenset[CodeType] = frozenset(
    hook.__code__ for pair in (*PHASE_HOOKS, *END_HOOKS, (load,)) for hook in pair)


def bind(hook: Any, namespace: dict[str, Any]) -> Any:
    """Return a function with the hook's code and `namespace` as its globals."""
    return FunctionType(hook.__code__, namespace, hook.__name__, hook.__defaults__)
