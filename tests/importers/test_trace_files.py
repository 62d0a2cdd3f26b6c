"""Which importer reads a file, and what is said of those that none reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import launched, nsys_tables, refused, write_folder, write_json, write_sqlite

from kernelscope.recording.trace_files import importer_of, is_trace


@pytest.mark.parametrize(("make", "message"), [
    (lambda path: path.mkdir(), "is a folder, not a file"),
    (lambda path: path.write_text("hello"), "does not begin as a zip does"),
])
def test_other_things(tmp_path: Path, make: Callable[[Path], Any], message: str) -> None:
    """What is called like a recording is none of which an importer is missing."""
    for name, rest in (("thing", ", and no installed importer reads it$"), ("thing.kscope", "$")):
        make(tmp_path / name)
        refused(tmp_path / name, message + rest)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "thing").touch()
    refused(tmp_path / "thing", "is empty$")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write_json(tmp_path / "trace.json", launched("f", 10, 5))
    (tmp_path / "link.json").symlink_to("trace.json")
    refused(tmp_path / "link.json", "is a symbolic link")


def test_what_only_looks_like_a_trace_has_an_importer_that_refuses_it(tmp_path: Path) -> None:
    paths: dict[Path, str] = {
        write_json(tmp_path / "a", launched("f", 10, 5)): "chrome",
        write_json(tmp_path / "a.gz", launched("f", 10, 5)): "chrome",
        write_json(tmp_path / "other.json", {"cells": []}): "chrome",
        write_sqlite(tmp_path / "b", nsys_tables()): "nsys",
        write_sqlite(tmp_path / "other.db", {"users": (("id",), [(1,)])}): "nsys",
        write_folder(tmp_path / "c", nsys_tables()): "nsys",
    }
    for path, name in paths.items():
        importer = importer_of(path)
        assert importer is not None and importer.name == name
        assert is_trace(path) == ("other" not in path.name)
    assert importer_of(tmp_path / "nothing") is importer_of(tmp_path) is None and not is_trace(tmp_path)
