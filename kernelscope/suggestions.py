"""Suggestions for mistyped words: in messages about names, files, options and verbs."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

_MOST_FILES = 2_000
#: To compare words takes the product of their lengths; a mistyped word is shorter.
_MOST_LETTERS = 200
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)$")
_UNRECOGNIZED = re.compile(r"unrecognized arguments: ([^;]*)")


def nearest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known words that are spelled almost like `word`, the nearest first; case does not matter.

    Parameters
    ----------
    word : str
        What was typed.
    known : iterable of str
        What there is.
    most : int
        At most so many are returned.
    """
    from difflib import get_close_matches  # only a message needs it

    if len(word) > _MOST_LETTERS:
        return []
    by_folded: dict[str, str] = {}
    for each in known:
        if len(each) <= _MOST_LETTERS:
            by_folded.setdefault(each.casefold(), each)
    return [by_folded[each] for each in get_close_matches(word.casefold(), by_folded, most)]


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return ``; did you mean 'axpy'?`` for the end of a message, or nothing where no known word is near."""
    found = nearest(word, known, most)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def did_you_mean_file(path: str | Path, *suffixes: str) -> str:
    """Return ``; did you mean 'out.kscope'?`` where a missing file's folder has one of nearly that name.

    Parameters
    ----------
    path : str or Path
        The file that is not there.
    *suffixes : str
        What a file's name must end in to be suggested.
    """
    missing = Path(path)
    names: dict[str, str] = {}
    try:
        with os.scandir(missing.parent) as entries:
            for _, entry in zip(range(_MOST_FILES), entries, strict=False):
                if entry.name.endswith(suffixes) and entry.is_file():
                    names[Path(entry.name).stem] = entry.name
    except OSError:
        return ""
    # A common suffix would make names alike that have nothing else in common.
    found = nearest(missing.stem, names)
    return f"; did you mean {str(missing.with_name(names[found[0]]))!r}?" if found else ""


def see(message: str, place: str) -> str:
    """Return a message on one line that ends with where to read more."""
    line = " ".join(message.split())
    return f"{line} See {place}" if line.endswith("?") else f"{line}; see {place}"


def parse_arguments(parser: ArgumentParser, words: Sequence[str] | None) -> Namespace:
    """Parse, and have an unknown argument reported by the verb's parser, which is in the namespace as ``parser``."""
    found, unknown = parser.parse_known_args(words)
    if unknown:
        reporting: ArgumentParser = getattr(found, "parser", parser)
        reporting.error(f"unrecognized arguments: {' '.join(unknown)}")
    return found


def explained(parser: ArgumentParser, message: str) -> str:
    """Return what argparse says of wrong arguments on one line, with the option or choice that was probably meant.

    Parameters
    ----------
    parser : ArgumentParser
        The parser that refused.
    message : str
        What it said.
    """
    line = " ".join(message.split())
    choice = _CHOICE.search(line)
    if choice:
        return line + did_you_mean(choice[1], [each.strip("' ") for each in choice[2].split(",")])
    unknown = _UNRECOGNIZED.search(line)
    if unknown:
        typed = [word.partition("=")[0] for word in unknown[1].split() if word.startswith("-")]
        return line + next(filter(None, (did_you_mean(word, _options(parser)) for word in typed)), "")
    return line


def _options(parser: ArgumentParser) -> list[str]:
    return [each for each in parser._option_string_actions if each.startswith("--")]
