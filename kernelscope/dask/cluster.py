"""The client's side of a recording of a Dask cluster: begin on all workers, end, fetch their files, merge."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from kernelscope import __version__
from kernelscope.dask import sent
from kernelscope.dask.clocks import kept, pings_of_scheduler
from kernelscope.dask.worker import content, folder_of, left_in, remove, token
from kernelscope.errors import KernelScopeError, RecorderStateError, RecordingFileError
from kernelscope.probes.base import insist
from kernelscope.progress import bar
from kernelscope.recorder.environment import environment
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder, RecordsOnce, recorder_of
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.file import save
from kernelscope.recording.merge import gather
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.units import by_numbers, counted, listed

Row = dict[str, Any]

#: Of `RecordingOptions`: those that are not a worker's.
_NOT_SENT = ("journal", "children")
#: Files that are under way at a time, and in memory; and workers that are asked at a time.
_AT_ONCE, _ASKED_AT_ONCE = 8, 256
#: What was cancelled is given this long to end.
_PATIENCE_S = 10.0
_INSTALL = "install the client's version of kernelscope on every worker"


class ClusterRecorder(RecordsOnce):
    """Records all workers of a Dask cluster between `start` and `stop`; a context manager for one block.

    `kernelscope.dask.record` makes one. There is one recording of a cluster at a time.

    Parameters
    ----------
    client : distributed.Client
        The cluster's client.
    options : RecordingOptions
        How the workers record.
    own : bool
        Record this process too.
    """

    def __init__(self, client: Any, options: RecordingOptions, *, own: bool = False) -> None:
        _check(client, options)
        self.name = options.name
        self._client = client
        self._options = options
        self._id = secrets.token_hex(8)
        self._own: Recorder | None = recorder_of(options) if own else None
        self._is_recording = False
        self._notes: list[Row] = []
        #: Pings of the scheduler's clock when this process began to be recorded.
        self._pings: Mapping[str, Any] = {}
        #: The workers that there were at the start.
        self._seen: dict[str, Row] = {}

    @property
    def has_recording(self) -> bool:
        """Return whether `recording` is there."""
        return self._recording is not None

    @property
    def is_recording(self) -> bool:
        """Return whether it has started and not stopped."""
        return self._is_recording

    def start(self) -> ClusterRecorder:
        """Record on all workers, and on those that join; return self.

        Raises
        ------
        RecorderStateError
            It was started before, or the cluster is being recorded already.
        """
        self._refuse_another_start()
        client = self._client
        try:
            client.register_plugin(sent.scheduler_plugin(self._id, self.name, client.id), name=sent.NAME)
            held = _read(client.run_on_scheduler(sent.state_of_scheduler()))
            if held.get("recording") != self._id:
                called = f" as {held['name']!r}" if held.get("name") else ""
                whose = "this client" if held.get("owner") == client.id else f"another client, {held.get('owner')}"
                raise RecorderStateError(f"this cluster is being recorded already{called} by {whose}, and one "
                                         "recording of a cluster is possible at a time: wait until it has ended")
            self._seen = held["seen"]
            given = {each.name: getattr(self._options, each.name) for each in fields(self._options)
                     if each.name not in _NOT_SENT}
            self._is_recording = True
            try:
                client.register_plugin(sent.worker_plugin({"recording": self._id, "options": given}), name=sent.NAME)
            except Exception as error:  # one worker died meanwhile: the others record
                self._note(f"not every worker may have begun: {type(error).__name__}: {error}")
            if self._own is not None:
                self._own.start()
                self._pings = self._client.sync(pings_of_scheduler, self._client.scheduler)
            return self
        except BaseException:
            if self._own is not None and self._own.is_recording:
                insist(self._own.stop)
            insist(self._withdraw)
            raise

    def stop(self) -> Recording:
        """Stop on all workers, fetch what they recorded, and return it as one recording.

        A Ctrl-C while it is fetched ends the fetching, and is raised when the recording is made: `recording` has what
        was there until then. What was not fetched stays on the workers' hosts; the table ``health`` says where.

        Raises
        ------
        RecorderStateError
            It is not recording.
        """
        if not self._is_recording:
            raise RecorderStateError("stop() without start(): this recorder is not recording")
        self._is_recording = False
        interrupt: BaseException | None = None
        try:
            with tempfile.TemporaryDirectory(prefix="kernelscope-") as made:
                gathering = _Gathering(self._client, self._id, Path(made), skips_own=self._own is not None)
                interrupt = self._stop_own(Path(made) / "client.kscope") or interrupt
                interrupt = self._gather(gathering) or interrupt
                fetched = sorted(gathering.files, key=lambda path: by_numbers(path.name))
                files = [*Path(made).glob("client.kscope"), *fetched]
                merged, cut = self._merged(files)
                interrupt = insist(gathering.remove_fetched) or cut or interrupt
                notes = [*self._notes, *gathering.notes, *gathering.missing(merged)]
                health = table_of_rows("health", [*merged.rows("health"), *notes])
                self._recording = Recording({**{table: merged.arrow(table) for table in TABLES}, "health": health},
                                            merged.metadata)
        finally:
            insist(self._withdraw)
        if interrupt is not None:
            raise interrupt
        return self._recording

    def begin_cell(self, name: str | None = None, *, execution_count: int | None = None,
                   source: str | None = None) -> None:
        """Begin a cell of this process, where it is recorded too."""
        if self._own is not None:
            self._own.begin_cell(name, execution_count=execution_count, source=source)

    def end_cell(self, error: BaseException | None = None) -> None:
        """End the cell of this process, with the exception that ended its code if any."""
        if self._own is not None:
            self._own.end_cell(error)

    def attach(self, kernel: Any) -> None:
        """Record one kernel of this process: see `Recorder.attach`."""
        if self._own is not None:
            self._own.attach(kernel)

    def __enter__(self) -> ClusterRecorder:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Stop, unless the block has done so itself."""
        if self._is_recording:
            self.stop()

    def _withdraw(self) -> None:
        """Take the plugins out; workers that still record stop then, and leave their files on their hosts."""
        self._is_recording = False
        if self._client.status == "running":  # otherwise the scheduler does it
            try:
                self._client.run_on_scheduler(sent.end_on_scheduler(), recording=self._id)
            except Exception as error:  # the cluster has gone, and with it the plugins
                self._note(f"the cluster was gone when the recording ended: {type(error).__name__}: {error}")

    def _note(self, message: str, fix: str | None = None) -> None:
        self._notes.append(_note(message, fix))

    def _stop_own(self, path: Path) -> BaseException | None:
        """Stop the recording of this process and write it into a file; return what interrupted that."""
        if self._own is None:
            return None
        interrupt: BaseException | None = None
        pings: Mapping[str, Any] = {}
        try:
            self._own.stop()
        except KeyboardInterrupt as error:
            interrupt = error
        except Exception as error:
            self._note(f"this process was not recorded: {type(error).__name__}: {error}")
            return None
        try:
            if self._client.status == "running":
                pings = self._client.sync(pings_of_scheduler, self._client.scheduler)
        except KeyboardInterrupt as error:
            interrupt = error
        own, found = self._own.recording, kept(self._pings, pings)
        processes = table_of_rows("processes", [{**row, "worker": row["worker"] or "client"}
                                                for row in own.rows("processes")])
        whole = Recording({**{table: own.arrow(table) for table in TABLES}, "processes": processes},
                          {**own.metadata, **({"pings": found} if found else {})})
        return insist(lambda: save(whole, path, paths=True)) or interrupt

    def _gather(self, gathering: _Gathering) -> BaseException | None:
        """Stop the workers and fetch their files; return what interrupted that."""
        try:
            if self._client.status == "running":
                gathering.run()
            else:
                self._note(f"the client was {self._client.status} before the recording ended, and its workers stopped "
                           "then: there is what this machine has of them")
                gathering.run_here(self._seen)
        except KeyboardInterrupt as error:
            gathering.note_interrupt()
            return error
        except Exception as error:  # the cluster has gone
            self._note(f"not all workers' recordings were fetched: {type(error).__name__}: {error}")
        return None

    def _merged(self, files: Sequence[Path]) -> tuple[Recording, BaseException | None]:
        """Return one recording of all files, and what interrupted that."""
        name = self.name or ""
        empty = build(RawRecording(metadata={"name": name, "schema_version": SCHEMA_VERSION, **environment()}))
        if not files:
            return empty, None
        try:
            found = gather(files, name=name)
        except RecordingFileError as error:
            self._note(str(error))
            return empty, None
        return found.recording, found.interrupt


class _Worker(NamedTuple):
    """A worker that there was while the cluster was recorded."""

    address: str
    name: str
    host: str
    nanny: str
    folder: str
    has_gone: bool


class _Gathering:
    """Stops the workers, fetches their files into a folder, and removes them where they were.

    Attributes
    ----------
    files
        What was fetched.
    notes
        What is to be said of workers, as rows of health.
    """

    def __init__(self, client: Any, recording: str, target: Path, *, skips_own: bool) -> None:
        self.files: list[Path] = []
        self.notes: list[Row] = []
        self._client = client
        self._recording = recording
        self._target = target
        self._skips_own = skips_own
        self._is_cancelled = False
        self._has_ended = threading.Event()
        #: What was fetched from where: an address, or this machine where that is empty, and a folder.
        self._fetched: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        #: What is not to be fetched: it was, or it is this process's own.
        self._taken: set[str] = set()
        #: Workers whose recordings were not fetched yet, with their folders.
        self._waiting: dict[str, str] = {}
        #: How many recordings there should be of workers of a name, and why one of them may not be there.
        self._expected: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        #: The workers that are threads of one process.
        self._together: defaultdict[str, list[str]] = defaultdict(list)

    def run(self) -> None:
        """Stop the workers and fetch what they have, and what others left on their hosts."""
        state = _read(self._client.run_on_scheduler(sent.state_of_scheduler(), ending=self._recording))
        workers = self._workers(state.get("seen") or {})
        shown, done = bar("fetching recordings"), count(1)

        def tell() -> None:
            shown(next(done) / len(workers), "")

        try:
            self._client.sync(self._all, workers, tell)
        except KeyboardInterrupt:
            self._is_cancelled = True
            self._has_ended.wait(_PATIENCE_S)  # it is cancelled; what it fetches now nobody would remove
            raise
        finally:
            shown(1.0, "")

    def run_here(self, seen: Mapping[str, Row]) -> None:
        """Fetch what this machine has, without the cluster."""
        workers = [worker._replace(has_gone=True) for worker in self._workers(seen)]
        self._expected.update(worker.name for worker in workers)
        asyncio.run(self._here(workers))

    def remove_fetched(self) -> None:
        """Remove what was fetched where it was."""
        async def remove_there() -> None:
            await asyncio.gather(*(self._remove(address, folder) for address, folder in list(self._fetched) if address))

        for address, folder in list(self._fetched):
            if not address:
                try:
                    remove(Path(folder), self._fetched.pop((address, folder)))
                except (OSError, KernelScopeError) as error:
                    self.notes.append(_note(f"{folder} was not removed: {error}"))
        if self._fetched:
            self._client.sync(remove_there)

    def missing(self, recording: Recording) -> list[Row]:
        """Return what is to be said of workers of which nothing was found."""
        there = Counter(str(row["worker"]) for row in recording.rows("processes"))
        inside = {name for names in self._together.values() for name in names[1:]}
        return [_note(f"nothing was found of what worker {name} recorded: "
                      f"{self._reasons.get(name, 'it has gone, and nobody on its host has it')}")
                for name, count in self._expected.items()
                if count > there[name] and name not in inside and name not in self._waiting]

    def note_interrupt(self) -> None:
        """Say what was not fetched, and where it is."""
        names, folders = sorted(self._waiting, key=by_numbers), sorted(set(self._waiting.values()))
        self.notes.append(_note(
            "interrupted: " + (f"the recordings of {counted(len(names), 'worker')} were not fetched "
                               f"({listed(names, 5)}), and are on their hosts in {listed(folders, 5)}" if names else
                               "what workers recorded that have gone was not looked for"),
            "kernelscope merge FOLDER makes a recording of them"))

    def _workers(self, seen: Mapping[str, Row]) -> list[_Worker]:
        found = [_Worker(address, str(row["name"]), str(row["host"]), row["nanny"] or "",
                         str(folder_of(row["local_directory"], self._recording)), bool(row["gone"]))
                 for address, row in seen.items()]
        self._waiting = {worker.name: worker.folder for worker in found}
        return found

    async def _all(self, workers: Sequence[_Worker], tell: Callable[[], None]) -> None:
        try:
            self._asking, self._fetching = asyncio.Semaphore(_ASKED_AT_ONCE), asyncio.Semaphore(_AT_ONCE)
            if self._is_cancelled:
                return
            await asyncio.gather(*(self._one(worker, tell) for worker in workers))
            hosts: defaultdict[str, list[_Worker]] = defaultdict(list)
            for worker in workers:
                hosts[worker.host].append(worker)
            await asyncio.gather(*(self._rest(host, group) for host, group in hosts.items()))
            await self._here(workers)
        finally:
            self._has_ended.set()

    async def _one(self, worker: _Worker, tell: Callable[[], None]) -> None:
        """Stop a worker, and fetch its file."""
        async with self._asking:
            answer = KernelScopeError("it has gone") if worker.has_gone else await self._ask(
                worker.address, sent.end_on_worker())
        told = _read(answer)
        if not told or "token" not in told:  # it has gone, or closed, or was not recorded
            if told.get("problem"):
                self.notes.append(_note(f"worker {worker.name} was not recorded: {told['problem']}", _INSTALL))
                self._waiting.pop(worker.name, None)
            else:
                self._expected[worker.name] += 1
                if isinstance(answer, Exception) and not worker.has_gone:
                    self._reasons[worker.name] = f"{type(answer).__name__}: {answer}"
            tell()
            return
        self._say(worker, told)
        is_first = not self._together[str(told["token"])]
        self._together[str(told["token"])].append(worker.name)
        name = str(told["file"])
        if self._skips_own and told["token"] == token():
            self._taken.add(name)
        elif is_first:
            self._expected[str(told["workers"][0])] += 1
            if name:
                await self._fetch(worker.address, str(told["folder"]), name)
        self._waiting.pop(worker.name, None)
        tell()

    async def _rest(self, host: str, workers: Sequence[_Worker]) -> None:
        """Fetch what workers left that have gone, from a worker or a nanny of their host."""
        folders = sorted({worker.folder for worker in workers})
        asked = [worker.address for worker in workers if not worker.has_gone]
        answer: Any = None
        for address in dict.fromkeys([*asked, *(worker.nanny for worker in workers if worker.nanny)]):
            answer = await self._ask(address, sent.list_on_host(), folders=folders)
            if isinstance(answer, bytes):
                for folder, names in _read(answer).items():
                    await asyncio.gather(*(self._fetch(address, folder, str(name)) for name in names
                                           if folder in folders and name not in self._taken))
                break
        else:
            if isinstance(answer, Exception):
                self.notes.append(_note(f"what workers left on {host} that have gone is not known: "
                                        f"{type(answer).__name__}: {answer}"))
            return
        for worker in workers:
            self._waiting.pop(worker.name, None)

    async def _here(self, workers: Sequence[_Worker]) -> None:
        """Fetch what is on this machine, and was not fetched."""
        for folder in sorted({worker.folder for worker in workers}):
            try:
                names = await asyncio.to_thread(left_in, Path(folder))
            except (OSError, KernelScopeError) as error:
                self.notes.append(_note(f"{folder} was not read: {error}"))
                continue
            for name in names:
                if name not in self._taken:
                    try:
                        self._keep("", folder, name, await asyncio.to_thread(content, Path(folder), name))
                    except (OSError, KernelScopeError) as error:
                        self.notes.append(_note(f"{name} in {folder} was not read: {error}"))

    async def _ask(self, address: str, function: Any, **given: Any) -> Any:
        """What the function returns at an address: an exception where it raised, or nobody is there."""
        answers: dict[str, Any] = await self._client.run(function, workers=[address], on_error="return", **given)
        return answers.get(address, KernelScopeError(f"there is no answer from {address}"))

    async def _fetch(self, address: str, folder: str, name: str) -> None:
        self._taken.add(name)
        async with self._fetching:
            answer = await self._ask(address, sent.fetch_on_host(), folder=folder, name=name)
        if isinstance(answer, bytes):
            self._keep(address, folder, name, answer)
        else:
            self.notes.append(_note(f"{name} in {folder} was not fetched from {address}: "
                                    f"{type(answer).__name__}: {answer}"))

    def _keep(self, address: str, folder: str, name: str, found: bytes) -> None:
        path = self._target / re.sub(r"[^\w.-]", "_", f"{name.removesuffix('.kscope')}.kscope")
        path.write_bytes(found)
        self.files.append(path)
        self._taken.add(name)
        self._fetched[address, folder].append(name)

    async def _remove(self, address: str, folder: str) -> None:
        answer = await self._ask(address, sent.remove_on_host(), folder=folder, names=self._fetched[address, folder])
        if isinstance(answer, Exception):
            self.notes.append(_note(f"{folder} was not removed on {address}: {type(answer).__name__}: {answer}"))
        del self._fetched[address, folder]

    def _say(self, worker: _Worker, told: Mapping[str, Any]) -> None:
        """Say what is odd with a worker that was recorded."""
        if told.get("problem"):
            self.notes.append(_note(f"worker {worker.name} did not finish its recording: {told['problem']}"))
        if told.get("version") != __version__:
            self.notes.append(_note(f"worker {worker.name} records with kernelscope {told.get('version')}, and this "
                                    f"client has {__version__}", _INSTALL))
        if told.get("clock"):
            self.notes.append(_note(f"worker {worker.name}: {told['clock']}"))
        names = cast("list[str]", told["workers"])
        if len(names) > 1 and not self._together[str(told["token"])]:
            self.notes.append(_note(f"workers {listed(sorted(names))} are threads of one process, and so one process "
                                    "of this recording", status="ok"))


def _read(answer: Any) -> dict[str, Any]:
    """What a worker's or the scheduler's bytes say; nothing where they are no JSON object."""
    try:
        found = json.loads(answer)
    except (TypeError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _check(client: Any, options: RecordingOptions) -> None:
    """Refuse what is no client, or an asynchronous one, and options that are not for workers."""
    if not hasattr(client, "register_plugin") or not hasattr(client, "run_on_scheduler"):
        raise TypeError(f"{client!r} is no distributed.Client: give the cluster's client")
    if client.asynchronous:
        raise ValueError("this client is asynchronous, and workers are recorded through one that is not: "
                         "Client(address) in the same process does")
    for name in _NOT_SENT:
        if getattr(options, name):
            raise ValueError(f"{name} {getattr(options, name)!r} is not for a cluster: each worker keeps a journal, "
                             "and does not record its child processes")


def _note(message: str, fix: str | None = None, *, status: str = "degraded") -> Row:
    return {"probe": "dask", "status": status, "message": message, "fix": fix}
