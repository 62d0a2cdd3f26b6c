"""The small tables behind the timeline's tooltips: kernels, specializations, configurations, cells, compiles."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kernelscope.recording.model import Recording
from kernelscope.renderers.base import dims, stream

#: Passes that a compile's tooltip names.
MOST_PASSES = 8
_SOURCE_LINES = 3


def facts(recording: Recording) -> dict[str, Any]:
    """Return the small tables as JSON values, one list a table; texts are as the user wrote them."""
    return {
        "cells": [_cell(row) for row in recording.rows("cells")],
        "threads": [_thread(row) for row in recording.rows("threads")],
        "devices": [
            {"ordinal": row["ordinal"], "name": row["name"], "cc": row["compute_capability"]}
            for row in recording.rows("devices")
        ],
        "kernels": [
            _kept({"name": row["name"], "module": row["module"], "file": row["filename"], "line": row["lineno"],
                   "framework": row["framework"], "options": row["options"]})
            for row in recording.rows("dispatchers")
        ],
        "specializations": [_specialization(row) for row in recording.rows("specializations")],
        "configurations": [_configuration(row) for row in recording.rows("configurations")],
        "occupancies": [
            [row["specialization_id"], row["configuration_id"], row["device_id"], row["occupancy"]]
            for row in recording.rows("occupancies")
        ],
        "compiles": _compiles(recording),
    }


def title(recording: Recording) -> str:
    """Return what the recording is called."""
    cells = recording.arrow("cells").num_rows
    if cells == 1:
        label = cell_label(recording.rows("cells")[0])
        if not recording.name or recording.name in label:
            return label
        return f"{recording.name}: {label}"
    counted = f"{cells} cells" if cells else ""
    return ": ".join(part for part in (recording.name, counted) if part) or "recording"


def cell_label(row: dict[str, Any]) -> str:
    """Return what a cell is called: ``In [3]``, its name, or both."""
    number = "" if row["execution_count"] is None else f"In [{row['execution_count']}]"
    return " ".join(part for part in (number, row["name"] or "") if part) or f"cell {row['cell_id']}"


def thread_label(row: dict[str, Any]) -> str:
    """Return what a host thread is called."""
    return row["name"] or f"thread {row['thread_id']}"


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    lines = (row["source"] or "").strip().splitlines()
    source = "\n".join(lines[:_SOURCE_LINES]) + ("\n…" if len(lines) > _SOURCE_LINES else "")
    waited = None if row["synchronized_ns"] is None else row["synchronized_ns"] - row["end_ns"]
    return _kept({"label": cell_label(row), "status": row["status"], "error": row["error"],
                  "source": source or None, "sync": waited})


def _thread(row: dict[str, Any]) -> dict[str, Any]:
    # The identifier is a 64-bit number, which JavaScript would round.
    return {"label": thread_label(row), "ident": str(row["ident"])}


def _specialization(row: dict[str, Any]) -> dict[str, Any]:
    return _kept({
        "kernel": row["dispatcher_id"], "signature": row["signature"], "cc": row["compute_capability"],
        "regs": row["regs"], "shared": row["static_shared_bytes"], "local": row["local_bytes"],
        "const": row["const_bytes"], "threads": row["max_threads"], "lcs": row["launch_config_sensitive"],
        "bound": row["launch_config"], "cubin": row["cubin_bytes"], "origin": row["origin"],
    })


def _configuration(row: dict[str, Any]) -> dict[str, Any]:
    cluster = [row[f"cluster_{axis}"] for axis in "xyz"]
    return _kept({
        # A framework may hide its grid: then the tooltip has no such line.
        **{word: None if row[f"{word}dim_x"] is None else dims([row[f"{word}dim_{axis}"] for axis in "xyz"])
           for word in ("grid", "block")},
        "cluster": dims([value or 1 for value in cluster]) if any(cluster) else None,
        "shared": row["sharedmem_bytes"], "stream": None if row["stream"] is None else stream(row["stream"]),
    })


def _compiles(recording: Recording) -> list[dict[str, Any]]:
    passes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in recording.rows("passes"):
        if row["compilation_id"] is not None:
            passes[row["compilation_id"]].append((row["duration_ns"], row["name"]))
    return [
        _kept({
            "signature": row["signature"], "outcome": row["outcome"], "trigger": row["trigger"],
            "reason": row["reason"], "fix": row["fix"], "lcs": row["launch_config_sensitive"],
            "wait": row["wait_ns"], "file": row["cache_file"], "error": row["error"],
            "passes": _longest(passes.get(row["compilation_id"], [])),
        })
        for row in recording.rows("compilations")
    ]


def _longest(passes: list[tuple[int, str]]) -> list[list[Any]] | None:
    found = sorted(passes, key=lambda each: -each[0])[:MOST_PASSES]
    return [[name, duration] for duration, name in found] or None
