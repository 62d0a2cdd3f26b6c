"""What is no recording, is torn, newer or made to harm is refused, with what and where."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kernelscope
from kernelscope.errors import RecordingFileError
from kernelscope.recording import file as recording_file
from kernelscope.recording.file import load, load_cells, save
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import empty_table, make_table
from kernelscope.schema import SCHEMA_VERSION, TABLES

Same = Callable[[Recording, Recording], None]
Rewrite = Callable[..., None]


def test_every_column_comes_back(path: Path, full: Recording, assert_same: Same) -> None:
    assert_same(load(path), full)


def test_hand_made_rows_fill_every_column_and_leave_out_every_nullable_one(full: Recording) -> None:
    for name, table in TABLES.items():
        for column in table.columns:
            nulls = full.arrow(name).column(column.name).null_count
            assert nulls < full.arrow(name).num_rows, f"{name}.{column.name}"
            assert bool(nulls) == column.nullable, f"{name}.{column.name}"


def test_empty_recording_comes_back(tmp_path: Path, assert_same: Same) -> None:
    empty = Recording({}, {})
    assert_same(load(save(empty, tmp_path / "empty")), empty)


def test_equal_recordings_give_equal_bytes(tmp_path: Path, full: Recording) -> None:
    first, second = save(full, tmp_path / "a"), save(load(save(full, tmp_path / "b")), tmp_path / "c")
    assert first.read_bytes() == second.read_bytes()


def test_many_launches_come_back_small(tmp_path: Path, many: Recording, assert_same: Same) -> None:
    path = save(many, tmp_path / "many")
    assert path.stat().st_size <= 20 * 300_000
    assert_same(load(path), many)


def test_very_long_tables_decode_column_by_column(
        path: Path, full: Recording, many: Recording, assert_same: Same, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.recording.parquet._VERY_MANY_ROWS", 1)
    assert_same(load(path), full)
    assert_same(load(save(many, path.with_name("many"))), many)


def test_chunks_and_unused_words_come_back(tmp_path: Path, full: Recording, assert_same: Same) -> None:
    health = full.arrow("health")
    chunked = pa.concat_tables([health.slice(0, 1), health.slice(1, 1)])
    recording = Recording({"health": chunked, "processes": full.arrow("processes")}, {})
    assert_same(load(save(recording, tmp_path / "x")), recording)


def test_suffix_is_added_to_a_name_without_one(tmp_path: Path, full: Recording) -> None:
    assert save(full, tmp_path / "demo") == tmp_path / "demo.kscope"
    assert save(full, str(tmp_path / "demo.bin")) == tmp_path / "demo.bin"
    assert load(tmp_path / "demo").name == load(tmp_path / "demo.bin").name == full.name


def test_home_folder_is_expanded(tmp_path: Path, full: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert save(full, "~/demo") == tmp_path / "demo.kscope"
    assert load("~/demo.kscope").name == full.name


def test_unknown_home_folder_is_refused(full: Recording) -> None:
    for action in (lambda: load("~no-such-user/x"), lambda: save(full, "~no-such-user/x")):
        with pytest.raises(RecordingFileError, match="home folder"):
            action()


def test_model_saves_and_package_loads(tmp_path: Path, full: Recording, assert_same: Same) -> None:
    assert_same(kernelscope.load(full.save(tmp_path / "demo")), full)


def test_of_a_file_only_the_cells_are_read(path: Path, full: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    original = recording_file.decode
    monkeypatch.setattr(recording_file, "decode", lambda name, *rest: (decoded.append(name), original(name, *rest))[1])
    cells = load_cells(path)
    assert decoded == ["cells"] and cells.arrow("cells").equals(load(path).arrow("cells"))
    assert cells.name == full.name and not cells.arrow("launches").num_rows
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordingFileError, match=path.name):
        load_cells(path)


def test_progress_runs_from_0_to_1(tmp_path: Path, full: Recording) -> None:
    told: list[tuple[float, str]] = []
    path = save(full, tmp_path / "demo", progress=lambda fraction, text: told.append((fraction, text)))
    load(path, progress=lambda fraction, text: told.append((1 + fraction, text)))
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0, 2)
    assert "writing 3 rows of launches" in dict((text, 1) for _, text in told)
    assert told[-1][1] == "read demo.kscope"


# Writing: whole or not at all.

def test_existing_file_is_kept_unless_it_may_be_replaced(path: Path, full: Recording) -> None:
    before = path.read_bytes()
    with pytest.raises(RecordingFileError, match=r"demo\.kscope exists; give another name or overwrite=True"):
        save(Recording({}, {}), path, overwrite=False)
    assert path.read_bytes() == before
    save(Recording({}, {}), path)
    assert load(path).name == ""
    save(full, path.with_name("other"), overwrite=False)


def test_missing_folder_is_named(tmp_path: Path, full: Recording) -> None:
    with pytest.raises(RecordingFileError, match=r"there is no folder .*nowhere"):
        save(full, tmp_path / "nowhere" / "demo")


def test_folder_as_target_is_refused(tmp_path: Path, full: Recording) -> None:
    (tmp_path / "demo.kscope").mkdir()
    with pytest.raises(RecordingFileError, match="a folder has that name"):
        save(full, tmp_path / "demo")
    with pytest.raises(RecordingFileError, match="names no file"):
        save(full, "/")
    with pytest.raises(RecordingFileError, match="names a folder: add the file's name"):
        save(full, f"{tmp_path}/demo/")


def test_folder_without_permission_is_refused(tmp_path: Path, full: Recording,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests may run as root, whom no permission stops.
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(recording_file, "open", refuse, raising=False)
    with pytest.raises(RecordingFileError, match=r"cannot write .*demo\.kscope: Permission denied"):
        save(full, tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stage", ["write_members", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), MemoryError])
def test_interrupted_write_leaves_what_was_there(stage: str, error: Any, path: Path, full: Recording,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def interrupt(file: Any, *_: Any) -> None:
        if stage == "write_members":
            file.write(b"PK\x03\x04 the first half")
        raise error

    monkeypatch.setattr(*((recording_file, stage) if stage == "write_members" else (os, stage)), interrupt)
    expected = RecordingFileError if isinstance(error, OSError) else error
    with pytest.raises(expected):
        save(Recording({}, {}), path)
    with pytest.raises(expected):
        save(full, path.with_name("new"))
    assert [found.name for found in path.parent.iterdir()] == ["demo.kscope"]
    assert path.read_bytes() == before


def test_file_that_appears_meanwhile_is_kept(tmp_path: Path, full: Recording,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    write = recording_file.write_members

    def write_and_race(*arguments: Any) -> None:
        write(*arguments)
        (tmp_path / "demo.kscope").write_text("another's")

    monkeypatch.setattr(recording_file, "write_members", write_and_race)
    with pytest.raises(RecordingFileError, match="exists"):
        save(full, tmp_path / "demo", overwrite=False)
    assert [found.read_text() for found in tmp_path.iterdir()] == ["another's"]


@pytest.mark.parametrize(("metadata", "message"), [
    ({"a": object()}, "not plain JSON"), ({"a": float("nan")}, "not plain JSON"), ({"a": b""}, "not plain JSON"),
    ({"a": "x" * (5 << 20)}, "bytes; at most"),
])
def test_metadata_that_cannot_be_written_are_refused(metadata: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match=rf"demo\.kscope was not written: .*{message}"):
        save(Recording({}, metadata), tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


def test_deep_metadata_are_refused_when_written(tmp_path: Path) -> None:
    nested: Any = []
    for _ in range(60):
        nested = [nested]
    with pytest.raises(RecordingFileError, match="nested deeper"):
        save(Recording({}, {"a": nested}), tmp_path / "demo")


def test_recording_that_contradicts_itself_is_not_written(tmp_path: Path, full: Recording) -> None:
    recording = Recording({**{name: full.arrow(name) for name in TABLES}, "threads": empty_table("threads")}, {})
    with pytest.raises(RecordingFileError, match=r"was not written: column launches\.thread_id has 1 in row 2, which"):
        save(recording, tmp_path / "demo")


def test_recording_that_load_would_find_too_large_is_not_written(tmp_path: Path, full: Recording,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_file.Budget, "FLOOR_BYTES", 100)
    monkeypatch.setattr(recording_file.Budget, "FACTOR", 0)
    with pytest.raises(RecordingFileError, match="was not written: the recording would take more"):
        save(full, tmp_path / "demo")
    monkeypatch.undo()
    monkeypatch.setattr(recording_file, "MAX_FILE_BYTES", 100)
    with pytest.raises(RecordingFileError, match="a file holds at most 100"):
        save(full, tmp_path / "demo")


@pytest.mark.parametrize(("name", "method"), [
    ("report.html", "to_html"), ("REPORT.HTM", "to_html"), ("a/trace.pftrace", "to_perfetto"),
    ("x.speedscope.json", "to_speedscope"), ("x.folded", "to_collapsed")])
def test_a_recording_is_not_saved_under_an_exports_name(name: str, method: str, full: Recording,
                                                        tmp_path: Path) -> None:
    target = tmp_path / name
    with pytest.raises(RecordingFileError, match=rf"'{target}' is the name of an export.*call {method}\('{target}'\)"):
        full.save(target)
    assert not list(tmp_path.iterdir())
    assert full.save(tmp_path / "my.recording") == tmp_path / "my.recording"


def test_manifest_is_what_is_documented(path: Path, members_of: Callable[[Path], dict[str, bytes]]) -> None:
    members = members_of(path)
    manifest = json.loads(members["manifest.json"])
    assert set(members) == {"manifest.json", *(f"{name}.parquet" for name in TABLES)}
    assert set(manifest) == {"schema_version", "kernelscope_version", "metadata", "tables"}
    assert manifest["schema_version"] == SCHEMA_VERSION
    assert manifest["kernelscope_version"] == kernelscope.__version__
    assert manifest["tables"]["launches"]["rows"] == 3




def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match=rf"^demo\.kscope: there is no such file in {tmp_path}"):
        load(tmp_path / "demo")


def test_folder_link_and_pipe_are_refused(tmp_path: Path, path: Path) -> None:
    (tmp_path / "link.kscope").symlink_to(path)
    os.mkfifo(tmp_path / "pipe.kscope")
    with pytest.raises(RecordingFileError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(RecordingFileError, match=r"link\.kscope: is a symbolic link; .* leads to: .*demo\.kscope"):
        load(tmp_path / "link.kscope")
    with pytest.raises(RecordingFileError, match="not a regular file"):
        load(tmp_path / "pipe.kscope")


def test_unreadable_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(recording_file, "open", refuse, raising=False)
    with pytest.raises(RecordingFileError, match=r"demo\.kscope: cannot be read: Permission denied"):
        load(path)
    monkeypatch.undo()
    with pytest.raises(RecordingFileError, match="cannot be read"):
        load("a\0b.kscope")


def test_file_that_is_too_large_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_file, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(recording_file, "open", None, raising=False)
    with pytest.raises(RecordingFileError, match="a recording has at most 100"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"P", b"PK", b"x" * 100, b"PAR1" * 30, b"{}", bytes(5000)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "demo.kscope").write_bytes(content)
    with pytest.raises(RecordingFileError, match=r"^demo\.kscope: "):
        load(tmp_path / "demo.kscope")


def test_newer_schema_says_to_upgrade(path: Path, rewrite: Rewrite) -> None:
    # A newer schema may have other tables: the version is what its reader must be told.
    rewrite(path, lambda m: m.update(schema_version=SCHEMA_VERSION + 2, kernelscope_version="9.1"), graphs=b"?")
    message = f"demo.kscope: written with schema {SCHEMA_VERSION + 2} by kernelscope '9.1', this kernelscope reads " \
              f"up to {SCHEMA_VERSION}: upgrade it"
    with pytest.raises(RecordingFileError, match=re.escape(message)):
        load(path)


def test_newer_kernelscope_of_the_same_schema_reads(path: Path, full: Recording, rewrite: Rewrite,
                                                    assert_same: Same) -> None:
    rewrite(path, lambda m: m.update(kernelscope_version="99.0", novelty=[1]))
    assert_same(load(path), full)


def _nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"0" + b"}" * depth


@pytest.mark.parametrize(("change", "message"), [
    (lambda m: m.pop("schema_version"), "schema_version"),
    (lambda m: m.update(schema_version=0), "schema_version"),
    (lambda m: m.update(schema_version=True), "schema_version"),
    (lambda m: m.update(schema_version="1"), "schema_version"),
    (lambda m: m.update(schema_version=1.0), "schema_version"),
    (lambda m: m.update(metadata=[]), "no metadata"),
    (lambda m: m.pop("tables"), "no tables"),
    (lambda m: m["tables"].pop("cells"), "'cells' is missing in the manifest"),
    (lambda m: m["tables"].update(cells=3), "gives table 'cells' 3"),
    (lambda m: m["tables"]["cells"].update(rows=-1), "gives table 'cells'"),
    (lambda m: m["tables"]["cells"].update(rows=2**40), "gives table 'cells'"),
    (lambda m: m["tables"]["cells"].update(rows=True), "gives table 'cells'"),
    (lambda m: m["tables"]["cells"].update(rows=3), "table 'cells' has 2 rows; the manifest says 3"),
    (lambda m: m["tables"]["launches"].update(rows=2**31 - 1), "more than the 512 MiB"),
    (lambda m: m["tables"]["cells"].update(crc32=1), "table 'cells' is not the one that the manifest"),
    (lambda m: m["tables"].update(plants={"rows": 0, "crc32": 0}), "table 'plants' is missing"),
    (lambda m: b"[" * 100_000, "not valid JSON"),
    (lambda m: _nested(100), "nested deeper"),
    (lambda m: _nested(100_000), "JSON"),
    (lambda m: b"{" + b" " * (5 << 20) + b"}", "more than 4194304"),
    (lambda m: b'{"schema_version": 1, "schema_version": 1}', "a key occurs twice"),
    (lambda m: b'{"schema_version": NaN}', "not finite"),
    (lambda m: b'{"schema_version": 1e999}', "not finite"),
    (lambda m: b'{"schema_version": ' + b"1" * 100_000 + b"}", "not valid JSON"),
    (lambda m: b"\xff\xfe", "not valid JSON"),
    (lambda m: b"[1]", "not a JSON object"),
    (lambda m: b"", "not valid JSON"),
])
def test_wrong_manifest_is_refused(change: Callable[[dict[str, Any]], Any], message: str, path: Path,
                                   rewrite: Rewrite) -> None:
    rewrite(path, change)
    with pytest.raises(RecordingFileError, match=r"^demo\.kscope: ") as caught:
        load(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_missing_and_unknown_members_are_refused(path: Path, rewrite: Rewrite, full: Recording) -> None:
    rewrite(path, launches=None)
    with pytest.raises(RecordingFileError, match=r"^demo\.kscope: table 'launches' is missing$"):
        load(path)
    save(full, path)
    rewrite(path, lambda m: m["tables"].pop("extra"), extra=b"?")
    with pytest.raises(RecordingFileError, match=r"holds 'extra\.parquet', which is no part of a recording"):
        load(path)


def test_manifest_must_be_there(path: Path, members_of: Callable[[Path], dict[str, bytes]]) -> None:
    members = members_of(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("cells.parquet"), members["cells.parquet"])
    with pytest.raises(RecordingFileError, match=r"has no manifest\.json: it is a zip, but not a recording"):
        load(path)


def test_content_is_checked(path: Path, full: Recording, rewrite: Rewrite) -> None:
    rows = full.rows("launches")
    rows[2]["dispatcher_id"] = 7
    columns = {name: [row[name] for row in rows] for name in TABLES["launches"].names}
    rewrite(path, launches=bytes(recording_file.encode("launches", make_table("launches", columns))))
    with pytest.raises(RecordingFileError, match=r"demo\.kscope: column launches\.dispatcher_id has 7 in row 2, which "
                                                 r"is no row of table 'dispatchers': it has 2 rows"):
        load(path)


def test_torn_file_is_refused_and_says_where(path: Path) -> None:
    content = path.read_bytes()
    for size in (0, 1, 29, 30, 43, 60, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(RecordingFileError, match=r"^demo\.kscope: ") as caught:
            load(path)
        if size >= 60:
            assert f"cut off at byte {size}" in str(caught.value)
