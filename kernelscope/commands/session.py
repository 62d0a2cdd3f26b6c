"""The recordings of one IPython shell: which cell is recorded, from IPython's events, and what was recorded so far.

A recorded cell is run by IPython itself. Its ``%%kernelscope`` line is emptied by an input transformer, the recorder
starts in ``pre_run_cell`` and stops in ``post_run_cell``; so await at top level, ``Out``, errors and Ctrl-C are
IPython's own. The cell magic as such runs only inside another magic's cell, where IPython has no events for us.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from kernelscope.commands import output
from kernelscope.commands.cell import (
    CellOptions,
    cleaned,
    heading,
    is_for_another_magic,
    native_options,
    only_manages,
    without_heading,
)
from kernelscope.commands.tracebacks import TracebackFilter
from kernelscope.errors import KernelScopeError
from kernelscope.registry import features, loaded

if TYPE_CHECKING:
    from kernelscope.dask.cluster import ClusterRecorder
    from kernelscope.recorder.recorder import Recorder
    from kernelscope.recording.model import Recording


#: The variable that holds the newest recording.
VARIABLE = "_kernelscope"


@dataclass
class OpenCell:
    """A cell that runs, recorded or not.

    Attributes
    ----------
    info : ExecutionInfo or None
        IPython's object for this run; None while a magic is about to run its body.
    text : str
        The cell's source.
    number : int or None
        Its execution count.
    options : CellOptions or None
        How it is recorded; None if it is not.
    automatic : bool
        Whether it is recorded because of ``%kernelscope on``.
    by_magic : bool
        Whether the cell magic runs it as the body of its cell.
    has_ended : bool
        Whether the user's code has ended.
    """

    info: Any
    text: str
    number: int | None
    options: CellOptions | None = None
    automatic: bool = False
    by_magic: bool = False
    has_ended: bool = False
    recorder: Recorder | ClusterRecorder | None = None
    recording: Recording | None = None
    thread: int = field(default_factory=threading.get_ident)

    def stop(self, error: BaseException | None) -> None:
        """Stop recording at the end of the user's code, with the exception that ended it.

        What follows is not the cell's time: showing a traceback, drawing figures, keeping its history.
        """
        recorder = self.recorder
        if recorder is None:
            return
        try:
            try:
                if not self.has_ended:
                    self.has_ended = True
                    recorder.end_cell(error)
            finally:
                self.recording = recorder.stop()
        except (Exception, KeyboardInterrupt) as problem:
            self.recording = recorder._recording  # a Ctrl-C leaves it whole where only registers or code were read
            output.report(problem)
        finally:
            if not recorder.is_recording:  # else a Ctrl-C came before anything was done: the cell's end stops it
                self.recorder = None


class NotebookSession:
    """Records the cells of one shell.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's shell.

    Attributes
    ----------
    recordings : list of Recording
        Those of this session, in order.
    shell : InteractiveShell
        The shell.
    always : CellOptions or None
        How every cell is recorded, while `%kernelscope on` holds.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.recordings: list[Recording] = []
        self.always: CellOptions | None = None
        self._variables: dict[str, Any] = {}
        self._open: list[OpenCell] = []
        self._attached: list[Any] = []
        self._errors = TracebackFilter(shell, self._error_is_shown)

    # ---- Into the shell and out of it ----

    def install(self) -> None:
        """Add the transformer and the callbacks, and the variables that there were before."""
        self.shell.input_transformers_cleanup.append(self.transform)
        for event, callback in self._callbacks():
            self.shell.events.register(event, callback)
        # First of all: what others do after the code, such as drawing figures, is not the cell's time.
        after = self.shell.events.callbacks["post_execute"]
        after.insert(0, after.pop(after.index(self.post_execute)))
        self.shell.push(self._variables, interactive=False)

    def uninstall(self) -> None:
        """Take them out again; a cell that is being recorded is recorded until here."""
        ended, self._open = self._open, []
        for cell in ended:
            recording = self._finish(cell, None)
            if recording is not None:
                self._show(cell, recording)
        self._errors.undo()
        for event, callback in self._callbacks():
            if callback in self.shell.events.callbacks[event]:
                self.shell.events.unregister(event, callback)
        if self.transform in self.shell.input_transformers_cleanup:
            self.shell.input_transformers_cleanup.remove(self.transform)
        self.shell.drop_by_id(self._variables)  # but for names that the user has given to something else

    def _callbacks(self) -> list[tuple[str, Callable[..., None]]]:
        return [("pre_run_cell", self.pre_run_cell), ("post_execute", self.post_execute),
                ("post_run_cell", self.post_run_cell)]

    # ---- Cells that IPython runs ----

    def transform(self, lines: list[str]) -> list[str]:
        """Take the first line of a recorded cell away. IPython calls this, with the cell's lines."""
        # Inside a running cell, a magic may transform its body and run it without any event (%%time does).
        return lines if self._running() else without_heading(lines, self.shell.transform_cell)

    # It has none. IPython leaves such transformers out where it asks whether a cell is complete, so that in a
    # terminal the cell goes on until an empty line, as with any cell magic.
    vars(transform)["has_side_effects"] = True

    def pre_run_cell(self, info: Any) -> None:
        """Start recording, if this cell is to be recorded. IPython calls this."""
        running = self._running()
        if running and running[-1].by_magic and running[-1].info is None:
            running[-1].info = info  # The body of the magic's cell, whose recorder has started already.
            return
        number = self.shell.displayhook.prompt_count if info.store_history or running else None
        cell = OpenCell(info, info.raw_cell, number)
        lines = cleaned(info.raw_cell, self.shell.input_transformers_cleanup, self.transform)
        if heading(lines) is not None:
            cell.options = None if running else native_options(lines)
        elif self.always and not self.is_recording and not only_manages(lines):
            cell.options, cell.automatic = self.always, True
        self._open.append(cell)
        self._start(cell)

    def post_execute(self) -> None:
        """Mark the end of the cell's code. IPython calls this, also for messages that are no cells."""
        result = self.shell.last_execution_result
        for cell in self._open:
            if result is not None and cell.info is not None and result.info is cell.info:
                cell.stop(_error(result))

    def post_run_cell(self, result: Any) -> None:
        """Stop recording and show the card, after the cell's own traceback. IPython calls this."""
        cell = self._of(result)
        if cell is None or cell.by_magic:
            return
        self._open.remove(cell)
        if not self._open:
            self._errors.undo()
        error = KeyboardInterrupt() if result is None else _error(result)
        recording = self._finish(cell, error)
        if recording is None or cell.options is None:
            return
        try:
            if cell.options.returns and error is None and result is not None:
                result.result = recording
                output.give(self.shell, recording, cell.number, quiet=cell.options.quiet)
                self._show(cell, recording, card=False)
            else:
                self._show(cell, recording)
        except KeyboardInterrupt:  # it would be IPython's error in a callback, with its traceback
            output.report("interrupted while the card was shown: %kernelscope report shows it")
        except Exception as problem:
            output.report(problem)

    def _show(self, cell: OpenCell, recording: Recording, *, card: bool = True) -> None:
        """Show what the cell's line asks for; `card` is false where the card was shown already."""
        options = cell.options
        if options is None or options.quiet:
            return
        if card and (not cell.automatic or _has_news(recording)):
            output.show(self.shell, recording)
        if options.timeline:
            output.show_timeline(self.shell, recording)
        if options.charts:
            output.show_figures(self.shell, "charts", lambda: _charts(recording),
                                "kernelscope.charts has the figures")

    def _of(self, result: Any) -> OpenCell | None:
        """Return the cell that has ended; a cancelled one has no result, a failed one another info."""
        running = self._running()
        if result is None:
            return running[-1] if running else None
        same = [cell for cell in self._open if cell.info is not None and cell.info is result.info]
        failed = [cell for cell in running if _error(result) is not None and cell.text == result.info.raw_cell]
        return next(iter([*same, *reversed(failed)]), None)

    # ---- Cells that the magic runs ----

    def run(self, options: CellOptions, body: str) -> Recording | None:
        """Record the body of a ``%%kernelscope`` cell inside another magic's cell; return its recording.

        An error of the body is shown as usual, then the card, and then it is raised again, so that the cell around
        it ends as it would without us.
        """
        running = self._running()
        self._forget_automatic(running)
        if running and running[0].text.lstrip().startswith("%%timeit"):
            raise UsageError("%%timeit repeats its body, and each repetition would be a separate recording: "
                             "put %%kernelscope above %%timeit")
        number = running[-1].number if running else None
        cell = OpenCell(None, body, number, options, by_magic=True)
        hook = self.shell.displayhook
        outer_result = hook.exec_result
        error: BaseException | None = None
        try:
            self._start(cell)
            self._open.append(cell)
            error = _error(self.shell.run_cell(body, store_history=False))
        except BaseException as raised:
            error = raised
            raise
        finally:
            hook.exec_result = outer_result
            has_ended = cell not in self._open and cell.recorder is None  # by an %unload_ext in it
            if cell in self._open:
                self._open.remove(cell)
            recording = cell.recording if has_ended else self._finish(cell, error)
            if not has_ended and recording is not None and (error is not None or not options.returns):
                self._show(cell, recording)
            if self._open and error is not None:
                self._errors.mark_shown(error)
            elif not self._open:
                self._errors.undo()
        if error is not None:
            raise error
        return recording if options.returns else None

    def _forget_automatic(self, running: list[OpenCell]) -> None:
        """Drop what `%kernelscope on` records of a cell that has its own %%kernelscope line: it is recorded once."""
        for cell in running:
            if cell.automatic and is_for_another_magic(cell.text.lstrip().splitlines()):
                cell.stop(None)
                cell.recording = cell.options = None

    # ---- What the sub-commands ask ----

    @property
    def is_recording(self) -> bool:
        """Return whether a cell is being recorded."""
        return any(cell.recorder is not None for cell in self._open)

    def whole(self, verb: str) -> Recording:
        """Return all recordings of this session as one; where there is none, there is nothing to `verb`."""
        from kernelscope.recording.merge import merge

        if not self.recordings:
            raise KernelScopeError(f"there is nothing to {verb}: no cell was recorded yet")
        return self.recordings[0] if len(self.recordings) == 1 else merge(self.recordings, name="")

    def state(self) -> str:
        """Return which cells are recorded and how much was, in one line."""
        from kernelscope import __version__, dryrun

        always, which = self.always, "cells that begin with %%kernelscope"
        if always is not None:
            asked = always.recording
            code, quiet = ", with code" if asked.code else "", ", no cards" if always.quiet else ""
            mode = "" if asked.mode == "grow" else f", mode {asked.mode}"
            kept = ", each with a journal while it runs" if asked.journal else ""
            which = f"every cell (detail {asked.detail}{mode}{code}{quiet}){kept}"
        driver = "; dry run: kernels do not execute" if dryrun.is_enabled() else ""
        return (f"kernelscope {__version__}: records {which}; "
                f"{output.counts(self.recordings)} in this session{driver}")

    def attach(self, kernel: Any) -> bool:
        """Attach the kernel to the recording that runs, or else to the next one; return whether one runs."""
        recorder = next((cell.recorder for cell in reversed(self._open) if cell.recorder is not None), None)
        if recorder is None:
            self._attached.append(kernel)
        else:
            recorder.attach(kernel)
        return recorder is not None

    def keep(self, value: Any, variable: str = VARIABLE) -> None:
        """Make the value a variable of the user's, which leaves with the extension: by default the newest recording."""
        self._variables[variable] = value
        self.shell.push({variable: value}, interactive=False)

    def present(self, recording: Recording) -> None:
        """Make a recording that was read the newest one, and show it."""
        self.keep(recording)
        output.show(self.shell, recording)
        output.show_timeline(self.shell, recording)

    # ---- Recorders ----

    def _running(self) -> list[OpenCell]:
        """Return the open cells of this thread, outermost first."""
        return [cell for cell in self._open if cell.thread == threading.get_ident()]

    def _start(self, cell: OpenCell) -> None:
        if cell.options is None:
            return
        try:
            recorder = self._recorder(cell.options)
            cell.recorder = recorder  # before it starts: the cell's end stops it, whatever comes in between
            recorder.start()
        except (Exception, KeyboardInterrupt) as problem:
            if cell.recorder is not None and not cell.recorder.is_recording:
                cell.recorder = None
            output.report(problem)
            return
        try:
            self._errors.install()
            attached, self._attached = self._attached, []
            for kernel in attached:
                recorder.attach(kernel)
        except (Exception, KeyboardInterrupt) as problem:
            output.report(problem)
        recorder.begin_cell(cell.options.recording.name, execution_count=cell.number, source=cell.text)

    def _recorder(self, options: CellOptions) -> Recorder | ClusterRecorder:
        """Return what records a cell: this process, and a Dask cluster's workers or ipyparallel's engines if asked."""
        if options.dask is not None:
            from kernelscope.dask.cluster import ClusterRecorder

            return ClusterRecorder(self._client(options.dask), options.recording, own=True)
        if options.px is not None:
            from kernelscope.ipyparallel import EnginesRecorder

            return EnginesRecorder(self._view(options.px), options.recording)
        from kernelscope.recorder.recorder import recorder_of

        return recorder_of(output.reporting(options.recording, lambda: sys.stdout))

    def _client(self, variable: str) -> Any:
        """Return the client of a Dask cluster in a variable."""
        if variable not in self.shell.user_ns:
            raise KernelScopeError(f"there is no variable {variable!r}: --dask takes the name of one that holds a "
                                   "distributed.Client")
        return self.shell.user_ns[variable]

    def _view(self, variable: str) -> Any:
        """Return the view in a variable, or that of ``%%px``."""
        if not variable:
            magics = self.shell.magics_manager.registry.get("ParallelMagics")
            if magics is None:
                raise KernelScopeError("--px records the engines of %%px, and there is no such magic yet: "
                                       "rc[:].activate() makes it, or name a view: --px view")
            return magics.view
        if variable not in self.shell.user_ns:
            raise KernelScopeError(f"there is no variable {variable!r}: --px takes the name of one that holds a view "
                                   "of ipyparallel's engines, or a client")
        return self.shell.user_ns[variable]

    def _finish(self, cell: OpenCell, error: BaseException | None) -> Recording | None:
        """Stop if that was not done yet; keep and save the recording. None where there is none."""
        cell.stop(error)
        recording = cell.recording
        if recording is None or cell.options is None:
            return None
        self._say_since(recording)
        self.recordings.append(recording)
        self.keep(recording)
        if cell.options.output is not None:
            try:
                print(f"kernelscope: {output.saved(recording, cell.options.output)}")
            except KeyboardInterrupt:
                output.report(f"interrupted: {cell.options.output} was not written")
            except Exception as problem:
                output.report(problem)
        return recording

    def _say_since(self, recording: Recording) -> None:
        """Have the card say what changed since the cell ran before."""
        if not self.recordings:
            return
        from kernelscope.views.card.sections import say_since

        try:
            for feature in features():
                line = loaded(feature.since_last_run)(self.recordings, recording) if feature.since_last_run else None
                if line is not None:
                    say_since(recording, line)
        except Exception as problem:
            output.report(problem)

    def _error_is_shown(self, error: BaseException) -> None:
        """End the cell's time: the traceback of its code is about to be shown."""
        result = self.shell.displayhook.exec_result
        if result is None or _error(result) is not error:
            return
        for cell in self._open:
            if cell.info is not None and cell.info is result.info:
                cell.stop(error)


def _error(result: Any) -> BaseException | None:
    before: BaseException | None = result.error_before_exec
    return result.error_in_exec if before is None else before  # the user's exceptions may be false


def _charts(recording: Recording) -> str:
    from kernelscope.views.charts import charts_html

    more = [figure for feature in features() if feature.charts for figure in loaded(feature.charts)(recording)]
    return charts_html(recording, more)


def _has_news(recording: Recording) -> bool:
    """Return whether a cell recorded by `%kernelscope on` has anything to show."""
    if any(recording.arrow(name).num_rows for name in ("launches", "compilations", "graph_events", "builds")):
        return True
    return any(row["errors"] or row["dropped"] for row in recording.rows("health"))
