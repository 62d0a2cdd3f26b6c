"""Reading a graph's nodes and edges from the driver: plain data, no handle, nothing kept alive.

Layouts are those of cuda.h's structures, whose functions carry a version in their name: another layout would be
another function. What CUDA 12 and 13.0 have no function for is the inside of conditional nodes; it is known of those
whose making was seen (`Conditionals`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple

from kernelscope.probes.cuda_core.driver import CLUSTER, COOPERATIVE, Driver
from kernelscope.probes.cuda_core.fingerprint import Node, Shape, Snapshot
from kernelscope.probes.cupti.convert import readable

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


class Walked(NamedTuple):
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


class Walker:
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

    def walk(self, graph: int) -> Walked | None:
        """Read a definition, or return None where the driver will not."""
        self._confirmed.clear()  # the driver may have given a handle to another kernel since
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        bodies: set[int] = set()
        snapshot = self._graph(graph, bodies)
        return None if snapshot is None else Walked(snapshot, frozenset(bodies))

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
