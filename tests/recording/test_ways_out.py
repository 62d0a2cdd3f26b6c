"""No way out of a recording, a study or a report has a path of the machine: all payloads are inflated and searched."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from everything import everything
from handmade_journals import Handmade, Launch
from handmade_studies import measured

import kernelscope
from kernelscope.commands.cli import main
from kernelscope.commands.inspect import inspect
from kernelscope.pytest_plugin.checks import Report, entry
from kernelscope.recording.file import save
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.recording.redact import shareable
from kernelscope.schema import JSON_COLUMNS, TABLES
from kernelscope.studies import files as study_files
from kernelscope.studies.breakdown import AnatomyResult, MeasuredBreakdown, PartReport
from kernelscope.studies.result import StudyResult
from kernelscope.views.card.html import page
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_card, cells_text
from kernelscope.views.charts import charts_html
from kernelscope.views.exports import exporters
from kernelscope.views.graph.widget import graph
from kernelscope.views.timeline.widget import timeline

#: The folder's name. It is in no path of pytest's own.
SECRET = "quillfeather"
SOURCE = (("cells", "source"), ("lines", "text"), ("code", "text"))

_CODE = {
    "source": "def kernel(x):\n    return x  # {work}/x.py",
    "types": '[{{"line": 3, "name": "x", "type": "int64", "expr": "global(m: <module from {far}/k.py>)"}}]',
    "llvm": '!1 = !DIFile(filename: "k.py", directory: "{far}")',
    "mlir": '#loc1 = loc("{far}/k.py":11:0)',
    "ptx": '\t.file\t1 "{far}/k.py"',
    "sass": '\t//## File "{far}/k.py", line 8',
}


def payloads(data: bytes) -> Iterator[bytes]:
    """The bytes, and whatever they hold in a zip, Parquet, base64, deflate, zlib or gzip, again and again."""
    yield data
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield from payloads(archive.read(name))
        return
    if data[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(data))
        yield repr((table.to_pylist(), table.schema.metadata)).encode()
        return
    for window in (-zlib.MAX_WBITS, zlib.MAX_WBITS, zlib.MAX_WBITS | 16):
        try:
            packer = zlib.decompressobj(window)
            inflated = packer.decompress(data)
        except zlib.error:
            continue
        if packer.eof and not packer.unused_data:
            yield from payloads(inflated)
    for found in re.finditer(rb"[A-Za-z0-9+/]{24,}={0,2}", data):
        try:
            yield from payloads(base64.b64decode(found[0], validate=True))
        except binascii.Error:
            continue


def leaks(written: bytes | str | Path) -> list[bytes]:
    """Where a path of the machine is."""
    if isinstance(written, Path):
        files = sorted(written.rglob("*")) if written.is_dir() else [written]
        return [each for file in files if file.is_file() for each in leaks(file.read_bytes())]
    data = written.encode() if isinstance(written, str) else written
    return [payload[max(0, found.start() - 60):found.end() + 20]
            for payload in payloads(data) for found in re.finditer(SECRET.encode(), payload)]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of that name."""
    folder = tmp_path / SECRET
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def full_of_paths(recording: Recording, work: Path) -> Recording:
    """The recording with paths in every text: a probe, an exception, the environment or a name may have one."""
    far = f"/srv/{SECRET}/deep"
    said = (f"FileNotFoundError: [Errno 2] No such file or directory: '{far} with blanks/x.npy' in {far}/k.py:3, "
            f'see "C:\\\\{SECRET}\\\\x.npy" and {work}/y.npy')
    tables: dict[str, Any] = {}
    for name, table in TABLES.items():
        rows = recording.rows(name)
        for row in rows:
            for column in table.columns:
                if column.dtype not in ("string", "category") or column.is_enumeration:
                    continue
                if column.is_path:
                    row[column.name] = f"{far}/kernels.py"
                elif column.name in JSON_COLUMNS:
                    held = json.loads(row[column.name] or "{}")
                    row[column.name] = json.dumps({**held, "seen": [said, {f"{far}/x": 1}]})
                elif (name, column.name) in SOURCE:  # its author's, but for the folders that are the user's own
                    row[column.name] = f"x = np.load('{work}/x.npy')"
                else:
                    row[column.name] = f"{row[column.name]} of {work}/data or {far}/{SECRET}/it.npy, {said}"
        tables[name] = rows
    if tables["dispatchers"]:
        owner = next((row for row in tables["specializations"] if row["dispatcher_id"] == 0), None)
        tables["code"] = [
            {"dispatcher_id": 0, "specialization_id": None if kind == "source" or owner is None else
             owner["specialization_id"], "kind": kind, "text": text.format(far=far, work=work)}
            for kind, text in _CODE.items()]
    tables["health"].append({"probe": "cupti", "status": "failed", "message": said, "fix": f"remove {far}/libcupti.so"})
    metadata = {**recording.metadata, "name": f"run in {work}/sub", "executable": f"{far}/bin/python", "cwd": str(work),
                "where": [f"{far}/site-packages/numba_cuda"], "packages": {"numba-cuda": f"0.30.4 of {far}/numba_cuda"}}
    return Recording({name: table_of_rows(name, rows) for name, rows in tables.items()}, metadata)


@pytest.fixture(params=["every column", "every view"])
def recording(request: pytest.FixtureRequest, work: Path, full: Recording) -> Recording:
    return full_of_paths(full if request.param == "every column" else everything(2), work)


def exports(recording: Recording, folder: Path, **options: Any) -> dict[str, Path]:
    """Every file that a recording can be written to, by name."""
    return {
        "save": recording.save(folder / "out.kscope", **options),
        "to_html": recording.to_html(folder / "out.html", **options),
        "to_csv": recording.to_csv(folder / "csv", **options),
        "to_parquet": recording.to_parquet(folder / "parquet", **options),
        "to_perfetto json": recording.to_perfetto(folder / "out.json", **options),
        "to_perfetto proto": recording.to_perfetto(folder / "out.pftrace", **options),
    }


def test_no_export_has_a_path(recording: Recording, tmp_path: Path) -> None:
    assert not any({name: leaks(path) for name, path in exports(recording, tmp_path).items()}.values())
    merged = save(merge([recording, recording]), tmp_path / "merged.kscope")
    assert leaks(merged) == []


def test_every_export_has_all_of_them_where_they_are_asked_for(recording: Recording, tmp_path: Path) -> None:
    """And so the search looks into every payload."""
    for name, path in exports(recording, tmp_path, paths=True).items():
        said = b" ".join(leaks(path)).decode("utf-8", "replace")
        assert f"/srv/{SECRET}/deep" in said, name
    # In the page it is the compressed payload that must be looked into.
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    payload = re.search(r'id="kernelscope-payload">([^<]+)<', text)
    assert payload is not None
    assert leaks(payload[1])


def test_nothing_that_a_notebook_saves_has_a_path(recording: Recording, tmp_path: Path) -> None:
    shown: dict[str, str] = {
        "html": recording._repr_html_(), "text": recording.summary(), "repr": repr(recording),
        "cells": cells_text([recording]) + cells_card([recording]), "launches": launches_table(recording),
        "page of cards": page(recording, "cards"), "charts": re.sub(r"<script type=.text/plain.*?</script>", "",
                                                                    charts_html(recording)),
    }
    widgets = {"timeline": timeline(recording), "inspector": inspect(recording)}
    graphs = recording.rows("graphs")
    if graphs:
        widgets["graph"] = graph(recording, graphs[0]["graph_id"])
    for name, widget in widgets.items():
        shown[f"{name}, what stands in its place"] = "\n".join(widget.static_version())
        shown[f"{name}, text"] = repr(widget) if name != "timeline" else ""
        shown[f"{name}, state"] = repr(widget.get_state())
    if graphs:
        made = widgets["graph"]
        assert leaks(made.to_html(tmp_path / "graph.html")) == []
        shown["graph, svg and dot"] = made.to_svg() + made.to_dot()
    assert not any({name: leaks(text) for name, text in shown.items()}.values())


def test_nothing_that_the_command_line_writes_has_a_path(recording: Recording, tmp_path: Path,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    file = str(recording.save(tmp_path / "whole.kscope", paths=True))
    assert leaks(Path(file))
    verbs = [["show", file], ["show", file, "--cells"], ["show", file, "--launches"], ["show", file, "--json"],
             ["show", file, "--redact", "-o", str(tmp_path / "shared.kscope")], ["inspect", file],
             ["inspect", file, "--json"]]
    verbs += [["export", file, "--to", form, "-o", str(tmp_path / f"export-{form}.x")] for form in exporters()]
    verbs += [["compare", file, file], ["compare", file, file, "--html", str(tmp_path / "compared.html")],
              ["compare", file, file, "--json"], ["metrics", file], ["metrics", file, "--json"], ["roofline", file],
              ["roofline", file, "--html", str(tmp_path / "roofline.html")], ["roofline", file, "--json"],
              ["merge", file, "-o", str(tmp_path / "merged.kscope"), "--json"], ["show", file, "--lines"],
              ["show", file, "--stacks"], ["history", file, "0"], ["history", file, "0", "--json"]]
    if recording.rows("specializations"):
        shown, name = (str(each.rows("dispatchers")[0]["name"]) for each in (shareable(recording), recording))
        verbs += [["inspect", file, shown, "--specialization", "1"]]
        verbs += [["inspect", file, name, "--code", kind] for kind in _CODE]
    if recording.rows("graphs"):
        verbs += [["graph", file, "0"], ["graph", file, "0", "--dot"],
                  ["graph", file, "0", "--svg", str(tmp_path / "g.svg")],
                  ["graph", file, "0", "--html", str(tmp_path / "g.html")]]
    for verb in verbs:
        code, said = main(verb), capsys.readouterr()
        assert code == 0 or (verb[0] in ("history", "metrics", "roofline", "export") and code == 1), (verb, said.err)
        assert leaks(said.out.replace(str(tmp_path), "") + said.err.replace(str(tmp_path), "")) == [], verb
    for made in sorted({*tmp_path.iterdir()} - {tmp_path / "whole.kscope", tmp_path / SECRET}):
        assert leaks(made) == [], made.name


def test_a_report_of_tests_has_no_path(recording: Recording, tmp_path: Path) -> None:
    for name in ("report.json", "report.kscope"):
        report = Report(tmp_path / name)
        data = {"recorded": True, "problem": f"could not record: OSError: /srv/{SECRET}/x is gone", **entry(recording)}
        report.add("tests/test_it.py::test_it[/a/b]", "passed", {**data, "recording": recording} if
                   name.endswith("kscope") else data)
        report.pytest_sessionfinish(type("Session", (), {"exitstatus": 0})())
        assert leaks(tmp_path / name) == []
    assert json.loads((tmp_path / "report.json").read_text())["tests"][0]["nodeid"] == "tests/test_it.py::test_it[/a/b]"


def test_a_recovered_recording_is_saved_without_a_path(tmp_path: Path, work: Path) -> None:
    journal = Handmade([Launch(0)], rows=[
        ("dispatchers", 0, {"framework": "numba-cuda", "name": "k", "filename": f"/srv/{SECRET}/k.py"}),
        ("configurations", 0, {}), ("threads", 0, {"ident": 5, "name": f"of {work}/x"}),
        ("targets", 0, {"dispatcher_id": 0, "specialization_id": -1, "device_id": -1, "error": None}),
        ("cells", 0, {"start_ns": 0, "end_ns": 10**16, "status": "error", "error": f"OSError: '/srv/{SECRET}/a b/x'"})])
    recovered = kernelscope.recover(journal.write(tmp_path / "journals"))
    assert recovered.rows("dispatchers")[0]["filename"] == f"/srv/{SECRET}/k.py"
    assert leaks(recovered.save(tmp_path / "recovered.kscope")) == []
    assert leaks(recovered.save(tmp_path / "whole.kscope", paths=True))


def test_a_study_has_no_path(tmp_path: Path, work: Path) -> None:
    far = f"/srv/{SECRET}/deep"
    held = measured(processes=3)
    held.targets[1] = dataclasses.replace(
        held.targets[1], source=f"{far}/numba-cuda", error=f"pip failed in '{far} with blanks/x'",
        warnings=[f"{work}/sub is not committed"], unavailable={"0 arguments": f"no {far}/x.so"})
    held.cases[0] = dataclasses.replace(held.cases[0], setup=f"x = np.load('{work}/x.npy')")
    held.host["governor"] = held.gpu["name"] = f"read from {far}/governor"
    held.settings["python"] = [f"{far}/bin/python"]
    held.notes.append(f"{far}/cache was left")
    result = StudyResult(held)
    shown = {"json": result.to_json(), "text": str(result), "html": result._repr_html_(),
             "file": result.save(tmp_path / "study.json"), "page": result.to_html(tmp_path / "study.html"),
             "frames": result.to_frame().to_csv() + result.batches.to_csv()}
    target, case = held.targets[0].label, held.cases[0].name
    anatomy = AnatomyResult(MeasuredBreakdown(held, [PartReport(target, case, "dispatch", note=f"from {far}/x.py",
                                                        reason=f"{far}/y.py has another line")]))
    shown |= {"anatomy, json": anatomy.to_json(), "anatomy, text": str(anatomy), "anatomy, html": anatomy._repr_html_(),
              "anatomy, file": study_files.anatomy_to_json(anatomy.breakdown)}
    assert not any({name: leaks(text) for name, text in shown.items()}.values())
    assert result.cases[0].setup == "x = np.load('./x.npy')"
    assert result.targets[1].source == "numba-cuda"


# ---- What a program may put anything into ----


@pytest.fixture
def with_secrets(work: Path) -> Recording:
    """A recording with a password in every text that is not a name."""
    made = everything(2)
    tables = {name: made.rows(name) for name in TABLES}
    said = f"ValueError: password {SECRET} was refused: {SECRET}"
    for row in tables["cells"]:
        row |= {"source": f"log_in('{SECRET}')", "source_sha256": SECRET, "error": said, "status": "error"}
    for row in tables["compilations"]:
        row["error"] = said
    for row in tables["ranges"]:
        row["payload"] = SECRET
    tables["builds"] = [{"build_id": 0, "thread_id": 0, "framework": "cuda.compute", "algorithm": "reduce_into",
                         "start_ns": 0, "outcome": "failed", "error": f"{SECRET}, and no type"}]
    tables["code"] = [{"dispatcher_id": 0, "kind": "source", "text": f"def axpy():\n    '{SECRET}'"}]
    tables["health"] += [{"probe": "cupti", "status": "failed", "message": said},
                         {"probe": "nvtx", "status": "ok", "message": f"the first: {said}", "errors": 1}]
    return Recording({name: table_of_rows(name, rows) for name, rows in tables.items()}, made.metadata)


def test_what_is_left_out_on_request_is_in_no_way_out(with_secrets: Recording, tmp_path: Path) -> None:
    assert leaks(with_secrets.save(tmp_path / "whole.kscope"))
    for names in (True, False):
        bare = with_secrets.redacted(names=names)
        for name, path in exports(bare, tmp_path, paths=True).items():
            assert leaks(path) == [], (name, names)
        widgets = timeline(bare), inspect(bare)
        for text in (bare._repr_html_(), bare.summary(), *[text for each in widgets for text in each.static_version()]):
            assert leaks(text) == []
        assert ("axpy" in bare.summary()) is not names
    bare = with_secrets.redacted(names=False)
    assert {row["error"] for row in bare.rows("cells") + bare.rows("compilations")} == {"ValueError"}
    assert bare.rows("builds")[0]["error"] == "Error"
    assert bare.rows("ranges")[0]["name"] == with_secrets.rows("ranges")[0]["name"]
    assert [row["status"] for row in bare.rows("health")] == [row["status"] for row in with_secrets.rows("health")]
    assert bare.arrow("launches") is with_secrets.arrow("launches")


def test_the_command_line_leaves_them_out_on_request(with_secrets: Recording, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    file = str(with_secrets.save(tmp_path / "whole.kscope"))
    for option, said in (
            ("--no-texts", "source, code and messages of exceptions"), ("--redact", "source, code and names")):
        out = tmp_path / f"out{option}"
        out.mkdir()
        assert main(["show", file, option, "-o", str(out / "out.kscope")]) == 0
        assert capsys.readouterr().out == f"wrote {out / 'out.kscope'} without {said}\n"
        for verb in (["show", file, option], ["show", file, option, "--json"],
                     *(["export", file, option, "--to", form, "-o", str(out / form)] for form in
                       ("perfetto", "html", "parquet", "csv"))):
            assert main(verb) == 0
            assert leaks(capsys.readouterr().out) == [], verb
        assert leaks(out) == []
    with pytest.raises(SystemExit) as ended:
        main(["show", file, "-o", str(tmp_path / "x.kscope")])
    assert ended.value.code == 2
    assert "-o goes with --redact or --no-texts" in capsys.readouterr().err
