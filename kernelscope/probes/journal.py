"""Keeps a journal while a recording is under way: the folder, what it is of, and the rows as they come.

The launches are in the file ``slots`` beside them, which the native recorder writes by itself. Nothing of this is on
the path of a launch whose kernel, launch configuration and thread were seen before. Where the disk does not allow it,
that is said once in ``health``, and recording goes on in memory.
"""

from __future__ import annotations

import contextlib
import errno
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

from kernelscope import _native
from kernelscope import journal_layout as layout
from kernelscope.clock import Clock
from kernelscope.probes.launch_log import LaunchLog
from kernelscope.probes.make_log import Keeping, chosen, make_log
from kernelscope.probes.sink import Interner, Sink

Row = dict[str, Any]

_INTERNED = ("devices", "dispatchers", "specializations", "configurations", "targets", "range_labels")
_LISTED = ("compilations", "passes", "occupancies", "builds", "health")
#: What probes fill in later: registers and sizes when a recorder stops.
_CHANGING = ("devices", "dispatchers", "specializations", "configurations", "compilations")
#: NVTX events a record.
_RANGES_AT_ONCE = 1024
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
    base : str or Path, optional
        The folder in which it makes its own, as another recording does beside it; without it the default folder.

    Attributes
    ----------
    folder : Path
        Its own folder, which only this user can read.
    slots : Path
        Where the native recorder writes launches.
    health : dict or None
        What is wrong, as a row of health.

    Raises
    ------
    OSError
        It cannot be made there; nothing is left behind.
    """

    def __init__(self, base: str | Path | None = None) -> None:
        self._process = os.getpid()
        self.health: Row | None = None
        self.folder = _make_folder(layout.default_folder() if base is None else Path(base).expanduser().absolute())
        self.slots = self.folder / layout.SLOTS
        self._sink: Sink | None = None
        self._shown: Callable[[str | None], str | None] = lambda path: path
        #: How many rows of each table are written, and the checksums of those that may change.
        self._written: dict[str, int] = {}
        self._sums: dict[str, list[int]] = {name: [] for name in _CHANGING}
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.folder / layout.ROWS, flags, 0o600)
        except BaseException:
            os.rmdir(self.folder)
            raise
        _open.add(self)

    @property
    def is_on(self) -> bool:
        """Whether rows are written."""
        return self._file >= 0 and self._process == os.getpid()

    def begin(self, name: str | None, metadata: Mapping[str, Any]) -> None:
        """Write down what the journal is of."""
        if not self.is_on:
            return
        facts = {
            "format": layout.FORMAT, "pid": self._process, "boot_id": layout.boot_id(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"), "name": name, "cwd": _cwd(),
            "metadata": metadata,
        }
        part = self.folder / layout.PART
        with self._guarded():
            with open(part, "x", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
                json.dump(facts, file, default=_plain)
            os.replace(part, self.folder / layout.FACTS)

    def follow(self, sink: Sink, shown: Callable[[str | None], str | None] = lambda path: path) -> None:
        """Write the rows that the sink has, and from now on those that come.

        Parameters
        ----------
        sink : Sink
            The session's.
        shown : callable
            What to write for the file that defines a kernel.
        """
        self._sink, self._shown = sink, shown
        for table in _INTERNED:
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
            for table in ("threads", *_INTERNED, *_LISTED):
                self._catch_up(table)
            self._add_ranges(sink.ranges)
            self._look_at_slots(sink)
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
        if self._process == os.getpid():
            self._let_go()
            # Its own files and no others: whatever else is there stays, and so does the folder then.
            with contextlib.suppress(OSError):
                for name in layout.FILES:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.folder / name)
                os.rmdir(self.folder)

    def _let_go(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.flush = lambda: None
            for table in _INTERNED:
                getattr(sink, table).listener = None
        file, self._file = self._file, -1
        if file >= 0:
            with contextlib.suppress(OSError):
                os.close(file)
        _open.discard(self)

    def _look_at_slots(self, sink: Sink) -> None:
        """Say once that launches go on in memory, where the disk had no room for more of them."""
        failure: int = getattr(getattr(sink.log, "ring", None), "failure", 0)
        if failure and self.health is None:
            self.health = trouble(OSError(failure, os.strerror(failure)), self.folder, "the journal grows no more")
            sink.health.append(self.health)

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
        if not self.is_on:
            return
        with self._guarded():
            count = len(events) // 4 * 4
            for first in range(self._written.get("ranges", 0), count, _RANGES_AT_ONCE * 4):
                last = min(first + _RANGES_AT_ONCE * 4, count)
                self._write(json.dumps({"t": "ranges", "v": events[first:last]}).encode("ascii"))
                self._written["ranges"] = last

    def _write_row(self, table: str, number: int, row: Row) -> None:
        payload = self._payload(table, number, row)
        if len(payload) > layout.MAX_ROW_BYTES:  # a text of that length is left out
            payload = self._payload(table, number, {name: value for name, value in row.items()
                                                    if not isinstance(value, str) or len(value) < 1 << 16})
        self._write(payload)
        if table in self._sums:
            sums = self._sums[table]
            sums += [0] * (number + 1 - len(sums))
            sums[number] = zlib.crc32(payload)

    def _payload(self, table: str, number: int, row: Row) -> bytes:
        kept = {name: value for name, value in row.items() if not name.startswith("_")}
        if table == "dispatchers":
            kept["filename"] = self._shown(kept.get("filename"))
        return json.dumps({"t": table, "i": number, "r": kept}, default=_plain).encode("ascii")

    def _write(self, payload: bytes) -> None:
        """Append one record with one call, so that a reader finds all of it or knows that it is torn."""
        if not self.is_on:
            return
        record = layout.ROW.pack(layout.ROW_MAGIC, len(payload), zlib.crc32(payload), 0) + payload
        if os.write(self._file, record) < len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextlib.contextmanager
    def _guarded(self) -> Any:
        """Switch the journal off where it cannot be written, and say so once; what was written stays."""
        try:
            yield
        except Exception as error:
            sink = self._sink
            self._let_go()
            self.health = trouble(error, self.folder, "the journal grows no more")
            if sink is not None:
                sink.health.append(self.health)


def keep(keeping: Keeping, detail: str, clock: Clock) -> tuple[LaunchLog, Journal | None, list[Row]]:
    """Return the log of a session and its journal, where one is asked for and can be kept; else why not, as health.

    Raises
    ------
    KernelScopeError
        The recorder that is asked for is not there: see `make_log`.
    """
    asked = keeping.backend, keeping.mode, keeping.capacity, detail, clock
    if keeping.journal is None:
        return make_log(*asked), None, []
    if chosen(keeping.backend) != "native":
        why = _native.why_missing()
        return make_log(*asked), None, [{
            "probe": "journal", "status": "degraded",
            "message": "no journal is kept: that takes the native recorder, and the Python one records; recording goes "
                       "on in memory, and is lost if the process dies",
            "fix": f"{why}" if why else "record with the native recorder, or leave the journal out"}]
    journal, problem = open_journal(keeping.journal)
    if journal is not None:
        try:
            return make_log(*asked, journal.slots), journal, []
        except OSError as error:
            journal.close()
            problem = trouble(error, journal.folder.parent)
        except BaseException:
            journal.close()
            raise
    return make_log(*asked), None, [] if problem is None else [problem]


def open_journal(where: bool | str | Path) -> tuple[Journal | None, Row | None]:
    """Return a journal in a folder, in the default one for True; where there can be none, why as a row of health."""
    base = None if isinstance(where, bool) else where
    try:
        return Journal(base), None
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in a name; RuntimeError: no home folder
        try:
            folder = layout.default_folder() if base is None else Path(base)
        except RuntimeError:
            folder = Path("~")
        return None, trouble(error, folder)


def trouble(error: Exception, folder: Path, what: str = "no journal is kept") -> Row:
    """Return what to say of a journal that cannot be kept, as a row of health."""
    reason = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        reason = _REASONS.get(error.errno, error.strerror or reason)
    return {"probe": "journal", "status": "degraded",
            "message": f"{what} in {folder}: {reason}; recording goes on in memory, and is lost if the "
                       "process dies",
            "fix": "free space there or choose another folder, or leave the journal out"}


def _rows(sink: Sink, table: str, first: int) -> Sequence[Row]:
    if table == "threads":
        return [{"ident": state.ident, "name": state.name} for state in sink.threads[first:]]
    held: Any = getattr(sink, table)
    return held.rows[first:] if isinstance(held, Interner) else held[first:]


def _make_folder(base: Path) -> Path:
    """A new folder of its own name, so that what is in `base` is left alone."""
    base.parent.mkdir(parents=True, exist_ok=True)
    base.mkdir(mode=0o700, exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for remaining in reversed(range(_TRIES)):
        folder = base / f"{moment}-{os.getpid()}-{secrets.token_hex(2)}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if not remaining:
                raise
        else:
            return folder
    raise AssertionError


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _plain(value: Any) -> int | None:
    """A number of NumPy as Python's; of what no JSON holds nothing is kept."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        return None


#: Those of this process.
_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _forget_in_child() -> None:
    """In a child that was forked: the journals are its parent's."""
    for journal in list(_open):
        journal._let_go()


os.register_at_fork(after_in_child=_forget_in_child)
