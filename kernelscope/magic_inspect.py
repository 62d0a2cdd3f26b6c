"""``%kernelscope inspect [NAME]``: what NAME means, and the inspector of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope import live
from kernelscope.analysis.find_kernels import listed_kernels, names
from kernelscope.errors import UnknownKernelError
from kernelscope.inspector import LiveSource, SessionSource, inspect
from kernelscope.recording.model import Recording
from kernelscope.suggestions import did_you_mean
from kernelscope.widgets.inspector import InspectorWidget

if TYPE_CHECKING:
    from kernelscope.widgets.inspector import Source

_MOST_NAMES = 12


def inspector_of(
    shell: Any, recordings: Callable[[], Sequence[Recording]], wanted: str | None
) -> InspectorWidget:
    """Return the inspector of what the user named.

    Parameters
    ----------
    shell : InteractiveShell
        In whose namespace names are looked up.
    recordings : callable
        Returns the session's recordings.
    wanted : str, optional
        An expression that is a kernel or a recording, or the name of a recorded kernel, qualified or its last part.
        Without it, all recorded kernels.

    Raises
    ------
    UnknownKernelError
        It is neither; the message lists what there is.
    """
    if wanted is None:
        if not recordings():
            raise UnknownKernelError(f"there is nothing to inspect: no cell was recorded yet{_live_names(shell)}")
        return InspectorWidget(SessionSource(recordings))
    found, problem = _value(shell, wanted)
    if live.is_kernel(found):
        return InspectorWidget(_source(shell, recordings, wanted, found))
    if isinstance(found, Recording):
        return inspect(found)
    source = SessionSource(recordings)
    try:
        return InspectorWidget(source, wanted)
    except UnknownKernelError:
        what = problem or f"{wanted} is {live.described(found).rstrip(',')}, no kernel"
        recorded = source.kernels()
        near = did_you_mean(wanted, [*names(recorded), *live_kernels(shell)])
        raise UnknownKernelError(f"no recorded kernel {wanted!r} ({what}); known: {listed_kernels(recorded)}"
                                 f"{_live_names(shell)}{near}") from None


def _source(shell: Any, recordings: Callable[[], Sequence[Recording]], wanted: str, found: Any) -> Source:
    """The kernel as a source; where it was given by its name, whatever kernel that name means later."""

    def find() -> Any:
        nonlocal found
        now = shell.user_ns.get(wanted) if wanted.isidentifier() else None
        # Where the name is gone or means something else, what it meant last is shown.
        found = now if live.is_kernel(now) else found
        return found

    return LiveSource(find, recordings)


def _value(shell: Any, expression: str) -> tuple[Any, str]:
    """What an expression of the user's namespace is, or None and why it is nothing."""
    try:
        return shell.ev(expression), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def live_kernels(shell: Any) -> list[str]:
    """Return the names of the user's variables that are kernels."""
    return [name for name, value in list(shell.user_ns.items()) if not name.startswith("_") and live.is_kernel(value)]


def _live_names(shell: Any) -> str:
    known = live_kernels(shell)
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"; kernels in the notebook: {', '.join(known[:_MOST_NAMES])}{more}" if known else ""
