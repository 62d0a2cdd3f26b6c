"""Journals: finding what processes that died left behind, and making a `Recording` of it.

A journal is a folder in which the recorder writes each launch and each row as it happens. What is found there is
material and nothing more: each slot and each row is taken only where its own check confirms it, ids that lead nowhere
become "unknown", and everything that was skipped is said in ``health``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kernelscope import journal_layout as layout
from kernelscope.errors import JournalError, RecordingFileError
from kernelscope.recording.builder import RawRecording, build
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.journal_ids import with_known_ids
from kernelscope.recording.journal_rows import Row, RowFile, load_json, read_rows
from kernelscope.recording.journal_slots import Slots, read_slots
from kernelscope.recording.model import Recording
from kernelscope.schema import SCHEMA_VERSION, TABLES, UNFINISHED, UNKNOWN

#: A ``journal.json`` holds versions and names; a larger one was made to harm.
MAX_FACTS_BYTES = 4 << 20

_NO_SLOTS = Slots(mode=None, capacity=None, pid=0, launches={}, is_open=np.empty(0, bool), damaged=0, repeated=0,
                  missing=0, lost=0, notes=())


@dataclass(frozen=True)
class Journal:
    """A journal that was found.

    Attributes
    ----------
    folder : Path
        Where it is.
    is_live : bool
        Whether a process still writes to it.
    pid : int or None
        The process that made it.
    created : str or None
        When: ISO, in UTC.
    recording : str
        What its recording is called; an empty string where it was given no name.
    launches, unfinished, missing, lost : int
        Launches that returned; that had begun and not returned; that had begun and cannot be read; that mode ring or
        stop did not keep.
    kernels : tuple of str
        The kernels of the unfinished launches.
    cells : int
        Cells that had begun.
    size_bytes : int
        What its files take on the disk.
    problem : str or None
        Why it cannot be recovered.
    """

    folder: Path
    is_live: bool
    pid: int | None
    created: str | None
    recording: str
    launches: int
    unfinished: int
    missing: int
    lost: int
    kernels: tuple[str, ...]
    cells: int
    size_bytes: int
    problem: str | None = None

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.folder.name


def find_journals(base: str | Path | None = None) -> list[Journal]:
    """Return the journals in a folder, the oldest first.

    Parameters
    ----------
    base : str or Path, optional
        A folder of journals, or one journal; without it the folder that recordings use unless asked otherwise.

    Raises
    ------
    JournalError
        `base` was given and is no folder, or cannot be read.
    """
    folder = layout.default_folder() if base is None else Path(base).expanduser()
    try:
        if is_journal(folder):
            return [look(folder)]
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if base is None and isinstance(error, FileNotFoundError):
            return []
        raise JournalError(f"{folder} cannot be read: {error.strerror or error}") from None
    return [look(folder / name) for name in names if is_journal(folder / name)]


def is_journal(folder: Path) -> bool:
    """Return whether a folder has the files of a journal."""
    return any(_regular(folder / name) for name in (layout.FACTS, layout.SLOTS))


def look(folder: Path) -> Journal:
    """Return what a journal holds, in numbers."""
    facts, slots, rows, problem = _facts(folder), _NO_SLOTS, RowFile(), None
    try:
        _check_format(folder, facts)
        slots, rows = _slots(folder), read_rows(folder / layout.ROWS)
    except JournalError as error:
        problem = str(error)
    unfinished, pid = int(slots.is_open.sum()), _pid(folder, facts, slots)
    return Journal(
        folder=folder, is_live=not layout.is_free(folder, pid, _text(facts, "boot_id")), pid=pid,
        created=_text(facts, "created"), recording=_text(facts, "name") or "",
        launches=len(slots.is_open) - unfinished, unfinished=unfinished, missing=slots.missing, lost=slots.lost,
        kernels=_kernels(slots, rows), cells=len(rows.tables["cells"]), size_bytes=_size(folder), problem=problem)


def read_journal(folder: str | Path) -> Recording:
    """Return what a journal holds as a recording; the journal stays as it is.

    Launches that had begun and not returned have no end, and the error "unfinished". ``metadata["recovered"]`` says
    where it is from and what was not whole.

    Raises
    ------
    JournalError
        There is no journal there, it cannot be read, or it is of another version.
    """
    folder = Path(folder).expanduser()
    if not is_journal(folder):
        raise JournalError(f"{folder} is no journal: it has neither {layout.FACTS} nor {layout.SLOTS}")
    facts = _facts(folder)
    _check_format(folder, facts)
    slots, rows = _slots(folder), read_rows(folder / layout.ROWS)
    raw = _raw(folder, slots, rows, facts)
    try:
        recording = build(raw)
        check_tables({name: recording.arrow(name) for name in TABLES})
    # Checksums are right, and yet it contradicts itself: somebody made it so.
    except (RecordingFileError, ValueError, OverflowError, LookupError, TypeError, pa.ArrowException) as error:
        raise JournalError(f"{folder} contradicts itself: {type(error).__name__}: {error}") from None
    return recording


def remove_journal(folder: Path) -> None:
    """Remove a journal that nobody writes to: its own files, and its folder where nothing else is in it.

    Raises
    ------
    JournalError
        A process still writes to it, or something cannot be removed.
    """
    with layout.claimed(folder) as is_free:
        if not is_free:
            raise JournalError(f"{folder} is still being written, or is locked: it was not removed")
        try:
            with os.scandir(folder) as entries:
                files = [entry.path for entry in entries if entry.name in layout.FILES]
            for path in files:
                os.unlink(path)
            os.rmdir(folder)
        except OSError as error:
            raise JournalError(f"{folder} was not removed: {error.strerror or error}") from None


def _raw(folder: Path, slots: Slots, rows: RowFile, facts: Row) -> RawRecording:
    launches = dict(slots.launches) or {name: np.empty(0, np.int64) for name in _COLUMNS}
    ids = with_known_ids(launches, slots.is_open, rows)
    held = ids.tables
    cells = _cells(held["cells"], _latest(launches, held, rows.ranges))
    unfinished = _named(ids.unfinished)
    recovered = {
        "journal": folder.name, "pid": _pid(folder, facts, slots), "launches": int((~slots.is_open).sum()),
        "unfinished": unfinished, "missing": slots.missing, "lost": slots.lost, "damaged_slots": slots.damaged,
        "repeated_slots": slots.repeated, "damaged_rows": rows.damaged, "skipped_bytes": rows.skipped_bytes,
        "unknown_ids": ids.unknown, "mode": slots.mode, "notes": [*slots.notes],
    }
    return RawRecording(
        launches={name: launches[name] for name in _COLUMNS}, ranges=ids.ranges, cells=cells,
        health=[*held["health"], _health(recovered, bool(facts))],
        targets=held["targets"], threads=held["threads"], dispatchers=held["dispatchers"],
        specializations=held["specializations"], configurations=held["configurations"], devices=held["devices"],
        compilations=held["compilations"], passes=held["passes"], occupancies=held["occupancies"],
        builds=held["builds"],
        metadata={**_metadata(facts), "simulator": any(row["framework"] == "simulator" for row in held["dispatchers"]),
                  "recorder": {"backend": "native", "mode": slots.mode or "grow", "capacity": slots.capacity,
                               "kept": len(slots.is_open), "lost": slots.lost + slots.missing},
                  "recovered": recovered})


_COLUMNS = ("thread_id", "target", "configuration", "start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns",
            "end_ns")


def _health(recovered: Mapping[str, Any], has_facts: bool) -> Row:
    """What was recovered, skipped and damaged."""
    def counted(number: int, one: str, many: str) -> str:
        return f"{number:,} {one if number == 1 else many}"

    def told(number: int, one: str, many: str) -> list[str]:
        return [counted(number, one, many)] if number else []

    unfinished: dict[str, int] = recovered["unfinished"]
    begun = sum(unfinished.values())
    parts = [f"recovered {counted(recovered['launches'], 'launch', 'launches')} of process {recovered['pid']}, which "
             "ended without stopping its recording"]
    if begun:
        parts.append(f"{counted(begun, 'launch', 'launches')} unfinished: {_listed(unfinished)}")
    parts += told(recovered["missing"], "launch had begun and cannot be read", "launches had begun and cannot be read")
    parts += told(recovered["damaged_slots"], "slot is damaged or torn", "slots are damaged or torn")
    parts += told(recovered["repeated_slots"], "slot repeats another", "slots repeat others")
    parts += told(recovered["lost"], f"launch was not kept (mode {recovered['mode']})",
                  f"launches were not kept (mode {recovered['mode']})")
    skipped = f"damaged, {counted(recovered['skipped_bytes'], 'byte', 'bytes')} skipped"
    parts += told(recovered["damaged_rows"], f"place of the rows is {skipped}", f"places of the rows are {skipped}")
    parts += told(recovered["unknown_ids"], "id without its row is unknown", "ids without their rows are unknown")
    parts += recovered["notes"]
    if not has_facts:
        parts.append("journal.json is missing or damaged: versions and settings are not known")
    parts.append("what the GPU did, graphs and registers are not in a journal")
    return {"probe": "journal", "status": "degraded", "message": "; ".join(parts),
            "dropped": min(recovered["missing"], (1 << 31) - 1) or None}


def _listed(unfinished: Mapping[str, int], most: int = 5) -> str:
    names = [name if count == 1 else f"{name} ({count})" for name, count in unfinished.items()]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _metadata(facts: Row) -> Row:
    held = facts.get("metadata")
    metadata = dict(cast("Row", held)) if isinstance(held, dict) else {}
    clock: Any = metadata.get("clock")
    if not (isinstance(clock, dict) and all(isinstance(value, int) and abs(value) < 1 << 62
                                            for value in cast("Row", clock).values())
            and {"host_ns", "wall_ns"} <= clock.keys()):
        metadata.pop("clock", None)
    created = _text(facts, "created") or metadata.get("created")
    return {**metadata, "name": _text(facts, "name"), "schema_version": SCHEMA_VERSION,
            "created": created if isinstance(created, str) else None, "gpu": None, "code": False}


def _cells(rows: Sequence[Row], latest: int) -> list[Row]:
    """Cells in order; one that did not end is unfinished, and reaches to the next, or as far as anything is known."""
    cells = sorted((row for row in rows if "start_ns" in row), key=lambda row: row["start_ns"])
    for number, row in enumerate(cells):
        row.pop("cell_id", None)
        if row.get("end_ns", UNKNOWN) < row["start_ns"]:
            following = cells[number + 1]["start_ns"] if number + 1 < len(cells) else latest
            row["end_ns"] = max(following, row["start_ns"])
            row["status"] = UNFINISHED
        row.setdefault("status", UNFINISHED)
    return cells


def _latest(launches: Mapping[str, np.ndarray], tables: Mapping[str, list[Row]], ranges: Sequence[float]) -> int:
    """The last instant that the journal knows of."""
    found = [int(launches[name].max()) for name in (*_COLUMNS[3:],) if len(launches[name])]
    found += [row[name] for table in ("cells", "compilations", "builds") for row in tables[table]
              for name in ("start_ns", "end_ns") if name in row]
    found += [round(ranges[-4] * 1e9)] if ranges else []
    return max(found, default=0)


def _named(kernels: Sequence[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for name in kernels:
        counted[name] = counted.get(name, 0) + 1
    return counted


def _kernels(slots: Slots, rows: RowFile) -> tuple[str, ...]:
    if not slots.is_open.any():
        return ()
    launches = {name: values[slots.is_open] for name, values in slots.launches.items()}
    return tuple(dict.fromkeys(with_known_ids(launches, slots.is_open[slots.is_open], rows).unfinished))


def _slots(folder: Path) -> Slots:
    return read_slots(folder / layout.SLOTS) if _regular(folder / layout.SLOTS) else _NO_SLOTS


def _facts(folder: Path) -> Row:
    """What ``journal.json`` says; nothing where it is missing or damaged."""
    try:
        with layout.opened(folder / layout.FACTS) as file:
            text = os.pread(file, MAX_FACTS_BYTES + 1, 0)
        value = load_json(text) if len(text) <= MAX_FACTS_BYTES else None
    except (OSError, ValueError):
        return {}
    return cast("Row", value) if isinstance(value, dict) else {}


def _check_format(folder: Path, facts: Row) -> None:
    written: Any = facts.get("format", layout.FORMAT)
    if isinstance(written, int) and written != layout.FORMAT:
        raise JournalError(f"{folder} is a journal of format {written}; this KernelScope reads format {layout.FORMAT}: "
                           "recover it with the KernelScope that wrote it")


def _pid(folder: Path, facts: Row, slots: Slots) -> int | None:
    pid: Any = facts.get("pid")
    known: Callable[[Any], bool] = lambda value: isinstance(value, int) and 0 < value < 1 << 31  # noqa: E731
    return next((value for value in (pid, layout.pid_of(folder.name), slots.pid) if known(value)), None)


def _text(facts: Row, name: str) -> str | None:
    value: Any = facts.get(name)
    return value if isinstance(value, str) else None


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _size(folder: Path) -> int:
    total = 0
    for name in layout.FILES:
        if _regular(folder / name):
            held = os.lstat(folder / name)
            total += min(held.st_blocks * 512, held.st_size)
    return total
