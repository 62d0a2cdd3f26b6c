"""CUDA graphs of numba kernels: nodes, what each does, and the graph that is built, launched and updated."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import operator
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import Any, ClassVar

import numpy as np

from kernelscope.errors import GraphError
from kernelscope.graphs.lifetimes import KeepAlive, check
from kernelscope.graphs.memory import (
    Region,
    check_context,
    core,
    driver,
    leaves,
    numba_module,
    region_of,
    require_cuda,
    require_names,
)
from kernelscope.graphs.streams import core_stream
from kernelscope.units import counted

# The work of nodes.

@dataclass(frozen=True)
class Work:
    """The work of a node, from its present arguments; nothing for empty nodes.

    Attributes
    ----------
    key : tuple
        Equal for equal work of one kind.
    keep : tuple
        What must live as long as the work may run.
    """

    key: tuple[Any, ...]
    keep: tuple[Any, ...]

    def add(self, start: Any, conditions: dict[Condition, Any]) -> Any:
        """Add it behind `start`, a node of cuda.core or the definition itself; return cuda.core's node."""
        return start.join()

    def change(self, target: Any) -> None:
        """Give its parameters to a node of cuda.core, in a definition or in an executable graph."""


@dataclass(frozen=True)
class KernelCall(Work):
    """One launch, as cuda.core takes it.

    Attributes
    ----------
    kernel : cuda.core.Kernel
        The function.
    config : cuda.core.LaunchConfig
        Grid, block and dynamic shared memory.
    packed : list
        The arguments; pointers are ints.
    """

    kernel: Any
    config: Any
    packed: list[Any]

    def add(self, start: Any, conditions: dict[Condition, Any]) -> Any:
        """Add a kernel node."""
        return start.launch(self.config, self.kernel, *self.packed)

    def change(self, target: Any) -> None:
        """Change a kernel node."""
        target.update(config=self.config, kernel=self.kernel, args=tuple(self.packed))


@dataclass(frozen=True)
class Fill(Work):
    """A pattern of 1, 2 or 4 bytes, `count` times."""

    address: int
    pattern: bytes
    count: int

    def add(self, start: Any, conditions: dict[Condition, Any]) -> Any:
        """Add a memset node."""
        return start.memset(self.address, self.pattern, self.count)

    def change(self, target: Any) -> None:
        """Change a memset node."""
        target.update(dst=self.address, value=self.pattern, width=self.count, height=1, pitch=0)


@dataclass(frozen=True)
class Call(Work):
    """A call on the host; its key is equal for calls of the same objects."""

    function: Callable[[], Any]

    def add(self, start: Any, conditions: dict[Condition, Any]) -> Any:
        """Add a host node."""
        return start.callback(self.function)

    def change(self, target: Any) -> None:
        """Change a host node."""
        target.update(self.function)


@dataclass(frozen=True)
class Branch(Work):
    """An if or a while; its bodies have separate work, and its own work never changes."""

    node: ConditionalNode

    def add(self, start: Any, conditions: dict[Condition, Any]) -> Any:
        """Add a conditional node."""
        node = self.node
        condition = conditions[node.condition]
        if isinstance(node, IfNode):
            return start.if_else(condition) if node.orelse else start.if_then(condition)
        return start.while_loop(condition)


@dataclass(frozen=True)
class Copy(Work):
    """A copy of `nbytes` bytes.

    It is added and changed by the driver's own calls: cuda.core takes host memory that is not pinned for the device's.
    """

    dst: Region
    src: Region
    nbytes: int

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Return whether destination and source are on the device."""
        return self.dst.on_device, self.src.on_device

    def add_to(self, definition: Any, label: str) -> int:
        """Add it to a definition, without dependencies; return the node's handle."""
        _, context = driver().cuCtxGetCurrent()
        error, added = driver().cuGraphAddMemcpyNode(definition.handle, [], 0, self._parameters(), context)
        check(error, f"{label}: cuGraphAddMemcpyNode")
        return int(added)

    def change_in(self, graph: Any, placed: Placed) -> None:
        """Change the node in its definition and, where it is not inside a body, in the executable graph."""
        parameters = self._parameters()
        _, context = driver().cuCtxGetCurrent()
        check(driver().cuGraphMemcpyNodeSetParams(placed.core.handle, parameters)[0], "cuGraphMemcpyNodeSetParams")
        if not placed.inside:
            changed = driver().cuGraphExecMemcpyNodeSetParams(graph.handle, placed.core.handle, parameters, context)
            check(changed[0], "cuGraphExecMemcpyNodeSetParams")

    def _parameters(self) -> Any:
        parameters, kinds = driver().CUDA_MEMCPY3D(), driver().CUmemorytype
        for side, region in (("dst", self.dst), ("src", self.src)):
            kind = kinds.CU_MEMORYTYPE_DEVICE if region.on_device else kinds.CU_MEMORYTYPE_HOST
            setattr(parameters, f"{side}MemoryType", kind)
            setattr(parameters, f"{side}Device" if region.on_device else f"{side}Host", region.address)
        parameters.WidthInBytes, parameters.Height, parameters.Depth = self.nbytes, 1, 1
        return parameters


# The nodes of a graph. They keep their arguments, and read them when they are built.

_CONFIGURATION = "KernelNode[grid, block](kernel, args, deps), or KernelNode[grid, block, sharedmem](...)"
_ARRAY = ("__cuda_array_interface__", "__array_interface__", "__cuda_memory__")


class Node:
    """One piece of work in a graph; the base of all others.

    What a node is made of are its attributes too, by the same names, lists of what was given as an iterable. All may be
    changed until the node is built; afterwards all but `deps`, conditions and bodies, with `BuiltGraph.update`. Arrays
    are kept alive as long as the graph, and until launches of it that are under way have ended.

    Parameters
    ----------
    deps : Node or iterable of Node
        What must have ended before this begins.
    """

    def __init__(self, deps: Node | Iterable[Node] = ()) -> None:
        self.deps: list[Node] = as_nodes(deps)

    @property
    def label(self) -> str:
        """Return the name of this node in errors."""
        return type(self).__name__

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        """Return what the node does; `before` is what it did until now, in the same context.

        What cannot be done in a graph is a `GraphError` that names the node, the value and the reason.
        """
        return Work((), ())

    def build(self) -> BuiltGraph:
        """Build the graph that ends in this node: itself and everything that it depends on.

        Raises
        ------
        GraphError
            As `kernelscope.graphs.build`.
        """
        return build([self])

    def __repr__(self) -> str:
        return f"<{self.label}>"


class KernelNode(Node):
    """The launch of a numba kernel: ``KernelNode[grid, block](kernel, args, deps)``.

    ``KernelNode(kernel, args, deps)`` is one thread in one block.

    Parameters
    ----------
    kernel : CUDADispatcher or function
        What ``@cuda.jit`` made, or a Python function, which ``cuda.jit`` then makes one of. It is compiled for the
        arguments when the node is built, if it was not yet.
    args : iterable
        Device arrays, scalars and tuples of them, and `Condition`. Any object with ``__cuda_array_interface__`` is a
        device array. NumPy arrays are refused: a graph cannot copy them there and back.
    deps : Node or iterable of Node
        What must have ended before.
    grid, block : int or tuple of int
        Blocks and threads a block, in one to three dimensions; 1 of each without them.
    sharedmem : int
        Dynamic shared memory, in bytes.

    Raises
    ------
    GraphError
        The launch configuration has too many or too few items, or `args` is no list of arguments.
    """

    def __class_getitem__(cls, configuration: Any) -> Callable[..., KernelNode]:
        if not isinstance(configuration, tuple) or len(configuration) not in (2, 3):
            given = "4 items" if isinstance(configuration, tuple) and len(configuration) == 4 else repr(configuration)
            stream = "; a node has no stream, BuiltGraph.launch takes it" if given == "4 items" else ""
            raise GraphError(f"KernelNode[...] got {given}{stream}: write {_CONFIGURATION}")
        grid, block, *rest = configuration
        shared = rest[0] if rest else 0
        if not isinstance(shared, int):
            raise GraphError(f"the dynamic shared memory of a KernelNode is {shared!r}, and must be a number of bytes; "
                             "a node has no stream, BuiltGraph.launch takes it")

        def configured(kernel: Any, args: Iterable[Any] = (), deps: Node | Iterable[Node] = ()) -> KernelNode:
            return cls(kernel, args, deps, grid=grid, block=block, sharedmem=shared)

        return configured

    def __init__(self, kernel: Any, args: Iterable[Any] = (), deps: Node | Iterable[Node] = (), *, grid: Any = 1,
                 block: Any = 1, sharedmem: int = 0) -> None:
        super().__init__(deps)
        self.kernel = kernel
        self.args: list[Any] = _arguments(f"KernelNode of {_name(kernel)}", args)
        self.grid = grid
        self.block = block
        self.sharedmem = sharedmem

    @property
    def label(self) -> str:
        """Return the name of this node in errors."""
        return f"KernelNode of {_name(self.kernel)}"

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        return _kernel_call(self, handle_of, before if isinstance(before, KernelCall) else None)


class MemcpyNode(Node):
    """A copy between host and device, or on the device; which of them is seen from the arrays.

    `to_device`, `to_host` and `on_device` make one too, and refuse arrays of the wrong kind. So do `MemcpyHtoDNode` and
    `MemcpyDtoHNode`, which can copy a part.

    Parameters
    ----------
    dst, src : array
        Where to and where from: device arrays or NumPy arrays, contiguous, of the same number of bytes. A host array
        may be pageable; the copy is faster from and to pinned memory (``cuda.pinned_array``).
    deps : Node or iterable of Node
        What must have ended before.
    """

    #: The kind that one of the class methods asks for: ``to device``, ``to host``, ``on device``.
    direction: str | None = None
    #: How many bytes; None for the arrays' size.
    nbytes: int | None = None

    def __init__(self, dst: Any, src: Any, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.dst = dst
        self.src = src

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        return _copy(self)

    @classmethod
    def to_device(cls, dst: Any, src: Any, deps: Node | Iterable[Node] = ()) -> MemcpyNode:
        """Copy the host array `src` to the device array `dst`."""
        return cls._towards("to device", dst, src, deps)

    @classmethod
    def to_host(cls, dst: Any, src: Any, deps: Node | Iterable[Node] = ()) -> MemcpyNode:
        """Copy the device array `src` to the host array `dst`."""
        return cls._towards("to host", dst, src, deps)

    @classmethod
    def on_device(cls, dst: Any, src: Any, deps: Node | Iterable[Node] = ()) -> MemcpyNode:
        """Copy the device array `src` to the device array `dst`."""
        return cls._towards("on device", dst, src, deps)

    @classmethod
    def _towards(cls, direction: str, dst: Any, src: Any, deps: Node | Iterable[Node]) -> MemcpyNode:
        node = MemcpyNode(dst, src, deps)
        node.direction = direction
        return node


class _DirectedCopy(MemcpyNode):
    """The base of the copies whose class says which way they go."""

    #: The class that copies the other way.
    opposite: ClassVar[str]

    def __init__(self, dst: Any, src: Any, nbytes: int | None = None, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(dst, src, deps)
        self.nbytes = nbytes


class MemcpyHtoDNode(_DirectedCopy):
    """A copy from the host to the device.

    Parameters
    ----------
    dst : array
        A contiguous device array.
    src : array
        A contiguous NumPy array, pageable or pinned.
    nbytes : int, optional
        How many bytes, from the first one of both arrays, no more than either has. Without it, all of both, which must
        then be of one size.
    deps : Node or iterable of Node
        What must have ended before.
    """

    direction = "to device"
    opposite = "MemcpyDtoHNode"


class MemcpyDtoHNode(_DirectedCopy):
    """A copy from the device to the host.

    Parameters
    ----------
    dst : array
        A contiguous, writable NumPy array, pageable or pinned.
    src : array
        A contiguous device array.
    nbytes, deps
        As of `MemcpyHtoDNode`.
    """

    direction = "to host"
    opposite = "MemcpyHtoDNode"


class MemsetNode(Node):
    """Every element of a device array set to one value.

    Parameters
    ----------
    dst : array
        A contiguous device array.
    value : scalar
        Of the array's dtype. CUDA sets elements of 1, 2 or 4 bytes; of larger ones only values whose bytes repeat,
        such as 0 and -1.
    deps : Node or iterable of Node
        What must have ended before.
    """

    def __init__(self, dst: Any, value: Any = 0, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.dst = dst
        self.value = value

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        return _fill(self)


class HostNode(Node):
    """A call of a Python function on the host, in a thread of the driver.

    The function must not use CUDA. What it raises is printed and goes nowhere: the graph goes on.

    Parameters
    ----------
    function : callable
        Called with `args`; what it returns is dropped.
    args : iterable
        Its arguments.
    deps : Node or iterable of Node
        What must have ended before.
    """

    def __init__(self, function: Callable[..., Any], args: Iterable[Any] = (),
                 deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.function = function
        self.args: list[Any] = _arguments(f"HostNode of {_name(function)}", args)

    @property
    def label(self) -> str:
        """Return the name of this node in errors."""
        return f"HostNode of {_name(self.function)}"

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        if not callable(self.function):
            raise GraphError(f"{self.label}: {self.function!r} cannot be called")
        function = functools.partial(self.function, *self.args)
        return Call((self.function, *map(id, self.args)), (function,), function)


class EmptyNode(Node):
    """No work: a point where branches meet, or fork."""


class Condition:
    """What an `IfNode` or a `WhileNode` asks: a number on the device, true unless it is 0.

    A kernel that gets it as an argument can set it with `set_condition`; it arrives there as a ``uint64``. That kernel
    must be in the same graph, or in the body that the condition's own node is in, or in a body of that node.

    Parameters
    ----------
    default : int, optional
        Its value at the beginning of every launch of the graph. Without one it is undefined until a kernel sets it.
    """

    def __init__(self, default: int | None = None) -> None:
        if default is not None and not 0 <= default < 2**32:
            raise GraphError(f"a condition's default is {default!r}, and must be from 0 to {2**32 - 1}")
        self.default = default

    def __repr__(self) -> str:
        return f"<Condition default={self.default}>"


class ConditionalNode(Node, ABC):
    """The base of `IfNode` and `WhileNode`."""

    def __init__(self, condition: Condition, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        if not isinstance(condition, Condition):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(f"{type(self).__name__} got {condition!r} as its condition, and needs a Condition")
        self.condition = condition

    @property
    @abstractmethod
    def bodies(self) -> tuple[list[Node], ...]:
        """Return the nodes that it may run, with what they depend on, a list for each branch."""

    def _work(self, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
        return Branch((), (self.condition,), self)


class IfNode(ConditionalNode):
    """Nodes that run if a condition holds, and others if it does not.

    Parameters
    ----------
    condition : Condition
        What decides.
    then, orelse : Node or iterable of Node
        The last nodes of each branch; what they depend on comes along. No `orelse`, no second branch.
    deps : Node or iterable of Node
        What must have ended before.
    """

    def __init__(self, condition: Condition, then: Node | Iterable[Node], orelse: Node | Iterable[Node] = (),
                 deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(condition, deps)
        self.then = as_nodes(then)
        self.orelse = as_nodes(orelse)

    @property
    def bodies(self) -> tuple[list[Node], ...]:
        """Return the branches."""
        return (self.then, self.orelse) if self.orelse else (self.then,)


class WhileNode(ConditionalNode):
    """Nodes that run again and again as long as a condition holds.

    The condition is asked before each round, so that the body does not run where it is 0 at first. A body that never
    sets it to 0 never ends.

    Parameters
    ----------
    condition : Condition
        What decides.
    body : Node or iterable of Node
        The last nodes of the body; what they depend on comes along.
    deps : Node or iterable of Node
        What must have ended before.
    """

    def __init__(self, condition: Condition, body: Node | Iterable[Node], deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(condition, deps)
        self.body = as_nodes(body)

    @property
    def bodies(self) -> tuple[list[Node], ...]:
        """Return the body."""
        return (self.body,)


def as_nodes(nodes: Node | Iterable[Node]) -> list[Node]:
    """Return one or more nodes as a list.

    Raises
    ------
    GraphError
        It is neither a node nor something to iterate over.
    """
    if isinstance(nodes, Node):
        return [nodes]
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(f"{nodes!r} is no node; give a node, or a list of nodes")
    return list(nodes)


def in_order(ends: Sequence[Node]) -> list[Node]:
    """Return the nodes and all that they depend on, every node after its dependencies.

    Raises
    ------
    GraphError
        They depend on each other in a cycle, or a dependency is no node.
    """
    done: dict[Node, None] = {}
    path: dict[Node, None] = {}
    # A chain may be longer than Python's recursion may be deep.
    pending: list[tuple[Node, bool]] = [(node, False) for node in reversed(ends)]
    while pending:
        node, leaving = pending.pop()
        if leaving:
            del path[node]
            done[node] = None
        elif node in path:
            cycle = [*list(path)[list(path).index(node):], node]
            raise GraphError("nodes depend on each other in a cycle: "
                             + ", which needs ".join(each.label for each in cycle))
        elif node not in done:
            path[node] = None
            pending.append((node, True))
            pending.extend((each, False) for each in reversed(dependencies(node)))
    return list(done)


def dependencies(node: Node) -> list[Node]:
    """Return what a node depends on, as it is now; refuse what is no list of nodes."""
    # Callers may be untyped.
    if not isinstance(node.deps, list):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(f"{node.label}: its deps is {node.deps!r}, and must be a list of nodes")
    for each in node.deps:
        if not isinstance(each, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(f"{node.label} depends on {each!r}, which is no node")
    return node.deps


def _arguments(label: str, args: Iterable[Any]) -> list[Any]:
    # An array is a list of its elements, and a string one of its letters: neither is meant.
    if isinstance(args, str) or any(hasattr(args, name) for name in _ARRAY) or not hasattr(args, "__iter__"):
        raise GraphError(f"{label}: args is {_shown(args)}, and must be a list of arguments, such as [{_shown(args)}]")
    return list(args)


def _shown(value: Any) -> str:
    """Return how errors show a value: an array by its type, others as they print."""
    is_array = any(hasattr(value, name) for name in _ARRAY)
    return f"<{type(value).__name__} of {value.dtype}>" if is_array and hasattr(value, "dtype") else repr(value)


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    return repr(name) if isinstance(name, str) else repr(function)


# The work of each kind of node, from its present arguments.

# numba's own launch path, which has no public part that stops before the launch.
_OF_MODULE = ("_dispatcher", "_LAUNCH_CONFIG_KW")
_OF_DISPATCHER = ("_select_launch_config_dispatcher", "_update_launch_config_sensitivity")
_OF_LAUNCH = ("_push_args", "_pop_args")


def _kernel_call(node: KernelNode, handle_of: Callable[[Condition], int], before: KernelCall | None) -> KernelCall:
    """Look the specialization up, or compile it, and pack its arguments.

    A kernel that is still what it was `before`, in the same context, does not look up its function again. What numba
    raises when it compiles passes.
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
    return KernelCall(key, (specialization, function, args), function.kernel, config, packed)


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
    """Return the kernel of a Python function: one for all of its nodes, and the same when a graph is updated."""
    return numba_module("decorators").jit(function)


def _argument(node: KernelNode, place: int, value: Any, handle_of: Callable[[Condition], int]) -> Any:
    if isinstance(value, numba_module("args").ArgHint):  # cuda.In and others say how to copy
        value = value.value
    if isinstance(value, Condition):
        return np.uint64(handle_of(value))
    for each in leaves(value):
        region = region_of(each)
        if region is None:
            continue
        if not region.on_device:
            raise GraphError(f"{node.label}: argument {place + 1} is a host array ({type(each).__name__} of "
                             f"{region.dtype}), which numba would copy to the device and back at every launch: use "
                             "cuda.to_device, or a MemcpyHtoDNode before it")
        check_context(region, lambda: f"{node.label}: argument {place + 1}")
    return value


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
    """Return what numba's own `CUDADispatcher.call` would launch, compiled if need be."""
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
    """Return the arguments as numbers, and what numba would do after the launch."""
    packed: list[Any] = []
    after: list[Any] = []
    for kind, value in zip(specialization.argument_types, args, strict=True):
        specialization._prepare_args(kind, value, 0, after, packed)
    return packed, after


def _copy(node: MemcpyNode) -> Copy:
    dst, src = (_region(node, name) for name in ("dst", "src"))
    direction = {(True, False): "to device", (False, True): "to host", (True, True): "on device"}.get(
        (dst.on_device, src.on_device))
    if direction is None:
        raise GraphError(f"{node.label}: both arrays are on the host; a HostNode can copy there")
    if node.direction not in (None, direction):
        opposite = getattr(node, "opposite", None)
        other = "" if opposite is None or direction == "on device" else f", or use {opposite}"
        raise GraphError(f"{node.label}: it was to copy {node.direction}, and its arrays make a copy {direction} (dst "
                         f"is {_kind(dst)}, src is {_kind(src)}); dst comes first, then src{other}")
    nbytes = _size(node, dst, src)
    if not nbytes:
        raise GraphError(f"{node.label}: its arrays are empty")
    if not dst.writable:
        raise GraphError(f"{node.label}: dst is a read-only host array")
    key = dst.address, src.address, nbytes, dst.on_device, src.on_device
    return Copy(key, (node.dst, node.src), dst, src, nbytes)


def _size(node: MemcpyNode, dst: Region, src: Region) -> int:
    """Return how many bytes a node copies."""
    if node.nbytes is None:
        if dst.nbytes != src.nbytes:
            raise GraphError(f"{node.label}: dst has {dst.nbytes:,} bytes, and src {src.nbytes:,}; give nbytes to a "
                             "MemcpyHtoDNode or a MemcpyDtoHNode to copy a part")
        return dst.nbytes
    least = min(dst.nbytes, src.nbytes)
    try:
        nbytes = operator.index(node.nbytes)
    except TypeError:
        raise GraphError(f"{node.label}: nbytes is {node.nbytes!r}, and must be a number of bytes; deps come after "
                         "it") from None
    if not 0 < nbytes <= least:
        raise GraphError(f"{node.label}: nbytes is {nbytes:,}, and must be from 1 to {least:,}: dst has {dst.nbytes:,} "
                         f"bytes, and src {src.nbytes:,}")
    return nbytes


def _kind(region: Region) -> str:
    return f"{'a device' if region.on_device else 'a host'} array of {region.dtype} with shape {region.shape}"


def _fill(node: MemsetNode) -> Fill:
    dst = _region(node, "dst")
    if not dst.on_device:
        raise GraphError(f"{node.label}: dst is a host array; a HostNode can fill it")
    dtype = np.dtype(np.uint8) if dst.dtype is None else dst.dtype
    try:
        element = np.asarray(node.value).astype(dtype).tobytes()
        same = bool(np.asarray(node.value) == np.frombuffer(element, dtype)[0]) or node.value != node.value
    except (TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"{node.label}: {node.value!r} is no value of {dtype}: {error}") from None
    if np.ndim(node.value) or not same:
        raise GraphError(f"{node.label}: {node.value!r} is no value of {dtype}")
    pattern = element
    while len(pattern) > 4 or (len(pattern) > 1 and len(pattern) & (len(pattern) - 1)):
        half, odd = divmod(len(pattern), 2)
        if not odd and pattern[:half] == pattern[half:]:
            pattern = pattern[:half]
        elif pattern == pattern[:1] * len(pattern):
            pattern = pattern[:1]
        else:
            raise GraphError(f"{node.label}: CUDA sets elements of 1, 2 or 4 bytes, and {node.value!r} of {dtype} is "
                             f"{dtype.itemsize} bytes that do not repeat; use a kernel")
    if not dst.nbytes:
        raise GraphError(f"{node.label}: dst is empty")
    count = dst.nbytes // len(pattern)
    return Fill((dst.address, pattern, count), (node.dst,), dst.address, pattern, count)


def _region(node: MemcpyNode | MemsetNode, name: str) -> Region:
    value = getattr(node, name)
    region = region_of(value)
    if region is None:
        raise GraphError(f"{node.label}: {name} is {value!r}, which is no array")
    if not region.contiguous:
        raise GraphError(f"{node.label}: {name} is not contiguous (shape {region.shape}); copy or fill it with a "
                         "kernel")
    check_context(region, lambda: f"{node.label}: {name}")
    return region


# Work as nodes of cuda.core's `GraphDefinition`.

@dataclass
class Placed:
    """A node in a definition.

    Attributes
    ----------
    node : Node
        The user's node.
    work : Work
        What it does now.
    core : GraphNode
        cuda.core's node.
    deps : tuple of Node
        What it depended on when it was built.
    inside : bool
        Whether it is in the body of a conditional node.
    handles : dict
        The handles of the conditions that a kernel there may set.
    """

    node: Node
    work: Work
    core: Any
    deps: tuple[Node, ...]
    inside: bool
    handles: dict[Condition, int]


def place(definition: Any, nodes: list[tuple[Node, Work]], conditions: dict[Condition, Any],
          handles: dict[Condition, int], *, inside: bool) -> list[Placed]:
    """Add nodes to a definition, in this order; every dependency comes before what needs it."""
    placed: dict[Node, Placed] = {}
    copies = {node: work.add_to(definition, node.label) for node, work in nodes if isinstance(work, Copy)}
    by_handle = {int(core.handle): core for core in definition.nodes()} if copies else {}
    for node, work in nodes:
        deps = tuple(dict.fromkeys(node.deps))
        before = [placed[each].core for each in deps]
        if node in copies:
            core = by_handle[copies[node]]
        else:
            try:
                core = work.add(before[0] if before else definition, conditions)
            except Exception as error:
                raise GraphError(f"{node.label}: CUDA refuses it: {reason(error)}") from error
            before = before[1:]
        if before:
            core.pred.update(*before)
        placed[node] = Placed(node, work, core, deps, inside, handles)
    return list(placed.values())


def change(graph: Any, placed: Placed, work: Work) -> None:
    """Give a node other work of its kind, in its definition and, unless it is in a body, in the executable graph."""
    if isinstance(work, Copy):
        work.change_in(graph, placed)
        return
    for target in (placed.core,) if placed.inside else (placed.core, graph[placed.core]):
        work.change(target)


def reason(error: Exception) -> str:
    """Return what an error of cuda.core says, as one line."""
    if isinstance(error, AttributeError):
        return f"this version of cuda-core cannot do it ({error})"
    return " ".join(str(error).split()) or type(error).__name__


# A graph that can be launched.

_CLOSED = "the graph is closed: build it again"


class BuiltGraph:
    """An executable CUDA graph of nodes; `build` makes it. As a context manager it closes itself.

    It keeps alive whatever its nodes use: device arrays, host arrays, kernels, and the objects of host functions. Where
    it is closed or dropped while launches of it are under way, all that stays until they have ended, so that
    ``node.build().launch()`` is safe.

    Attributes
    ----------
    nodes : tuple of Node
        All of them, those of bodies included; each after what it depends on.
    definition : cuda.core.graph.GraphDefinition
        The graph as cuda.core has it.
    graph : cuda.core.graph.Graph
        The executable graph; what cuda.core can do with one, such as `upload`, goes with it.
    """

    def __init__(self, definition: Any, graph: Any, placed: list[Placed], context: int, kept: KeepAlive) -> None:
        self.definition = definition
        self.graph = graph
        self.nodes = tuple(each.node for each in placed)
        self._placed = {each.node: each for each in placed}
        self._context = context
        self._default = core_stream(None)
        self._threads = {threading.get_ident()}
        self._closed = False
        self._kept = kept
        # Where it was never closed; at the end of the process nothing needs to be.
        self._close = weakref.finalize(self, kept.close, graph)
        self._close.atexit = False

    def launch(self, stream: Any = None) -> None:
        """Run the graph once, behind what is in the stream already. It returns before the work is done.

        Parameters
        ----------
        stream : stream or int, optional
            A stream of numba, of cuda.core, of anything with ``__cuda_stream__``, or a handle; the default stream
            without one.

        Raises
        ------
        GraphError
            The graph is closed, or the stream is none.
        """
        if self._closed:
            raise GraphError(_CLOSED)
        if threading.get_ident() not in self._threads:
            _current_context()  # CUDA has one for each thread
            self._threads.add(threading.get_ident())
        self.graph.launch(self._default if stream is None else core_stream(stream))

    def update(self, *nodes: Node) -> int:
        """Take over what was changed in the nodes since they were built: arguments, grids, arrays, functions.

        It costs some tens of microseconds for each node that it looks at, where building the graph again makes and
        instantiates all of them.
        Launches that were made before keep what they had; an array of theirs that another one replaces must live until
        they have ended.

        Parameters
        ----------
        *nodes : Node
            Those to look at; without one, all.

        Returns
        -------
        int
            How many nodes had changed.

        Raises
        ------
        GraphError
            The graph is closed; dependencies, conditions or bodies were changed, or the kind of a copy, which needs
            another graph; or as `build`. The graph is then as it was.
        """
        if self._closed:
            raise GraphError(_CLOSED)
        if _current_context() != self._context:
            raise GraphError("the graph was built in another CUDA context: update it where it was built")
        unknown = [node.label for node in nodes if node not in self._placed]
        if unknown:
            raise GraphError(f"{unknown[0]} is no node of this graph: build it again")
        looked_at = [self._placed[node] for node in nodes] if nodes else list(self._placed.values())
        changes = [(each, work) for each in looked_at if (work := self._work(each)).key != each.work.key]
        done: list[Placed] = []
        try:
            for placed, work in changes:
                done.append(placed)
                change(self.graph, placed, work)
            # Only an update of the whole graph reaches the nodes inside bodies.
            if any(placed.inside for placed in done):
                self.graph.update(self.definition)
        except Exception as error:
            for placed in reversed(done):
                change(self.graph, placed, placed.work)
            label = done[-1].node.label if done else "a node"
            raise GraphError(f"the update was refused at {label}, and the graph is as it was: {reason(error)}; build "
                             "it again where the change is wanted") from error
        for placed, work in changes:
            placed.work = work
        return len(changes)

    def close(self) -> None:
        """Destroy the graph. A second time changes nothing.

        Launches that are under way go on. What the graph kept alive is let go when they have ended, at the next use of
        any graph.
        """
        self._closed = True
        self._placed.clear()
        self._close()

    destroy = close

    @property
    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return self._closed

    def __enter__(self) -> BuiltGraph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<BuiltGraph of {counted(len(self.nodes), 'node')}{', closed' if self._closed else ''}>"

    def _work(self, placed: Placed) -> Work:
        """Return what a node is to do now, as far as an update can bring it there."""
        node = placed.node
        if tuple(dict.fromkeys(dependencies(node))) != placed.deps:
            raise GraphError(f"{node.label}: its dependencies were changed, which an update cannot do; build the graph "
                             "again")
        if isinstance(node, ConditionalNode):
            inside = [each for body in node.bodies for each in in_order(body)]
            if any(each not in self._placed for each in inside) or node.condition not in placed.work.keep:
                raise GraphError(f"{node.label}: its condition or its body was changed, which an update cannot do; "
                                 "build the graph again")
        work = node._work(lambda condition: _handle(node, condition, placed.handles), placed.work)
        if isinstance(work, Copy) and isinstance(placed.work, Copy) and work.kinds != placed.work.kinds:
            raise GraphError(f"{node.label}: it copied another way before (between host and device, or on the device), "
                             "which an update cannot change; build the graph again")
        return work


def build(nodes: Node | Iterable[Node]) -> BuiltGraph:
    """Build a graph of nodes and everything that they depend on, on the current device.

    Parameters
    ----------
    nodes : Node or iterable of Node
        The last ones of the graph, at least.

    Returns
    -------
    BuiltGraph
        The graph, instantiated.

    Raises
    ------
    GraphError
        There is no node; nodes depend on each other in a cycle, or on one inside a body; a kernel is cooperative, was
        compiled for debugging or gets too many arguments, too few or host arrays; an array is another context's; a
        condition belongs to no node, or to two. What numba raises when it compiles a kernel passes.
    """
    ends = as_nodes(nodes)
    for node in ends:
        if not isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(f"{node!r} is no node")
    if not ends:
        raise GraphError("a graph needs a node")
    require_cuda()
    context = _current_context()
    definition = _new_definition()
    placed = _build_into(definition, ends, {}, {}, outer=None)
    kept = KeepAlive(definition, placed)
    try:
        graph = definition.instantiate()
    except Exception as error:
        kept.close()
        raise GraphError(f"CUDA refuses the graph: {reason(error)}") from error
    return BuiltGraph(definition, graph, placed, context, kept)


def _build_into(definition: Any, ends: list[Node], around: dict[Condition, int], seen: dict[Node | Condition, str],
          outer: ConditionalNode | None) -> list[Placed]:
    """Put nodes into a definition, and those of bodies into their own; return all.

    `around` are the handles of the conditions of the nodes around it, `seen` is what was put somewhere and where.
    """
    ordered = in_order(ends)
    where = "the graph" if outer is None else f"a body of {outer.label}"
    for node in ordered:
        if node in seen:
            raise GraphError(f"{node.label} is in {where} and in {seen[node]}, and can be in one place only; nodes of "
                             "a body depend on nodes of the same body")
        seen[node] = where
    # All conditions first: a kernel before the conditional node sets it.
    conditions: dict[Condition, Any] = {}
    for node in ordered:
        if isinstance(node, ConditionalNode):
            if node.condition in seen:
                raise GraphError(f"{node.label}: its condition decides about another node already, and CUDA allows one")
            seen[node.condition] = where
            conditions[node.condition] = definition.create_condition(node.condition.default)
    handles = {**around, **{each: int(made.handle) for each, made in conditions.items()}}
    works = [(node, node._work(lambda condition, node=node: _handle(node, condition, handles))) for node in ordered]
    placed = place(definition, works, conditions, handles, inside=outer is not None)
    inner: list[Placed] = []
    for each in placed:
        if isinstance(each.node, ConditionalNode):
            for body, inside in zip(each.node.bodies, _branches(each.core), strict=True):
                if not body:
                    raise GraphError(f"{each.node.label}: its body has no node")
                inner += _build_into(inside, body, handles, seen, each.node)
    return placed + inner


def _branches(core: Any) -> tuple[Any, ...]:
    """Return the bodies of cuda.core's conditional node; on older drivers `branches` is empty, but the names exist."""
    names = ("body",) if hasattr(core, "body") else ("then", "else_")
    return tuple(getattr(core, name) for name in names if hasattr(core, name))


def _handle(node: Node, condition: Condition, handles: dict[Condition, int]) -> int:
    if condition not in handles:
        raise GraphError(f"{node.label} gets a condition that decides about no node around it: an IfNode or WhileNode "
                         "with it must be in the same graph, or be the one in whose body the kernel is")
    return handles[condition]


def _current_context() -> int:
    """Return the handle of this thread's CUDA context, made current as numba does before a launch."""
    error, current = driver().cuCtxGetCurrent()
    if not error and int(current):
        return int(current)
    return int(numba_module("api").current_context().handle)


def _new_definition() -> Any:
    definition = getattr(getattr(core(), "graph", None), "GraphDefinition", None)
    if definition is None:
        version = importlib.metadata.version("cuda-core")
        raise GraphError(f"cuda-core {version} has no graph definitions; 1.1 and newer have")
    return definition()
