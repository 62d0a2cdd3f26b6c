"""An engine's side of a recording of ipyparallel's engines: it records its process, and publishes its file.

What it has to say is the output of the request that asks for it: JSON, and a file as base64, which ipyparallel carries
as it does a picture. Nothing is pickled.
"""

from __future__ import annotations

import base64
import contextlib
import tempfile
from pathlib import Path

import kernelscope
from kernelscope.errors import KernelScopeError
from kernelscope.private_folders import why_not_own
from kernelscope.recorder.launcher import options_of
from kernelscope.recorder.worker import OwnRecorder, known_options

#: The type of what an engine publishes.
MIME = "application/x-kernelscope+json"
#: What is recorded, by the token of the recording.
_recorders: dict[str, OwnRecorder] = {}


def folder_of(token: str) -> Path:
    """Return where the engines of a host keep their journals while they record."""
    return Path(tempfile.gettempdir()) / f"kernelscope-{token}.children"


def own_folder(token: str) -> Path:
    """Make that folder, for this user only, and return it.

    Raises
    ------
    KernelScopeError
        It is somebody else's: the folder around it is one of all users.
    """
    folder = folder_of(token)
    folder.mkdir(mode=0o700, exist_ok=True)
    reason = why_not_own(folder, links=False)
    if reason is not None:
        raise KernelScopeError(f"{reason}: an engine records only into a folder of its own user's")
    return folder


def begin(token: str, options: str) -> None:
    """Record this engine until `end`, with arguments of `kernelscope.record` as JSON."""
    folder = own_folder(token)
    from IPython.core.getipython import get_ipython

    number = getattr(getattr(get_ipython(), "kernel", None), "engine_id", "?")
    recorder = OwnRecorder(f"engine {number}", journal=folder, **known_options(options_of(options)))
    recorder.folder, recorder.is_guest = folder, True
    recorder.start()
    recorder.begin_cell(recorder.name)
    _recorders[token] = recorder
    _publish({"version": kernelscope.__version__})


def end(token: str) -> None:
    """Stop, and publish the file; where the recording has been given up, there is none."""
    recorder = _recorders.pop(token)
    recorder.end_cell()
    recorder.stop()
    if recorder.file is None:
        return
    _publish({"name": recorder.file.name, "file": base64.b64encode(recorder.file.read_bytes()).decode("ascii")})
    with contextlib.suppress(OSError):
        recorder.file.unlink()
        recorder.folder.rmdir()  # if this was the last one of the host


def _publish(said: dict[str, str]) -> None:
    from IPython.display import publish_display_data

    publish_display_data({MIME: said})
