"""Reading a graph's nodes and edges from the driver: plain data, no handle, nothing kept alive.

Layouts are those of cuda.h's structures, whose functions carry a version in their name: another layout would be
another function. What CUDA 12 and 13.0 have no function for is the inside of conditional nodes; it is known of those
whose making was seen (`Conditionals`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kernelscope.probes.cuda_core.driver import CLUSTER, COOPERATIVE, Driver
from kernelscope.probes.cuda_core.fingerprint import Node, Shape, Snapshot
from kernelscope.probes.cupti.convert import readable

KERNEL, MEMCPY, MEMSET, HOST, CHILD, EMPTY, EVENT_WAIT, EVENT_RECORD = range(8)
MEM_ALLOC, MEM_FREE, CONDITIONAL = 10, 11, 13
KERNEL_BYTES, COPY_BYTES, FILL_BYTES, HOST_BYTES = 72, 200, 40, 16
#: Function, grid, block, shared memory; kernelParams, extra, kernel.
_KERNEL = struct.Struct("<Q7I4xQQQ")
_POINTER = struct.Struct("<Q")
_ALLOCATION_BYTES, _ALLOCATION_SIZE = 120, 104
_TYPES = {EMPTY: "empty", 8: "other", 9: "other", 12: "other"}
_CONDITIONAL_KINDS = ("if", "while", "switch")
_LETTERS = {1: "H", 2: "D", 3: "A"}
_UNIFIED = 4
_MOST_KNOWN = 100_000

#: By the handle of a conditional node: its type, and the definitions inside of it.
Conditionals = dict[int, tuple[int, tuple[int, ...]]]


class Walked(NamedTuple):
    """A graph that was read.

    Attributes
    ----------
    snapshot : Snapshot
        What it is.
    numbers : tuple of (int or None)
        What `number` says of each node, in the order of `Snapshot.walk`.
    bodies : frozenset of int
        Handles of the definitions inside of its conditional nodes.
    """

    snapshot: Snapshot
    numbers: tuple[int | None, ...]
    bodies: frozenset[int]


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
        self._functions: dict[tuple[int, int], tuple[str | None, str | None, Any]] = {}
        # Equal nodes are one object: of a thousand graphs that are the same, each is a tuple of references.
        self._known: dict[Node, Node] = {}

    def walk(self, graph: int, number: Callable[[int], int | None] | None = None) -> Walked | None:
        """Read a definition, or return None where the driver will not; `number` is asked of each node's handle."""
        self._functions.clear()  # the driver may have given a handle to another kernel since
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        numbers: list[int | None] = []
        bodies: set[int] = set()
        snapshot = self._graph(graph, number, numbers, bodies)
        return None if snapshot is None else Walked(snapshot, tuple(numbers), frozenset(bodies))

    def _graph(self, graph: int, number: Any, numbers: list[int | None], bodies: set[int]) -> Snapshot | None:
        handles = self._driver.nodes(graph)
        if handles is None:
            return None
        nodes: list[Node] = []
        known, buffer, kind = self._known, ctypes.create_string_buffer(256), ctypes.c_int()
        address, get_type = ctypes.addressof(buffer), self._driver.get_type
        assert get_type is not None
        for handle in handles:
            numbers.append(number(handle) if number is not None else None)
            pointer = ctypes.c_void_p(handle)
            if get_type(pointer, ctypes.byref(kind)):
                node = Node("other", unknown="type")
            elif kind.value == KERNEL:
                node = self._kernel(pointer, buffer, address)
            else:
                node = self._other(kind.value, handle, (number, numbers, bodies))
            nodes.append(known.setdefault(node, node))
        places = {handle: place for place, handle in enumerate(handles)}
        edges = sorted((places[first], places[then]) for first, then in self._driver.edges(graph)
                       if first in places and then in places)
        return Snapshot(tuple(nodes), tuple(edges))

    def _kernel(self, node: ctypes.c_void_p, buffer: Any, address: int) -> Node:
        driver = self._driver
        ctypes.memset(address, 0, KERNEL_BYTES)
        if driver.get_kernel is None or driver.get_kernel(node, buffer):
            return Node("kernel", unknown="parameters")
        found = self.kernel_of(buffer.raw[:KERNEL_BYTES])
        get, shape = driver.get_attribute, found.shape
        if get is None or shape is None:
            return found
        cluster, cooperative = None, False
        if not get(node, COOPERATIVE, buffer):
            cooperative = buffer.raw[0] != 0
        if not get(node, CLUSTER, buffer):
            x, y, z = struct.unpack_from("<3I", buffer.raw)
            cluster = (x, y, z) if x else None
        return found._replace(shape=shape._replace(cluster=cluster, cooperative=cooperative)) \
            if cluster or cooperative else found

    def kernel_of(self, data: bytes) -> Node:
        """Read ``CUDA_KERNEL_NODE_PARAMS``, version 2 or 3; attributes are not in it."""
        function, gx, gy, gz, bx, by, bz, shared, pointers, _, kernel = _KERNEL.unpack_from(data)
        entry, name, layout = self._function(function, kernel)
        arguments, places = _arguments(pointers, layout) if layout and pointers else (b"", ())
        return Node("kernel", name, entry, Shape((gx, gy, gz), (bx, by, bz), shared, None, False), None, arguments,
                    places, (), None if entry else "name")

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

    def _other(self, kind: int, handle: int, inside: tuple[Any, ...]) -> Node:
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
            body = None if not child else self._graph(child, *inside)
            return Node("child", bodies=(body,)) if body is not None else Node("child", unknown="inside")
        if kind == CONDITIONAL:
            return self._conditional(handle, inside)
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

    def _conditional(self, handle: int, inside: tuple[Any, ...]) -> Node:
        if handle not in self._conditionals:
            return Node("other", "conditional", unknown="inside")
        kind, bodies = self._conditionals[handle]
        found: list[Snapshot] = []
        for body in bodies:
            inside[2].add(body)
            snapshot = self._graph(body, *inside)
            found.append(Snapshot((), ()) if snapshot is None else snapshot)
        return Node(_CONDITIONAL_KINDS[kind] if kind < len(_CONDITIONAL_KINDS) else "other", bodies=tuple(found))

    def _function(self, function: int, kernel: int) -> tuple[str | None, str | None, Any]:
        key = (function, kernel)
        found = self._functions.get(key)
        if found is None:
            entry = self._driver.kernel_name(function, kernel)
            layout = self._driver.parameters(function, kernel)
            found = (entry, readable(entry), layout) if entry else (None, None, layout)
            self._functions[key] = found
        return found

    def _end(self, data: bytes, kind: int, host: int, device: int, array: int) -> tuple[str | None, bytes]:
        """One end of a copy: its letter, and its pointer."""
        found = int.from_bytes(data[kind:kind + 4], "little")
        place = {1: host, 3: array}.get(found, device)
        pointer = data[place:place + 8]
        if found != _UNIFIED:
            return _LETTERS.get(found), pointer
        is_host = self._driver.is_host_memory(_POINTER.unpack(pointer)[0])
        return (None if is_host is None else "H" if is_host else "D"), pointer


def _arguments(pointers: int, layout: tuple[tuple[int, int], ...]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """A kernel's argument values as one piece, and where each is in it."""
    places = struct.unpack(f"<{len(layout)}Q", ctypes.string_at(pointers, 8 * len(layout)))
    first, (start, _) = places[0], layout[0]
    last, size = layout[-1]
    if all(place - first == offset - start for place, (offset, _) in zip(places, layout, strict=True)):
        found = ctypes.string_at(first, last + size - start)  # the driver keeps them as a kernel gets them
        if not start:
            return found, layout
        return found, tuple((offset - start, size) for offset, size in layout)
    values = [ctypes.string_at(place, size) for place, (_, size) in zip(places, layout, strict=True)]
    at, where = 0, list[tuple[int, int]]()
    for value in values:
        where.append((at, len(value)))
        at += len(value)
    return b"".join(values), tuple(where)


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
