"""Processes that record themselves because their environment says so, and the recording that is made of all of them.

With ``KERNELSCOPE_RECORD=FOLDER`` in its environment a Python process is recorded from its start to its end, into a
file of its own in that folder; the processes that it starts inherit the variable. A ``.pth`` file beside the installed
package has Python run `kernelscope_at_start` where the variable is set: until a process imports a framework that
launches kernels nothing else is loaded, so that a process which launches nothing starts as fast as ever, and leaves no
file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

#: The folder to record into.
RECORD = "KERNELSCOPE_RECORD"
#: The arguments of `kernelscope.record` to record with, as a JSON object.
OPTIONS = "KERNELSCOPE_RECORD_OPTIONS"


def start_from_environment() -> bool:
    """Record this process from now on if ``KERNELSCOPE_RECORD`` names a folder; return whether it is recorded.

    For where no ``.pth`` file is read: call it first of all, in the program or in ``sitecustomize.py``. A process that
    is recorded already goes on as it does. What keeps it from being recorded is said on stderr, and never raised.
    """
    folder = os.environ.get(RECORD)
    if not folder:
        return False
    from kernelscope.recorder.worker import start

    return start(Path(folder), os.environ.get(OPTIONS, ""))


def collect(*folders: str | Path, name: str | None = None) -> Recording:
    """Return one recording of the processes that recorded themselves into these folders.

    Journals of processes that were killed are recovered, and the launches so far are taken of those that still record.
    What is no recording is left out; the table ``health`` says which.

    Parameters
    ----------
    *folders : str or Path
        Folders, ``.kscope`` files and journals.
    name : str, optional
        What to call the recording.

    Raises
    ------
    RecordingFileError
        There is no recording in them; the message says what there is.
    """
    from kernelscope.recorder.children import collected

    return collected([Path(folder).expanduser() for folder in folders], name)[0]
