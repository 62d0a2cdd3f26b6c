"""Advice: one line each, with the numbers that prove it. What the data does not prove is not said.

A rule is one function below with the decorator `rule`, which registers it: its code, what it is about, from when on it
says something, and what following it does. The card shows what the rules find, and the guide's table is made of them.

The numbers of a line can be multiplied and divided: a share is of a sum that stands beside it, and what one of them
took is the sum over their count, an average. Launches that took far longer than the others are in a line of their own,
and in no other sum: what would spare a usual launch does not spare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from kernelscope.analysis.activities import Spread, copied_in_launches, known_id
from kernelscope.analysis.builds import BuildSummary
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    Rows,
    codes,
    ids,
    in_order,
    ints,
    json_object,
    matches,
    owner_of,
    ran,
    rows_at,
    rows_by,
    sum_by,
    unique_pairs,
)
from kernelscope.analysis.compiles import CompilationSummary, short
from kernelscope.analysis.counter_advice import COUNTER_RULES, CounterEvidence, CounterRule
from kernelscope.analysis.gpu import LAUNCHING, GpuSummary
from kernelscope.analysis.graphs import Executable, GraphSummary, executables
from kernelscope.analysis.launches import (
    LONG,
    WARP,
    CellSummary,
    KernelSummary,
    LaunchPhases,
    launch_phases,
    long_ones,
)
from kernelscope.analysis.signatures import argument_name, argument_names, parse_signature, parse_type
from kernelscope.analysis.tuning import DTYPE, KEEP, Tuning
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, cut, duration, listed, percent, size

#: An argument of more types than this is worth a word.
FEW_TYPES = 3
#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000
#: So many launches of one kernel are worth a word on what each of them costs.
MANY_LAUNCHES = 500
#: Launches that take this share of the wall time are what the cell does.
LARGE_SHARE = 0.25
#: A GPU that is busy for less of the time waits for something.
LOW_BUSY = 0.5
#: Copies that take this share of the time are worth a word.
LARGE_COPIES = 0.05
#: A launch that prepares its arguments for this long copies or converts something.
SLOW_PREPARE_NS = 50_000
#: So many times the blocks of a kernel's largest grid are less than the multiprocessors of the GPU.
FEW_BLOCKS = 4
#: Time that a graph which is launched once must have cost to be worth a word.
WORTH_NS = 100_000
#: As many launches as a round has at most.
LONGEST_ROUND = 32
#: So many rounds are plainly a loop.
LEAST_ROUNDS = 20
#: A rule that fits more kernels has no line of the others.
MOST_FOUND = 200
#: So many new values of an argument make an autotuner run too often.
MANY_KEYS = 3
#: Of a library's cache: only the operator's name differs from what was built before.
OPERATOR_NAME = "new_operator_name"

# The first launches of a thread in a cell show what its loop is.
_MOST_LAUNCHES = 1 << 16
#: So many types, and so many places, are listed; and so many other kernels of which a line says the same.
_LISTED, _OTHERS = 4, 3

_Row = Mapping[str, Any]

#: What a rule finds: what it is about (a kernel, a graph or an algorithm; empty for several), the line, and its weight;
#: or how many more kernels there are of which it has no line.
Found = tuple[str, str, float] | int


@dataclass(frozen=True)
class Advice:
    """One line of advice.

    Attributes
    ----------
    code : str
        The rule: a key of `RULES`.
    kernel : str
        The kernel, the graph or the algorithm that it is about; empty for several.
    text : str
        What is so, with numbers, and what to do.
    weight_ns : float
        Host time that it is about: advice is sorted by it.
    """

    code: str
    kernel: str
    text: str
    weight_ns: float


@dataclass(frozen=True)
class Evidence:
    """What rules look at: a recording, and what the analysis found in it.

    Attributes
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases
        What `launch_phases` returns.
    kernels, compiled, cells, graphs, builds, tunings : sequence
        What `by_kernel`, `compilations`, `by_cell`, `by_topology`, `by_algorithm` and `tunings` return.
    wall_ns, host_ns : int or None
        The cells' wall time, and own host time of all launches.
    gpu : GpuSummary or None
        What `gpu_summary` returns.
    """

    recording: Recording
    phases: LaunchPhases
    kernels: Rows[KernelSummary]
    compiled: Sequence[CompilationSummary]
    cells: Sequence[CellSummary]
    graphs: Sequence[GraphSummary]
    builds: Sequence[BuildSummary]
    tunings: Sequence[Tuning]
    wall_ns: int | None
    host_ns: int | None
    gpu: GpuSummary | None

    def dispatchers(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows of ``dispatchers``."""
        return [row for _, row in in_order(self.recording, "dispatchers", numbers)]

    @cached_property
    def multiprocessors(self) -> int | None:
        """Return multiprocessors of the device; None where there are several devices or it was not recorded."""
        rows = self.recording.rows("devices")
        return rows[0]["multiprocessors"] if len(rows) == 1 else None

    @cached_property
    def counters(self) -> CounterEvidence:
        """Return what the GPU's counters measured."""
        return CounterEvidence(self.recording)

    @cached_property
    def churn(self) -> list[Churn]:
        """Return repeated compiles."""
        return find_churn(self.recording)

    @cached_property
    def executables(self) -> dict[str, list[Executable]]:
        """Return executable graphs whose build was seen, by the name of their graph."""
        owner = {graph: each.name for each in self.graphs for graph in each.graph_ids}
        found: dict[str, list[Executable]] = {}
        for each in executables(self.recording) if owner else ():
            if each.graph_id in owner and each.build_ns is not None:
                found.setdefault(owner[each.graph_id], []).append(each)
        return found

    @cached_property
    def loop(self) -> Repetition | None:
        """Return the longest loop of equal launches, where launches take most of the cell."""
        if not self.is_large(self.host_ns):
            return None
        return repetition(self.recording, self.phases, LARGE_SHARE * (self.wall_ns or 0) - 1)

    @cached_property
    def copies_in_launches(self) -> dict[int, int] | None:
        """Return bytes that launches copied themselves, by the kernel's row; None where copies were not recorded."""
        return None if self.gpu is None or self.gpu.source != "cupti" else copied_in_launches(self.recording)

    def of_wall(self, spent_ns: int) -> str:
        """Return the share of the wall time in brackets; empty where several threads took more."""
        is_part = self.wall_ns and spent_ns <= self.wall_ns
        return f" ({percent(spent_ns / self.wall_ns)} of the wall time)" if is_part and self.wall_ns else ""

    def is_large(self, spent_ns: int | None) -> bool:
        """Return whether so much time is a large share of the wall time."""
        return bool(self.wall_ns) and (spent_ns or 0) >= LARGE_SHARE * (self.wall_ns or 0)


@dataclass(frozen=True)
class Rule:
    """A rule of advice.

    Attributes
    ----------
    code : str
        Its name, as in `Advice`.
    title : str
        What it is about.
    when : str
        From when on it says something: its thresholds.
    effect : str
        What following it does.
    find : callable
        Returns what it finds in the evidence.
    unless : tuple of str
        Rules that say more: what one of these says of the same thing is said instead.
    """

    code: str
    title: str
    when: str
    effect: str
    find: Callable[[Evidence], Iterable[Found]]
    unless: tuple[str, ...] = ()


#: All rules by code.
RULES: dict[str, Rule] = {}


def rule(code: str, title: str, *, when: str, effect: str, unless: tuple[str, ...] = ()) -> Callable[
        [Callable[[Evidence], Iterable[Found]]], Callable[[Evidence], Iterable[Found]]]:
    """Return a decorator that registers a function as a rule; see `Rule`."""
    def register(find: Callable[[Evidence], Iterable[Found]]) -> Callable[[Evidence], Iterable[Found]]:
        RULES[code] = Rule(code, title, when, effect, find, unless)
        return find

    return register


def advise(evidence: Evidence) -> list[Advice]:
    """Return the advice that the data proves, most host time first; one line a rule names the kernels it fits."""
    found: list[Advice] = []
    more = dict.fromkeys(RULES, 0)
    for each in RULES.values():
        for line in each.find(evidence):
            if isinstance(line, int):
                more[each.code] += line
            else:
                found.append(Advice(each.code, *line))
    said = {(each.code, each.kernel) for each in found}
    told = [each for each in found if not any((code, each.kernel) in said for code in RULES[each.code].unless)]
    by_rule: dict[str, list[Advice]] = {}
    for each in sorted(told, key=lambda each: (-each.weight_ns, each.code, each.kernel)):
        by_rule.setdefault(each.code, []).append(each)
    return [
        replace(first, text=f"{first.text} The same goes for {_others(others, more[first.code])}.") if others else first
        for first, *others in by_rule.values()
    ]


def _others(others: Sequence[Advice], more: int) -> str:
    return listed([cut(each.kernel) for each in others[:_OTHERS]], _OTHERS, max(len(others) - _OTHERS, 0) + more)


# Compiles: an argument of many types, a kernel that is defined again and again, the same code twice, no disk cache.

@rule("argument_types", "an argument of many types",
      when=f"more than {FEW_TYPES} specializations of a kernel differ in one argument alone",
      effect="one compile instead of one a type")
def _argument_of_many_types(evidence: Evidence) -> Iterator[Found]:
    for churn, kernel in _churn_of(evidence, "argument_types"):
        types = [short(parse_type(text)) for text in churn.types]
        name = churn.argument if churn.argument.startswith("argument ") else f"argument `{cut(churn.argument)}`"
        yield kernel["name"], (
            f"{name} of {cut(kernel['name'])} took {len(churn.types):,} types while all others stayed as they were "
            f"({listed(types, _LISTED)}): {churn.spent}. Pass it as one type."
        ), churn.spent_ns


#: What spares the kernels that numba-cuda defines anew in each call.
_INSTEAD = {"numba.cuda.kernels.transpose": "transpose on the host, or keep what .T of a device array returns"}


@rule("recreated", "a kernel that is defined again",
      when="the same types are compiled again because the same definition ran again",
      effect="one compile instead of one a definition")
def _defined_again(evidence: Evidence) -> Iterator[Found]:
    for churn, kernel in _churn_of(evidence, "recreated"):
        owner = owner_of(kernel)
        if owner == "library":
            instead = _INSTEAD.get(str(kernel["module"]), "keep what the library returned instead of calling it again")
            yield kernel["name"], (
                f"{cut(kernel['name'])} of {kernel['module']} was defined again with the same code, and compiled again "
                f"for the same types: {churn.spent}. It is the library's own kernel: {instead}."
            ), churn.spent_ns
            continue
        where, remedy = "", "keep the definition out of the loop or function that runs again"
        if churn.cells > 1:
            where, remedy = f", in {churn.cells:,} runs of cells", "keep it out of the cell that is run again"
        name = json_object(kernel["attributes"]).get("function") or kernel["name"]
        passed = ", and pass what it captures as arguments" if owner in (None, "user") else ""
        yield kernel["name"], (
            f"{cut(name)} was defined again with the same code{where}, and compiled again for the same types: "
            f"{churn.spent}. Define it once: {remedy}{passed}."
        ), churn.spent_ns


@rule("same_code", "the same code in several places",
      when="the same types are compiled for several kernels of the same code, apart from what it captures",
      effect="one compile instead of one a place")
def _same_code(evidence: Evidence) -> Iterator[Found]:
    for churn, kernel in _churn_of(evidence, "same_code"):
        rows = evidence.dispatchers(churn.dispatchers)
        names = list(dict.fromkeys(str(row["name"]) for row in rows))
        options = {row["options"] or "none" for row in rows}
        what = f"{listed([*map(cut, names)])} have the same code" if len(names) > 1 else (
            f"{cut(names[0])} has the same code in {len(rows)} dispatchers")
        if len(options) > 1:
            what += " with different options"
        yield kernel["name"], (
            f"{what}, each compiled for the same types: {churn.spent}. One definition that all launches use would need "
            "fewer."
        ), churn.spent_ns


def _churn_of(evidence: Evidence, code: str) -> list[tuple[Churn, _Row]]:
    return [(each, evidence.dispatchers(each.dispatchers[:1])[0]) for each in evidence.churn if each.code == code]


def _compiled_again(reason: str, what: str, remedy: str, evidence: Evidence) -> Iterator[Found]:
    """Find kernels that were compiled several times for one reason."""
    by_kernel: dict[int, list[CompilationSummary]] = {}
    for each in evidence.compiled:
        if each.outcome == "compiled" and each.reason_code == reason:
            by_kernel.setdefault(each.dispatcher_id, []).append(each)
    for rows in by_kernel.values():
        if len(rows) > 1:
            spent, name = sum(each.duration_ns for each in rows), rows[-1].name
            yield name, (f"{cut(name)} was compiled {counted(len(rows), 'more time')} for other {what}, "
                         f"{duration(spent)} in all: {remedy}."), spent


for _code, _reason, _what, _remedy in (
    ("repeated_layouts", "new_layout", "memory layouts", "pass arrays of one layout"),
    ("repeated_dtypes", "new_dtype", "dtypes", "cast its arguments to one dtype before the launch"),
    ("repeated_scalars", "new_scalar", "types of numbers", "pass numbers of one type, such as int(value)"),
    ("repeated_tuples", "tuple_arity", "numbers of elements in a tuple", "pass an array, which takes any number"),
    ("launch_configurations", "launch_config", "launch configurations (it is launch-config sensitive)",
     "use fewer distinct grids, blocks and shared-memory sizes"),
):
    # What is said of one argument says more than that types differ.
    rule(_code, f"compiles for other {_what}", when=f"2 compiles of a kernel with the reason `{_reason}`",
         effect="one compile instead of several", unless=() if _reason == "launch_config" else ("argument_types",))(
             partial(_compiled_again, _reason, _what, _remedy))

#: How code is kept on disk, and what makes arrays that need no copy, by framework; others do as numba-cuda does.
_KEEPING, _ON_DEVICE = {"quadrants": "qd.init(offline_cache=True)"}, {"quadrants": "qd.ndarray"}


@rule("no_disk_cache", "slow compiles without a disk cache",
      when=f"compiles of the user's kernels of {duration(SLOW_COMPILE_NS)} or more, each without a disk cache",
      effect="the next session loads them instead")
def _no_disk_cache(evidence: Evidence) -> Iterator[Found]:
    slow = [
        each for each in evidence.compiled
        if each.outcome == "compiled" and not each.cached_on_disk and each.duration_ns >= SLOW_COMPILE_NS
        and each.owner in (None, "user") and each.framework != "torch.compile"  # inductor keeps its graphs itself
    ]
    if not slow:
        return
    names = {each.name for each in slow}
    spent = sum(each.duration_ns for each in slow)
    by_remedy: dict[str, dict[str, None]] = {}
    for each in slow:
        by_remedy.setdefault(_KEEPING.get(each.framework, "cache=True in @cuda.jit"), {})[each.name] = None
    remedies = [f"{remedy} would spare the next session those of {listed([*map(cut, held)])}"
                for remedy, held in by_remedy.items()]
    text = f"{counted(len(slow), 'compile')} took {duration(spent)} without a disk cache: {'; '.join(remedies)}."
    yield names.pop() if len(names) == 1 else "", text, spent


# Launches: many, long, slow to prepare, with few blocks or with partial warps; and the GPU that waits for them.

@rule("launch_bound", "a GPU that waits for launches",
      when=f"the GPU is busy for less than {percent(LOW_BUSY)} of the time, half of its idle time is launches, longer "
           f"ones apart, and {MANY_LAUNCHES:,} of one kernel take longer on the host than on the GPU",
      effect="the GPU does in less time what it does now")
def _launch_bound(evidence: Evidence) -> Iterator[Found]:
    gpu = evidence.gpu
    if gpu is None or len(gpu.busy) != 1 or not gpu.idle or gpu.execute is None:
        return
    share, idle = gpu.busy[0].share, gpu.idle[0]
    launching = sum(idle.by_state[state] for state in LAUNCHING)
    # Some of the long launches' time was idle time: at most all of it.
    usually = launching - evidence.kernels.total("long_launching_ns")
    if share is None or share >= LOW_BUSY or usually < 0.5 * idle.idle_ns:
        return
    often = _often_launched(evidence)
    found = gpu.execution.by_id(often.ids.tolist())
    for kernel in often:
        count, spent, run = kernel.usual_launches, kernel.usual.launching_ns, found.get(kernel.dispatcher_id)
        if not spent or not run or not run.execute or run.execute.mean_ns >= spent / count:
            continue
        execute = run.execute
        yield kernel.name, (
            f"the GPU was busy for {percent(share)} of the time, and idle mostly while the host made launches "
            f"({percent(launching / idle.idle_ns)} of the idle time). A launch of {cut(kernel.name)} takes "
            f"{duration(spent / count)} on the host ({count:,} took {duration(spent)}{_beside_long(kernel)}), its "
            f"kernel {duration(execute.mean_ns)} on the GPU. Give each launch more work, launch less often, or "
            "replay the launches as a CUDA graph."
        ), min(usually, spent)
        return


@rule("many_launches", "many launches that take the wall time",
      when=f"{MANY_LAUNCHES:,} launches of one kernel that take {percent(LARGE_SHARE)} of the wall time, longer ones "
           "apart; not where `launch_bound` says it",
      effect="fewer launches, each with more work, or one launch of a graph")
def _many_launches(evidence: Evidence) -> Iterator[Found]:
    if [*_launch_bound(evidence)]:
        return  # both say the same, and the one that knows the GPU proves it
    for kernel in _often_launched(evidence):
        count, spent = kernel.usual_launches, kernel.usual.launching_ns
        if spent is not None and evidence.wall_ns and evidence.is_large(spent):
            yield kernel.name, (
                f"{count:,} launches of {cut(kernel.name)} took {duration(spent)} on the "
                f"host{evidence.of_wall(spent)}, {duration(spent / count)} each{_beside_long(kernel)}. Launch less "
                "often with more work, or as a CUDA graph."
            ), spent


#: What a launch that took long may have done in each phase.
_LONG_IN = {
    "dispatch": "which looks the argument types up and runs Python alone",
    "prepare": "where host arrays are copied in, and a first launch loads its module",
    "submit": "where a launch waits as long as the device's queue is full",
    "finish": "where host arrays are copied back",
}


@rule("long_launches", "a few launches of many that took much of the time",
      when=f"launches of more than {LONG} times the kernel's median that take {percent(LARGE_SHARE)} of the wall time, "
           f"of {MANY_LAUNCHES:,} launches",
      effect="says in which phase to look; neither fewer launches nor a graph is sure to spare that")
def _long_launches(evidence: Evidence) -> Iterator[Found]:
    for kernel in evidence.kernels.where(evidence.kernels.column("long_launches") > 0):
        long, usual = kernel.long, kernel.usual.launching_ns
        if long is None or long.phase is None or usual is None:
            continue
        count, spent = kernel.usual_launches + long.launches, long.totals.launching_ns or 0
        if count < MANY_LAUNCHES or not evidence.is_large(spent):
            continue
        which = "the longest took" if long.launches > 1 else "it took"
        yield kernel.name, (
            f"{long.launches:,} of {count:,} launches of {cut(kernel.name)} took {duration(spent)} of its "
            f"{duration(spent + usual)} on the host ({percent(spent / (spent + usual))}); {which} "
            f"{duration(long.longest_ns)}, {duration(long.phase_ns)} of it in {long.phase}, {_LONG_IN[long.phase]}. "
            "The timeline shows when. Fewer launches or a CUDA graph may not help here."
        ), spent


@rule("slow_prepare", "launches that mostly prepare",
      when=f"{duration(SLOW_PREPARE_NS)} of prepare a launch on average that are, with finish, half of its host time, "
           "and copies in these launches where copies were recorded",
      effect="no copies of host arrays at each launch")
def _slow_prepare(evidence: Evidence) -> Iterator[Found]:
    kernels = evidence.kernels
    prepares, all_of_it = kernels.column("usual_prepare_ns"), kernels.column("usual_launching_ns")
    # Host arrays are copied back in finish: which of the two takes longer is chance.
    copying = prepares + np.maximum(kernels.column("usual_finish_ns"), 0)
    slow = (prepares >= SLOW_PREPARE_NS * kernels.column("usual_launches")) & (all_of_it > 0)
    found = kernels.where(slow & (copying >= 0.5 * all_of_it))
    copies = evidence.copies_in_launches if len(found) else None
    if copies is not None:
        found = found.where(np.isin(found.ids, [*copies]))
    yield max(len(found) - MOST_FOUND, 0)
    for kernel in found[:MOST_FOUND]:
        count, spent, prepare = kernel.usual_launches, kernel.usual.launching_ns or 0, kernel.usual.prepare_ns or 0
        moved = None if copies is None else copies[kernel.dispatcher_id]
        remedy = f"device arrays ({_ON_DEVICE.get(kernel.framework, 'cuda.to_device')})"
        yield kernel.name, (
            f"{counted(count, 'launch', 'launches')} of {cut(kernel.name)} spent {duration(prepare)} of "
            f"{duration(spent)} ({percent(prepare / spent)}) in prepare, where host arrays are copied"
            + (f": if it takes any, pass {remedy}." if moved is None
               else f" ({size(moved)} in and out): pass {remedy}.")
        ), prepare


def _often_launched(evidence: Evidence) -> Rows[KernelSummary]:
    return evidence.kernels.where(evidence.kernels.column("usual_launches") >= MANY_LAUNCHES)


def _beside_long(kernel: KernelSummary) -> str:
    long = kernel.long
    if long is None:
        return ""
    return f", {counted(long.launches, 'longer one')} of {duration(long.totals.launching_ns)} in all apart"


@rule("pageable_copies", "copies of pageable memory",
      when=f"copies from or to pageable memory in one direction that take {percent(LARGE_COPIES)} of the time until "
           "the device was synchronized",
      effect="the driver copies such arrays once instead of twice")
def _pageable_copies(evidence: Evidence) -> Iterator[Found]:
    gpu = evidence.gpu
    if gpu is None or not gpu.busy:
        return
    slow = [each for each in gpu.copies if (each.pageable_ns or 0) >= LARGE_COPIES * gpu.busy[0].window_ns]
    if not slow:
        return
    copies, moved = sum(each.pageable for each in slow), sum(each.pageable_bytes for each in slow)
    spent = sum(each.pageable_ns or 0 for each in slow)
    directions = " and ".join(dict.fromkeys(each.direction for each in slow))
    is_numba = not evidence.kernels or any(kernel.framework.startswith("numba") for kernel in evidence.kernels)
    yield "", (
        f"{counted(copies, f'{directions} copy', f'{directions} copies')} from or to pageable memory took "
        f"{duration(spent)} ({size(moved)}); the driver copies such memory once more on the host: keep these arrays in "
        f"pinned memory{' (cuda.pinned_array)' if is_numba else ''}, or on the device."
    ), spent


@rule("few_blocks", "grids of few blocks",
      when=f"{MANY_LAUNCHES:,} launches of one kernel, none with more blocks than 1 / {FEW_BLOCKS} of the GPU's "
           "multiprocessors",
      effect="multiprocessors that are idle now have work")
def _few_blocks(evidence: Evidence) -> Iterator[Found]:
    multiprocessors = evidence.multiprocessors
    often = evidence.kernels.where(evidence.kernels.column("launches") >= MANY_LAUNCHES)
    runs = {} if evidence.gpu is None else evidence.gpu.execution.by_id(often.ids.tolist())
    for kernel in often:
        most, run = kernel.most_blocks, runs.get(kernel.dispatcher_id)
        if multiprocessors and most and most * FEW_BLOCKS <= multiprocessors:
            yield kernel.name, (
                f"all {kernel.launches:,} launches of {cut(kernel.name)} have {counted(most, 'block')} at most, on a "
                f"GPU with {multiprocessors} multiprocessors: the others are idle unless launches overlap."
            ), run.execute.total_ns if run is not None and run.execute is not None else 0  # it is no host time


@rule("partial_warps", "blocks with a partial warp",
      when=f"any launch of several blocks whose threads are no multiple of {WARP}",
      effect="no lanes of a warp are idle")
def _partial_warps(evidence: Evidence) -> Iterator[Found]:
    found = evidence.kernels.where(evidence.kernels.column("partial_warps") > 0)
    yield max(len(found) - MOST_FOUND, 0)
    for kernel in found[:MOST_FOUND]:
        launches, threads = kernel.partial_warps
        yield kernel.name, (
            f"{counted(launches, 'launch', 'launches')} of {cut(kernel.name)} had blocks that are no multiple of a "
            f"warp's {WARP} threads: in the largest, of {counted(threads, 'thread')}, {-threads % WARP} of the "
            "last warp's lanes idle."
        ), 0.0


# Graphs and build caches: what was built for nothing, and what could be launched as a graph.

_DIFFERS = {
    "arguments": "arguments had changed", "configuration": "launch configurations or sizes had",
    "topology": "nodes or edges had",
}


@rule("rebuilt_graph", "graphs that were rebuilt",
      when="2 executable graphs that replaced one of the same topology",
      effect="an executable graph is reused, or updated, instead of instantiated again")
def _rebuilt(evidence: Evidence) -> Iterator[Found]:
    for graph in evidence.graphs:
        count = sum(graph.replaced.values())
        if count < 2 or graph.build is None:
            continue
        what: list[str] = []
        if graph.replaced.get("none"):
            what.append(f"{_times(graph.replaced['none'])} nothing had changed, so reuse the executable graph")
        others = [change for change in graph.replaced if change in _DIFFERS]
        if others:
            how = ", ".join(f"{_times(graph.replaced[change])} {_DIFFERS[change]}" for change in others)
            took = f" ({_updates(graph.update)})" if graph.update else ""
            what.append(f"{how}{_named(graph.changes)}, so update it{took}")
        yield graph.name, (
            f"{_where(graph, evidence.cells)} instantiated one topology ({graph.name}, "
            f"{counted(graph.nodes or 0, 'node')}) {graph.builds:,} times, {duration(graph.build.total_ns)} in all; "
            f"{count:,} of them, {duration(graph.replaced_ns)}, replaced an executable graph: {'; '.join(what)}."
        ), graph.replaced_ns


def _updates(spread: Spread) -> str:
    average = "" if spread.count == 1 else f", {duration(spread.mean_ns)} each on average"
    return f"{counted(spread.count, 'update')} here took {duration(spread.total_ns)}{average}"


def _where(graph: GraphSummary, cells: Sequence[CellSummary]) -> str:
    labels = {cell.cell_id: cell.label for cell in cells if cell.cell_id is not None}
    if len(labels) < 2 and len(graph.cells) == 1:
        return "this cell"
    if len(graph.cells) == 1:
        return cut(labels.get(graph.cells[0], "a cell"))
    return counted(len(graph.cells), "cell") if graph.cells else "code between cells"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _named(changes: Sequence[str]) -> str:
    if not changes:
        return ""
    return f" ({listed(changes)})"


@rule("graph_launched_once", "graphs that were launched once",
      when=f"executable graphs that took {duration(WORTH_NS)} to instantiate and were closed after one launch; not "
           "where `rebuilt_graph` says more",
      effect="plain launches without the graph, or more launches of it", unless=("rebuilt_graph",))
def _launched_once(evidence: Evidence) -> Iterator[Found]:
    for graph in evidence.graphs:
        # Of those that were closed all that became of them is known.
        once = [each for each in evidence.executables.get(graph.name, ()) if each.is_closed and each.launches == 1]
        spent = sum(each.build_ns or 0 for each in once)
        if not once or spent < WORTH_NS or graph.launch is None:
            continue
        took = [f"a capture {duration(graph.capture.mean_ns)}"] if graph.capture is not None else []
        took.append(f"a launch {duration(graph.launch.mean_ns)} on the host")
        if graph.execute is not None:
            took.append(f"{duration(graph.execute.mean_ns)} on the GPU")
        many = " in all; on average" if len(once) > 1 or graph.launch.count > 1 else ","
        how = "was" if len(once) == 1 else f"was {len(once):,} times"
        yield graph.name, (
            f"{graph.name} ({counted(graph.nodes or 0, 'node')}) {how} instantiated, launched once and closed: "
            f"instantiating took {duration(spent)}{many} {', '.join(took)}. A graph saves time only where it is "
            "launched again."
        ), spent


@rule("unlaunched_graph", "graphs that were never launched",
      when="any executable graph that was closed without a launch", effect="nothing is instantiated for nothing")
def _unlaunched(evidence: Evidence) -> Iterator[Found]:
    for graph in evidence.graphs:
        never = [each for each in evidence.executables.get(graph.name, ()) if each.is_closed and not each.launches]
        if never:
            spent = sum(each.build_ns or 0 for each in never)
            yield graph.name, (
                f"{graph.name} ({counted(graph.nodes or 0, 'node')}) was instantiated {_times(len(never))} and closed "
                f"without a launch, {duration(spent)} in all: instantiate it where it is needed."
            ), spent


@rule("refused_updates", "updates that the driver refused", when="any update that the driver refused",
      effect="instantiating without trying an update that cannot work")
def _refused(evidence: Evidence) -> Iterator[Found]:
    for graph in evidence.graphs:
        if graph.refused:
            total = " in all" if graph.refused > 1 else ""
            took = "" if graph.refusal is None else f", {duration(graph.refusal.total_ns)}{total}"
            yield graph.name, (
                f"{counted(graph.refused, 'update')} of {graph.name} {'was' if graph.refused == 1 else 'were'} refused "
                f"by the driver{took}: an update can change arguments, launch configurations and sizes. Where nodes or "
                "edges change, instantiate without trying."
            ), graph.refusal.total_ns if graph.refusal else 0


@rule("operator_names", "builds for an operator's name", when="any algorithm built again for an operator's name alone",
      effect="one build instead of one a name")
def _operator_names(evidence: Evidence) -> Iterator[Found]:
    for each in evidence.builds:
        named = [miss for miss in each.not_hits if miss.outcome == "miss" and miss.reason_code == OPERATOR_NAME]
        spent = sum(miss.duration_ns or 0 for miss in named)
        if named:
            yield each.algorithm, (
                f"{cut(each.algorithm)} was built {counted(len(named), 'more time')} for an operator's name alone, "
                f"{duration(spent)} in all: {cut(each.framework)} keeps what it built by the operator's name too. "
                "Define the operator once, under one name."
            ), spent


@rule("autotune_key", "an autotuner that runs again for each value of an argument",
      when=f"an argument in its key had {MANY_KEYS} new values or more",
      effect="one run of the autotuner instead of one a value")
def _autotune_key(evidence: Evidence) -> Iterator[Found]:
    runs: dict[tuple[int, str], list[Tuning]] = {}
    for each in evidence.tunings:
        if each.reason_code == "new_key" and each.outcome == "miss":
            for name in each.differing:
                if not name.endswith(DTYPE):
                    runs.setdefault((each.dispatcher_id, name), []).append(each)
    for (_, name), again in runs.items():
        if len(again) < MANY_KEYS:
            continue
        spent = sum(each.duration_ns for each in again)
        values = listed(list(dict.fromkeys(each.key.get(name, "none") for each in again)), _LISTED)
        kernel, chosen = again[0].name, {each.best.label for each in again if each.best is not None}
        fix = again[0].fix or ""
        if len(chosen) == 1:
            fix = f"It chose {cut(next(iter(chosen)))} each time: leave `{name}` out of key=[...]"
        yield kernel, (
            f"{cut(kernel)} was autotuned {counted(len(again), 'more time')} for new values of `{name}` "
            f"({cut(values)}), {duration(spent)} in all. {fix[:1].upper()}{fix[1:]}."), spent


@rule("autotune_results", "tuning that was done before",
      when="the compiles of all configurations that an autotuner tried came from Triton's disk cache, and it does not "
           "keep its results", effect="results are read from disk")
def _autotune_results(evidence: Evidence) -> Iterator[Found]:
    runs: dict[int, list[Tuning]] = {}
    for each in evidence.tunings:
        if each.disk_hits and not each.compiles and each.outcome == "miss" and not (
                each.keeps_results or each.has_pre_hook):
            runs.setdefault(each.dispatcher_id, []).append(each)
    for again in runs.values():
        spent, kernel = sum(each.duration_ns for each in again), again[0].name
        yield kernel, (
            f"{cut(kernel)} was autotuned in {duration(spent)}, and had been before: all configurations were in "
            f"Triton's disk cache. {KEEP}, so that they are not measured again."), spent


@rule("repeated_sequence", "the same launches again and again",
      when=f"{LEAST_ROUNDS} rounds of the same 2 to {LONGEST_ROUND} launches one after another in a cell that take "
           f"{percent(LARGE_SHARE)} of the wall time, longer ones apart, while no GPU is busy for {percent(LOW_BUSY)} "
           "of the time",
      effect="a round is one launch of a graph; `%kernelscope whatif graph` measures it")
def _repeated_sequence(evidence: Evidence) -> Iterator[Found]:
    loop, wall_ns, gpu = evidence.loop, evidence.wall_ns, evidence.gpu
    if loop is None or not wall_ns or not evidence.is_large(loop.usual_ns):
        return
    shares = [] if gpu is None else [each.share for each in gpu.busy if each.share is not None]
    if any(share >= LOW_BUSY for share in shares):
        return
    rows = evidence.dispatchers(loop.dispatchers)
    kernels = listed([cut(name) for name in dict.fromkeys(str(row["name"]) for row in rows)])
    long = loop.rounds - loop.usual_rounds
    spent = (f"a round takes {duration(loop.usual_ns / loop.usual_rounds)} on the host, all of them "
             f"{duration(loop.usual_ns)}{evidence.of_wall(loop.usual_ns)}")
    if long:
        spent += (f", besides {counted(long, 'longer one')} of {duration(loop.long_ns)} in all, which waited for "
                  "something else")
    measured = ""
    if all(row["framework"] == "numba-cuda" for row in rows):  # launches of other frameworks cannot be made again
        cell = next((each.wanted for each in evidence.cells
                     if loop.cell_id is not None and each.cell_id == loop.cell_id), "")
        measured = f" %kernelscope whatif graph{f' {cell}' if cell else ''} measures what that would save."
    yield "", (
        f"the same {len(rows):,} launches ({kernels}) were made {loop.rounds:,} times in a row: {spent}. Captured into "
        f"a CUDA graph, a round is one launch.{measured}"
    ), loop.usual_ns


@rule("graph_fell_back", "graph kernels that fell back to plain launches",
      when="any launch of a Quadrants kernel with `graph=True` that was no graph launch",
      effect="says why the backend made no graph")
def _graph_fell_back(evidence: Evidence) -> Iterator[Found]:
    for kernel in graph_kernels(evidence.recording):
        if not kernel.plain:
            continue
        launches = counted(kernel.launches, "launch", "launches")
        text = (f"{kernel.plain:,} of {launches} of {cut(kernel.name)}, a graph kernel, fell back to plain launches, "
                f"{duration(kernel.plain_ns)} in all: {'; '.join(kernel.because)}.")
        if kernel.loops:
            loops = counted(kernel.loops, "qd.graph.do_while loop")
            text += f" Its {loops} went through the host, which waits for the flag after each turn."
        yield kernel.name, text, kernel.plain_ns


# Inside kernels: what the GPU's counters say.

def _counted(each: CounterRule, evidence: Evidence) -> Iterable[Found]:
    return each(evidence.counters)


for _each in COUNTER_RULES:
    rule(_each.code, _each.title, when=f"{_each.when} ({_each.source})", effect=_each.effect, unless=_each.unless)(
        partial(_counted, _each))


# What repeats: rounds of the same launches, and compiles of one kind.

@dataclass(frozen=True)
class Repetition:
    """Rounds of the same launches, one after another on one thread in one cell.

    Rounds that took more than `kernelscope.analysis.launches.LONG` times the median, or in which launches that did so
    took most of the time, waited for something, and are summed by themselves.

    Attributes
    ----------
    dispatchers : tuple of int
        The kernels of one round, in order: rows of ``dispatchers``.
    rounds : int
        How many there were, the last one whole.
    cell_id : int or None
        The cell; None between cells.
    usual_rounds : int
        How many of the rounds were not long.
    usual_ns : int
        Host time in their launches, without compiles.
    long_ns : int
        The same of the long ones.
    """

    dispatchers: tuple[int, ...]
    rounds: int
    cell_id: int | None
    usual_rounds: int
    usual_ns: int
    long_ns: int


def repetition(recording: Recording, phases: LaunchPhases | None = None, least_ns: float = 0) -> Repetition | None:
    """Return the longest stretch of rounds of at least two launches each; None where there is no plain loop.

    Launches are the same that have one kernel, one specialization and one launch configuration. Those inside others and
    those that were captured into a graph are not looked at.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    least_ns : float
        Loops that took no longer need not be found.
    """
    phases = phases or launch_phases(recording)
    outer = ran(recording) & (ids(recording, "launches", "parent_launch_id") < 0)
    thread, cell = (ids(recording, "launches", name) for name in ("thread_id", "cell_id"))
    # Each thread of each cell, the one whose launches took longest first: of the others none has a longer loop then.
    pairs, group = unique_pairs(cell + 1, thread + 1)
    group[~outer] = UNKNOWN
    spent = sum_by(group, phases.host_ns, len(pairs))
    if spent.max(initial=0) <= least_ns:
        return None
    rows = rows_by(group)
    best: Repetition | None = None
    for at in np.argsort(-spent, kind="stable").tolist():
        if spent[at] <= (least_ns if best is None else best.usual_ns):
            break
        own = rows.get(at)  # None where all of its launches are inside others, or were captured
        if own is None:
            continue
        part = np.arange(min(len(group), _MOST_LAUNCHES)) if isinstance(own, slice) else own[:_MOST_LAUNCHES]
        found = _on_one_thread(recording, phases, part, known_id(int(cell[part[0]])))
        if found is not None and (best is None or found.usual_ns > best.usual_ns):
            best = found
    return best


def plain_loop(keys: Ints) -> tuple[int, int, int] | None:
    """Return `longest_rounds` where they are plainly a loop of at least two launches a round, else None."""
    begin, size, rounds = longest_rounds(keys)
    return None if size < 2 or rounds < LEAST_ROUNDS else (begin, size, rounds)


def longest_rounds(keys: Ints) -> tuple[int, int, int]:
    """Return where the longest stretch of rounds begins, how long a round is, and how many whole ones there are.

    The shortest round is taken that explains as many launches as any; no rounds are all zeros.
    """
    found, most = (0, 0, 0), 0
    for length in range(1, min(LONGEST_ROUND, len(keys) // 2) + 1):
        breaks = np.flatnonzero(keys[length:] != keys[:-length])
        edges = np.concatenate(([-1], breaks, [len(keys) - length]))
        lengths = np.diff(edges) - 1
        at = int(np.argmax(lengths))
        covered = int(lengths[at]) + length if lengths[at] >= length else 0
        # A multiple of the true round explains no more than the round itself but for the rest of a round.
        if covered > most + (found[1] if found[1] and length % found[1] == 0 else 0):
            most, found = covered, (int(edges[at]) + 1, length, covered // length)
    return found


def _on_one_thread(recording: Recording, phases: LaunchPhases, rows: Ints, cell: int | None) -> Repetition | None:
    if len(rows) < 2 * LEAST_ROUNDS:
        return None
    columns = [ids(recording, "launches", name)[rows].astype(np.int64)
               for name in ("dispatcher_id", "specialization_id", "configuration_id")]
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        keys = keys * (int(column.max()) + 2) + column + 1
    loop = plain_loop(keys)
    if loop is None:
        return None
    begin, size, rounds = loop
    chosen = rows[begin:begin + size * rounds].reshape(rounds, size)
    host = phases.host_ns[chosen] - np.maximum(phases.phases["compile"][chosen], 0)
    if bool((phases.host_ns[chosen] < 0).any()):
        return None
    spent = host.sum(axis=1)
    dispatcher = ints(recording, "launches", "dispatcher_id")[chosen[0]]
    # A round is long as a whole, or by launches that took far longer than those of other rounds at the same place.
    waited = np.zeros(rounds * size, dtype=np.int64)
    outliers = long_ones(np.tile(np.arange(size), rounds), host.ravel(), size)
    waited[outliers] = host.ravel()[outliers]
    is_long = 2 * waited.reshape(rounds, size).sum(axis=1) > spent
    is_long[long_ones(np.zeros(rounds, dtype=np.int64), spent, 1)] = True
    long = np.flatnonzero(is_long)
    long_ns = int(spent[long].sum())
    return Repetition(tuple(dispatcher.tolist()), rounds, cell, rounds - len(long), int(spent.sum()) - long_ns, long_ns)


@dataclass(frozen=True)
class Churn:
    """Compiles of one kind that repeat.

    Attributes
    ----------
    code : str
        ``argument_types``, ``recreated`` or ``same_code``.
    dispatchers : tuple of int
        The kernel, or all that have the same code.
    argument : str
        Of ``argument_types`` the argument's Python name, else empty.
    types : tuple of str
        Of ``argument_types`` the argument's types in order, as numba prints them.
    compiles : int
        Compiles in this recording that it is about.
    spent_ns : int
        What they took.
    cells : int
        In how many runs of cells they happened; 0 outside of cells.
    """

    code: str
    dispatchers: tuple[int, ...]
    argument: str
    types: tuple[str, ...]
    compiles: int
    spent_ns: int
    cells: int

    @property
    def spent(self) -> str:
        """Return the number of compiles and their time, as text."""
        return f"{counted(self.compiles, 'compile')}, {duration(self.spent_ns)} in all"


def find_churn(recording: Recording) -> list[Churn]:
    """Return the compiles that repeat; one entry for each kernel's worst argument and for each repeated definition."""
    made = [row for row in recording.rows("compilations") if row["outcome"] == "compiled" and row["end_ns"] is not None]
    if not made:
        return []
    by_dispatcher: dict[int, list[_Row]] = {}
    for row in made:
        by_dispatcher.setdefault(row["dispatcher_id"], []).append(row)
    dispatchers = rows_at(recording, "dispatchers", [*by_dispatcher])
    is_known = ~matches(recording, "specializations", "origin", "compiled")
    is_known &= np.isin(ints(recording, "specializations", "dispatcher_id"), [*by_dispatcher])
    before: dict[int, list[str]] = {}
    for row in rows_at(recording, "specializations", np.flatnonzero(is_known)).values():
        before.setdefault(row["dispatcher_id"], []).append(row["signature"])
    found = [
        each for dispatcher, rows in by_dispatcher.items()
        if (each := _argument_types(dispatchers[dispatcher], rows, before.get(dispatcher, []))) is not None
    ]
    return [*found, *_repeated_definitions([*dispatchers.values()], by_dispatcher)]


def _argument_types(dispatcher: _Row, rows: Sequence[_Row], before: Iterable[str]) -> Churn | None:
    """Find arguments in which alone most specializations of a kernel differ."""
    texts = [*before]
    for row in rows:
        texts += [str(each) for each in json_object(row["attributes"]).get("known_signatures") or ()]
    texts += [row["signature"] for row in rows]
    groups: dict[tuple[int, tuple[str, ...]], dict[str, str]] = {}
    for signature in dict.fromkeys(texts):
        types = tuple(kind.text for kind in parse_signature(signature))
        for at, kind in enumerate(types):
            groups.setdefault((at, (*types[:at], "", *types[at + 1:])), {})[kind] = signature
    if not groups:
        return None
    (position, _), types = max(groups.items(), key=lambda each: len(each[1]))
    if len(types) <= FEW_TYPES:
        return None
    # One compile of each: what forall compiled once more has nothing to do with it.
    signatures = set(types.values())
    about = list({row["signature"]: row for row in reversed(rows) if row["signature"] in signatures}.values())
    if not about:
        return None
    name = argument_name(argument_names(dispatcher["arguments"]), position)
    return _churn("argument_types", (dispatcher["dispatcher_id"],), about, name, tuple(types))


def _repeated_definitions(dispatchers: Sequence[_Row], by_dispatcher: Mapping[int, Sequence[_Row]]) -> list[Churn]:
    """Find dispatchers of the same code that compiled the same types."""
    groups: dict[Any, list[_Row]] = {}
    for row in dispatchers:
        same = row["code_sha256"] or (row["module"], row["name"], row["filename"], row["lineno"])
        groups.setdefault((row["framework"], same), []).append(row)
    found: list[Churn] = []
    for members in groups.values():
        numbers = tuple(row["dispatcher_id"] for row in members)
        asked = [row for number in numbers for row in by_dispatcher[number]]
        owners: dict[str, set[Any]] = {}
        for row in asked:
            # A second dispatcher of one function has no separate row.
            again = json_object(row["attributes"]).get("another_dispatcher")
            owner = (row["dispatcher_id"], row["compilation_id"] if again else None)
            owners.setdefault(row["signature"], set()).add(owner)
        repeated = [row for row in asked if len(owners[row["signature"]]) > 1]
        if repeated:
            places = {(row["module"], row["name"], row["options"]) for row in members}
            if len(places) > 1 and owner_of(members[0]) == "library":
                continue  # it is not the user's to have one definition of both
            found.append(_churn("recreated" if len(places) == 1 else "same_code", numbers, repeated))
    return found


def _churn(code: str, dispatchers: tuple[int, ...], rows: Sequence[_Row], argument: str = "",
           types: tuple[str, ...] = ()) -> Churn:
    cells = {row["cell_id"] for row in rows if row["cell_id"] is not None}
    spent = sum(max(row["end_ns"] - row["start_ns"], 0) for row in rows)
    return Churn(code, dispatchers, argument, types, len(rows), spent, len(cells))


# Quadrants' graph kernels: which launches were one graph launch, and which fell back to plain launches, and why.
#
# A kernel with ``graph=True`` runs without a graph where its backend makes none, and says nothing. A launch fell
# back if no graph launch was made inside of it, and its specialization was seen to: where graphs could not be
# watched, nothing is said.

_FRAMEWORK = "quadrants"


@dataclass(frozen=True)
class GraphKernel:
    """A Quadrants kernel with ``graph=True``.

    Attributes
    ----------
    dispatcher_id : int
        The kernel's row.
    name : str
        Its qualified name.
    launches : int
        Its launches that raised nothing.
    replayed, plain : int
        How many of them were a graph launch, and how many fell back to plain launches.
    plain_ns : int
        Host time of those.
    because : tuple of str
        Why they fell back, each reason once.
    loops : int
        ``qd.graph.do_while`` loops of it, over all nestings.
    """

    dispatcher_id: int
    name: str
    launches: int
    replayed: int
    plain: int
    plain_ns: int
    because: tuple[str, ...]
    loops: int


def graph_kernels(recording: Recording) -> list[GraphKernel]:
    """Return the recording's Quadrants kernels with ``graph=True`` that were launched, in order of their rows."""
    mine = np.flatnonzero(matches(recording, "dispatchers", "framework", _FRAMEWORK))
    asked = [row for row in rows_at(recording, "dispatchers", mine).values()
             if json_object(row["options"]).get("graph")]
    if not asked:
        return []
    launched, specialization = ints(recording, "launches", "dispatcher_id"), ints(
        recording, "launches", "specialization_id")
    start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
    fine = codes(recording, "launches", "error")[0] == UNKNOWN
    replayed = _around_graph_launches(recording, start, end)
    held: dict[int, dict[str, Any]] = {
        row["specialization_id"]: json_object(row["attributes"]) for row in recording.rows("specializations")}
    fell_back = np.array(sorted(number for number, each in held.items() if each.get("plain_because")), dtype=np.int64)
    found: list[GraphKernel] = []
    for row in asked:
        mine = fine & (launched == row["dispatcher_id"])
        if not mine.any():
            continue
        plain = mine & ~replayed & np.isin(specialization, fell_back)
        facts = [held[number] for number in np.unique(specialization[mine]).tolist() if number in held]
        reasons = [held[number]["plain_because"] for number in np.unique(specialization[plain]).tolist()]
        found.append(GraphKernel(
            row["dispatcher_id"], row["name"], int(mine.sum()), int((mine & replayed).sum()), int(plain.sum()),
            int(np.maximum(end - start, 0)[plain].sum()), tuple(dict.fromkeys(map(str, reasons))),
            max((len(each.get("do_while") or ()) for each in facts), default=0)))
    return found


def _around_graph_launches(recording: Recording, start: Ints, end: Ints) -> Bools:
    """Return which launches contain a graph launch of their thread."""
    found = np.zeros(len(start), dtype=bool)
    thread = ints(recording, "launches", "thread_id")
    launches = matches(recording, "graph_events", "kind", "launch")
    when, whose = (ints(recording, "graph_events", name)[launches] for name in ("start_ns", "thread_id"))
    for number in np.unique(whose).tolist():
        times = np.sort(when[whose == number])
        mine = np.flatnonzero(thread == number)
        found[mine] = np.searchsorted(times, start[mine]) < np.searchsorted(times, end[mine], side="right")
    return found
