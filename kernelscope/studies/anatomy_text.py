"""An anatomy as lines of text, and the sentences that its card prints too."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernelscope.analysis.units import counted
from kernelscope.renderers.base import clean, shorten, width_of
from kernelscope.renderers.layout import columns, with_notice, wrap
from kernelscope.studies import words
from kernelscope.studies.anatomy_parts import LAUNCH, UNATTRIBUTED, PartDifference, PartTime, unseen
from kernelscope.studies.anatomy_result import AnatomyResult
from kernelscope.studies.judged import NO_DIFFERENCE, SLOWER
from kernelscope.studies.numbers import micros, share

#: What each part is, from where to where.
MEANINGS = {
    "configure": "the statement, until the dispatcher is entered: k[grid, block], and the call of what it returns",
    "dispatch": "from argument types to the specialization; pre-launch callbacks",
    "set-up": "the specialization's function on this device, and what else comes before the arguments",
    "arguments": "each one to what the driver takes; host arrays are copied",
    "configuration object": "cuda.core's LaunchConfig",
    "submit": "the driver call",
    "finish": "until the statement is over: host arrays are copied back",
    "other": "between two boundaries whose parts cannot be told apart in this version",
    UNATTRIBUTED: "the launch without stamps less its parts: what stamps cost beyond what was taken off is negative",
}
_LABEL_WIDTH, _COMPARED_WIDTH, _NAME_WIDTH = 46, 64, 24


def text(result: AnatomyResult, width: int | None = None) -> str:
    """Return the anatomy as lines of text: where a target differs, the times, and what there is to know.

    Sentences keep to `width` columns, by default the terminal's, between 80 and 120; tables are as wide as they are.
    """
    width = columns(width)
    found = conclusions(result)
    lines = [title(result)]
    lines += [wrap(f"{label} {sentence}", width) for label, sentence in words.failures(result.measured)]
    lines += [wrap(each, width) for each in found]
    for case in result.measured.cases:
        targets = [each.label for each in result.measured.targets if result.of(each.label, case.name)]
        if targets:
            lines += ["", f"{words.name(case.name)}: µs/launch, with intervals of 95 %"]
            lines += _table(result, targets, case.name)
            for target in targets[1:]:
                lines += ["", *_differences(result, target, case.name)]
    lines += ["", "To know", *(wrap(each, width, 2, hanging=2) for each in sentences(result)[len(found):])]
    return with_notice(words.notice(result.measured), "\n".join(lines))


def title(result: AnatomyResult) -> str:
    """Return what was taken apart."""
    measured = result.measured
    cases = counted(len(measured.cases), "case")
    return f"Anatomy of a launch: {counted(len(measured.targets), 'target')}, {cases}"


def sentences(result: AnatomyResult) -> list[str]:
    """Return what there is to say besides the times."""
    said = conclusions(result)
    for case in result.measured.cases:
        for target in result.measured.targets:
            for reason, keys in unseen(result.dissected, target.label, case.name).items():
                of = f" in {words.name(case.name)}" if len(result.measured.cases) > 1 else ""
                sentence = f"{words.name(target.label)}, not to be seen{of}: {_listed(keys)} ({words.name(reason)})."
                said.append(sentence)
    keys = dict.fromkeys(part_kind(each.key) for each in result.parts if each.key != LAUNCH)
    said += [f"{key}: {MEANINGS[key]}." for key in keys if key in MEANINGS]
    said += [f"{label}: {why}".removeprefix(": ") for label, why in _remarks(result)]
    method = words.method(result.measured)
    # The batches of the measured data are the rounds of an anatomy.
    return [*said, _amounts(result), *(sentence for sentence in method[1:] if sentence != words.METHOD)]


def conclusions(result: AnatomyResult) -> list[str]:
    """Return where each target spends more, or less, than the baseline: a sentence a case and target."""
    said: list[str] = []
    for case in result.measured.cases:
        for target in result.measured.targets[1:]:
            found = [each for each in result.differences if (each.target, each.case) == (target.label, case.name)]
            if not found:
                continue
            whole = next(each for each in found if each.label == LAUNCH)
            parts = sorted((each for each in found if each.label != LAUNCH and each.verdict in ("slower", "faster")),
                           key=lambda each: -abs(each.difference_us))
            what = words.name(target.label) + (f" in {words.name(case.name)}" if len(result.measured.cases) > 1 else "")
            where = ", ".join(f"{each.label} {_signed(each)} µs" for each in parts[:4])
            much = (f"{whole.verdict} than {words.name(whole.baseline)} by {abs(whole.difference_us):.2f} µs "
                    "a launch")
            overall = much if whole.verdict in ("slower", "faster") else f"the launch as a whole: {whole.verdict}"
            said.append(f"{what} is {much}: {where}." if whole.verdict in ("slower", "faster") and where else
                        f"{what}: {overall}; {where or 'no part differs'}.")
    return said


def part_kind(key: str) -> str:
    """Return the key under which a part is described."""
    return "arguments" if key.startswith("argument ") else key.partition(" ")[0] if key.startswith("other") else key


def label_of(part: PartTime) -> str:
    """Return a part's name, with what is known of it."""
    note = clean(part.note)
    return f"{part.key}, {note}" if note else part.key


def amount(part: PartTime | None) -> tuple[str, str]:
    """Return a part's time with half of its interval, and its share; empty texts where it was not timed."""
    if part is None or part.us is None or part.high_us is None:
        return "-", ""
    half = part.high_us - part.us
    percent = "" if part.share is None else share(part.share * 100)
    if not math.isfinite(half):  # one process is none that an interval is of
        return micros(part.us), percent
    return f"{micros(part.us, half)} +/- {micros(half, half)}", percent


def rows_of(result: AnatomyResult, targets: Sequence[str], case: str) -> list[tuple[str, list[PartTime | None]]]:
    """Return a row for each part that any of the targets has: its name, and its time in each of them."""
    held = [result.of(target, case) for target in targets]
    keys: list[str] = []
    for parts in held:
        for place, key in enumerate(parts):
            if key not in keys:
                # After the part that it follows in its own target.
                before = list(parts)[place - 1] if place else None
                keys.insert(keys.index(before) + 1 if before is not None else 0, key)
    rows: list[tuple[str, list[PartTime | None]]] = []
    for key in keys:
        found = [parts.get(key) for parts in held]
        if any(each is not None and each.us is not None for each in found):
            first = next(each for each in found if each is not None and each.us is not None)
            rows.append((label_of(first), found))
    return rows


def _table(result: AnatomyResult, targets: Sequence[str], case: str) -> list[str]:
    rows = [("part", [(shorten(clean(target), _NAME_WIDTH), "%") for target in targets])]
    for label, parts in rows_of(result, targets, case):
        rows.append((shorten(label, _LABEL_WIDTH), [amount(each) for each in parts]))
    first = max(width_of(label) for label, _ in rows)
    widths = [max(width_of(cells[place][0]) for _, cells in rows) for place in range(len(targets))]
    lines: list[str] = []
    for label, cells in rows:
        line = "  " + _padded(label, first)
        for width, (value, part) in zip(widths, cells, strict=True):
            line += f"  {_padded(value, width)} {part:>6}"
        lines.append(line.rstrip())
    return lines


def _differences(result: AnatomyResult, target: str, case: str) -> list[str]:
    found = [each for each in result.differences if (each.target, each.case) == (target, case)]
    if not found:
        return [f"{words.name(target)} was not compared."]
    rows = [(shorten(each.label, _COMPARED_WIDTH), _signed(each), _interval(each), each.verdict) for each in found]
    widths = [max(width_of(row[place]) for row in rows) for place in range(3)]
    lines = [f"{words.name(target)} less {words.name(found[0].baseline)}, µs/launch:"]
    for row in rows:
        cells = [_padded(value, width) for value, width in zip(row, widths, strict=False)]
        lines.append(f"  {'  '.join(cells)}  {row[3]}".rstrip())
    return lines


def _amounts(result: AnatomyResult) -> str:
    rows = result.measured.batches
    if not rows:
        return "Nothing was measured."
    processes, rounds = len({row[2] for row in rows}), len({row[3] for row in rows})
    of = " of each target" if len(result.measured.targets) > 1 else ""
    loops = sorted({row[6] for row in rows})
    launches = f"{loops[0]:,} to {loops[-1]:,}" if len(loops) > 1 else f"{loops[0]:,}"
    return (f"{counted(processes, 'process', 'processes')}{of}, in each {counted(rounds, 'round')} with a dozen "
            f"batches a part, of {launches} launch{'es' * (loops[-1] > 1)}.")


def _remarks(result: AnatomyResult) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    for target in result.measured.targets:
        said += [(words.name(target.label), f"without {words.name(case)}: {clean(why)}")
                 for case, why in target.unavailable.items()]
        said += [(words.name(target.label), clean(warning)) for warning in target.warnings]
    return said + [("", clean(note)) for note in result.measured.notes]


def difference_texts(each: PartDifference) -> tuple[str, str]:
    """Return a difference and its interval, in microseconds."""
    return _signed(each), _interval(each)


def sign_of(verdict: str) -> str:
    """Return how a verdict is marked besides its word."""
    return {SLOWER: "▲", NO_DIFFERENCE: "="}.get(verdict, "▼" if verdict == "faster" else "?")


def _signed(each: PartDifference) -> str:
    return micros(each.difference_us, each.high_us - each.difference_us, signed=True)


def _interval(each: PartDifference) -> str:
    half = each.high_us - each.difference_us
    return f"[{micros(each.low_us, half, signed=True)}, {micros(each.high_us, half, signed=True)}]"


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(part_kind(key) for key in keys))


def _padded(value: str, width: int) -> str:
    return value + " " * (width - width_of(value))
