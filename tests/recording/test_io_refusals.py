"""What is no recording, is torn, newer or made to harm is refused, with what and where."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelscope.errors import RecordingFileError
from kernelscope.recording import file
from kernelscope.recording.file import load, save
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.schema import SCHEMA_VERSION, TABLES

Same = Callable[[Recording, Recording], None]
Rewrite = Callable[..., None]


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

    monkeypatch.setattr(file, "open", refuse, raising=False)
    with pytest.raises(RecordingFileError, match=r"demo\.kscope: cannot be read: Permission denied"):
        load(path)
    monkeypatch.undo()
    with pytest.raises(RecordingFileError, match="cannot be read"):
        load("a\0b.kscope")


def test_file_that_is_too_large_is_not_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(file, "open", None, raising=False)
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
    (lambda m: m["tables"].update(plants={"rows": 0, "crc32": 0}), "holds 'plants', which is no part"),
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
    rewrite(path, launches=bytes(file.encode("launches", make_table("launches", columns))))
    with pytest.raises(RecordingFileError, match=r"demo\.kscope: column launches\.dispatcher_id has 7 in row 2, which "
                                                 r"is no row of table 'dispatchers': it has 2 rows"):
        load(path)


def test_torn_file_is_refused_and_says_where(path: Path) -> None:
    content = path.read_bytes()
    for size in sorted({*range(0, len(content), 97), *range(len(content) - 60, len(content)), 1, 29, 30, 31, 43}):
        path.write_bytes(content[:size])
        with pytest.raises(RecordingFileError, match=r"^demo\.kscope: ") as caught:
            load(path)
        if size >= 60:
            assert f"cut off at byte {size}" in str(caught.value)


def test_flipped_byte_is_refused_or_harmless(path: Path, full: Recording, assert_same: Same) -> None:
    content = path.read_bytes()
    harmless = 0
    for place in range(0, len(content), 61):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1:])
        try:
            loaded = load(path)
        except RecordingFileError as error:
            assert str(error).startswith("demo.kscope: ")
        else:
            # The directory holds a few bytes of no meaning here, such as a member's permissions.
            assert_same(loaded, full)
            harmless += 1
    assert harmless < len(TABLES) / 3
