"""Objects that a graph uses: kept until CUDA has freed the graph, after the last launch has ended."""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

from kernelscope.errors import GraphError
from kernelscope.graphs.memory import driver

_SEMAPHORE_BYTES = 64  # more than a sem_t has on any Linux

#: Of graphs that were closed and are perhaps not freed yet.
_ending: list[KeepAlive] = []


class KeepAlive:
    """Keeps the objects alive that an executable graph uses. Make it before the graph is instantiated.

    CUDA says when they are needed no more: the definition and the executable graph own a user object, which is released
    when the last launch has ended. CUDA does so in its own thread, which may neither call CUDA nor wait for Python,
    so that what it calls is C's ``sem_post``; the objects are let go later, in a thread of Python's.

    Parameters
    ----------
    definition : cuda.core.graph.GraphDefinition
        The graph's.
    objects
        What to keep.
    """

    def __init__(self, definition: Any, objects: Any) -> None:
        let_go()
        self._definition = definition
        self._objects = objects
        self._asking = threading.Lock()
        # Not Python's memory: CUDA may write to it when the interpreter has ended.
        self._semaphore = _libc().calloc(1, _SEMAPHORE_BYTES)
        _libc().sem_init(self._semaphore, 0, 0)
        cu = driver()
        post = ctypes.cast(_libc().sem_post, ctypes.c_void_p).value
        error, self._user_object = cu.cuUserObjectCreate(
            self._semaphore, cu.CUhostFn(post), 1, cu.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        check(error, "cuUserObjectCreate")
        moved = cu.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
        check(cu.cuGraphRetainUserObject(definition.handle, self._user_object, 1, moved)[0], "cuGraphRetainUserObject")

    def close(self, graph: Any = None) -> None:
        """Destroy the executable graph, if there is one, and let go of the objects when its launches have ended."""
        _ending.append(self)
        driver().cuGraphReleaseUserObject(self._definition.handle, self._user_object, 1)
        if graph is not None:
            graph.close()
        let_go()

    def take_end(self) -> bool:
        """Return whether CUDA has freed the graph; true once, and false while another thread asks."""
        if not self._asking.acquire(blocking=False):  # it may also be garbage of this thread's that is closed meanwhile
            return False
        try:
            if self._semaphore is None or _libc().sem_trywait(self._semaphore) != 0:
                return False
            _libc().free(self._semaphore)
            self._semaphore = None
            return True
        finally:
            self._asking.release()


def let_go() -> None:
    """Let go of the objects of closed graphs whose launches have ended."""
    if _ending:
        # What is dropped may close further graphs: they find the list as it is then.
        ended = [each for each in list(_ending) if each.take_end()]
        for each in ended:
            _ending.remove(each)


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    libc.free.argtypes = libc.sem_trywait.argtypes = [ctypes.c_void_p]
    libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
    return libc


def check(error: Any, call: str) -> None:
    """Raise what the driver's answer to a call says, if it is an error."""
    if error:
        raise GraphError(f"{call}: {getattr(error, 'name', error)}")
