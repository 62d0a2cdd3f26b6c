"""What probes, readers of traces and the recorder write is what the schema lists, so that redaction keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scripted_recordings
from everything import everything

from kernelscope import Recording, load
from kernelscope.analysis import caches, torch_reasons, triton
from kernelscope.analysis.code import CODE_KINDS
from kernelscope.analysis.compiles import explain
from kernelscope.features.metrics.sets import SETS
from kernelscope.features.stalls.tables import REASONS
from kernelscope.probes.base import Probe
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.session import _probes
from kernelscope.schema import TABLES
from kernelscope.views.graph.model import KINDS as NODES

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "notebooks" / "recordings").glob("*.kscope"),
                *(ROOT / "tests" / "importers" / "chrome" / "traces").glob("*.json.gz")])
#: Columns of which a recording made by KernelScope alone has no other values, though others may give some.
OURS = (("dispatchers", "framework"), ("builds", "framework"), ("health", "probe"), ("compilations", "reason_code"),
        ("builds", "reason_code"), ("activities", "memory"), ("passes", "name"), ("pc_samples", "reason"))


def values(table: str, column: str) -> set[str]:
    return set(TABLES[table].column(column).values)


def unlisted(recording: Recording) -> dict[str, set[str]]:
    recording = explain(recording)
    wanted = [(table.name, column.name) for table in TABLES.values() for column in table.columns
              if column.is_enumeration or (table.name, column.name) in OURS]
    found = {f"{table}.{column}": {*recording.arrow(table).column(column).to_pylist()} - values(table, column) - {None}
             for table, column in wanted}
    return {name: words for name, words in found.items() if words}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_hold_what_is_listed(path: Path) -> None:
    assert unlisted(load(path)) == {}


@pytest.mark.parametrize("name", ["launches", "compiles", "nested", "graphs", "troubles"])
def test_recordings_hold_what_is_listed(name: str) -> None:
    assert unlisted(getattr(scripted_recordings, name)()) == {}


def test_a_recording_of_everything_holds_what_is_listed() -> None:
    assert unlisted(everything()).keys() <= {"compilations.reason_code"}


@pytest.mark.parametrize("options", [
    {}, {"stalls": True}, {"metrics": "basic"}, {"lanes": True}, {"torch_ops": True}, {"gpu": "cupti"},
    {"gpu": "events"}], ids=str)
def test_every_probe_is_listed(options: dict[str, Any]) -> None:
    probes, problems = _probes(RecordingOptions(**options))
    names = {probe.name for probe in probes if isinstance(probe, Probe)} | {row["probe"] for row in problems}
    assert names <= values("health", "probe")


def test_what_has_a_label_or_a_reason_is_listed() -> None:
    assert set(CODE_KINDS) == values("code", "kind")
    assert set(NODES) | {"other"} == values("graph_nodes", "kind")
    assert set(SETS) == values("measurements", "metric_set")
    assert set(REASONS) == values("pc_samples", "reason")
    assert {*caches.CODES, *triton.CODES, *torch_reasons.CODES} <= values("compilations", "reason_code")
