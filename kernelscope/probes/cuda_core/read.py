"""Reading graphs from the driver: nodes, edges and what two graphs have in common, as plain data."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kernelscope.probes.cupti.records import readable
from kernelscope.units import listed, short_name

SUCCESS, WRONG_THREAD, UPDATE_FAILURE = 0, 908, 910
_KIND_OF_MEMORY = 2
_HOST = 1
_ACTIVE = 1
CLUSTER, COOPERATIVE = 4, 2
#: Without these no graph can be read.
NEEDED = ("cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2")
#: Without these something of it stays unknown, which health says.
WANTED = {
    ("cuGraphClone",): "graphs are read while they are made, which takes longer",
    ("cuGraphGetEdges_v2", "cuGraphGetEdges"): "their edges are not known",
    ("cuFuncGetName", "cuKernelGetName"): "their kernels' names are not known",
    ("cuFuncGetParamInfo", "cuKernelGetParamInfo"): "changes of their kernels' arguments are not seen",
}


class Driver:
    """What is asked of the driver about graphs.

    Parameters
    ----------
    library : CDLL, optional
        The driver; the one that this process has by default.

    Attributes
    ----------
    missing : list of str
        What stays unknown because the driver lacks a function.
    is_usable : bool
        Whether graphs can be read at all.
    """

    def __init__(self, library: Any = None) -> None:
        self._library: Any = ctypes.CDLL("libcuda.so.1") if library is None else library
        self.missing = [f"this driver has no {' and no '.join(names)}: {loss}" for names, loss in WANTED.items()
                        if not any(hasattr(self._library, name) for name in names)]
        absent = [name for name in NEEDED if not hasattr(self._library, name)]
        self.is_usable = not absent
        if absent:
            self.missing = [f"this driver has no {', '.join(absent)}: graphs' nodes are not known"]
        # These are called for every node: addresses as plain numbers take half the time.
        self.get_type = self._taking("cuGraphNodeGetType", ctypes.c_void_p, ctypes.c_void_p)
        self.get_kernel = self._taking("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p, ctypes.c_void_p)
        self.get_attribute = self._taking("cuGraphKernelNodeGetAttribute", ctypes.c_void_p, ctypes.c_int,
                                          ctypes.c_void_p)

    def _taking(self, name: str, *types: Any) -> Any:
        function = getattr(self._library, name, None)
        if function is not None:
            function.argtypes = types
        return function

    def nodes(self, graph: int) -> list[int] | None:
        """Return a definition's nodes in the driver's order; None where it is none, or cannot be read."""
        if not self.is_usable:
            return None
        count = ctypes.c_size_t()
        if self._library.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)):
            return None
        if not count.value:
            return []
        found = (ctypes.c_uint64 * count.value)()
        if self._library.cuGraphGetNodes(ctypes.c_void_p(graph), found, ctypes.byref(count)):
            return None
        return list(found[:count.value])

    def edges(self, graph: int) -> list[tuple[int, int]]:
        """Return the edges of a definition as pairs of nodes."""
        newer = getattr(self._library, "cuGraphGetEdges_v2", None)
        function = newer or getattr(self._library, "cuGraphGetEdges", None)
        count = ctypes.c_size_t()
        if function is None:
            return []
        kinds = (None,) if newer else ()
        if function(ctypes.c_void_p(graph), None, None, *kinds, ctypes.byref(count)) or not count.value:
            return []
        first, then = (ctypes.c_uint64 * count.value)(), (ctypes.c_uint64 * count.value)()
        kinds = (ctypes.create_string_buffer(8 * count.value),) if newer else ()
        if function(ctypes.c_void_p(graph), first, then, *kinds, ctypes.byref(count)):
            return []
        return list(zip(first[:count.value], then[:count.value], strict=True))

    def clone(self, graph: int, slot: ctypes.c_uint64) -> int:
        """Write a copy of a definition to `slot`; return the driver's error."""
        function = getattr(self._library, "cuGraphClone", None)
        return 801 if function is None else function(ctypes.byref(slot), ctypes.c_void_p(graph))

    def destroy(self, graph: int) -> None:
        """Destroy a copy."""
        self._library.cuGraphDestroy(ctypes.c_void_p(graph))

    def read(self, name: str, node: int, size: int) -> bytes | None:
        """Return the first `size` bytes of what a function such as cuGraphMemsetNodeGetParams says of a node."""
        function, found = getattr(self._library, name, None), ctypes.create_string_buffer(max(size, 256))
        if function is None or function(ctypes.c_void_p(node), found):
            return None
        return found.raw[:size]

    def child(self, node: int) -> int | None:
        """Return the definition inside of a child-graph node."""
        found = self.read("cuGraphChildGraphNodeGetGraph", node, 8)
        return None if found is None else int.from_bytes(found, "little")

    def kernel_name(self, function: int, kernel: int) -> str | None:
        """Return the mangled name of a ``CUfunction``, or where that is 0 of a ``CUkernel``."""
        handle, name = (function, "cuFuncGetName") if function else (kernel, "cuKernelGetName")
        asked, text = getattr(self._library, name, None), ctypes.c_char_p()
        if asked is None or not handle or asked(ctypes.byref(text), ctypes.c_void_p(handle)) or not text.value:
            return None
        return text.value.decode("utf-8", "replace")

    def parameters(self, function: int, kernel: int) -> tuple[tuple[int, int], ...] | None:
        """Return offset and size in bytes of each parameter; None where the driver does not tell."""
        handle, name = (function, "cuFuncGetParamInfo") if function else (kernel, "cuKernelGetParamInfo")
        asked = getattr(self._library, name, None)
        if asked is None or not handle:
            return None
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        found: list[tuple[int, int]] = []
        while not asked(ctypes.c_void_p(handle), ctypes.c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)):
            found.append((offset.value, size.value))
        return tuple(found)

    def is_host_memory(self, pointer: int) -> bool | None:
        """Whether a unified address is the host's; None where the driver does not know it."""
        kind = ctypes.c_uint()
        if self._library.cuPointerGetAttribute(ctypes.byref(kind), _KIND_OF_MEMORY, ctypes.c_uint64(pointer)):
            return None
        return kind.value == _HOST

    def device(self) -> int | None:
        """Return the ordinal of the device that is current."""
        found = ctypes.c_int()
        return None if self._library.cuCtxGetDevice(ctypes.byref(found)) else found.value

    def capture_of(self, stream: int, per_thread: bool = False) -> int | None:
        """Return the id of the capture that a stream is part of."""
        status, found = ctypes.c_int(), ctypes.c_uint64()
        suffix = "_ptsz" if per_thread else ""
        function = (getattr(self._library, f"cuStreamGetCaptureInfo_v2{suffix}", None)
                    or getattr(self._library, f"cuStreamGetCaptureInfo_v3{suffix}", None))
        # The third version has one parameter more than the second, which does not look at it.
        if function is None or function(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(found), None, None,
                                        None, None):
            return None
        return found.value if status.value == _ACTIVE else None

    def error_name(self, code: int) -> str:
        """Return CUDA's name of an error."""
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"").decode() or f"error {code}"


# Reading a graph's nodes and edges from the driver: plain data, no handle, nothing kept alive.
#
# Layouts are those of cuda.h's structures, whose functions carry a version in their name: another layout would be
# another function. What CUDA 12 and 13.0 have no function for is the inside of conditional nodes; it is known of
# those
# whose making was seen (`Conditionals`).

KERNEL, MEMCPY, MEMSET, HOST, CHILD, EMPTY, EVENT_WAIT, EVENT_RECORD = range(8)
MEM_ALLOC, MEM_FREE, CONDITIONAL = 10, 11, 13
KERNEL_BYTES, COPY_BYTES, FILL_BYTES, HOST_BYTES = 72, 200, 40, 16
#: Function, grid, block, shared memory; kernelParams, extra, kernel.
_KERNEL = struct.Struct("<Q7I4xQQQ")
_POINTER = struct.Struct("<Q")
_DIMS = struct.Struct("<3I")
_ALLOCATION_BYTES, _ALLOCATION_SIZE = 120, 104
_TYPES = {EMPTY: "empty", 8: "other", 9: "other", 12: "other"}
_CONDITIONAL_KINDS = ("if", "while", "switch")
_LETTERS = {1: "H", 2: "D", 3: "A"}
_UNIFIED = 4
_MOST_KNOWN = 100_000
_MOST_FUNCTIONS = 1_000

#: By the handle of a conditional node: its type, and the definitions inside of it.
Conditionals = dict[int, tuple[int, tuple[int, ...]]]


class Content(NamedTuple):
    """A graph that was read.

    Attributes
    ----------
    snapshot : Snapshot
        What it is.
    bodies : frozenset of int
        Handles of the definitions inside of its conditional nodes.
    numbers : tuple of (int or None)
        The number that CUPTI gives to each node's runs, in the order of `Snapshot.walk`; see `numbers_of`.
    """

    snapshot: Snapshot
    bodies: frozenset[int]
    numbers: tuple[int | None, ...] = ()


class Reader:
    """Reads graphs.

    Parameters
    ----------
    driver : Driver
        Whom to ask.
    conditionals : Conditionals
        What is known of conditional nodes.
    """

    def __init__(self, driver: Driver, conditionals: Conditionals) -> None:
        self._driver = driver
        self._conditionals = conditionals
        self._functions: dict[tuple[int, int], _Function] = {}
        self._confirmed: dict[tuple[int, int], _Function] = {}
        self._buffer = bytearray(256)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        # Equal nodes are one object: of a thousand graphs that are the same, each is a tuple of references.
        self._known: dict[Node, Node] = {}
        self._snapshots: dict[tuple[int, int], Snapshot] = {}

    def read(self, graph: int) -> Content | None:
        """Read a definition, or return None where the driver will not."""
        self._confirmed.clear()  # the driver may have given a handle to another kernel since
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        bodies: set[int] = set()
        snapshot = self._graph(graph, bodies)
        return None if snapshot is None else Content(snapshot, frozenset(bodies))

    def _graph(self, graph: int, bodies: set[int]) -> Snapshot | None:
        handles = self._driver.nodes(graph)
        if handles is None:
            return None
        nodes: list[Node] = []
        known, kind = self._known, ctypes.c_int()
        address, get_type = ctypes.addressof(kind), self._driver.get_type
        for handle in handles:
            if get_type(handle, address):
                node = Node("other", unknown="type")
            elif kind.value == KERNEL:
                node = self._kernel(handle)
            else:
                node = self._other(kind.value, handle, bodies)
            nodes.append(known.setdefault(node, node))
        places = {handle: place for place, handle in enumerate(handles)}
        edges = sorted((places[first], places[then]) for first, then in self._driver.edges(graph)
                       if first in places and then in places)
        return self._same(tuple(nodes), tuple(edges))

    def _same(self, nodes: tuple[Node, ...], edges: tuple[tuple[int, int], ...]) -> Snapshot:
        """The snapshot that was made last of a graph of this size, where it is the same."""
        size = len(nodes), len(edges)
        last = self._snapshots.get(size)
        if last is None or last.nodes != nodes or last.edges != edges:
            last = self._snapshots[size] = Snapshot(nodes, edges)
        return last

    def _kernel(self, node: int) -> Node:
        driver, address = self._driver, self._address
        if driver.get_kernel(node, address):
            return Node("kernel", unknown="parameters")
        found = self._buffer[:KERNEL_BYTES]
        cluster, cooperative = None, False
        get = driver.get_attribute
        if get is not None:
            if not get(node, COOPERATIVE, address):
                cooperative = self._buffer[0] != 0
            if not get(node, CLUSTER, address):
                x, y, z = _DIMS.unpack_from(self._buffer)
                cluster = (x, y, z) if x else None
        return self.kernel_of(found, cluster, cooperative)

    def kernel_of(self, data: bytes | bytearray, cluster: tuple[int, int, int] | None = None,
                  cooperative: bool = False) -> Node:
        """Read ``CUDA_KERNEL_NODE_PARAMS``, version 2 or 3; attributes are not in it."""
        function, gx, gy, gz, bx, by, bz, shared, pointers, _, kernel = _KERNEL.unpack_from(data)
        known = self._confirmed.get((function, kernel)) or self._function(function, kernel)
        arguments, layout = known.arguments(pointers) if pointers and known.layout else (b"", ())
        return Node("kernel", known.name, known.entry, Shape((gx, gy, gz), (bx, by, bz), shared, cluster, cooperative),
                    None, arguments, layout, (), None if known.entry else "name")

    def _function(self, function: int, kernel: int) -> _Function:
        entry = self._driver.kernel_name(function, kernel)
        known = self._functions.get((function, kernel))
        if known is None or known.entry != entry:
            if len(self._functions) > _MOST_FUNCTIONS:
                self._functions.clear()
            known = self._functions[function, kernel] = _Function(self._driver, function, kernel, entry)
        self._confirmed[function, kernel] = known
        return known

    def copy_of(self, data: bytes) -> Node:
        """Read ``CUDA_MEMCPY3D``."""
        source, source_pointer = self._end(data, 32, 40, 48, 56)
        target, target_pointer = self._end(data, 120, 128, 136, 144)
        width, height, depth = struct.unpack_from("<3Q", data, 176)
        name = f"{source}to{target}" if source and target else "copy"
        return Node("memcpy", name, None, None, width * max(height, 1) * max(depth, 1),
                    source_pointer + target_pointer, ((0, 8), (8, 8)))

    def fill_of(self, data: bytes) -> Node:
        """Read ``CUDA_MEMSET_NODE_PARAMS``."""
        _, _, value, element, width, height = struct.unpack_from("<QQIIQQ", data)
        return Node("memset", "memset", None, None, element * width * max(height, 1),
                    data[:8] + value.to_bytes(4, "little"), ((0, 8), (8, 4)))

    def host_of(self, data: bytes) -> Node:
        """Read ``CUDA_HOST_NODE_PARAMS``."""
        return Node("host", _function_name(_POINTER.unpack_from(data)[0]), None, None, None, data[:16],
                    ((0, 8), (8, 8)))

    def _other(self, kind: int, handle: int, bodies: set[int]) -> Node:
        read = self._driver.read
        if kind == MEMCPY:
            data = read("cuGraphMemcpyNodeGetParams", handle, COPY_BYTES)
            return self.copy_of(data) if data else Node("memcpy", "copy", unknown="parameters")
        if kind == MEMSET:
            data = read("cuGraphMemsetNodeGetParams", handle, FILL_BYTES)
            return self.fill_of(data) if data else Node("memset", "memset", unknown="parameters")
        if kind == HOST:
            data = read("cuGraphHostNodeGetParams", handle, HOST_BYTES)
            return self.host_of(data) if data else Node("host", unknown="parameters")
        if kind == CHILD:
            child = self._driver.child(handle)
            body = None if not child else self._graph(child, bodies)
            return Node("child", bodies=(body,)) if body is not None else Node("child", unknown="inside")
        if kind == CONDITIONAL:
            return self._conditional(handle, bodies)
        if kind in (EVENT_RECORD, EVENT_WAIT):
            name = "Record" if kind == EVENT_RECORD else "Wait"
            data = read(f"cuGraphEvent{name}NodeGetEvent", handle, 8)
            return Node(f"event_{name.lower()}", arguments=data or b"", layout=((0, 8),) if data else ())
        if kind == MEM_ALLOC:
            data = read("cuGraphMemAllocNodeGetParams", handle, _ALLOCATION_BYTES)
            return Node("mem_alloc", size=_POINTER.unpack_from(data, _ALLOCATION_SIZE)[0] if data else None)
        if kind == MEM_FREE:
            return Node("mem_free")
        return Node(_TYPES.get(kind, "other"))

    def _conditional(self, handle: int, bodies: set[int]) -> Node:
        if handle not in self._conditionals:
            return Node("other", "conditional", unknown="inside")
        kind, inside = self._conditionals[handle]
        found: list[Snapshot] = []
        for body in inside:
            bodies.add(body)
            snapshot = self._graph(body, bodies)
            found.append(self._same((), ()) if snapshot is None else snapshot)
        return Node(_CONDITIONAL_KINDS[kind] if kind < len(_CONDITIONAL_KINDS) else "other", bodies=tuple(found))

    def _end(self, data: bytes, kind: int, host: int, device: int, array: int) -> tuple[str | None, bytes]:
        """One end of a copy: its letter, and its pointer."""
        found = int.from_bytes(data[kind:kind + 4], "little")
        place = {1: host, 3: array}.get(found, device)
        pointer = data[place:place + 8]
        if found != _UNIFIED:
            return _LETTERS.get(found), pointer
        is_host = self._driver.is_host_memory(_POINTER.unpack(pointer)[0])
        return (None if is_host is None else "H" if is_host else "D"), pointer


def numbers_of(snapshot: Snapshot, top: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the numbers that CUPTI gives to the runs of a graph's nodes, in the order of `Snapshot.walk`.

    The definition's own nodes keep their numbers. An executable graph goes on counting through what is inside of them:
    all nodes of the first one's body, then what is inside of those, then the next one's (seen with driver 580).

    Parameters
    ----------
    snapshot : Snapshot
        The graph.
    top : sequence of (int or None)
        Numbers of the definition's own nodes; those inside are unknown where one of these is.
    """
    found: list[int | None] = []
    known = [number for number in top if number is not None]
    _number(snapshot, top, max(known) + 1 if known and len(known) == len(top) else None, found)
    return tuple(found)


def _number(snapshot: Snapshot, own: Sequence[int | None], following: int | None,
            found: list[int | None]) -> int | None:
    for node, number in zip(snapshot.nodes, own, strict=False):
        found.append(number)
        for body in node.bodies:
            if following is None:
                _number(body, [None] * len(body.nodes), None, found)
            else:
                first, following = following, following + len(body.nodes)
                following = _number(body, range(first, following), following, found)
    return following


class _Function:
    """What a kernel is called, and how it takes its arguments."""

    __slots__ = ("_bytes", "_ones", "_shifts", "_size", "entry", "layout", "name")

    def __init__(self, driver: Driver, function: int, kernel: int, entry: str | None) -> None:
        self.entry = entry
        self.name = readable(entry) if entry else None
        found = driver.parameters(function, kernel) or ()
        start = found[0][0] if found else 0
        self.layout = tuple((offset - start, size) for offset, size in found)
        self._bytes = 8 * len(found)
        self._size = self.layout[-1][0] + self.layout[-1][1] if found else 0
        self._ones = sum(1 << 64 * place for place in range(len(found)))
        self._shifts = sum(offset << 64 * place for place, (offset, _) in enumerate(self.layout))

    def arguments(self, pointers: int) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """The values as one piece, and where each is in it; `pointers` is where their addresses are."""
        places = ctypes.string_at(pointers, self._bytes)
        first = _POINTER.unpack_from(places)[0]
        # All addresses at once, as one number: the driver keeps the values as a kernel gets them.
        if int.from_bytes(places, "little") == first * self._ones + self._shifts:
            return ctypes.string_at(first, self._size), self.layout
        at, values, layout = 0, list[bytes](), list[tuple[int, int]]()
        for place, (_, size) in zip(struct.iter_unpack("<Q", places), self.layout, strict=True):
            values.append(ctypes.string_at(place[0], size))
            layout.append((at, size))
            at += size
        return b"".join(values), tuple(layout)


class _Symbol(ctypes.Structure):
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p))


def _function_name(address: int) -> str | None:
    """The name of a C function that a library exports; Python's callables, behind a trampoline, have none here."""
    found = _Symbol()
    lookup = getattr(ctypes.CDLL(None), "dladdr", None)
    if lookup is None or not lookup(ctypes.c_void_p(address), ctypes.byref(found)) or found.address != address:
        return None
    return readable((found.name or b"").decode("utf-8", "replace")) or None


# What two graphs have in common: plain data of nodes and edges, hashes of it, and differences in words.
#
# Two graphs of one topology have the same kinds of nodes, the same kernels and the same edges, by the order in
# which their nodes were made; the driver can update one into the other. Graphs of one fingerprint have the same
# launch configurations and sizes too: only pointers and scalars differ between them, if anything. Arguments are
# compared here as bytes, and leave this module in no other form than as words that say which one differs.

#: Names of a node's arguments by its kind; a kernel's have numbers.
_ARGUMENTS = {
    "memcpy": ("source", "destination"), "memset": ("destination", "value"), "host": ("function", "user data"),
    "event_record": ("event",), "event_wait": ("event",), "mem_free": ("pointer",),
}
_MOST_WORDS = 8
#: How numba's kernels name an array, which is five parameters and two for each dimension; and types between commas.
_ARRAY, _ARRAY_TYPE = "Array<", r"Array<[^<>]*, (\d+), [^<>]*>"
_FIELD_TYPES = r"(?:[^<>(),]|<(?:[^<>]|<[^<>]*>)*>|\([^()]*\))+"


class Shape(NamedTuple):
    """A kernel node's launch configuration; grids count blocks."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    sharedmem: int
    cluster: tuple[int, int, int] | None
    cooperative: bool


class Node(NamedTuple):
    """One node.

    Attributes
    ----------
    kind : str
        As in the column ``graph_nodes.kind``.
    name, entry : str or None
        Readable name, and a kernel's mangled one.
    shape : Shape or None
        A kernel's launch configuration.
    size : int or None
        Bytes copied, set or allocated.
    arguments : bytes
        Values, one after the other, where `layout` says.
    layout : tuple of (int, int)
        Offset and size in bytes of each argument.
    bodies : tuple of Snapshot
        The graphs inside of it.
    unknown : str or None
        What could not be read of it.
    enabled : bool
        Whether it runs in the executable graph.
    """

    kind: str
    name: str | None = None
    entry: str | None = None
    shape: Shape | None = None
    size: int | None = None
    arguments: bytes = b""
    layout: tuple[tuple[int, int], ...] = ()
    bodies: tuple[Snapshot, ...] = ()
    unknown: str | None = None
    enabled: bool = True


class Snapshot:
    """A graph as it was at one time: nodes in the order of their making, and edges as pairs of their positions."""

    def __init__(self, nodes: tuple[Node, ...], edges: tuple[tuple[int, int], ...]) -> None:
        self.nodes = nodes
        self.edges = edges

    @cached_property
    def topology(self) -> str:
        """SHA-256 of kinds, kernels and edges."""
        return _digest([_topology(node) for node in self.nodes], self.edges)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all but pointers and scalars."""
        return _digest([_fingerprint(node) for node in self.nodes], self.edges)

    @cached_property
    def state(self) -> str:
        """SHA-256 of everything: equal for graphs that do the same to the same memory."""
        digest = hashlib.sha256(self.fingerprint.encode())
        for node in self.walk():
            digest.update(b"%d:" % len(node.arguments) + node.arguments)
        return digest.hexdigest()

    def walk(self) -> Iterator[Node]:
        """Each node, and after it those inside of it."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.walk()

    def count(self) -> tuple[int, int]:
        """Nodes and edges, those inside of nodes included."""
        nodes, edges = len(self.nodes), len(self.edges)
        for node in self.nodes:
            for body in node.bodies:
                inside = body.count()
                nodes, edges = nodes + inside[0], edges + inside[1]
        return nodes, edges

    def replaced(self, position: int, node: Node) -> Snapshot:
        """The same with another node at a position."""
        return Snapshot((*self.nodes[:position], node, *self.nodes[position + 1:]), self.edges)


class Difference(NamedTuple):
    """What differs: one of none, arguments, configuration and topology; and the same in words."""

    change: str
    changes: str | None


def compare(before: Snapshot, after: Snapshot, names: dict[str, tuple[str, ...]] | None = None) -> Difference:
    """Say what differs between two graphs.

    Parameters
    ----------
    before, after : Snapshot
        The graphs.
    names : dict of str to tuple of str, optional
        By a kernel's mangled name, what each of its parameters is called.
    """
    if before.topology != after.topology:
        return Difference("topology", _joined(_topology_words(before, after)))
    configuration, arguments = Counter[str](), Counter[str]()
    for old, new in zip(before.walk(), after.walk(), strict=True):
        if old is not new and old != new:
            configuration.update(_configuration_words(old, new))
            arguments.update(_argument_words(old, new, names or {}))
    words = [f"{text} ({count} nodes)" if count > 1 else text
             for text, count in [*configuration.items(), *arguments.items()]]
    change = "configuration" if configuration else "arguments" if arguments else "none"
    return Difference(change, _joined(words))


def described(node: Node) -> str:
    """What to call a node in a sentence."""
    if node.kind == "kernel":
        return short_name(node.name) if node.name else "a kernel"
    return f"{node.kind} {node.name}" if node.name and node.name != node.kind else node.kind


def _topology(node: Node) -> str:
    inside = ",".join(body.topology for body in node.bodies) if node.bodies else ""
    return f"{node.kind}|{node.entry or ''}|{inside}"


def _fingerprint(node: Node) -> str:
    inside = ",".join(body.fingerprint for body in node.bodies) if node.bodies else ""
    name = "" if node.kind in ("kernel", "host") else node.name or ""
    return f"{node.kind}|{node.entry or ''}|{name}|{_shape_text(node.shape)}|{node.size}|{node.enabled}|{inside}"


@functools.lru_cache(1024)
def _shape_text(shape: Shape | None) -> str:
    return str(shape)


def _digest(nodes: list[str], edges: tuple[tuple[int, int], ...]) -> str:
    text = "\n".join([str(len(nodes)), *nodes, str(edges)])
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _topology_words(before: Snapshot, after: Snapshot) -> list[str]:
    """Nodes that came and went; where none did, their order or their edges."""
    old = Counter(_what(node) for node in before.walk())
    new = Counter(_what(node) for node in after.walk())
    words = [_counted(what, count, "added") for what, count in (new - old).items()]
    words += [_counted(what, count, "removed") for what, count in (old - new).items()]
    if words:
        return words
    if sum(old.values()) and [_topology(node) for node in before.nodes] == [_topology(node) for node in after.nodes]:
        came, went = len(set(after.edges) - set(before.edges)), len(set(before.edges) - set(after.edges))
        return [f"{count} {'edge' if count == 1 else 'edges'} {verb}"
                for count, verb in ((came, "added"), (went, "removed")) if count]
    return ["other order of the nodes"]


def _what(node: Node) -> str:
    return described(node) if node.kind == "kernel" else node.kind


def _counted(what: str, count: int, verb: str) -> str:
    return f"node {what} {verb}" if count == 1 else f"{count} nodes {what} {verb}"


def _configuration_words(old: Node, new: Node) -> Iterator[str]:
    what = described(new)
    if old.shape is not None and new.shape is not None and old.shape != new.shape:
        for label, before, after in (("grid", old.shape.grid, new.shape.grid),
                                     ("block", old.shape.block, new.shape.block),
                                     ("cluster", old.shape.cluster, new.shape.cluster)):
            if before != after:
                yield f"{label} of {what} {_dims(before)} to {_dims(after)}"
        if old.shape.sharedmem != new.shape.sharedmem:
            yield f"shared memory of {what} {old.shape.sharedmem} to {new.shape.sharedmem} bytes"
        if old.shape.cooperative != new.shape.cooperative:
            yield f"{what} {'is cooperative now' if new.shape.cooperative else 'is not cooperative any more'}"
    if old.size != new.size:
        yield f"size of {what} {old.size} to {new.size} bytes"
    if old.name != new.name and new.kind not in ("kernel", "host"):
        yield f"{old.kind} {old.name} to {new.name}"
    if old.enabled != new.enabled:
        yield f"{what} {'enabled' if new.enabled else 'disabled'}"


def _argument_words(old: Node, new: Node, names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    if old.arguments == new.arguments and old.layout == new.layout:
        return
    what, labels = described(new), _ARGUMENTS.get(new.kind) or names.get(new.entry or "") or _positions(new.name or "")
    if new.kind == "kernel" and len(labels) != len(new.layout):
        labels = ()  # of another way to pass arguments than is known
    # A kernel that takes arrays as numba does has more parameters than arguments.
    numbered = "parameter" if not labels and _ARRAY in (new.name or "") else "argument"
    seen: set[str] = set()
    for index, (offset, size) in enumerate(new.layout):
        if index < len(old.layout) and old.layout[index] == (offset, size) and \
                old.arguments[offset:offset + size] == new.arguments[offset:offset + size]:
            continue
        if new.kind == "kernel":
            word = f"{numbered} {labels[index] if index < len(labels) else index + 1} of {what}"
        else:
            word = f"{labels[index] if index < len(labels) else 'parameters'} of {what}"
        if word not in seen:  # several parameters can be one argument of Python's, such as an array
            seen.add(word)
            yield word


@functools.lru_cache(1024)
def _positions(name: str) -> tuple[str, ...]:
    """Which argument each parameter of a numba kernel belongs to, by its readable name; empty where it is not sure."""
    if _ARRAY not in name:
        return ()
    found: list[str] = []
    types = name.partition("(")[2].rpartition(")")[0]
    for position, each in enumerate(re.findall(_FIELD_TYPES, types), 1):
        array = re.fullmatch(_ARRAY_TYPE, each.strip())
        if array is None and ("<" in each or "(" in each):
            return ()
        found += [str(position)] * (1 if array is None else 5 + 2 * int(array[1]))
    return tuple(found)


def _dims(dims: tuple[int, ...] | None) -> str:
    if dims is None:
        return "none"
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return str(shown[0]) if len(shown) == 1 else f"({', '.join(map(str, shown))})"


def _joined(words: list[str]) -> str | None:
    return listed(words, _MOST_WORDS, between="; ") or None


# Graphs as they were at one moment: copies that the driver makes at once, and that are read later.
#
# The driver copies a graph of 1,000 nodes in 0.6 ms; reading them from Python takes ten times as long. So the
# copy is made in the user's call and read when recording stops. A copy keeps alive what the graph keeps alive,
# such as arrays, and may be read only as long as its kernels are loaded: it is read earlier when the last of what
# it was copied from is destroyed, and when a module is unloaded.

#: More copies, or more nodes in them, are not kept.
MOST_COPIES, MOST_NODES = 256, 50_000

Number = Callable[[int], int | None]


class GraphCopy:
    """One graph at one moment.

    Attributes
    ----------
    content : Content or None
        What was read; None before, and where the driver would not tell.
    handles : list of int
        The definition's own nodes, in order.
    """

    __slots__ = ("content", "handles", "numbers", "owners", "slot")

    def __init__(self, handles: list[int], owners: Iterable[int]) -> None:
        self.content: Content | None = None
        self.handles = handles
        self.owners = set(owners)
        self.slot: ctypes.c_uint64 | None = None
        self.numbers: tuple[int | None, ...] = ()


class Copies:
    """Keeps copies of graphs, and reads them.

    Parameters
    ----------
    driver : Driver
        Who copies.
    reader : Reader
        Who reads.
    """

    def __init__(self, driver: Driver, reader: Reader) -> None:
        self._driver = driver
        self._reader = reader
        self._waiting: dict[int, GraphCopy] = {}
        self._slots: dict[int, ctypes.c_uint64] = {}
        self._copies: set[int] = set()
        self._nodes = 0
        self._handles: list[int] = []

    def is_own_slot(self, address: int) -> bool:
        """Whether a copy is being written there that is made here, and not by the user."""
        return address in self._slots

    def is_own_copy(self, graph: int) -> bool:
        """Whether a definition is a copy that was made here."""
        return graph in self._copies

    def take(self, graph: int, owners: Iterable[int], number: Number) -> GraphCopy | None:
        """Copy a definition, or read it at once where that cannot be; None where it is none.

        Parameters
        ----------
        graph : int
            The definition.
        owners : iterable of int
            Handles of what keeps alive all that the copy does; without any it is read at once.
        number : callable
            The number of each of its own nodes.
        """
        handles = self._driver.nodes(graph)
        if handles is None:
            return None
        if handles == self._handles:  # a definition that is instantiated again and again
            handles = self._handles
        self._handles = handles
        copy = GraphCopy(handles, owners)
        copy.numbers = _numbers(handles, number)
        if not copy.owners or self._leads_back(graph, handles) or not self._copy(graph, copy):
            copy.content = self._content_of(graph, copy)
            return copy
        while self._waiting and (len(self._waiting) >= MOST_COPIES or self._nodes + len(handles) > MOST_NODES):
            self.read(next(iter(self._waiting.values())))
        self._waiting[id(copy)] = copy
        self._nodes += len(handles)
        return copy

    def read(self, copy: GraphCopy) -> None:
        """Read a copy and destroy it; nothing where that was done."""
        slot = copy.slot
        if slot is None:
            return
        copy.content = self._content_of(slot.value, copy)
        if self._waiting.pop(id(copy), None) is not None:
            self._nodes -= len(copy.handles)
        copy.slot = None
        self._destroy(slot)

    def read_all(self) -> None:
        """Read all copies; those that an interruption has left over are destroyed."""
        for copy in list(self._waiting.values()):
            self.read(copy)
        for slot in list(self._slots.values()):
            self._destroy(slot)

    def going(self, owner: int) -> None:
        """Read those copies that would be the last to keep something alive when `owner` is destroyed."""
        for copy in list(self._waiting.values()):
            copy.owners.discard(owner)
            if not copy.owners:
                self.read(copy)

    def _content_of(self, graph: int, copy: GraphCopy) -> Content | None:
        content = self._reader.read(graph)
        if content is None:
            return None
        return content._replace(numbers=numbers_of(content.snapshot, copy.numbers))

    def _leads_back(self, graph: int, handles: list[int]) -> bool:
        """Whether a node depends on one that was added after it: a copy may have its nodes in another order then."""
        place = {handle: at for at, handle in enumerate(handles)}
        return any(place.get(first, 0) > place.get(then, 0) for first, then in self._driver.edges(graph))

    def _destroy(self, slot: ctypes.c_uint64) -> None:
        if slot.value:
            self._driver.destroy(slot.value)
        self._copies.discard(slot.value)
        self._slots.pop(ctypes.addressof(slot), None)

    def _copy(self, graph: int, copy: GraphCopy) -> bool:
        slot = ctypes.c_uint64()
        self._slots[ctypes.addressof(slot)] = slot  # before: what an interruption leaves over can be found
        if self._driver.clone(graph, slot) == SUCCESS:
            self._copies.add(slot.value)
            copy.slot = slot
            return True
        self._slots.pop(ctypes.addressof(slot), None)
        return False


def _numbers(handles: list[int], number: Number) -> tuple[int | None, ...]:
    """The numbers of a definition's nodes; they are mostly consecutive, and then two of them say it."""
    if not handles:
        return ()
    first, last = number(handles[0]), number(handles[-1])
    if first is not None and last is not None and last - first == len(handles) - 1:
        return _consecutive(first, last)
    return tuple(number(handle) for handle in handles)


@functools.lru_cache(256)
def _consecutive(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))
