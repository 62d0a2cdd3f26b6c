"""What a recording has of NVTX ranges."""

from __future__ import annotations

from typing import Any

import nvtx

from kernelscope.recording.model import Recording

HELD = nvtx.get_domain("held")

FUNCTIONS = ("push_range", "pop_range", "start_range", "end_range", "mark", "get_domain")


def shown(recording: Recording, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in recording.rows("ranges")]


def by_name(recording: Recording) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in recording.rows("ranges")}


def no_errors(recording: Recording) -> None:
    assert sum(row["errors"] or 0 for row in recording.rows("health")) == 0, recording.rows("health")
