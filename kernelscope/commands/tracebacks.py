"""Removal of our frames from errors of a recorded cell or script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any


class TracebackFilter:
    """Takes the hooks' frames out of errors before IPython shows them, while a recorded cell runs.

    It replaces ``shell.showtraceback``: the one method that every way of showing an error goes through,
    before anything (``sys.last_traceback``, a handler for some exceptions, history) keeps the
    traceback. If somebody else replaces it meanwhile, ours stays behind theirs as a pass-through.

    Parameters
    ----------
    shell : InteractiveShell
        Where errors are shown.
    before : callable
        Called with each error before it is shown.
    """

    def __init__(self, shell: Any, before: Callable[[BaseException], None]) -> None:
        self._shell = shell
        self._before = before
        self._shown: BaseException | None = None
        self._installed: Callable[..., None] | None = None
        self._covered: Any = None

    def install(self) -> None:
        """Begin, if it has not begun."""
        if self._installed is not None:
            return
        self._covered = vars(self._shell).get("showtraceback")
        original = self._shell.showtraceback

        def showtraceback(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
            if self._installed is showtraceback and error is not None:
                if error is self._shown:
                    return
                hide_frames(error)
                self._before(error)
            original(exc_tuple, *args, **kwargs)

        self._installed = showtraceback
        self._shell.showtraceback = showtraceback

    def undo(self) -> None:
        """End, and restore the shell's method unless somebody else has replaced it meanwhile."""
        installed, self._installed, self._shown = self._installed, None, None
        if installed is not None and vars(self._shell).get("showtraceback") is installed:
            if self._covered is None:
                del self._shell.showtraceback
            else:
                self._shell.showtraceback = self._covered
        self._covered = None

    def mark_shown(self, error: BaseException) -> None:
        """Say that this error was shown: raised again by the cell around, it is not shown a second time."""
        self._shown = error


def hide_frames(error: BaseException) -> None:
    """Take the hooks' frames out of an error's traceback and out of those that it is chained to."""
    base = sys.modules.get("kernelscope.probes.base")
    if base is None or not base.hook_codes:
        return
    hidden = frozenset(base.hook_codes)
    for each in _chained(error):
        traceback = base.without_frames(each.__traceback__, hidden)
        if traceback is not each.__traceback__:
            each.__traceback__ = traceback


def _chained(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes and contexts, and the members of groups, once each."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
