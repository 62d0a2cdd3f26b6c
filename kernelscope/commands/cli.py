"""``kernelscope``: reads the command line, calls the verb, and makes an exit code of how that ended."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence

from kernelscope import __version__
from kernelscope.commands.verb import COMMANDS, Parser, command_parser, load_verb
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import parse_arguments

#: What a shell reports for a program that a closed pipe ended.
_BROKEN_PIPE = 141
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments without the program's name; `sys.argv` has them otherwise.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        parser = parser_of({words[0]} if words else ())
        for suffix, verb in ((".kscope", "show"), (".py", "run")):
            if words and words[0].endswith(suffix):
                parser.error(f"{words[0]!r} is not a verb; did you mean 'kernelscope {verb} {words[0]}'?")
        arguments = parse_arguments(parser, words)
        code: int = arguments.main(arguments)
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


def parser_of(verbs: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the command line's parser, with the arguments of these verbs; of the others it has the names."""
    parser = Parser(prog="kernelscope", description="Show every CUDA kernel launch of a program.")
    parser.add_argument("--version", action="version", version=f"kernelscope {__version__}")
    added = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in COMMANDS.items():
        if name in verbs:
            verb = load_verb(name)
            command_parser(name, verb, added)
            added.choices[name].set_defaults(main=verb.main)
        else:
            added.add_parser(name, help=summary)
    return parser
