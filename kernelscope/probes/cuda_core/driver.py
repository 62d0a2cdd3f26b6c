"""The driver's functions that read graphs, through ctypes, which releases the interpreter's lock meanwhile."""

from __future__ import annotations

import ctypes
from typing import Any

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
