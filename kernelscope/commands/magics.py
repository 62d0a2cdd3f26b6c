"""``%kernelscope`` and ``%%kernelscope``: their lines are parsed here, and the session does the work."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

import kernelscope
from kernelscope import __version__
from kernelscope.commands import output, recover, session
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


_ATTRIBUTE = "_kernelscope_magics"
# Where they wait in ``shell.meta``, which IPython has for extensions, while they are not loaded.
_UNLOADED = "kernelscope"


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to an IPython shell: ``%load_ext kernelscope``. A second time changes nothing.

    Where they were unloaded before, the session's recordings are there again. ``%reload_ext kernelscope`` also goes on
    with what ``%kernelscope on`` began; a ``%load_ext`` after an ``%unload_ext`` does not, since the user ended it.
    """
    if hasattr(shell, _ATTRIBUTE):
        return
    magics = shell.meta.pop(_UNLOADED, None) or KernelScopeMagics(shell)
    setattr(shell, _ATTRIBUTE, magics)
    told = [magics.install(), recover.notice()]
    for line in filter(None, told):
        print(line)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics and everything that they hooked out of the shell again: ``%unload_ext kernelscope``.

    The recordings stay in memory as long as the shell, for a later ``%load_ext kernelscope``.
    """
    magics = getattr(shell, _ATTRIBUTE, None)
    if magics is not None:
        delattr(shell, _ATTRIBUTE)
        shell.meta[_UNLOADED] = magics
        magics.uninstall()


class KernelScopeMagics:
    """The two magics of one shell.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session = session.NotebookSession(shell)
        self._studied: Any = None
        self._unloaded: Any = None  # the package's spec when they were unloaded
        self._magics = {"line": self._line_magic(), "cell": self._cell_magic()}

    def install(self) -> str | None:
        """Register the magics and the session's hooks; return a line on what is left of an earlier time, if anything.

        What ``%kernelscope on`` began goes on if the extension was reloaded, and not if it was unloaded and loaded.
        """
        always, self._session.always = self._session.always, None
        # importlib.reload, which %reload_ext calls in between, gives the package another spec.
        if always is not None and self._unloaded is not kernelscope.__spec__:
            self._session.always = always
        for kind, function in self._magics.items():
            self._shell.magics_manager.register_function(function, kind, "kernelscope")
        self._session.install()
        if self._studied is not None:
            from kernelscope.commands.study import VARIABLE

            self._shell.push({VARIABLE: self._studied}, interactive=False)
        if not self._session.recordings and self._session.always is None:
            return None
        goes_on = "; every cell is recorded, as before" if self._session.always is not None else ""
        return f"kernelscope: {output.counts(self._session.recordings)} of this session kept{goes_on}"

    def uninstall(self) -> None:
        """Undo `install`."""
        self._unloaded = kernelscope.__spec__
        self._session.uninstall()
        for kind, function in self._magics.items():
            registered = self._shell.magics_manager.magics[kind]
            if registered.get("kernelscope") is function:
                del registered["kernelscope"]
        if self._studied is not None:
            from kernelscope.commands.study import forget

            forget(self._shell, self._studied)

    @property
    def recordings(self) -> list[Recording]:
        """The recordings of this session, in order."""
        return self._session.recordings

    def _line_magic(self) -> Any:
        # IPython calls a magic with the line alone and shows its docstring as help; a bound method's is read-only.
        # Names in braces are expanded, as in other line magics: %kernelscope save {path}
        def kernelscope(line: str) -> None:
            self._run_command(line)

        kernelscope.__doc__ = session.line_arguments.__doc__
        return kernelscope

    def _cell_magic(self) -> Any:
        @no_var_expand
        def kernelscope(line: str, cell: str) -> Recording | None:
            return self._session.run(session.parse_cell(line), cell)

        kernelscope.__doc__ = session.cell_arguments.__doc__
        return kernelscope

    def _run_command(self, line: str) -> None:
        asked = session.parse_line(line)
        if asked.command == "whatif":  # what the cell raises that is run again is the user's, and is left as it is
            self._whatif(asked.target)
            return
        if asked.command == "study":  # it raises UsageError itself, and Ctrl-C is left as it is
            self._study(asked.target)
            return
        try:
            if asked.command is None:
                print(f"{self._state()}; {session.LINE_HELP} lists what can be asked for")
            elif asked.command == "on":
                self._on(asked)
            elif asked.command == "export":
                self._export(asked.target, asked.to)
            elif asked.target is None:
                getattr(self, f"_{asked.command}")()
            else:
                getattr(self, f"_{asked.command}")(asked.target)
        except (KernelScopeError, ValueError) as error:
            raise UsageError(" ".join(str(error).split())) from None

    def _on(self, asked: Namespace) -> None:
        asked.journal, problem = recover.journal_for(asked)
        self._session.always = session.automatic(asked)
        shown = "no cards are shown" if asked.quiet else "cells that launch and compile nothing show no card"
        print(f"kernelscope: every cell from the next one on is recorded; {shown}")
        if problem is not None:
            print(f"kernelscope: {problem}")

    def _off(self) -> None:
        self._session.always = None
        print("kernelscope: only cells that begin with %%kernelscope are recorded")

    def _state(self) -> str:
        from kernelscope import dryrun

        always = self._session.always
        which = "cells that begin with %%kernelscope"
        if always is not None:
            code, quiet = ", with code" if always.code else "", ", no cards" if always.quiet else ""
            mode = "" if always.mode == "grow" else f", mode {always.mode}"
            kept = ", each with a journal while it runs" if always.journal else ""
            which = f"every cell (detail {always.detail}{mode}{code}{quiet}){kept}"
        driver = "; dry run: kernels do not execute" if dryrun.is_enabled() else ""
        return (f"kernelscope {__version__}: records {which}; "
                f"{output.counts(self._session.recordings)} in this session{driver}")

    def _help(self, word: str | None = None) -> None:
        print(session.help_text(word))

    def _status(self) -> None:
        print(self._state())

    def _cells(self) -> None:
        from kernelscope.views.cells import cells_card, cells_text

        recordings = self._session.recordings
        if recordings:
            data = {"text/plain": cells_text(recordings), "text/html": cells_card(recordings)}
            self._shell.display_pub.publish(data=data)
        else:
            print("no cell was recorded yet")

    def _report(self, cell: str | None = None) -> None:
        from kernelscope.commands.show import find_cell

        output.show(self._shell, find_cell(self._session.recordings, cell))

    def _timeline(self, cell: str | None = None) -> None:
        from kernelscope.commands.show import find_cell

        output.show_timeline(self._shell, find_cell(self._session.recordings, cell), asked=True)

    def _inspect(self, wanted: str | None = None) -> None:
        from kernelscope.commands.inspect import inspector_of

        inspector_of(self._shell, lambda: self.recordings, wanted)._ipython_display_()

    def _graph(self, wanted: str | None = None) -> None:
        from kernelscope.commands.show import newest_graph

        newest_graph(self._session.recordings, wanted)._ipython_display_()

    def _whatif(self, asked: str | None = None) -> None:
        from kernelscope.commands.whatif import run_whatif

        run_whatif(self._shell, self.recordings, asked)

    def _study(self, asked: str | None = None) -> None:
        from kernelscope.commands.study import run_study

        run_study(self._shell, asked, self._keep_study)

    def _keep_study(self, result: Any) -> None:
        self._studied = result

    def _save(self, path: str) -> None:
        whole = self._whole("save")
        print(f"kernelscope: {session.saved(whole, path)}, {output.counts(self._session.recordings)}")

    def _export(self, path: str, form: str | None) -> None:
        from kernelscope.commands.export import exported
        from kernelscope.views.exports import exporter_named_by

        print(f"kernelscope: {exported(self._whole('export'), form or exporter_named_by(path).name, path)}")

    def _whole(self, verb: str) -> Recording:
        """All recordings of this session as one."""
        from kernelscope.recording.merge import merge

        recordings = self._session.recordings
        if not recordings:
            raise KernelScopeError(f"there is nothing to {verb}: no cell was recorded yet")
        return recordings[0] if len(recordings) == 1 else merge(recordings, name="")

    def _load(self, path: str) -> None:
        from kernelscope.recording.file import load

        recording = load(path, progress=output.progress(None, f"kernelscope: reading {path}"))
        self._session.keep(recording)
        output.show(self._shell, recording)
        output.show_timeline(self._shell, recording)

    def _recover(self, asked: str | None = None) -> None:
        from kernelscope.commands.recover import run_recover

        recording = run_recover(asked)
        if recording is not None:
            self._session.keep(recording)
            output.show(self._shell, recording)
            output.show_timeline(self._shell, recording)

    def _dryrun(self) -> None:
        from kernelscope import dryrun

        dryrun.enable()
        print("kernelscope: dry run: kernels compile and launch, and do not execute")

    def _attach(self, expression: str) -> None:
        try:
            kernel = self._shell.ev(expression)
        except Exception as error:
            from kernelscope.commands.inspect import live_kernels

            near = did_you_mean(expression, live_kernels(self._shell))
            raise UsageError(f"{expression!r} is no kernel: {type(error).__name__}: {error}{near}") from None
        if not self._session.attach(kernel):
            print(f"kernelscope: {expression} is attached when the next recording starts")
