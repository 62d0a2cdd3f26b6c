"""Several recordings as one: in memory, or files that are read one at a time into another file."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import JournalError, RecordingFileError
from kernelscope.recording.clocks import before_cause, by_pings, on_one_clock
from kernelscope.recording.file import Progress, load, target_of, write_tables
from kernelscope.recording.integrity import REFERENCES, own_id
from kernelscope.recording.model import Recording, Renumbering, numbered, renumbered
from kernelscope.recording.parquet import (
    arrow_schema,
    empty_table,
    encode,
    integer_array,
    make_table,
    table_of_rows,
    writer,
)
from kernelscope.recording.redact import without_paths
from kernelscope.schema import MAX_COUNT, TABLES, UNKNOWN, Column
from kernelscope.units import counted, listed

# How it works: `_Merger.add` takes one recording. Rows that recordings share are made one at once; rows of events (what
# happened at a time) are kept as columns of numbers, in memory or in a scratch file, until all are there, for only then
# is it known where each stands in order of start. They come out in pieces of a span of time each, so that of files that
# are merged into a file no more is in memory than one of them and one piece.


# Tables whose equal rows become one, each after those that it refers to; and columns that do not tell rows apart.
_SHARED = ("processes", "threads", "devices", "dispatchers", "configurations", "specializations")
_KEPT_FROM_FIRST = {
    "processes": ("start_ns", "end_ns", "status", "message", "clock_offset_ns", "clock_bound_ns", "clock_drift_ppb",
                  "own_cost_ns"),
    "devices": ("ordinal", "uuid"),
    "specializations": ("origin",),
}
# Facts that tell rows apart only where both recordings know them: one that looked later, or that was made by an older
# version, knows more or less of the same thing.
_FACTS = {
    "processes": ("host", "parent_pid", "rank", "local_rank", "worker", "launcher", "gpu_uuid"),
    "devices": (
        "name", "compute_capability", "multiprocessors", "max_threads_per_multiprocessor",
        "max_blocks_per_multiprocessor", "registers_per_multiprocessor", "shared_per_multiprocessor_bytes",
        "reserved_shared_bytes",
    ),
    "dispatchers": ("arguments", "code_sha256"),
    "specializations": (
        "compute_capability", "regs", "static_shared_bytes", "local_bytes", "const_bytes", "spill_store_bytes",
        "spill_load_bytes", "max_threads", "launch_config_sensitive", "cubin_bytes", "entry_name",
    ),
}
# Tables of events: in order of start, all but the last.
_IN_ORDER = ("cells", "launches", "activities", "api_calls", "compilations", "builds", "graph_events", "ranges",
             "collections")
_EVENTS = (*_IN_ORDER, "passes")
_FACT = ("process_id", "probe", "status", "message", "fix")
_SUMMED = ("dropped", "errors", "total_cost_ns")
#: What metadata are put together from those of all recordings.
_OF_ALL = ("own_cost", "recorder", "code", "merged")
#: Recordings of one pid are of one process where they say that it began at the same time, on clocks that may be off.
_SAME_START_NS = 1_000_000_000
#: Rows of a piece: what is sorted and written at once where rows are kept in a file.
_PIECE = 1 << 19
#: Of so many starts one is looked at to place the pieces.
_SAMPLE = 64
#: Files that are read before they are needed.
_AHEAD = 2


def merge(recordings: Sequence[Recording | str | Path], name: str | None = None) -> Recording:
    """Return one recording with the cells of all.

    Processes of one pid and start are the same one, and devices of one UUID; each process keeps its own threads.
    Threads, lines, dispatchers, configurations and specializations that are equal in content become one row too, and so
    do call paths, except that rows which one recording keeps apart stay apart, and lines of different recorded
    cells; a specialization's ``origin`` is the first's, and facts of a device, dispatcher or specialization that one
    recording lacks are those of another. Graphs of one fingerprint become one likewise, with its nodes and edges once.
    Equal facts of health of one process become one row with ``dropped``, ``errors`` and ``total_cost_ns`` added and the
    largest ``clock_error_ns``. Cells, launches, activities, API calls, compilations, builds, events of graphs, ranges
    and collections are in order of their start. Correlation ids stay: they tell rows of one process apart. Times are on
    one host clock, the first recording's, or that which pinged it: see `kernelscope.recording.clocks`. Those of another
    machine or boot that nobody pinged are moved by the wall clock, and ``processes`` says so.

    Parameters
    ----------
    recordings : sequence of Recording, str or Path
        At least one, or its file; they are not changed. Many files are merged into one by `merge_files`.
    name : str, optional
        The name of the result; without one, the first's. The rest of the metadata is the first's, with the number of
        recordings as ``merged``, as ``recorder`` what all kept and lost, where every recording says it, and as
        ``own_cost`` what they have in common of how each probe's cost is known.

    Raises
    ------
    ValueError
        There is no recording, or a dry run or a simulator's recording is among others: their times do not compare.
    RecordingFileError
        A file is refused: see `kernelscope.load`.
    """
    if not recordings:
        raise ValueError("merge needs at least one recording")
    merger = _Merger()
    for each in recordings:
        merger.add(each if isinstance(each, Recording) else load(each))
    tables = merger.finish()
    for table in _EVENTS:
        pieces = list(merger.pieces(table))
        tables[table] = pieces[0] if pieces else empty_table(table)
    return Recording(tables, merger.metadata(name))


@dataclass(frozen=True)
class MergedFile:
    """What `merge_files` wrote.

    Attributes
    ----------
    path : Path
        The file.
    merged : int
        Files that are in it.
    missing : dict of str to str
        By name, files that are not, and why.
    """

    path: Path
    merged: int
    missing: dict[str, str]


def merge_files(sources: Sequence[str | Path], path: str | Path, *, name: str | None = None, paths: bool = False,
                overwrite: bool = True, read: Callable[[Path], Recording] = load,
                progress: Progress | None = None) -> MergedFile:
    """Merge files into one ``.kscope`` file, with one of them in memory at a time; see `merge`.

    Files that are refused or cannot be read are left out, which the table ``health`` says. Ctrl-C while files are read
    ends the reading, and what was read until then is written; a second one leaves nothing. The file appears whole or
    not at all.

    Parameters
    ----------
    sources : sequence of str or Path
        What to merge, each as `read` takes it.
    path : str or Path
        Where to; ``.kscope`` is added to a name without a suffix.
    name : str, optional
        The name of the result; without one, the first's.
    paths : bool
        Keep full paths of the machines.
    overwrite : bool
        Whether an existing file may be replaced.
    read : callable, optional
        Makes a recording of a source; called in a thread. Without it `kernelscope.load`.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, once a file and once a table.

    Raises
    ------
    ValueError
        There is no source, or they are of different kinds: see `merge`.
    RecordingFileError
        No source could be read, or the file cannot be written.
    """
    if not sources:
        raise ValueError("merge needs at least one recording")
    target = target_of(path, overwrite)
    names, missing, done = [Path(each).name for each in sources], dict[str, str](), 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(
            prefix=f".{target.name[:100]}-", suffix=".partial", dir=target.parent, ignore_cleanup_errors=True)))
        merger = _Merger(stack.enter_context(open(folder / "events", "w+b")))
        pool = stack.enter_context(ThreadPoolExecutor(_AHEAD))
        waiting: list[Future[Recording]] = []
        try:
            for at, each in enumerate(names):
                waiting += [pool.submit(read, Path(source)) for source in sources[at + len(waiting):at + _AHEAD]]
                if progress:
                    progress(0.8 * at / len(sources), f"reading {each}")
                try:
                    recording = waiting.pop(0).result()
                except (RecordingFileError, JournalError) as error:
                    missing[each] = str(error)
                    continue
                merger.add(recording, cut=not paths)
                done += 1
        except KeyboardInterrupt:
            for future in waiting:
                future.cancel()
            missing |= dict.fromkeys(names[done + len(missing):], "merging was interrupted")
        done = merger.commit()
        if not done:
            raise RecordingFileError("nothing was merged: " + listed([f"{key}: {why}" for key, why in missing.items()]))
        _say_missing(merger, missing, len(names))
        tables = merger.finish()
        members: dict[str, Any] = {}
        rows: dict[str, int] = {}
        for at, table in enumerate(TABLES):
            if progress:
                progress(0.8 + 0.2 * at / len(TABLES), f"writing {table}")
            if table in tables:
                rows[table], members[table] = tables[table].num_rows, encode(table, tables[table])
            else:
                rows[table], members[table] = _written(table, merger, folder, stack, pool)
        write_tables(target, members, rows, merger.metadata(name), overwrite=overwrite)
    if progress:
        progress(1.0, f"wrote {target.name}")
    return MergedFile(target, done, missing)


def _say_missing(merger: _Merger, missing: Mapping[str, str], total: int) -> None:
    """Add to health what is not in the file."""
    reasons: dict[str, list[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why.removeprefix(f"{name}: "), []).append(name)
    for why, names in reasons.items():
        merger.say({"probe": "recorder", "status": "degraded",
                    "message": f"{counted(len(names), 'of', 'of')} {total} recordings not merged: {listed(names, 5)}: "
                               f"{why}"})


def _written(table: str, merger: _Merger, folder: Path, stack: ExitStack, pool: Executor) -> tuple[int, Any]:
    """Write one table of events to a file of its own, piece by piece; how many rows, and its bytes."""
    if not merger.rows(table):
        return 0, encode(table, empty_table(table))
    file = folder / f"{table}.parquet"
    with open(file, "wb") as sink, writer(table, sink) as held:
        under_way: Future[None] | None = None
        for piece in merger.pieces(table):  # one is made while the one before is compressed
            if under_way is not None:
                under_way.result()
            under_way = pool.submit(held.write_table, piece)
        if under_way is not None:
            under_way.result()
    with open(file, "rb") as opened:
        return merger.rows(table), stack.enter_context(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


class _Merger:
    """Takes recordings one after another and gives the tables of all.

    Parameters
    ----------
    scratch : binary file, optional
        Where rows of events are kept until all are there; in memory without one.
    """

    def __init__(self, scratch: BinaryIO | None = None) -> None:
        self._shared = {name: _Shared(name) for name in (*_SHARED, "lines")}
        self._stacks: dict[tuple[int, int], int] = {}
        self._graphs = _Graphs()
        self._events = {name: _Events(name, scratch) for name in _EVENTS}
        self._distinct: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {"occupancies": {}, "code": {}}
        self._health: dict[Any, dict[str, Any]] = {}
        self._metadata: list[dict[str, Any]] = []
        self._first: Recording | None = None
        self._staged: list[Callable[[], None]] = []
        self._kinds: dict[str, str] = {}
        self._kind: dict[str, Any] = {}

    def add(self, recording: Recording, *, cut: bool = False) -> None:
        """Add a recording; with `cut`, without the paths of its machine."""
        self.commit()
        # What launched nothing is of no kind: such as the process that only started the others.
        ran = any(recording.arrow(name).num_rows for name in ("launches", "activities"))
        kinds = {**({recording.notice or "recorded on a GPU": recording.name} if ran else {}), **self._kinds}
        if len(kinds) > 1:
            shown = "; ".join(f"{label!r} ({each})" for each, label in reversed(kinds.items()))
            raise ValueError(f"recordings of different kinds cannot be merged: {shown}")
        recording = by_pings(recording) if self._first is None else on_one_clock(recording, self._first)
        if cut:
            recording = without_paths(recording)
        place: dict[str, Renumbering] = {
            name: np.arange(recording.arrow(name).num_rows) + self._events[name].total for name in _IN_ORDER}
        for name in _SHARED:
            self._shared[name].add(recording, place)
        self._graphs.add(recording, place)
        self._shared["lines"].add(recording, place)  # they name cells
        self._add_stacks(recording, place)
        staged = [self._events[name].staged(recording.arrow(name), place) for name in _EVENTS]
        health = renumbered(recording.arrow("health"), "health", place).to_pylist()
        for name, found in self._distinct.items():
            for row in renumbered(recording.arrow(name), name, place).to_pylist():
                found.setdefault(tuple(row.values()), row)
        number, held = len(self._metadata), recording.metadata
        first = Recording({}, held) if self._first is None else self._first

        def take_over() -> None:
            self._kinds, self._first = kinds, first
            if ran:
                self._kind = {key: held[key] for key in ("dry_run", "simulator") if key in held}
            self._metadata[number:] = [{key: held[key] for key in _OF_ALL if key in held}]

        # From here on an interruption changes nothing: `commit` goes on where it was interrupted.
        self._staged = [*staged, *(partial(self.say, row) for row in health), take_over]
        self.commit()

    def commit(self) -> int:
        """Take over what was staged, also where that was interrupted; how many recordings there are."""
        while self._staged:
            self._staged[0]()
            self._staged.pop(0)
        return len(self._metadata)

    def say(self, row: Mapping[str, Any]) -> None:
        """Add a row of health; those of one fact are combined."""
        new = {**dict.fromkeys(TABLES["health"].names), **row}
        fact = self._health.setdefault(tuple(new[column] for column in _FACT), new)
        if fact is not new:
            _add_fact(fact, new)

    def rows(self, table: str) -> int:
        """Return how many rows a table of events has."""
        return self._events[table].total

    def pieces(self, table: str) -> Iterator[pa.Table]:
        """Yield the rows of a table of events in order, once `finish` was called."""
        places = {name: self._events[name].new for name in _IN_ORDER}
        return self._events[table].pieces(places)

    def finish(self) -> dict[str, pa.Table]:
        """Find where each event stands, and return the tables that are not of events."""
        for name in _IN_ORDER:
            self._events[name].order()
        cells = self._events["cells"].new
        for row in self._shared["lines"].rows:
            row["cell_id"] = None if row["cell_id"] is None else int(cells[row["cell_id"]])
        processes = self._shared["processes"].rows
        _check_parents(processes)
        tables = {name: table_of_rows(name, shared.rows) for name, shared in self._shared.items()}
        tables["stacks"] = make_table("stacks", {
            "stack_id": np.arange(len(self._stacks), dtype=np.int32),
            **{name: np.array([key[at] for key in self._stacks], np.int32)
               for at, name in enumerate(TABLES["stacks"].names[1:])}})
        tables |= {name: table_of_rows(name, list(found.values())) for name, found in self._distinct.items()}
        tables["health"] = table_of_rows("health", list(self._health.values()))
        return tables | self._graphs.tables()

    def metadata(self, name: str | None) -> dict[str, Any]:
        """Return the first recording's metadata with what all have together."""
        assert self._first is not None
        made = dict(self._first.metadata)
        made |= self._kind
        made["name"] = self._first.name if name is None else name
        if any("code" in each for each in self._metadata):
            made["code"] = any(bool(each.get("code")) for each in self._metadata)
        if any("own_cost" in each for each in self._metadata):
            made["own_cost"] = _own_cost(self._metadata)
        recorders = [each.get("recorder") for each in self._metadata]
        made.pop("recorder", None)
        if all(isinstance(each, dict) for each in recorders):
            made["recorder"] = _recorder(cast("list[dict[str, Any]]", recorders))
        made.pop("process", None)  # the table `processes` has them all
        # One that was merged counts as its parts.
        made["merged"] = sum(count if isinstance(count := each.get("merged"), int) else 1 for each in self._metadata)
        return made

    def _add_stacks(self, recording: Recording, place: dict[str, Renumbering]) -> None:
        """Make equal frames of call paths one, each after the one that called it."""
        new: list[int] = []
        lines = place["lines"][recording.column("stacks", "line_id")].tolist()
        for parent, line in zip(recording.column("stacks", "parent_stack_id").tolist(), lines, strict=True):
            key = UNKNOWN if parent == UNKNOWN else new[parent], line
            new.append(self._stacks.setdefault(key, len(self._stacks)))
        place["stacks"] = np.array(new, np.int64)


class _Shared:
    """The distinct rows of one table."""

    def __init__(self, table: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self._table, self._own, self._facts = table, TABLES[table].names[0], _FACTS.get(table, ())
        ignored = {self._own, *_KEPT_FROM_FIRST.get(table, ()), *self._facts}
        self._key = [name for name in TABLES[table].names if name not in ignored]
        self._found: dict[Any, list[int]] = {}

    def add(self, recording: Recording, place: dict[str, Renumbering]) -> None:
        """Add a recording's rows; `place` is told where they went."""
        # Rows that one recording keeps apart are different objects, such as a function that was defined again: the
        # second of them is the second of another recording.
        taken: set[int] = set()
        new: list[int] = []
        machine = _machine(recording) if self._table == "devices" else ()
        for row in renumbered(recording.arrow(self._table), self._table, place).to_pylist():
            key: Any = tuple(row[name] for name in self._key)
            if self._table == "devices":  # the same GPU can be another number in another process
                key = row["uuid"] or (machine, row["ordinal"])
            same = self._found.setdefault(key, [])
            at = next((each for each in same if each not in taken and self._agree(self.rows[each], row)), None)
            if at is None:
                at = len(self.rows)
                same.append(at)
                self.rows.append({**row, self._own: at})
            else:
                known = self.rows[at]
                known.update({fact: row[fact] for fact in self._facts if known[fact] is None})
                if self._table == "processes":
                    _add_process(known, row)
            taken.add(at)
            new.append(at)
        place[self._table] = np.array(new, dtype=np.int64)

    def _agree(self, known: dict[str, Any], row: dict[str, Any]) -> bool:
        """Whether two rows do not contradict each other."""
        if self._table == "processes" and not _began_together(known["start_ns"], row["start_ns"]):
            return False
        return all(known[fact] == row[fact] or known[fact] is None or row[fact] is None for fact in self._facts)


def _began_together(first: int | None, second: int | None) -> bool:
    return first == second if first is None or second is None else abs(first - second) < _SAME_START_NS


def _machine(recording: Recording) -> tuple[str, ...]:
    """What machines a recording is of, as far as it says."""
    return tuple(sorted({row["host"] or "" for row in recording.rows("processes")}))


def _add_process(known: dict[str, Any], row: dict[str, Any]) -> None:
    """Add what a later recording says of the same process."""
    known["end_ns"] = max((each["end_ns"] for each in (known, row) if each["end_ns"] is not None), default=None)
    costs = [each["own_cost_ns"] for each in (known, row) if each["own_cost_ns"] is not None]
    known["own_cost_ns"] = sum(costs) if costs else None
    if row["status"] != "ok":
        known.update(status=row["status"], message=row["message"])


def _check_parents(processes: Sequence[dict[str, Any]]) -> None:
    """Say it of processes that begin before the one that started them."""
    by_pid = {(row["host"], row["pid"]): row for row in processes if row["pid"] is not None}
    for row in processes:
        parent = by_pid.get((row["host"], row["parent_pid"]))
        if parent is None or parent is row or row["start_ns"] is None or parent["start_ns"] is None:
            continue
        bounds = [each["clock_bound_ns"] for each in (row, parent) if each["clock_offset_ns"] is not None]
        bound = None if None in bounds else sum(cast("list[int]", bounds))
        said = before_cause(parent["start_ns"], row["start_ns"], bound)
        if said is not None and parent["end_ns"] is not None and row["start_ns"] < parent["end_ns"]:
            row["message"] = "; ".join(each for each in (row["message"], said) if each)


class _Graphs:
    """The distinct graphs of all recordings, with their nodes and edges.

    Graphs are equal that have one fingerprint and the same nodes, one beside the other; those that one recording keeps
    apart stay apart.
    """

    def __init__(self) -> None:
        self._found: dict[Any, list[tuple[int, int]]] = {}
        self._graphs = self._nodes = 0
        self._held: list[tuple[Recording, dict[str, Renumbering]]] = []

    def add(self, recording: Recording, place: dict[str, Renumbering]) -> None:
        """Add a recording's graphs; `place` is told where they and their nodes went."""
        rows = recording.rows("graphs")
        kinds = recording.column("graph_nodes", "kind")
        parents, bodies = (recording.column("graph_nodes", name) for name in ("parent_node_id", "body"))
        ends = np.cumsum(np.array([row["nodes"] for row in rows], np.int64)).tolist()
        new_graphs, new_nodes = [0] * len(rows), np.full(len(kinds), UNKNOWN, np.int64)
        taken: set[int] = set()
        for at, row in enumerate(rows):
            begin, end = ends[at] - row["nodes"], ends[at]
            inside = parents[begin:end]
            shape = (tuple(kinds[begin:end].tolist()), np.where(inside < 0, UNKNOWN, inside - begin).tobytes(),
                     bodies[begin:end].tobytes())
            same = self._found.setdefault((row["fingerprint"], row["topology"], row["edges"], shape), [])
            known = next((each for each in same if each[0] not in taken), None)
            if known is None:
                known = self._graphs, self._nodes
                self._graphs, self._nodes = self._graphs + 1, self._nodes + row["nodes"]
                same.append(known)
            taken.add(known[0])
            new_graphs[at] = known[0]
            new_nodes[begin:end] = np.arange(known[1], known[1] + row["nodes"])
        place["graphs"], place["graph_nodes"] = np.array(new_graphs, np.int64), new_nodes
        if rows:
            names = ("graphs", "graph_nodes", "graph_edges")
            self._held.append((Recording({name: recording.arrow(name) for name in names}, {}), {
                name: place[name] for name in (*names[:2], *map(REFERENCES.__getitem__, _GRAPH_COLUMNS))}))

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables of graphs, their nodes and their edges: each of the first recording that has it.

        A node's specialization and configuration are those of the first recording that knows them.
        """
        names = ("graphs", "graph_nodes", "graph_edges")
        if not self._held:
            return {name: empty_table(name) for name in names}
        graphs, nodes, edges = (pa.concat_tables([
            renumbered(recording.arrow(name), name, place) for recording, place in self._held
        ]).unify_dictionaries().combine_chunks() for name in names)
        graph, node = (np.concatenate([place[name] for _, place in self._held]) for name in ("graphs", "graph_nodes"))
        first = np.unique(graph, return_index=True)[1]
        first_nodes = np.unique(node, return_index=True)[1]
        is_first = np.zeros(len(graph), bool)
        is_first[first] = True
        # Of an edge the graph in its own recording, to tell where it stands.
        offsets = np.cumsum([0, *(recording.arrow("graphs").num_rows for recording, _ in self._held)]).tolist()
        of_edge = np.concatenate([recording.column("graph_edges", "graph_id").astype(np.int64) + offset
                                  for (recording, _), offset in zip(self._held, offsets, strict=False)])
        merged = nodes.take(pa.array(first_nodes))
        for name in _GRAPH_COLUMNS:
            column = np.full(len(first_nodes), UNKNOWN)
            values = np.asarray(nodes.column(name).fill_null(UNKNOWN).to_numpy(), np.int64)
            known = np.flatnonzero(values != UNKNOWN)[::-1]  # of several assignments to one place the last one stays
            column[node[known]] = values[known]
            field = merged.schema.field(name)
            index = merged.schema.get_field_index(name)
            merged = merged.set_column(index, field, pa.array(column, mask=column == UNKNOWN).cast(field.type))
        return {
            "graphs": numbered(graphs.take(pa.array(first)), "graphs"),
            "graph_nodes": numbered(merged, "graph_nodes"),
            "graph_edges": edges.take(pa.array(np.flatnonzero(is_first[of_edge]))),
        }


#: What one recording may know of a node and another not.
_GRAPH_COLUMNS = ("specialization_id", "configuration_id")


class _Events:
    """The rows of one table of all recordings, as columns of numbers: a run of rows a recording.

    Ids of events count the rows as they came; words stand in `_words`. A column of a run is one number, where it is the
    same in all its rows, or an array, or a place in the scratch file.
    """

    def __init__(self, table: str, scratch: BinaryIO | None) -> None:
        self._table, self._scratch = table, scratch
        self._columns = [column for column in TABLES[table].columns if column.name != own_id(table)]
        self._dtypes = {column.name: _dtype(column) for column in self._columns}
        self._words: dict[str, dict[str, int]] = {name: {} for name in self._dtypes}
        self._runs: list[dict[str, Any]] = []
        self._firsts = [0]
        self._sampled: list[np.ndarray] = []
        self._cuts: np.ndarray = np.zeros((0, 2), np.int64)
        #: Of each row as it came, where it stands.
        self.new: np.ndarray = np.empty(0, np.int32)

    @property
    def total(self) -> int:
        """How many rows there are."""
        return self._firsts[-1]

    def staged(self, rows: pa.Table, place: Mapping[str, Renumbering]) -> Callable[[], None]:
        """Keep a recording's rows; what is returned takes them over, however often it is called."""
        if not rows.num_rows:
            return lambda: None
        run: dict[str, Any] = {}
        sampled = None
        for column in self._columns:
            values = self._numbers(column, rows.column(column.name), place)
            if column.name == "start_ns":
                sampled = values[::_SAMPLE].copy()
            if values[0] == values[-1] and bool((values == values[0]).all()):
                run[column.name] = values[0]
            else:
                run[column.name] = values if self._scratch is None else self._kept(values)
        number, total = len(self._runs), self.total + rows.num_rows

        def take_over() -> None:
            self._runs[number:] = [run]
            self._firsts[number + 1:] = [total]
            if sampled is not None:
                self._sampled[number:] = [sampled]

        return take_over

    def order(self) -> None:
        """Find where each row stands when those of all recordings are in order of start."""
        counts = np.diff(self._firsts)
        self.new = self._array(self.total)
        bounds = np.empty(0, np.int64)
        if self._scratch is not None and self.total > _PIECE:
            starts = np.sort(np.concatenate(self._sampled))
            bounds = np.unique(starts[::max(len(starts) * _PIECE // self.total, 1)][1:])
        self._cuts = np.zeros((len(counts), len(bounds) + 2), np.int64)
        self._cuts[:, -1] = counts
        for run, count in enumerate(counts.tolist()):
            if len(bounds):
                self._cuts[run, 1:-1] = np.searchsorted(self._column("start_ns", run, 0, count), bounds)
        base = 0
        for piece in range(len(bounds) + 1):
            starts = self._gathered("start_ns", piece)
            rows = len(starts)
            new = np.arange(base, base + rows, dtype=np.int32)
            if (starts[1:] < starts[:-1]).any():
                order = np.argsort(starts, kind="stable")
                placed = np.empty(rows, np.int32)
                placed[order] = new
                new = placed
            for _, first, low, high, at in self._parts(piece):
                self.new[first + low:first + high] = new[at:at + high - low]
            base += rows

    def pieces(self, places: Mapping[str, np.ndarray]) -> Iterator[pa.Table]:
        """Yield the rows in order; `places` says where the rows of tables of events stand."""
        base = 0
        if not len(self._cuts):  # those that are in no order
            self._cuts = np.stack([np.zeros(len(self._runs), np.int64), np.diff(self._firsts)], axis=1)
        for piece in range(self._cuts.shape[1] - 1):
            rows = int((self._cuts[:, piece + 1] - self._cuts[:, piece]).sum())
            if not rows:
                continue
            order = None
            if len(self.new):
                new = np.empty(rows, np.int64)
                for _, first, low, high, at in self._parts(piece):
                    new[at:at + high - low] = self.new[first + low:first + high]
                if (new[1:] < new[:-1]).any():
                    order = np.empty(rows, np.int64)
                    order[new - base] = np.arange(rows)
            arrays = {column.name: self._arrow(column, self._gathered(column.name, piece), order, places)
                      for column in self._columns}
            own = own_id(self._table)
            if own is not None:
                arrays[own] = pa.array(np.arange(base, base + rows), arrow_schema(self._table).field(own).type)
            yield pa.Table.from_arrays([arrays[name] for name in TABLES[self._table].names],
                                       schema=arrow_schema(self._table))
            base += rows

    def _numbers(self, column: Column, values: pa.ChunkedArray, place: Mapping[str, Renumbering]) -> np.ndarray:
        """A column as numbers: ids where they go, words by their number, nulls as `_null`."""
        dtype = self._dtypes[column.name]
        if column.dtype in ("string", "category"):
            return self._coded(column.name, values)
        referred = REFERENCES.get(column.name)
        if values.null_count == len(values):
            return np.broadcast_to(_null(dtype) if referred is None else dtype.type(UNKNOWN), len(values))
        if referred is not None:
            ids = (values.fill_null(UNKNOWN) if values.null_count else values).to_numpy()
            return np.append(place[referred], UNKNOWN)[ids].astype(dtype, copy=False)
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        filled = values.fill_null(_null(dtype).item()) if values.null_count else values
        return filled.to_numpy().astype(dtype, copy=False)

    def _coded(self, name: str, values: pa.ChunkedArray) -> np.ndarray:
        coded = (values if pa.types.is_dictionary(values.type) else values.dictionary_encode())
        coded = coded.unify_dictionaries().combine_chunks()
        words = self._words[name]
        new = [words.setdefault(word, len(words)) for word in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(UNKNOWN) if coded.indices.null_count else coded.indices
        return np.array([*new, UNKNOWN], np.int32)[indices.to_numpy(zero_copy_only=False)]

    def _arrow(self, column: Column, values: np.ndarray, order: np.ndarray | None,
               places: Mapping[str, np.ndarray]) -> pa.Array:
        """A column in order, as Arrow has it."""
        wanted = arrow_schema(self._table).field(column.name).type
        is_same = not any(values.strides)
        if order is not None and not is_same:
            values = values.take(order)
        referred = REFERENCES.get(column.name)
        if referred is not None and referred in places:
            known = values >= 0
            if known.any():
                values = np.where(known, places[referred][np.where(known, values, 0)], UNKNOWN)
        if column.dtype in ("string", "category"):
            words = pa.array(list(self._words[column.name]), pa.string())
            held = pa.DictionaryArray.from_arrays(integer_array(values, pa.int32()), words, safe=False)
            return held if column.dtype == "category" else held.dictionary_decode()
        if referred is not None:
            return integer_array(values, wanted)
        null = _null(values.dtype)
        mask = np.isnan(values) if column.dtype == "float64" else values == null
        if is_same and mask[0]:
            return pa.nulls(len(values), wanted)
        held = pa.array(values, mask=mask) if mask.any() else pa.array(values)
        return held.cast(wanted)

    def _parts(self, piece: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Of each run with rows in a piece: its number, its first row, from and to which, and where in the piece."""
        at = 0
        lows, highs = self._cuts[:, piece], self._cuts[:, piece + 1]
        for run in np.flatnonzero(highs > lows).tolist():
            low, high = int(lows[run]), int(highs[run])
            yield run, self._firsts[run], low, high, at
            at += high - low

    def _gathered(self, name: str, piece: int) -> np.ndarray:
        """A column of all runs in a piece; of one that has one value, without strides."""
        parts = list(self._parts(piece))
        rows = sum(high - low for _, _, low, high, _ in parts)
        held = [self._runs[run][name] for run, *_ in parts]
        if all(isinstance(each, np.generic) for each in held) and len(set(held)) == 1:
            return np.broadcast_to(held[0], rows)
        if len(parts) == 1 and isinstance(held[0], np.ndarray):
            return held[0][parts[0][2]:parts[0][3]]
        found = np.empty(rows, self._dtypes[name])
        for run, _, low, high, at in parts:
            self._read(name, run, low, high, found[at:at + high - low])
        return found

    def _column(self, name: str, run: int, low: int, high: int) -> np.ndarray:
        found = np.empty(high - low, self._dtypes[name])
        self._read(name, run, low, high, found)
        return found

    def _read(self, name: str, run: int, low: int, high: int, into: np.ndarray) -> None:
        held = self._runs[run][name]
        if not isinstance(held, int):
            into[:] = held[low:high] if isinstance(held, np.ndarray) else held
            return
        assert self._scratch is not None
        left, place = memoryview(cast("Any", into)).cast("B"), held + low * into.itemsize
        while len(left):
            taken = os.preadv(self._scratch.fileno(), [left], place)
            if not taken:
                raise RecordingFileError("the scratch file of the merging is cut off: is the disk full?")
            left, place = left[taken:], place + taken

    def _kept(self, values: np.ndarray) -> int:
        """Write values to the scratch file; where they begin."""
        assert self._scratch is not None
        place = self._scratch.tell()
        self._scratch.write(memoryview(cast("Any", np.ascontiguousarray(values))).cast("B"))
        self._scratch.flush()
        return place

    def _array(self, rows: int) -> np.ndarray:
        """Room for as many numbers: in a file of its own where rows are kept in one."""
        if self._scratch is None or rows <= _PIECE:
            return np.empty(rows, np.int32)
        with tempfile.TemporaryFile(dir=Path(self._scratch.name).parent) as file:
            file.truncate(rows * 4)
            return np.memmap(file, np.int32, "r+", shape=(rows,))


def _dtype(column: Column) -> np.dtype[Any]:
    """What a column is kept as."""
    if REFERENCES.get(column.name) in _IN_ORDER:
        return np.dtype(np.int64)
    kinds = {"string": np.int32, "category": np.int32, "bool": np.int8}
    return np.dtype(kinds.get(column.dtype, column.dtype))


def _null(dtype: np.dtype[Any]) -> Any:
    """What stands for null in a column that is neither ids nor words: no table may hold it."""
    return np.float64(np.nan) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).min)


def _add_fact(fact: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Add a row of health to one that says the same."""
    for column in _SUMMED:
        if row[column] is not None:
            total = row[column] + (fact[column] or 0)
            # Counts stop at the end of their type; that many are all the same to a reader.
            fact[column] = total if column == "total_cost_ns" else min(MAX_COUNT, total)
    errors = [each["clock_error_ns"] for each in (fact, row) if each["clock_error_ns"] is not None]
    fact["clock_error_ns"] = max(errors, default=None)
    if fact["cost_ns"] is None:
        fact["cost_ns"] = row["cost_ns"]


def _own_cost(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How the probes' costs are known; of one that is known in several ways, no more than that."""
    found: dict[str, Any] = {}
    for each in metadata:
        held: Any = each.get("own_cost")
        for probe, facts in cast("dict[str, Any]", held).items() if isinstance(held, dict) else ():
            first = found.setdefault(probe, facts)
            if first == facts:
                continue
            kinds = {str(one.get("kind")) if isinstance(one, dict) else "" for one in (first, facts)}
            found[probe] = {"kind": kinds.pop() if len(kinds) == 1 else "partly calibrated"}
    return found


def _recorder(recorders: list[dict[str, Any]]) -> dict[str, Any]:
    """What the recorders kept and lost together; how they kept it where all did it the same way."""
    found: dict[str, Any] = {}
    for name in ("mode", "capacity"):
        values = [each.get(name) for each in recorders]
        found[name] = values[0] if all(value == values[0] for value in values) else None
    for name in ("kept", "lost"):
        counts = [count for each in recorders if type(count := each.get(name)) is int]
        found[name] = sum(counts) if len(counts) == len(recorders) else None
    return found
