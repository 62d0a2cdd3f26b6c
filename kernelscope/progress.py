"""Long work: how far it is, and how a Ctrl-C ends it."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

#: Told how far long work is: a fraction from 0 to 1, and what it is at.
Progress: TypeAlias = Callable[[float, str], object]

_Made = TypeVar("_Made")

#: Work that takes less shows no bar.
_QUIET_S = 1.0


def bar(what: str) -> Progress:
    """Return what shows a progress bar in a terminal or a notebook where tqdm is installed, and elsewhere nothing.

    Parameters
    ----------
    what : str
        What stands before it.
    """
    in_notebook = "ipykernel" in sys.modules and hasattr(_shell(), "kernel")
    if not in_notebook and (sys.stderr is None or not sys.stderr.isatty()):
        return _silent
    try:
        tqdm: Any = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _silent
    shown = tqdm(total=1.0, desc=what, delay=_QUIET_S, leave=False,
                      bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}")

    def tell(fraction: float, text: str) -> None:
        shown.set_postfix_str(text, refresh=False)
        shown.update(fraction - shown.n)
        if fraction >= 1:
            shown.close()

    return tell


def step_of(progress: Progress | None, step: int, steps: int) -> Progress | None:
    """Return what is told of one of several steps of equal length; None where nobody is."""
    return progress and (lambda fraction, text: progress((step + fraction) / steps, text))


def _silent(fraction: float, text: str) -> None:
    """Show nothing."""


def _shell() -> Any:
    """IPython's shell, if this runs in one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


class _GivenUpError(Exception):
    """Ends work whose result nobody waits for."""


class Work:
    """What work knows of who waits for it: `tell` at each step, look at `is_ending`, and say when it `is_finishing`."""

    def __init__(self) -> None:
        #: Whether to make do with what there is.
        self.is_ending = False
        #: Whether it is past the point where it can make do with what there is: a Ctrl-C gives it up.
        self.is_finishing = False
        self._is_given_up = False
        self._told: SimpleQueue[tuple[float, str] | None] = SimpleQueue()
        self._heard = threading.Event()

    def tell(self, fraction: float, text: str) -> None:
        """Say how far the work is, to who waits for it; returns when that was heard."""
        self.check()
        self._heard.clear()
        self._told.put((fraction, text))
        self._heard.wait()
        self.check()

    def check(self) -> None:
        """End the work here if it was given up."""
        if self._is_given_up:
            raise _GivenUpError

    def interrupt(self) -> None:
        """End it early, or give it up where that is not possible, or not the first time."""
        self._is_given_up = self.is_finishing or self.is_ending
        self.is_ending = True

    def wait(self, future: Future[Any], progress: Progress) -> KeyboardInterrupt | None:
        """Wait until the work is done, and pass on what it tells; return the Ctrl-C that ended it early."""
        interrupt = None
        while True:
            try:
                while (told := self._told.get()) is not None:
                    progress(*told)
                    self._heard.set()
                return interrupt
            except KeyboardInterrupt as error:
                interrupt = error
                self.interrupt()
                self._heard.set()
                if future.done():
                    return interrupt

    def run(self, work: Callable[[Work], _Made], future: Future[_Made]) -> None:
        """Do the work."""
        try:
            future.set_result(work(self))
        except BaseException as error:
            future.set_exception(error)
        self._told.put(None)

    def leave(self) -> None:
        """Wait no more."""
        self._is_given_up = True
        self._heard.set()


def carried_out(work: Callable[[Work], _Made], progress: Progress) -> tuple[_Made, KeyboardInterrupt | None]:
    """Do work in a thread and wait for it, so that a Ctrl-C finds nothing half done.

    The first Ctrl-C asks it to make do with what there is. Where it is past that, or at the second, it is given up: it
    ends at its next step and cleans up.

    Parameters
    ----------
    work : callable
        What to do.
    progress : callable
        Called here with what `work` tells.

    Returns
    -------
    tuple
        What `work` returned, and the Ctrl-C that made it end early, if any.

    Raises
    ------
    KeyboardInterrupt
        It was given up.
    """
    shared, future = Work(), Future[_Made]()
    try:
        thread = threading.Thread(target=shared.run, args=(work, future), name="kernelscope-work")
        thread.start()
        interrupt = shared.wait(future, progress)
        thread.join()
    finally:
        shared.leave()  # where a Ctrl-C came between these lines, nobody waits, and the thread ends by itself
    try:
        return future.result(), interrupt
    except _GivenUpError:
        raise interrupt or KeyboardInterrupt from None
