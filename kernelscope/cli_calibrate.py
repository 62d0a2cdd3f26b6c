"""``kernelscope doctor --calibrate``, and what the doctor says of calibrations that are stored."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kernelscope.calibration import here
from kernelscope.calibration.files import Stored, stored
from kernelscope.calibration.model import Calibration, Cost, Interval
from kernelscope.errors import KernelScopeError

_HOW = "kernelscope doctor --calibrate measures it, in half a minute"


def main(arguments: argparse.Namespace) -> int:
    """Measure, store, and print what was measured."""
    from kernelscope.calibration.files import calibration_file, store
    from kernelscope.studies.own_cost import calibrate

    path = calibration_file()
    if not sys.stderr or not sys.stderr.isatty():  # a terminal gets a line that is written over
        seconds = f"{arguments.seconds + 5:.0f} s"
        print(f"measuring what recording costs, for some {seconds} ...", file=sys.stderr, flush=True)
    made = calibrate(seconds=arguments.seconds, save=False, path=path)
    problem: KernelScopeError | None = None
    try:
        store(made, path)
    except KernelScopeError as error:  # what took half a minute to measure is shown all the same
        problem = error
    if arguments.json:
        print(json.dumps({"file": None if problem else str(path), "calibrations": [each.to_json() for each in made]},
                         indent=1))
    else:
        text = [line for each in made for line in measured_lines(each)]
        print("\n".join([*text, "" if problem else f"stored in {path}: recordings state this cost from now on"]))
    if problem is not None:
        raise problem
    return 0


def examine(gpus: Sequence[str | None], held: Stored | None = None, today: datetime | None = None) -> dict[str, Any]:
    """Return what is stored, as plain JSON values.

    Parameters
    ----------
    gpus : sequence of str or None
        The names of this machine's, None for the dry run.
    held : Stored, optional
        By default what the file holds.
    today : datetime, optional
        The present.

    Returns
    -------
    dict
        ``file``; ``calibrations``, each as it is stored with ``days``, its age, ``summary``, and ``ignored``, why it
        does not hold here or null; and ``problems``, what is wrong with the file.
    """
    held = stored() if held is None else held
    today = today or datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    for each in held.calibrations:
        setting = each.setting
        gpu = setting.gpu if setting.gpu in gpus else next((name for name in gpus if name), None)
        ignored = each.objection(here.setting(gpu, setting.backend, setting.detail), today)
        if ignored is None and setting.gpu not in gpus:
            ignored = f"of a GPU that is not here: {setting.gpu}"
        days = round(each.days(today), 1)
        rows.append({**each.to_json(), "days": days, "summary": summary(each), "ignored": ignored})
    return {"file": str(held.path), "calibrations": rows, "problems": list(held.problems)}


def lines(found: dict[str, Any]) -> list[str]:
    """Return what `examine` found as lines of text."""
    shown = [f"{row['summary']}, {_age(row['days'])}" for row in found["calibrations"] if row["ignored"] is None]
    if not shown:
        shown.append(f"not calibrated, recordings state an estimate; {_HOW}")
    shown += [f"ignored: {row['summary']}, {row['ignored']}" for row in found["calibrations"] if row["ignored"]]
    return shown + [f"ignored: {problem}" for problem in found["problems"]]


def summary(each: Calibration) -> str:
    """Return a calibration in a few words."""
    added = each.worst.added
    where = each.setting.gpu or "dry run"
    return f"{where}, {each.setting.backend} recorder, detail {each.setting.detail!r}: {difference(added)} a launch"


def measured_lines(each: Calibration) -> list[str]:
    """Return what was measured in one setting, line by line."""
    setting = each.setting
    shown = [f"{setting.gpu or 'dry run'}, {setting.backend} recorder, detail {setting.detail!r}"]
    shown += [f"  {line}" for cost in each.costs for line in _cost_lines(cost)]
    return shown + [f"  {line}" for line in _doubts(each)]


def difference(added: Interval) -> str:
    """Return a difference with its interval, or that none was seen."""
    ends = f"{added.low_ns:+.0f} to {added.high_ns:+.0f} ns"
    if added.is_seen:
        return f"{added.middle_ns:+.0f} ns ({ends})"
    return f"no difference seen ({ends}), counted as {added.counted_ns:.0f} ns"


def _cost_lines(cost: Cost) -> Iterable[str]:
    launch = f"{cost.arguments} device arrays" if cost.arguments else "no argument"
    yield f"{launch}: {difference(cost.added)}; launches of {cost.launch_ns / 1000:.1f} µs"
    tail = cost.tail
    is_seen = tail.added.low_ns > 0 or tail.added.high_ns < 0
    added = f"{tail.added.middle_ns:+.0f} ns" if is_seen else "no difference seen"
    yield (f"{' ' * len(launch)}  99 of 100 launches took at most {tail.without_ns / 1000:.1f} µs, recorded "
           f"{tail.recorded_ns / 1000:.1f} µs: {added} ({tail.added.low_ns:+.0f} to {tail.added.high_ns:+.0f} ns)")


def _doubts(each: Calibration) -> Iterable[str]:
    if not each.quiet:
        yield "the machine was busy with something else: repeat it at a quiet time for a narrower interval"
    if not each.is_sound:
        yield "two times not recording differ by more than they should: something disturbed the measurement, repeat it"


def _age(days: float) -> str:
    if days < 1:
        return "measured today"
    return "measured yesterday" if days < 2 else f"measured {days:.0f} days ago"
