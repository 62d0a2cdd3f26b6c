"""What the host does in calls of the driver and the runtime that are no recorded launches."""

from __future__ import annotations

from kernelscope.recording.api import kind_of

#: The states of the host in such calls.
CALL_STATES = ("graph", "memset", "copy", "memory", "wait", "call")
#: Those of kinds of functions that are not named like the state.
_STATE_OF_KIND = {"launch": "call", "graph launch": "graph", "capture": "graph"}


def call_state(function: str) -> str:
    """Return what the host does in a call of a function, one of `CALL_STATES`."""
    kind = kind_of(function)
    return _STATE_OF_KIND.get(kind, kind)
