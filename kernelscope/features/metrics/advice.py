"""Advice from the GPU's counters: rules on what was measured of a kernel, each with its threshold and its source.

The thresholds are those of the rules of Nsight Compute where it has one; the others say what NVIDIA's CUDA C++ Best
Practices Guide names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kernelscope.analysis.advice import Result, Rule, rules
from kernelscope.analysis.columns import instants, ints, matches
from kernelscope.analysis.occupancy import limited_by
from kernelscope.analysis.remedies import (
    GRIDS,
    MORE_REGISTERS,
    NUMBA,
    PADDED_ARRAY,
    THREAD_IDX,
    THREADS,
    Maker,
    maker_of,
)
from kernelscope.analysis.savings import GPU, Finding
from kernelscope.analysis.signatures import argument_name, argument_names, parse_signature
from kernelscope.features.metrics.analyse import (
    DOUBLE,
    Instructions,
    KernelCounters,
    instructions_of,
    measured,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.registry import features, loaded
from kernelscope.schema import UNKNOWN
from kernelscope.units import cut, listed, percent, size

#: Sectors that 32 neighbouring elements of 4 bytes lie in, and bytes of a sector.
NEIGHBOURS, SECTOR = 4, 32
#: At most this share of the sectors that are reached would do, where threads accessed neighbouring elements.
FEW_SECTORS = 0.5
#: Local memory that takes this share of L1's traffic.
SPILLED = 0.01
#: Theoretical occupancy below which Nsight Compute's rule TheoreticalOccupancy says something.
LOW_OCCUPANCY = 0.8
#: The share of the waves' places for blocks that stays empty.
EMPTY = 0.2
#: The share of bank conflicts from which on Nsight Compute's rule SharedMemoryConflicts says something.
CONFLICTS = 0.1

_GLOBAL = {"loads": "ld", "stores": "st"}
_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
_REACHED, _IDEAL = "smsp__sass_sectors_mem_global.sum", "smsp__sass_sectors_mem_global_ideal.sum"
_SHARED, _SHARED_IDEAL = (f"smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared{each}.sum" for each in ("", "_ideal"))
_LOCAL = [f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st")]
_CONFLICTS = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")]
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_L1_BYTES = "l1tex__t_bytes.sum"
_ACTIVE_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
_DOUBLE = [f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("dadd", "dmul", "dfma")]
_GUIDE = "CUDA C++ Best Practices Guide"
_RULES = "Nsight Compute's rule"

#: What would let a multiprocessor hold more blocks, by what limits them; of registers `MORE_REGISTERS` knows more.
_MORE = {
    "registers": "fewer registers a thread ({}, less work a thread)",
    "shared memory": "less shared memory a block",
    "threads": "a block size that divides what a multiprocessor holds",
    "blocks": "larger blocks",
}
_MORE_IN_TRITON = {"shared memory": "fewer num_stages, or a smaller tile", "threads": "another num_warps",
                   "blocks": "more num_warps"}
#: How neighbouring threads come to access neighbouring elements, by framework.
_NEIGHBOURS = {
    **dict.fromkeys(THREADS, "Let neighbouring threads access neighbouring elements: the last index of a C-ordered "
                             "array; or go through shared memory."),
    **dict.fromkeys(THREAD_IDX, "Let neighbouring threads (threadIdx.x) access neighbouring "
                    "elements: the last index of a C-ordered array; or go through shared memory."),
    "triton": "Let the offsets of tl.arange run along the dimension that is contiguous in memory.",
}


class CounterEvidence:
    """What these rules look at: a recording, and what was measured in it."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._results: dict[Any, Any] = {}

    @cached_property
    def measured(self) -> list[KernelCounters]:
        """Return what was measured, by specialization."""
        return measured(self.recording)

    def result(self, analysis: Callable[[Recording], Result]) -> Result:
        """Return what a function of the recording returns, which is called once."""
        if analysis not in self._results:
            self._results[analysis] = analysis(self.recording)
        return self._results[analysis]

    def of(self, only: KernelCounters) -> CounterEvidence:
        """Return what there is of one kernel, without reading the recording again."""
        found = CounterEvidence(self.recording)
        found.measured, found._results = [only], self._results
        found._instructions = self._instructions
        found._launches, found._executed = self._launches, self._executed
        return found

    def row(self, table: str, number: int | None) -> Mapping[str, Any] | None:
        """Return a row of a table; None for None."""
        return None if number is None else self.recording.rows(table)[number]

    @cached_property
    def _launches(self) -> dict[int, int]:
        numbers = ints(self.recording, "launches", "specialization_id")
        found, counts = np.unique(numbers[numbers >= 0], return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

    def spent_ns(self, each: KernelCounters) -> float:
        """Return the time of all launches of a specialization on the GPU: an upper bound of what a change saves.

        What was recorded of them counts, or as many as there were, as long as the median of the measured, if that is
        more.
        """
        number = each.specialization_id
        if number is None:
            return (each.duration_ns or 0.0) * each.count
        launches = max(self._launches.get(number, 0), each.count)
        return max((each.duration_ns or 0.0) * launches, self._executed.get(number, 0))

    def maker(self, each: KernelCounters) -> Maker:
        """Return whose a kernel is."""
        return maker_of(self.row("dispatchers", each.dispatcher_id))

    @cached_property
    def _executed(self) -> dict[int, int]:
        """Return the recorded time of each specialization's kernels on the GPU."""
        lasted = duration_ns(*instants(self.recording, "activities", "start_ns", "end_ns"))
        number = ints(self.recording, "activities", "specialization_id")
        known = matches(self.recording, "activities", "kind", "kernel") & (lasted != UNKNOWN) & (number >= 0)
        spent = np.bincount(number[known], lasted[known])
        return {at: int(spent[at]) for at in np.flatnonzero(spent).tolist()}

    def placed(self, each: KernelCounters) -> Mapping[str, Any] | None:
        """Return the row of ``occupancies`` of a specialization under its launch configuration; None for none."""
        wanted = (each.specialization_id, each.configuration_id, each.device_id)
        return next((row for row in self.recording.rows("occupancies") if wanted == (
            row["specialization_id"], row["configuration_id"], row["device_id"])), None)

    def memory_line(self, each: KernelCounters) -> str:
        """Return at which line a kernel's warps wait for memory most, as the end of a sentence; empty where unknown."""
        if each.dispatcher_id is None:
            return ""
        return next(filter(None, (loaded(feature.hot_line)(self.recording, each.dispatcher_id, "memory")
                                  for feature in features() if feature.hot_line)), "")

    @cached_property
    def _instructions(self) -> dict[int | None, Instructions]:
        return instructions_of(self.recording)

    def line(self, each: KernelCounters, what: str, metric: str, ideal: str) -> str:
        """Return at which line most is of what a metric counts above another, as a sentence; empty where unknown."""
        return self._worst(each, what, lambda counts: counts.get(metric, 0.0) - counts.get(ideal, 0.0))

    def double_line(self, each: KernelCounters) -> str:
        """Return at which line most double-precision operations are, as a sentence; empty where that is not known."""
        return self._worst(each, "them", lambda counts: counts.get(DOUBLE, 0.0))

    def _worst(self, each: KernelCounters, what: str, value: Callable[[Mapping[str, float]], float]) -> str:
        counted = self._instructions.get(each.specialization_id)
        found = [] if counted is None else [(value(counts), place) for place, counts in counted.items()]
        whole = sum(max(count, 0.0) for count, _ in found)
        if not whole:
            return ""
        count, place = max(found, key=lambda pair: pair[0])
        return f" {percent(count / whole)} of {what} are at {place.label}."


@dataclass(frozen=True)
class CounterRule(Rule):
    """A rule on what was measured.

    Attributes
    ----------
    say : callable
        Returns what it says of measured kernels; each line ends with threshold and source.
    """

    say: Callable[[CounterEvidence], Iterable[Finding]] = field(kw_only=True)


def counter_rule(code: str, title: str, when: str, effect: str, source: str,
                 find: Callable[[CounterEvidence], Iterable[Finding]], unless: tuple[str, ...] = ()) -> CounterRule:
    """Return a rule on what was measured: see `Rule`; `source` is that of its threshold."""
    def say(evidence: CounterEvidence) -> Iterator[Finding]:
        for found in find(evidence):
            yield found._replace(text=f"{found.text} (From {when}: {source}.)")

    return CounterRule(code, title, f"{when} ({source})", effect,
                       lambda evidence: say(evidence.result(CounterEvidence)), unless, say=say)


def counter_rules() -> list[CounterRule]:
    """Return the rules on what was measured, those of other features too."""
    return [rule for rule in rules().values() if isinstance(rule, CounterRule)]


def _double_precision(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        count, row = each.total(_DOUBLE), evidence.row("specializations", each.specialization_id)
        owner = evidence.row("dispatchers", each.dispatcher_id)
        if not count or row is None or owner is None or evidence.maker(each).of_user not in NUMBA:
            continue
        kinds, names = parse_signature(row["signature"]), argument_names(owner["arguments"])
        if any("float64" in kind.text or "complex" in kind.text for kind in kinds if kind.text != "float64"):
            continue  # arrays of float64: that is what was asked for
        arrays = listed(list(dict.fromkeys(kind.dtype for kind in kinds if kind.kind == "array")))
        said = [f"`{argument_name(names, at)}`" for at, kind in enumerate(kinds) if kind.text == "float64"]
        many = f"{count:,.0f} double-precision operations a launch"
        over = f" on arrays of {arrays}" if arrays else ""
        if said:
            what = (f"{' and '.join(said)} of {cut(each.kernel)} {'are' if len(said) > 1 else 'is'} float64, as "
                    f"Python's floats are: {many}{over}.")
            calls = " and ".join(f"np.float32({name.strip('`')})" for name in said)
            remedy = f"Pass {calls}, if the values allow it."
        else:
            what = f"{cut(each.kernel)} does {many}{over}, and no argument is float64."
            remedy = ("In its code a number such as 0.5 is, and so is the quotient of integers: write np.float32(0.5), "
                      "if the values allow it.")
        yield Finding(each.kernel, f"{what}{evidence.double_line(each)} {remedy}", evidence.spent_ns(each), GPU)


def _uncoalesced(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        reached, ideal = each.value(_REACHED), each.value(_IDEAL)
        neighbours = _NEIGHBOURS.get(evidence.maker(each).of_user)
        found = [f"{word} {sectors:.3g}" for word, op in _GLOBAL.items()
                 if (sectors := each.value(_SECTORS.format(op))) is not None and sectors > NEIGHBOURS]
        if neighbours and reached and ideal is not None and ideal <= FEW_SECTORS * reached:
            sectors = f" ({' and '.join(found)} sectors a request)" if found else ""
            yield Finding(each.kernel, (
                f"Threads of a warp in {cut(each.kernel)} access global memory far apart: {reached:,.0f} sectors a "
                f"launch{sectors}, where {ideal:,.0f} would do."
                f"{evidence.line(each, 'the sectors too many', _REACHED, _IDEAL)}{evidence.memory_line(each)} "
                f"{neighbours}"
            ), evidence.spent_ns(each), GPU)


def _spills(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        sectors, all_bytes = each.total(_LOCAL), each.value(_L1_BYTES)
        framework = evidence.maker(each).of_user
        if framework not in MORE_REGISTERS:
            continue
        if not sectors or not all_bytes or sectors * SECTOR < SPILLED * all_bytes:
            continue
        row = evidence.row("specializations", each.specialization_id)
        spilled = None if row is None else (row["spill_store_bytes"] or 0) + (row["spill_load_bytes"] or 0)
        local = "" if row is None or row["local_bytes"] is None else f", {size(row['local_bytes'])} a thread"
        is_known = row is not None and row["spill_store_bytes"] is not None
        arrays = "arrays of cuda.local.array" if framework in NUMBA else "local arrays"
        what = ("registers are spilled" if spilled else
                f"{arrays} that are indexed at run time lie there" if is_known else
                "spilled registers lie there, and local arrays that are indexed at run time")
        share = min(sectors * SECTOR / all_bytes, 1.0)
        yield Finding(each.kernel, (
            f"{cut(each.kernel)} moves {size(sectors * SECTOR)} of local memory a launch ({sectors:,.0f} "
            f"sectors{local}), {percent(share)} of what passes L1: {what}. Allow more registers "
            f"({MORE_REGISTERS[framework]}), or keep fewer values at once."
        ), evidence.spent_ns(each), GPU)


def _low_occupancy(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        row, framework = evidence.placed(each), evidence.maker(each).of_user
        if (row is None or row["occupancy"] is None or row["occupancy"] >= LOW_OCCUPANCY
                or framework not in MORE_REGISTERS):
            continue
        device, specialization = (evidence.row("devices", each.device_id),
                                  evidence.row("specializations", each.specialization_id))
        configuration = evidence.row("configurations", each.configuration_id)
        limits: Sequence[str] = ()
        threads = _product(configuration, "blockdim")
        if device and specialization and configuration and threads and row["active_blocks_per_multiprocessor"]:
            limits = limited_by(device, specialization, row["active_blocks_per_multiprocessor"], threads,
                                configuration["sharedmem_bytes"] or 0)
        active = each.value(_ACTIVE_WARPS)
        achieved = f" and holds {percent(active / 100)}" if active is not None else ""
        why = f", limited by {' and '.join(limits)}" if limits else ""
        used = "" if "registers" not in limits or specialization is None else f" ({specialization['regs']} a thread)"
        words = {**_MORE, **(_MORE_IN_TRITON if framework == "triton" else {})}
        needed = " and ".join(words[name] for name in limits).format(MORE_REGISTERS[framework])
        more = f" More would need {needed}." if limits else ""
        yield Finding(each.kernel, (
            f"A multiprocessor can hold {percent(row['occupancy'])} of its warps of {cut(each.kernel)}{achieved} "
            f"(theoretical{' and achieved' if achieved else ''} occupancy){why}{used}.{more} It helps where warps wait "
            "for memory, and not always."
        ), evidence.spent_ns(each), GPU, is_certain=False)


def _tail_effect(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        row, device = evidence.placed(each), evidence.row("devices", each.device_id)
        blocks = _product(evidence.row("configurations", each.configuration_id), "griddim")
        held = None if row is None else row["active_blocks_per_multiprocessor"]
        if (not blocks or not held or device is None or not device["multiprocessors"]
                or evidence.maker(each).of_user not in GRIDS):
            continue
        at_once = held * device["multiprocessors"]
        waves = blocks / at_once
        empty = 1 - waves / math.ceil(waves)
        if waves > 1 and empty >= EMPTY:
            last = blocks - math.floor(waves) * at_once
            yield Finding(each.kernel, (
                f"The {blocks:,} blocks of {cut(each.kernel)} run in {waves:.3g} waves of {at_once:,}: the last has "
                f"{last:,}, and {percent(empty)} of the places of all waves are empty. Choose a grid of whole waves, "
                f"or of {at_once:,} blocks that each loop over the data (a grid-stride loop), or smaller blocks."
            ), evidence.spent_ns(each), GPU)


def _bank_conflicts(evidence: CounterEvidence) -> Iterable[Finding]:
    for each in evidence.measured:
        conflicts, wavefronts = each.total(_CONFLICTS), each.value(_WAVEFRONTS)
        padded = PADDED_ARRAY.get(evidence.maker(each).of_user)
        if padded is not None and conflicts is not None and wavefronts and conflicts >= CONFLICTS * wavefronts:
            share = min(conflicts / wavefronts, 1.0)
            yield Finding(each.kernel, (
                f"{percent(share)} of the shared-memory wavefronts of {cut(each.kernel)} are bank conflicts: "
                f"{conflicts:,.0f} of {wavefronts:,.0f} a launch."
                f"{evidence.line(each, 'the wavefronts too many', _SHARED, _SHARED_IDEAL)} Threads of a warp access "
                f"different words of one bank: make the rows of the shared array one element longer{padded}."
            ), evidence.spent_ns(each), GPU)


def _product(row: Mapping[str, Any] | None, name: str) -> int | None:
    sides = [] if row is None else [row[f"{name}_{axis}"] for axis in "xyz"]
    return math.prod(sides) if sides and None not in sides else None


#: The rules.
RULES: tuple[Rule, ...] = (
    counter_rule("double_precision", "double precision by accident",
                 "any double-precision instruction where no array is float64",
                 "operations in single precision, of which the GPU does more in the same time",
                 f'{_GUIDE}, "Type Conversion Instructions"', _double_precision),
    counter_rule("uncoalesced", "uncoalesced access to global memory",
                 f"{percent(FEW_SECTORS)} of the sectors that global memory is accessed in, or fewer, would do",
                 "fewer sectors, and so fewer bytes, for the same data",
                 f'{_GUIDE}, "Coalesced Access to Global Memory"; {_RULES} MemoryCacheAccessPattern', _uncoalesced),
    counter_rule("spills", "local memory", f"{percent(SPILLED)} of the bytes that pass L1 are of local memory",
                 "fewer loads and stores", f'{_GUIDE}, "Local Memory"', _spills),
    counter_rule("low_occupancy", "low occupancy and what limits it",
                 f"a theoretical occupancy below {percent(LOW_OCCUPANCY)}",
                 "more warps to run while others wait", f"{_RULES} TheoreticalOccupancy", _low_occupancy, ("at_roof",)),
    counter_rule("tail_effect", "a last wave of few blocks",
                 f"more than one wave of blocks, with {percent(EMPTY)} of the places of all waves empty",
                 "no multiprocessors that are idle at the end", f"after {_RULES} LaunchConfiguration, Tail Effect",
                 _tail_effect, ("at_roof",)),
    counter_rule("bank_conflicts", "bank conflicts in shared memory",
                 f"{percent(CONFLICTS)} of the shared-memory wavefronts are conflicts",
                 "fewer wavefronts for the same data", f"{_RULES} SharedMemoryConflicts", _bank_conflicts),
)
