"""Several recordings as one: in memory, or files that are read one at a time into another file.

One way leads to both. `_Merger.add` takes one recording: rows that recordings share become one at once, rows of events
(what happened at a time) are kept as columns of numbers until all are there; see `kernelscope.recording.events`. What
reads files and writes one is done in a thread, so that a Ctrl-C finds nothing half done.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.progress import Progress, Work, bar, carried_out
from kernelscope.recording.clocks import before_cause, by_pings, on_one_clock
from kernelscope.recording.events import EVENTS, IN_ORDER, Events, Numbers, Scratch
from kernelscope.recording.file import load, target_of, write_tables
from kernelscope.recording.model import Recording, Renumbering, numbered, renumbered
from kernelscope.recording.parquet import empty_table, encode, make_table, table_of_rows, writer
from kernelscope.recording.redact import without_paths
from kernelscope.schema import MAX_COUNT, REFERENCES, TABLES, UNKNOWN
from kernelscope.units import listed

Source = Recording | str | Path

# Tables whose equal rows become one, each after those that it refers to; and columns that do not tell rows apart.
# Those that name cells come after these.
_SHARED = ("processes", "threads", "devices", "dispatchers", "configurations", "specializations")
_OF_CELLS = ("lines", "operators")
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
        "reserved_shared_bytes", "copy_bytes_per_second",
    ),
    "dispatchers": ("arguments", "code_sha256"),
    "specializations": (
        "compute_capability", "regs", "static_shared_bytes", "local_bytes", "const_bytes", "spill_store_bytes",
        "spill_load_bytes", "max_threads", "launch_config_sensitive", "cubin_bytes", "entry_name",
    ),
}
_FACT = ("process_id", "probe", "status", "message", "fix")
_SUMMED = ("dropped", "errors", "total_cost_ns")
#: What metadata are put together from those of all recordings.
_OF_ALL = ("own_cost", "recorder", "code", "merged")
#: Recordings of one pid are of one process where they say that it began at the same time, on clocks that may be off.
_SAME_START_NS = 1_000_000_000
#: Files that are read before they are needed.
_AHEAD = 2
#: Names in a message.
_LISTED = 5
#: Which part of the progress is the reading.
_READING = 0.7


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
    if all(isinstance(each, Recording) for each in recordings):
        merger = _Merger()
        for each in recordings:
            merger.add(cast("Recording", each))
        return merger.recording(name)
    gathered = _gathered(recordings, name, load, None, keep_going=False)
    if gathered.interrupt is not None:
        raise gathered.interrupt
    return gathered.recording


@dataclass(frozen=True)
class Gathered:
    """What `gather` made.

    Attributes
    ----------
    recording : Recording
        One of all that could be read.
    merged : int
        How many are in it.
    missing : dict of str to str
        By name, those that are not, and why.
    interrupt : KeyboardInterrupt or None
        The Ctrl-C that ended the reading.
    """

    recording: Recording
    merged: int
    missing: dict[str, str]
    interrupt: KeyboardInterrupt | None


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
    rows : dict of str to int
        How many rows each table has.
    shared : Recording
        The recording without what happened at a time: launches, activities, compilations and the like are empty, and
        processes, threads, devices, kernels and health are there.
    """

    path: Path
    merged: int
    missing: dict[str, str]
    rows: dict[str, int]
    shared: Recording


def gather(sources: Sequence[Source], *, name: str | None = None, read: Callable[[Path], Recording] = load,
           progress: Progress | None = None) -> Gathered:
    """Return one recording of many files; see `merge`.

    What is refused, cannot be read, is of another kind than the first, or was there already is left out, which the
    table ``health`` says. Ctrl-C ends the reading, and what was read until then is there; a second one gives up.

    Parameters
    ----------
    sources : sequence of Recording, str or Path
        What to merge, each path as `read` takes it.
    name : str, optional
        The name of the result; without one, the first's.
    read : callable, optional
        Makes a recording of a path; called in a thread. Without it `kernelscope.load`.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, before each source. Without it a terminal or a notebook has a
        progress bar where tqdm is installed.

    Raises
    ------
    ValueError
        There is no source.
    RecordingFileError
        No source could be read.
    """
    if not sources:
        raise ValueError("merge needs at least one recording")
    return _gathered(sources, name, read, progress, keep_going=True)


def merge_files(sources: Sequence[str | Path], path: str | Path, *, name: str | None = None, paths: bool = False,
                overwrite: bool = True, read: Callable[[Path], Recording] = load,
                progress: Progress | None = None) -> MergedFile:
    """Merge files into one ``.kscope`` file, with few of them in memory at a time; see `merge` and `gather`.

    Ctrl-C while files are read ends the reading, and what was read until then is written; a later one leaves nothing.
    The file appears whole or not at all.

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
        Called with a fraction from 0 to 1 and a text, once a file and once a table. Without it a terminal or a notebook
        has a progress bar where tqdm is installed.

    Raises
    ------
    ValueError
        There is no source.
    RecordingFileError
        No source could be read, or the file cannot be written.
    """
    if not sources:
        raise ValueError("merge needs at least one recording")
    target = target_of(path, overwrite)
    files = _Files(sources, read)

    def write(work: Work) -> MergedFile:
        try:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(
                    prefix=f".{target.name[:100]}-", suffix=".partial", dir=target.parent, ignore_cleanup_errors=True)))
                merger = _Merger(Scratch(stack.enter_context(open(folder / "events", "w+b"))))
                files.read_into(merger, work, cut=not paths)
                pool = stack.enter_context(ThreadPoolExecutor(1))
                tables = merger.finish()
                members: dict[str, Any] = {}
                rows: dict[str, int] = {}
                followed = {table: merger.by_thread(table) for table in EVENTS}
                for at, table in enumerate(TABLES):
                    work.tell(_READING + (1 - _READING) * at / len(TABLES), f"writing {table}")
                    rows[table] = tables[table].num_rows if table in tables else merger.rows(table)
                    members[table] = (encode(table, tables[table]) if table in tables else
                                      _written(table, merger, followed[table], folder, work, pool))
                shared = Recording(tables, merger.metadata(name))
                write_tables(target, members, rows, shared.metadata, followed=followed, overwrite=overwrite)
        except OSError as error:
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        work.tell(1.0, f"wrote {target.name}")
        return MergedFile(target, merger.merged, files.missing, rows, shared)

    return carried_out(write, progress or bar("merging"))[0]


def _gathered(sources: Sequence[Source], name: str | None, read: Callable[[Path], Recording],
              progress: Progress | None, *, keep_going: bool) -> Gathered:
    files = _Files(sources, read, keep_going=keep_going)

    def make(work: Work) -> Gathered:
        merger = _Merger()
        files.read_into(merger, work)
        return Gathered(merger.recording(name), merger.merged, files.missing, None)

    made, interrupt = carried_out(make, progress or bar("merging"))
    return Gathered(made.recording, made.merged, made.missing, interrupt)


@dataclass
class _Files:
    """What is to be merged, and which of it was not."""

    sources: Sequence[Source]
    read: Callable[[Path], Recording]
    keep_going: bool = True
    missing: dict[str, str] = field(default_factory=dict[str, str])

    def read_into(self, merger: _Merger, work: Work, *, cut: bool = False) -> None:
        """Read all and say in health what is missing; the next ones are read while one is merged.

        Raises
        ------
        RecordingFileError
            None could be read.
        """
        names, same = _names(self.sources), _same(self.sources) if self.keep_going else {}
        waiting: deque[Future[Recording]] = deque()
        with ThreadPoolExecutor(_AHEAD) as pool:
            for at, name in enumerate(names):
                work.tell(_READING * at / len(names), f"reading {name}")
                if work.is_ending:
                    self.missing |= dict.fromkeys(names[at:], "merging was interrupted")
                    break
                waiting.extend(pool.submit(self._read, source, same.get(number)) for number, source in enumerate(
                    self.sources[at + len(waiting):at + _AHEAD], at + len(waiting)))
                try:
                    merger.add(waiting.popleft().result(), cut=cut)
                except (KernelScopeError, ValueError) as error:
                    if not self.keep_going:
                        raise
                    self.missing[name] = str(error).removeprefix(f"{name}: ")
            for each in waiting:
                each.cancel()
        work.is_finishing = True
        if not merger.merged:
            if work.is_ending:
                work.interrupt()
                work.check()
            raise RecordingFileError("nothing was merged: " + listed([
                f"{name}: {why}" for name, why in self.missing.items()], _LISTED))
        reasons: dict[str, list[str]] = {}
        for name, why in self.missing.items():
            reasons.setdefault(why, []).append(name)
        for why, those in reasons.items():
            of = f"{len(those):,} of {len(names):,}"
            merger.say({"probe": "recorder", "status": "degraded",
                        "message": f"{of} recordings not merged: {listed(those, _LISTED)}: {why}"})

    def _read(self, source: Source, first: int | None) -> Recording:
        if first is not None:
            raise RecordingFileError(f"the same file as {_names(self.sources)[first]}")
        return source if isinstance(source, Recording) else self.read(Path(source))


def _names(sources: Sequence[Source]) -> list[str]:
    """What messages call each source: its file's name, or all of its path where several have that name."""
    names = [each.name if isinstance(each, Recording) else Path(each).name for each in sources]
    often = Counter(names)
    return [str(each) if often[name] > 1 and not isinstance(each, Recording) else name
            for each, name in zip(sources, names, strict=True)]


def _same(sources: Sequence[Source]) -> dict[int, int]:
    """Of files that are copies of another one: which that is."""
    sizes: dict[int, list[int]] = {}
    for at, each in enumerate(sources):
        if not isinstance(each, Recording) and (path := Path(each)).is_file():
            sizes.setdefault(path.stat().st_size, []).append(at)
    found: dict[int, int] = {}
    for those in sizes.values():
        seen: dict[bytes, int] = {}
        for at in those if len(those) > 1 else ():
            try:
                with open(Path(cast("str", sources[at])), "rb") as file:
                    first = seen.setdefault(hashlib.file_digest(file, "blake2b").digest(), at)
            except OSError:  # `read` says why
                continue
            if first != at:
                found[at] = first
    return found


def _written(table: str, merger: _Merger, left_out: Collection[str], folder: Path, work: Work, pool: Executor) -> Any:
    """Write one table of events to a file of its own, piece by piece and without some columns; return the file."""
    if not merger.rows(table):
        return encode(table, empty_table(table))
    file = folder / f"{table}.parquet"
    with open(file, "wb") as sink, writer(table, sink, merger.rows(table), left_out) as held:
        under_way: Future[None] | None = None
        for piece in merger.pieces(table, left_out):  # one is made while the one before is compressed
            work.check()
            if under_way is not None:
                under_way.result()
            under_way = pool.submit(held.write_table, piece)
        if under_way is not None:
            under_way.result()
    return file


class _Merger:
    """Takes recordings one after another and gives the tables of all.

    Parameters
    ----------
    scratch : Scratch, optional
        Where rows of events are kept until all are there; in memory without one.
    """

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._shared = {name: _Shared(name) for name in (*_SHARED, *_OF_CELLS)}
        self._stacks: dict[tuple[int, int], int] = {}
        self._graphs = _Graphs()
        scratch = scratch or Scratch()
        self._events = {name: Events(name, scratch) for name in EVENTS}
        self._places: dict[str, Numbers] = {}
        self._distinct: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {"occupancies": {}, "code": {}}
        self._health: dict[Any, dict[str, Any]] = {}
        self._metadata: list[dict[str, Any]] = []
        self._first: Recording | None = None
        self._kinds: dict[str, str] = {}
        self._kind: dict[str, Any] = {}

    @property
    def merged(self) -> int:
        """How many recordings there are."""
        return len(self._metadata)

    def add(self, recording: Recording, *, cut: bool = False) -> None:
        """Add a recording; with `cut`, without the paths of its machine.

        Raises
        ------
        ValueError
            It is of another kind than those before; nothing was added.
        """
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
            name: np.arange(recording.arrow(name).num_rows) + self._events[name].total for name in IN_ORDER}
        for name in _SHARED:
            self._shared[name].add(recording, place)
        self._graphs.add(recording, place)
        for name in _OF_CELLS:
            self._shared[name].add(recording, place)
        self._add_stacks(recording, place)
        for name in EVENTS:
            self._events[name].add(recording.arrow(name), place)
        for row in renumbered(recording.arrow("health"), "health", place).to_pylist():
            self.say(row)
        for name, found in self._distinct.items():
            for row in renumbered(recording.arrow(name), name, place).to_pylist():
                found.setdefault(tuple(row.values()), row)
        held = recording.metadata
        self._kinds = kinds
        if self._first is None:
            self._first = Recording({}, held)
        if ran:
            self._kind = {key: held[key] for key in ("dry_run", "simulator") if key in held}
        self._metadata.append({key: held[key] for key in _OF_ALL if key in held})

    def say(self, row: Mapping[str, Any]) -> None:
        """Add a row of health; those of one fact are combined."""
        new = {**dict.fromkeys(TABLES["health"].names), **row}
        fact = self._health.setdefault(tuple(new[column] for column in _FACT), new)
        if fact is not new:
            _add_fact(fact, new)

    def rows(self, table: str) -> int:
        """Return how many rows a table of events has."""
        return self._events[table].total

    def by_thread(self, table: str) -> dict[str, np.ndarray]:
        """Return the columns of a table of events that follow from the thread, once `finish` was called."""
        return self._events[table].by_thread(self._places)

    def pieces(self, table: str, left_out: Collection[str] = ()) -> Iterator[pa.Table]:
        """Yield the rows of a table of events in order, without some columns, once `finish` was called."""
        return self._events[table].pieces(self._places, left_out)

    def finish(self) -> dict[str, pa.Table]:
        """Find where each event stands, and return the tables that are not of events."""
        named = {"cells"}.union(*(each.named for each in self._events.values()))
        for name in IN_ORDER:
            self._events[name].order(is_named=name in named)
            if name in named:
                self._places[name] = self._events[name].new
        cells = self._events["cells"].new.of(np.arange(self._events["cells"].total))
        for row in (row for name in _OF_CELLS for row in self._shared[name].rows):
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

    def recording(self, name: str | None) -> Recording:
        """Return all as a recording, in memory."""
        tables = self.finish()
        for table in EVENTS:
            pieces = list(self.pieces(table))
            tables[table] = pieces[0] if pieces else empty_table(table)
        return Recording(tables, self.metadata(name))

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
