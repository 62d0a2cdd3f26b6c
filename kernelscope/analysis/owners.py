"""Whose something is in a recording of several processes, and what processes and devices are called there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Ints, distinct_pairs, ids
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN


def process_label(row: Mapping[str, Any]) -> str:
    """Return what to call a process, a row of ``processes``: its worker's name, rank or pid."""
    if row["worker"] is not None:
        name = str(row["worker"])  # Dask's are numbers or addresses, if nobody names them
        return f"worker {name}" if row["launcher"] == "dask" and not re.match(r"[A-Za-z][\w.-]*$", name) else name
    if row["rank"] is not None:
        return f"rank {row['rank']}"
    return f"process {row['process_id']}" if row["pid"] is None else f"pid {row['pid']}"


def process_names(recording: Recording) -> list[str]:
    """Return a name for each process that no other has: with its machine where two have one label, else its row."""
    rows = recording.rows("processes")
    labels = [process_label(row) for row in rows]
    often = Counter(labels)
    names = [f"{label} of {row['host']}" if often[label] > 1 and row["host"] is not None else label
             for label, row in zip(labels, rows, strict=True)]
    often = Counter(names)
    return [f"{name} (process {at})" if often[name] > 1 else name for at, name in enumerate(names)]


def processes_of(recording: Recording, table: str) -> Ints:
    """Return the process of each row of a table, -1 where it is not known."""
    names = recording.arrow(table).schema.names
    found = ids(recording, table, "process_id") if "process_id" in names else None
    # What does not say it may have a thread, and what has no known thread a cell.
    for name, owner in (("thread_id", "threads"), ("cell_id", "cells")):
        if table != owner and name in names and (found is None or found.min(initial=0) < 0):
            processes = ids(recording, owner, "process_id")
            of_owner = np.append(processes, UNKNOWN).astype(processes.dtype)[ids(recording, table, name)]
            found = of_owner if found is None else np.where(found >= 0, found, of_owner)
    return ids(recording, table, "process_id") if found is None else found


def has_processes(recording: Recording) -> bool:
    """Return whether there are several, so that names say whose something is."""
    return recording.arrow("processes").num_rows > 1


def device_processes(recording: Recording) -> list[list[int]]:
    """Return the processes that used each device."""
    used = np.zeros([recording.arrow(table).num_rows for table in ("devices", "processes")], dtype=np.bool_)
    for table in ("activities", "launches"):
        used[*distinct_pairs(ids(recording, table, "device_id"), processes_of(recording, table)).T] = True
    return [np.flatnonzero(row).tolist() for row in used]


def device_owners(recording: Recording) -> list[str]:
    """Return whose each device is where its number alone does not tell: its machine, or else its only process."""
    rows, processes = recording.rows("devices"), recording.rows("processes")
    if len(processes) < 2:
        return [""] * len(rows)
    users = device_processes(recording)
    hosts = [next((str(processes[at]["host"]) for at in each if processes[at]["host"] is not None), "")
             for each in users]
    shown = hosts if len({row["host"] for row in processes} - {None}) > 1 else [""] * len(rows)
    often = Counter((row["ordinal"], host) for row, host in zip(rows, shown, strict=True))
    names = process_names(recording)
    return [names[each[0]] if often[row["ordinal"], host] > 1 and len(each) == 1 else host
            for row, host, each in zip(rows, shown, users, strict=True)]


def device_names(recording: Recording) -> list[str]:
    """Return what to call each device: its number, and whose it is where that does not tell."""
    names = [f"device {row['device_id'] if row['ordinal'] is None else row['ordinal']}"
             for row in recording.rows("devices")]
    return [f"{name} of {owner}" if owner else name
            for name, owner in zip(names, device_owners(recording), strict=True)]
