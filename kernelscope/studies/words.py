"""The sentences about a study, as plain text: the card and its text twin print the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kernelscope.analysis.units import count, counted, duration
from kernelscope.analysis.units import percent as share_of_one
from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.renderers.base import clean, shorten
from kernelscope.studies.judged import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Difference
from kernelscope.studies.measured import CaseReport, Measured, TargetReport
from kernelscope.studies.numbers import share
from kernelscope.studies.result import StudyResult

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
    """Return for each target but the baseline its label, and in words how it compares with the baseline."""
    said: list[tuple[str, str]] = []
    for target in result.targets[1:]:
        found = [each for each in result.differences if each.target == target.label and not each.within]
        if found:
            said.append((name(target.label), conclusion(found)))
        elif target.error is None:
            said.append((name(target.label), f"not compared: it has no case in common with {name(result.baseline)}"))
    return said


def conclusion(found: Sequence[Difference]) -> str:
    """Return in words how a target compares with its baseline, from its differences by case."""
    parts: list[str] = []
    for verdict in (SLOWER, FASTER, NO_DIFFERENCE, TOO_NOISY):
        same = [each for each in found if each.verdict == verdict]
        if not same:
            continue
        where = _where(len(same), len(found))
        if verdict == NO_DIFFERENCE:
            most = max(max(abs(each.low_percent), abs(each.high_percent)) for each in same)
            none = where.replace("in all", "in any of").replace("both", "any of 2")
            parts.append(f"no difference seen{none} (more than {share(most)} % is ruled out)")
        elif verdict == TOO_NOISY:
            widest = max(same, key=lambda each: each.high_percent - each.low_percent)
            parts.append(f"too noisy to tell{where}" + (f" ({brief(widest.advice)})" if widest.advice else ""))
        else:
            by = _span(abs(each.percent) for each in same)
            parts.append(f"{verdict} than {name(same[0].baseline)}{where}, by {by}")
    return "; ".join(parts)


def failures(measured: Measured) -> list[tuple[str, str]]:
    """Return the targets that did not finish, and why."""
    said: list[tuple[str, str]] = []
    for each in measured.targets:
        if each.error is not None:
            kept = f" {_processes(each.processes)} before that are kept." if each.processes else ""
            said.append((name(each.label), f"failed: {brief(each.error)}{'' if not kept else '.' + kept}"))
    return said


def remarks(result: StudyResult) -> list[tuple[str, str]]:
    """Return what else to know: a label, or nothing, and a sentence."""
    measured = result.measured
    said: list[tuple[str, str]] = []
    for each in measured.targets:
        for why, cases in _grouped(each.unavailable).items():
            said.append((name(each.label), f"without {', '.join(cases)}: {brief(why)}"))
        said += [(name(each.label), brief(warning)) for warning in each.warnings]
    return said + [("", brief(note)) for note in (*measured.notes, *result.notes)]


def method(measured: Measured) -> list[str]:
    """Return how it was measured: sentences."""
    if not measured.batches:
        return ["Nothing was measured."]
    said = [_amounts(measured), *_conditions(measured)]
    if measured.targets[1:] and not measured.is_live:
        said.append(METHOD)
    took = f" after {duration(measured.seconds * 1e9)}" if measured.seconds else ""
    said.append(f"It ended{took}: {_ended(measured)}.")
    return said


def machine(measured: Measured) -> str:
    """Return what it was measured on."""
    host, gpu = measured.host, measured.gpu
    parts = [_said(host.get("processor")), _with(host.get("cores"), "{} cores"), _said(host.get("system")),
             _with(host.get("governor"), "governor {}"), _said(gpu.get("name")), _with(gpu.get("driver"), "driver {}"),
             _with(gpu.get("cuda"), "CUDA {}"), _clocks(gpu.get("clocks_mhz"))]
    return ", ".join(part for part in parts if part)


def versions(target: TargetReport) -> str:
    """Return the versions of what a target has, its framework's first."""
    held = sorted(target.versions.items(), key=lambda each: (each[0] != target.framework, each[0].lower() == "python"))
    return ", ".join(f"{name(package)} {name(version)}" for package, version in held)


def source(target: TargetReport) -> str:
    """Return where a target comes from."""
    revision = f" at {name(target.revision)}" if target.revision else ""
    return f"{name(target.source)}{revision}"


def _where(part: int, whole: int) -> str:
    if whole == 1:
        return ""
    if part == whole:
        return " in both cases" if whole == 2 else f" in all {whole} cases"
    return f" in {part} of {whole} cases"


def _span(values: Iterable[float]) -> str:
    texts = [share(each) for each in sorted(values)]
    return f"{texts[0]} %" if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]} %"


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
    more = f" and {len(failed) - _MOST_FAILED} more" if failed[_MOST_FAILED:] else ""
    return f"{why}, but for those of {', '.join(failed[:_MOST_FAILED])}{more}, which failed"


def _conditions(measured: Measured) -> list[str]:
    host, said = measured.host, list[str]()
    cores = host.get("pinned_to")
    if isinstance(cores, list | tuple) and cores:
        said.append(_cores(cores, host.get("moves")))
    elif cores is not None and not isinstance(cores, list | tuple):
        said.append(f"Pinned to core {_said(cores)}.")
    elif "pinned_to" in host:
        said.append("Not pinned to a core.")
    lost = _number(host.get("noise"))
    if lost is not None:
        said.append(f"Others took {share_of_one(lost)} of the time from a loop that does nothing.")
    quiet = _number(host.get("quiet"))
    if quiet is not None:
        said.append(f"{share_of_one(quiet)} of the batches ran at quiet moments, which are those that count.")
    said += _taken_off(measured)
    resolution, reading = _number(host.get("clock_resolution_ns")), _number(host.get("clock_read_ns"))
    if resolution is not None and reading is not None:
        said.append(f"The clock's resolution is {duration(resolution)}, and reading it takes {duration(reading)}.")
    before, after = _number(host.get("load_before")), _number(host.get("load_after"))
    if before is not None and after is not None:
        said.append(f"The machine's load was {before:.1f} before and {after:.1f} after.")
    return said


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
    held = list(values)
    low, high = min(held), max(held)
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def _number(value: Any) -> float | None:
    """A number, where the file has one that makes sense."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None


def _said(value: Any) -> str:
    """A fact as text, whatever a file has there."""
    if value is None or value == "":
        return ""
    return name(value if isinstance(value, str | int | float) else json.dumps(value, default=str))


def _with(value: Any, words: str) -> str:
    said = _said(value)
    return words.replace("{}", said) if said else ""


def _clocks(value: Any) -> str:
    if not isinstance(value, dict):
        return _with(value, "{} MHz")
    held = [f"{name(which)} {_said(mhz)}" for which, mhz in value.items() if mhz is not None]
    return f"clocks {', '.join(held)} MHz" if held else ""


def brief(message: str) -> str:
    """Return a message on one line, and not too long."""
    return shorten(clean(" ".join(message.split())), _MOST_TEXT)
