"""The log of the driver's calls, which only CUPTI sees, with their lines: of torch, CuPy and others too."""

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
#: A call as `kernelscope.native.CallSites` hands it out.
CALL = np.dtype([("start_ns", np.int64), ("end_ns", np.int64), ("correlation_id", np.uint32), ("ident", np.uint32),
                 ("site", np.int32), ("result", np.int32), ("domain", np.uint32), ("function", np.uint32)])


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


class CallLog:
    """Has the driver's calls logged, from `begin` until `end`.

    Parameters
    ----------
    calls : kernelscope.native.CallSites
        The log, which CUPTI writes to.
    ring : kernelscope.native.Ring
        Where hooks write the launches that have their lines from them.
    resolver : Resolver, optional
        Gives what is new its id; without it calls have no lines.
    """

    def __init__(self, calls: core.CallSites, ring: core.Ring, resolver: Resolver | None) -> None:
        self._calls = calls
        self._ring = ring
        self._resolver = resolver if core.READS_FRAMES else None
        self._backward = BackwardWatch(self._caller, self._is_elsewhere)
        self._sites: list[tuple[np.ndarray, np.ndarray]] = []
        self._is_logging = False
        self._ended: list[np.ndarray] = []
        #: What is added to correlation ids: see `Tracing.resume`.
        self.first_id = 0

    @property
    def has_lines(self) -> bool:
        """Whether calls have lines."""
        return self._resolver is not None

    def begin(self) -> None:
        """Log from now on; what was logged until an earlier `end` stays."""
        self._calls.clear()
        self._is_logging = True
        if self._resolver is None:
            self._calls.start(None, None, self._ring)
            return
        self._calls.start(self._site, self._path if self._resolver.has_stacks else None, self._ring)
        # None of `threading`'s: users who count or join those, or set a profiler for them, do not meet it.
        _thread.start_new_thread(_serve, (self._calls, self._site, self._path))
        self._backward.begin()

    def end(self) -> None:
        """Log no more; `take` hands out the rest."""
        self._backward.end()
        if self._is_logging:
            self._calls.stop()
            self._ended.append(np.frombuffer(self._calls.take(), CALL))
            self._is_logging = False
            self._calls.clear()

    def take(self) -> np.ndarray:
        """Return the calls that ended since this was called last, in the order of their ends by thread: see `CALL`."""
        parts, self._ended = self._ended, []
        if self._is_logging:
            parts.append(np.frombuffer(self._calls.take(), CALL))
        found = np.concatenate([np.empty(0, CALL), *parts])
        with_site = found[found["site"] >= 0]
        if len(with_site):
            self._sites.append((with_site["correlation_id"].astype(np.int64) + self.first_id,
                                with_site["site"].astype(np.int64)))
        return found

    def sites(self) -> tuple[np.ndarray, np.ndarray]:
        """Return correlation ids and sites (int64) of the taken calls that have a site, sorted by correlation id."""
        nothing = np.empty(0, np.int64)
        ids, sites = (np.concatenate([nothing, *parts]) for parts in (
            [ids for ids, _ in self._sites], [sites for _, sites in self._sites]))
        order = np.argsort(ids, kind="stable")
        return ids[order], sites[order]

    @property
    def unanswered(self) -> int:
        """How many calls have no line because Python was busy elsewhere when their code was new."""
        return self._calls.unanswered

    @property
    def lost(self) -> int:
        """How many calls were lost for want of memory."""
        return self._calls.lost

    def _site(self, code: CodeType, offset: int) -> int:
        if code.co_name == "_bootstrap" and code.co_filename == threading.__file__:
            return NO_LINE  # a thread that Python has started; of the others some work for another thread's line
        return self._asked("site_of_call", code, offset)

    def _path(self, frames: list[tuple[CodeType, int]]) -> int:
        return self._asked("site_of_path", frames)

    def _caller(self) -> int:
        return self._asked("site_of_caller")

    def _asked(self, what: str, *about: Any) -> int:
        """What the resolver answers; where it fails that is said in health, and the user's call goes on."""
        assert self._resolver is not None
        try:
            return getattr(self._resolver, what)(*about)
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
