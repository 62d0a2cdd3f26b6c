from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kernelscope
from kernelscope.errors import RecordingFileError
from kernelscope.recording import file as recording_file
from kernelscope.recording.file import load, save
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import empty_table
from kernelscope.schema import SCHEMA_VERSION, TABLES

Same = Callable[[Recording, Recording], None]
Rewrite = Callable[..., None]
ROOT = Path(kernelscope.__file__).parents[1]


def test_every_column_comes_back(path: Path, full: Recording, assert_same: Same) -> None:
    assert_same(load(path), full)
    for name in TABLES:
        assert load(path).rows(name) == full.rows(name)


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


def test_million_launches_come_back_small(tmp_path: Path, million: Recording, assert_same: Same) -> None:
    path = save(million, tmp_path / "million")
    loaded = load(path)
    assert path.stat().st_size <= 20_000_000
    assert_same(loaded, million)


def test_chunks_and_unused_words_come_back(tmp_path: Path, full: Recording, assert_same: Same) -> None:
    threads = full.arrow("health")
    chunked = pa.concat_tables([threads.slice(0, 1), threads.slice(1, 1)])
    recording = Recording({"health": chunked}, {})
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
    def refuse(*_: Any) -> None:
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


# Reading: what is no recording.


# Reading: the manifest.


# Reading: damage anywhere. `test_container` tries every byte; these go through the whole of `load`.


# The environment in which a recording is opened.

def test_loads_where_no_framework_can_be_imported(path: Path) -> None:
    script = textwrap.dedent("""
        import sys

        class Blocked:
            def find_spec(self, name, *_):
                if name.split(".")[0] in ("numba", "cuda", "plotly", "pandas") or name in (
                        "kernelscope.recorder.recorder", "kernelscope.probes", "kernelscope.dryrun"):
                    raise ImportError(f"{name} is blocked")

        sys.meta_path.insert(0, Blocked())
        import kernelscope
        recording = kernelscope.load(sys.argv[1])
        print(recording.arrow("launches").num_rows)
    """)
    run = subprocess.run([sys.executable, "-W", "error", "-c", script, str(path)], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "3\n", "")


def test_manifest_is_what_is_documented(path: Path, members_of: Callable[[Path], dict[str, bytes]]) -> None:
    members = members_of(path)
    manifest = json.loads(members["manifest.json"])
    assert set(members) == {"manifest.json", *(f"{name}.parquet" for name in TABLES)}
    assert set(manifest) == {"schema_version", "kernelscope_version", "metadata", "tables"}
    assert manifest["schema_version"] == SCHEMA_VERSION
    assert manifest["kernelscope_version"] == kernelscope.__version__
    assert manifest["tables"]["launches"]["rows"] == 3
