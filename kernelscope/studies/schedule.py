"""In which order batches run, and of how many loops they are: pure functions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.studies.arguments import shown

_FORMS = "give one number (10000), one for each case (10000,10000,5000), or the first and the last (100000,...,10000)"
_MOST_LOOPS = 10**9


class Turn(NamedTuple):
    """One batch: in which round, of which case, in which target."""

    round: int
    case: str
    target: str


def generation(targets: Sequence[str], cases: Sequence[str], repeats: int, chance: random.Random) -> list[list[Turn]]:
    """Return the rounds of one generation of processes, each a list of turns.

    In each round the cases come in an order of its own, so that none is always after the same one. For each case all
    targets follow one another, so that what is compared is close in time, and from round to round their order is
    rotated (A B C, C A B, B C A), so that each comes first as often as the others. Where the rotation starts is by
    chance, for each case anew.

    Parameters
    ----------
    targets, cases : sequence of str
        Labels and names.
    repeats : int
        How many rounds.
    chance : random.Random
        Where chance comes from.
    """
    starts = {case: chance.randrange(max(1, len(targets))) for case in cases}
    rounds: list[list[Turn]] = []
    for number in range(repeats):
        order = chance.sample(list(cases), len(cases))
        rounds.append([Turn(number, case, target)
                       for case in order for target in rotated(targets, starts[case] - number)])
    return rounds


def rotated(values: Sequence[str], places: int) -> list[str]:
    """Return the values from one of them on, and then those before it."""
    if not values:
        return []
    places %= len(values)
    return [*values[places:], *values[:places]]


def parse_loops(loops: int | str | Sequence[int] | None, cases: Sequence[str]) -> dict[str, int] | None:
    """Return how many loops a batch of each case has.

    Parameters
    ----------
    loops : int, str, sequence of int or None
        One number for all cases; one for each, in their order; or a text such as ``100000,...,10000``: from the first
        to the last, spread over the cases by equal factors. None: the first process finds out.
    cases : sequence of str
        Names, in order.

    Raises
    ------
    StudyArgumentError
        It is none of these.
    """
    if loops is None:
        return None
    given = cast("object", loops)
    if isinstance(given, bool) or not isinstance(given, Iterable | int):
        raise StudyArgumentError(f"loops={shown(loops)}: {_FORMS}")
    words = [str(each).strip() for each in (loops.split(",") if isinstance(loops, str) else
                                            [loops] if isinstance(loops, int) else loops)]
    gaps = [place for place, word in enumerate(words) if word in ("...", "…")]
    if gaps:
        if gaps != [1] or len(words) != 3:
            raise StudyArgumentError(f"loops={loops!r}: {_FORMS}")
        numbers = _spread(_number(words[0], loops), _number(words[2], loops), len(cases))
    else:
        numbers = [_number(word, loops) for word in words]
        if len(numbers) == 1:
            numbers *= len(cases)
    if len(numbers) != len(cases):
        raise StudyArgumentError(f"loops={loops!r} are {len(numbers)} numbers for {len(cases)} cases: {_FORMS}")
    return dict(zip(cases, numbers, strict=True))


def _number(word: str, loops: object) -> int:
    plain = word.replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 20) or not 1 <= int(plain) <= _MOST_LOOPS:
        raise StudyArgumentError(f"loops={loops!r}: {word!r} is no number from 1 to {_MOST_LOOPS:,}; {_FORMS}")
    return int(plain)


def _spread(first: int, last: int, count: int) -> list[int]:
    if count < 2:
        return [first] * count
    factor = (last / first) ** (1 / (count - 1))
    return [first, *(max(1, round(first * factor**place)) for place in range(1, count - 1)), last]
