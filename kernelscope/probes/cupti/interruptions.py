"""CUPTI's request for a buffer, its other callbacks, and the Ctrl-C that comes in the middle of them.

CUPTI asks for buffers in the middle of the user's launches. A signal that came while the launch was in C is handled by
Python at the first chance, which is that callback; ctypes cannot raise through CUPTI, and would print the exception and
forget it. So while CUPTI records, what comes out of the callback is raised again in the main thread.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kernelscope.probes.base import from_signal_handler


def asking(lend: Callable[[], int], lent: dict[int, bool], size_bytes: int) -> Callable[..., None]:
    """Return the function that answers CUPTI's request for a buffer.

    Parameters
    ----------
    lend : callable
        Returns the address of a buffer, 0 for none.
    lent : dict of int to bool
        The addresses that CUPTI has.
    size_bytes : int
        How large the buffers are.
    """
    def ask(buffer: Any, size: Any, most: Any) -> None:
        address = lend()
        # From here on nothing is called, so that what CUPTI has and `lent` are the same in any case.
        if address:
            lent[address] = True
            buffer[0] = address
            size[0] = size_bytes
        else:
            buffer[0] = None
            size[0] = 0
        most[0] = 0

    guard(ask)
    return ask


class Interruptions:
    """While it is on, a Ctrl-C that hits the callback reaches the user's code a moment later."""

    def __init__(self) -> None:
        self._before: Any = None

    def begin(self) -> None:
        """Look at the exceptions that Python cannot raise."""
        self._before = sys.unraisablehook
        sys.unraisablehook = self._seen

    def end(self) -> None:
        """Look no more; where somebody has put another hook over this one, it hands everything on."""
        if sys.unraisablehook == self._seen:
            sys.unraisablehook = self._before

    def _seen(self, unraisable: Any) -> None:
        entry = unraisable.exc_traceback
        if entry is None or entry.tb_frame.f_code not in _callback_codes:
            self._before(unraisable)
            return
        again = _callback_codes[entry.tb_frame.f_code]
        try:
            if again is not None and not isinstance(unraisable.exc_value, Exception):
                again(entry.tb_frame.f_locals)  # C waits for it still
        finally:
            if not raise_again(unraisable.exc_value):
                self._before(unraisable)


def guard(callback: Callable[..., Any], again: Callable[[Mapping[str, Any]], None] | None = None) -> None:
    """Have an interruption raised again that comes out of a callback, which C calls.

    Parameters
    ----------
    callback : function
        What C calls, in the end.
    again : callable, optional
        Does what the callback was to do, given its arguments by name: a signal that came while C ran interrupts the
        callback's first instruction, where no ``try`` of its own can help.
    """
    _callback_codes[getattr(callback, "__code__")] = again  # noqa: B009 - pyright knows of no code of a Callable


def raise_again(error: BaseException) -> bool:
    """Raise an interruption once more in the main thread, when it is out of the callback; return whether it is one."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt):
        # By another thread, which runs when this one is out of the callback: here it would be lost once more.
        _thread.start_new_thread(_thread.interrupt_main, ())
        return True
    if from_signal_handler(error):  # of an alarm, say
        _thread.start_new_thread(_raise, (threading.get_ident(), type(error)))
        return True
    return False


def _raise(ident: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))


_callback_codes: dict[Any, Callable[[Mapping[str, Any]], None] | None] = {}
