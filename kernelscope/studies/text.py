"""A study as text, the sentences that its card has too, and numbers with as many digits as their interval is worth."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.studies.result import (
    CaseReport,
    Difference,
    Estimate,
    Measured,
    StudyResult,
    TargetReport,
)
from kernelscope.units import MISSING, count, counted, duration, listed
from kernelscope.units import percent as share_of_one
from kernelscope.views.base import INDENT, clean, columns, shorten, table, width_of, with_notice, wrap

if TYPE_CHECKING:
    from kernelscope.studies.breakdown import PartDifference


def micros(value: float, half_width: float | None = None, *, signed: bool = False) -> str:
    """Return microseconds without their unit: ``4.10``; more digits where the value or its interval is small."""
    return _rounded(value, _decimals(abs(value) if half_width is None else half_width * 10), signed)


def difference(each: Difference | PartDifference) -> str:
    """Return a difference in microseconds, with its sign: ``+2.10``."""
    return micros(each.difference_us, _half(each.low_us, each.high_us), signed=True)


def difference_interval(each: Difference | PartDifference) -> str:
    """Return a difference's interval in microseconds: ``[+2.05, +2.15]``."""
    half = _half(each.low_us, each.high_us)
    return f"[{micros(each.low_us, half, signed=True)}, {micros(each.high_us, half, signed=True)}]"


def median(each: Estimate) -> str:
    """Return a median in microseconds: ``4.10``."""
    return micros(each.median_us, _half(each.low_us, each.high_us))


def median_interval(each: Estimate) -> str:
    """Return a median's interval in microseconds: ``[4.05, 4.15]``."""
    half = _half(each.low_us, each.high_us)
    return f"[{micros(each.low_us, half)}, {micros(each.high_us, half)}]"


def difference_percent(each: Difference, *, signed: bool = False) -> str:
    """Return a difference in percent of the baseline: ``51.2 %``; without `signed`, how large it is."""
    return f"{share(each.percent if signed else abs(each.percent), signed=signed)} %"


def percent_interval(each: Difference) -> str:
    """Return a difference's interval in percent: ``[+50.0, +52.4] %``."""
    return f"[{share(each.low_percent, signed=True)}, {share(each.high_percent, signed=True)}] %"


def share(value: float, *, signed: bool = False) -> str:
    """Return percent without the sign of percent: ``51.2``; whole numbers from 1000."""
    return _rounded(value, 0 if abs(value) >= 999.95 else 1, signed)


def plain_share(value: float) -> str:
    """Return percent in the form of the table of the field: ``+51.2%``."""
    return f"{share(value, signed=True)}%" if math.isfinite(value) else "?"


def _rounded(value: float, decimals: int, signed: bool) -> str:
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "+∞" if value > 0 else "-∞"
    text = f"{value:{'+' if signed else ''},.{decimals}f}"
    # Minus nothing is nothing.
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def _decimals(scale: float) -> int:
    """Return the number of decimals: two, or more so that a tenth of the interval, or of a small value, is visible."""
    if not math.isfinite(scale) or scale >= 0.1 or scale <= 0:
        return 2
    return min(2 + math.ceil(math.log10(0.1 / scale)), 5)


def _half(low: float, high: float) -> float:
    return (high - low) / 2


# What is said of a study, in the text and on the card: a sentence, or a label with one.

NOTICE = f"{DRY_RUN_NOTICE}, and the driver call is a stub: a real one adds to every time"
METHOD = ("A difference is of the medians of processes that ran side by side, and its interval holds for all "
          "differences of the study together with 95 %.")
#: What a table has in the place of a case that was not measured in a target.
NOT_MEASURED = "-"

_ENDED = {
    "narrow enough": "all intervals were narrow enough", "all processes": "all processes were measured",
    "time limit": "the time limit was reached", "interrupted": "it was interrupted", "failed": "it failed",
}
#: Endings with which the study is all that was asked for.
_GOOD_ENDINGS = ("narrow enough", "all processes", "")
_MOST_TEXT = 600
# Of more cores, their number is said.
_MOST_CORES = 8
_NAME_WIDTH = 80
_MOST_FAILED = 3


def title(measured: Measured) -> str:
    """Return what was measured."""
    cases = counted(len(measured.cases), "case")
    return f"Launch overhead of {counted(len(measured.targets), 'target')} in {cases}"


def ending(measured: Measured) -> str:
    """Return in a word or two how the study ended before its time; empty where it did not."""
    return "" if measured.ended in _GOOD_ENDINGS else name(measured.ended)


def notice(measured: Measured) -> str:
    """Return what every output of the study must say, or an empty string."""
    return NOTICE if measured.is_dry_run else ""


def by_args(cases: Sequence[CaseReport]) -> bool:
    """Whether the number of arguments tells the cases apart."""
    counts = [each.args for each in cases]
    return bool(counts) and None not in counts and len(set(counts)) == len(counts)


def name(text: object) -> str:
    """Return a name of the user's as a sentence shows it: no control characters, and not too long."""
    return shorten(clean(text), _NAME_WIDTH)


def conclusions(result: StudyResult) -> list[tuple[str, str]]:
    """Return the label of each target but the baseline, and a sentence that compares it with the baseline."""
    messages: list[tuple[str, str]] = []
    for target in result.targets[1:]:
        found = [each for each in result.differences if each.target == target.label and not each.within]
        if found:
            messages.append((name(target.label), conclusion(found)))
        elif target.error is None:
            messages.append((name(target.label),
                             f"not compared: it has no case in common with {name(result.baseline)}"))
    return messages


def conclusion(found: Sequence[Difference]) -> str:
    """Return a sentence that compares a target with its baseline, from its differences by case."""
    parts: list[str] = []
    for verdict in (SLOWER, FASTER, NO_DIFFERENCE, TOO_NOISY):
        same = [each for each in found if each.verdict == verdict]
        if not same:
            continue
        if len(found) == 1:
            where = ""
        elif len(same) == len(found):
            where = " in both cases" if len(found) == 2 else f" in all {len(found)} cases"
        else:
            where = f" in {len(same)} of {len(found)} cases"
        if verdict == NO_DIFFERENCE:
            most = max(max(abs(each.low_percent), abs(each.high_percent)) for each in same)
            none = where.replace("in all", "in any of").replace("both", "any of 2")
            parts.append(f"no difference seen{none} (more than {share(most)} % is ruled out)")
        elif verdict == TOO_NOISY:
            widest = max(same, key=lambda each: each.high_percent - each.low_percent)
            parts.append(f"too noisy to tell{where}" + (f" ({brief(widest.advice)})" if widest.advice else ""))
        else:
            texts = [share(item) for item in sorted(abs(each.percent) for each in same)]
            by = f"{texts[0]} %" if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]} %"
            parts.append(f"{verdict} than {name(same[0].baseline)}{where}, by {by}")
    return "; ".join(parts)


def failures(measured: Measured) -> list[tuple[str, str]]:
    """Return the targets that did not finish, and why."""
    messages: list[tuple[str, str]] = []
    for each in measured.targets:
        if each.error is not None:
            kept = f" {_processes(each.processes)} before that are kept." if each.processes else ""
            messages.append((name(each.label), f"failed: {brief(each.error)}{'' if not kept else '.' + kept}"))
    return messages


def remarks(measured: Measured, notes: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return what else to know, with notes on what was found: a label, or nothing, and a sentence."""
    messages: list[tuple[str, str]] = []
    for each in measured.targets:
        for why, cases in _grouped(each.unavailable).items():
            messages.append((name(each.label), f"without {', '.join(cases)}: {brief(why)}"))
        messages += [(name(each.label), brief(warning)) for warning in each.warnings]
    return messages + [("", brief(note)) for note in (*measured.notes, *notes)]


def method(measured: Measured) -> list[str]:
    """Return how it was measured: sentences."""
    if not measured.batches:
        return ["Nothing was measured."]
    messages = [_amounts(measured), *_conditions(measured)]
    if measured.targets[1:] and not measured.is_live:
        messages.append(METHOD)
    took = f" after {duration(measured.seconds * 1e9)}" if measured.seconds else ""
    messages.append(f"It ended{took}: {_ended(measured)}.")
    return messages


def machine(measured: Measured) -> str:
    """Return what it was measured on."""
    host, gpu = measured.host, measured.gpu
    parts = [_said(host.get("processor")), _with(host.get("cores"), "{} cores"), _said(host.get("system")),
             _with(host.get("governor"), "governor {}"), _said(gpu.get("name")), _with(gpu.get("driver"), "driver {}"),
             _with(gpu.get("cuda"), "CUDA {}"), _clocks(gpu.get("clocks_mhz"))]
    return ", ".join(part for part in parts if part)


def versions(target: TargetReport) -> str:
    """Return the versions of what a target has, its framework's first."""
    order = sorted(target.versions, key=lambda each: (each != target.framework, each.lower() == "python"))
    return ", ".join(f"{name(package)} {name(target.versions[package])}" for package in order)


def source(target: TargetReport) -> str:
    """Return where a target comes from."""
    revision = f" at {name(target.revision)}" if target.revision else ""
    return f"{name(target.source)}{revision}"


def _processes(number: int) -> str:
    return "Results of the process" if number == 1 else f"Results of the {number} processes"


def _grouped(unavailable: dict[str, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for case, why in unavailable.items():
        reasons.setdefault(why, []).append(name(case))
    return reasons


def _amounts(measured: Measured) -> str:
    processes: dict[str, set[int]] = {}
    batches: dict[tuple[str, str, int], int] = {}
    for target, case, process, *_ in measured.batches:
        processes.setdefault(target, set()).add(process)
        batches[target, case, process] = batches.get((target, case, process), 0) + 1
    loops = [row[6] for row in measured.batches]
    counts = [len(each) for each in processes.values()]
    several = "s" if max(counts) > 1 else ""
    of = " of each target" if len(processes) > 1 else ""
    return (f"{_from_to(counts)} process{'e' * bool(several)}{several}{of}, in each {_from_to(batches.values())} "
            f"batch{'es' * (max(batches.values()) > 1)} a case, of {_from_to(loops)} launch{'es' * (max(loops) > 1)}.")


def _ended(measured: Measured) -> str:
    why = _ENDED.get(measured.ended, clean(measured.ended))
    failed = [name(each.label) for each in measured.targets if each.error is not None]
    if not failed or measured.ended not in _GOOD_ENDINGS:
        return why
    if len(failed) == len(measured.targets):
        return "no target was left, all had failed"
    return f"{why}, but for those of {listed(failed, _MOST_FAILED)}, which failed"


def _conditions(measured: Measured) -> list[str]:
    host, messages = measured.host, list[str]()
    cores = host.get("pinned_to")
    if isinstance(cores, list | tuple) and cores:
        messages.append(_cores(cores, host.get("moves")))
    elif cores is not None and not isinstance(cores, list | tuple):
        messages.append(f"Pinned to core {_said(cores)}.")
    elif "pinned_to" in host:
        messages.append("Not pinned to a core.")
    lost = _number(host.get("noise"))
    if lost is not None:
        messages.append(f"Others took {share_of_one(lost)} of the time from a loop that does nothing.")
    quiet = _number(host.get("quiet"))
    if quiet is not None:
        messages.append(f"{share_of_one(quiet)} of the batches ran at quiet moments, which are those that count.")
    messages += _taken_off(measured)
    resolution, reading = _number(host.get("clock_resolution_ns")), _number(host.get("clock_read_ns"))
    if resolution is not None and reading is not None:
        messages.append(f"The clock's resolution is {duration(resolution)}, and reading it takes {duration(reading)}.")
    before, after = _number(host.get("load_before")), _number(host.get("load_after"))
    if before is not None and after is not None:
        messages.append(f"The machine's load was {before:.1f} before and {after:.1f} after.")
    return messages


def _cores(cores: Sequence[Any], moves: Any) -> str:
    listed = ", ".join(_said(each) for each in cores)
    if len(cores) == 1:
        return f"Pinned to core {listed}."
    if len(cores) > _MOST_CORES:
        listed = f"{len(cores)} cores"
    often = _number(moves)
    moved = "" if often is None else f", moved {count(int(often))} time{'s' * (often != 1)} to one that was quieter"
    return f"Pinned to one core at a time, of {listed}{moved}."


def _taken_off(measured: Measured) -> list[str]:
    waited_ns = sum(row[9] for row in measured.batches)
    if waited_ns:
        share = waited_ns / (waited_ns + sum(row[7] for row in measured.batches))
        return [f"While other processes had the processor, {share_of_one(share)} of the batches' time, is taken off."]
    if measured.host.get("sees_waits") is False:
        return ["The system does not tell how long other processes had the processor: it is in the times."]
    return []


def _from_to(values: Iterable[int]) -> str:
    values = list(values)
    low, high = min(values), max(values)
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def _number(value: Any) -> float | None:
    """Return a number, or None where the file has no valid one."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None


def _said(value: Any) -> str:
    """Return a value from a file as text, whatever its type."""
    if value is None or value == "":
        return ""
    return name(value if isinstance(value, str | int | float) else json.dumps(value, default=str))


def _with(value: Any, template: str) -> str:
    messages = _said(value)
    return template.replace("{}", messages) if messages else ""


def _clocks(value: Any) -> str:
    if not isinstance(value, dict):
        return _with(value, "{} MHz")
    values = [f"{name(which)} {_said(mhz)}" for which, mhz in value.items() if mhz is not None]
    return f"clocks {', '.join(values)} MHz" if values else ""


def brief(message: str) -> str:
    """Return a message on one line, and not too long."""
    return shorten(clean(" ".join(message.split())), _MOST_TEXT)


# A study as text.

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
    messages = failures(result.measured) + conclusions(result)
    parts = [overhead(result, width), "\n".join(wrap(f"{label}: {sentence}", width) for label, sentence in messages),
             _against(result, width), _within(result, width),
             _sections(result, width)]
    return with_notice(notice(result.measured), "\n\n".join(part for part in parts if part))


def overhead(result: StudyResult, width: int) -> str:
    """Return mean and standard deviation by case and target, and the deltas of the medians from the baseline."""
    heading, names = case_names(result)
    labels = {each.label: _ascii(each.label) for each in result.targets}
    # Two decimals, as is usual, or more below one microsecond.
    smallest = min((each.median_us for each in result.estimates if each.median_us > 0), default=1.0)
    digits = 2 if smallest >= 1 else 3 if smallest >= 0.1 else 4

    def cost(target: str, case: str) -> str:
        each = result.by_place.get((target, case))
        return f"{each.mean_us:.{digits}f} +/- {each.sd_us:.{digits}f}" if each else NOT_MEASURED

    def delta(target: str, case: str) -> str:
        if target == result.baseline:
            return ""
        each = result.against_baseline.get((target, case))
        return f"{_signless(each.difference_us, digits)} ({plain_share(each.percent)})" if each else NOT_MEASURED

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
    if by_args(result.cases):
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
    found = _grouped_rows(differences) if grouped else list(differences)
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
    # The note below a row, without the difference that is ruled out, which the interval shows.
    below = [wrap(clean(each.advice.partition("; ")[2] if each.verdict == NO_DIFFERENCE else each.advice), width - 8,
                  hanging=0).splitlines() for each in found]
    above = [group if place == 0 or group != groups[place - 1] else "" for place, group in enumerate(groups)]
    left, flexible = ((0, len(headers) - 1), 0) if grouped else ((0, 1, 6), 1)
    return table(headers, rows, width, left=left, flexible=flexible, below=below, above=above)


def _grouped_rows(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences grouped by target, and then by the case they are compared with."""
    targets = list(dict.fromkeys(each.target for each in differences))
    places = {place: number for number, place in enumerate(dict.fromkeys(
        (each.target, each.baseline) for each in differences))}
    return sorted(differences, key=lambda each: (targets.index(each.target), places[each.target, each.baseline]))


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


def _sections(result: StudyResult, width: int) -> str:
    measured = result.measured
    targets = [(name(each.label), "; ".join(part for part in (source(each), versions(each)) if part))
               for each in result.targets]
    parts = [("To know", remarks(measured, result.notes)), ("Targets", targets),
             ("Measured", [("", " ".join(method(measured))), ("", machine(measured))])]
    messages: list[str] = []
    for heading, lines in parts:
        wrapped = [wrap(f"{label}: {line}" if label else line, width, 2, hanging=2) for label, line in lines if line]
        if wrapped:
            messages.append("\n".join([heading, *wrapped]))
    return "\n\n".join(messages)


def _blocks(targets: Sequence[str], widths: Sequence[int], room: int) -> list[list[str]]:
    """Return the targets split into tables that fit the width; each begins with the baseline."""
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


def _signless(value: float, digits: int) -> str:
    messages = f"{value:.{digits}f}"
    return messages.lstrip("-") if not messages.strip("-0.") else messages


def _short(name: str) -> str:
    return shorten(clean(name), _LONGEST_NAME)


def _ascii(name: str) -> str:
    """Return a name shortened to the column's width, without an ellipsis."""
    shown = clean(name)
    return shorten(shown, _LONGEST_NAME - 1).replace("…", "..") if width_of(shown) > _LONGEST_NAME else shown
