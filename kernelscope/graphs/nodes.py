"""The nodes that a graph is made of. They hold what they are given, and look at it when they are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kernelscope.errors import GraphError

if TYPE_CHECKING:
    from kernelscope.graphs.built import BuiltGraph

_CONFIGURATION = "KernelNode[grid, block](kernel, args, deps), or KernelNode[grid, block, sharedmem](...)"
_ARRAY = ("__cuda_array_interface__", "__array_interface__", "__cuda_memory__")


class Node:
    """One piece of work in a graph; the base of all others.

    Parameters
    ----------
    deps : Node or iterable of Node
        What must have ended before this begins.

    Attributes
    ----------
    deps : list of Node
        The same; it may be changed until the node is built.
    """

    def __init__(self, deps: Node | Iterable[Node] = ()) -> None:
        self.deps: list[Node] = as_nodes(deps)

    @property
    def label(self) -> str:
        """What errors call this node."""
        return type(self).__name__

    def build(self) -> BuiltGraph:
        """Build the graph that ends in this node: itself and everything that it depends on.

        Raises
        ------
        GraphError
            As `kernelscope.graphs.build`.
        """
        from kernelscope.graphs.built import build

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

    Attributes
    ----------
    kernel, args, deps, grid, block, sharedmem
        As given, `args` and `deps` as lists. All may be changed until the node is built; afterwards all but `deps`,
        with `BuiltGraph.update`.

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
        """What errors call this node."""
        return f"KernelNode of {_name(self.kernel)}"


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

    Attributes
    ----------
    dst, src, deps
        As given. All may be changed until the node is built; afterwards `dst` and `src`, with `BuiltGraph.update`, for
        arrays of the same kinds.
    """

    #: The kind that one of the class methods asks for: ``to device``, ``to host``, ``on device``.
    direction: str | None = None
    #: How many bytes; None for the arrays' size.
    nbytes: int | None = None

    def __init__(self, dst: Any, src: Any, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.dst = dst
        self.src = src

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
        A contiguous NumPy array, pageable or pinned. Like all arrays of nodes it is kept alive as long as the graph,
        and until launches of it that are under way have ended.
    nbytes : int, optional
        How many bytes, from the first one of both arrays, no more than either has. Without it, all of both, which must
        then be of one size.
    deps : Node or iterable of Node
        What must have ended before.

    Attributes
    ----------
    dst, src, nbytes, deps
        As given. All may be changed until the node is built; afterwards all but `deps`, with `BuiltGraph.update`.
    """

    direction = "to device"
    opposite = "MemcpyDtoHNode"


class MemcpyDtoHNode(_DirectedCopy):
    """A copy from the device to the host.

    Parameters
    ----------
    dst : array
        A contiguous, writable NumPy array, pageable or pinned. Like all arrays of nodes it is kept alive as long as
        the graph, and until launches of it that are under way have ended.
    src : array
        A contiguous device array.
    nbytes, deps
        As of `MemcpyHtoDNode`.

    Attributes
    ----------
    dst, src, nbytes, deps
        As given. All may be changed until the node is built; afterwards all but `deps`, with `BuiltGraph.update`.
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

    Attributes
    ----------
    dst, value, deps
        As given. All may be changed until the node is built; afterwards `dst` and `value`, with `BuiltGraph.update`.
    """

    def __init__(self, dst: Any, value: Any = 0, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.dst = dst
        self.value = value


class HostNode(Node):
    """A call of a Python function on the host, in a thread of the driver.

    The function must not use CUDA. What it raises is printed and goes nowhere: the graph goes on.

    Parameters
    ----------
    function : callable
        Called with `args`; what it returns is dropped.
    args : iterable
        Its arguments. They are kept alive as long as the graph.
    deps : Node or iterable of Node
        What must have ended before.

    Attributes
    ----------
    function, args, deps
        As given. All may be changed until the node is built; afterwards all but `deps`, with `BuiltGraph.update`.
    """

    def __init__(self, function: Callable[..., Any], args: Iterable[Any] = (),
                 deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        self.function = function
        self.args: list[Any] = _arguments(f"HostNode of {_name(function)}", args)

    @property
    def label(self) -> str:
        """What errors call this node."""
        return f"HostNode of {_name(self.function)}"


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


class ConditionalNode(Node):
    """The base of `IfNode` and `WhileNode`."""

    def __init__(self, condition: Condition, deps: Node | Iterable[Node] = ()) -> None:
        super().__init__(deps)
        if not isinstance(condition, Condition):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(f"{type(self).__name__} got {condition!r} as its condition, and needs a Condition")
        self.condition = condition

    @property
    def bodies(self) -> tuple[list[Node], ...]:
        """The nodes that it may run, with what they depend on, a list for each branch."""
        raise NotImplementedError


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
        """The branches."""
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
        """The body."""
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
    """What errors call a value: an array by its type, others as they print."""
    is_array = any(hasattr(value, name) for name in _ARRAY)
    return f"<{type(value).__name__} of {value.dtype}>" if is_array and hasattr(value, "dtype") else repr(value)


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    return repr(name) if isinstance(name, str) else repr(function)
