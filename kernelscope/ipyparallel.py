"""Recording of ipyparallel's engines: each records itself, and what they recorded is one recording.

A view's ``execute`` is all that is used: its answers are JSON, and what engines publish is too.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
from dataclasses import fields
from pathlib import Path
from typing import Any

from kernelscope import __version__
from kernelscope.errors import KernelScopeError
from kernelscope.recorder.children import Children
from kernelscope.recorder.engine import MIME, own_folder
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session
from kernelscope.recorder.worker import spelled

__all__ = ["EnginesRecorder", "record"]

#: So long is waited in silence before ipyparallel shows its progress, and then for an output that is still under way.
_QUIET_S, _OUTPUT_S = 1.0, 30.0
_INSTALL = "install this notebook's version of kernelscope on every engine"


def record(view: Any, name: str | None = None, **options: Any) -> EnginesRecorder:
    """Return a recorder of this process and of a view's engines, for a ``with`` block.

    Each engine is a process of the recording (`Recording.by_process`), and its rank is the engine's number. Of an
    engine that dies meanwhile on this machine there is what its journal holds.

    Parameters
    ----------
    view : ipyparallel.DirectView or ipyparallel.Client
        The engines; of a client, all that it has.
    name : str, optional
        What to call the recording.
    **options
        Those of `kernelscope.record`, but for `children`.

    Raises
    ------
    TypeError
        `view` is neither a direct view nor a client.

    Examples
    --------
    >>> with kernelscope.ipyparallel.record(rc[:], "step") as r:  # doctest: +SKIP
    ...     rc[:].map_sync(step, batches)
    >>> r.recording.by_process()  # doctest: +SKIP
    """
    return EnginesRecorder(view, RecordingOptions(name, **options))


class EnginesRecorder(Recorder):
    """Records this process and the engines of a view; `record` makes one.

    Parameters
    ----------
    view : ipyparallel.DirectView or ipyparallel.Client
        The engines.
    options : RecordingOptions
        How all of them record.
    """

    def __init__(self, view: Any, options: RecordingOptions) -> None:
        given: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(options)}
        given["children"] = True
        super().__init__(**given)
        self._engines = Engines(view, options)

    def _begin_children(self, session: Session) -> None:
        self._children = self._engines
        self._engines.begin()


class Engines(Children):
    """The engines that record, from `begin` to `close`.

    Parameters
    ----------
    view : ipyparallel.DirectView or ipyparallel.Client
        The engines.
    options : RecordingOptions
        How they record.
    """

    def __init__(self, view: Any, options: RecordingOptions) -> None:
        super().__init__(options, None)
        self.notes.clear()
        self._client, self._engines = _engines_of(view)
        self._token = secrets.token_hex(8)
        self._ending: dict[int, Any] | None = None

    def begin(self) -> None:
        """Have the engines record; what keeps one from it is noted, and the others go on.

        Raises
        ------
        KernelScopeError
            None of them records.
        """
        self._folder = own_folder(self._token)
        asked = self._ask("begin", spelled(self._options))
        recording: list[int] = []
        reasons: dict[int, str] = {}
        for engine, answer in asked.items():
            said, problem = _answer(answer)
            if problem is not None:
                reasons[engine] = problem
                continue
            recording.append(engine)
            if said.get("version") != __version__:
                self.notes.append(_note(f"engine {engine} records with kernelscope {said.get('version')}, and this "
                                       f"process has {__version__}", _INSTALL))
        if not recording:
            raise KernelScopeError("no engine records" + "".join(f": {each}" for each in [*reasons.values()][:1]))
        self.notes += [_note(f"engine {engine} is not recorded: {problem}", _INSTALL)
                       for engine, problem in reasons.items()]
        self._engines = recording

    def end(self) -> None:
        """Have the engines stop, which each does when it has done what it was asked before; again: nothing."""
        if self._ending is None and self._folder is not None:
            self._ending = self._ask("end")

    def _wait(self, folder: Path) -> None:
        """Write the engines' files into the folder; a Ctrl-C leaves those out that are not there yet."""
        waiting = dict(self._ending or {})
        try:
            for engine, answer in (self._ending or {}).items():
                said, problem = _answer(answer)
                del waiting[engine]
                name = re.sub(r"[^\w.-]", "_", str(said.get("name", "")))
                if problem is None and name.endswith(".kscope"):
                    folder.mkdir(mode=0o700, exist_ok=True)  # the last engine that stopped has removed it
                    (folder / name).write_bytes(base64.b64decode(str(said.get("file", ""))))
                else:
                    self.notes.append(_note(f"engine {engine} did not finish its recording: "
                                           f"{problem or 'it sent no file'}"))
        finally:
            folder.mkdir(mode=0o700, exist_ok=True)
            if waiting:
                engines = ", ".join(f"engine {each}" for each in waiting)
                self.notes.append(_note(f"interrupted: not fetched from {engines}"))

    def _ask(self, what: str, *arguments: str) -> dict[int, Any]:
        """Send each engine a call of `kernelscope.recorder.engine`; return what will be the answers, or exceptions."""
        given = ", ".join(map(repr, [self._token, *arguments]))
        code = f"__import__('kernelscope.recorder.engine', fromlist=['engine']).{what}({given})"
        asked: dict[int, Any] = {}
        for engine in self._engines:
            try:
                asked[engine] = self._client[engine].execute(code, silent=True, block=False)
            except Exception as error:  # it has gone, or the whole cluster
                asked[engine] = error
        return asked


def _note(message: str, fix: str | None = None) -> dict[str, Any]:
    return {"probe": "recorder", "status": "degraded", "message": message, "fix": fix}


def _engines_of(view: Any) -> tuple[Any, list[int]]:
    """Return the client, and the numbers of a view's engines."""
    client, targets = getattr(view, "client", view), getattr(view, "targets", "all")
    if not hasattr(client, "direct_view") or (client is not view and not hasattr(view, "execute")):
        raise TypeError(f"{view!r} is neither a direct view of ipyparallel's engines nor a client: give rc[:], or rc")
    numbers: Any = client.ids if targets in (None, "all") else [targets] if isinstance(targets, int) else targets
    return client, list(numbers)


def _answer(answer: Any) -> tuple[dict[str, Any], str | None]:
    """Wait for what an engine publishes, and return that, and what went wrong."""
    if isinstance(answer, Exception):
        return {}, f"{type(answer).__name__}: {answer}"
    if not answer.done():
        answer.wait(_QUIET_S)
    if not answer.done():
        answer.wait_interactive()
    try:
        answer.get()
    except KeyboardInterrupt:
        raise
    except Exception as error:  # the engine's, or its end
        name = getattr(error, "ename", type(error).__name__)
        return {}, f"{name}: {getattr(error, 'evalue', error)}"
    answer.wait_for_output(_OUTPUT_S)
    said: dict[str, Any] = {}
    for output in answer.outputs:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            found = output["data"][MIME]
            said |= json.loads(found) if isinstance(found, str) else dict(found)
    return said, None
