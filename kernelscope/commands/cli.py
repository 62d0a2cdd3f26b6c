"""``kernelscope``: the verbs of the magics for scripts and CI. Arguments are read here; `cli_*` modules do the rest."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from kernelscope import __version__
from kernelscope.commands import study
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import explained, parse_arguments, see
from kernelscope.views import exports

#: What a shell reports for a program that a closed pipe ended.
_BROKEN_PIPE = 141
_INTERRUPTED = 130

# Each verb's module is imported when it is asked for: ``kernelscope --help`` needs neither NumPy nor pyarrow.
_HOMES = {
    "run": "kernelscope.commands.run",
    "show": "kernelscope.commands.show",
    "inspect": "kernelscope.commands.inspect",
    "graph": "kernelscope.commands.graph",
    "export": "kernelscope.commands.export",
    "study": "kernelscope.commands.study",
    "recover": "kernelscope.commands.recover",
    "demo": "kernelscope.commands.demo",
    "doctor": "kernelscope.commands.doctor",
}

_RUN = """\
Run a Python script, or a module with -m, and record every CUDA kernel launch that it makes.

The program runs as with `python script.py`: sys.argv, sys.path, __main__, its exit code and its errors are its own.
Everything behind the script's name is passed to it, except a final `-o FILE.kscope`. The recording is saved however
the program ends."""

_SHOW = """\
Show a .kscope file. Without an option, print the card as text.

--json prints one object:
  schema_version   version of the tables' columns, as the reference documents them
  metadata         versions, detail, clock, dry_run: what was on
  summary          one object a cell: label, status, launches, kernels, compiles, disk_hits, memory_hits,
                   failed_compiles, errors, wall_ns, host_ns and <phase>_ns
  tables           each table as a list of rows by column; null is what was not recorded"""

_INSPECT = """\
Show the kernels of a .kscope file; of one kernel the specializations with their registers, memory, spills, launch
configurations, occupancy, disk cache and reasons; of one specialization everything, its compiles' passes included.

KERNEL is a kernel's qualified name, the last part of it, or its row. Specializations are numbered by kernel, from 1.
Code is in a file that was recorded with --code; SASS needs nvdisasm where it was not recorded.

--json prints one object: notice, and kernels with their specializations, uses, compiles and steps."""

_GRAPH = """\
Show a CUDA graph of a .kscope file: its nodes in layers, with kernel, launch configuration and time; of a graph of more
than 80 nodes a summary.

ID is the graph's row in the table graphs; a file with one graph needs none."""

_EXPORT = f"""\
Write a .kscope file in another format, beside it unless -o says where.

{exports.help_text()}

An export of that name that is there is replaced. Paths of this machine are cut to the files' names, as in any saved
file."""


_RECOVER = """\
List the journals that recordings of killed processes left behind, and write one of them as a .kscope file: the one that
is named, or the newest that no process writes to.

FOLDER is a folder of journals, a journal, or the name of one in the default folder. A journal that a process still
writes to is never changed or removed; where it is named, what it holds by now is written.

--json prints one object: folder; journals with name, state, process and counts; recovered, written, removed."""


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are one line on stderr, and exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {see(explained(self, message), f'{self.prog} --help')}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments without the program's name; `sys.argv` has them otherwise.
    """
    parser = _parser()
    words = sys.argv[1:] if argv is None else list(argv)
    for suffix, verb in ((".kscope", "show"), (".py", "run")):
        if words and words[0].endswith(suffix):
            parser.error(f"{words[0]!r} is not a verb; did you mean 'kernelscope {verb} {words[0]}'?")
    arguments = parse_arguments(parser, words)
    try:
        code: int = importlib.import_module(_HOMES[arguments.verb]).main(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KernelScopeError as error:
        print("kernelscope: " + " ".join(str(error).split()), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has gone (`| head`). Python flushes stdout once more at exit, which must not fail again.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except ImportError as error:
        print(f"kernelscope: {error}; kernelscope doctor says what is missing", file=sys.stderr)
        return 1
    except OSError as error:  # such as a full disk behind stdout
        print(f"kernelscope: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("kernelscope: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kernelscope", description="Show every CUDA kernel launch of a program.")
    parser.add_argument("--version", action="version", version=f"kernelscope {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    raw = argparse.RawDescriptionHelpFormatter

    run = verbs.add_parser("run", help="run a script and record it", description=_RUN, formatter_class=raw,
                           usage="kernelscope run [options] (script.py | -m module) [argument ...]")
    run.add_argument("-o", "--output", metavar="FILE", help="where to save; script.kscope in this folder otherwise")
    run.add_argument("-n", "--name", help="what to call the recording; the script's name otherwise")
    run.add_argument("--detail", choices=("launch", "phases"), default="phases",
                     help="every phase of a launch (the default), or its two ends at less than half the cost")
    side = run.add_mutually_exclusive_group()
    side.add_argument("--no-gpu", dest="gpu", action="store_const", const="none", default="cupti",
                      help="leave what the GPU did out: no CUPTI, and none of its cost")
    side.add_argument("--events", dest="gpu", action="store_const", const="events",
                      help="time kernels with CUDA events where CUPTI cannot be had; this perturbs what it measures")
    run.add_argument("--code", action="store_true",
                     help="record the kernels' code too, from the source to the machine code; it may be private")
    run.add_argument("--mode", choices=("grow", "ring", "stop"), default="grow",
                     help="keep all launches (grow, the default), the newest (ring), or the first ones (stop)")
    run.add_argument("--capacity", metavar="N", type=_launches, help="how many ring and stop keep (default: 1000000)")
    run.add_argument("--recorder", choices=("native", "python"), help="which one; the native one where it is there")
    run.add_argument("--journal", action="store_true",
                     help="keep what is recorded in files as well, from which `kernelscope recover` brings it back")
    run.add_argument("--journal-folder", metavar="FOLDER", help="where to keep the journal; implies --journal")
    run.add_argument("--dryrun", action="store_true", help="run without a GPU: kernels compile and do not execute")
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module instead")
    run.add_argument("script", nargs=argparse.REMAINDER, metavar="script.py", help="the script and its arguments")
    run.set_defaults(parser=run)

    show = verbs.add_parser("show", help="show a .kscope file", description=_SHOW, formatter_class=raw)
    show.add_argument("file", metavar="FILE.kscope")
    what = show.add_mutually_exclusive_group()
    what.add_argument("--cells", action="store_true", help="one line a cell")
    what.add_argument("--launches", action="store_true", help="one line a launch")
    what.add_argument("--json", action="store_true", help="everything, for programs")
    show.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
    _add_redaction(show)
    show.add_argument("-o", "--output", metavar="OUT.kscope", help="with --redact or --no-texts: write it as a file")
    show.add_argument("--limit", metavar="ROWS", type=_rows, default=100,
                      help="how many launches --launches prints; 0 for all (default: 100)")
    show.set_defaults(parser=show)

    inspect = verbs.add_parser("inspect", help="show a file's kernels, specializations and code", formatter_class=raw,
                               description=_INSPECT)
    inspect.add_argument("file", metavar="FILE.kscope")
    inspect.add_argument("kernel", metavar="KERNEL", nargs="?", help="which kernel")
    inspect.add_argument("--specialization", metavar="N", type=_number, help="everything of this specialization")
    inspect.add_argument("--code", choices=("source", "types", "mlir", "llvm", "ptx", "sass"),
                         help="print this code and nothing else; of specialization 1 unless N is given")
    inspect.add_argument("--diff", metavar=("A", "B"), nargs=2, type=_number,
                         help="how two specializations differ, with --code in their code too")
    inspect.add_argument("--sort", choices=("launches", "compile", "registers"), default="launches",
                         help="what to sort kernels by, largest first (default: %(default)s)")
    inspect.add_argument("--json", action="store_true", help="the same, for programs")
    inspect.set_defaults(parser=inspect)

    graph = verbs.add_parser("graph", help="show a file's CUDA graph: as text, picture, page or Graphviz text",
                             description=_GRAPH, formatter_class=raw)
    graph.add_argument("file", metavar="FILE.kscope")
    graph.add_argument("graph", metavar="ID", nargs="?", type=_graph, help="which graph")
    form = graph.add_mutually_exclusive_group()
    form.add_argument("--dot", action="store_true", help="print it in Graphviz's language")
    form.add_argument("--svg", metavar="OUT.svg", help="write its picture")
    form.add_argument("--html", metavar="OUT.html", help="write a page in which it is moved, zoomed and opened")
    graph.set_defaults(parser=graph)

    export = verbs.add_parser("export", help="write a .kscope file as a Perfetto trace, HTML, Parquet or CSV",
                              description=_EXPORT, formatter_class=raw)
    export.add_argument("file", metavar="FILE.kscope")
    export.add_argument("--to", required=True, choices=tuple(exports.EXPORTERS), help="the format")
    export.add_argument("-o", "--output", metavar="PATH", help="where to write: a file, or a folder for tables")
    export.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
    _add_redaction(export)
    export.set_defaults(parser=export)

    study.fill(verbs.add_parser("study", help="measure what a launch costs the host, in several versions"))

    recover = verbs.add_parser("recover", help="bring back what a killed process had recorded", formatter_class=raw,
                               description=_RECOVER)
    recover.add_argument("folder", metavar="FOLDER", nargs="?", help="where to look; the default folder otherwise")
    recover.add_argument("--list", action="store_true", help="list what there is and do nothing else")
    recover.add_argument("-o", "--output", metavar="FILE", help="where to write; the journal's name.kscope otherwise")
    recover.add_argument("--remove", action="store_true", help="remove the journal when the file is written")
    recover.add_argument("--json", action="store_true", help="the same, for programs")
    recover.set_defaults(parser=recover)

    demo = verbs.add_parser("demo", help="run the quickstart notebook and write it as HTML", description=(
        "Execute the quickstart notebook in an IPython kernel and write it, with its cards, as one HTML file that "
        "needs no network. It runs on the GPU where there is one, and otherwise as a dry run."))
    demo.add_argument("--out", metavar="FILE", default="build/demo/quickstart.html",
                      help="where to write (default: %(default)s)")
    demo.add_argument("--notebook", metavar="FILE.ipynb", help="another notebook")
    demo.set_defaults(parser=demo)

    doctor = verbs.add_parser("doctor", help="say what is installed and what would work", description=(
        "Say what is installed, whether this machine has a GPU, whether the dry run works, which probes would, and "
        "what is missing with the command that brings it, and what recording costs, if that was measured. Exit code 0 "
        "if recording is possible, 1 otherwise."))
    doctor.add_argument("--json", action="store_true", help="the same, for programs")
    doctor.add_argument("--calibrate", action="store_true",
                        help="measure what recording costs a launch here, on the GPU or else on the dry run, for the "
                             "recordings to come to state; nothing else is examined")
    doctor.add_argument("--seconds", type=_seconds, metavar="S", default=20.0,
                        help="how long --calibrate measures (default: 20, and some seconds to start and to end)")
    doctor.set_defaults(parser=doctor)
    return parser


def _add_redaction(verb: argparse.ArgumentParser) -> None:
    what = verb.add_mutually_exclusive_group()
    what.add_argument("--redact", action="store_true",
                      help="strip source, code and names; what is left stays readable under neutral names")
    what.add_argument("--no-texts", action="store_true",
                      help="strip the source of cells, code, and the messages of exceptions; names stay")


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of a specialization, from 1")
    return int(text)


def _graph(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a graph's number; FILE.kscope comes before it")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, up to 3600")
    return value


def _launches(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of launches, from 1")
    return int(text)


def _rows(text: str) -> int:
    value = int(text) if text.isdecimal() else -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return value
