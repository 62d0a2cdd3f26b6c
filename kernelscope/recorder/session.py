"""The recording session: the installed probes and their buffers, and what a recorder takes out of them at stop."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope import dryrun
from kernelscope.clock import Clock, align, now
from kernelscope.native.journal import boot_id
from kernelscope.native.log import LaunchColumns, LaunchLog, from_signal_handler
from kernelscope.probes.base import ProbeProtocol, insist, plugin_probes, remove_pass_throughs
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.cupti import CuptiProbe, has_driver
from kernelscope.probes.dask import DaskProbe
from kernelscope.probes.garbage import GarbageProbe
from kernelscope.probes.lines import UserCode, text_of
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.numba_cuda_mlir import NumbaCudaMlirProbe
from kernelscope.probes.nvtx import NvtxProbe
from kernelscope.probes.quadrants import QuadrantsProbe
from kernelscope.probes.simulator import SimulatorProbe
from kernelscope.probes.sink import Sink
from kernelscope.probes.torch import TorchProbe
from kernelscope.probes.triton import TritonProbe
from kernelscope.recorder.core_options import CoreOptions
from kernelscope.recorder.environment import environment, shown_filename
from kernelscope.recorder.journal import Journal, keep
from kernelscope.recorder.options import RecordingOptions
from kernelscope.registry import features, frameworks, loaded
from kernelscope.schema import SCHEMA_VERSION
from kernelscope.units import counted

# What makes tables is imported where it is needed, when recording stops: a process that records itself starts without.
# Other recorders have imported it by then (`kernelscope.recorder.recorder`).
if TYPE_CHECKING:
    from kernelscope.recording.build import RawCollections, RawRecording
    from kernelscope.recording.columns import Columns
    from kernelscope.recording.graphs import RawGraphs
    from kernelscope.recording.joins import RawActivities
    from kernelscope.recording.ranges import RawRanges


class Session:
    """The installed probes and their sink, shared by the recorders that are nested in each other."""

    active: Session | None = None
    lock = threading.RLock()

    def __init__(self, options: RecordingOptions, clock: Clock, journal: Journal) -> None:
        if os.environ.get("KERNELSCOPE_DRYRUN") and not dryrun.is_enabled():
            dryrun.enable_from_environment()  # it failed when kernelscope was imported: now it is an error
        self.options = options
        log, problems = keep(options, clock, journal)
        self.journal = journal if journal.is_on else None
        self.sink = Sink(clock, options.detail, log, UserCode(options.lines_of) if options.lines else None,
                         stacks=options.records_call_paths)
        self.sink.health += problems
        if self.journal is not None:
            self.journal.follow(self.sink, shown_filename)
        self.alignment = align(clock)
        self.installed: list[ProbeProtocol] = []
        #: Who records: as long as there is one, the hooks stay in.
        self.recorders: set[object] = set()
        self.describing = threading.RLock()

    @classmethod
    def join(cls, recorder: object, options: RecordingOptions, probes: Sequence[ProbeProtocol] | None,
             clock: Clock) -> tuple[Session, Part]:
        """Return the active session, opening it if there is none, and the part of it that begins now.

        The recorder is in it from then on, also where a signal handler keeps this from returning: see `leave`.
        """
        with cls.lock:
            if cls.active is None:
                part = Part()  # what other threads launched since the first hook went in is of it
                session = cls._open(recorder, options, probes, clock)
            else:
                session, part = cls.active, Part(cls.active.sink)
                session.recorders.add(recorder)
            return session, part

    @classmethod
    def _open(cls, recorder: object, options: RecordingOptions, probes: Sequence[ProbeProtocol] | None,
              clock: Clock) -> Session:
        # What has to be undone is assigned before anything is done: a signal handler may raise after any call.
        journal, session = Journal(options.journal), None
        try:
            remove_pass_throughs()
            session = cls(options, clock, journal)
            if probes is None:
                probes, problems = _probes(options)
                session.sink.health += problems
            for probe in probes:
                session._install(probe)
            session.recorders.add(recorder)
            cls.active = session
            return session
        except BaseException:
            cls.active = None
            if session is not None:
                insist(session._uninstall)
                insist(session.end_journal)
            insist(journal.close)
            raise

    def leave(self, recorder: object) -> tuple[bool, BaseException | None]:
        """Leave the session, closing it if nobody else is in it. Who has left may leave again.

        Returns
        -------
        tuple of bool and BaseException or None
            Whether nobody is in it any more; and what a signal handler raised while it was closed.
        """
        alone = False

        def undo() -> None:
            nonlocal alone
            with Session.lock:
                self.recorders.discard(recorder)
                alone = not self.recorders
                if alone:
                    if Session.active is self:
                        Session.active = None
                    self._uninstall()

        interrupt = insist(undo)
        return alone, interrupt

    def active_probes(self) -> list[ProbeProtocol]:
        """Return the installed probes without those whose framework is not imported, which have nothing to tell."""
        return [probe for probe in self.installed if not getattr(probe, "is_idle", False)]

    def begin_journal(self, name: str | None) -> None:
        """Write the journal's metadata, where one is kept."""
        if self.journal is not None:
            self.journal.begin(name, _metadata(name, self, []))

    def end_journal(self, *, keep: bool = False) -> None:
        """Remove the journal: the recording is made; or with `keep` leave it, to be recovered."""
        if self.journal is None:
            return
        if keep:
            self.journal.let_go()
        else:
            self.journal.close()
        self.sink.log.leave_file()

    def describe(self, used: set[tuple[int, int]], code: bool) -> BaseException | None:
        """Have the probes query the driver, which happens only at stop, and with `code` the kernels' code.

        A Ctrl-C ends one probe's queries, and is returned: the recording is not lost.
        """
        interrupt: BaseException | None = None
        with self.describing:
            self.sink.captures_code = code
            for probe in self.active_probes():
                try:
                    probe.describe(self.sink, used)
                except BaseException as error:
                    if isinstance(error, Exception) and not from_signal_handler(error):
                        self.sink.swallow(probe.name, error)
                    else:
                        interrupt = error
            if self.journal is not None and self.recorders:  # those around the one that stops go on
                self.journal.flush(anew=True)
        return interrupt

    def _install(self, probe: ProbeProtocol) -> None:
        self.installed.append(probe)  # before: what a Ctrl-C interrupts is undone too
        try:
            probe.install(self.sink, self.sink.detail)
        except Exception as error:
            if from_signal_handler(error):
                raise
            self.installed.remove(probe)
            self.sink.health.append({"probe": probe.name, "status": "unavailable",
                                     "message": f"{type(error).__name__}: {error}"})

    def _uninstall(self) -> None:
        interrupt: BaseException | None = None
        for probe in reversed(self.installed):
            try:
                interrupt = insist(probe.uninstall) or interrupt
            except Exception as error:
                if from_signal_handler(error):
                    raise
                self.sink.swallow(probe.name, error)
        if interrupt is not None:
            raise interrupt


#: Options that no feature adds.
_CORE = {option.name for option in fields(CoreOptions)}


def _probes(options: RecordingOptions) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Every probe that there is, those that the options ask for; and what is wrong with those of other packages."""
    gpu = options.gpu
    on_gpu = gpu != "none" and has_driver()  # in a dry run and in the simulator the GPU's times do not exist
    timer = None
    if on_gpu and gpu == "events":
        from kernelscope.probes.numba_cuda.events import EventTimer

        timer = EventTimer()
    probes: list[ProbeProtocol] = [NumbaCudaProbe(timer), NumbaCudaMlirProbe(), SimulatorProbe(), NvtxProbe(),
                                   DaskProbe(), CudaComputeProbe()]
    if on_gpu and options.traces_gpu:
        probes.append(CuptiProbe())
    probes.append(CudaCoreProbe())  # after CUPTI's, whose records it looks at
    probes.append(QuadrantsProbe())  # after cuda.core's, which knows the graphs that it names the kernels of
    probes += [TritonProbe(), TorchProbe(),
               *(loaded(framework.probe)() for framework in frameworks() if framework.probe)]
    problems: list[dict[str, Any]] = []
    for feature in features():
        declared = fields(loaded(feature.options)) if feature.probes else ()
        if any(getattr(options, option.name) != option.default for option in declared if option.name not in _CORE):
            of_feature, rows = loaded(feature.probes)(options)
            probes += of_feature
            problems += rows
    probes.append(GarbageProbe())
    plugins, others = plugin_probes([probe.name for probe in probes])
    return probes + plugins, problems + others


class Part:
    """Where a recorder's part of the session's buffers begins: at their start, or at what `sink` holds now."""

    def __init__(self, sink: Sink | None = None) -> None:
        self._mark = 0
        self._compilations = self._passes = self._ranges = self._builds = self._collections = 0
        self._rows: dict[str, int] = {}
        self.began: int | None = None
        #: What a signal handler raised while the recording was being finished.
        self.interrupt: BaseException | None = None
        if sink is None:
            return
        self.began = sink.clock()
        self._mark = sink.log.mark()
        with sink.lock:
            self._compilations = len(sink.compilations)
            self._passes = len(sink.passes)
            self._ranges = len(sink.ranges) // 4
            self._builds = len(sink.builds)
        self._collections = 0 if sink.collections is None else len(sink.collections)
        for take in sink.before_part:
            take()
        self._rows = {table: len(rows) for table, rows in sink.rows.items()}

    def launches(self, sink: Sink) -> tuple[LaunchColumns, int]:
        """Return the launches that began in this part and that the log has kept, and how many it has not kept."""
        from kernelscope.recording.columns import at_sites

        found, lost = sink.log.columns(self._mark), sink.log.lost(self._mark)
        return found | at_sites(found.pop("site"), sink.sites.rows), lost

    def compilations(self, sink: Sink) -> list[dict[str, Any]]:
        """Return compiles that ended in this part; a probe's `describe` may still add to the rows."""
        return sink.compilations[self._compilations:]

    def passes(self, sink: Sink) -> list[dict[str, Any]]:
        """Return passes and phases of this part, referring to `compilations`' positions."""
        first = self._compilations
        return [
            {**row, "compilation_id": row["compilation_id"] - first}
            if row.get("compilation_id") is not None and row["compilation_id"] >= first else
            {**row, "compilation_id": None}
            for row in sink.passes[self._passes:]
        ]

    def builds(self, sink: Sink) -> list[dict[str, Any]]:
        """Return requests to build caches that ended in this part; the nearest known build may be none of it."""
        first = self._builds
        rows = [dict(row) for row in sink.builds[first:]]
        for row in rows:
            nearest = row.get("nearest_build_id")
            row["nearest_build_id"] = None if nearest is None or nearest < first else nearest - first
        return rows

    def graphs(self, sink: Sink) -> RawGraphs:
        """Return all graphs of the session until now, and when this part began."""
        from kernelscope.recording.graphs import RawGraphs

        source = sink.graphs
        # What names before what is named: other threads go on.
        launches, execs, nodes_of = dict(source.launches), dict(source.execs), dict(source.nodes_of)
        events, edges, nodes = list(source.events), list(source.edges), list(source.nodes)
        return RawGraphs(list(source.graphs), nodes, edges, events, launches, execs, nodes_of, self.began)

    def ranges(self, sink: Sink) -> RawRanges:
        """Return all NVTX events of the session until now, and which is the first of this part."""
        from kernelscope.recording.ranges import RawRanges

        count = len(sink.ranges) // 4 * 4
        events = np.fromiter(sink.ranges[:count], np.float64, count).reshape(-1, 4)
        return RawRanges(events, list(sink.range_labels.rows), self._ranges, list(sink.sites.rows))

    def collections(self, sink: Sink) -> RawCollections | None:
        """Return the garbage collections that ended in this part; None where they are not recorded."""
        from kernelscope.recording.build import RawCollections

        if sink.collections is None:
            return None
        return RawCollections.from_bytes(sink.collections.rows(self._collections))

    def rows(self, sink: Sink) -> dict[str, list[dict[str, Any]]]:
        """Return what the probes of features recorded in this part, by table; all of the session of snapshots."""
        rows = {table: rows[self._rows.get(table, 0):] for table, rows in sink.rows.items()}
        return rows | {table: snapshot() for table, snapshot in sink.snapshots.items()}

    def activities(self, sink: Sink) -> RawActivities:
        """Return the GPU activities of this part, and the calls that started them."""
        from kernelscope.recording.joins import RawActivities

        gpu = sink.gpu
        calls, activities = gpu.calls, gpu.activities
        if self.began is not None:
            mine = calls["start_ns"] >= self.began
            known = np.isin(activities["correlation_id"], calls["correlation_id"])
            asked = np.isin(activities["correlation_id"], calls["correlation_id"][mine])
            asked |= ~known & (activities["start_ns"] >= self.began)
            calls = {name: values[mine] for name, values in calls.items()}
            activities = {name: values[asked] for name, values in activities.items()}
        return RawActivities(activities, calls, list(gpu.names), list(gpu.entries), list(gpu.shapes), list(sink.own),
                             gpu.has_correlation, _sites_of(*gpu.sites, sink.sites.rows))


def _sites_of(correlation: np.ndarray, site: np.ndarray, sites: Sequence[dict[str, Any]]) -> Columns:
    from kernelscope.recording.columns import CALL_SITE, at_sites

    found = at_sites(site, sites)
    return {"correlation_id": correlation, **{name: found[name] for name in CALL_SITE}}


def raw_recording(session: Session, part: Part, name: str | None, cells: list[dict[str, Any]],
                  notes: list[dict[str, Any]], *, code: bool = False) -> RawRecording:
    """Return everything that the builder needs, copied out of the session; the kernels' code with `code` only."""
    from kernelscope.recorder.overhead import recording_cost
    from kernelscope.recording.build import RawRecording
    from kernelscope.recording.ranges import add_native

    sink = session.sink
    launches, lost = part.launches(sink)
    # Before the rows that they name: other threads go on while a nested recorder stops.
    compilations, passes = part.compilations(sink), part.passes(sink)
    made = _made(launches)
    part.interrupt = session.describe(set(made), code)
    if session.journal is not None:
        session.journal.look(lost if sink.log.mode == "grow" else 0)
    threads: list[dict[str, Any]] = [{"ident": state.ident, "name": state.name} for state in list(sink.threads)]
    made_in_python = part.ranges(sink)
    with session.describing:  # another recorder's stop may be writing down graphs
        graphs = part.graphs(sink)
    total: Counter[str] = Counter()
    for (target, _), count in made.items():
        total[sink.dispatchers.rows[sink.targets.rows[target]["dispatcher_id"]]["framework"]] += count
    costs, how_known = recording_cost(session.active_probes(), sink, total, made_in_python.count())
    collections = part.collections(sink)
    if collections is not None:
        _add_threads(collections, threads)
    ranges = add_native(made_in_python, sink.gpu.markers, sink.gpu.marker_data, sink.gpu.names, threads, part.began)
    activities = part.activities(sink)  # before the lines that they name
    raw = RawRecording(
        launches=launches,
        targets=list(sink.targets.rows),
        threads=threads,
        stacks=list(sink.stacks.rows),  # before the lines that they name
        lines=[{**row, "file": shown_filename(row["file"]),
                "text": text_of(row["file"], row["line"]) if row.get("user_code") is not False else None}
               for row in sink.lines.rows],
        cells=cells,
        dispatchers=[{**row, "filename": shown_filename(row.get("filename"))} for row in sink.dispatchers.rows],
        specializations=list(sink.specializations.rows),
        configurations=list(sink.configurations.rows),
        devices=list(sink.devices.rows),
        compilations=[dict(row) for row in compilations],
        passes=passes,
        occupancies=list(sink.occupancies),
        code=list(sink.code) if code else [],
        ranges=ranges,
        builds=part.builds(sink),
        activities=activities,
        graphs=graphs,
        collections=collections,
        rows=part.rows(sink),
        began=part.began,
        health=[*_health(sink), *costs, *_losses(sink.log, len(launches["target"]), lost), *notes],
    )
    raw.metadata = {**_metadata(name, session, raw.dispatchers), "code": code, "own_cost": how_known, "recorder": {
        "mode": sink.log.mode, "capacity": sink.log.capacity, "kept": len(launches["target"]), "lost": lost}}
    return raw


def _add_threads(collections: RawCollections, threads: list[dict[str, Any]]) -> None:
    """Add the threads that did nothing but collect garbage, with their names as long as they live."""
    known = {row["ident"] for row in threads}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads += [{"ident": ident, "name": names.get(ident)}
                for ident in np.unique(collections.column("ident")).tolist() if ident not in known]


def _made(launches: LaunchColumns) -> dict[tuple[int, int], int]:
    """Return how many launches there are of each pair of target and configuration."""
    target, configuration = launches["target"], launches["configuration"]
    if not len(target):
        return {}
    width = int(configuration.max()) + 1
    most = (int(target.max()) + 1) * width
    if most > _MOST_PAIRS:
        from kernelscope.recording.columns import distinct

        found, which = distinct(target.astype(np.int64) * width + configuration)
        counts = np.bincount(which)
    else:
        counts, size = np.zeros(most, np.int64), max(_PART, most)
        for first in range(0, len(target), size):
            part = slice(first, first + size)
            counts += np.bincount(target[part].astype(np.intp) * width + configuration[part], minlength=most)
        found = np.flatnonzero(counts).tolist()
        counts = counts[found]
    return {divmod(pair, width): count for pair, count in zip(found, counts.tolist(), strict=True)}


_MOST_PAIRS = 1 << 20  # so many are counted by their number, which is faster; more are hashed
_PART = 1 << 15  # launches whose pairs stay in the processor's cache


def _health(sink: Sink) -> list[dict[str, Any]]:
    """Return the probes' health rows."""
    rows = [*sink.health, *sink.stated.values()]
    for name, count in sink.errors.items():
        rows.append({"probe": name, "status": "degraded", "errors": count, "dropped": sink.dropped[name],
                     "message": f"{counted(count, 'error was', 'errors were')} inside KernelScope and kept from your "
                                f"code; the first: {sink.first_errors[name]}",
                     "fix": "please report it with this message"})
    return rows


def _losses(log: LaunchLog, kept: int, lost: int) -> list[dict[str, Any]]:
    """Return a health row for launches that the log dropped, if any."""
    if not lost or log.mode == "grow":  # the journal says it
        return []
    which = "newest" if log.mode == "ring" else "first"
    return [{"probe": "recorder", "status": "degraded", "dropped": lost,
             "message": f"kept the {which} {kept:,} of {kept + lost:,} launches: mode {log.mode!r} with capacity "
                        f"{log.capacity:,}",
             "fix": "record with a larger capacity, or with mode 'grow', which keeps all"}]


def _metadata(name: str | None, session: Session, dispatchers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "detail": session.sink.detail,
        "simulator": any(row["framework"] == "simulator" for row in dispatchers),
        "probes": [probe.name for probe in session.installed],
        "clock": {"host_ns": session.alignment.host_ns, "wall_ns": session.alignment.wall_ns,
                  "error_ns": session.alignment.error_ns,
                  "boot": boot_id() if session.sink.clock is now else None},
        **environment(),
        **session.sink.metadata,
    }
