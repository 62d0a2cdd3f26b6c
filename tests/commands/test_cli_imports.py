"""Commands on traces of other tools: show, export and merge, whatever the files are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import launched, nsys_tables, write_folder, write_json, write_sqlite

import kernelscope
from kernelscope.units import MISSING


@pytest.fixture
def traces(tmp_path: Path) -> dict[str, Path]:
    return {
        "sqlite": write_sqlite(tmp_path / "report.sqlite", nsys_tables()),
        "parquet": write_folder(tmp_path / "report_pqtdir", nsys_tables(processes=2)),
        "json": write_json(tmp_path / "trace.kscope", launched("axpy", 10, 5)),
        "gzip": write_json(tmp_path / "trace.json.gz", launched("axpy", 10, 5), baseTimeNanoseconds=10**18),
    }


@pytest.mark.parametrize("form", ["sqlite", "parquet", "json", "gzip"])
def test_show(cli: Any, traces: dict[str, Path], form: str) -> None:
    path = str(traces[form])
    assert "axpy" in cli("show", path).stdout
    _, cell, *_ = cli("show", path, "--cells").stdout.splitlines()
    assert cell.startswith("between cells") and cell.count(MISSING) >= 3  # compiled, from disk, from memory
    found = json.loads(cli("show", path, "--json").stdout)
    assert found["summary"][0]["compiles"] is None and found["metadata"]["imported"]["from"]


@pytest.mark.parametrize("form", ["sqlite", "parquet", "gzip"])
def test_export(cli: Any, traces: dict[str, Path], form: str, tmp_path: Path) -> None:
    for kind, target in (("html", "out.html"), ("parquet", "out"), ("csv", "tables")):
        cli("export", str(traces[form]), "--to", kind, "-o", str(tmp_path / target))
    assert "axpy" in (tmp_path / "out.html").read_text(encoding="utf-8")


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
