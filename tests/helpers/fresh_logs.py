"""Logs of the recorder that a recording of now would have: ``KERNELSCOPE_RECORDER`` says which."""

from __future__ import annotations

from kernelscope import native
from kernelscope.clock import now
from kernelscope.native.log import BACKENDS, LaunchLog, make_log

#: The recorders that this Python has.
BACKENDS_HERE = [name for name in BACKENDS if name == "python" or native.core is not None]


def new_log(detail: str = "phases") -> LaunchLog:
    return make_log(None, "grow", None, detail, now, None)
