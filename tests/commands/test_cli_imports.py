"""Commands on traces of other tools: show, export and merge, whatever the files are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import launched, nsys_tables, write_folder, write_json, write_sqlite

import kernelscope
from kernelscope.commands import export
from kernelscope.errors import KernelScopeError
from kernelscope.units import MISSING

TESTS = Path(__file__).parents[1]
TRACES, RECORDINGS = TESTS / "importers" / "chrome" / "traces", TESTS.parent / "notebooks" / "recordings"


@pytest.fixture
def traces(tmp_path: Path) -> dict[str, Path]:
    return {
        "sqlite": write_sqlite(tmp_path / "report.sqlite", nsys_tables()),
        "parquet": write_folder(tmp_path / "report_pqtdir", nsys_tables(processes=2)),
        "json": write_json(tmp_path / "trace.kscope", launched("axpy", 10, 5)),
        "gzip": write_json(tmp_path / "trace.json.gz", launched("axpy", 10, 5), baseTimeNanoseconds=10**18),
        "plain": write_json(tmp_path / "plain.json", launched("axpy", 10, 5), text="x" * 100_000),
    }


@pytest.mark.parametrize("form", ["sqlite", "parquet", "json", "gzip"])
def test_show(cli: Any, traces: dict[str, Path], form: str) -> None:
    path = str(traces[form])
    assert "axpy" in cli("show", path).stdout
    _, cell, *_ = cli("show", path, "--cells").stdout.splitlines()
    assert cell.startswith("between cells") and cell.count(MISSING) >= 3  # compiled, from disk, from memory
    found = json.loads(cli("show", path, "--json").stdout)
    assert found["counts"]["compiles"] is None and found["counts"]["launches"] > 0


@pytest.mark.parametrize("form", ["sqlite", "parquet", "json", "gzip", "plain"])
def test_export(cli: Any, traces: dict[str, Path], form: str, tmp_path: Path) -> None:
    for kind, target in (("html", "out.html"), ("parquet", "out"), ("csv", "tables")):
        cli("export", str(traces[form]), "--to", kind, "-o", str(tmp_path / target))
    assert "axpy" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_trace_is_not_replaced_by_its_export(
        cli: Any, traces: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traces["plain"]
    before = trace.read_bytes()
    assert cli("export", "plain.json", "--to", "perfetto").stdout == "wrote plain.pftrace\n"
    for options in (["-o", "plain.json"], ["-o", f"../{trace.parent.name}/plain.json"]):
        ran = cli("export", "plain.json", "--to", "perfetto", *options, code=1)
        assert ran.stderr == "kernelscope: 'plain.json' would replace the trace itself: name another file with -o\n"
    assert cli("export", "plain.json", "--to", "perfetto", "-o", "other.json").stdout == "wrote other.json\n"
    monkeypatch.setattr("kernelscope.views.timeline.perfetto.has_package", lambda: False)
    with pytest.raises(KernelScopeError, match="would replace the trace itself"):
        export.exported(kernelscope.load(trace), "perfetto", None, str(trace))
    assert trace.read_bytes() == before


def test_merge(cli: Any, traces: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "all.kscope"
    text = cli("merge", str(traces["parquet"]), str(traces["gzip"]), "-o", str(target)).stdout
    assert "3 processes" in text and "9 launches" in text
    merged = kernelscope.load(target)
    assert [row["pid"] for row in merged.rows("processes")] == [4000, 4001, 31]
    assert merged.is_imported


def test_a_refusal_is_one_line(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"traceEvents": [')
    run = cli("show", str(tmp_path / "x.json"), code=1)
    assert run.stderr.strip() == "kernelscope: x.json: is cut off at letter 17; copy it again, or trace it again"


def test_graphs_that_no_trace_has_nodes_of(cli: Any) -> None:
    said = cli("graph", str(TRACES / "kineto_graph.json.gz"), code=1).stderr
    assert "a trace of another tool has no nodes" in said and "was launched 4 times" in said
    assert "the trace has no launch of a CUDA graph" in cli(
        "graph", str(TRACES / "kineto_triton.json.gz"), code=1).stderr


def test_compiles_of_processes_are_not_known(traces: dict[str, Path]) -> None:
    frame = kernelscope.load(traces["parquet"]).by_process()
    assert len(frame) == 2 and frame[["compiles", "compile_ns"]].isna().all(axis=None)
    assert (frame["launches"] > 0).all()
