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
from typing import TYPE_CHECKING, Any

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


def align_clocks(comm: Any) -> None:
    """Find how this rank's clock differs from that of rank 0, so that ranks on several machines get one clock.

    All ranks call it at the same place: once after the start, and once more before the end, which tells how the clocks
    drift apart meanwhile. Each asks rank 0 for its clock, one rank after another, in 16 round trips of which the
    fastest counts; ranks on rank 0's machine only check that their clock is the same. What is found is kept with the
    recording under way, and used when it is merged: ``clock_offset_ns``, ``clock_drift_ppb`` and ``clock_bound_ns``
    (half of the fastest round trip, and what the drift adds) of the table ``processes``. Ranks that are not recorded
    take part too.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or module
        A communicator of mpi4py, or ``torch.distributed`` with its default process group.

    Raises
    ------
    TypeError
        `comm` is neither.

    Examples
    --------
    >>> kernelscope.processes.align_clocks(MPI.COMM_WORLD)  # doctest: +SKIP
    """
    from kernelscope.recorder.clocks import align

    align(comm)


def collect(*folders: str | Path, name: str | None = None) -> Recording:
    """Return one recording of the processes that recorded themselves into these folders.

    Journals of processes that were killed are recovered, and the launches so far are taken of those that still record.
    What is no recording is left out; the table ``health`` says which. Ctrl-C ends the reading, and what was read until
    then is returned.

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
    from kernelscope.recorder.children import found, read
    from kernelscope.recording.merge import gather

    paths = [Path(folder).expanduser() for folder in folders]
    return gather(found(paths), name=name or Path(os.path.realpath(paths[0])).stem, read=read).recording
