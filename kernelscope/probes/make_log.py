"""How launches are to be kept, as a recorder is asked for it, and the log that keeps them so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kernelscope import _native
from kernelscope.clock import Clock
from kernelscope.errors import KernelScopeError
from kernelscope.probes.bounded_log import BoundedLog
from kernelscope.probes.launch_log import LaunchLog, PythonLog

BACKENDS = ("native", "python")
MODES = ("grow", "ring", "stop")
#: Where to keep what a killed process leaves: nowhere, in the default folder (True), or in this one.
Journal = bool | str | Path | None
#: How many launches the modes ``ring`` and ``stop`` keep, where it is not said.
CAPACITY = 1_000_000
#: Says what a recorder without a backend takes: ``native`` or ``python``.
VARIABLE = "KERNELSCOPE_RECORDER"


@dataclass(frozen=True)
class Keeping:
    """How a recorder is asked to keep launches.

    Attributes
    ----------
    backend : str or None
        ``native`` or ``python``; None for the native one where it is there.
    mode : str
        ``grow`` keeps every launch, ``ring`` the newest `capacity`, ``stop`` the first `capacity`.
    capacity : int or None
        None for `CAPACITY`; not for the mode ``grow``.
    journal : None, True, str or Path
        Where to keep what a killed process leaves: in the default folder, or in this one.

    Raises
    ------
    ValueError
        One of these is nothing that there is.
    """

    backend: str | None = None
    mode: str = "grow"
    capacity: int | None = None
    journal: Journal = None

    def __post_init__(self) -> None:
        """Check it, and fill in the capacity."""
        if self.backend is not None and self.backend not in BACKENDS:
            raise ValueError(f"backend {self.backend!r} is not one of {', '.join(BACKENDS)}")
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")
        if self.mode == "grow":
            if self.capacity is not None:
                raise ValueError(f"capacity {self.capacity!r} is for mode 'ring' or 'stop': mode 'grow' keeps all")
        elif self.capacity is None:
            object.__setattr__(self, "capacity", CAPACITY)
        elif type(self.capacity) is not int or self.capacity < 1:
            raise ValueError(f"capacity {self.capacity!r} is no number of launches: it takes an int of 1 or more")
        if not (self.journal is None or self.journal is True or isinstance(self.journal, str | Path)):
            raise ValueError(f"journal {self.journal!r} is none of None, True and a folder's path")

    def differences(self, held: LaunchLog, journal: Journal) -> list[str]:
        """Return what was asked for and is otherwise in the recording around this one: a sentence each."""
        told: list[str] = []
        if self.backend is not None and self.backend != held.backend:
            told.append(f"recorded by the {held.backend} recorder, as the recording around it, not {self.backend!r}")
        if self.mode != "grow" and (self.mode, self.capacity) != (held.mode, held.capacity):
            told.append(f"launches were kept in {_words(held.mode, held.capacity)}, as in the recording around it, "
                        f"not in {_words(self.mode, self.capacity)}")
        if self.journal is not None and self.journal != journal:
            there = "no journal" if journal is None else "the journal"
            told.append(f"launches went to {there} of the recording around it, not to one of their own")
        return told


def make_log(backend: str | None, mode: str, capacity: int | None, detail: str, clock: Clock,
             path: Path | None = None) -> LaunchLog:
    """Return the log of a recording session: see `Keeping` for what it is asked for.

    The native recorder keeps launches in a new file where it is given a `path`.

    Raises
    ------
    OSError
        The file cannot be made.
    KernelScopeError
        The native recorder is asked for, by `backend` or by the environment, and is not there; or the environment asks
        for what there is not.
    """
    if chosen(backend) == "native":
        if _native.core is None:
            raise KernelScopeError(f"the native recorder cannot be used: {_native.why_missing()}; "
                                   "or record with backend='python'")
        from kernelscope.probes.native_log import NativeLog

        return NativeLog(clock, detail, mode, capacity, path)
    if mode == "grow" or capacity is None:
        return PythonLog(clock, detail)
    return BoundedLog(clock, detail, mode, capacity)


def chosen(backend: str | None) -> str:
    """Return which recorder records: as asked for, else as the environment says, else the native one if it is there.

    Raises
    ------
    KernelScopeError
        The environment asks for what there is not.
    """
    if backend is not None:
        return backend
    wanted = os.environ.get(VARIABLE)
    if wanted and wanted not in BACKENDS:
        raise KernelScopeError(f"the environment's {VARIABLE}={wanted!r} is not one of {', '.join(BACKENDS)}")
    return wanted or ("python" if _native.core is None else "native")


def _words(mode: str, capacity: int | None) -> str:
    return f"mode {mode!r}" + ("" if capacity is None else f" with capacity {capacity:,}")
