"""A recording as a trace for the Perfetto UI (https://ui.perfetto.dev), which draws it in the browser."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import IO, Any

from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers.base import Makes, clean
from kernelscope.renderers.files import Progress, checked, whole_file
from kernelscope.renderers.lanes import Track
from kernelscope.renderers.trace import event_count, groups, lanes

MAKES = Makes("application/x-protobuf", ".pftrace")
JSON = Makes("application/json", ".json")


def has_package() -> bool:
    """Whether the ``perfetto`` package is there, with the builder of traces that it has since 2025."""
    try:
        return importlib.util.find_spec("perfetto.trace_builder.proto_builder") is not None
    except ModuleNotFoundError:
        return False


def to_perfetto(
    recording: Recording, path: str | Path, *, paths: bool = False, progress: Progress | None = None
) -> Path:
    """Write a Perfetto trace and return its path.

    The trace has the lanes of the timeline: cells, NVTX ranges by domain, host threads with launches, phases and
    compiles, and the streams of each GPU; arrows lead from launches to kernels. Times are the recording's own
    nanoseconds; a clock snapshot says where they stand in wall time. An activity without a start is left out.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to. A name that ends in ``.json`` gets Chrome's JSON. Any other gets protobuf, with ``.pftrace`` added
        to a name without a suffix; where the ``perfetto`` package is missing, it gets JSON and the suffix ``.json``.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, some times a second.

    Returns
    -------
    Path
        The file that was written. It appears whole or not at all.

    Raises
    ------
    RecordingFileError
        It cannot be written.
    """
    target = checked(path)
    binary = target.suffix != JSON.suffix and has_package()
    if not binary:
        target = target.with_suffix(JSON.suffix)
    elif not target.suffix:
        target = target.with_name(target.name + MAKES.suffix)
    shown = shareable(recording, paths=paths)
    with whole_file(target) as file:
        _write(shown, file, binary, target.name, progress)
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def _write(recording: Recording, file: IO[bytes], binary: bool, name: str, progress: Progress | None) -> None:
    module = importlib.import_module(f"kernelscope.renderers.perfetto_{'proto' if binary else 'json'}")
    title = clean(recording.name or "KernelScope")
    seed = f"{recording.metadata.get('created')} {title}"
    writer: Any = (module.ProtoWriter if binary else module.JsonWriter)(file, seed)
    clock = recording.metadata.get("clock")
    writer.begin(clock if isinstance(clock, dict) else {}, title, _about(recording))
    known = {track.path: track for track in groups(recording)}
    written: set[tuple[str, ...]] = set()
    total = max(event_count(recording), 1)
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(min(done / total, 1.0), f"writing {name}")

    for lane in lanes(recording):
        for depth in range(1, len(lane.track.path)):
            around = lane.track.path[:depth]
            if around not in written:
                writer.group(known.get(around, Track(around, around[-1])))
                written.add(around)
        writer.lane(lane, told)
    if not binary:
        writer.end()


def _about(recording: Recording) -> str:
    """What must be said of every output of this recording."""
    parts = [recording.notice, "Made by KernelScope; times are nanoseconds of the host's monotonic clock."]
    return " ".join(part for part in parts if part)
