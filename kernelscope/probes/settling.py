"""What a launch hook does with an exception: its own is kept from the user, and the launch is written all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kernelscope.probes.base import from_signal_handler
from kernelscope.probes.launch_log import ThreadState
from kernelscope.probes.sink import Sink

Found = TypeVar("Found")

# How often writing a launch is begun again after the user's signal handler raised in the middle of it.
_TRIES = 5


def settle(probe: str, sink: Sink, state: ThreadState, ended: bool, error: BaseException,
           write: Callable[[], None]) -> bool:
    """Deal with an exception in a launch's hook; return whether it was ours and the launch itself is fine.

    Parameters
    ----------
    probe : str
        The name that errors and dropped launches are counted under.
    sink : Sink
        Where they are counted.
    state : ThreadState
        The calling thread's; its `launch_config` is None once the launch is written.
    ended : bool
        Whether the framework's own function had returned.
    error : BaseException
        What was raised in the hook.
    write : callable
        Writes the launch the slow way.
    """
    # Ours are raised by the hook's own lookups and its look for room. What has a deeper frame was raised by a
    # signal handler, and what is of another type by a thread that interrupts this one: the user's, both.
    alone = error.__traceback__ is None or error.__traceback__.tb_next is None
    ours = ended and alone and isinstance(error, (KeyError, BufferError))
    if state.launch_config is None:
        return False  # it was written already
    users: BaseException | None = None
    for _ in range(_TRIES):
        try:
            write()
        except Exception as problem:
            if state.launch_config is None:  # written, and then interrupted
                users = problem
            elif from_signal_handler(problem):
                users = problem
                continue
            else:  # our own: the user's launch must not notice
                sink.swallow(probe, problem)
                sink.dropped[probe] += 1
        except BaseException:
            if state.launch_config is not None:
                sink.dropped[probe] += 1
            state.launch_config = None
            raise
        break
    else:
        sink.dropped[probe] += 1
    state.launch_config = None
    if users is not None:
        raise users from None
    return ours


def looked_up(probe: str, sink: Sink, look: Callable[[], Found]) -> tuple[Found | None, BaseException | None]:
    """Look something up in the middle of a user's launch; what goes wrong with it is ours, and is counted.

    Parameters
    ----------
    probe : str
        The name that errors and dropped launches are counted under.
    sink : Sink
        Where they are counted.
    look : callable
        Looks up; it is called again where a signal handler raised in the middle of it, after a Ctrl-C once.

    Returns
    -------
    tuple of object or None and BaseException or None
        What was found, None where nothing could be; and what the user's signal handler raised meanwhile.
    """
    users: BaseException | None = None
    for _ in range(_TRIES):
        try:
            return look(), users
        except Exception as problem:
            if not from_signal_handler(problem):
                sink.swallow(probe, problem)
                break
            users = problem
        except BaseException as problem:  # a Ctrl-C; with a second one the user wants to get out, whatever it waits for
            is_second, users = users is not None, problem
            if is_second:
                break
    sink.dropped[probe] += 1
    return None, users


def ids(probe: str, sink: Sink, look: Callable[[], tuple[int, int]]) -> tuple[Any, ...] | None:
    """Look up two ids for a native hook whose launch has ended; see `looked_up`.

    Returns
    -------
    tuple or None
        The ids, and as a third value what the user's signal handler raised meanwhile; None where they cannot be had.

    Raises
    ------
    BaseException
        What the user's signal handler raised, where the ids cannot be had.
    """
    found, users = looked_up(probe, sink, look)
    if users is None:
        return found
    if found is None:
        raise users from None
    return *found, users
