"""`kernelscope export`: every format, its default name, and errors of one line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from perfetto_trace import read
from stacked import simulation

from kernelscope import load
from kernelscope.commands import export
from kernelscope.errors import KernelScopeError
from kernelscope.features.call_paths.analyse import call_tree
from kernelscope.schema import TABLES
from kernelscope.views.exports import exporter_named_by, exporters


@pytest.fixture
def two(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded, tmp_path / "two.kscope"))


def test_perfetto(cli: Any, two: Path) -> None:
    ran = cli("export", "two.kscope", "--to", "perfetto")
    assert ran.stdout == "wrote two.pftrace\n" and ran.stderr == ""
    assert len(read(two.with_suffix(".pftrace").read_bytes()).of("launch")) == 3
    assert cli("export", "two", "--to", "perfetto", "-o", "x.json").stdout == "wrote x.json\n"
    assert json.loads(two.with_name("x.json").read_text())["traceEvents"]


def test_without_the_perfetto_package(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.views.timeline.perfetto.has_package", lambda: False)
    written, note = export.exported(load(two), "perfetto", None, str(two))
    assert written == two.with_suffix(".json")
    assert note.startswith(" (Chrome JSON, since the perfetto package is missing: ")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables(cli: Any, two: Path, form: str) -> None:
    assert cli("export", "two.kscope", "--to", form).stdout == f"wrote two-{form}\n"
    assert len(list((two.parent / f"two-{form}").glob(f"*.{form}"))) == len(TABLES)
    cli("export", "two.kscope", "--to", form, "-o", "elsewhere")
    assert (two.parent / "elsewhere" / f"launches.{form}").exists()


def test_html(cli: Any, two: Path) -> None:
    assert cli("export", "two.kscope", "--to", "html").stdout == "wrote two.html\n"
    assert "&lt;second&gt;" in two.with_suffix(".html").read_text(encoding="utf-8")


def test_folded_stacks_of_a_metric(cli: Any, tmp_path: Path) -> None:
    recording = simulation()
    recording.save(tmp_path / "run.kscope")
    tree = call_tree(recording)
    assert tree is not None
    for options, metric in (((), "host"), (("--metric", "gpu"), "gpu")):
        assert cli("export", "run.kscope", "--to", "collapsed", *options).stdout == "wrote run.folded\n"
        lines = (tmp_path / "run.folded").read_text(encoding="utf-8").splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == tree.own[metric].sum()


def test_one_cell(cli: Any, two: Path) -> None:
    cli("export", "two.kscope", "--to", "csv", "--cell", "2")
    assert len((two.parent / "two-csv" / "launches.csv").read_text().splitlines()) == 1
    ran = cli("export", "two.kscope", "--to", "csv", "--cell", "9", code=1)
    assert ran.stderr == "kernelscope: no recorded cell '9'; known: 1 ('first'), 2 ('<second>')\n"


def test_an_export_is_replaced_and_a_recording_never(cli: Any, two: Path) -> None:
    before = two.read_bytes()
    two.with_suffix(".pftrace").write_text("old")
    cli("export", "two.kscope", "--to", "perfetto")
    assert two.with_suffix(".pftrace").read_bytes() != b"old"
    ran = cli("export", "two.kscope", "--to", "perfetto", "-o", "two.kscope", code=1)
    assert ran.stderr == "kernelscope: 'two.kscope' is a recording's name; give an export another suffix\n"
    assert two.read_bytes() == before


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["two.kscope"], 2, "the following arguments are required: --to"),
    (["two.kscope", "--to", "excel"], 2, "invalid choice: 'excel'"),
    (["two.kscope", "--to", "collapsed", "--metric", "hots"], 2, "did you mean 'host'?"),
    (["two.kscope", "--to", "csv", "--metric", "gpu"], 2, "--metric chooses the numbers of --to collapsed"),
    (["none.kscope", "--to", "csv"], 1, "none.kscope: there is no such file"),
    (["two.kscope", "--to", "csv", "-o", "no/out"], 1, "cannot write out: there is no folder no"),
    (["two.kscope", "--to", "perfetto", "-o", "."], 1, "names no file"),
    (["two.kscope", "--to", "html", "-o", "x.pftrace"], 1, "in the format perfetto, and --to says html"),
])
def test_errors_are_one_line(cli: Any, two: Path, arguments: list[str], code: int, message: str) -> None:
    ran = cli("export", *arguments, code=code)
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1 and ran.stdout == ""


def test_a_long_export_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(export, "time", SimpleNamespace(monotonic=lambda: now[0]))
    tell = export.progress_printer()
    for second, share in ((0.5, 0.1), (1.2, 0.2), (1.5, 0.3), (2.5, 0.5), (9.0, 1.0)):
        now[0] = second
        tell(share, "writing out.pftrace")
    assert capsys.readouterr().err == "writing out.pftrace: 20%\nwriting out.pftrace: 50%\n"
    monkeypatch.setattr(sys, "stderr", None)
    now[0] = 20.0
    tell(0.9, "x")


def test_the_format_of_a_name() -> None:
    assert [exporter_named_by(f"a{suffix}").name for suffix in (".pftrace", ".json", ".html", ".htm")] == [
        "perfetto", "perfetto", "html", "html"]
    with pytest.raises(KernelScopeError, match=r"'a.txt' does not say which format: end it in .pftrace, .json, .html"):
        exporter_named_by("a.txt")
    assert exporters()["csv"].default_name("x/a.kscope") == "x/a-csv"
    assert exporters()["perfetto"].default_name("x/run.1") == "x/run.1.pftrace"


def test_a_recording_has_a_method_for_each_exporter(two: Path) -> None:
    recording = load(two)
    assert all(callable(getattr(recording, f"to_{name}")) for name in exporters())
    with pytest.raises(AttributeError, match="'Recording' object has no attribute 'to_nothing'"):
        getattr(recording, "to_nothing")  # noqa: B009 - a type checker knows that there is none
