"""A study as text: the table that people who work on launch paths know, then intervals, verdicts and the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelscope.renderers.base import clean, shorten, width_of
from kernelscope.renderers.layout import INDENT, columns, table, with_notice, wrap
from kernelscope.studies import words
from kernelscope.studies.judged import NO_DIFFERENCE, Difference, Estimate
from kernelscope.studies.numbers import (
    difference,
    difference_interval,
    median,
    median_interval,
    plain_share,
    share,
)
from kernelscope.studies.result import StudyResult

# The field's table: a column for the case, then one for each target.
_CASE_WIDTH, _TARGET_WIDTH = 6, 20
_LONGEST_NAME = 36
_Cell = Callable[[str, str], str]


def text(result: StudyResult, width: int | None = None) -> str:
    """Return the study as lines of text.

    Parameters
    ----------
    result : StudyResult
        What to show.
    width : int, optional
        Columns to keep to, at least 60; by default the terminal's, between 80 and 120.
    """
    width = columns(width)
    parts = [overhead(result, width), _conclusions(result, width), _against(result, width), _within(result, width),
             _facts(result, width)]
    return with_notice(words.notice(result.measured), "\n\n".join(part for part in parts if part))


def overhead(result: StudyResult, width: int) -> str:
    """Return mean and standard deviation by case and target, and the deltas of the medians from the baseline."""
    heading, names = case_names(result)
    labels = {each.label: _ascii(each.label) for each in result.targets}
    digits = _digits(result.estimates)

    def cost(target: str, case: str) -> str:
        each = result.by_place.get((target, case))
        return f"{each.mean_us:.{digits}f} +/- {each.sd_us:.{digits}f}" if each else words.NOT_MEASURED

    def delta(target: str, case: str) -> str:
        if target == result.baseline:
            return ""
        each = result.against_baseline.get((target, case))
        return f"{_signless(each.difference_us, digits)} ({plain_share(each.percent)})" if each else words.NOT_MEASURED

    first = max(_CASE_WIDTH, max((width_of(each) for each in (heading, *names.values())), default=0) + 2)
    needed = {target: 2 + max([width_of(label), *(width_of(make(target, case)) for make in (cost, delta)
                                                  for case in names)]) for target, label in labels.items()}
    wide = {target: max(each, _TARGET_WIDTH) for target, each in needed.items()}
    # Behind the last column need be no gap.
    room = width + 2 - first
    widths = wide if sum(wide.values()) <= room else needed
    lines = ["Launch overhead (us/launch):"]
    for block in _blocks(list(labels), list(widths.values()), room):
        sizes = [widths[target] for target in block]
        lines.append(_line(heading, [labels[target] for target in block], first, sizes))
        lines += [_line(shown, [cost(target, case) for target in block], first, sizes) for case, shown in names.items()]
        if len(labels) > 1:
            lines.append(f"Deltas vs {labels[result.baseline]}:")
            lines += [_line(shown, [delta(target, case) for target in block], first, sizes)
                      for case, shown in names.items()]
    if result.estimates:
        deltas = "; deltas are of medians of processes side by side" if len(labels) > 1 else ""
        lines.append(wrap(f"(mean +/- standard deviation of the processes' medians{deltas})", width, hanging=1))
    return "\n".join(lines)


def case_names(result: StudyResult) -> tuple[str, dict[str, str]]:
    """Return the heading of the cases' column, and how each case is called in it: by arguments where that is enough."""
    if words.by_args(result.cases):
        return "args", {each.name: str(each.args) for each in result.cases}
    return "case", {each.name: _ascii(each.name) for each in result.cases}


def differences_table(
    differences: Sequence[Difference], heading: str, names: Mapping[str, str], width: int, *, grouped: bool = False,
) -> str:
    """Return differences with their intervals and verdicts, and below each what else there is to say.

    Parameters
    ----------
    differences : sequence of Difference
        At least one.
    heading : str
        Of the cases' column.
    names : mapping
        What the cases are called in it, where not by their names.
    width : int
        Columns to keep to.
    grouped : bool
        Whether they lie below lines with the target and what they are compared with, and not beside their target.
    """
    found = _grouped(differences) if grouped else list(differences)
    groups = [f"{_short(each.target)}, against {_short(each.baseline)}:" if grouped else "" for each in found]
    rows = [[*(() if grouped else (_short(each.target),)),
             INDENT * grouped + names.get(each.case, _short(each.case)),
             difference(each), difference_interval(each), share(each.percent, signed=True),
             f"[{share(each.low_percent, signed=True)}, {share(each.high_percent, signed=True)}]", clean(each.verdict)]
            for each in found]
    headers = [*(() if grouped else ("target",)), heading, "µs/launch", "interval", "%", "interval", "verdict"]
    if grouped:
        wide = [max(map(width_of, column)) + len(INDENT) for column in zip(headers, *rows, strict=True)]
        if sum(wide) > width:
            # Without the interval in microseconds the names have their room, and the one in percent says the same.
            for row in (headers, *rows):
                del row[2]
    below = [wrap(clean(_advice(each)), width - 8, hanging=0).splitlines() for each in found]
    above = [group if place == 0 or group != groups[place - 1] else "" for place, group in enumerate(groups)]
    left, flexible = ((0, len(headers) - 1), 0) if grouped else ((0, 1, 6), 1)
    return table(headers, rows, width, left=left, flexible=flexible, below=below, above=above)


def _grouped(differences: Sequence[Difference]) -> list[Difference]:
    """Those of one target beside each other, and of these those that are compared with the same."""
    targets = list(dict.fromkeys(each.target for each in differences))
    places = {place: number for number, place in enumerate(dict.fromkeys(
        (each.target, each.baseline) for each in differences))}
    return sorted(differences, key=lambda each: (targets.index(each.target), places[each.target, each.baseline]))


def _advice(each: Difference) -> str:
    """What there is to say below a row; of no difference first comes what is ruled out, which its interval says too."""
    return each.advice.partition("; ")[2] if each.verdict == NO_DIFFERENCE else each.advice


def _conclusions(result: StudyResult, width: int) -> str:
    said = words.failures(result.measured) + words.conclusions(result)
    return "\n".join(wrap(f"{label}: {sentence}", width) for label, sentence in said)


def _against(result: StudyResult, width: int) -> str:
    heading, names = case_names(result)
    found = [each for each in result.differences if not each.within]
    if found:
        baseline = _short(result.baseline)
        return f"Differences from {baseline}, with intervals\n{differences_table(found, heading, names, width)}"
    rows = [[_short(each.target), names.get(each.case, _short(each.case)), median(each), median_interval(each)]
            for each in result.estimates]
    if not rows:
        return ""
    headers = ["target", heading, "µs/launch", "interval"]
    return f"Medians, with intervals of 95 %\n{table(headers, rows, width, left=(0, 1), flexible=1)}"


def _within(result: StudyResult, width: int) -> str:
    found = [each for each in result.differences if each.within]
    if not found:
        return ""
    # Where cases are compared with one another, a number of arguments would be no name.
    return f"Cases compared within a target\n{differences_table(found, 'case', {}, width, grouped=True)}"


def _facts(result: StudyResult, width: int) -> str:
    measured = result.measured
    targets = [(words.name(each.label), "; ".join(part for part in (words.source(each), words.versions(each)) if part))
               for each in result.targets]
    parts = [("To know", words.remarks(result)), ("Targets", targets),
             ("Measured", [("", " ".join(words.method(measured))), ("", words.machine(measured))])]
    said: list[str] = []
    for heading, lines in parts:
        wrapped = [wrap(f"{label}: {line}" if label else line, width, 2, hanging=2) for label, line in lines if line]
        if wrapped:
            said.append("\n".join([heading, *wrapped]))
    return "\n\n".join(said)


def _blocks(targets: Sequence[str], widths: Sequence[int], room: int) -> list[list[str]]:
    """The targets in as many tables as the room asks for; each begins with the baseline."""
    blocks: list[list[str]] = [list(targets[:1])]
    taken = sum(widths[:1])
    for target, width in zip(targets[1:], widths[1:], strict=True):
        # One other target stands beside the baseline, however wide both are.
        if taken + width > room and len(blocks[-1]) > 1:
            blocks.append([targets[0]])
            taken = widths[0]
        blocks[-1].append(target)
        taken += width
    return blocks


def _line(first: str, cells: Sequence[str], width: int, widths: Sequence[int]) -> str:
    padded = [cell + " " * (room - width_of(cell)) for cell, room in zip(cells, widths, strict=True)]
    return (first + " " * (width - width_of(first)) + "".join(padded)).rstrip()


def _digits(estimates: Sequence[Estimate]) -> int:
    """Two decimals, as the field has it; more where a launch takes less than a microsecond."""
    smallest = min((each.median_us for each in estimates if each.median_us > 0), default=1.0)
    return 2 if smallest >= 1 else 3 if smallest >= 0.1 else 4


def _signless(value: float, digits: int) -> str:
    said = f"{value:.{digits}f}"
    return said.lstrip("-") if not said.strip("-0.") else said


def _short(name: str) -> str:
    return shorten(clean(name), _LONGEST_NAME)


def _ascii(name: str) -> str:
    """A name that is not too wide for the field's table, which has no ellipsis."""
    shown = clean(name)
    return shorten(shown, _LONGEST_NAME - 1).replace("…", "..") if width_of(shown) > _LONGEST_NAME else shown
