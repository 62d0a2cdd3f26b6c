"""The hook on ``cuda.core.launch``: a compiled function that others have bound early, so each binding is replaced.

What the hook does at a launch is in C (``core_launch.c``); what is new, and what fails, it leaves to `LaunchHook`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Bindings, ids, without_hook
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.driver import device
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "cuda.core"
#: Streams and kernels that are known by identity are kept alive; more than this many are forgotten at once.
_MOST_KNOWN = 4096


class LaunchHook:
    """Records each call of ``cuda.core.launch``: when it was entered and left, the kernel and the launch configuration.

    numba-cuda's own launches go through it as well; they are recorded by their own probe and not here.

    Parameters
    ----------
    sink : Sink
        Where records go.
    compiled : mapping of str to (int, set of int), optional
        By the mangled name of a kernel that was compiled in this recording its dispatcher, and its specializations.

    Attributes
    ----------
    has_launched : bool
        Whether it has recorded a launch.
    """

    def __init__(self, sink: Sink, compiled: Mapping[str, tuple[int, set[int]]] | None = None) -> None:
        self.sink = sink
        self._compiled = {} if compiled is None else compiled
        self.has_launched = False
        self._known: dict[Any, tuple[int, int]] = {}
        self._bindings: Bindings | None = None
        self._hook: Any = None

    def install(self, core: Any) -> None:
        """Put the hook in: `core` is the module ``cuda.core``."""
        elsewhere = self.sink.recorded_elsewhere
        core.launch = without_hook(core.launch)  # somebody may have put back an earlier recording's
        self._bindings = Bindings(vars(core), "launch", self.make, lambda names: names.get("__name__") in elsewhere)
        self._bindings.put()

    def uninstall(self) -> None:
        """Take the hook back; where it cannot be reached it records nothing any more."""
        if self._bindings is not None:
            self._bindings.take_back()
            self._bindings = None  # and with it the hook: a reference to the function less
        if self._hook is not None:
            self._hook.is_enabled = False
            self._hook.forget()
            self._hook = None
        self._known.clear()

    def make(self, original: Callable[..., None]) -> Callable[..., None]:
        """Return the hook that stands for `original`; a launch's ids are looked up before it."""
        self._hook = self.sink.log.hook("core", original, self._begin, self._end, _MOST_KNOWN)
        return functools.update_wrapper(self._hook, original)

    def _begin(self, kernel: Any, stream: Any, *shape: Any) -> tuple[int, int] | None:
        """Return the ids of a launch that is new; None where they cannot be had: it may be refused, and be none."""
        found: tuple[int, int] | None = None
        try:
            with _hashing():
                found = self._known.get((stream, kernel, *shape))  # of equal objects
                if found is not None:
                    self._know(kernel, stream, shape, found)
            return self._lookup(stream, kernel, shape, None) if found is None else found
        except Exception as problem:
            if from_signal_handler(problem):
                raise
            return None

    def _end(self, stream: Any, config: Any, kernel: Any, error: str | None) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has failed, or whose ids could not be had before it. See `ids`."""
        return ids(FRAMEWORK, self.sink, lambda: self._lookup(stream, kernel, shape_of(config), error))

    def _know(self, kernel: Any, stream: Any, shape: tuple[Any, ...], found: tuple[int, int]) -> None:
        if self._hook is not None:
            with contextlib.suppress(TypeError):  # such as a dimension that is no plain number
                self._hook.know("launches", (kernel, stream, *shape), *found)

    def describe(self, used: Iterable[tuple[int, int]]) -> None:
        """Ask the driver for registers, sizes and occupancy of what was used; nothing is loaded for it."""
        rows = self.sink.specializations
        done = {(row["specialization_id"], row["configuration_id"], row["device_id"]) for row in self.sink.occupancies}
        for target, configuration in used:
            goal = self.sink.targets.rows[target]
            number, where = goal["specialization_id"], goal["device_id"]
            kernel = rows.objects[number] if number != UNKNOWN else None
            if where == UNKNOWN or not isinstance(kernel, _Live):
                continue
            try:
                if "regs" not in rows.rows[number]:
                    view = kernel.kernel.attributes[self.sink.devices.rows[where]["ordinal"]]
                    rows.rows[number].update({"regs": view.num_regs, "static_shared_bytes": view.shared_size_bytes,
                                              "local_bytes": view.local_size_bytes,
                                              "const_bytes": view.const_size_bytes,
                                              "max_threads": view.max_threads_per_block})
                if (number, configuration, where) not in done:
                    done.add((number, configuration, where))
                    self._occupancy(kernel.kernel, number, configuration, where)
            except Exception as problem:  # one kernel's, such as of a library that was unloaded: the others go on
                self.sink.swallow(FRAMEWORK, problem)

    def _lookup(self, stream: Any, kernel: Any, shape: tuple[Any, ...], failure: str | None) -> tuple[int, int]:
        """Return the ids of target and configuration, kept for the next launch where that can be."""
        grid, block, cluster, shared = tuple(shape[0]), tuple(shape[1]), *shape[2:]
        if cluster:  # the grid counts clusters then
            grid = tuple(count * blocks for count, blocks in zip(grid, (*cluster, 1, 1), strict=False))
        configuration = self.sink.configuration(grid, block, int(shared), self._handle(stream), cluster)
        target = self._target(stream, kernel, failure)
        self.has_launched = True
        if failure is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            with _hashing():
                self._known[stream, kernel, *shape] = target, configuration
                self._know(kernel, stream, shape, (target, configuration))
        return target, configuration

    def _handle(self, stream: Any) -> int:
        """The handle of a stream, of a graph builder's, or of what follows the protocol ``__cuda_stream__``."""
        stream = getattr(stream, "stream", stream)
        if hasattr(stream, "handle"):
            return self.sink.stream_seen(int(stream.handle), stream)
        return int(stream.__cuda_stream__()[1])

    def _target(self, stream: Any, kernel: Any, failure: str | None) -> int:
        handle = int(kernel.handle)
        entry = _entry_name(handle)
        # A name may stand for many kernels, and a handle of an unloaded library for another one later: the kernel is
        # kept alive beside its row.
        key = (FRAMEWORK, handle, entry)
        made, results = self._compiled.get(entry or "", (None, ()))
        dispatcher = self.sink.dispatchers.intern(
            key, lambda: _function(handle, entry), live=kernel) if made is None else made
        where = device(self.sink, _ordinal())
        if len(results) == 1:  # of several, which one a handle is of is not told
            specialization, = results
            # Keep the kernel that was loaded from what was compiled, and its arguments, beside the row of that.
            rows = self.sink.specializations
            if rows.objects[specialization] is None:
                rows.objects[specialization] = _Live(kernel)
                if rows.rows[specialization]["signature"] == "()":
                    rows.rows[specialization]["signature"] = _signature(entry, kernel)
        else:
            specialization = self.sink.specializations.intern(key, lambda: {
                "dispatcher_id": dispatcher, "signature": _signature(entry, kernel),
                "origin": "compiled" if results else "before",
                "compute_capability": self.sink.devices.rows[where].get("compute_capability"), "entry_name": entry,
            }, live=_Live(kernel))
        return self.sink.target(dispatcher, specialization, where, failure)

    def _occupancy(self, kernel: Any, specialization: int, configuration: int, where: int) -> None:
        if self.sink.devices.rows[where]["ordinal"] == _ordinal():  # asked of the current device only
            self.sink.add_occupancy(specialization, configuration, where,
                                    lambda threads, shared: kernel.occupancy.max_active_blocks_per_multiprocessor(
                                        threads, shared))


@contextlib.contextmanager
def _hashing() -> Generator[None, None, None]:
    """A stream of the user's own that has no hash is looked up each time."""
    try:
        yield
    except Exception as problem:
        if from_signal_handler(problem):
            raise


def shape_of(config: Any) -> tuple[Any, ...]:
    """Return grid, block, cluster and bytes of shared memory of a launch configuration, as they are now."""
    return config.grid, config.block, config.cluster, config.shmem_size


def trial(sink: Sink) -> Trial:
    """Return two launches, the second of them hooked: see `Probe.trial`."""
    hook = LaunchHook(sink)
    stream, config, kernel = _Handle(), _Config(), _Handle()
    hook._known[stream, kernel, *shape_of(config)] = 0, 0
    hooked = hook.make(_launch)
    return (lambda: _launch(stream, config, kernel, 0, 0)), (lambda: hooked(stream, config, kernel, 0, 0))


def _launch(stream: Any, config: Any, kernel: Any, *kernel_args: Any) -> None:
    other_work()


class _Config:
    grid = block = (1, 1, 1)
    cluster = None
    shmem_size = 0


class _Handle:
    """A stream or kernel: like cuda.core's it is known by its handle."""

    def __hash__(self) -> int:
        return hash((type(self), 0))


class _Live:
    """A kernel beside its row, told apart from what other probes keep there."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel


def _function(handle: int, entry: str | None) -> dict[str, Any]:
    name = readable(entry) if entry else f"kernel {handle:#x}"
    return {"framework": FRAMEWORK, "name": name.partition("(")[0] if entry else name}


def _signature(entry: str | None, kernel: Any) -> str:
    """The argument types where the name says them, as C++ names do; else their sizes, which the driver knows."""
    _, bracket, types = (readable(entry) if entry else "").partition("(")
    if bracket:
        return f"({types}"
    try:
        sizes = [size for _, size in kernel.arguments_info]
    except Exception:  # a driver that is older than the question
        return "()"
    return f"({', '.join(f'{size} bytes' if size != 1 else '1 byte' for size in sizes)})"


def _entry_name(handle: int) -> str | None:
    text = ctypes.c_char_p()
    if ctypes.CDLL("libcuda.so.1").cuKernelGetName(ctypes.byref(text), ctypes.c_void_p(handle)) or not text.value:
        return None
    return text.value.decode("utf-8", "replace")


def _ordinal() -> int:
    """The current device, which is the one that was launched on."""
    found = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(found))
    return found.value
