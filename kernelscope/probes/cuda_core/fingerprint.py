"""What two graphs have in common: plain data of nodes and edges, hashes of it, and differences in words.

Two graphs of one topology have the same kinds of nodes, the same kernels and the same edges, by the order in which
their nodes were made; the driver can update one into the other. Graphs of one fingerprint have the same launch
configurations and sizes too: only pointers and scalars differ between them, if anything. Arguments are compared here as
bytes, and leave this module in no other form than as words that say which one differs.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

#: Names of a node's arguments by its kind; a kernel's have numbers.
_ARGUMENTS = {
    "memcpy": ("source", "destination"), "memset": ("destination", "value"), "host": ("function", "user data"),
    "event_record": ("event",), "event_wait": ("event",), "mem_free": ("pointer",),
}
_MOST_WORDS = 8
#: How numba's kernels name an array, which is five parameters and two for each dimension; and types between commas.
_ARRAY, _ARRAY_TYPE = "Array<", re.compile(r"Array<[^<>]*, (\d+), [^<>]*>")
_TYPES = re.compile(r"(?:[^<>(),]|<(?:[^<>]|<[^<>]*>)*>|\([^()]*\))+")


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


def short_name(name: str) -> str:
    """A readable name without its module and its argument types."""
    plain = name.partition("(")[0].partition("<")[0]
    return plain.rpartition("::")[2].rpartition(" ")[2] or name


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
    for position, each in enumerate(_TYPES.findall(types), 1):
        array = _ARRAY_TYPE.fullmatch(each.strip())
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
    if len(words) > _MOST_WORDS:
        words = [*words[:_MOST_WORDS], f"and {len(words) - _MOST_WORDS} more"]
    return "; ".join(words) or None
