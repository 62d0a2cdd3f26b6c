"""``%kernelscope`` and ``%%kernelscope``: read the line, call the verb, and make a `UsageError` of what is wrong."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

import kernelscope
from kernelscope.commands import output, recover, session
from kernelscope.commands.cell import cell_parser, parse_cell
from kernelscope.commands.verb import (
    HELP_OPTIONS,
    HelpAsked,
    NotebookParser,
    Verb,
    load_verb,
    magic_verbs,
    notebook_parser,
    quoted,
    unknown_verb,
    words_of,
)
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import see

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
    for line in filter(None, [magics.install(), recover.notice()]):
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

    @property
    def recordings(self) -> list[Recording]:
        """Return the recordings of this session, in order."""
        return self._session.recordings

    def _line_magic(self) -> Any:
        # IPython calls a magic with the line alone and shows its docstring as help; a bound method's is read-only.
        # Names in braces are expanded, as in other line magics: %kernelscope save {path}
        def kernelscope(line: str) -> None:
            run_line(self._session, line)

        kernelscope.__doc__ = f"Record all cells, or look at what was recorded.\n\n{words_text()}"
        return kernelscope

    def _cell_magic(self) -> Any:
        @no_var_expand
        def kernelscope(line: str, cell: str) -> Recording | None:
            try:
                return self._session.run(parse_cell(line), cell)
            except HelpAsked as message:
                print(message)
                return None

        kernelscope.__doc__ = cell_parser().format_help()
        return kernelscope


def run_line(notebook: session.NotebookSession, line: str) -> None:
    """Run a ``%kernelscope`` line.

    Raises
    ------
    UsageError
        The line is wrong, or what it asks for cannot be had: one line says why.
    """
    verb: Verb | None = None
    try:
        name, asked = parse_line(line)
        if name is None:
            print(f"{notebook.state()}; %kernelscope help lists the sub-commands")
        else:
            verb = load_verb(name)
            assert verb.magic is not None
            verb.magic(notebook, asked)
    except HelpAsked as message:
        print(message)
    except (KernelScopeError, ValueError) as error:
        if verb is not None and verb.runs_user_code and not isinstance(error, KernelScopeError):
            raise
        raise UsageError(" ".join(str(error).split())) from None


def parse_line(line: str) -> tuple[str | None, Namespace]:
    """Return the verb of a ``%kernelscope`` line, and what follows it as the verb's arguments.

    Raises
    ------
    UsageError
        The line asks for what there is not; one line says what is wrong.
    HelpAsked
        It asks for help.
    """
    name, _, rest = line.strip().partition(" ")
    name, rest = "help" if name in HELP_OPTIONS else name, rest.strip()
    if not name:
        return None, Namespace()
    if name.startswith("-"):
        raise UsageError(see(f"no sub-command {name!r}{_elsewhere(name)}", "%kernelscope help"))
    if name not in magic_verbs():
        unknown_verb(name)
    verb = load_verb(name)
    parser = notebook_parser(name, verb)
    if verb.whole is not None:
        # An expression keeps its quotes and spaces.
        if not {*HELP_OPTIONS}.isdisjoint(rest.split()):
            parser.print_help()
        return name, parser.parse_args([rest] if rest else [])
    words = words_of(rest, parser)
    if verb.default and words[:1] not in ([each] for each in HELP_OPTIONS) and (
            not words or words[0].startswith("-")):
        words.insert(0, verb.default)
    found, unknown = parser.parse_known_args(words)
    if unknown:
        reporting: NotebookParser = found.parser
        if unknown[0].startswith("-"):
            more = _elsewhere(unknown[0])
        else:  # the first word of a verb with sub-verbs is a sub-verb
            more = quoted(words if reporting is parser else words[1:], unknown[0])
        reporting.error(f"unrecognized arguments: {' '.join(unknown)}{more}")
    return name, found


def _elsewhere(option: str) -> str:
    """Say of an option of ``%kernelscope on`` or ``%%kernelscope`` that it is one of theirs."""
    known = [parser.prog for parser in (notebook_parser("on", load_verb("on")), cell_parser())
             if option.partition("=")[0] in parser._option_string_actions]
    return f"; {option} is an option of {' and '.join(known)}" if known else ""


def words_text() -> str:
    """Return the sub-commands, one on each line with its summary."""
    width = max(map(len, magic_verbs()))
    lines = [f"  {each.ljust(width)}  {summary}" for each, summary in magic_verbs().items()]
    return "\n".join(["%kernelscope WORD, where WORD is one of:", *lines, "",
                      "%kernelscope help WORD shows the help of one. "
                      "%%kernelscope? is about a cell that is recorded."])


def _help_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("word", metavar="WORD", nargs="?", help="one of the sub-commands")


def _help(notebook: session.NotebookSession, asked: Namespace) -> None:
    if asked.word is None:
        print(words_text())
    elif asked.word in magic_verbs():
        notebook_parser(asked.word, load_verb(asked.word)).print_help()
    else:
        unknown_verb(asked.word)


VERBS = {"help": Verb(_help_arguments, magic=_help)}
