"""Advice: one line each, with the numbers that prove it. What the data does not prove is not said.

A rule is one function below with the decorator `rule`, which registers it: its code, what it is about, from when on it
says something, and what following it does. Features add rules, too. The card shows what the rules find, and the guide's
table is made of them.

The numbers of a line can be multiplied and divided: a share is of a sum that stands beside it, and what one of them
took is the sum over their count, an average. Launches that took far longer than the others are in a line of their own,
and in no other sum: what spares a usual launch is not sure to spare them. What following the advice saves at most is a
bound, and has everything in it that would go at best: see `kernelscope.analysis.savings`.

What to do depends on the framework of a kernel, and on whether the user wrote it: see `kernelscope.analysis.remedies`.
Where the user can do nothing, nothing is said.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from kernelscope.analysis.activities import Spread, copied_in_launches, known_id
from kernelscope.analysis.builds import BuildSummary
from kernelscope.analysis.caches import is_cacheable
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    Rows,
    codes,
    ids,
    in_order,
    instants,
    ints,
    items,
    json_object,
    matches,
    ran,
    rows_at,
    rows_by,
    sum_by,
    unique_pairs,
)
from kernelscope.analysis.compiles import CompilationSummary, short
from kernelscope.analysis.gpu import LAUNCHING, GpuSummary
from kernelscope.analysis.graphs import Executable, GraphSummary, executables
from kernelscope.analysis.launches import (
    APART,
    LONG,
    WARP,
    CellSummary,
    KernelSummary,
    LaunchPhases,
    launch_phases,
    long_ones,
)
from kernelscope.analysis.remedies import (
    BLOCKS,
    CAPTURE,
    COMPILING,
    DEVICE_ARRAYS,
    DISK_CACHE,
    FEWER_LAUNCHES,
    GRIDS,
    NUMBA,
    ONE_TYPE,
    OWN_GRAPHS,
    PINNED_BY_LIBRARY,
    PINNED_MEMORY,
    WRAPPED_ONCE,
    Maker,
    maker_of,
)
from kernelscope.analysis.savings import GPU, NEXT_SESSION, WALL, Bounds, Finding
from kernelscope.analysis.signatures import argument_name, argument_names, parse_signature, parse_type
from kernelscope.analysis.tuning import DTYPE, KEEP, Tuning
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns, row_duration_ns
from kernelscope.registry import features, loaded
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, cut, duration, listed, percent, size

#: An argument of more types than this is worth a word.
FEW_TYPES = 3
#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000
#: A compile this long is worth a word on the argument that made it necessary.
COMPILE_NS = 10_000_000
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

Result = TypeVar("Result")

#: What a rule finds, or how many more kernels there are of which it has no line.
RuleResult = Finding | int


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
    saves_ns : float
        What following it removes at best, in nanoseconds; 0 where that is not known. Of `WALL` and `GPU` it is at most
        the cells' wall time.
    saves_of : str
        What that is of: `WALL`, `GPU` or `NEXT_SESSION`.
    is_certain : bool
        False for a hint that may not help, and for what names no change: it is never the first thing to do.
    """

    code: str
    kernel: str
    text: str
    saves_ns: float
    saves_of: str = WALL
    is_certain: bool = True


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

    def maker(self, dispatcher: int) -> Maker:
        """Return whose a kernel is, by its row in ``dispatchers``."""
        return maker_of(self.dispatchers([dispatcher])[0])

    def fewer_launches(self, dispatcher: int) -> str | None:
        """Return how fewer launches of a kernel do the same work; None where the user cannot change that."""
        maker = self.maker(dispatcher)
        return FEWER_LAUNCHES.get("driver" if maker.is_library and maker.framework in FEWER_LAUNCHES
                                  else maker.framework)

    @cached_property
    def bounds(self) -> Bounds:
        """Return the upper bounds of what would go with parts of the recording."""
        return Bounds(self.recording)

    @cached_property
    def array_kinds(self) -> dict[int, set[str]]:
        """Return whose the arrays were that kernels were compiled for, by dispatcher: `array_kind` has the words."""
        found: dict[int, set[str]] = {}
        for row in self.recording.rows("compilations"):
            kinds = {*_flat(json_object(row["attributes"]).get("passed"))}
            if kinds:
                found.setdefault(row["dispatcher_id"], set()).update(kinds)
        return found

    @cached_property
    def graphs_of_libraries(self) -> set[int]:
        """Return the graphs that a framework made by itself, as their kernels tell: rows of ``graphs``."""
        rows = self.recording.rows("specializations")
        found: set[int] = set()
        for node in self.recording.rows("graph_nodes"):
            if node["specialization_id"] is None or node["graph_id"] in found:
                continue
            maker = self.maker(rows[node["specialization_id"]]["dispatcher_id"])
            if maker.framework in OWN_GRAPHS or (maker.framework == "triton" and maker.is_library):
                found.add(node["graph_id"])
        return found

    @cached_property
    def users_graphs(self) -> list[GraphSummary]:
        """Return the graphs that the user can build in another way."""
        return [each for each in self.graphs if not self.graphs_of_libraries.intersection(each.graph_ids)]

    @cached_property
    def multiprocessors(self) -> int | None:
        """Return multiprocessors of the device; None where there are several devices or it was not recorded."""
        rows = self.recording.rows("devices")
        return rows[0]["multiprocessors"] if len(rows) == 1 else None

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def result(self, analysis: Callable[[Recording], Result]) -> Result:
        """Return what a function of the recording returns, which is called once."""
        if analysis not in self._results:
            self._results[analysis] = analysis(self.recording)
        return self._results[analysis]

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
    def launch_bound(self) -> list[tuple[KernelSummary, float]]:
        """Return the kernels whose launches the GPU waits for, each with its mean time on the GPU in nanoseconds."""
        gpu = self.gpu
        if gpu is None or len(gpu.busy) != 1 or not gpu.idle or gpu.execute is None:
            return []
        share, idle = gpu.busy[0].share, gpu.idle[0]
        # Some of the long launches' time was idle time: at most all of it.
        usually = sum(idle.by_state[state] for state in LAUNCHING) - self.kernels.total("long_launching_ns")
        if share is None or share >= LOW_BUSY or usually < 0.5 * idle.idle_ns:
            return []
        often = _often_launched(self)
        runs = gpu.execution.by_id(often.ids.tolist())
        found: list[tuple[KernelSummary, float]] = []
        for kernel in often:
            spent, run = kernel.usual.launching_ns, runs.get(kernel.dispatcher_id)
            if (spent and run and run.execute and run.execute.mean_ns < spent / kernel.usual_launches
                    and self.fewer_launches(kernel.dispatcher_id) is not None):
                found.append((kernel, run.execute.mean_ns))
        return found

    @cached_property
    def is_gpu_busy(self) -> bool:
        """Return whether a GPU was busy for so much of the time that it may be what everything waits for."""
        return self.gpu is not None and any((each.share or 0) >= LOW_BUSY for each in self.gpu.busy)

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
        Rules that say more, where there are such: what one of these says of the same thing is said instead.
    others : str
        How the names of other kernels that it fits follow a line.
    """

    code: str
    title: str
    when: str
    effect: str
    find: Callable[[Evidence], Iterable[RuleResult]]
    unless: tuple[str, ...] = ()
    others: str = "The same goes for"


#: The rules of this file by code.
RULES: dict[str, Rule] = {}


@functools.cache
def rules() -> dict[str, Rule]:
    """Return all rules by code: those of this file, and those of features."""
    return RULES | {each.code: each for feature in features() if feature.advice for each in loaded(feature.advice)}


_Find = Callable[[Evidence], Iterable[RuleResult]]


def rule(code: str, title: str, *, when: str, effect: str, unless: tuple[str, ...] = (),
         others: str = Rule.others) -> Callable[[_Find], _Find]:
    """Return a decorator that registers a function as a rule; see `Rule`."""
    def register(find: _Find) -> _Find:
        RULES[code] = Rule(code, title, when, effect, find, unless, others)
        return find

    return register


def advise(evidence: Evidence) -> list[Advice]:
    """Return the advice that the data proves, in the order in which to follow it; one line a rule names all kernels.

    What is sure to save something in these cells comes first, then what saves time in the next session only, then hints
    that may not help; among those of a kind, what saves most.
    """
    found: list[Advice] = []
    more = dict.fromkeys(rules(), 0)
    for each in rules().values():
        for line in each.find(evidence):
            if isinstance(line, int):
                more[each.code] += line
                continue
            saves = line.saves_ns
            if line.saves_of != NEXT_SESSION and evidence.wall_ns:
                saves = min(saves, evidence.wall_ns)
            found.append(Advice(each.code, line.kernel, line.text, saves, line.saves_of, line.is_certain))
    said = {(each.code, each.kernel) for each in found}
    told = [each for each in found if not any((code, each.kernel) in said for code in rules()[each.code].unless)]
    groups: dict[tuple[str, str, bool], list[Advice]] = {}
    for each in sorted(told, key=_rank):
        groups.setdefault((each.code, each.saves_of, each.is_certain), []).append(each)
    return sorted((_as_one(evidence, lines, more.pop(code, 0)) for (code, _, _), lines in groups.items()), key=_rank)


def _as_one(evidence: Evidence, lines: Sequence[Advice], more: int) -> Advice:
    """Return one line of a rule for all that it is about, with the sum of what they save, `more` kernels included."""
    first, *others = lines
    if not others and not more:
        return first
    saves = sum(each.saves_ns for each in lines)
    if more and first.saves_of == WALL:  # of these nothing was summed
        saves = max(saves, evidence.host_ns or 0)
    return replace(first, text=f"{first.text} {rules()[first.code].others} {_others(others, more)}.",
                   saves_ns=saves if first.saves_of == NEXT_SESSION else min(saves, evidence.wall_ns or saves))


def first_of(advice: Sequence[Advice]) -> Advice | None:
    """Return what to do first, of what `advise` returned; None where nothing is sure to help."""
    return advice[0] if advice and advice[0].is_certain else None


def _rank(each: Advice) -> tuple[bool, bool, float, str, str]:
    return not each.is_certain, each.saves_of == NEXT_SESSION, -each.saves_ns, each.code, each.kernel


def _flat(kinds: Any) -> Iterator[str]:
    for each in items(kinds):
        if isinstance(each, str):
            yield each
        else:
            yield from _flat(each)


def _others(others: Sequence[Advice], more: int) -> str:
    return listed([cut(each.kernel) for each in others[:_OTHERS]], _OTHERS, max(len(others) - _OTHERS, 0) + more)


# Compiles.

#: Frameworks whose signatures have the types alone, in numba's notation.
_BY_TYPES = (*NUMBA, "quadrants")


@rule("argument_types", "an argument of many types",
      when=f"more than {FEW_TYPES} specializations of a kernel differ in one argument alone",
      effect="one compile instead of one a type")
def _argument_of_many_types(evidence: Evidence) -> Iterator[RuleResult]:
    for churn, kernel in _churn_of(evidence, "argument_types"):
        if maker_of(kernel).of_user not in _BY_TYPES:
            continue
        types = [short(parse_type(text)) for text in churn.types]
        name = churn.argument if churn.argument.startswith("argument ") else f"argument `{cut(churn.argument)}`"
        yield Finding(kernel["name"], (
            f"{name} of {cut(kernel['name'])} took {len(churn.types):,} types while all others stayed as they were "
            f"({listed(types, _LISTED)}): {churn.spent}. Pass it as one type."
        ), _spared_ns(evidence, churn))


#: What spares the kernels that numba-cuda defines anew in each call.
_INSTEAD = {"numba.cuda.kernels.transpose": "transpose on the host, or keep what .T of a device array returns"}


@rule("recreated", "a kernel that is defined again",
      when="the same types are compiled again because the same definition ran again",
      effect="one compile instead of one a definition")
def _defined_again(evidence: Evidence) -> Iterator[RuleResult]:
    for churn, kernel in _churn_of(evidence, "recreated"):
        maker = maker_of(kernel)
        if maker.framework not in COMPILING:
            continue
        if maker.is_library:
            if maker.framework not in NUMBA:
                continue
            instead = _INSTEAD.get(str(kernel["module"]), "keep what the library returned instead of calling it again")
            yield Finding(kernel["name"], (
                f"{cut(kernel['name'])} of {kernel['module']} was defined again with the same code, and compiled again "
                f"for the same types: {churn.spent}. It is the library's own kernel: {instead}."
            ), _spared_ns(evidence, churn))
            continue
        where, remedy = "", "keep the definition out of the loop or function that runs again"
        if churn.cells > 1:
            where, remedy = f", in {churn.cells:,} runs of cells", "keep it out of the cell that is run again"
        name = json_object(kernel["attributes"]).get("function") or kernel["name"]
        passed = ", and pass what it captures as arguments" if maker.framework in NUMBA and maker.owner == "user" else (
            "")
        yield Finding(kernel["name"], (
            f"{cut(name)} was defined again with the same code{where}, and compiled again for the same types: "
            f"{churn.spent}. Define it once: {remedy}{passed}."
        ), _spared_ns(evidence, churn))


@rule("same_code", "the same code in several places",
      when="the same types are compiled for several kernels of the same code, apart from what it captures",
      effect="one compile instead of one a place")
def _same_code(evidence: Evidence) -> Iterator[RuleResult]:
    for churn, kernel in _churn_of(evidence, "same_code"):
        if maker_of(kernel).of_user not in COMPILING:
            continue
        rows = evidence.dispatchers(churn.dispatchers)
        names = list(dict.fromkeys(str(row["name"]) for row in rows))
        options = {row["options"] or "none" for row in rows}
        what = f"{listed([*map(cut, names)])} have the same code" if len(names) > 1 else (
            f"{cut(names[0])} has the same code in {len(rows)} dispatchers")
        if len(options) > 1:
            what += " with different options"
        yield Finding(kernel["name"], (
            f"{what}, each compiled for the same types: {churn.spent}. One definition that all launches use would need "
            "fewer."
        ), _spared_ns(evidence, churn))


def _churn_of(evidence: Evidence, code: str) -> list[tuple[Churn, _Row]]:
    return [(each, evidence.dispatchers(each.dispatchers[:1])[0]) for each in evidence.churn if each.code == code]


def _spared_ns(evidence: Evidence, churn: Churn) -> int:
    """Return what all compiles of a churn took but for those that are needed: at best the cheapest of each group."""
    took = dict(zip(churn.compilations, evidence.bounds.compiles_ns(churn.compilations), strict=True))
    return sum(took.values()) - sum(min(took[at] for at in group) for group in churn.needed)


def _compiled_again(reason: str, what: str, evidence: Evidence) -> Iterator[RuleResult]:
    """Find kernels that were compiled several times for one reason."""
    by_kernel: dict[int, list[CompilationSummary]] = {}
    for each in evidence.compiled:
        if each.outcome == "compiled" and each.reason_code == reason and not each.is_trial and _has_fix(each):
            by_kernel.setdefault(each.dispatcher_id, []).append(each)
    for rows in by_kernel.values():
        remedy = ONE_TYPE[reason].get(_maker(rows[0]).of_user)
        if len(rows) > 1 and remedy is not None:
            spent, name = sum(each.duration_ns for each in rows), rows[-1].name
            yield Finding(name, (f"{cut(name)} was compiled {counted(len(rows), 'more time')} for other {what}, "
                               f"{duration(spent)} in all: {remedy}."), _compiles_ns(evidence, rows))


def _maker(compiled: CompilationSummary) -> Maker:
    return Maker(compiled.framework, compiled.owner or "user")


def _has_fix(compiled: CompilationSummary) -> bool:
    """Return whether something avoids a compile, as far as its fix says."""
    return not (compiled.fix or "").startswith("nothing ")


def _compiles_ns(evidence: Evidence, rows: Iterable[CompilationSummary]) -> int:
    return sum(evidence.bounds.compiles_ns([each.compilation_id for each in rows]))


_OF_ONE_ARGUMENT = tuple(f"repeated_{what}" for what in ("layouts", "dtypes", "scalars", "tuples"))

for _code, _reason, _what in (
    ("repeated_layouts", "new_layout", "memory layouts"),
    ("repeated_dtypes", "new_dtype", "dtypes"),
    ("repeated_scalars", "new_scalar", "types of numbers"),
    ("repeated_tuples", "tuple_arity", "numbers of elements in a tuple"),
    ("launch_configurations", "launch_config", "launch configurations (it is launch-config sensitive)"),
):
    # What is said of one argument says more than that types differ.
    rule(_code, f"compiles for other {_what}", when=f"2 compiles of a kernel with the reason `{_reason}`",
         effect="one compile instead of several", unless=() if _reason == "launch_config" else ("argument_types",))(
             partial(_compiled_again, _reason, _what))

#: Reasons that are about what the user passes.
_PASSED = ("new_dtype", "new_dimensions", "new_layout", "new_access", "new_alignment", "new_scalar", "tuple_arity",
           "optional", "literal", "new_type", "new_constexpr", "divisibility", "equal_to_1", "static_size", "new_value",
           "new_keys", "new_length", "requires_grad", "new_tensor_kind", "aliasing")


@rule("changed_argument", "a compile for a changed argument",
      when=f"compiles of {duration(COMPILE_NS)} or more that a changed argument made necessary and a fix avoids; not "
           "where a rule on several types says it",
      effect="the specialization that is there is used", unless=("argument_types", *_OF_ONE_ARGUMENT),
      others="For changed arguments too, each with a fix of its own:")
def _changed_argument(evidence: Evidence) -> Iterator[RuleResult]:
    by_kernel: dict[int, list[CompilationSummary]] = {}
    for each in evidence.compiled:  # the longest first
        if (each.outcome == "compiled" and each.reason_code in _PASSED and each.duration_ns >= COMPILE_NS
                and not each.is_trial and each.fix and _has_fix(each) and _maker(each).of_user in COMPILING):
            by_kernel.setdefault(each.dispatcher_id, []).append(each)
    for rows in by_kernel.values():
        longest, spent = rows[0], sum(each.duration_ns for each in rows)
        reason = longest.change or longest.reason
        word = (longest.fix or "").partition(" ")[0]
        fix = (word.capitalize() if word.isalpha() else word) + (longest.fix or "")[len(word):]
        many = "" if len(rows) == 1 else f" in all; the longest, {duration(longest.duration_ns)}"
        yield Finding(longest.name, (
            f"{cut(longest.name)} was compiled {counted(len(rows), 'more time')} for changed arguments, "
            f"{duration(spent)}{many}: {reason}. {fix}."
        ), _compiles_ns(evidence, rows))


@rule("no_disk_cache", "slow compiles without a disk cache",
      when=f"compiles of the user's kernels of {duration(SLOW_COMPILE_NS)} or more, each without a disk cache, where "
           "the framework has one that is off",
      effect="the next session loads them instead")
def _no_disk_cache(evidence: Evidence) -> Iterator[RuleResult]:
    slow: list[CompilationSummary] = []
    by_remedy: dict[str, dict[str, None]] = {}
    for each in evidence.compiled:
        remedy = DISK_CACHE.get(each.framework) if _maker(each).owner == "user" else None
        if (remedy is None or each.outcome != "compiled" or each.cached_on_disk or each.duration_ns < SLOW_COMPILE_NS
                or not _can_be_kept(each, evidence)):
            continue
        slow.append(each)
        by_remedy.setdefault(remedy, {})[each.name] = None
    if not slow:
        return
    names = {each.name for each in slow}
    spent = sum(each.duration_ns for each in slow)
    remedies = [f"{remedy} would spare the next session those of {listed([*map(cut, held)])}"
                for remedy, held in by_remedy.items()]
    text = f"{counted(len(slow), 'compile')} took {duration(spent)} without a disk cache: {'; '.join(remedies)}."
    yield Finding(names.pop() if len(names) == 1 else "", text, spent, NEXT_SESSION)


def _can_be_kept(compiled: CompilationSummary, evidence: Evidence) -> bool:
    """Return whether numba's disk cache takes a kernel; those of others take all."""
    if compiled.framework not in NUMBA:
        return True
    in_memory_only = compiled.framework == "numba-cuda-mlir" and compiled.launch_config_sensitive
    return not in_memory_only and is_cacheable(evidence.dispatchers([compiled.dispatcher_id])[0])


# Launches.

@rule("launch_bound", "a GPU that waits for launches",
      when=f"the GPU is busy for less than {percent(LOW_BUSY)} of the time, half of its idle time is launches, longer "
           f"ones apart, and {MANY_LAUNCHES:,} of one kernel take longer on the host than on the GPU",
      effect="the GPU does in less time what it does now")
def _launch_bound(evidence: Evidence) -> Iterator[RuleResult]:
    gpu, bound = evidence.gpu, evidence.launch_bound
    if gpu is None or not bound:
        return
    idle = gpu.idle[0]
    launching = sum(idle.by_state[state] for state in LAUNCHING)
    for kernel, execute_ns in bound:
        count, spent = kernel.usual_launches, kernel.usual.launching_ns or 0
        yield Finding(kernel.name, (
            f"the GPU was busy for {percent(gpu.busy[0].share or 0)} of the time, and idle mostly while the host made "
            f"launches ({percent(launching / idle.idle_ns)} of the idle time). A launch of {cut(kernel.name)} takes "
            f"{duration(spent / count)} on the host ({count:,} took {duration(spent)}{_beside_long(kernel)}), its "
            f"kernel {duration(execute_ns)} on the GPU. {evidence.fewer_launches(kernel.dispatcher_id)}"
        ), evidence.bounds.launches_ns(kernel.dispatcher_id))


@rule("many_launches", "many launches that take the wall time",
      when=f"{MANY_LAUNCHES:,} launches of one kernel that take {percent(LARGE_SHARE)} of the wall time, longer ones "
           "apart; not where `launch_bound` says it of that kernel",
      effect="fewer launches, each with more work, or one launch of a graph")
def _many_launches(evidence: Evidence) -> Iterator[RuleResult]:
    # Of a kernel both say the same, and the one that knows the GPU proves it.
    bound = {kernel.dispatcher_id for kernel, _ in evidence.launch_bound}
    for kernel in _often_launched(evidence):
        count, spent = kernel.usual_launches, kernel.usual.launching_ns
        if spent is None or kernel.dispatcher_id in bound or not evidence.wall_ns or not evidence.is_large(spent):
            continue
        fewer = evidence.fewer_launches(kernel.dispatcher_id)
        if fewer is not None:
            yield Finding(kernel.name, (
                f"{count:,} launches of {cut(kernel.name)} took {duration(spent)} on the "
                f"host{evidence.of_wall(spent)}, {duration(spent / count)} each{_beside_long(kernel)}. {fewer}"
            ), evidence.bounds.launches_ns(kernel.dispatcher_id), is_certain=not evidence.is_gpu_busy)


#: What a launch that took long may have done in each phase: of every framework, and where launches take host arrays.
_LONG_IN = {"submit": ", where a launch waits as long as the device's queue is full"}
_LONG_WITH_ARRAYS = _LONG_IN | {
    "dispatch": ", which looks the argument types up and runs Python alone",
    "prepare": ", where host arrays are copied in, and a first launch loads its module",
    "finish": ", where host arrays are copied back",
}


@rule("long_launches", "a few launches of many that took much of the time",
      when=f"launches of more than {LONG} times the kernel's median that take {percent(LARGE_SHARE)} of the wall time, "
           f"of {MANY_LAUNCHES:,} launches",
      effect="says in which phase to look; neither fewer launches nor a graph is sure to spare that")
def _long_launches(evidence: Evidence) -> Iterator[RuleResult]:
    for kernel in evidence.kernels.where(evidence.kernels.column("long_launches") > 0):
        long, usual = kernel.long, kernel.usual.launching_ns
        if long is None or long.phase is None or usual is None:
            continue
        count, spent = kernel.usual_launches + long.launches, long.totals.launching_ns or 0
        maker = evidence.maker(kernel.dispatcher_id)
        # In the simulator a launch is the kernel itself.
        if count < MANY_LAUNCHES or not evidence.is_large(spent) or maker.framework not in FEWER_LAUNCHES:
            continue
        why = (_LONG_WITH_ARRAYS if maker.framework in DEVICE_ARRAYS else _LONG_IN).get(long.phase, "")
        which = "the longest took" if long.launches > 1 else "it took"
        yield Finding(kernel.name, (
            f"{long.launches:,} of {count:,} launches of {cut(kernel.name)} took {duration(spent)} of its "
            f"{duration(spent + usual)} on the host ({percent(spent / (spent + usual))}); {which} "
            f"{duration(long.longest_ns)}, {duration(long.phase_ns)} of it in {long.phase}{why}. "
            "The timeline shows when. Fewer launches or a CUDA graph may not help here."
        ), spent, is_certain=False)


#: Whose arrays a launch wraps, as `array_kind` calls them.
_FOREIGN = {"cupy": "CuPy", "torch": "PyTorch", "other": "another library"}


@rule("slow_prepare", "launches that mostly prepare",
      when=f"{duration(SLOW_PREPARE_NS)} of prepare a launch on average that are, with finish, half of its host time, "
           "and copies in these launches where copies were recorded, or arrays of another library; not where all "
           "arrays were on the device",
      effect="no copies of host arrays at each launch, and no wrapping of other libraries' arrays")
def _slow_prepare(evidence: Evidence) -> Iterator[RuleResult]:
    kernels = evidence.kernels
    prepares, all_of_it = kernels.column("usual_prepare_ns"), kernels.column("usual_launching_ns")
    # Host arrays are copied back in finish: which of the two takes longer is chance.
    copying = prepares + np.maximum(kernels.column("usual_finish_ns"), 0)
    slow = (prepares >= SLOW_PREPARE_NS * kernels.column("usual_launches")) & (all_of_it > 0)
    found = kernels.where(slow & (copying >= 0.5 * all_of_it))
    copies = evidence.copies_in_launches if len(found) else None
    yield max(len(found) - MOST_FOUND, 0)
    for kernel in found[:MOST_FOUND]:
        made, total = _instead_of_preparing(evidence, kernel, copies), kernel.totals
        if made is None:
            continue
        count, spent, prepare = kernel.usual_launches, kernel.usual.launching_ns or 0, kernel.usual.prepare_ns or 0
        why, is_wrapping, is_certain = made
        saves = (total.prepare_ns or 0) + (total.finish_ns or 0) + (total.dispatch_ns or 0 if is_wrapping else 0)
        yield Finding(kernel.name, (
            f"{counted(count, 'launch', 'launches')} of {cut(kernel.name)} spent {duration(prepare)} of "
            f"{duration(spent)} ({percent(prepare / spent)}) in prepare, {why}."
        ), saves, is_certain=is_certain)


def _instead_of_preparing(evidence: Evidence, kernel: KernelSummary,
                          copies: Mapping[int, int] | None) -> tuple[str, bool, bool] | None:
    """Return what a launch prepares and what to pass instead, whether it wraps arrays, and whether it is certain.

    None where the user can pass nothing else.
    """
    framework = evidence.maker(kernel.dispatcher_id).of_user
    if framework not in DEVICE_ARRAYS:
        return None
    moved = None if copies is None else copies.get(kernel.dispatcher_id, 0)
    kinds = evidence.array_kinds.get(kernel.dispatcher_id)
    what, instead = "where host arrays are copied", f"pass device arrays ({DEVICE_ARRAYS[framework]})"
    if moved:
        return f"{what} ({size(moved)} in and out): {instead}", False, True
    if (kinds is not None and "host" not in kinds) or moved == 0:
        foreign = [library for kind, library in _FOREIGN.items() if kind in (kinds or ())]
        if not foreign or framework not in WRAPPED_ONCE:
            return None
        return (f"where arrays of {listed(foreign)} are wrapped: pass {WRAPPED_ONCE[framework]}(array), made once for "
                "each", True, True)
    if kinds is not None:
        return f"{what}: {instead}", False, True
    return f"{what}: if it takes any, {instead}", False, False


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
def _pageable_copies(evidence: Evidence) -> Iterator[RuleResult]:
    gpu = evidence.gpu
    if gpu is None or not gpu.busy:
        return
    slow = [each for each in gpu.copies if (each.pageable_ns or 0) >= LARGE_COPIES * gpu.busy[0].window_ns]
    if not slow:
        return
    copies, moved = sum(each.pageable for each in slow), sum(each.pageable_bytes for each in slow)
    spent = sum(each.pageable_ns or 0 for each in slow)
    names = list(dict.fromkeys(each.direction for each in slow))
    directions = " and ".join(names)
    pinned = list(dict.fromkeys(
        remedy for kernel in evidence.kernels.where(evidence.kernels.column("launches") > 0)[:MOST_FOUND]
        if (remedy := PINNED_MEMORY.get(kernel.framework) or PINNED_BY_LIBRARY.get(kernel.module or ""))))
    instead = f"in pinned memory ({listed(pinned)}), or on the device" if pinned else "on the device"
    yield Finding("", (
        f"{counted(copies, f'{directions} copy', f'{directions} copies')} from or to pageable memory took "
        f"{duration(spent)} ({size(moved)}); the driver copies such memory once more on the host: keep these arrays "
        f"{instead}."
    ), max(evidence.bounds.copies_ns(names), spent))


def _gpu_ns(evidence: Evidence, kernels: Sequence[int]) -> dict[int, int]:
    """Return the time of some kernels' runs on the GPU; 0 for those of which it was not recorded."""
    runs = {} if evidence.gpu is None else evidence.gpu.execution.by_id([*kernels])
    return {at: run.execute.total_ns if (run := runs.get(at)) is not None and run.execute is not None else 0
            for at in kernels}


@rule("few_blocks", "grids of few blocks",
      when=f"{MANY_LAUNCHES:,} launches of one kernel, none with more blocks than 1 / {FEW_BLOCKS} of the GPU's "
           "multiprocessors, where the user chooses the grid",
      effect="multiprocessors that are idle now have work, unless launches overlap")
def _few_blocks(evidence: Evidence) -> Iterator[RuleResult]:
    multiprocessors = evidence.multiprocessors
    often = evidence.kernels.where(evidence.kernels.column("launches") >= MANY_LAUNCHES)
    spent = _gpu_ns(evidence, often.ids.tolist())
    for kernel in often:
        most, maker = kernel.most_blocks, evidence.maker(kernel.dispatcher_id)
        if (multiprocessors and most and most * FEW_BLOCKS <= multiprocessors and maker.framework in GRIDS
                and maker.owner == "user"):
            yield Finding(kernel.name, (
                f"all {kernel.launches:,} launches of {cut(kernel.name)} have {counted(most, 'block')} at most, on a "
                f"GPU with {multiprocessors} multiprocessors: the others are idle unless launches overlap."
            ), spent[kernel.dispatcher_id], GPU, is_certain=False)


@rule("partial_warps", "blocks with a partial warp",
      when=f"any launch of several blocks whose threads are no multiple of {WARP}, where the user chooses the block",
      effect="no lanes of a warp are idle, which may take as long")
def _partial_warps(evidence: Evidence) -> Iterator[RuleResult]:
    found = evidence.kernels.where(evidence.kernels.column("partial_warps") > 0)
    yield max(len(found) - MOST_FOUND, 0)
    spent = _gpu_ns(evidence, found.ids[:MOST_FOUND].tolist())
    for kernel in found[:MOST_FOUND]:
        maker, (launches, threads) = evidence.maker(kernel.dispatcher_id), kernel.partial_warps
        if maker.framework in BLOCKS and maker.owner == "user":
            yield Finding(kernel.name, (
                f"{counted(launches, 'launch', 'launches')} of {cut(kernel.name)} had blocks that are no multiple of a "
                f"warp's {WARP} threads: in the largest, of {counted(threads, 'thread')}, {-threads % WARP} of the "
                "last warp's lanes idle."
            ), spent[kernel.dispatcher_id], GPU, is_certain=False)


# Graphs and build caches.

_DIFFERS = {
    "arguments": "arguments had changed", "configuration": "launch configurations or sizes had",
    "topology": "nodes or edges had",
}


@rule("rebuilt_graph", "graphs that were rebuilt",
      when="2 executable graphs that replaced one of the same topology",
      effect="an executable graph is reused, or updated, instead of instantiated again")
def _rebuilt(evidence: Evidence) -> Iterator[RuleResult]:
    for graph in evidence.users_graphs:
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
        gone = [each for each in evidence.executables.get(graph.name, ()) if each.replaces]
        yield Finding(graph.name, (
            f"{_where(graph, evidence.cells)} instantiated one topology ({graph.name}, "
            f"{counted(graph.nodes or 0, 'node')}) {graph.builds:,} times, {duration(graph.build.total_ns)} in all; "
            f"{count:,} of them, {duration(graph.replaced_ns)}, replaced an executable graph: {'; '.join(what)}."
        ), evidence.bounds.executables_ns(gone))


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
def _launched_once(evidence: Evidence) -> Iterator[RuleResult]:
    for graph in evidence.users_graphs:
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
        yield Finding(graph.name, (
            f"{graph.name} ({counted(graph.nodes or 0, 'node')}) {how} instantiated, launched once and closed: "
            f"instantiating took {duration(spent)}{many} {', '.join(took)}. A graph saves time only where it is "
            "launched again."
        ), evidence.bounds.executables_ns(once, with_launches=True))


@rule("unlaunched_graph", "graphs that were never launched",
      when="any executable graph that was closed without a launch", effect="nothing is instantiated for nothing")
def _unlaunched(evidence: Evidence) -> Iterator[RuleResult]:
    for graph in evidence.users_graphs:
        never = [each for each in evidence.executables.get(graph.name, ()) if each.is_closed and not each.launches]
        if never:
            spent = sum(each.build_ns or 0 for each in never)
            yield Finding(graph.name, (
                f"{graph.name} ({counted(graph.nodes or 0, 'node')}) was instantiated {_times(len(never))} and closed "
                f"without a launch, {duration(spent)} in all: instantiate it where it is needed."
            ), evidence.bounds.executables_ns(never))


@rule("refused_updates", "updates that the driver refused", when="any update that the driver refused",
      effect="instantiating without trying an update that cannot work")
def _refused(evidence: Evidence) -> Iterator[RuleResult]:
    for graph in evidence.users_graphs:
        if graph.refused:
            total = " in all" if graph.refused > 1 else ""
            took = "" if graph.refusal is None else f", {duration(graph.refusal.total_ns)}{total}"
            yield Finding(graph.name, (
                f"{counted(graph.refused, 'update')} of {graph.name} {'was' if graph.refused == 1 else 'were'} refused "
                f"by the driver{took}: an update can change arguments, launch configurations and sizes. Where nodes or "
                "edges change, instantiate without trying."
            ), graph.refusal.total_ns if graph.refusal else 0)


@rule("operator_names", "builds for an operator's name", when="any algorithm built again for an operator's name alone",
      effect="one build instead of one a name")
def _operator_names(evidence: Evidence) -> Iterator[RuleResult]:
    for each in evidence.builds:
        named = [miss for miss in each.not_hits if miss.outcome == "miss" and miss.reason_code == OPERATOR_NAME]
        spent = sum(miss.duration_ns or 0 for miss in named)
        if named and each.framework == "cuda.compute":
            yield Finding(each.algorithm, (
                f"{cut(each.algorithm)} was built {counted(len(named), 'more time')} for an operator's name alone, "
                f"{duration(spent)} in all: {cut(each.framework)} keeps what it built by the operator's name too. "
                "Define the operator once, under one name."
            ), spent)


@rule("autotune_key", "an autotuner that runs again for each value of an argument",
      when=f"an argument in its key had {MANY_KEYS} new values or more",
      effect="one run of the autotuner instead of one a value")
def _autotune_key(evidence: Evidence) -> Iterator[RuleResult]:
    runs: dict[tuple[int, str], list[Tuning]] = {}
    for each in _users_tunings(evidence):
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
        yield Finding(kernel, (
            f"{cut(kernel)} was autotuned {counted(len(again), 'more time')} for new values of `{name}` "
            f"({cut(values)}), {duration(spent)} in all. {fix[:1].upper()}{fix[1:]}."), spent)


def _users_tunings(evidence: Evidence) -> list[Tuning]:
    """Return the runs of Triton's autotuner for kernels that the user wrote."""
    return [each for each in evidence.tunings if evidence.maker(each.dispatcher_id) == Maker("triton", "user")]


@rule("autotune_results", "tuning that was done before",
      when="the compiles of all configurations that an autotuner tried came from Triton's disk cache, and it does not "
           "keep its results", effect="the next session reads the results from disk")
def _autotune_results(evidence: Evidence) -> Iterator[RuleResult]:
    runs: dict[int, list[Tuning]] = {}
    for each in _users_tunings(evidence):
        if each.disk_hits and not each.compiles and each.outcome == "miss" and not (
                each.keeps_results or each.has_pre_hook):
            runs.setdefault(each.dispatcher_id, []).append(each)
    for again in runs.values():
        spent, kernel = sum(each.duration_ns for each in again), again[0].name
        yield Finding(kernel, (
            f"{cut(kernel)} was autotuned in {duration(spent)}, and had been before: all configurations were in "
            f"Triton's disk cache. {KEEP}, so that they are not measured again."), spent, NEXT_SESSION)


@rule("repeated_sequence", "the same launches again and again",
      when=f"{LEAST_ROUNDS} rounds of the same 2 to {LONGEST_ROUND} launches one after another in a cell that take "
           f"{percent(LARGE_SHARE)} of the wall time, longer ones apart, while no GPU is busy for {percent(LOW_BUSY)} "
           "of the time",
      effect="a round is one launch of a graph; `%kernelscope whatif graph` measures it")
def _repeated_sequence(evidence: Evidence) -> Iterator[RuleResult]:
    loop, wall_ns = evidence.loop, evidence.wall_ns
    if loop is None or not wall_ns or not evidence.is_large(loop.usual_ns) or evidence.is_gpu_busy:
        return
    rows = evidence.dispatchers(loop.dispatchers)
    if any(row["framework"] not in CAPTURE for row in rows):
        return
    how = listed(list(dict.fromkeys(filter(None, (CAPTURE[row["framework"]] for row in rows)))))
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
    yield Finding("", (
        f"the same {len(rows):,} launches ({kernels}) were made {loop.rounds:,} times in a row: {spent}. Captured into "
        f"a CUDA graph{f' ({how})' if how else ''}, a round is one launch.{measured}"
    ), loop.span_ns)


@rule("graph_fell_back", "graph kernels that fell back to plain launches",
      when="any launch of a Quadrants kernel with `graph=True` that was no graph launch",
      effect="says why the backend made no graph")
def _graph_fell_back(evidence: Evidence) -> Iterator[RuleResult]:
    for kernel in graph_kernels(evidence.recording):
        if not kernel.plain:
            continue
        launches = counted(kernel.launches, "launch", "launches")
        text = (f"{kernel.plain:,} of {launches} of {cut(kernel.name)}, a graph kernel, fell back to plain launches, "
                f"{duration(kernel.plain_ns)} in all: {'; '.join(kernel.because)}.")
        if kernel.loops:
            loops = counted(kernel.loops, "qd.graph.do_while loop")
            text += f" Its {loops} went through the host, which waits for the flag after each turn."
        yield Finding(kernel.name, text, kernel.plain_ns, is_certain=False)


# What repeats.

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
    span_ns : int
        Time of all rounds, each from the start of its first launch to the end of its last one, without compiles: what
        is between the launches of a round is in it.
    """

    dispatchers: tuple[int, ...]
    rounds: int
    cell_id: int | None
    usual_rounds: int
    usual_ns: int
    long_ns: int
    span_ns: int


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
    compiling, waiting, measuring = (np.maximum(phases.phases[name][chosen], 0) for name in APART)
    host = phases.host_ns[chosen] - compiling - waiting - measuring
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
    start, end = (times[chosen] for times in instants(recording, "launches", "start_ns", "end_ns"))
    span_ns = int((end.max(axis=1) - start[:, 0]).sum() - compiling.sum())
    return Repetition(tuple(dispatcher.tolist()), rounds, cell, rounds - len(long), int(spent.sum()) - long_ns, long_ns,
                      span_ns)


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
    compilations : tuple of int
        These compiles: rows of ``compilations``.
    needed : tuple of tuple of int
        Groups of them of each of which one would have been needed even so.
    """

    code: str
    dispatchers: tuple[int, ...]
    argument: str
    types: tuple[str, ...]
    compiles: int
    spent_ns: int
    cells: int
    compilations: tuple[int, ...]
    needed: tuple[tuple[int, ...], ...]

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
    is_known = len(about) < len(types)  # one of them was there before, or needed no compile
    needed = [] if is_known else [[row["compilation_id"] for row in about]]
    return _churn("argument_types", (dispatcher["dispatcher_id"],), about, needed, name, tuple(types))


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
            if len(places) > 1 and maker_of(members[0]).is_library:
                continue  # it is not the user's to have one definition of both
            by_types: dict[str, list[_Row]] = {}
            for row in repeated:
                by_types.setdefault(row["signature"], []).append(row)
            # Where the first of them replaced a definition from before the recording, that one would have done.
            needed = [[row["compilation_id"] for row in rows] for rows in by_types.values() if not all(
                json_object(row["attributes"]).get("redefined") for row in rows)]
            found.append(_churn("recreated" if len(places) == 1 else "same_code", numbers, repeated, needed))
    return found


def _churn(code: str, dispatchers: tuple[int, ...], rows: Sequence[_Row], needed: Iterable[Sequence[int]],
           argument: str = "", types: tuple[str, ...] = ()) -> Churn:
    cells = {row["cell_id"] for row in rows if row["cell_id"] is not None}
    spent = sum(row_duration_ns(row) or 0 for row in rows)
    return Churn(code, dispatchers, argument, types, len(rows), spent, len(cells),
                 tuple(row["compilation_id"] for row in rows), tuple(map(tuple, needed)))


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
    start, end = instants(recording, "launches", "start_ns", "end_ns")
    fine = codes(recording, "launches", "error")[0] == UNKNOWN
    replayed, lasted = _around_graph_launches(recording, start, end), duration_ns(start, end)
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
            int(np.maximum(lasted, 0)[plain].sum()), tuple(dict.fromkeys(map(str, reasons))),
            max((len(each.get("do_while") or ()) for each in facts), default=0)))
    return found


def _around_graph_launches(recording: Recording, start: Ints, end: Ints) -> Bools:
    """Return which launches contain a graph launch of their thread."""
    found = np.zeros(len(start), dtype=bool)
    thread = ints(recording, "launches", "thread_id")
    launches = matches(recording, "graph_events", "kind", "launch")
    when = instants(recording, "graph_events", "start_ns")[0][launches]
    whose = ints(recording, "graph_events", "thread_id")[launches]
    for number in np.unique(whose).tolist():
        times = np.sort(when[whose == number])
        mine = np.flatnonzero(thread == number)
        found[mine] = np.searchsorted(times, start[mine]) < np.searchsorted(times, end[mine], side="right")
    return found
