"""Parquet and CSV: read back, and what stands in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from handmade import Script, many_launches

from kernelscope import Recording, RecordingFileError, load
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.views import base, tables
from kernelscope.views.tables import to_csv, to_parquet

FILE = Path(__file__).resolve().parents[2] / "notebooks" / "recordings" / "threads.kscope"


@pytest.mark.parametrize("method", ["to_parquet", "to_csv"])
def test_one_file_a_table_and_the_metadata(tmp_path: Path, method: str) -> None:
    recording = load(FILE)
    folder = getattr(recording, method)(tmp_path / "out")
    suffix = method.replace("to_", ".")
    assert {path.name for path in folder.iterdir()} == {*(f"{name}{suffix}" for name in TABLES), "metadata.json"}
    held = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert held == {"schema_version": SCHEMA_VERSION, "metadata": dict(recording.metadata)}
    if suffix == ".parquet":
        for name in TABLES:
            assert pyarrow.parquet.read_table(folder / f"{name}.parquet").equals(recording.arrow(name)), name


def test_csv_holds_the_same_values(tmp_path: Path) -> None:
    recording = load(FILE)
    folder = to_csv(recording, tmp_path / "out")
    for name, table in TABLES.items():
        types = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
        options = pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False,
            column_types={column.name: types.get(column.dtype, pa.string()) for column in table.columns})
        found = pyarrow.csv.read_csv(folder / f"{name}.csv", convert_options=options)
        assert found.column_names == list(table.names)
        expected = [{column: f"'{value}" if isinstance(value, str) and value.startswith("@") else value
                     for column, value in row.items()} for row in recording.rows(name)]
        assert found.to_pylist() == expected, name
    assert len(pd.read_csv(folder / "launches.csv")) == len(recording.launches)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "  =cmd()", "\t=1", "\n=1", "\uff1d1"])
def test_no_text_becomes_a_formula(hostile: Any, tmp_path: Path, name: str) -> None:
    folder = to_csv(hostile(name).recording(), tmp_path / "out")
    for table in ("cells", "dispatchers", "ranges", "health", "devices", "compilations"):
        found = pd.read_csv(folder / f"{table}.csv", dtype=str, keep_default_na=False)
        for text in found.to_numpy().ravel():
            assert not text.strip().startswith(("=", "+", "@", "\uff1d"))
            assert not (text.strip().startswith("-") and not text.strip()[1:].isdigit())
    assert pd.read_csv(folder / "dispatchers.csv")["name"][0] == f"'{name}"


def test_other_texts_stay(hostile: Any, tmp_path: Path) -> None:
    name = 'a "quoted", name\nof two lines'
    folder = to_csv(hostile(name).recording(), tmp_path / "out")
    assert pd.read_csv(folder / "dispatchers.csv")["name"][0] == name


def test_an_earlier_export_is_replaced_and_another_folder_is_not(tmp_path: Path) -> None:
    to_csv(Recording({}, {}), tmp_path / "out")
    to_csv(many_launches(10, 2), tmp_path / "out")
    assert len((tmp_path / "out" / "launches.csv").read_text().splitlines()) == 11
    (tmp_path / "out" / "thesis.txt").write_text("x")
    with pytest.raises(RecordingFileError, match=r"the folder holds 'thesis.txt', which is no part of such an export"):
        to_csv(Recording({}, {}), tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("moment", ["writing", "moving"])
def test_what_fails_leaves_the_earlier_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    to_csv(many_launches(10, 2), tmp_path / "out")
    if moment == "writing":
        def torn(table: Any) -> Any:
            raise KeyboardInterrupt
        monkeypatch.setattr(tables, "_without_formulas", torn)
    else:
        rename = base.os.rename
        monkeypatch.setattr(base.os, "rename", lambda source, target: _full_disk(rename, source, target))
    with pytest.raises((KeyboardInterrupt, RecordingFileError)):
        to_csv(Recording({}, {}), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len((tmp_path / "out" / "launches.csv").read_text().splitlines()) == 11


def _full_disk(rename: Any, source: Any, target: Any) -> None:
    """Let the old folder move away and back, and the new one not take its place."""
    if (Path(source) / "launches.csv").read_text().count("\n") > 1:
        rename(source, target)
    else:
        raise OSError(28, "No space left on device")


def test_errors_name_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "out.json").mkdir()
    for path, message in ((tmp_path / "file", "a file has that name; tables need a folder"),
                          (tmp_path / "no" / "out", "there is no folder"), (tmp_path / "a.kscope", "recording's name"),
                          ("", "names no file"), ("~nobody-of-this-name/x", "whose home folder")):
        with pytest.raises(RecordingFileError, match=message):
            to_csv(Recording({}, {}), path)
    recording = load(FILE)
    held = recording.save(tmp_path / "mine.kscope")
    before = held.read_bytes()
    for write in (recording.to_html, recording.to_perfetto):
        with pytest.raises(RecordingFileError, match=r"'mine\.kscope' is a recording's name"):
            write(held)
    assert held.read_bytes() == before
    with pytest.raises(RecordingFileError, match="a folder has that name"):
        Recording({}, {}).to_perfetto(tmp_path / "out.json")


def test_paths_of_this_machine_stay_here(tmp_path: Path) -> None:
    made = Script()
    made.kernel(filename="/home/somebody/k.py")
    recording = made.recording()
    folder = to_csv(recording, tmp_path / "cut")
    assert "somebody" not in (folder / "dispatchers.csv").read_text()
    folder = to_csv(recording, tmp_path / "whole", paths=True)
    assert "/home/somebody/k.py" in (folder / "dispatchers.csv").read_text()


def test_progress(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    to_parquet(many_launches(10, 2), tmp_path / "out", progress=lambda share, text: told.append((share, text)))
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[-1] == (1.0, "wrote out")
    assert (0.0, "writing cells.parquet") in told
