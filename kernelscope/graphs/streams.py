"""Streams of numba, cuda.core and others as cuda.core's."""

from __future__ import annotations

from typing import Any

from kernelscope.errors import GraphError
from kernelscope.graphs.memory import core


def core_stream(stream: Any) -> Any:
    """Return the `cuda.core.Stream` for a stream.

    Parameters
    ----------
    stream : None, int or object
        None and 0 are the default stream; another int is a ``CUstream``. Otherwise a stream of numba or cuda.core, a
        `cuda.core.graph.GraphBuilder`, or any object with ``__cuda_stream__``.

    Raises
    ------
    GraphError
        It is none of these.
    """
    kind = core().Stream
    if isinstance(stream, kind):
        return stream
    if stream is None:
        return kind.from_handle(0)
    if isinstance(stream, int):
        return kind.from_handle(stream)
    inner = getattr(stream, "stream", None)
    if isinstance(inner, kind):  # a graph builder
        return inner
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise GraphError(f"{stream!r} is no stream: give one of numba or cuda.core, or a handle as an int")
    return kind.from_handle(int(protocol()[1]))
