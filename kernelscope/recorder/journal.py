"""The journal of a recording under way: its folder, its metadata, and the rows as they are made.

The launches are in the file ``slots`` beside them, which the hooks in C write to. None of this is on
the path of a launch whose kernel, launch configuration and thread were seen before. Where the disk does not allow it,
``health`` says so once, and recording goes on in memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import secrets
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kernelscope.clock import Clock
from kernelscope.native import journal as native_journal
from kernelscope.native.log import LaunchLog, from_signal_handler
from kernelscope.private_folders import why_not_own
from kernelscope.probes.sink import Interner, Sink
from kernelscope.recorder.options import RecordingOptions

Row = dict[str, Any]

_INTERNED = ("devices", "dispatchers", "specializations", "configurations", "targets", "lines", "stacks", "sites",
             "range_labels")
_LISTED = ("compilations", "passes", "occupancies", "builds", "health")
_TABLES = ("threads", *_INTERNED, *_LISTED)
#: What probes fill in later: registers and sizes when a recorder stops.
_CHANGING = ("devices", "dispatchers", "specializations", "configurations", "compilations")
#: Columns that a notebook's cell has its own name in.
_NAMES = {"dispatchers": "filename", "lines": "file"}
#: NVTX events a record.
_RANGES_AT_ONCE = 1024
#: Garbage collections a record, of six numbers each.
_COLLECTIONS_AT_ONCE = 1024
_TRIES = 16
_REASONS = {
    errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only", errno.EACCES: "it may not be written",
    errno.EPERM: "it may not be written", errno.ENOTDIR: "it is, or lies below, a file that is no folder",
    errno.EEXIST: "it is, or lies below, a file that is no folder",
}


class Journal:
    """The journal of one recording session; it writes nothing in a child that the process forks.

    Parameters
    ----------
    where : str, Path or bool, optional
        The folder in which it makes its own, as another recording does beside it; without it, and for True, the default
        folder. `make` makes it.

    Attributes
    ----------
    folder : Path
        Its own folder, which only this user can read, once it is made.
    slots : Path
        Where launches are written.
    health : dict or None
        What is wrong, as a row of health.
    """

    _file: io.FileIO | None = None

    def __init__(self, where: bool | str | Path | None = None) -> None:
        self._process = os.getpid()
        self._where = None if isinstance(where, bool) else where
        self.health: Row | None = None
        self.folder = self.slots = Path()
        self._is_made = False
        self._is_torn = False
        #: Bytes of the rows that are written.
        self._size = 0
        self._sink: Sink | None = None
        self._shown: Callable[[str | None], str | None] = lambda path: path
        #: How many rows of each table are written, and the checksums of those that may change.
        self._written: dict[str, int] = {}
        self._sums: dict[str, list[int]] = {name: [] for name in _CHANGING}

    def __del__(self) -> None:
        """Close the file of rows, of a recording that was never stopped."""
        if self._file is not None:
            self._file.close()

    def make(self) -> Journal:
        """Make the folder under a unique name, so that others beside it are left alone, and begin; return self.

        Raises
        ------
        OSError
            It cannot be made there, or somebody else could write there; nothing is left behind.
        """
        base = native_journal.default_folder() if self._where is None else Path(self._where).expanduser().absolute()
        try:
            base.parent.mkdir(parents=True, exist_ok=True)
            base.mkdir(mode=0o700, exist_ok=True)
            reason = why_not_own(base)
            if reason is not None:
                raise PermissionError(f"{reason}, and journals go only into a folder that is yours and to which nobody "
                                      "else can write")
            moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
            for remaining in reversed(range(_TRIES)):
                self.folder = base / f"{moment}-{os.getpid()}-{secrets.token_hex(2)}"
                try:
                    self._is_made = True  # before: a signal handler may raise after it
                    os.mkdir(self.folder, 0o700)
                    break
                except FileExistsError:
                    self._is_made = False
                    if not remaining:
                        raise
            self.slots = self.folder / native_journal.SLOTS
            # C from the opening on, and closed with the object: a signal handler that raises leaves no descriptor.
            self._file = io.FileIO(
                os.fspath(self.folder / native_journal.ROWS), "x", opener=partial(os.open, mode=0o600))
            fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)
            _open.add(self)
        except BaseException:
            self.close()
            raise
        return self

    @property
    def where(self) -> Path:
        """Return the folder in which the journal makes its own folder, as far as it is known."""
        try:
            return native_journal.default_folder() if self._where is None else Path(self._where)
        except RuntimeError:
            return Path("~")

    @property
    def is_on(self) -> bool:
        """Return whether rows are written."""
        return self._file is not None and self._process == os.getpid()

    def begin(self, name: str | None, metadata: Mapping[str, Any]) -> None:
        """Write the journal's metadata."""
        if not self.is_on:
            return
        header = {
            "format": native_journal.FORMAT, "pid": self._process, "boot_id": native_journal.boot_id(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"), "name": name, "cwd": _cwd(),
            "metadata": metadata,
        }
        part = self.folder / native_journal.PART
        with self._guarded():
            with open(part, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
                json.dump(header, file, default=_plain)
            os.replace(part, self.folder / native_journal.FACTS)

    def follow(self, sink: Sink, shown: Callable[[str | None], str | None] = lambda path: path) -> None:
        """Write the rows that the sink has, and from now on those that come.

        Parameters
        ----------
        sink : Sink
            The session's.
        shown : callable
            What to write for the file of a kernel or a line.
        """
        self._sink, self._shown = sink, shown
        for table in set(_INTERNED) - {"lines", "stacks"}:  # the site that names them comes right after
            interner: Interner = getattr(sink, table)
            interner.listener = self.flush
        sink.flush = self.flush
        self.flush()

    def flush(self, *, anew: bool = False) -> None:
        """Write what is new since the last time; with `anew` also the rows that have changed."""
        sink = self._sink  # it may be taken away meanwhile: by a disk that fails, or in another thread
        if sink is None or not self.is_on:
            return
        with sink.lock:
            for table in _TABLES:
                if len(_held(sink, table)) > self._written.get(table, 0):  # mostly not, and each of Dask's tasks asks
                    self._catch_up(table)
            self._add_ranges(sink.ranges)
            self._add_collections(sink)
            self.look()
            if anew:
                for table in _CHANGING:
                    self._write_changed(table)

    def cell(self, number: int, row: Row) -> None:
        """Write a cell that has begun, or that has ended, and what else is new."""
        with self._guarded():
            self._write_row("cells", number, row)
        self.flush()

    def close(self) -> None:
        """End it: the recording has all of it, and its folder is removed."""
        if self._process == os.getpid() and self._is_made:
            self.let_go()
            # Its own files and no others: whatever else is there stays, and so does the folder then.
            with contextlib.suppress(OSError):
                for name in native_journal.FILES:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.folder / name)
                os.rmdir(self.folder)

    def let_go(self) -> None:
        """Write no more; what was written stays."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.flush = lambda: None
            for table in _INTERNED:
                getattr(sink, table).listener = None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        _open.discard(self)

    def look(self, lost: int = 0) -> None:
        """Report once that the journal grows no more: the disk is full, or somebody has taken it away.

        Parameters
        ----------
        lost : int
            How many launches are known to be lost with it.
        """
        sink = self._sink
        if sink is not None and self.is_on:
            ring = sink.log.ring
            failure, harm = ring.failure, ring.harm or self._harm()
            if harm is not None:
                self.let_go()
                self.health = _harmed(harm, self.folder)
                self._is_torn = harm == "truncated"
                self._is_made = self._is_made and harm != "moved"  # it is somebody's now
                sink.health.append(self.health)
            elif failure and self.health is None:
                self.health = trouble(OSError(failure, os.strerror(failure)), self.folder, "the journal grows no more")
                sink.health.append(self.health)
        if self._is_torn and self.health is not None and lost:
            message = _harmed("truncated", self.folder)["message"]
            self.health |= {"dropped": lost, "message": f"{message}; {lost:,} launches were lost with it"}

    def _harm(self) -> str | None:
        """Return how somebody else has changed the rows or the folder, if so."""
        if self._file is None:
            return None
        try:
            own = os.fstat(self._file.fileno())
            if own.st_size < self._size:
                return "rows"
            if not own.st_nlink:
                return "deleted"
            return None if os.path.samestat(own, os.stat(self.folder / native_journal.ROWS)) else "moved"
        except FileNotFoundError:
            return "moved"
        except OSError:  # the file system fails: the next row's write says so
            return None

    def _catch_up(self, table: str) -> None:
        """Write the rows of one table that are new, under the sink's lock."""
        sink = self._sink
        if sink is None or not self.is_on:
            return
        first = self._written.get(table, 0)
        with self._guarded():
            for number, row in enumerate(_rows(sink, table, first), first):
                self._write_row(table, number, row)
                # A signal handler may have written more meanwhile.
                self._written[table] = max(self._written.get(table, 0), number + 1)

    def _write_changed(self, table: str) -> None:
        sink = self._sink
        if sink is None or not self.is_on:
            return
        with self._guarded():
            sums = self._sums[table]
            for number, row in enumerate(_rows(sink, table, 0)[:len(sums)]):
                if zlib.crc32(self._payload(table, number, row)) != sums[number]:
                    self._write_row(table, number, row)

    def _add_ranges(self, events: Sequence[float]) -> None:
        count, written = len(events) // 4 * 4, self._written.get("ranges", 0)
        if count <= written or not self.is_on:
            return
        with self._guarded():
            for first in range(written, count, _RANGES_AT_ONCE * 4):
                last = min(first + _RANGES_AT_ONCE * 4, count)
                self._write(json.dumps({"t": "ranges", "v": events[first:last]}).encode("ascii"))
                self._written["ranges"] = last

    def _add_collections(self, sink: Sink) -> None:
        if not self.is_on or sink.collections is None:
            return
        with self._guarded():
            first = self._written.get("collections", 0)
            values = memoryview(sink.collections.rows(first)).cast("q").tolist()
            for at in range(0, len(values), _COLLECTIONS_AT_ONCE * 6):
                part = values[at:at + _COLLECTIONS_AT_ONCE * 6]
                self._write(json.dumps({"t": "collections", "v": part}).encode("ascii"))
                self._written["collections"] = first + (at + len(part)) // 6

    def _write_row(self, table: str, number: int, row: Row) -> None:
        payload = self._payload(table, number, row)
        if len(payload) > native_journal.MAX_ROW_BYTES:  # a text of that length is left out
            payload = self._payload(table, number, {name: value for name, value in row.items()
                                                    if not isinstance(value, str) or len(value) < 1 << 16})
        self._write(payload)
        if table in self._sums:
            sums = self._sums[table]
            sums += [0] * (number + 1 - len(sums))
            sums[number] = zlib.crc32(payload)

    def _payload(self, table: str, number: int, row: Row) -> bytes:
        columns = {name: value for name, value in row.items() if not name.startswith("_")}
        if table in _NAMES:
            columns[_NAMES[table]] = self._shown(columns.get(_NAMES[table]))
        return json.dumps({"t": table, "i": number, "r": columns}, default=_plain).encode("ascii")

    def _write(self, payload: bytes) -> None:
        """Append one record with one call, so that a reader finds all of it or knows that it is torn."""
        file = self._file
        if file is None or self._process != os.getpid():
            return
        record = native_journal.ROW.pack(native_journal.ROW_MAGIC, len(payload), zlib.crc32(payload), 0) + payload
        if os.write(file.fileno(), record) < len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(record)

    @contextlib.contextmanager
    def _guarded(self) -> Any:
        """Switch the journal off where it cannot be written, and say so once; what was written stays."""
        try:
            yield
        except Exception as error:
            if from_signal_handler(error):
                raise
            sink = self._sink
            self.let_go()
            self.health = trouble(error, self.folder, "the journal grows no more")
            if sink is not None:
                sink.health.append(self.health)


def keep(options: RecordingOptions, clock: Clock, journal: Journal) -> tuple[LaunchLog, list[Row]]:
    """Return the log of a session, and as health why its journal is not kept; a requested one is made."""
    asked = clock, options.detail, options.mode, options.capacity
    if options.journal is None:
        return LaunchLog(*asked), []
    problem = make_journal(journal)
    if problem is not None:
        return LaunchLog(*asked), [problem]
    try:
        return LaunchLog(*asked, journal.slots), []
    except OSError as error:
        if from_signal_handler(error):
            raise
        journal.close()
        return LaunchLog(*asked), [trouble(error, journal.folder.parent)]


def make_journal(journal: Journal) -> Row | None:
    """Make a journal; where there can be none, return why as a row of health."""
    try:
        journal.make()
        return None
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in a name; RuntimeError: no home folder
        if from_signal_handler(error):
            raise
        return trouble(error, journal.where)


def trouble(error: Exception, folder: Path, what: str = "no journal is kept") -> Row:
    """Return a health row for a journal that cannot be kept."""
    reason = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        reason = _REASONS.get(error.errno, error.strerror or reason)
    return {"probe": "journal", "status": "degraded",
            "message": f"{what} in {folder}: {reason}; recording goes on in memory, and is lost if the "
                       "process dies",
            "fix": "free space there, or chmod go-w it, or choose another folder, or leave the journal out"}


def _harmed(harm: str, folder: Path) -> Row:
    """Return a health row for a journal that somebody else has taken away."""
    what = {"deleted": "it was deleted", "moved": "it was moved, and stays where it is now",
            "rows": "its file of rows was truncated", "truncated": "its file of launches was truncated"}[harm]
    still = "" if harm == "truncated" else "; this recording has all of its launches"
    return {"probe": "journal", "status": "degraded",
            "message": f"the journal in {folder} is gone, {what}: if the process dies, it cannot be recovered from "
                       f"there{still}",
            "fix": "leave a journal alone while it is being written"}


def _rows(sink: Sink, table: str, first: int) -> Sequence[Row]:
    rows = _held(sink, table)[first:]
    return [{"ident": state.ident, "name": state.name} for state in rows] if table == "threads" else rows


def _held(sink: Sink, table: str) -> Sequence[Any]:
    rows: Any = getattr(sink, table)
    return rows.rows if isinstance(rows, Interner) else rows


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _plain(value: Any) -> int | None:
    """Return a NumPy integer as an int; None for any other value."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        return None


#: Those of this process.
_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Stop writing to the journals in a forked child: they are the parent's."""
    for journal in list(_open):
        journal.let_go()


os.register_at_fork(after_in_child=_forget_in_child)
