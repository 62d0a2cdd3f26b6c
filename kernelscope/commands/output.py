"""Output of the magics: cards and one-line messages."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kernelscope.recorder.option import option_of

if TYPE_CHECKING:
    from kernelscope.recorder.options import RecordingOptions
    from kernelscope.recording.model import Recording


#: From here on writing and reading a file takes long enough to say so.
MANY_LAUNCHES = 500_000


def report(problem: BaseException | str) -> None:
    """Print an internal problem on one line of stderr; the user's cell goes on."""
    if isinstance(problem, KeyboardInterrupt):
        problem = "interrupted while the recording was started or finished"
    elif isinstance(problem, BaseException) and not str(problem):
        problem = type(problem).__name__
    elif isinstance(problem, BaseException) and not type(problem).__module__.startswith("kernelscope"):
        problem = f"{type(problem).__name__}: {problem}"
    print("kernelscope: " + " ".join(str(problem).split()), file=sys.stderr)


def shows_html(shell: Any) -> bool:
    """Return whether the shell shows HTML: a terminal does not."""
    return "text/html" in getattr(shell.display_formatter, "active_types", ())


def publish(shell: Any, text: str, html: Callable[[], str], **what: bool) -> None:
    """Show text as an output of the running cell, and HTML where the shell shows it; `what` marks the output."""
    data = {"text/plain": text}
    if shows_html(shell):
        data["text/html"] = html()
    shell.display_pub.publish(data=data, metadata={"kernelscope": what} if what else {})


def print_answer(made: Mapping[str, Any]) -> None:
    """Print an answer for programs."""
    from kernelscope.views.answer import encoded

    print(encoded(made), flush=True)


def print_written(arguments: Namespace, path: Path, form: str, note: str = "") -> None:
    """Print where something was written, as a line or as an answer, as the line asked for."""
    if not arguments.json:
        print(f"wrote {path}{note}")
        return
    from kernelscope.views.answer import WrittenAnswer, answer, written

    print_answer(answer(WrittenAnswer, {"verdict": f"wrote {path}{note}", "written": written([path], form)}))


@contextmanager
def _reported(what: str) -> Generator[None]:
    """Report an internal problem on a line; the formatters would show it as the cell's traceback."""
    try:
        yield
    except Exception as error:
        report(f"the {what} cannot be shown: {type(error).__name__}: {error}")


def show(shell: Any, recording: Recording) -> None:
    """Show the card as an output of the running cell."""
    with _reported("card"):
        publish(shell, recording.summary(), recording._repr_html_, card=True)


def show_figures(shell: Any, what: str, html: Callable[[], str], elsewhere: str) -> None:
    """Show figures, which messages call `what`, where the shell shows HTML; `elsewhere` has them for a terminal."""
    if shows_html(shell):
        with _reported(what):
            publish(shell, what, html)
    else:
        report(f"--charts needs a notebook; {elsewhere}")


def show_timeline(shell: Any, recording: Recording, *, asked: bool = False) -> None:
    """Show the timeline as an output of the running cell, where the shell shows widgets and there is a launch.

    Parameters
    ----------
    shell : InteractiveShell
        Where to.
    recording : Recording
        What to show.
    asked : bool
        Whether the user requested it; then the reason is printed if there is none.
    """
    if not shows_html(shell):
        if asked:
            print("kernelscope: a terminal shows no timeline; recording.to_html(\"report.html\") writes it into a file "
                  "for the browser, and _kernelscope is the newest recording")
    elif any(recording.arrow(name).num_rows for name in ("launches", "activities", "graph_events", "builds")):
        with _reported("timeline"):
            from kernelscope.views.timeline.widget import timeline

            timeline(recording)._ipython_display_()
    elif asked:
        print("kernelscope: there is no timeline, because nothing was launched")


def give(shell: Any, recording: Recording, number: int | None, *, quiet: bool) -> None:
    """Make the recording the cell's value, as if an expression at its end had given it.

    Parameters
    ----------
    shell : InteractiveShell
        Where the cell ran.
    recording : Recording
        The value; it becomes ``_`` and ``Out[number]``.
    number : int or None
        The cell's execution count.
    quiet : bool
        Whether to show nothing.
    """
    hook = shell.displayhook
    can_be_shown = False
    with _reported("card"):  # The hook would show it as a traceback and call the cell failed.
        can_be_shown = bool(recording._repr_html_() if shows_html(shell) else recording.summary())
    # Some versions of IPython have counted on by now, and the hook derives its number from the count.
    ahead = 0 if number is None else hook.prompt_count - number
    shell.execution_count -= ahead
    try:
        if quiet or not can_be_shown:
            hook.update_user_ns(recording)
        elif hook.quiet():  # A semicolon at the cell's end suppresses the value of its last expression.
            hook.update_user_ns(recording)
            show(shell, recording)
        else:
            hook(recording)
    finally:
        shell.execution_count += ahead


def progress(recording: Recording | None, doing: str) -> Callable[[float, str], None]:
    """Return a progress callback that reports a long save or load; a short one prints nothing.

    Parameters
    ----------
    recording : Recording or None
        What is written; None where its size is not known yet, when reading.
    doing : str
        What is done, such as ``writing out.kscope``.
    """
    announced = False

    def tell(fraction: float, text: str) -> None:
        nonlocal announced
        many, noun = (recording.arrow("launches").num_rows, "launches") if recording is not None else _size(text)
        if many >= MANY_LAUNCHES and not announced:
            announced = True
            print(f"{doing}: {many:,} {noun}", file=sys.stderr, flush=True)

    return tell


def notifier(file: Callable[[], TextIO]) -> Callable[[str, bool], None]:
    """Return what shows what a measurement does: lines that stay, and between them one that changes.

    Parameters
    ----------
    file : callable
        Returns where to, when there is something to say: a notebook puts another stdout in place for each cell.
    """
    shown = ""

    def tell(text: str, is_to_stay: bool) -> None:
        nonlocal shown
        line = f"kernelscope: {text}"
        over = "\r" if shown else ""
        print(f"{over}{line:<{len(shown)}}", end="\n" if is_to_stay else "", file=file(), flush=True)
        shown = "" if is_to_stay else line

    return tell


def reporting(options: RecordingOptions, file: Callable[[], TextIO]) -> RecordingOptions:
    """Return the options with those that are called with what happens set to a `notifier`: see `Option.reports_on`."""
    return replace(options, **{each.name: notifier(file) for each in fields(options)
                               if (option := option_of(each)).reports_on and getattr(options, option.reports_on)})


def _size(text: str) -> tuple[int, str]:
    """Return how much there is, of what `kernelscope.load` reports, such as ``reading 1200000 rows of launches``.

    Of a recording that is its launches; of a trace the rows of one of its tables, or about all events.
    """
    found = re.fullmatch(r"reading (\d+) (?:rows of (launches|[A-Z_]+)|(events))", text)
    if found is None:
        return 0, ""
    return int(found[1]), found[3] or ("launches" if found[2] == "launches" else "rows")


def counts(recordings: list[Recording]) -> str:
    """Return how much was recorded: ``2 recordings with 120 launches``."""
    from kernelscope.analysis.columns import ran

    launches = sum(int(ran(each).sum()) for each in recordings)
    return (f"{len(recordings):,} recording{'' if len(recordings) == 1 else 's'} "
            f"with {launches:,} launch{'' if launches == 1 else 'es'}")


def loaded(path: str, before: str = "") -> Recording:
    """Return the recording of a file; a line, with `before` at its beginning, says that a long one takes time."""
    from kernelscope.recording.file import load

    return load(path, progress=progress(None, f"{before}reading {path}"))


def written(recording: Recording, path: str, before: str = "") -> Path:
    """Save the recording and return where; a line, with `before` at its beginning, says that a long one takes time."""
    from kernelscope.recording.file import save

    return save(recording, path, progress=progress(recording, f"{before}writing {path}"))


def saved(recording: Recording, path: str) -> str:
    """Save the recording for a notebook, and return a line that says where.

    A path that ends in ``/`` is a folder in which every process has files of its own, for
    `kernelscope.processes.collect`.
    """
    from kernelscope.commands.export import check_recording_name
    from kernelscope.units import size

    if path.endswith("/"):
        from kernelscope.recorder.worker import save_into

        target = save_into(Path(path).expanduser(), recording)
    else:
        check_recording_name(path)
        target = written(recording, path, "kernelscope: ")
    return f"wrote {target} ({size(target.stat().st_size)})"
