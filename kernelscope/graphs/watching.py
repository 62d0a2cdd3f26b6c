"""The launches of a piece of code through numba-cuda, and calls between them that a graph cannot hold."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from kernelscope.graphs.memory import driver, leaves, numba_module, region_of, require_names
from kernelscope.probes.base import Patches, clean
from kernelscope.probes.driver import stream_handle

# Frames of these are not the user's.
_LIBRARIES = frozenset({"numba", "cuda", "kernelscope", "contextlib", "functools", "numpy"})
_ALLOCATIONS = ("memalloc", "memhostalloc", "memallocmanaged", "mempin")
_HOST_COPIES = ("host_to_device", "device_to_host")
_DEVICE_WORK = ("device_to_device", "device_memset")


@dataclass(frozen=True)
class Step:
    """One launch, or one copy or fill on the device.

    Attributes
    ----------
    name : str
        The kernel's name, or ``device_to_device`` and ``device_memset``.
    where : str
        The line of the user's code.
    function, args
        What repeats it as it was.
    stream : int
        The handle of its stream.
    arrays : tuple of (str, object)
        Its device arrays, and what to call each.
    dispatcher : CUDADispatcher or None
        The kernel; None for a copy or fill.
    """

    name: str
    where: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    stream: int
    arrays: tuple[tuple[str, Any], ...]
    dispatcher: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Return a key: equal for launches with the same kernel, launch configuration and argument types."""
        launch: Any = self.function
        return (id(self.dispatcher), launch.griddim, launch.blockdim, launch.sharedmem, self.stream,
                *map(self.dispatcher.typeof_pyval, self.args))

    def onto(self, stream: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return what makes the same step on another stream, one of cuda.core."""
        if self.dispatcher is None:
            return self.function, (*self.args[:3], stream)
        # Not another subscript: numba keeps those, and the streams in them, for 128 configurations. Nor copy.copy,
        # which pickles: streams lose their owners then, and callbacks are refused.
        configured: Any = object.__new__(type(self.function))
        vars(configured).update(vars(self.function), stream=stream)
        return configured, self.args


@dataclass(frozen=True)
class Obstacle:
    """A call that cannot be in a graph.

    Attributes
    ----------
    call : str
        What the user called.
    what : str
        Why it cannot be in a graph.
    where : str
        The line of the user's code.
    steps_before : int
        How many steps came before it; None where its position does not matter.
    """

    call: str
    what: str
    where: str
    steps_before: int | None


class Watch:
    """Follows this thread's calls of numba-cuda in a ``with`` block. Every hook is undone at its end.

    Parameters
    ----------
    before_step : callable
        Called with the arrays of a step before it is made. What it raises is kept in `problem`, so that the user's code
        cannot catch it.
    filename : str, optional
        What the user's code is called; lines of other files are given with the file's name.

    Attributes
    ----------
    steps : list of Step
        What was launched, copied and filled, in order.
    obstacles : list of Obstacle
        What no graph can hold.
    elsewhere : int
        Launches of other threads.
    problem : Exception or None
        The first that `before_step` raised.
    """

    def __init__(self, before_step: Callable[[tuple[tuple[str, Any], ...]], None], filename: str | None = None) -> None:
        self.steps: list[Step] = []
        self.obstacles: list[Obstacle] = []
        self.elsewhere = 0
        self.problem: Exception | None = None
        self._before_step = before_step
        self._filename = filename
        self._thread = threading.get_ident()
        self._inside = 0
        self._launched: Any = None
        self._patches = Patches()
        self._streams: list[Any] = []
        self._enabled = False

    def __enter__(self) -> Watch:
        dispatcher, numbas_driver = numba_module("dispatcher"), numba_module("cudadrv.driver")
        for owner, names in ((dispatcher.CUDADispatcher, ("call",)), (numbas_driver, (*_HOST_COPIES, *_DEVICE_WORK)),
                             (numbas_driver.Context, (*_ALLOCATIONS, "synchronize", "create_stream")),
                             (numbas_driver.Stream, ("synchronize",)), (numbas_driver.Event, ("synchronize",))):
            require_names(owner, names)
        try:
            # Attributes are replaced, and no code is lent: a recording that runs meanwhile has lent its own.
            hook = self._patches.hook
            hook(dispatcher.CUDADispatcher, "call", self._around_call, lend=False)
            for name in _ALLOCATIONS:
                hook(numbas_driver.Context, name, self._forbidding("allocates memory", name), lend=False)
            for name in _HOST_COPIES:
                hook(numbas_driver, name, self._forbidding("copies between host and device", name), lend=False)
            for name in _DEVICE_WORK:
                hook(numbas_driver, name, self._around_device_work(name), lend=False)
            for owner in (numbas_driver.Context, numbas_driver.Stream, numbas_driver.Event):
                hook(owner, "synchronize", self._forbidding("waits for the device", "synchronize"), lend=False)
            hook(numbas_driver.Context, "create_stream", self._keeping_streams, lend=False)
            self._enabled = True
        except BaseException:
            self._patches.undo()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._enabled = False
        self._patches.undo()
        if error is not None:
            clean(error, frozenset(_our_codes))

    def _around_call(self, original: Any) -> Any:
        def call(dispatcher: Any, args: Any, launch_config: Any) -> Any:
            if not self._mine():
                self.elsewhere += self._enabled
                return original(dispatcher, args, launch_config)
            if self._inside:
                if launch_config is not self._launched:  # otherwise a hop of the same launch
                    name, where = _name(dispatcher), self._where(sys._getframe(1))[1]
                    self.obstacles.append(Obstacle(name, "is launched by a callback of another launch", where, None))
                return original(dispatcher, args, launch_config)
            self._launched = launch_config
            step = self._launch(dispatcher, args, launch_config)
            return self._do(step, original, dispatcher, args, launch_config)

        return _ours(call)

    def _around_device_work(self, name: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def work(dst: Any, second: Any, size: Any, stream: Any = 0) -> Any:
                if not self._mine() or self._inside:
                    return original(dst, second, size, stream)
                arrays = (("dst", dst), *((("src", second),) if name == "device_to_device" else ()))
                step = Step(name, self._where(sys._getframe(1))[1], original, (dst, second, size, stream),
                            stream_handle(stream), tuple((f"{what} of {name}", each) for what, each in arrays))
                return self._do(step, original, dst, second, size, stream)

            return _ours(work)

        return make

    def _forbidding(self, what: str, name: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def forbidden(*args: Any, **kwargs: Any) -> Any:
                if self._mine() and not self._inside:
                    call, where = self._where(sys._getframe(1))
                    self.obstacles.append(Obstacle(call or name, what, where, len(self.steps)))
                return original(*args, **kwargs)

            return _ours(forbidden)

        return make

    def _keeping_streams(self, original: Any) -> Any:
        """Keep created streams alive: repeated launches need them, and a launch configuration holds only a handle."""

        def create_stream(context: Any) -> Any:
            stream = original(context)
            if self._enabled:
                self._streams.append(stream)
            return stream

        return _ours(create_stream)

    def _mine(self) -> bool:
        return self._enabled and threading.get_ident() == self._thread

    def _do(self, step: Step, original: Callable[..., Any], *args: Any) -> Any:
        self._inside += 1
        try:
            # Code that is refused anyway is not touched: copying would break a capture of the user's.
            if self.problem is None and all(each.steps_before is not None for each in self.obstacles):
                self._before_step(step.arrays)
        except Exception as problem:
            self.problem = problem
        finally:
            self._inside -= 1
        self._inside += 1
        try:
            result = original(*args)
        finally:
            self._inside -= 1
        self.steps.append(step)
        return result

    def _launch(self, dispatcher: Any, args: Any, launch_config: Any) -> Step:
        name = _name(dispatcher)
        names = dispatcher.py_func.__code__.co_varnames
        where = self._where(sys._getframe(2))[1]
        arrays: list[tuple[str, Any]] = []
        for place, value in enumerate(args):
            for each in leaves(value):
                region = region_of(each)
                if region is None:
                    continue
                what = f"{names[place] if place < len(names) else place + 1} of {name}"
                if region.on_device:
                    arrays.append((what, each))
                else:
                    self.obstacles.append(Obstacle(name, f"gets a host array ({what}), which numba copies to the "
                                                         "device and back", where, None))
        if dispatcher.targetoptions.get("debug"):
            self.obstacles.append(Obstacle(name, "was compiled with debug=True, and so reads its error code back after "
                                                 "every launch", where, None))
        stream = stream_handle(launch_config.stream)
        if stream and _is_capturing(stream):
            self.obstacles.append(Obstacle(name, "goes into a graph that the code captures itself", where, None))
        return Step(name, where, launch_config, tuple(args), stream, tuple(arrays), dispatcher)

    def _where(self, frame: FrameType | None) -> tuple[str, str]:
        """Return the library function that the user called, if any, and the line of the user's code."""
        call = ""
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
            if frame.f_code not in _our_codes and not frame.f_code.co_name.startswith("_require"):
                call = frame.f_code.co_name
            frame = frame.f_back
        if frame is None:
            return call, "an unknown line"
        name = frame.f_code.co_filename
        return call, f"line {frame.f_lineno}" + ("" if name == self._filename else f" of {name.rpartition('/')[2]}")


_our_codes: set[Any] = {Watch._do.__code__}


def _ours(hook: Any) -> Any:
    """Note a hook's code: it is taken out of the user's tracebacks, and is no function that the user called."""
    _our_codes.add(hook.__code__)
    return hook


def _name(dispatcher: Any) -> str:
    return str(getattr(dispatcher.py_func, "__name__", "?"))


def _is_capturing(stream: int) -> bool:
    error, status = driver().cuStreamIsCapturing(driver().CUstream(stream))[:2]
    return not error and bool(int(status))
