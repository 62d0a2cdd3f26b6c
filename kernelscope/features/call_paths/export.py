"""Call paths for other programs: in the file format of speedscope, and as Brendan Gregg's folded stacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO

import numpy as np

from kernelscope.errors import KernelScopeError
from kernelscope.features.call_paths.analyse import METRICS, CallTree, call_tree
from kernelscope.features.call_paths.flame import HOW_TO, LABELS, UNKNOWN_PATH
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.schema import UNKNOWN
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import Progress, checked, clean, whole_file
from kernelscope.views.frames import frame_of_line

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def to_speedscope(
    recording: Recording, path: str | Path, *, paths: bool = False, progress: Progress | None = None
) -> Path:
    """Write the call paths as a file of speedscope (https://www.speedscope.app), and return its path.

    It has a profile for each of host time, GPU time, compile time (in nanoseconds) and launches (a number). A sample is
    a call path with a kernel below it, and all that these weigh together.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to; ``.speedscope.json`` is added to a name without a suffix. An existing file is replaced.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text.

    Raises
    ------
    KernelScopeError
        The recording has no call paths.
    RecordingFileError
        It cannot be written.
    """
    shown = shareable(recording, paths=paths)
    tree, target = _tree(shown), _named(path, ".speedscope.json")
    names = _Frames(shown, tree)
    head = {"$schema": _SCHEMA, "exporter": f"kernelscope@{version('kernelscope')}", "activeProfileIndex": 0,
            "name": clean(shown.name or "KernelScope") + (f" ({shown.notice})" if shown.notice else ""),
            "shared": {"frames": names.described}}
    with whole_file(target) as file:
        file.write(json.dumps(head)[:-1].encode() + b',"profiles":[')
        for place, metric in enumerate(tree.metrics):
            _write_profile(file, tree, metric, names, is_first=not place)
            if progress:
                progress((place + 1) / len(tree.metrics), f"writing {target.name}")
        file.write(b"]}\n")
    return target


def to_collapsed(
    recording: Recording, path: str | Path, *, metric: str = "host", paths: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the call paths as folded stacks, one a line, and return the file's path.

    A line is the frames from the outermost to the kernel, with semicolons between them, a space, and a whole number:
    what ``flamegraph.pl`` and other tools of Brendan Gregg's read.

    Parameters
    ----------
    recording : Recording
        What to write.
    path : str or Path
        Where to; ``.folded`` is added to a name without a suffix. An existing file is replaced.
    metric : str
        What the numbers are: ``host``, ``gpu`` or ``compile`` time in nanoseconds, or ``launches``.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with 1 and a text when the file is there.

    Raises
    ------
    KernelScopeError
        The recording has no call paths, or nothing of the metric.
    RecordingFileError
        It cannot be written.
    """
    if metric not in METRICS:
        raise KernelScopeError(f"metric {metric!r} is none of {', '.join(METRICS)}{did_you_mean(metric, METRICS)}")
    shown = shareable(recording, paths=paths)
    tree, target = _tree(shown), _named(path, ".folded")
    if metric not in tree.metrics:
        raise KernelScopeError(f"the recording has no {LABELS[metric].lower()} by call path; it has "
                               f"{', '.join(tree.metrics)}")
    frames = _Frames(shown, tree)
    names = [each.replace(";", ",") for each in frames.lines]
    with whole_file(target) as file:
        for sample, weight in frames.samples(metric):
            file.write(f"{';'.join([names[at] for at in sample])} {weight}\n".encode())
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def _tree(recording: Recording) -> CallTree:
    tree = call_tree(recording)
    if tree is None or not tree.metrics:
        raise KernelScopeError(HOW_TO)
    return tree


def _named(path: str | Path, suffix: str) -> Path:
    target = checked(path)
    return target if target.suffix else target.with_name(target.name + suffix)


class _Frames:
    """What frames of samples are called: rows of ``lines``, then the leaves, then what has no known call path."""

    def __init__(self, recording: Recording, tree: CallTree) -> None:
        rows = recording.rows("lines")
        frames = [frame_of_line(row) for row in rows]
        others = [*(clean(name) for name in tree.leaves), UNKNOWN_PATH]
        self.lines = [*(each.line for each in frames), *others]
        self.described = [
            *({"name": each.name, "file": clean(str(row["file"])), "line": row["line"]}
              for each, row in zip(frames, rows, strict=True)),
            *({"name": name} for name in others)]
        self._tree = tree
        # Of frames, leaves and the node of what has no known call path.
        self._place = np.where(tree.leaf >= 0, len(rows) + tree.leaf, np.where(
            tree.line >= 0, tree.line, len(self.lines) - 1)).tolist()

    def samples(self, metric: str) -> Iterator[tuple[list[int], int]]:
        """Yield each leaf that weighs anything: the places of its path's names, the outermost first, and its weight."""
        weights, parent, place = self._tree.own[metric], self._tree.parent.tolist(), self._place
        of, path = UNKNOWN, list[int]()
        for at in np.flatnonzero(weights).tolist():
            if parent[at] != of or not path:  # leaves of one path are beside each other
                of, path, above = parent[at], [], parent[at]
                while above >= 0:
                    path.append(place[above])
                    above = parent[above]
                path.reverse()
            yield [*path, place[at]], int(weights[at])


def _write_profile(file: IO[bytes], tree: CallTree, metric: str, names: _Frames, *, is_first: bool) -> None:
    """Write a profile of a file of speedscope, sample by sample: a deep recursion's are long."""
    head = {"type": "sampled", "name": LABELS[metric], "unit": "none" if metric == "launches" else "nanoseconds",
            "startValue": 0, "endValue": int(tree.own[metric].sum())}
    file.write(("" if is_first else ",").encode() + json.dumps(head)[:-1].encode() + b',"samples":[')
    weights: list[int] = []
    for sample, weight in names.samples(metric):
        file.write(f"{',' if weights else ''}[{','.join(map(str, sample))}]".encode())
        weights.append(weight)
    file.write(b'],"weights":' + json.dumps(weights).encode() + b"}")
