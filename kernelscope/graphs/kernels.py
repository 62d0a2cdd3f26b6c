"""What a launch of a numba kernel needs in a graph: the specialization, and its arguments as numbers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from kernelscope.errors import GraphError
from kernelscope.graphs.libraries import core, numba_module, require_names
from kernelscope.graphs.memory import check_context, region_of
from kernelscope.graphs.nodes import Condition, KernelNode

# numba's own launch path, which has no public part that stops before the launch.
_OF_MODULE = ("_dispatcher", "_LAUNCH_CONFIG_KW")
_OF_DISPATCHER = ("_select_launch_config_dispatcher", "_update_launch_config_sensitivity")
_OF_LAUNCH = ("_push_args", "_pop_args")


@dataclass(frozen=True)
class KernelCall:
    """One launch, as cuda.core takes it.

    Attributes
    ----------
    kernel : cuda.core.Kernel
        The function.
    config : cuda.core.LaunchConfig
        Grid, block and dynamic shared memory.
    packed : list
        The arguments; pointers are ints.
    key : tuple
        Equal for equal launches.
    keep : tuple
        What must live as long as the launch may run: arrays and the specialization.
    """

    kernel: Any
    config: Any
    packed: list[Any]
    key: tuple[Any, ...]
    keep: tuple[Any, ...]


def kernel_call(node: KernelNode, handle_of: Callable[[Condition], int],
                before: KernelCall | None = None) -> KernelCall:
    """Look a kernel node's specialization up, or compile it, and pack its arguments.

    Parameters
    ----------
    node : KernelNode
        The node.
    handle_of : callable
        Gives the handle of a condition.
    before : KernelCall, optional
        What the node did until now, in the same context: a kernel that is still the same need not be looked up.

    Raises
    ------
    GraphError
        The kernel or an argument cannot be in a graph. What numba raises when it compiles passes.
    """
    dispatcher = _dispatcher(node)
    args = tuple(_argument(node, place, value, handle_of) for place, value in enumerate(node.args))
    _check_count(node, dispatcher, len(args))
    try:
        launch = dispatcher.configure(node.grid, node.block, 0, node.sharedmem)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{node.label}: no launch configuration is [{node.grid!r}, {node.block!r}, "
                         f"{node.sharedmem!r}]: {error}") from error
    specialization = _specialization(dispatcher, launch, args)
    if specialization.debug:
        raise GraphError(f"{node.label}: a kernel that was compiled with debug=True reads its error code back after "
                         "every launch, which a graph cannot do; compile it without")
    if specialization.cooperative:
        raise GraphError(f"{node.label}: it synchronizes its grid, and so must be launched cooperatively, which "
                         "cuda.core's graph nodes cannot do; launch it while a stream captures a graph instead")
    packed, to_copy_back = _packed(specialization, args)
    if to_copy_back:
        raise GraphError(f"{node.label}: an argument would have to be copied from and to the host at every launch; "
                         "give device arrays")
    if before is not None and before.keep[0] is specialization:
        function = before.keep[1]
    else:
        function = specialization._codelibrary.get_cufunc()
    try:
        config = core().LaunchConfig(grid=launch.griddim, block=launch.blockdim, shmem_size=launch.sharedmem)
    except ValueError as error:
        raise GraphError(f"{node.label}: {error}") from None
    numbers = tuple((type(each).__name__, getattr(each, "value", each)) for each in packed)
    key = (id(specialization), launch.griddim, launch.blockdim, launch.sharedmem, numbers)
    return KernelCall(function.kernel, config, packed, key, (specialization, function, args))


def _dispatcher(node: KernelNode) -> Any:
    kernel = _compiled(node.kernel) if isinstance(node.kernel, FunctionType) else node.kernel
    if not isinstance(kernel, numba_module("dispatcher").CUDADispatcher):
        configured = getattr(kernel, "dispatcher", None)
        more = (", and no Python function" if configured is None else
                "; the launch configuration belongs in KernelNode[grid, block]")
        raise GraphError(f"{node.label}: {kernel!r} is no kernel of numba-cuda{more}")
    if kernel.targetoptions.get("device"):
        raise GraphError(f"{node.label}: it is a device function, and cannot be launched")
    return kernel


@functools.lru_cache(maxsize=128)
def _compiled(function: FunctionType) -> Any:
    """The kernel of a Python function: one for all of its nodes, and the same when a graph is updated."""
    return numba_module("decorators").jit(function)


def _argument(node: KernelNode, place: int, value: Any, handle_of: Callable[[Condition], int]) -> Any:
    if isinstance(value, numba_module("args").ArgHint):  # cuda.In and others say how to copy
        value = value.value
    if isinstance(value, Condition):
        return np.uint64(handle_of(value))
    for each in _leaves(value):
        region = region_of(each)
        if region is None:
            continue
        if not region.on_device:
            raise GraphError(f"{node.label}: argument {place + 1} is a host array ({type(each).__name__} of "
                             f"{region.dtype}), which numba would copy to the device and back at every launch: use "
                             "cuda.to_device, or a MemcpyHtoDNode before it")
        check_context(region, lambda: f"{node.label}: argument {place + 1}")
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _check_count(node: KernelNode, dispatcher: Any, count: int) -> None:
    code = dispatcher.py_func.__code__
    if code.co_argcount == count and not code.co_flags & inspect.CO_VARARGS:
        return
    parameters = inspect.signature(dispatcher.py_func).parameters.values()
    least = sum(each.default is each.empty and each.kind is not each.VAR_POSITIONAL for each in parameters)
    most = None if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(parameters)
    if count < least or (most is not None and count > most):
        names = ", ".join(str(each).partition(":")[0] for each in parameters)
        raise GraphError(f"{node.label} takes {least if most == least else f'{least} or more'} "
                         f"argument{'' if most == least == 1 else 's'} ({names}), and got {count}")


def _specialization(dispatcher: Any, launch: Any, args: tuple[Any, ...]) -> Any:
    """What numba's own `CUDADispatcher.call` would launch, compiled if need be."""
    module = numba_module("dispatcher")
    for owner, names in ((module, _OF_MODULE), (dispatcher, _OF_DISPATCHER), (launch, _OF_LAUNCH)):
        require_names(owner, names)
    previous = launch._push_args(args)
    try:
        chosen = dispatcher._select_launch_config_dispatcher(launch)
        if chosen.specialized:
            found = next(iter(chosen.overloads.values()))
        else:
            found = module._dispatcher.Dispatcher._cuda_call(chosen, *args, **{module._LAUNCH_CONFIG_KW: launch})
        chosen._update_launch_config_sensitivity(found, launch)
    finally:
        launch._pop_args(previous)
    return found


def _packed(specialization: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """The arguments as numbers, and what numba would do after the launch."""
    packed: list[Any] = []
    after: list[Any] = []
    for kind, value in zip(specialization.argument_types, args, strict=True):
        specialization._prepare_args(kind, value, 0, after, packed)
    return packed, after
