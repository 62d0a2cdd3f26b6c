"""What a card says: `card_of` decides what it shows, in which order, how much of it, and in which words.

What it consists of is in `kernelscope.views.card.blocks`; the encoders `text` and `html` print it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from kernelscope.analysis.activities import KernelExecution, Spread
from kernelscope.analysis.advice import Advice, first_of
from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.gpu import told_devices
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.launches import APART, PHASES, CellSummary, KernelSummary, PhaseTotals
from kernelscope.analysis.lines import AnnotatedCode, LineSummary, Source, SourceLine, together
from kernelscope.analysis.processes import Comparison, ProcessSummary
from kernelscope.analysis.ranges import as_tree, of_features
from kernelscope.analysis.savings import GPU, NEXT_SESSION
from kernelscope.recording.driver import FRAMEWORK as DRIVER
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.registry import features, loaded
from kernelscope.units import MISSING, count, counted, duration, listed, percent, size
from kernelscope.views.base import clean, cut, defined_at, shorten
from kernelscope.views.card import labels
from kernelscope.views.card.blocks import (
    FIRST_LINES,
    FIRST_ROWS,
    MOST_LETTERS,
    MOST_ROWS,
    Action,
    Bar,
    Block,
    Card,
    CodeLine,
    Column,
    Figure,
    Finding,
    Findings,
    Fold,
    FoldedLines,
    Health,
    Lines,
    Listing,
    Part,
    Picture,
    Row,
    Section,
    Shares,
    Table,
    TerminalColumn,
    first_and_folded,
    fitting,
    more_text,
    row_letters,
    share_text,
    terminal_columns,
)
from kernelscope.views.card.model import Overview
from kernelscope.views.card.verdict import groups, outliers_line, verdict
from kernelscope.views.parts import GPU_LABELS, part_label, phase_label

#: How many are in sight before "and N more", and how many a page has at most in its folded parts.
FIRST_GRAPHS = FIRST_FINDINGS = FIRST_CONFIGURATIONS = 8
MOST_CONFIGURATIONS = 16
FIRST_FAILED = 3
MOST_GRAPH_ROWS = 200
#: So many letters of findings a folded part has at most.
MOST_FINDING_LETTERS = 250_000
MOST_DETAILS = 20
#: Names of compiled functions beside a kernel.
MOST_BESIDE = 3
#: So many kernels' launch configurations need no folded part around them.
FEW_KERNELS = 5
#: So many lines of code are on a page at most; those that took longest.
MOST_LINES = 200
#: Of a cell with more lines, those that did nothing are folded, but for so many around those that did something.
WHOLE_CELL = 16
CONTEXT = 2
#: So much is shown of a line of code.
MOST_CODE = 300
#: Nodes of a graph whose picture is open at once, where it is the only one.
MOST_OPEN = 12

EMPTY = "no kernel launches in this cell"

#: What to check where nothing was launched.
EMPTY_CHECKS = (
    "a kernel runs only where it is launched: kernel[griddim, blockdim](...)",
    "launches before recording began, or after it ended, are not in it",
    "kernels of a library that no probe knows are not seen; the probes are listed below",
)

_CELL_WIDTH = 80
_WITHOUT_COMPILE = "excluding compilation"
_WITHOUT_MEASURING = "excluding compilation and measuring"


# A notebook asks for a cell's text and for its HTML, one after the other: a recording's card is made once.
_cards: weakref.WeakKeyDictionary[Recording, Card] = weakref.WeakKeyDictionary()
# What makes the line on the run before, of recordings that have one: found out when a card is asked for.
_since: weakref.WeakKeyDictionary[Recording, Callable[[Recording], str]] = weakref.WeakKeyDictionary()


def say_since(recording: Recording, line: Callable[[Recording], str]) -> None:
    """Have the cards of a recording say what changed since an earlier run of its cell.

    Parameters
    ----------
    recording : Recording
        Of which no card was made yet.
    line : callable
        Returns what changed, in one line, given the recording as it is shown; it must not hold the recording itself.
    """
    for each in (recording, shareable(recording)):
        _since[each] = line


def card_of(recording: Recording, *, paths: bool = False) -> Card:
    """Return the card of a recording.

    Parameters
    ----------
    recording : Recording
        What to show.
    paths : bool
        Keep full paths of this machine.
    """
    shown = shareable(recording, paths=paths)
    if shown not in _cards:
        made = card_from(Overview(shown))
        _cards[shown] = replace(made, since=f"Since the last run: {_since[shown](shown)}.") if shown in _since else made
    return _cards[shown]


def card_from(shown: Overview) -> Card:
    """Return the card of what a summary shows."""
    sections = _sections(shown)
    if shown.is_empty:
        sections.insert(0, Section("empty", f"{EMPTY}; check", "", (Lines(EMPTY_CHECKS),),
                                   "why a cell may have no launches", is_open=True))
    problems = [("error", shown.error)] if shown.error else []
    if shown.unfinished:
        problems.append(("", labels.unfinished_note(shown)))
    problems += [("wrong arguments", note) for note in labels.unchecked_notes(shown)]
    if shown.reversed_cells:
        problems.append(("", labels.reversed_note(shown)))
    largest = None if shown.is_empty else _largest(shown)
    return Card(
        title=shown.title, status=shown.status, notice=shown.notice, device=shown.device or "",
        problems=tuple(problems),
        verdict=verdict(
            shown.time, shown.timed_cells, shown.compilations, shown.launches, shown.gpu,
            0 if shown.processes is None else len(shown.processes.processes),
            [each.name for each in shown.tunings if each.outcome != "disk"], shown.cells_left_out),
        stands_out=outliers_line(shown.outliers) if shown.outliers is not None else "",
        stands_out_at=f"launches:{shown.outliers.longest[0].launch_id}" if shown.outliers is not None else "",
        action=_action(shown), figures=() if shown.is_empty else figures(shown),
        shares=() if shown.is_empty else (*_time_shares(shown), *_gpu_shares(shown)),
        sections=tuple(sorted([replace(each, is_open=each.is_open or each.key == largest)
                               for each in sections if each is not None], key=lambda each: not each.is_open)),
        health=_health(shown), cell="" if shown.start_ns is None else str(shown.start_ns),
    )


#: The section about each part of the wall time.
_ABOUT = {"compile": "compiles", "launch": "kernels", "compile_wait": "compiles", "autotuning": "tunings",
          "graph": "graphs", "python": "ranges", "wait": "lines"}
#: A part that is less of the wall time has its section folded.
_OPEN_SHARE = 0.25


def _largest(shown: Overview) -> str | None:
    """Return the key of the section about what took most of the time, which is unfolded."""
    if shown.time is None or not shown.time.wall_ns:
        return "kernels"
    name, spent = groups(shown.time)[0]
    if name == "compile" and not shown.compilations:
        return "builds"
    if name == "launch" and len(shown.by_kernel) < 2:  # else the verdict says it all
        return "lines" if shown.code is not None and len(shown.code.lines) > 1 else None
    return _ABOUT.get(name) if spent >= _OPEN_SHARE * shown.time.wall_ns else None


def _action(shown: Overview) -> Action | None:
    """Return what to do first, with what it saves at most and of what."""
    first = first_of(shown.advice)
    if first is None:
        return None
    return Action(first.text, _effect(first, shown), _place_of(first, shown))


def _effect(advice: Advice, shown: Overview) -> str:
    """Return what following an advice saves at most; a share of these cells only where it is their wall time."""
    if advice.saves_ns <= 0:
        return ""
    most = duration(advice.saves_ns)
    if advice.saves_of == NEXT_SESSION:
        return f"Saves the next session at most {most}."
    if advice.saves_of == GPU:
        return f"Saves at most {most} of GPU time."
    return f"Saves at most {most}" + (f", {percent(advice.saves_ns / shown.wall_ns)}." if shown.wall_ns else ".")


def _time_shares(shown: Overview) -> tuple[Shares, ...]:
    """Return where the cells' time went."""
    time = shown.time
    if time is None or not time.wall_ns:
        return ()
    parts = tuple([Part(name, part_label(name), value) for name, value in groups(time)])
    legend = tuple([
        (each.name, each.label, f"{duration(each.duration_ns)}, {share_text(each.duration_ns, time.wall_ns)}",
         labels.TIME_MEANINGS[each.name]) for each in parts])
    spent = [f"{each.label} {duration(each.duration_ns)}" for each in parts]
    note = labels.garbage_note(shown)
    lines = [f"time: {', '.join(spent)}", *([note] if note else [])]
    return (Shares("Host", (Bar(parts, time.wall_ns),), legend, note, tuple(lines)),)


def figures(shown: Overview) -> tuple[Figure, ...]:
    """Return the headline's figures; of what there is none of, those that are worth knowing even so."""
    compiling = f"{duration(shown.compile_ns)} compiling and loading" if shown.compilations else "nothing compiled"
    is_only_graphs = not shown.launches and any(number for number, *_ in labels.launch_figures(shown))
    made = Figure(counted(shown.launches, "launch", "launches"),
                  "kernel launches that ran, whoever launched them, with "
                  f"{counted(shown.configurations, 'launch configuration')}")
    executed = 0 if shown.gpu is None else shown.gpu.kernels
    found = [
        *([] if is_only_graphs else [made]),
        *[Figure(text, meaning) for number, text, meaning in labels.launch_figures(shown) if number],
        *([Figure(f"{count(executed)} ran on the GPU", "kernels that ran: those of graphs too, and all those of calls "
                  "that launch several")] if executed not in (0, shown.launches) else []),
        Figure(counted(shown.kernels, "kernel"), f"kernel functions that were launched or compiled, in "
               f"{counted(shown.specializations, 'specialization')}: compiled versions, by argument types"),
        *([Figure(counted(shown.compiles, "compile"), f"compiles in launches and outside: {compiling}")]
          if shown.compiles or not shown.is_imported else []),
    ]
    if shown.failed_compiles:
        found.append(Figure(counted(shown.failed_compiles, "failed compile"), "compiles that raised an exception"))
    if shown.memory_hits or shown.compiles:
        found.append(Figure(f"{count(shown.memory_hits)} found in memory",
                            "launches whose specialization had been compiled or loaded before"))
    if shown.disk_hits:
        found.append(Figure(f"{count(shown.disk_hits)} from disk",
                            "specializations that were loaded from a disk cache instead of being compiled"))
    if shown.waits:
        found.append(Figure(counted(shown.waits, "wait"), "requests that waited while another thread compiled the "
                            f"same, {duration(shown.compile_wait_ns)} together: these are no compiles"))
    if shown.launches:
        found.append(Figure(f"{duration(shown.totals.host_ns)} in launches",
                            f"host time inside launches, from each call to its return: {labels.share_note(shown)}"))
    return tuple(found)


def _health(shown: Overview) -> tuple[Health, ...]:
    found = [Health(each) for each in (labels.cost(shown), labels.synchronize_note(shown)) if each]
    # What several processes have alike is said once, of what is no trouble also where only figures differ; what has no
    # process is of the whole recording.
    alike: dict[object, tuple[Health, dict[str, None], set[str]]] = {}
    for at, row in enumerate(shown.health):
        facts = cut(labels.health(row))
        each = Health(f"{row.probe}: {row.status}{f', {facts}' if facts else ''}", cut(row.fix or ""), row.is_trouble)
        said = each if row.is_trouble else replace(each, text=re.sub(r"[\d.,]+ (ns|µs|ms|s)\b", "", each.text))
        _, names, texts = alike.setdefault((said, -1 if row.process else at), (each, {}, set()))
        texts.add(each.text)
        if row.process:
            names[clean(row.process)] = None
    for each, names, texts in alike.values():
        if each.is_trouble or len(names) < 2:
            where = listed([*names], FIRST_FAILED)
        elif len(texts) == 1:
            where = counted(len(names), "process", "processes")
        else:
            where = f"{next(iter(names))}, and {counted(len(names) - 1, 'process', 'processes')} alike"
        found.append(replace(each, text=f"{each.text} ({where})") if names else each)
    return tuple(found)


# Host time by phase.

def phases_section(shown: Overview) -> Section | None:
    """Return the host time of all launches by phase; on a terminal, that of each kernel too."""
    totals = shown.totals
    if totals.host_ns is None:
        return None
    kernels = shown.by_kernel if len(shown.by_kernel) > 1 else ()
    rows = [Row("all", _phase_values(totals)),
            *(Row(kernel.name, _phase_values(kernel.totals)) for kernel in kernels[:FIRST_ROWS])]
    phase_columns = tuple([TerminalColumn(phase_label(name), name, is_wide=False) for name in _phase_names(totals)])
    table = Table(("kernel", ""), tuple(rows), terminal=phase_columns)
    if not totals.segments:
        return Section("phases", "Host time by phase", duration(totals.host_ns), (table,), _PHASES_EXPLANATION)
    legend: list[tuple[str, str, str, str]] = []
    for name in _phase_names(totals):
        value = totals.unsplit_ns if name == "unsplit" else totals.phase(name)
        share = "not recorded" if value is None else "none"
        if value:
            share = f"{duration(value)}, {share_text(value, totals.host_ns)}"
        legend.append((name, phase_label(name), share, labels.PHASE_MEANINGS[name]))
    rest = totals.launching_ns or 0
    note = f"{_excluding(totals)}: {duration(rest)}" if 0 < rest < totals.host_ns else ""
    return Section("phases", "Host time by phase", duration(totals.host_ns),
                   (Shares("", phase_bars(totals), tuple(legend), note), table),
                   _PHASES_EXPLANATION)


_PHASES_EXPLANATION = "host time inside all launches, from each call to its return, by what was done"


def phase_bars(totals: PhaseTotals) -> tuple[Bar, ...]:
    """Return a bar of host time by phase and, where a compile or a replay is in it, a thinner one without these.

    A compile is so long that next to it nothing else of a launch can be seen.
    """
    parts = tuple([Part(name, phase_label(name), value) for name, value in totals.segments])
    rest = tuple(each for each in parts if each.name not in APART)
    bars = (Bar(parts, totals.host_ns or 0),) if parts else ()
    if rest and len(rest) < len(parts):
        bars = (*bars, Bar(rest, sum(each.duration_ns for each in rest), f"{_excluding(totals)}: "))
    return bars


def _excluding(totals: PhaseTotals) -> str:
    return _WITHOUT_MEASURING if totals.measuring_ns else _WITHOUT_COMPILE


def _parts(segments: Sequence[tuple[str, int]], *, is_imported: bool = False) -> tuple[Part, ...]:
    return tuple([Part(name, part_label(name, is_imported=is_imported), value) for name, value in segments])


def _phase_values(totals: PhaseTotals) -> dict[str, str]:
    return {name: duration(totals.unsplit_ns if name == "unsplit" else totals.phase(name))
            for name in (*PHASES, "unsplit")}


def _phase_names(totals: PhaseTotals) -> tuple[str, ...]:
    """Return the phases that a table shows: not the rare ones where there is nothing of them."""
    rare = {"compile_wait": totals.compile_wait_ns, "measuring": totals.measuring_ns, "unsplit": totals.unsplit_ns}
    return tuple([name for name in (*PHASES, "unsplit") if name not in rare or rare[name]])


def _bars_column(shown: Overview | None = None, *, is_compiled: bool = False) -> Column:
    """Return the column of bars, with the meaning of the thinner bars below its label."""
    below = "excl. compilation" if is_compiled or (shown is not None and shown.totals.compile_ns) else ""
    return Column("By phase", "bars", below, width="phases", kind="bars")


# The GPU's side.

def _gpu_shares(shown: Overview) -> tuple[Shares, ...]:
    """Return how busy each device was, and what the host did while it idled."""
    gpu = shown.gpu
    if gpu is None or not labels.is_shown(shown):
        return ()
    found: list[Shares] = []
    idle = {each.device_id: each for each in gpu.idle}
    told = told_devices(gpu.busy)
    for at, busy in enumerate(told):
        where = labels.device_name(shown, busy.device_id)
        parts = tuple([Part(name, GPU_LABELS[name], value) for name, value in labels.gpu_parts(busy)])
        if len(told) < len(gpu.busy):
            where = f"{('least', 'most')[at]} busy of {len(gpu.busy)}, {where}"
        shares = [(each, share_text(each.duration_ns, busy.window_ns)) for each in parts]
        text = ", ".join([f"{each.label} {duration(each.duration_ns)} ({share})" for each, share in shares])
        bars, note, lines = [Bar(parts, busy.window_ns)], "", [f"{where or 'GPU'}: {text}"]
        lane = idle.get(busy.device_id)
        if lane is not None and lane.idle_ns:
            states = _parts(labels.states(lane), is_imported=shown.is_imported)
            bars.append(Bar(states, lane.idle_ns, "while idle: "))
            note = labels.idle_line(lane, busy.window_ns)
            spent = ", ".join([f"{each.label} {duration(each.duration_ns)}" for each in states])
            lines += [note, f"while idle: {spent}"]
        legend = [(each.name, each.label, f"{duration(each.duration_ns)}, {share}", labels.PART_MEANINGS[each.name])
                  for each, share in shares]
        found.append(Shares(where or "GPU", tuple(bars), tuple(legend), note, tuple(lines)))
    return tuple(found)


def gpu_section(shown: Overview) -> Section | None:
    """Return what the GPU did, where it was recorded and anything ran: kernels, copies, other kernels."""
    gpu = shown.gpu
    if gpu is None or not labels.is_shown(shown):
        return None
    blocks: list[Block] = []
    facts = tuple(labels.gpu_lines(shown))
    if facts:
        blocks.append(Lines(facts, "facts"))
    if gpu.execution:
        blocks.append(Table(
            ("kernel", ""), tuple([_execution_row(each) for each in gpu.execution[:FIRST_ROWS]]),
            terminal=terminal_columns("ran", "total", "median", "p99", "longest", "queue"),
            more=more_text(len(gpu.execution), FIRST_ROWS, "kernel")))
    if gpu.others:
        rows = fitting([_execution_row(each) for each in gpu.others[:MOST_GRAPH_ROWS]], row_letters)
        others = Table(
            ("Other kernel", ""), rows, (
                Column("Kernels", "others"), Column("GPU time", "total", "longest", "longest", "time"),
                Column("Median", "median", "p99", "p99", "time")),
            is_dense=True, left_out=len(gpu.others) - len(rows))
        blocks.append(Fold((others,), bold=counted(len(gpu.others), "other kernel")))
    ran = duration(gpu.execute.total_ns) if gpu.execute else ""
    return Section("gpu", "GPU", ", ".join([counted(gpu.kernels, "kernel"), *([ran] if ran else [])]), tuple(blocks),
                   "what ran on the GPU until it was synchronized after the cell")


def calls_section(shown: Overview) -> Section | None:
    """Return the recorded calls of the CUDA driver and runtime by function, longest first."""
    if not shown.calls:
        return None
    rows = [Row(each.name, {
        "calls": count(each.times.count), "total": duration(each.times.total_ns), "median": duration(each.times.p50_ns),
        "p99": duration(each.times.p99_ns), "max": duration(each.times.max_ns)}) for each in shown.calls]
    table = Table(
        ("Function", ""), tuple(rows), (
            Column("Calls", "calls"), Column("Total", "total", width="time"), Column("Median", "median", width="time"),
            Column("p99", "p99", width="time"), Column("Max", "max", width="time")),
        terminal_columns("calls", "total", "median", "p99", "max"), is_dense=True)
    total = sum(each.times.count for each in shown.calls)
    number = f"{count(total)}, {duration(sum(each.times.total_ns for each in shown.calls))}"
    return Section("calls", "CUDA calls", number, first_and_folded(table, len(rows), "function"),
                   "calls of the CUDA driver and runtime that started work on the GPU, waited for it, or managed "
                   "memory, modules and streams, on all threads; those that launches made too")


def _execution_row(each: KernelExecution) -> Row:
    run = each.execute
    return Row(each.name, {
        "ran": count(each.kernels), "others": count(each.others), "total": _total(run), "median": _median(run),
        "p99": duration(run and run.p99_ns), "longest": duration(run and run.max_ns), "queue": _median(each.queue),
    })


def _total(spread: Spread | None) -> str:
    return duration(spread and spread.total_ns)


def _median(spread: Spread | None, missing: str = MISSING) -> str:
    return missing if spread is None else duration(spread.p50_ns)


# Advice.

def advice_section(shown: Overview) -> Section | None:
    """Return the advice behind the first; see `kernelscope.analysis.advice`."""
    is_more = first_of(shown.advice) is not None
    rest = shown.advice[1:] if is_more else shown.advice
    if not rest:
        return None
    lines = Lines(tuple([each.text for each in rest]), at=tuple([_place_of(each, shown) for each in rest]))
    return Section("advice", "More advice" if is_more else "Advice", count(len(rest)), (lines,),
                   "what else to change: what saves most in these cells first, then what the next session saves, and "
                   "what may not help last")


#: Rules about compiles, and the sections about what other rules mention where that is no single kernel.
_OF_COMPILES = ("argument_types", "changed_argument", "recreated", "same_code", "no_disk_cache")
_OF_TUNINGS = ("autotune_key", "autotune_results")
_ABOUT_RULE = {"no_disk_cache": "compiles", "pageable_copies": "gpu"}


def _place_of(each: Advice, shown: Overview) -> str:
    """Return where a page shows what an advice is about, as of `Row`."""
    if each.code in _OF_COMPILES:
        made = [held for held in shown.compilations[:MOST_ROWS] if not each.kernel or held.name == each.kernel]
        return f"compiles:{made[0].compilation_id}" if made else "part:compiles"
    longest = None if shown.outliers is None else shown.outliers.longest[0]
    if each.code == "long_launches" and longest is not None and longest.kernel == each.kernel:
        return f"launches:{longest.launch_id}"
    if any(graph.name == each.kernel for graph in shown.by_topology):
        return "part:graphs"
    if any(build.algorithm == each.kernel for build in shown.builds):
        return "part:builds"
    if each.code in _OF_TUNINGS:
        return "part:tunings"
    if each.kernel:
        return f"name:{each.kernel}"
    return f"part:{_ABOUT_RULE.get(each.code, 'kernels')}"


# Cells, kernels and ranges.

def cells_section(shown: Overview) -> Section | None:
    """Return the cells where the recording has several."""
    if len(shown.by_cell) < 2:
        return None
    busy = None if shown.gpu is None else shown.gpu.by_cell
    rows = [
        cell_row(each, None if busy is None or each.cell_id is None else busy.get(each.cell_id),
                 "" if each.cell_id is None else f"cells:{each.cell_id}")
        for each in shown.by_cell[:MOST_ROWS]
    ]
    failed = [shorten(each.label, _CELL_WIDTH) for each in shown.by_cell if each.status not in ("ok", "")]
    number = count(len(shown.by_cell)) + (f", failed: {listed(failed, FIRST_FAILED)}" if failed else "")
    return Section("cells", "Cells", number, first_and_folded(
        cells_table(rows, is_gpu=busy is not None, is_compiled=bool(shown.totals.compile_ns)), len(shown.by_cell),
        "cell"),
        "the recorded cells, in order, and which of them failed", is_open=True)


def processes_section(shown: Overview) -> Section | None:
    """Return the processes side by side, where there are several: who was slowest, and what several compiled."""
    found = shown.processes
    if found is None:
        return None
    is_gpu = shown.gpu is not None
    talks = any(each.communication_ns for each in found.processes)
    is_aligned = any(each.row["clock_bound_ns"] is not None for each in found.processes)
    in_order, extremes = _in_sight_first(found)
    most = _most_of(found.processes)
    rows = [_process_row(each, most) for each in in_order[:MOST_ROWS]]
    columns = (
        Column("Launches", "launches", "compiles", "compiles"),
        Column("Host time", "host", "compiling", "compile", "time"),
        *([Column("GPU busy", "busy", "waiting", "wait", "time")] if is_gpu else []),
        *([Column("Communication", "communication", "exposed", "exposed", "time")] if talks else []),
        Column("Host, GPU" if is_gpu else "Host", "bars", width="phases", kind="bars"),
        *([Column("Clock off by", "clock", width="time")] if is_aligned else []),
        Column("Status", "status", width="word", kind="words"))
    terminal = (*terminal_columns("launches", "host", "compiles", ("compiling", "compile")),
                *(terminal_columns("busy", "wait") if is_gpu else ()),
                *(terminal_columns(("comm.", "communication"), "hidden", "exposed") if talks else ()),
                *(terminal_columns(("clock off by", "clock")) if is_aligned else ()),
                TerminalColumn("status", "status", "words"))
    facts = tuple(labels.process_lines(found))
    table = Table(("Process", ""), tuple(rows), columns, terminal, named="words")
    then = f", then the slowest {extremes // 2} and the fastest {extremes - extremes // 2}" if extremes else ""
    return Section("processes", "Processes", labels.process_number(found),
                   (*([Lines(facts, "facts")] if facts else []),
                    *first_and_folded(table, len(found.processes), "process", "processes")),
                   "the recorded processes side by side: workers, ranks, or what the program started; first those that "
                   f"did not end well{then}", is_open=True)


def _in_sight_first(found: Comparison) -> tuple[Sequence[ProcessSummary], int]:
    """Return the processes in order but for some that come first, and how many of these are extremes.

    First are those that did not end well; of so many that some are folded, then the slowest and the fastest.
    """
    order = labels.worst_first(found.processes)
    ended = sum(each.row["status"] != "ok" for each in order)
    room = FIRST_ROWS - ended
    if len(order) <= FIRST_ROWS or found.imbalance is None or room < 2:
        return order, 0
    measure = f"{found.imbalance.measure}_ns"
    well = sorted(order[ended:], key=lambda each: -(getattr(each, measure) or 0))
    first = [*order[:ended], *well[:room // 2], *well[room // 2 - room:]]
    shown = {each.process_id for each in first}
    return [*first, *(each for each in order if each.process_id not in shown)], room


_ProcessParts = tuple[tuple[Part, ...], tuple[Part, ...]]


def _process_parts(process: ProcessSummary) -> _ProcessParts:
    """Return the parts of a process's host time, and of its GPUs' time."""
    return ((Part("launch", "launching", process.launching_ns or 0),
             Part("compile", "compiling", process.compile_ns or 0)),
            (Part("kernel", "GPU busy", process.work_ns or 0),
             Part("copy", "exposed communication", process.exposed_ns or 0)))


def _most_of(processes: Iterable[ProcessSummary]) -> tuple[int, ...]:
    """Return the most host time, and the most time of GPUs, that a process has."""
    spent = ([sum(part.duration_ns for part in parts) for parts in _process_parts(process)] for process in processes)
    return tuple(map(max, zip(*spent, strict=True)))


def _process_bars(process: ProcessSummary, most: Sequence[int]) -> tuple[Bar, ...]:
    """Return its host time and its GPUs' time, as long as they are of the most that a process has."""
    return tuple([Bar(tuple([part for part in parts if part.duration_ns > 0]), total)
                  for parts, total in zip(_process_parts(process), most, strict=True) if total])


def _process_row(each: ProcessSummary, most: Sequence[int]) -> Row:
    row = each.row
    hidden = None if each.exposed_ns is None else (each.communication_ns or 0) - each.exposed_ns
    notes = tuple(text for text in (row["message"],) if text)
    return Row(clean(each.label), {
        "launches": count(each.launches), "compiles": count(each.compiles),
        "host": duration(each.host_ns),
        "compile": duration(each.compile_ns),
        "busy": duration(each.busy_ns), "wait": duration(each.wait_ns),
        "communication": duration(each.communication_ns), "exposed": duration(each.exposed_ns),
        "hidden": duration(hidden),
        "status": row["status"], "clock": duration(row["clock_bound_ns"]),
    }, place=", ".join(text for text in (
        row["host"], None if row["pid"] is None else f"pid {row['pid']}", row["gpu_uuid"]) if text),
        notes=notes, terminal=notes, bars=_process_bars(each, most))


def cell_row(each: CellSummary, busy: float | None, at: str, command: str = "", *, is_imported: bool = False) -> Row:
    """Return a cell as a row of `cells_table`; `busy` is the GPU's share of its time.

    What is imported says nothing of compiles.
    """
    outcomes = {"compiles": each.compiles, "disk": each.disk_hits, "memory": each.memory_hits}
    is_alike = each.process in ("", each.label)
    return Row(each.label if is_alike else f"{each.label} of {clean(each.process)}", _phase_values(each.totals) | {
        "launches": count(each.launches), "kernels": count(each.kernels), "host": duration(each.totals.host_ns),
        **{name: MISSING if is_imported else count(number) for name, number in outcomes.items()},
        "wall": duration(each.wall_ns), "status": labels.cell_problem(each), "gpu": percent(busy),
    }, bars=phase_bars(each.totals), at=at, command=command)


def cells_table(rows: Sequence[Row], *, is_gpu: bool, is_compiled: bool) -> Table:
    """Return a table of cells; one with compiles in the launches says what its thinner bars are."""
    columns = (
        Column("Launches", "launches", "kernels", "kernels"), Column("Compiled", "compiles", "from disk", "disk"),
        Column("Host time", "host", "wall time", "wall", "time"),
        *([Column("GPU busy", "gpu", width="gpu")] if is_gpu else []),
        Column("Status", "status", width="word", kind="words"), _bars_column(is_compiled=is_compiled),
    )
    terminal = (
        *terminal_columns("launches", "kernels", ("compiled", "compiles"), "disk", "memory", "host", "wall"),
        *(terminal_columns(("GPU", "gpu")) if is_gpu else ()), TerminalColumn("status", "status", "words"),
    )
    return Table(("Cell", ""), tuple(rows), columns, terminal, named="words")


def _finding_letters(each: Finding) -> int:
    return sum([len(cut(text)) for text in (each.name, each.why, each.detail, each.fix)])


def kernels_section(shown: Overview) -> Section | None:
    """Return the kernels by host time: the first ones in full."""
    if not shown.by_kernel:
        return None
    host, is_gpu = shown.totals.host_ns, shown.gpu is not None
    top, rest = shown.by_kernel[:FIRST_ROWS], shown.by_kernel[FIRST_ROWS:]
    runs = shown.gpu.execution.by_id(shown.by_kernel.ids[:FIRST_ROWS + MOST_ROWS].tolist()) if shown.gpu else {}
    notes_of_features = [loaded(feature.card.kernel_note) for feature in features()
                         if feature.card is not None and feature.card.kernel_note]
    rows: list[Row] = []
    for kernel in top:
        place = cut(defined_at(kernel.framework, kernel.module, kernel.filename, kernel.lineno, shown.frameworks))
        functions = shown.compiled_functions.get(kernel.name, ())
        beside = [f"of {cut(clean(listed(functions, MOST_BESIDE)))}" if functions else "",
                  *(note(shown, kernel.dispatcher_id) for note in notes_of_features)]
        place = " · ".join([place, *filter(None, beside)])
        notes = labels.launch_notes(kernel)
        below = " · ".join((place, ", ".join((labels.resources(kernel), *notes))))
        run = runs.get(kernel.dispatcher_id)
        if is_gpu and kernel.host_ns is not None:
            place += f" · {share_text(kernel.host_ns, host)} of host"
        rows.append(Row(kernel.name, _kernel_values(kernel, host, run), place=place, notes=tuple(notes),
                        bars=phase_bars(kernel.totals), histogram=kernel.histogram,
                        gpu_histogram=run.histogram if run is not None else (), terminal=(below,),
                        at=f"kernels:{kernel.dispatcher_id}", inspect=shown.kernel_keys.get(kernel.dispatcher_id, "")))
    columns = (
        Column("Launches", "launches", "GPU runs", "gpu_runs") if is_gpu
        else Column("Launches", "launches", "configs", "configurations"),
        Column("Compiled", "compiles", "specializations", "specializations"),
        Column("In memory", "memory", "from disk", "disk"), *_time_columns(is_gpu), _bars_column(shown),
    )
    terminal = (
        *terminal_columns("launches", ("compiled", "compiles")), TerminalColumn("disk", "disk", is_wide=True),
        *terminal_columns("memory", "host", "share", "median"),
        TerminalColumn("p99", "p99", is_wide=True), TerminalColumn("max", "max"),
    )
    more = more_text(len(shown.by_kernel), FIRST_ROWS, "kernel")
    blocks: tuple[Block, ...] = (Table(("Kernel", ""), tuple(rows), columns, terminal, more=more),)
    if rest:
        spent = rest.total("host_ns")
        others = fitting([Row(kernel.name, _kernel_values(kernel, host, runs.get(kernel.dispatcher_id)))
                          for kernel in rest[:MOST_ROWS]], row_letters)
        folded = Table(("Kernel", ""), others, (
            Column("Launches", "launches"), Column("Compiled", "compiles"), Column("In memory", "memory"),
            *[each if is_gpu else replace(each, below_label="", below="") for each in _time_columns(is_gpu)],
        ), is_dense=True, left_out=len(rest) - len(others), is_rest=True)
        share = f", {share_text(spent, host)} of the host time" if host else ""
        blocks = (*blocks, Fold((folded,), bold=more, after=f", {duration(spent)}{share}"))
    made = (f"{counted(shown.launches, 'launch', 'launches')}, {duration(host)}" if shown.launches or not shown.captured
            else f"{count(shown.captured)} captured")
    number = f"{count(len(shown.by_kernel))}, {made}"
    return Section("kernels", "Kernels", number, blocks, "by own host time of their launches")


def _time_columns(is_gpu: bool) -> tuple[Column, ...]:
    """Return the columns of kernels' times: of the host, and below each the same of the GPU where it was recorded."""
    if not is_gpu:
        return (Column("Host time", "host", "share", "share", "time"),
                Column("Median", "median", "p99", "p99", "time"), Column("Max", "max", width="time"))
    return (Column("Host time", "host", "GPU time", "gpu", "time"),
            Column("Median", "median", "GPU", "gpu_median", "time"), Column("p99", "p99", "GPU", "gpu_p99", "execute"),
            Column("Max", "max", "GPU", "gpu_max", "time"))


def _kernel_values(kernel: KernelSummary, host: int | None, on_gpu: KernelExecution | None) -> dict[str, str]:
    run = on_gpu.execute if on_gpu is not None else None
    return {
        "launches": count(kernel.launches), "configurations": count(kernel.configurations),
        "specializations": count(kernel.specializations), "host": duration(kernel.host_ns),
        **({name: MISSING for name in ("compiles", "memory", "disk")} if kernel.framework == DRIVER else {
            "compiles": count(kernel.compiles), "memory": count(kernel.memory_hits), "disk": count(kernel.disk_hits)}),
        "share": share_text(kernel.host_ns, host), "median": duration(kernel.median_ns), "p99": duration(kernel.p99_ns),
        "max": duration(kernel.max_ns),
        "gpu_runs": MISSING if on_gpu is None else count(on_gpu.kernels), "gpu": _total(run),
        "gpu_median": _median(run), "gpu_p99": duration(run and run.p99_ns), "gpu_max": duration(run and run.max_ns),
    }


# Lines of code.

def lines_section(shown: Overview) -> Section | None:
    """Return the code of the lines that did anything, with what they did; on a terminal those that took longest."""
    if shown.code is None or shown.code.longest is None:
        return None
    listing, ranked = code_listing(shown.code, len(shown.by_cell)), ranked_lines(shown.code)
    rows: list[Row] = []
    for source, line, done in ranked[:FIRST_LINES]:
        said = shorten((line.text or done.function or "").strip(), _CODE_WIDTH)
        rows.append(Row(f"{_line_name(source, line)}  {said}".rstrip(), line_values(done)))
    table = Table(("Line", ""), tuple(rows), terminal=tuple([
        TerminalColumn(each.label if each.key == "gpu" else each.label.lower(), each.key) for each in listing.columns]),
        more=more_text(len(ranked), FIRST_LINES, "line"))
    number = count(len(ranked)) + (", most in " if len(ranked) > 1 else ", ") + _line_name(*shown.code.longest)
    return Section("lines", "Lines", number, (listing, table),
                   "your code with what each line launched, compiled, had the GPU do, and waited for")


_FILE_WIDTH, _CODE_WIDTH = 32, 40
_NO_WAIT = "not known: of some waits the line is not known, and these may be its"


def _line_name(source: Source, line: SourceLine) -> str:
    return f"{shorten(source.file, _FILE_WIDTH)}:{line.number}"


def _line_columns(total: LineSummary) -> tuple[Column, ...]:
    """Return the gutter's columns: those in which anything is."""
    return tuple([Column(label, key) for label, key, value in (
        ("Launches", "launches", total.launches), ("Host", "host", total.launches),
        ("Compiling", "compile", total.compile_ns), ("CUDA calls", "call", total.call_ns), ("GPU", "gpu", total.gpu_ns),
        ("Waiting", "wait", total.wait_ns)) if value])


def line_values(done: LineSummary) -> dict[str, str]:
    """Return the values of a line in the gutter, by column; nothing is an empty text."""
    times = {"host": done.host_ns if done.launches else 0, "compile": done.compile_ns,
             "call": done.call_ns, "gpu": done.gpu_ns, "wait": done.wait_ns}
    return {"launches": count(done.launches) if done.launches else "",
            **{key: "" if value == 0 else duration(value) for key, value in times.items()}}


def code_listing(code: AnnotatedCode, cells: int) -> Listing:
    """Return code with a gutter; `cells` is how many the recording has."""
    ranked, room = ranked_lines(code), MOST_LETTERS
    kept = {(id(source), line.number) for source, line, _ in ranked[:MOST_LINES]}
    sources: list[tuple[str, tuple[CodeLine | FoldedLines, ...]]] = []
    for source in code.sources:
        held = {line.number for line in source.lines if (id(source), line.number) in kept}
        if not held:
            continue
        lines, room = _code_lines(source, held, room)
        is_all = source.is_cell and len(code.sources) == 1 and cells == 1
        name = f"{source.function} in {source.file}" if source.function else source.file
        sources.append(("" if is_all else name, lines))
    sums = [_sum(counted(len(ranked) - MOST_LINES, "more line"), [each[2] for each in ranked[MOST_LINES:]]),
            _sum("no known line", [code.unknown] if code.unknown else []),
            _sum("total", [code.total] if len(ranked) > 1 or code.unknown else [])]
    return Listing(_line_columns(code.total), tuple(sources), tuple([each for each in sums if each is not None]),
                   max([each[2].cost_ns for each in ranked], default=0))


def ranked_lines(code: AnnotatedCode) -> list[tuple[Source, SourceLine, LineSummary]]:
    """Return the lines that did anything, what took longest first."""
    found = [(source, line, line.done) for source in code.sources for line in source.lines if line.done]
    return sorted(found, key=lambda each: (-each[2].cost_ns, -(each[2].gpu_ns or 0)))


def _code_lines(source: Source, kept: set[int], room: int) -> tuple[tuple[CodeLine | FoldedLines, ...], int]:
    """Return the lines of a source, and how many letters of others may still be folded behind it."""
    shown = {line.number: _code_line(line, line.number in kept) for line in source.lines}
    if not source.is_cell:
        return tuple([shown[number] for number in sorted(kept)]), room
    near = {number + by for number in kept for by in range(-CONTEXT, CONTEXT + 1)}
    if len(source.lines) <= WHOLE_CELL:
        near = {*shown}
    found: list[CodeLine | FoldedLines] = []
    for is_near, several in groupby(source.lines, lambda line: line.number in near):
        lines = [*several]
        folded = tuple([shown[line.number] for line in lines])
        is_quiet = not any(line.done for line in lines)
        if is_near or (is_quiet and len(lines) <= CONTEXT):
            found += folded
            continue
        letters = sum(len(line.text) for line in folded)
        found.append(FoldedLines(folded if letters <= room else (), f"… {counted(len(lines), 'line')} that did nothing"
                                 if is_quiet else f"… {counted(len(lines), 'more line')}"))
        room -= letters if letters <= room else 0
    return tuple(found), room


def _code_line(line: SourceLine, is_kept: bool) -> CodeLine:
    text = (line.text or "").expandtabs(4)
    text = text if len(text) <= MOST_CODE else text[:MOST_CODE - 1] + "…"
    done = line.done
    if done is None or not is_kept:
        return CodeLine(line.number, text)
    return replace(_sum(text, [done]) or CodeLine(None, text), number=line.number,
                   at=f"line:{','.join(map(str, line.line_ids))}")


def _sum(text: str, rows: Sequence[LineSummary]) -> CodeLine | None:
    if not rows:
        return None
    done = together(rows)
    meanings = {"launches": listed(done.kernels),
                "compile": "" if done.compiles < 2 else counted(done.compiles, "compile")}
    if done.host_ns is None and done.launches:
        meanings["host"] = "not known: the end of none of its launches was recorded"
    if done.compile_ns is None:
        meanings["compile"] = "not known: the end of none of its compiles was recorded"
    if done.call_ns is None:
        meanings["call"] = "not known: none of its calls of the driver was timed"
    if done.gpu_ns is None:
        meanings["gpu"] = "not known: nothing that it gave to the GPU was timed there"
    if done.wait_ns is None:
        meanings["wait"] = _NO_WAIT
    return CodeLine(None, text, line_values(done), {key: each for key, each in meanings.items() if each},
                    _parts([*done.parts.items()]))


def ranges_section(shown: Overview) -> Section | None:
    """Return the paths of NVTX ranges by host time, where there are any that no feature has a section for."""
    if of_features(shown.recording).all():
        return None
    heading, note = "Ranges", labels.ranges_note(shown)
    if not shown.by_range:
        return Section("ranges", heading, note, explanation="NVTX ranges and marks of your code and of libraries")
    rows = [
        Row(each.label, _phase_values(each.totals) | {
            "ranges": count(each.ranges), "inclusive": duration(each.inclusive_ns),
            "exclusive": duration(each.exclusive_ns), "min": duration(each.shortest_ns),
            "median": duration(each.median_ns), "max": duration(each.longest_ns), "launches": count(each.launches),
            "launches_inclusive": count(each.inclusive_launches), "host": duration(each.host_ns),
            "host_inclusive": duration(each.inclusive_host_ns), "gpu": duration(each.gpu_ns),
            "gpu_inclusive": duration(each.inclusive_gpu_ns), "others": count(each.inclusive_other_launches or 0),
            "others_gpu": duration(each.inclusive_other_gpu_ns),
        }, notes=(notes := tuple(labels.range_notes(each))), terminal=notes, bars=phase_bars(each.totals),
            at=f"name:{clean(each.label)}", depth=each.depth)
        for each in as_tree(shown.by_range)[:MOST_ROWS]
    ]
    is_gpu, has_others = shown.gpu is not None, any(each.other_launches for each in shown.by_range)
    on_gpu = ("GPU", "others_gpu", "gpu") if is_gpu else ()
    others = [Column("Other threads", "others", *on_gpu)] if has_others else []
    columns = (
        Column("Ranges", "ranges"), Column("Total", "inclusive", "own", "exclusive", "time"),
        Column("Median", "median", "min", "min", "time"), Column("Max", "max", width="time"),
        Column("Launches", "launches_inclusive", "own", "launches"),
        Column("Host time", "host_inclusive", "own", "host", "time"),
        *([Column("GPU time", "gpu_inclusive", "own", "gpu", "gpu")] if is_gpu else []), *others, _bars_column(shown),
    )
    terminal = (*terminal_columns("ranges", ("total", "inclusive"), ("own", "exclusive")),
                *(TerminalColumn(each, each, is_wide=True) for each in ("min", "median")),
                *terminal_columns("max", ("launches", "launches_inclusive"), ("host", "host_inclusive")),
                TerminalColumn("own", "host", is_wide=True),
                *((*terminal_columns(("GPU", "gpu_inclusive")), TerminalColumn("own", "gpu", is_wide=True))
                  if is_gpu else ()),
                *(terminal_columns("others") if has_others else ()),
                *(terminal_columns(("GPU", "others_gpu")) if has_others and is_gpu else ()))
    return Section("ranges", heading, note, first_and_folded(
        Table(("Range", ""), tuple(rows), columns, terminal), len(shown.by_range), "path"),
        "NVTX ranges as a tree, with the launches and GPU work requested in them; own is without the ranges inside")


# Compiles and build caches.

def compiles_section(shown: Overview) -> Section | None:
    """Return the compiles, longest first, with why they were needed and what would avoid them."""
    if not shown.compilations:
        return None
    number = f"{labels.compile_counts(shown)}, {duration(shown.compile_ns)}"
    notes = tuple(labels.compile_notes(shown))
    alike = alike_compiles(shown)
    rest = [each for own in alike[FIRST_FINDINGS:] for each in own]
    found = _findings(
        Findings(tuple([_compile(own, shown) for own in alike[:FIRST_FINDINGS + MOST_ROWS]])), len(alike),
        more_text(len(rest), 0, "compile"), f", {duration(sum(each.duration_ns for each in rest))}")
    return Section("compiles", "Compiles" if shown.compiles or shown.failed_compiles else "Loads from disk", number,
                   (*found, *([Lines(notes, "notes")] if notes else [])),
                   "compiles and loads from a disk cache, in launches and outside, the longest first")


def alike_compiles(shown: Overview) -> list[list[CompilationSummary]]:
    """Return the compiles, longest first; those that an autotuner asked for together, by what it was choosing for.

    Of several processes those are together that were the same in each.
    """
    found: dict[tuple[object, ...], list[CompilationSummary]] = {}
    for each in shown.compilations:
        said = each.dispatcher_id, labels.outcome(each), labels.compile_reason(each), each.fix
        which = None if each.is_trial else each.compilation_id if shown.processes is None else each.signature
        found.setdefault((*said, which), []).append(each)
    return sorted(found.values(), key=lambda own: -sum(each.duration_ns for each in own))


def _compile(alike: Sequence[CompilationSummary], shown: Overview) -> Finding:
    each, outcome = alike[0], labels.outcome(alike[0])
    if len(alike) > 1:
        outcome += f" {count(len(alike))} times"
    kernels = f"kernels: {listed(each.kernels, MOST_DETAILS)}" if each.kernels else ""
    signatures = list(dict.fromkeys(f"{one.name} {one.signature}" for one in alike))
    more = len(signatures) - MOST_DETAILS
    known = (*signatures[:MOST_DETAILS], f"and {count(more)} more" if more > 0 else "", labels.trigger(each),
             each.reason, each.notes, kernels)
    detail = "\n".join([clean(text) for text in known if text])
    took = duration(sum(one.duration_ns for one in alike))
    return Finding(each.name, outcome, took, labels.compile_reason(each), detail, each.fix or "",
                   f"compiles:{each.compilation_id}", shown.compile_keys.get(each.compilation_id, ""))


def _findings(all_of_them: Findings, total: int, more: str, after: str) -> tuple[Block, ...]:
    """Return the first findings, and on a page the remaining ones folded."""
    found = all_of_them.findings
    blocks: tuple[Block, ...] = (replace(all_of_them, findings=found[:FIRST_FINDINGS], more=more),)
    if more:
        folded = fitting(found[FIRST_FINDINGS:], _finding_letters, MOST_FINDING_LETTERS)
        rest = Findings(folded, is_first=False, left_out=total - FIRST_FINDINGS - len(folded))
        blocks = (*blocks, Fold((rest,), bold=more, after=after))
    return blocks


def builds_section(shown: Overview) -> Section | None:
    """Return the build caches by algorithm, and the requests that were no hits with why and what would avoid them."""
    if not shown.builds:
        return None
    rows: list[Row] = []
    for each in shown.builds[:MOST_GRAPH_ROWS]:
        below = ", ".join([part for part in (each.framework, labels.build_outcomes(each)) if part])
        rows.append(Row(each.algorithm, {
            "requests": count(each.requests), "hits": count(each.hits), "hit": _median(each.hit),
            "misses": count(each.misses), "miss": _median(each.miss), "time": duration(each.host_ns),
            "building": duration(each.build_ns),
        }, notes=(below,), terminal=(below,)))
    table = Table(
        ("Algorithm", ""), tuple(rows), (
            Column("Requests", "requests", width="requests"), Column("Hits", "hits", "median", "hit", "time"),
            Column("Misses", "misses", "median", "miss", "time"),
            Column("Time", "time", "building", "building", "time"),
        ), terminal_columns("requests", "hits", ("median", "hit"), "misses", ("median", "miss"), "time", "building"),
        more=more_text(len(shown.builds), MOST_GRAPH_ROWS, "algorithm"), left_out=len(shown.builds) - len(rows))
    cells, misses = labels.cell_labels(shown), labels.build_misses(shown)
    found = tuple([Finding(each.algorithm, labels.miss_outcome(each, cells), duration(each.duration_ns),
                           labels.miss_reason(each), "", each.fix or "")
                   for each in misses[:FIRST_FINDINGS + MOST_GRAPH_ROWS]])
    more = _findings(Findings(found, is_apart=True), len(misses), more_text(len(misses), FIRST_FINDINGS, "request"),
                     " that were no hits") if found else ()
    return Section("builds", "Build caches", labels.builds_note(shown), (table, *more),
                   "requests to the caches in which libraries keep the algorithms that they built")


def tunings_section(shown: Overview) -> Section | None:
    """Return the runs of autotuners, longest first: what they tried, what they chose, and why they ran again."""
    if not shown.tunings:
        return None
    cells = labels.cell_labels(shown)
    runs = sorted(shown.tunings, key=lambda each: (-each.duration_ns, each.build_id))
    found = tuple([
        Finding(each.name, labels.tuning_outcome(each, cells), duration(each.duration_ns), labels.tuning_result(each),
                labels.tuning_detail(each), each.fix or "", f"builds:{each.build_id}")
        for each in runs[:FIRST_FINDINGS + MOST_GRAPH_ROWS]])
    return Section("tunings", "Autotuning", labels.tunings_note(shown), _findings(
        Findings(found), len(runs), more_text(len(runs), FIRST_FINDINGS, "run"), ""),
        "what an autotuner tried before a launch, how long each took, and what it chose", is_open=True)


# Graphs.

def graphs_section(shown: Overview) -> Section | None:
    """Return the graphs, those of one topology in one row: what building and launching them cost, what was rebuilt."""
    if not shown.by_topology:
        return None
    top, rest = shown.by_topology[:FIRST_GRAPHS], shown.by_topology[FIRST_GRAPHS:]
    more = more_text(len(shown.by_topology), FIRST_GRAPHS, "graph")
    is_gpu = shown.gpu is not None
    terminal = terminal_columns(
        "builds", ("median", "build"), "rebuilds", ("all", "rebuilding"), "updates", "refused", "launches",
        ("median", "launch"), *([("GPU median", "gpu_median")] if is_gpu else []))
    blocks: list[Block] = [_graph_table(shown, top, terminal, more)]
    drawn = [each for each in top if each.graph_ids]
    blocks += [Fold((Picture(each.graph_ids[0]),), before="picture of ", bold=each.name,
                    is_open=len(drawn) == 1 and (each.nodes or 0) <= MOST_OPEN) for each in drawn]
    if rest:
        blocks.append(Fold((_graph_table(shown, rest),), bold=more))
    if len(shown.by_graph) > len(shown.by_topology):
        blocks.append(Fold((_graph_table(shown, shown.by_graph),), bold=counted(len(shown.by_graph), "graph"),
                           after=" one by one"))
    return Section("graphs", "Graphs", labels.graphs_note(shown), tuple(blocks),
                   "CUDA graphs: how often each was built, updated and launched, and what that cost")


def _graph_table(shown: Overview, graphs: Sequence[GraphSummary], terminal: tuple[TerminalColumn, ...] = (),
                 more: str = "") -> Table:
    columns = [
        Column("Builds", "builds", "median", "build", "built"), Column("Rebuilds", "rebuilds", "all", "rebuilding"),
        Column("Updates", "updates", "median", "update"),
        Column("Launches", "launches", "host, median", "launch", "word"),
        *([Column("GPU time", "gpu", "median", "gpu_median", "time")] if shown.gpu is not None else []),
    ]
    rows = tuple([_graph_row(each, shown) for each in graphs[:MOST_GRAPH_ROWS]])
    return Table(("Graph", "what happened"), rows, tuple(columns), terminal, "bold", more=more,
                 left_out=max(len(graphs) - MOST_GRAPH_ROWS, 0))


def _graph_row(graph: GraphSummary, shown: Overview) -> Row:
    cells, kernels, nodes = labels.cells_of(graph, shown), labels.graph_kernels(graph), labels.graph_nodes(graph)
    notes = [*labels.graph_notes(graph), *([f"in {cells}"] if cells else [])]
    return Row(labels.graph_names(graph), {
        "builds": count(graph.builds), "build": _median(graph.build), "rebuilds": count(graph.rebuilt),
        "rebuilding": duration(graph.rebuild_ns) if graph.rebuilt else MISSING, "updates": count(graph.updates),
        "update": f"{graph.refused:,} refused" if graph.refused else _median(graph.update),
        "refused": count(graph.refused), "launches": count(graph.launches), "launch": _median(graph.launch),
        "gpu": _total(graph.execute), "gpu_median": _median(graph.execute),
    }, code=kernels, notes=(nodes, *notes), terminal=(f"{nodes} · {kernels}" if kernels else nodes, *notes))


# Launch configurations and specializations.

def configurations_section(shown: Overview) -> Section | None:
    """Return launch configurations by kernel, and specializations on a page."""
    used = shown.configurations_used
    kernels = [kernel for kernel in shown.by_kernel[:FIRST_ROWS] if used.count(kernel.dispatcher_id)]
    if not kernels:
        return None
    first: list[Row] = []
    folds: list[Block] = []
    # On a terminal all kernels share the lines of a list: those with most configurations give way, down to two each.
    counts = [used.count(kernel.dispatcher_id) for kernel in kernels]
    most = next((each for each in range(FIRST_CONFIGURATIONS, 2, -1)
                 if sum(min(total, each + 1) for total in counts) <= MOST_CONFIGURATIONS), 2)
    for kernel, total in zip(kernels, counts, strict=True):
        rows = [labels.configuration_values(each) for each in used.of(kernel.dispatcher_id, MOST_DETAILS)]
        is_cut = total > most + 1  # one more takes no more room than to say so
        first += [Row(kernel.name, values) for values in rows[:most if is_cut else total]]
        if is_cut:
            first.append(Row(kernel.name, {"grid": f"and {total - most:,} more"}))
        table = Table(("Grid", "blocks"), tuple([Row(values["grid"], values) for values in rows]),
                      _CONFIGURATION_COLUMNS, named="words", is_dense=True, left_out=total - len(rows))
        folds.append(Fold((table, *_specializations(shown, kernel)), name=kernel.name, after=labels.resources(kernel)))
    if len(kernels) > FEW_KERNELS:
        of_all = f" of {len(shown.by_kernel):,}" if len(shown.by_kernel) > len(kernels) else ""
        folds = [Fold(tuple(folds), bold=counted(len(kernels), "kernel"),
                      after=f"{of_all}, {counted(sum(counts), 'configuration')}", scrolls=False)]
    columns = terminal_columns("grid", "block", "shared", "stream", "launches", "median", "occupancy",
                               ("regs", "registers"))
    terminal = tuple([replace(each, is_optional=True) for each in columns])
    return Section("configurations", "Launch configurations", count(shown.configurations),
                   (Table(("kernel", ""), tuple(first), terminal=terminal), *folds),
                   "grids, blocks, shared memory and streams of the launches, and what each kernel was compiled for")


_CONFIGURATION_COLUMNS = (
    Column("Block", "block", "threads", width="share"), Column("Shared", "shared", "dynamic", width="share"),
    Column("Stream", "stream", width="share"), Column("Launches", "launches", width="time"),
    Column("Median", "median", "host", width="time"), Column("Occupancy", "occupancy", width="time"),
    Column("Registers", "registers", width="time"),
)


def _specializations(shown: Overview, kernel: KernelSummary) -> tuple[Block, ...]:
    held = shown.specializations_used
    rows: list[Row] = []
    for each in held.of(kernel.dispatcher_id, MOST_DETAILS):
        notes = [f"for {each.compute_capability}"] if each.compute_capability else []
        if each.launch_config_sensitive:
            notes.append(f"launch-config sensitive {each.launch_config or ''}".strip())
        rows.append(Row(each.signature, {
            "origin": each.origin, "launches": count(each.launches), "registers": count(each.regs),
            "shared": size(each.static_shared_bytes), "local": size(each.local_bytes), "code": size(each.cubin_bytes),
        }, notes=(", ".join(notes),) if notes else (),
            inspect=shown.specialization_keys.get(each.specialization_id, "")))
    if not rows:
        return ()
    return (Table(("Specialization", ""), tuple(rows), (
        Column("Origin", "origin", width="time"), Column("Launches", "launches", width="time"),
        Column("Registers", "registers", width="time"), Column("Shared", "shared", "static", width="time"),
        Column("Local", "local", width="time"), Column("Code", "code", width="time"),
    ), named="signature", is_dense=True, is_apart=True, left_out=held.count(kernel.dispatcher_id) - len(rows)),)


#: The sections of a card by their order: each makes one of an `Overview`, or None where it has nothing to say. Those of
#: features stand between them: see `kernelscope.registry.CardSection`.
SECTIONS: Mapping[int, Callable[[Overview], Section | None]] = {
    10: advice_section, 20: processes_section, 40: cells_section, 50: kernels_section, 70: lines_section,
    90: compiles_section, 100: tunings_section, 110: builds_section, 120: graphs_section, 130: ranges_section,
    140: gpu_section, 150: calls_section, 160: phases_section, 180: configurations_section,
}


def _sections(shown: Overview) -> list[Section | None]:
    """Return all sections, in order; those of a feature are only asked for where one of its tables has rows."""
    core = {130: ranges_section} if shown.is_empty else SECTIONS
    makers = [*core.items(), *(
        (feature.card.order, loaded(feature.card.section)) for feature in features()
        if feature.card is not None and shown.has(*feature.card.tables))]
    return [make(shown) for _, make in sorted(makers, key=lambda pair: pair[0])]
