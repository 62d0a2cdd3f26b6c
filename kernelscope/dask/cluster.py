"""The client's side of a recording of a Dask cluster: begin on all workers, end, fetch their files, merge."""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from kernelscope import __version__
from kernelscope.dask import sent
from kernelscope.dask.worker import TOKEN, content, folder_of, left_in, remove
from kernelscope.errors import KernelScopeError, RecorderStateError
from kernelscope.probes.base import insist
from kernelscope.recorder.children import gather
from kernelscope.recorder.environment import environment
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder, recorder_of
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.units import counted, listed

Row = dict[str, Any]

#: Of `RecordingOptions`: those that are not a worker's.
_NOT_SENT = ("journal", "children")
#: Files that are under way at a time, and in memory.
_AT_ONCE = 8


class ClusterRecorder:
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
        self._recording: Recording | None = None
        #: The workers that there were at the start.
        self._seen: dict[str, Row] = {}

    @property
    def recording(self) -> Recording:
        """Return the finished recording; raise `RecorderStateError` before `stop`."""
        if self._recording is None:
            raise RecorderStateError("the recording is not finished: it is there after stop(), or after the block")
        return self._recording

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
        if self._is_recording or self._recording is not None:
            raise RecorderStateError("this recorder was started before: make a new one for another recording")
        client = self._client
        try:
            client.register_plugin(sent.scheduler_plugin(self._id, self.name, client.id), name=sent.NAME)
            held = self._state()
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
        own: list[Recording] = []
        with tempfile.TemporaryDirectory(prefix="kernelscope-") as made:
            gathering = _Gathering(self._client, self._id, Path(made), skip_own=self._own is not None)
            interrupt: BaseException | None = None
            try:
                try:
                    if self._own is not None:
                        own.append(self._own.stop())
                finally:
                    if self._client.status == "running":
                        gathering.run(self._state())
                    else:
                        self._note(f"the client was {self._client.status} before the recording ended, and its workers "
                                   "stopped then: there is what this machine has of them")
                        gathering.run_here(self._seen)
            except KeyboardInterrupt as error:
                interrupt = error
                gathering.note_interrupt()
            except Exception as error:  # the cluster has gone
                self._note(f"not all workers' recordings were fetched: {type(error).__name__}: {error}")
            interrupt = insist(self._withdraw) or interrupt
            gathered = gather(gathering.files)
        self._notes += [*gathering.notes, *gathered.notes]
        self._notes += gathering.missing(gathered.recordings)
        self._recording = self._merged([*own, *gathered.recordings])
        interrupt = interrupt or gathered.interrupt
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

    def _state(self) -> dict[str, Any]:
        return _read(self._client.run_on_scheduler(sent.state_of_scheduler()))

    def _withdraw(self) -> None:
        """Take the plugins out; workers that still record stop then, and leave their files on their hosts."""
        self._is_recording = False
        try:
            held = self._state()
        except Exception:
            return  # the cluster, or the client's connection, has gone, and with that the plugins
        if held.get("recording") == self._id:
            for remove_plugin in (self._client.unregister_worker_plugin, self._client.unregister_scheduler_plugin):
                with contextlib.suppress(Exception):  # a worker has died meanwhile
                    remove_plugin(sent.NAME)

    def _note(self, message: str) -> None:
        self._notes.append(_note(message))

    def _merged(self, recordings: Sequence[Recording]) -> Recording:
        """One recording of all; of different kinds, such as a dry run and others, those of the first kind."""
        kinds = Counter(recording.notice for recording in recordings)
        taken = list(recordings)
        if len(kinds) > 1:
            kind = kinds.most_common(1)[0][0]
            taken = [recording for recording in recordings if recording.notice == kind]
            self._note(f"{counted(len(recordings) - len(taken), 'worker was', 'workers were')} left out: dry runs or "
                       "simulators and recordings of a GPU do not compare")
        name = self.name or ""
        merged = merge(taken, name=name) if taken else build(RawRecording(metadata={
            "name": name, "schema_version": SCHEMA_VERSION, **environment()}))
        health = table_of_rows("health", [*merged.rows("health"), *self._notes])
        return Recording({**{table: merged.arrow(table) for table in TABLES}, "health": health}, merged.metadata)


@dataclass
class _Place:
    """Where a file can be had: at a worker or a nanny, or on this machine where `address` is empty."""

    address: str
    folder: Path
    names: list[str] = field(default_factory=list)


class _Gathering:
    """Stops the workers and fetches their files into a folder.

    Attributes
    ----------
    files
        What was fetched.
    notes
        What is to be said of workers, as rows of health.
    """

    def __init__(self, client: Any, recording: str, target: Path, *, skip_own: bool) -> None:
        self.files: list[Path] = []
        self.notes: list[Row] = []
        self._client = client
        self._recording = recording
        self._target = target
        self._skip_own = skip_own
        self._left: dict[str, _Place] = {}
        #: How many workers of each name have gone, and how many have just ended.
        self._gone: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        #: The file that each worker says it has written.
        self._written: dict[str, str] = {}

    def run(self, state: Mapping[str, Any]) -> None:
        """Stop, look what there is, fetch it, and remove it there."""
        seen = cast("dict[str, Row]", state.get("seen") or {})
        answers = self._run(sent.end_on_worker(), recording=self._recording)
        skipped = self._read_answers(answers, seen)
        places = self._places(answers, seen)
        self._look(places, skipped)
        self._fetch(places)

    def run_here(self, seen: Mapping[str, Row]) -> None:
        """Fetch what this machine has, without the cluster."""
        places = self._places({}, {address: {**row, "nanny": None} for address, row in seen.items()})
        self._look(places, set())
        self._fetch(places)

    def missing(self, recordings: Sequence[Recording]) -> list[Row]:
        """Return what is to be said of workers that have gone, and left nothing that was found."""
        there = Counter(row["worker"] for recording in recordings for row in recording.rows("processes"))
        return [_note(f"worker {name} has gone, and nothing of what it recorded was found on its host")
                for name, count in self._gone.items() if count > max(0, there[name] - self._ended[name])]

    def note_interrupt(self) -> None:
        """Say what was not fetched, and where it is."""
        where = sorted({str(place.folder) for place in self._left.values()})
        self.notes.append(_note(
            "interrupted: " + (f"{counted(len(self._left), 'recording of a worker was', 'recordings of workers were')} "
                               f"not fetched, and left on its host in {listed(where)}" if self._left else
                               "workers' recordings were not fetched, and left on their hosts"),
            "kernelscope merge FOLDER makes a recording of them"))

    def _run(self, function: Any, workers: list[str] | None = None, **given: Any) -> dict[str, Any]:
        """What the function returns by address: an exception where it raised, or the worker has gone."""
        return cast("dict[str, Any]", self._client.run(function, workers=workers, on_error="return", **given))

    def _read_answers(self, answers: Mapping[str, Any], seen: Mapping[str, Row]) -> set[str]:
        """Say what is odd with workers; return the files of this process, which is recorded otherwise."""
        own: set[str] = set()
        self._gone.update(str(row["name"]) for row in seen.values() if row["gone"])
        together: dict[str, list[str]] = {}
        for address, answer in answers.items():
            called = str(seen.get(address, {}).get("name", address))
            told = {"problem": f"{type(answer).__name__}: {answer}"} if isinstance(answer, Exception) else _read(answer)
            if told.get("problem"):
                self.notes.append(_note(f"worker {called} was not recorded: {told['problem']}",
                                        "install the client's version of kernelscope on every worker"))
            elif told.get("version") != __version__:
                self.notes.append(_note(f"worker {called} records with kernelscope {told.get('version')}, and this "
                                        f"client has {__version__}", "install the same version on every worker"))
            together.setdefault(str(told.get("token", address)), []).append(called)
            self._ended[called] += bool(told.get("file"))
            self._written[address] = str(told.get("file") or "")
            if self._skip_own and told.get("token") == TOKEN:
                own.add(str(told.get("file")))
        for workers in together.values():
            if len(workers) > 1:
                self.notes.append(_note(f"workers {listed(sorted(workers))} are threads of one process, and so one "
                                        "process of this recording", status="ok"))
        return own

    def _places(self, answers: Mapping[str, Any], seen: Mapping[str, Row]) -> list[_Place]:
        """Where to look: at workers that answer, at the nannies of those that have gone, and on this machine."""
        found: list[_Place] = []
        folders: set[Path] = set()
        for address, row in seen.items():
            folder = folder_of(row["local_directory"], self._recording)
            folders.add(folder)
            if isinstance(answers.get(address), bytes):
                found.append(_Place(address, folder))
            elif row["nanny"]:
                found.append(_Place(row["nanny"], folder))
        # Once each: several workers may have died under one nanny.
        once = {place.address: place for place in found}
        return [*once.values(), *(_Place("", folder) for folder in sorted(folders))]

    def _look(self, places: Sequence[_Place], skipped: set[str]) -> None:
        """Find out who has which files."""
        asked = {place.address: place for place in places if place.address}
        folders = {address: str(place.folder) for address, place in asked.items()}
        answers = self._run(sent.list_on_host(), workers=list(asked), folders=folders) if asked else {}
        for place in places:
            answer = answers.get(place.address)
            names = _read(answer, list) if isinstance(answer, bytes) else [] if place.address else left_in(place.folder)
            for name in filter(None, [self._written.get(place.address), *map(str, names)]):
                if name not in skipped and Path(name).name == name:
                    self._left.setdefault(name, place)

    def _fetch(self, places: Sequence[_Place]) -> None:
        """Fetch everything, and remove what was fetched where it was, also where a Ctrl-C ends the fetching."""
        folders = {place.address: str(place.folder) for place in places}
        try:
            with _progress(len(self._left)) as tell:
                self._fetch_all(folders, tell)
        finally:
            names = {place.address: place.names for place in places}
            asked = [address for address, fetched in names.items() if address and fetched]
            if asked:
                self._run(sent.remove_on_host(), workers=asked, folders=folders, names=names)
            for place in places:
                if not place.address:
                    remove(place.folder, place.names)

    def _fetch_all(self, folders: Mapping[str, str], tell: Callable[[], None]) -> None:
        while self._left:
            turn: dict[str, str] = {}
            for name, place in self._left.items():
                if place.address not in turn and len(turn) < _AT_ONCE:
                    turn[place.address] = name
            remote = [address for address in turn if address]
            answers = self._run(sent.fetch_on_host(), workers=remote, folders=folders, names=turn) if remote else {}
            for address, name in turn.items():
                place = self._left[name]
                answer = answers.get(address, b"") if address else _content(place.folder, name)
                if isinstance(answer, bytes) and answer:
                    path = self._target / f"{Path(name).stem}.kscope"
                    path.write_bytes(answer)
                    self.files.append(path)
                    place.names.append(name)
                else:
                    self.notes.append(_note(f"{name} in {place.folder} on {address or 'this machine'} was not fetched: "
                                            f"{answer or 'nobody there answers'}"))
                del self._left[name]
                tell()


def _content(folder: Path, name: str) -> bytes | Exception:
    try:
        return content(folder, name)
    except (OSError, KernelScopeError) as error:
        return error


def _read(answer: Any, kind: Any = dict) -> Any:
    """What a worker's or the scheduler's bytes say; nothing where they are not JSON of that kind."""
    try:
        found = json.loads(answer)
    except (TypeError, ValueError):
        return kind()
    return found if isinstance(found, kind) else kind()


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


@contextlib.contextmanager
def _progress(total: int) -> Generator[Callable[[], None]]:
    """A bar of tqdm's, where that is installed, shown if it takes more than a moment."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield lambda: None
        return
    with tqdm(total=total, desc="fetching recordings", unit="worker", leave=False, delay=0.5) as bar:
        def tell() -> None:
            bar.update()

        yield tell
