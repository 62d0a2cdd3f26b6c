"""What the functions of studies take: wrong values are refused with the value, and with what is expected."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.views.base import clean, shorten

MOST_PROCESSES = 10_000
MOST_LAUNCHES = 10_000_000
_WIDTH = 120


def shown(value: object) -> str:
    """Return a value as messages have it: on one line, and not too long."""
    try:
        return shorten(clean(repr(value)), _WIDTH)
    except Exception:  # a repr of somebody's own
        return f"a {type(value).__name__}"


def check_settings(**given: object) -> None:
    """Refuse settings that no study has.

    Parameters
    ----------
    **given
        Settings by the names of the parameters of `kernelscope.studies.launch_overhead`, `anatomy` and `suite`.

    Raises
    ------
    StudyArgumentError
        One is of another type or out of range; the message has the value and what is expected.
    """
    for name, value in given.items():
        is_right, expected = _SETTINGS[name]
        if not is_right(value):
            raise StudyArgumentError(f"{name}={shown(value)} is {expected}")


def paths(name: str, given: object) -> list[str]:
    """Return the paths that are meant: one, or several.

    Raises
    ------
    StudyArgumentError
        It is neither.
    """
    if not isinstance(given, str | os.PathLike | Iterable) or isinstance(given, bytes):
        raise StudyArgumentError(f"{name}={shown(given)} is no path and no list of paths")
    alone = isinstance(given, str | os.PathLike)
    found: list[Any] = [given] if alone else list(cast("Iterable[Any]", given))
    return [str(path(name, each)) for each in found]


def path(name: str, given: object) -> Path:
    """Return a path.

    Raises
    ------
    StudyArgumentError
        It is none.
    """
    if isinstance(given, str) or (isinstance(given, os.PathLike) and isinstance(os.fspath(given), str)):
        return Path(cast("str", given))
    raise StudyArgumentError(f"{name}={shown(given)} is no path")


def text(name: str, given: object, expected: str = "text") -> str:
    """Return text.

    Raises
    ------
    StudyArgumentError
        It is none.
    """
    if isinstance(given, str):
        return given
    raise StudyArgumentError(f"{name}={shown(given)} is no {expected}")


def is_number(value: object, least: float, most: float = math.inf) -> bool:
    """Whether it is a finite number, and not a truth value, from `least` to `most`."""
    return (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            and least <= value <= most)


def is_whole(value: object, least: float, most: float = math.inf) -> bool:
    """Whether it is a whole number, and not a truth value, from `least` to `most`."""
    return isinstance(value, int) and is_number(value, least, most)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return is_number(value, 0) and value != 0


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_COUNT = (lambda value: is_whole(value, 1, MOST_PROCESSES), f"no number from 1 to {MOST_PROCESSES:,}")
_SECONDS = "no number of seconds above 0"
_FLAG = (_is_flag, "neither True nor False")
_SETTINGS: dict[str, tuple[Callable[[object], bool], str]] = {
    "repeats": _COUNT,
    "processes": _COUNT,
    "loops": (_or_none(lambda value: is_whole(value, 1, MOST_LAUNCHES)),
              f"no number of launches in a batch, from 1 to {MOST_LAUNCHES:,}"),
    "half_width": (_or_none(lambda value: is_number(value, 0, 1) and value not in (0, 1)),
                   "no share of a launch: 0.01 is 1 %, None is off"),
    "limit_s": (_or_none(_is_seconds), f"{_SECONDS}; None is no limit"),
    "timeout_s": (_is_seconds, _SECONDS),
    "max_time_s": (_is_seconds, _SECONDS),
    "seconds": (_is_seconds, _SECONDS),
    "seed": (_or_none(lambda value: is_whole(value, -math.inf)), "no whole number"),
    "repo": (lambda value: isinstance(value, str | os.PathLike), "no path of a repository"),
    "keyword": (_or_none(lambda value: isinstance(value, str)), "no text as pytest's -k takes it"),
    "install": _FLAG,
    "no_index": _FLAG,
    "pin": _FLAG,
    "dry_run": (_or_none(_is_flag), "neither True nor False, nor None for what this process does"),
    "progress": (lambda value: value is None or value is False or callable(value),
                 "no function of a share and a text; False shows nothing, None what suits"),
}
