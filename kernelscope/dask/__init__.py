"""Recording of a Dask cluster: every worker records itself, and what they recorded is one recording."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.recorder.options import RecordingOptions

if TYPE_CHECKING:
    from kernelscope.dask.cluster import ClusterRecorder

__all__ = ["record", "report"]


def record(client: Any, name: str | None = None, **options: Any) -> ClusterRecorder:
    """Return a recorder of all workers of a cluster, for a ``with`` block; then `recording` has what they recorded.

    Workers that join or restart meanwhile are recorded too, and of one that was killed what it had completed. Each is a
    process of the recording (`Recording.by_process`), and launches know the task that made them (`Recording.by_task`).

    Parameters
    ----------
    client : distributed.Client
        The cluster's client.
    name : str, optional
        What to call the recording.
    **options
        Those of `kernelscope.record`, but for `journal`, which every worker keeps, and `children`.

    Raises
    ------
    ValueError
        An option's value is none that there is.

    Examples
    --------
    >>> with kernelscope.dask.record(client, "step") as r:  # doctest: +SKIP
    ...     client.gather(client.map(step, batches))
    >>> r.recording.by_task()  # doctest: +SKIP
    """
    from kernelscope.dask.cluster import ClusterRecorder  # workers import this package, and need none of it

    return ClusterRecorder(client, RecordingOptions(name, **options))


@contextmanager
def report(client: Any, path: str | Path = "kernelscope-report.html", **options: Any) -> Generator[ClusterRecorder]:
    """Record a cluster while a ``with`` block runs, and write the card and the timeline as one page.

    It is what `distributed.performance_report` is for tasks. The page is written however the block ends.

    Parameters
    ----------
    client : distributed.Client
        The cluster's client.
    path : str or Path
        Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.
    **options
        As for `record`.
    """
    recorder = record(client, **{"name": Path(path).stem, **options})
    try:
        with recorder:
            yield recorder
    finally:
        if recorder.has_recording:
            recorder.recording.to_html(path)
