"""``kernelscope.metrics``, its verb and its magic: what the GPU's counters say of kernels."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import kernelscope
from kernelscope import dryrun
from kernelscope.analysis.launches import cell_label
from kernelscope.commands.output import loaded, notifier, print_answer, publish
from kernelscope.commands.verb import Verb, add_json
from kernelscope.errors import CountersError, RecorderStateError, UnknownKernelError
from kernelscope.features.metrics.view import MetricsView
from kernelscope.recording.model import Recording
from kernelscope.units import brief

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

_ABOUT = """\
Show the metrics of the kernels of a .kscope file whose counters were measured: what `kernelscope run --metrics` and
%%kernelscope --metrics record."""


def metrics(what: Recording | Callable[..., Any], *args: Any, metrics: str = "basic", kernel: str | None = None,
            replay: str = "kernel", **kwargs: Any) -> MetricsView:
    """Return the metrics of a recording's measured kernels; or call something, and measure what it launches.

    Parameters
    ----------
    what : Recording or callable
        A recording with measurements. Or what launches kernels, such as ``axpy[4096, 256]``: it is called once, and the
        first launch of each kernel is replayed as often as its metrics need. How often, and how long that takes about,
        is said on stderr before.
    *args, **kwargs
        What it is called with.
    metrics : str
        ``basic``, ``roofline``, ``memory``, ``full``, or Nsight Compute's names of metrics with commas between.
    kernel : str, optional
        Only this kernel, by its name.
    replay : str
        ``kernel``: CUPTI repeats each launch, and restores memory in between. ``user``: `what` is called once for each
        pass, nothing is restored, and all that it launches is measured as one range and runs as it would without a
        measurement: for kernels that wait for one another, or whose memory there is no room to save.

    Raises
    ------
    UnknownKernelError
        No kernel of that name was measured. What the callable raises passes.
    CountersError
        The GPU's counters cannot be read here: the callable was not called.
    ValueError
        There is no such set, metric or replay; or `kernel` stands beside replay ``user``.
    """
    if isinstance(what, Recording):
        return MetricsView(what, kernel)
    if replay == "user" and kernel is not None:
        raise ValueError(f"replay 'user' measures all kernels as one range: leave out kernel {kernel!r}")
    require_counters()
    with kernelscope.record(metrics=metrics, metrics_of=kernel, replay=replay,
                            notify=notifier(lambda: sys.stderr)) as recorder:
        if replay == "kernel":
            what(*args, **kwargs)
        else:
            for _ in recorder.passes():
                what(*args, **kwargs)
    return MetricsView(recorder.recording, kernel)


def require_counters() -> None:
    """Make sure that the GPU's counters can be read in this process: what is run only to measure it need not be run.

    Raises
    ------
    CountersError
        They cannot: in a dry run, without a CUDA context, permission or library, or while another tool holds them.
    """
    if dryrun.is_enabled():
        raise CountersError("the dry run has no GPU whose counters could be read, and so nothing was run; measure in a "
                            "process without KERNELSCOPE_DRYRUN, on a machine with a GPU")
    from kernelscope.counters.examine import examine

    found = examine()
    if not found["may_read"]:
        fix = f"; {found['fix']}" if found["fix"] else ""
        raise CountersError(f"the GPU's counters cannot be read, and so nothing was run: {found['why']}{fix}")


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("kernel", metavar="KERNEL", help="the kernel's name, or its last part")
        parser.add_argument("cell", metavar="CELL", nargs="?",
                            help="the number or name of the cell to run again; the newest that launched it without")
        parser.add_argument("--failed", action="store_true", help="run the cell again even if its last run failed")
        parser.add_argument("--set", metavar="SET", default="basic",
                            help="basic (the default), roofline, memory, full, or names of metrics")
        return
    parser.add_argument("file", metavar="FILE.kscope")
    parser.add_argument("kernel", metavar="KERNEL", nargs="?", help="only this kernel, by its name or its last part")
    add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the metrics; return the exit code."""
    view = MetricsView(loaded(arguments.file), arguments.kernel)
    if arguments.json:
        print_answer(view.answer(arguments.limit))
    else:
        print(view)
    return 0


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Run a cell again, with the kernel's launches measured, and show what was measured."""
    from kernelscope.commands.cell import parse_cell, without_heading
    from kernelscope.commands.show import find_cell

    cell = find_cell(session.recordings, asked.cell) if asked.cell else _newest(session.recordings, asked.kernel)
    if asked.kernel not in _names(cell):
        raise UnknownKernelError(f"kernel {asked.kernel!r} was not launched there; launched were "
                                 f"{', '.join(sorted(_names(cell))) or 'none'}")
    row = cell.rows("cells")[-1]
    if not asked.failed:
        _refuse_failed(session.recordings, row)
    require_counters()
    options = parse_cell(shlex.join(["--metrics", asked.set, "--metrics-of", asked.kernel, "-r", "-q"]))
    print(f"kernelscope: {cell_label(row)} is run again: what it does to variables, files and arrays happens again")
    body = "".join(without_heading(str(row["source"] or "").splitlines(keepends=True)))
    recording = session.run(options, body)
    if recording is not None:
        for problem in recording.rows("health"):
            if problem["probe"] == "metrics" and problem["status"] != "ok":
                print(f"kernelscope: {problem['message']}" + (f"; {problem['fix']}" if problem["fix"] else ""))
        view = MetricsView(recording)
        publish(session.shell, repr(view), view._repr_html_)


def _refuse_failed(recordings: Sequence[Recording], row: Mapping[str, Any]) -> None:
    """Raise where the last recorded run of a cell, a row of ``cells``, did not end well: it would fail again."""
    runs = [each for recording in recordings for each in recording.rows("cells")
            if each["source_sha256"] == row["source_sha256"] and each["start_ns"] >= row["start_ns"]]
    last = max(runs, key=lambda each: each["start_ns"], default=row)
    if last["status"] != "ok":
        ended = f"{last['status']}: {last['error']}" if last["error"] else str(last["status"])
        raise RecorderStateError(f"the last run of {cell_label(last)} did not end well ({brief(ended)}), and so it is "
                                 "not run again; --failed runs it even so")


def _names(recording: Recording) -> set[str]:
    names = {str(row["name"]) for row in recording.rows("dispatchers")}
    return names | {name.rpartition(".")[2] for name in names}


def _newest(recordings: list[Recording], kernel: str) -> Recording:
    for recording in reversed(recordings):
        if kernel in _names(recording):
            return recording
    known = sorted({name for each in recordings for name in _names(each)})
    raise UnknownKernelError(f"no recorded cell launched {kernel!r}; recorded kernels are {', '.join(known) or 'none'}")


VERBS = {"metrics": Verb(_arguments, main, _magic, about=_ABOUT, runs_user_code=True)}
