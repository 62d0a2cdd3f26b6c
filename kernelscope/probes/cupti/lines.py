"""The lines of the driver's calls that only CUPTI sees: kernels, copies and waits of torch, CuPy and others."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, Protocol

import numpy as np

from kernelscope.native import core
from kernelscope.native.log import NO_LINE, NOT_THE_USERS, LaunchLog, from_signal_handler
from kernelscope.probes.base import ImportHook, Patches
from kernelscope.schema import UNKNOWN

_AUTOGRAD = "torch.autograd.graph"
_ENGINE = "_engine_run_backward"
_ROW = np.dtype([("correlation_id", np.uint32), ("site", np.int32)])


class Resolver(Protocol):
    """Says whose code it is, and where: a recording's sink."""

    #: Keeps the launches that hooks see.
    log: LaunchLog
    #: Whether call paths are recorded.
    has_stacks: bool

    def site_of_call(self, code: CodeType, offset: int) -> int:
        """Return the id of an instruction that calls the driver, on whichever thread: see `LaunchLog.serve`."""
        ...

    def site_of_path(self, frames: list[tuple[CodeType, int]]) -> int:
        """Return the id of a call path on whichever thread: see `LaunchLog.serve`."""
        ...

    def site_of_caller(self) -> int:
        """Return the id of the line of the user's code that the calling thread is at, -1 for none."""
        ...

    def swallow(self, probe: str, error: BaseException) -> None:
        """Count an exception of our own, and say it in health."""
        ...


class CallLines:
    """Has the driver's calls logged with their lines, from `begin` until `end`.

    Parameters
    ----------
    calls : kernelscope.native.CallSites
        The log, which CUPTI writes to.
    resolver : Resolver
        Gives what is new its id.
    """

    def __init__(self, calls: core.CallSites, resolver: Resolver) -> None:
        self._calls = calls
        self._resolver = resolver
        self._backward = BackwardWatch(self._caller, self._is_elsewhere)
        self._is_logging = False
        self._ended: list[np.ndarray] = []

    def begin(self) -> None:
        """Log from now on; what was logged until an earlier `end` stays."""
        self._calls.clear()
        self._is_logging = True
        path = self._path if self._resolver.has_stacks else None
        self._calls.start(self._site, path, self._resolver.log.ring)
        # None of `threading`'s: users who count or join those, or set a profiler for them, do not meet it.
        _thread.start_new_thread(_serve, (self._calls, self._site, self._path))
        self._backward.begin()

    def end(self) -> None:
        """Log no more."""
        self._backward.end()
        if self._is_logging:
            self._calls.stop()
            self._ended.append(self._logged())
            self._is_logging = False
            self._calls.clear()

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return correlation ids and sites (int64) of the calls that have a site, sorted by correlation id."""
        found = np.concatenate([*self._ended, *([self._logged()] if self._is_logging else [])] or [np.empty(0, _ROW)])
        order = np.argsort(found["correlation_id"], kind="stable")
        return found["correlation_id"][order].astype(np.int64), found["site"][order].astype(np.int64)

    @property
    def unanswered(self) -> int:
        """How many calls have no line because Python was busy elsewhere when their code was new."""
        return self._calls.unanswered

    def _logged(self) -> np.ndarray:
        return np.frombuffer(self._calls.rows(), _ROW)

    def _site(self, code: CodeType, offset: int) -> int:
        if code.co_name == "_bootstrap" and code.co_filename == threading.__file__:
            return NO_LINE  # a thread that Python has started; of the others some work for another thread's line
        return self._asked(self._resolver.site_of_call, code, offset)

    def _path(self, frames: list[tuple[CodeType, int]]) -> int:
        return self._asked(self._resolver.site_of_path, frames)

    def _caller(self) -> int:
        return self._asked(self._resolver.site_of_caller)

    def _asked(self, ask: Callable[..., int], *about: Any) -> int:
        """What the resolver answers; where it fails that is said in health, and the user's call goes on."""
        try:
            return ask(*about)
        except Exception as problem:
            if from_signal_handler(problem):  # the user's
                raise
            self._resolver.swallow("cupti", problem)
            return NOT_THE_USERS

    def _is_elsewhere(self, site: int) -> None:
        self._calls.elsewhere = site


def _serve(calls: core.CallSites, site_of: Callable[[CodeType, int], int],
           path_of: Callable[[list[tuple[CodeType, int]]], int]) -> None:
    """Answer what threads without the interpreter's lock ask, until logging stops."""
    while (asked := calls.wait()) is not None:
        number, frames, is_path = asked
        site = NOT_THE_USERS
        try:
            site = path_of(frames) if is_path else site_of(*frames[0])
        finally:
            calls.answer(number, site)
        del asked, frames  # what is asked next may take long


class BackwardWatch:
    """Tells whose line torch's autograd works for: it runs backward passes on threads of its own.

    Parameters
    ----------
    here : callable
        Returns the id of the line that the calling thread is at, -1 for none.
    tell : callable
        Called with the id of the line that all passes under way were begun by, -1 where there is none, or several.
    """

    def __init__(self, here: Callable[[], int], tell: Callable[[int], None]) -> None:
        self._here = here
        self._tell = tell
        self._lock = threading.RLock()
        self._under_way: list[int] = []
        self._patches = Patches()
        self._hook = ImportHook(_AUTOGRAD, self._imported)

    def begin(self) -> None:
        """Watch autograd, from its import on where it is not imported yet."""
        self._hook.arm()

    def end(self) -> None:
        """Watch no more."""
        self._hook.disarm()
        self._patches.undo()

    def _imported(self, module: ModuleType) -> None:
        if callable(vars(module).get(_ENGINE)):  # else another torch: backward passes have no line
            self._patches.hook(module, _ENGINE, self._made)

    def _made(self, original: Any) -> Any:
        entered, left = self._entered, self._left

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            site = entered()
            try:
                return original(*args, **kwargs)
            finally:
                left(site)

        return run_backward

    def _entered(self) -> int:
        site = self._here()
        with self._lock:
            if site == UNKNOWN and self._under_way:
                site = self._under_way[-1]  # a pass within another one, which checkpoints begin
            self._under_way.append(site)
            self._say()
        return site

    def _left(self, site: int) -> None:
        with self._lock:
            self._under_way.remove(site)
            self._say()

    def _say(self) -> None:
        lines = set(self._under_way)
        self._tell(lines.pop() if len(lines) == 1 else UNKNOWN)
