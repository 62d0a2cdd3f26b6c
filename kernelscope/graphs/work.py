"""What each kind of node does, looked up from what its node holds now: addresses, sizes and calls."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.errors import GraphError
from kernelscope.graphs.kernels import KernelCall, kernel_call
from kernelscope.graphs.memory import Region, check_context, region_of
from kernelscope.graphs.nodes import (
    Condition,
    ConditionalNode,
    HostNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    Node,
)


@dataclass(frozen=True)
class Copy:
    """A copy of `nbytes` bytes; `key` is equal for equal copies, `keep` are the arrays."""

    dst: Region
    src: Region
    nbytes: int
    keep: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal copies."""
        return self.dst.address, self.src.address, self.nbytes, *self.kinds

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Whether destination and source are on the device."""
        return self.dst.on_device, self.src.on_device


@dataclass(frozen=True)
class Fill:
    """A pattern of 1, 2 or 4 bytes, `count` times; `key` is equal for equal fills, `keep` is the array."""

    address: int
    pattern: bytes
    count: int
    keep: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal fills."""
        return self.address, self.pattern, self.count


@dataclass(frozen=True)
class Call:
    """A call on the host; `key` is equal for calls of the same objects."""

    function: Callable[[], Any]
    key: tuple[Any, ...]
    keep: tuple[Any, ...]


@dataclass(frozen=True)
class Nothing:
    """What empty and conditional nodes have: parameters that never change."""

    key: tuple[Any, ...] = ()
    keep: tuple[Any, ...] = ()


Work = KernelCall | Copy | Fill | Call | Nothing


def work_of(node: Node, handle_of: Callable[[Condition], int], before: Work | None = None) -> Work:
    """Return what the node does.

    Parameters
    ----------
    node : Node
        The node.
    handle_of : callable
        Gives the handle of a condition.
    before : Work, optional
        What it did until now, in the same context.

    Raises
    ------
    GraphError
        It cannot be done in a graph; the message names the node, the value and the reason.
    """
    if isinstance(node, KernelNode):
        return kernel_call(node, handle_of, before if isinstance(before, KernelCall) else None)
    if isinstance(node, MemcpyNode):
        return _copy(node)
    if isinstance(node, MemsetNode):
        return _fill(node)
    if isinstance(node, HostNode):
        if not callable(node.function):
            raise GraphError(f"{node.label}: {node.function!r} cannot be called")
        function = functools.partial(node.function, *node.args)
        return Call(function, (node.function, *map(id, node.args)), (function,))
    return Nothing(keep=(node.condition,) if isinstance(node, ConditionalNode) else ())


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
    return Copy(dst, src, nbytes, (node.dst, node.src))


def _size(node: MemcpyNode, dst: Region, src: Region) -> int:
    """How many bytes a node copies."""
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
    return Fill(dst.address, pattern, dst.nbytes // len(pattern), (node.dst,))


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
