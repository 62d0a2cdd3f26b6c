"""`kernelscope.inspect`: the inspector of a live kernel, of a recording, or of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope import live
from kernelscope.analysis.inspection import Kernel, inspect_kernels
from kernelscope.errors import KernelScopeError
from kernelscope.recording.io import load
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.widgets.inspector import InspectorWidget, RecordingSource
from kernelscope.widgets.inspector_facts import specialization_keys

# What an inspector does not show, and what a session can have much of.
_NOT_SHOWN = ("activities", "api_calls", "ranges", "health")


def inspect(what: Any, kernel: str | None = None) -> InspectorWidget:
    """Show what ``@cuda.jit`` made of kernels: specializations, resources, code, compile times, caches and reasons.

    A notebook shows a live view, and once saved a static one; a terminal gets text. What a live kernel compiled is read
    from its caches: nothing is compiled, loaded or launched, and it updates after each cell.

    Parameters
    ----------
    what : kernel, Recording, str or Path
        A function that ``@cuda.jit`` made, a recording, or the path of a ``.kscope`` file.
    kernel : str, optional
        The kernel of a recording to begin with: its qualified name, or the last part of it.

    Raises
    ------
    TypeError
        `what` is none of these.
    UnknownKernelError
        The recording has no such kernel; the message lists those that it has.
    RecordingFileError
        The file cannot be read.
    """
    if isinstance(what, Recording):
        return InspectorWidget(RecordingSource(what), kernel)
    if isinstance(what, (str, Path)):
        return InspectorWidget(RecordingSource(load(what)), kernel)
    if not live.is_kernel(what):
        raise TypeError(f"{live.described(what)} cannot be inspected: give a kernel made by @cuda.jit, a Recording, or "
                        "the path of a .kscope file")
    return InspectorWidget(LiveSource(lambda: what, session_recordings), kernel)


class SessionSource:
    """What a session has recorded so far as an inspector's source, which new recordings are added to.

    Parameters
    ----------
    recordings : callable
        Returns the recordings of this session so far.
    """

    is_live = True
    can_compile = False

    def __init__(self, recordings: Callable[[], Sequence[Recording]]) -> None:
        self._recordings = recordings
        self._seen: object = None
        self._merged: list[Recording] = []
        self._whole: Recording | None = None
        self.recording: Recording
        self.refresh()

    def kernels(self) -> list[Kernel]:
        """Return all kernels of the recordings."""
        return inspect_kernels(self.recording)

    def refresh(self) -> bool:
        """Take what is new, and return whether anything is."""
        recordings = list(self._recordings())
        seen = self._state(recordings)
        if seen == self._seen:
            return False
        self.recording = self._take(recordings)
        self._seen = seen
        return True

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        """Refuse: a recording holds no kernel."""
        raise KernelScopeError("recordings hold no kernel that could be compiled: inspect the kernel itself")

    def _state(self, recordings: list[Recording]) -> object:
        return [id(each) for each in recordings]

    def _take(self, recordings: list[Recording]) -> Recording:
        return self._session(recordings) or Recording({}, {})

    def _session(self, recordings: list[Recording]) -> Recording | None:
        """The recordings as one, without what is not shown; those that were merged before are not merged again."""
        known = len(self._merged)
        if any(a is not b for a, b in zip(self._merged, recordings, strict=False)) or known > len(recordings):
            known, self._whole = 0, None
        new = [_slim(each) for each in recordings[known:]]
        self._merged = recordings
        if new:
            parts = new if self._whole is None else [self._whole, *new]
            self._whole = parts[0] if len(parts) == 1 else merge(parts, name="")
        return self._whole


class LiveSource(SessionSource):
    """A kernel of this process, with what the session's recordings know of it, as an inspector's source.

    Parameters
    ----------
    find : callable
        Returns the kernel: called again after each cell, since its name may mean another one by then.
    recordings : callable
        Returns the recordings of this session so far.
    """

    def __init__(self, find: Callable[[], Any], recordings: Callable[[], Sequence[Recording]]) -> None:
        self._find = find
        super().__init__(recordings)

    @property
    def can_compile(self) -> bool:
        """Whether copies with line information can be compiled of the kernel."""
        return live.can_compile_copies(self._kernel)

    def kernels(self) -> list[Kernel]:
        """Return the kernel, what it made of itself, and what was recorded under its name before."""
        own = {_name(row) for row in self._own[1].rows("dispatchers")}
        rows = self.recording.rows("dispatchers")
        return [each for each in inspect_kernels(self.recording) if _name(rows[each.dispatcher_id]) in own]

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        """Return the code of a copy, compiled with line information: `kernelscope.live.with_lineinfo`."""
        kernel, snapshot = self._own
        own = [at for at, each in specialization_keys(snapshot).items() if each == key]
        if not own:
            raise KernelScopeError("only a recording has this specialization: the kernel of now has no such one")
        return live.with_lineinfo(kernel, own[0])

    def _state(self, recordings: list[Recording]) -> object:
        self._kernel = self._find()
        return id(self._kernel), live.state(self._kernel), super()._state(recordings)

    def _take(self, recordings: list[Recording]) -> Recording:
        snapshot = live.snapshot(self._kernel)
        # A copy is compiled in another thread, where JupyterLab lets pages ask in one: both are set at once.
        self._own = self._kernel, snapshot
        # Times of another kind of driver do not compare.
        session = self._session([each for each in recordings if each.notice == snapshot.notice])
        # The recordings first: they know where a specialization came from.
        return snapshot if session is None else merge([session, snapshot], name="")


def _slim(recording: Recording) -> Recording:
    """The recording without the tables that no inspector shows."""
    tables = {name: recording.arrow(name) for name in TABLES if name not in _NOT_SHOWN}
    return Recording(tables, recording.metadata)


def _name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["framework"], row["module"], row["name"]


def session_recordings() -> list[Recording]:
    """Return what this shell's magics have recorded so far; nothing where they are not loaded."""
    from IPython.core.getipython import get_ipython

    found = getattr(getattr(get_ipython(), "_kernelscope_magics", None), "recordings", [])
    return list(found)
