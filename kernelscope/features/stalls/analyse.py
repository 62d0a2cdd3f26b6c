"""Where the warps of kernels were when the GPU was sampled, and why they did not go on: by line, and by instruction.

A sample is of one warp in one cycle: the instruction that it is at, and the reason why it is not issued then. Machine
code with line information says which line of the source an instruction came from; that of an inlined device function
is its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.code import CodeRows
from kernelscope.analysis.columns import Ints, codes, ints, sum_by
from kernelscope.analysis.sass import SassLines, instruction_text, source_lines
from kernelscope.features.stalls.tables import REASONS
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import percent

if TYPE_CHECKING:
    import pandas as pd

#: What is no stall: the warp issued, or could have.
NO_STALLS = ("selected", "not_selected")
#: A barrier in SASS, which the GPU has issued when its warps wait: they are sampled at the instruction after it.
_BARRIER, _IS_BARRIER = "barrier", re.compile(r"(?:@\S+\s+)?BAR\b")


def reason_text(reason: str) -> str:
    """Return a reason in words, with the field's name of it."""
    name = reason.replace("_", " ")
    return f"{REASONS[reason].label} ({name})" if reason in REASONS else name


@dataclass(frozen=True)
class Stalled:
    """The samples of one line of a kernel's source, or of one of its instructions.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    dispatcher_id, specialization_id : int or None
        Its rows; None for a kernel that no probe recorded, and where a line is of several specializations.
    file : str or None
        The file that the line is in, None for that of the kernel, and where no line is known.
    line : int or None
        The line, from 1; None where it is not known.
    text : str or None
        The line itself, or the instruction, without the blanks around it; None where it was not recorded.
    pc_offset : int or None
        Of an instruction its offset in bytes; None for a line.
    samples : int
        How many samples were taken there.
    not_issued : int
        How many of them in cycles in which the scheduler issued nothing.
    share : float
        The samples over all of the kernel's.
    reasons : tuple of (str, int, int)
        The stall reasons by CUPTI's names with their samples, and those of them in which nothing was issued; most
        first.
    """

    kernel: str
    dispatcher_id: int | None
    specialization_id: int | None
    file: str | None
    line: int | None
    text: str | None
    pc_offset: int | None
    samples: int
    not_issued: int
    share: float
    reasons: tuple[tuple[str, int, int], ...]

    @property
    def main(self) -> str:
        """Return the reason that most of the samples have; of those that are stalls if there are any."""
        stalls = [name for name, *_ in self.reasons if name not in NO_STALLS]
        return (stalls or [name for name, *_ in self.reasons])[0]


@dataclass(frozen=True)
class KernelStalls:
    """The samples of one kernel.

    Attributes
    ----------
    kernel : str
        Its name.
    dispatcher_id : int or None
        Its row in ``dispatchers``; None for a kernel that no probe recorded.
    specialization_id : int or None
        The specialization with most samples; None where none is known.
    samples : int
        Of the kernel.
    share : float
        The samples over those of all kernels.
    reasons : tuple of (str, int, int)
        As of `Stalled`.
    lines, instructions : tuple of Stalled
        Its lines, and its instructions, with most samples first; no lines where the machine code names none.
    unknown : int
        Samples of instructions that have no line.
    """

    kernel: str
    dispatcher_id: int | None
    specialization_id: int | None
    samples: int
    share: float
    reasons: tuple[tuple[str, int, int], ...]
    lines: tuple[Stalled, ...]
    instructions: tuple[Stalled, ...]
    unknown: int


@dataclass(frozen=True)
class Samples:
    """The samples of one specialization by instruction and reason.

    Attributes
    ----------
    reasons : list of str
        The reasons that there are, by CUPTI's names.
    offsets : ndarray of int64, shape (instructions,)
        Where the instructions are, in order.
    counts, not_issued : ndarray of int64, shape (instructions, reasons)
        How many samples there are, and how many of them in cycles in which nothing was issued.
    """

    reasons: list[str]
    offsets: Ints
    counts: Ints
    not_issued: Ints

    def by_group(self, groups: Ints, size: int) -> tuple[Ints, Ints]:
        """Return `counts` and `not_issued` added up by group of the instructions; those of -1 are left out."""
        counts, not_issued = (np.zeros((size, len(self.reasons)), np.int64) for _ in range(2))
        has_group = groups >= 0
        np.add.at(counts, groups[has_group], self.counts[has_group])
        np.add.at(not_issued, groups[has_group], self.not_issued[has_group])
        return counts, not_issued

    def at_barriers(self, text: str, lines: Mapping[int, int]) -> Samples:
        """Return these with what waits at a barrier at the barrier's own instruction, not at one after it.

        ``BAR.SYNC.DEFER_BLOCKING`` lets a warp issue some more instructions first: on an H200, up to two were seen.

        Parameters
        ----------
        text : str
            The kernel's SASS.
        lines : mapping of int to int
            By an instruction's offset its line in `text`, from 0.
        """
        if _BARRIER not in self.reasons:
            return self
        column = self.reasons.index(_BARRIER)
        before = _barriers(text.split("\n"), {line: offset for offset, line in lines.items()})
        barriers = np.array([before.get(offset, UNKNOWN) for offset in self.offsets.tolist()], np.int64)
        is_moved = (barriers >= 0) & (self.counts[:, column] > 0)
        offsets = np.union1d(self.offsets, barriers[is_moved])
        stays, goes = np.searchsorted(offsets, self.offsets), np.searchsorted(offsets, barriers[is_moved])
        tables = [np.zeros((len(offsets), len(self.reasons)), np.int64) for _ in range(2)]
        for into, values in zip(tables, (self.counts, self.not_issued), strict=True):
            into[stays] = values
            into[stays[is_moved], column] = 0
            np.add.at(into[:, column], goes, values[is_moved, column])
        is_sampled = tables[0].any(axis=1)
        return Samples(self.reasons, offsets[is_sampled], tables[0][is_sampled], tables[1][is_sampled])

    def ranked(self, counts: Ints, not_issued: Ints) -> tuple[tuple[str, int, int], ...]:
        """Return one row's reasons with their samples, most first."""
        order = np.argsort(-counts, kind="stable")
        return tuple((self.reasons[column], int(counts[column]), int(not_issued[column]))
                     for column in order.tolist() if counts[column])


def _barriers(lines: list[str], offsets: Mapping[int, int]) -> dict[int, int]:
    """Return by an instruction's offset that of the last barrier before it without a label between; or `UNKNOWN`."""
    barriers: dict[int, int] = {}
    last = UNKNOWN
    for line, text in enumerate(lines):
        if text.startswith("."):  # a label: jumps lead here
            last = UNKNOWN
        elif line in offsets:
            barriers[offsets[line]] = last
            if _IS_BARRIER.match(instruction_text(text)):
                last = offsets[line]
    return barriers


def samples_by_kernel(recording: Recording, only: int | None = None) -> dict[tuple[int, str], Samples]:
    """Return the samples by specialization, -1 for none, and name of the kernel's machine code.

    Of a kernel without such a name its readable one stands there.

    Parameters
    ----------
    recording : Recording
        What holds the samples.
    only : int, optional
        The specialization; all of them without.
    """
    specialization = ints(recording, "pc_samples", "specialization_id")
    selected = slice(None) if only is None else np.flatnonzero(specialization == only)
    keys: list[Ints] = [specialization[selected]]
    if not len(keys[0]):
        return {}
    words: dict[str, list[str]] = {}
    for column in ("entry_name", "name", "reason"):
        code, words[column] = codes(recording, "pc_samples", column)
        keys.append(code[selected])
    distinct, offset = np.unique(ints(recording, "pc_samples", "pc_offset")[selected], return_inverse=True)
    # Rows are many where launches are apart: those of one instruction and reason are added up before anything else.
    key = offset
    for values in keys:
        key = key * (int(values.max()) + 2) + values + 1
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    specialization, entry, name, reason = (values[first] for values in keys)
    offset = distinct[offset[first]]
    samples, not_issued = (sum_by(group, np.maximum(ints(recording, "pc_samples", column)[selected], 0), len(first))
                           for column in ("samples", "not_issued"))
    rows: dict[tuple[int, str], list[int]] = {}
    for row, (number, entry_code, name_code) in enumerate(zip(
            specialization.tolist(), entry.tolist(), name.tolist(), strict=True)):
        label = words["entry_name"][entry_code] if entry_code >= 0 else words["name"][name_code]
        rows.setdefault((number, label), []).append(row)
    by_kernel: dict[tuple[int, str], Samples] = {}
    for kernel, indices in rows.items():
        offsets, offset_index = np.unique(offset[indices], return_inverse=True)
        reasons, reason_index = np.unique(reason[indices], return_inverse=True)
        tables = [np.zeros((len(offsets), len(reasons)), np.int64) for _ in range(2)]
        for into, values in zip(tables, (samples, not_issued), strict=True):
            np.add.at(into, (offset_index, reason_index), values[indices])
        by_kernel[kernel] = Samples([words["reason"][code] for code in reasons.tolist()], offsets, *tables)
    return by_kernel


def by_kernel(recording: Recording) -> list[KernelStalls]:
    """Return the kernels that were sampled, with most samples first: their lines and instructions, hottest first."""
    sampled = samples_by_kernel(recording)
    if not sampled:
        return []
    specializations, dispatchers = recording.rows("specializations"), recording.rows("dispatchers")
    code, names = CodeRows(recording), _readable_names(recording)
    whole = sum(int(samples.counts.sum()) for samples in sampled.values())
    grouped: dict[tuple[int | None, str], list[tuple[int | None, str, Samples]]] = {}
    for (number, entry), samples in sampled.items():
        owner = None if number == UNKNOWN else specializations[number]["dispatcher_id"]
        name = names[number, entry] if owner is None else dispatchers[owner]["name"]
        grouped.setdefault((owner, name), []).append((None if number == UNKNOWN else number, entry, samples))
    kernels = [_kernel(name, owner, of_kernel, code, None if owner is None else dispatchers[owner], whole)
               for (owner, name), of_kernel in grouped.items()]
    return sorted(kernels, key=lambda kernel: -kernel.samples)


def _readable_names(recording: Recording) -> dict[tuple[int, str], str]:
    """Return the readable name of each kernel by its key in `samples_by_kernel`."""
    names = ("specialization_id", "entry_name", "name")
    rows = recording.arrow("pc_samples").select(names).group_by(list(names)).aggregate([]).to_pylist()
    return {(UNKNOWN if row["specialization_id"] is None else row["specialization_id"],
             row["entry_name"] or row["name"]): row["name"] for row in rows}


def _kernel(name: str, owner: int | None, sampled: list[tuple[int | None, str, Samples]], code: CodeRows,
            dispatcher: Mapping[str, Any] | None, whole: int) -> KernelStalls:
    """Return one kernel's samples: those of all its specializations, with the share of `whole` that they are."""
    total = sum(int(samples.counts.sum()) for *_, samples in sampled)
    totals_by_line: dict[tuple[str, int], tuple[dict[str, list[int]], set[int | None]]] = {}
    instructions: list[Stalled] = []
    reasons: dict[str, list[int]] = {}
    unknown = 0
    for number, entry, samples in sampled:
        row = None if number is None or owner is None else code.row(owner, number, "sass")
        sass = None if row is None else SassLines.of(str(row["text"]), entry, dispatcher)
        texts = [] if row is None else str(row["text"]).split("\n")
        by_line = samples if row is None or sass is None else samples.at_barriers(str(row["text"]), sass.lines)
        ties, groups = np.unique(_ties(sass, by_line), return_inverse=True)
        counts, not_issued = by_line.by_group(groups, len(ties))
        for group, tie in enumerate(ties.tolist()):
            if sass is None or tie < 0:
                unknown += int(counts[group].sum())
                continue
            totals, numbers = totals_by_line.setdefault(sass.chains[tie][0], ({}, set()))
            numbers.add(number)
            _add(totals, samples.ranked(counts[group], not_issued[group]))
        tie_of = _ties(sass, samples).tolist()
        for index, offset in enumerate(samples.offsets.tolist()):
            ranked = samples.ranked(samples.counts[index], samples.not_issued[index])
            _add(reasons, ranked)
            line = None if sass is None or tie_of[index] < 0 else sass.chains[tie_of[index]][0]
            text = None if sass is None or offset not in sass.lines else instruction_text(texts[sass.lines[offset]])
            instructions.append(_stalled(name, owner, number, line, text, offset, ranked, total))
    numbers_with_code = [number for number, *_ in sampled if number is not None]
    source = {} if owner is None else source_lines(code, owner, numbers_with_code)
    lines = [_stalled(name, owner, next(iter(numbers)) if len(numbers) == 1 else None, line, source.get(line), None,
                      _ranked(totals), total) for line, (totals, numbers) in totals_by_line.items()]
    busiest, *_ = max(sampled, key=lambda specialization: int(specialization[2].counts.sum()))
    return KernelStalls(
        name, owner, busiest, total, total / whole if whole else 0.0, _ranked(reasons),
        tuple(sorted(lines, key=lambda line: -line.samples)),
        tuple(sorted(instructions, key=lambda instruction: -instruction.samples)), unknown)


def _ties(sass: SassLines | None, samples: Samples) -> Ints:
    """Return for each instruction the index of its source lines in ``sass.chains``, -1 for none."""
    return np.full(len(samples.offsets), UNKNOWN) if sass is None else sass.places(samples.offsets)


def _add(totals: dict[str, list[int]], ranked: tuple[tuple[str, int, int], ...]) -> None:
    for name, samples, not_issued in ranked:
        total = totals.setdefault(name, [0, 0])
        total[0] += samples
        total[1] += not_issued


def _ranked(totals: Mapping[str, list[int]]) -> tuple[tuple[str, int, int], ...]:
    reasons = [(name, samples, not_issued) for name, (samples, not_issued) in totals.items()]
    return tuple(sorted(reasons, key=lambda reason: -reason[1]))


def _stalled(kernel: str, owner: int | None, number: int | None, line: tuple[str, int] | None, text: str | None,
             offset: int | None, ranked: tuple[tuple[str, int, int], ...], total: int) -> Stalled:
    samples = sum(count for _, count, _ in ranked)
    file, lineno = (None, None) if line is None else line
    return Stalled(kernel, owner, number, file or None, lineno, text, offset, samples,
                   sum(not_issued for *_, not_issued in ranked), samples / total if total else 0.0, ranked)


def by_stall(recording: Recording) -> pd.DataFrame:
    """Return where the GPU's warps were, and why they waited: a new DataFrame, one row a line and stall reason.

    Its columns are ``kernel``, ``file`` (null for the kernel's own), ``line`` (of an inlined device function its own),
    ``text``, ``reason`` in words, ``stall`` (CUPTI's name), ``samples``, ``not_issued``, those of them in cycles in
    which the scheduler issued nothing, and ``share``, the samples over all of the kernel's. Lines with most samples
    come first; samples of instructions without a line are in rows whose line is null. Recorded on request only:
    ``record(stalls=True)``.
    """
    rows: list[dict[str, Any]] = []
    for kernel in by_kernel(recording):
        lines = list(kernel.lines)
        if kernel.unknown:
            totals: dict[str, list[int]] = {}
            _add(totals, kernel.reasons)
            for line in kernel.lines:
                _add(totals, tuple((name, -samples, -not_issued) for name, samples, not_issued in line.reasons))
            totals = {name: counts for name, counts in totals.items() if counts[0]}
            lines.append(_stalled(kernel.kernel, None, None, None, None, None, _ranked(totals), kernel.samples))
        for line in lines:
            rows += [{"kernel": line.kernel, "file": line.file, "line": line.line, "text": line.text,
                      "reason": reason_text(name), "stall": name, "samples": samples, "not_issued": not_issued,
                      "share": samples / kernel.samples if kernel.samples else 0.0}
                     for name, samples, not_issued in line.reasons]
    import pandas as pd

    kinds = {"kernel": "object", "file": "object", "line": "Int64", "text": "object", "reason": "object",
             "stall": "object", "samples": "Int64", "not_issued": "Int64", "share": "float64"}
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in kinds.items()})


def hot_line(recording: Recording, dispatcher_id: int, group: str) -> str:
    """Return at which line a kernel's warps wait most for one group of reasons, as a sentence with a space before it.

    Parameters
    ----------
    recording : Recording
        What has the samples.
    dispatcher_id : int
        The kernel's row in ``dispatchers``.
    group : str
        A group of `REASONS`, such as ``memory``.

    Returns
    -------
    str
        Empty where the kernel was not sampled, and where none of its samples with a line is of the group.
    """
    reasons = {name for name, reason in REASONS.items() if reason.group == group}
    lines = [line for kernel in by_kernel(recording) if kernel.dispatcher_id == dispatcher_id for line in kernel.lines]
    waits = [(sum(samples for reason, samples, _ in line.reasons if reason in reasons), line) for line in lines]
    total = sum(samples for samples, _ in waits)
    if not total:
        return ""
    samples, line = max(waits, key=lambda pair: pair[0])
    code = f", `{line.text}`" if line.text else ""
    return f" {percent(samples / total)} of its waits for {group} are at line {line.line}{code}."
