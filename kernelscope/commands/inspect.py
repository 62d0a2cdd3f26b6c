"""``kernelscope.inspect``, its verb and its magic: kernels, their specializations and code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.commands.output import loaded, print_answer
from kernelscope.commands.verb import Verb, add_json, number
from kernelscope.errors import KernelScopeError, UnknownKernelError
from kernelscope.recorder import live
from kernelscope.recording.file import load
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable, shareable_code
from kernelscope.schema import TABLES
from kernelscope.suggestions import did_you_mean
from kernelscope.units import listed
from kernelscope.views.base import clean, clean_code
from kernelscope.views.inspector.answer import kernels_answer
from kernelscope.views.inspector.model import (
    FORMS,
    Kernel,
    Specialization,
    code_of,
    find_kernels,
    find_specialization,
    inspect_kernels,
    listed_kernels,
    names,
    sort_kernels,
)
from kernelscope.views.inspector.text import code_diff, comparison, inspection_text
from kernelscope.views.inspector.widget import InspectorWidget, RecordingSource
from kernelscope.views.keys import specialization_keys

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

_ABOUT = """\
Show the kernels of a .kscope file; of one kernel the specializations with their registers, memory, spills, launch
configurations, occupancy, disk cache and reasons; of one specialization everything, its compiles' passes included.

KERNEL is a kernel's qualified name, the last part of it, or its row. Specializations are numbered by kernel, from 1.
Code is in a file that was recorded with --code; SASS needs nvdisasm where it was not recorded.

--json prints one object of at most 32 kB: the verdict, and kernels with their specializations, uses and compiles."""


# What an inspector does not show, and what a session can have much of.
_NOT_SHOWN = ("activities", "api_calls", "ranges", "health")


def inspect(what: Any, kernel: str | None = None) -> InspectorWidget:
    """Show what ``@cuda.jit`` made of kernels: specializations, resources, code, compile times, caches and reasons.

    A notebook shows a live view, and once saved a static one; a terminal gets text. What a live kernel compiled is read
    from its caches: nothing is compiled, loaded or launched, and it updates after each cell.

    Parameters
    ----------
    what : callable, Recording, str or Path
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
        """Return the recordings as one, without what is not shown; earlier ones are merged once."""
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
        """Return whether copies with line information can be compiled of the kernel."""
        return live.can_compile_copies(self._kernel)

    def kernels(self) -> list[Kernel]:
        """Return the kernel, what it made of itself, and what was recorded under its name before."""
        own = {_name(row) for row in self._own[1].rows("dispatchers")}
        rows = self.recording.rows("dispatchers")
        return [each for each in inspect_kernels(self.recording) if _name(rows[each.dispatcher_id]) in own]

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        """Return the code of a copy, compiled with line information: `kernelscope.recorder.live.with_lineinfo`."""
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
    """Return the recording without the tables that no inspector shows."""
    tables = {name: recording.arrow(name) for name in TABLES if name not in _NOT_SHOWN}
    return Recording(tables, recording.metadata)


def _name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["framework"], row["module"], row["name"]


def session_recordings() -> list[Recording]:
    """Return what this shell's magics have recorded so far; nothing where they are not loaded."""
    from IPython.core.getipython import get_ipython

    found = getattr(getattr(get_ipython(), "_kernelscope_magics", None), "recordings", [])
    return list(found)


# ``kernelscope inspect``.

def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("kernel", metavar="KERNEL", nargs="?", help="a kernel, its name, or a recording")
        return
    parser.add_argument("file", metavar="FILE.kscope")
    parser.add_argument("kernel", metavar="KERNEL", nargs="?", help="which kernel")
    one = number("a number of a specialization, from 1")
    parser.add_argument("--specialization", metavar="N", type=one, help="everything of this specialization")
    parser.add_argument("--code", choices=FORMS,
                        help="print this code and nothing else; of specialization 1 unless N is given")
    parser.add_argument("--diff", metavar=("A", "B"), nargs=2, type=one,
                        help="how two specializations differ, with --code in their code too")
    parser.add_argument("--sort", choices=("launches", "compile", "registers"), default="launches",
                        help="what to sort kernels by, largest first (default: %(default)s)")
    add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the kernels, code or difference; return the exit code."""
    if arguments.json and (arguments.code or arguments.diff):
        arguments.parser.error("--json prints all kernels as JSON; leave out --code and --diff")
    if arguments.diff and arguments.specialization:
        arguments.parser.error("--diff names both specializations; --specialization has no place beside it")
    if arguments.kernel and not Path(arguments.file).exists() and Path(arguments.kernel).is_file():
        arguments.parser.error("FILE.kscope comes before the KERNEL; "
                               f"did you mean 'kernelscope inspect {arguments.kernel} {arguments.file}'?")
    recording = loaded(arguments.file)
    if arguments.diff:
        print(_difference(recording, arguments.kernel, arguments.diff, arguments.code))
    elif arguments.code:
        chosen = find_specialization(_found(recording, arguments.kernel), arguments.specialization or 1)
        text = _code(recording, *chosen, arguments.code)
        # A file gets the code as it is; a terminal would obey escape sequences that a recording may hold.
        sys.stdout.write(clean_code(text) if sys.stdout.isatty() else text)
    elif arguments.json:
        shared = shareable(recording)
        print_answer(kernels_answer(shared, _chosen(shared, arguments), arguments.limit))
    else:
        print(inspection_text(recording, arguments.kernel, arguments.specialization, None, arguments.sort))
    return 0


def _code(recording: Recording, kernel: Kernel, chosen: Specialization, kind: str) -> str:
    """Return one form of a specialization's code without paths, with a line break at its end."""
    found = code_of(recording, kernel, chosen, kind)
    if found.text is None:
        raise UnknownKernelError(clean(
            f"{kind} of specialization {chosen.number} cannot be shown: {found.note} {found.fix}".rstrip()))
    text = shareable_code(kind, found.text)
    return _readable_types(text) if kind == "types" else text.rstrip("\n") + "\n"


def _difference(recording: Recording, name: str | None, pair: list[int], kind: str | None) -> str:
    kernels = _found(recording, name)
    (kernel, left), (_, right) = (find_specialization(kernels, number) for number in pair)
    parts = [comparison(kernel, left, right)]
    if kind:
        texts = _code(recording, kernel, left, kind), _code(recording, kernel, right, kind)
        parts.append(code_diff(kernel, left, right, texts, kind) or f"no difference in {kind}")
    elif not parts[0]:
        parts.append("no difference in types and resources")
    return "\n".join(part for part in parts if part)


def _found(recording: Recording, name: str | None) -> list[Kernel]:
    kernels = inspect_kernels(recording)
    return kernels if name is None else find_kernels(kernels, name)


def _chosen(recording: Recording, arguments: argparse.Namespace) -> list[Kernel]:
    """Return the kernels that a line asks for, or one with a single specialization."""
    kernels = sort_kernels(_found(recording, arguments.kernel), arguments.sort)
    if arguments.specialization is None:
        return kernels
    kernel, chosen = find_specialization(kernels, arguments.specialization)
    return [replace(kernel, specializations=(chosen,))]


def _readable_types(text: str) -> str:
    """Return Numba's types, recorded as JSON, as lines ``12  x: array(float32, 1d, C) = arg(0, name=x)``.

    What was inlined from another file has that file's name and line.
    """
    try:
        rows = json.loads(text)
        lines = [f"{row.get('from') or row['line']:>5}  {row['name']}: {row['type']}"
                 + (f" = {row['expr']}" if row.get("expr") else "") for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text + "\n"
    return "\n".join(lines) + "\n"


# ``%kernelscope inspect [NAME]``.

_MOST_NAMES = 12


def inspector_of(shell: Any, recordings: Callable[[], Sequence[Recording]], wanted: str | None) -> InspectorWidget:
    """Return the inspector of what the user named.

    That is an expression that is a kernel or a recording, or the name of a recorded kernel, qualified or its last part;
    of all recorded kernels without it. `UnknownKernelError` lists what there is.
    """
    if wanted is None:
        if not recordings():
            raise UnknownKernelError(f"there is nothing to inspect: no cell was recorded yet{_live_names(shell)}")
        return InspectorWidget(SessionSource(recordings))
    found, problem = None, ""
    try:
        found = shell.ev(wanted)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if live.is_kernel(found):

        def find() -> Any:
            """Return what the name means by now; where it is gone or means something else, what it meant last."""
            nonlocal found
            now = shell.user_ns.get(wanted) if wanted.isidentifier() else None
            found = now if live.is_kernel(now) else found
            return found

        return InspectorWidget(LiveSource(find, recordings))
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


def live_kernels(shell: Any) -> list[str]:
    """Return the names of the user's variables that are kernels."""
    return [name for name, value in list(shell.user_ns.items()) if not name.startswith("_") and live.is_kernel(value)]


def _live_names(shell: Any) -> str:
    known = live_kernels(shell)
    return f"; kernels in the notebook: {listed(known, _MOST_NAMES)}" if known else ""


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    inspector_of(session.shell, lambda: session.recordings, asked.kernel)._ipython_display_()


VERBS = {"inspect": Verb(_arguments, main, _magic, about=_ABOUT, whole="kernel")}
