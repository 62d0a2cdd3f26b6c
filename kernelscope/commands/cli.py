"""``kernelscope``: reads the command line, calls the verb, and makes an exit code of how that ended."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from itertools import takewhile

from kernelscope import __version__
from kernelscope.commands.verb import JsonParser, Parser, command_parser, command_verbs, load_verb
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
    is_json = _asks_for_json(words)
    try:
        parser = parser_of({words[0]} if words else (), JsonParser if is_json else Parser)
        for suffix, verb in ((".kscope", "show"), (".py", "run")):
            if words and words[0].endswith(suffix):
                parser.error(f"{words[0]!r} is not a verb; did you mean 'kernelscope {verb} {words[0]}'?")
        arguments = parse_arguments(parser, words)
        code: int = arguments.main(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KernelScopeError as error:
        return _failed(" ".join(str(error).split()), error, is_json)
    except BrokenPipeError:
        # The reader has gone (`| head`). Python flushes stdout once more at exit, which must not fail again.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except ImportError as error:
        return _failed(f"{error}; kernelscope doctor says what is missing", error, is_json)
    except OSError as error:  # such as a full disk behind stdout, which takes no answer either
        print(f"kernelscope: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        return _failed("interrupted", error, is_json, _INTERRUPTED)
    return code


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether errors are to be JSON too; what follows the program of ``kernelscope run`` is the program's."""
    own = list(words)
    if words[:1] == ["run"]:
        own = list(takewhile(lambda word: word != "-m" and not word.endswith(".py"), words))
    return "--json" in own


def _failed(line: str, error: BaseException, is_json: bool, code: int = 1) -> int:
    """Say what went wrong, on a line of stderr or as JSON, and return the exit code."""
    if not is_json:
        print(f"kernelscope: {line}", file=sys.stderr)
        return code
    from kernelscope.commands.output import print_answer
    from kernelscope.views.answer import error_answer

    print_answer(error_answer(line, type(error).__name__))
    return code


def parser_of(verbs: Collection[str] | None = None, kind: type[Parser] = Parser) -> argparse.ArgumentParser:
    """Return the command line's parser, with the arguments of these verbs, by default of all; of others the names."""
    parser = kind(prog="kernelscope", description="Show every CUDA kernel launch of a program.")
    parser.add_argument("--version", action="version", version=f"kernelscope {__version__}")
    added = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in command_verbs().items():
        if verbs is None or name in verbs:
            verb = load_verb(name)
            command_parser(name, verb, added)
            added.choices[name].set_defaults(main=verb.main)
        else:
            added.add_parser(name, help=summary)
    return parser
