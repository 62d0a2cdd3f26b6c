"""Output of the magics: cards and one-line messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def bundle(shell: Any, recording: Recording) -> dict[str, str]:
    """Return the card by media type; those that the shell does not show are left out."""
    wanted = getattr(shell.display_formatter, "active_types", ())
    data = {"text/plain": recording.summary()}
    if "text/html" in wanted:
        data["text/html"] = recording._repr_html_()
    return data


def show(shell: Any, recording: Recording) -> None:
    """Show the card as an output of the running cell."""
    # Made here and not by the formatters, which would show an internal problem as the cell's traceback.
    try:
        data = bundle(shell, recording)
    except Exception as error:
        report(f"the card cannot be shown: {type(error).__name__}: {error}")
    else:
        shell.display_pub.publish(data=data, metadata={"kernelscope": {"card": True}})


def show_charts(shell: Any, recording: Recording) -> None:
    """Show the charts as an output of the running cell, where the shell shows HTML."""
    if "text/html" not in getattr(shell.display_formatter, "active_types", ()):
        report("--charts needs a notebook; kernelscope.charts has the figures")
        return
    try:
        from kernelscope.views.charts import charts_html

        html = charts_html(recording)
    except Exception as error:
        report(f"the charts cannot be shown: {type(error).__name__}: {error}")
    else:
        shell.display_pub.publish(data={"text/plain": "charts", "text/html": html})


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
    if "text/html" not in getattr(shell.display_formatter, "active_types", ()):
        if asked:
            print("kernelscope: a terminal shows no timeline; recording.to_html(\"report.html\") writes it into a file "
                  "for the browser, and _kernelscope is the newest recording")
    elif any(recording.arrow(name).num_rows for name in ("launches", "activities", "graph_events", "builds")):
        try:
            from kernelscope.views.timeline.widget import timeline

            timeline(recording)._ipython_display_()
        except Exception as error:
            report(f"the timeline cannot be shown: {type(error).__name__}: {error}")
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
    try:
        bundle(shell, recording)
    except Exception as error:  # The hook would show it as a traceback and call the cell failed.
        report(f"the card cannot be shown: {type(error).__name__}: {error}")
        quiet = True
    # Some versions of IPython have counted on by now, and the hook derives its number from the count.
    ahead = 0 if number is None else hook.prompt_count - number
    shell.execution_count -= ahead
    try:
        if quiet:
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
        rows = recording.arrow("launches").num_rows if recording is not None else _rows(text)
        if rows >= MANY_LAUNCHES and not announced:
            announced = True
            print(f"{doing}: {rows:,} launches", file=sys.stderr, flush=True)

    return tell


def _rows(text: str) -> int:
    """Return the launches in ``reading 1200000 rows of launches``, as `kernelscope.load` reports it."""
    words = text.split()
    return int(words[1]) if words[-1:] == ["launches"] and words[1].isdigit() else 0


def counts(recordings: list[Recording]) -> str:
    """Return how much was recorded: ``2 recordings with 120 launches``."""
    from kernelscope.analysis.columns import ran

    launches = sum(int(ran(each).sum()) for each in recordings)
    return (f"{len(recordings):,} recording{'' if len(recordings) == 1 else 's'} "
            f"with {launches:,} launch{'' if launches == 1 else 'es'}")


def saved(recording: Recording, path: str) -> str:
    """Save the recording and return a line that says where; says meanwhile that a long one takes time."""
    from kernelscope.commands.export import check_recording_name
    from kernelscope.recording.file import save
    from kernelscope.units import size

    check_recording_name(path)
    target = save(recording, path, progress=progress(recording, f"kernelscope: writing {path}"))
    return f"wrote {target} ({size(target.stat().st_size)})"
