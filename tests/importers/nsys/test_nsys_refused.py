"""Exports of Nsight Systems that are damaged, or made to harm, are refused with what and where."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_traces import Tables, nsys_tables, refused, write_folder, write_sqlite

import kernelscope
from kernelscope.errors import RecordingFileError

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def changed(column: str, value: Any, table: str = KERNELS) -> Tables:
    """An export with another value in the second row of a column."""
    tables = nsys_tables()
    names, rows = tables[table]
    at = names.index(column)
    tables[table] = names, [rows[0], (*rows[1][:at], value, *rows[1][at + 1:]), *rows[2:]]
    return tables


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", {"users": (("id",), [(1,)])})
    refused(path, "no table of Nsight Systems .* of 1 tables")


def test_an_export_without_cuda(tmp_path: Path) -> None:
    tables = {name: table for name, table in nsys_tables().items() if not name.startswith("CUPTI")}
    refused(write_sqlite(tmp_path / "x.sqlite", tables), "nothing of a GPU.* but 7 NVTX_EVENTS, 7 OSRT_API; export")


@pytest.mark.parametrize("value", ["text", 1.5, b"blob", 1e300])
@pytest.mark.parametrize("column", ["start", "correlationId", "gridX", "globalPid"])
def test_columns_of_another_type(tmp_path: Path, column: str, value: Any) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", changed(column, value))
    connection = sqlite3.connect(path)  # INTEGER columns take what looks like one
    stored = connection.execute(f"SELECT typeof({column}) FROM {KERNELS} LIMIT 1 OFFSET 1").fetchone()[0]
    connection.close()
    if stored in ("integer", "null"):
        kernelscope.load(path)
    else:
        refused(path, f"column {KERNELS}.{column} has something else than whole numbers between rows 0 and 6")


@pytest.mark.parametrize(("column", "value"), [
    ("start", -(2**63)), ("end", 2**63 - 1), ("deviceId", 2**40), ("streamId", -5), ("correlationId", 2**63 - 1),
    ("registersPerThread", 2**31), ("gridX", 2**31), ("blockZ", -7), ("dynamicSharedMemory", 2**62),
    ("staticSharedMemory", 2**62), ("graphNodeId", 2**63 - 1),
])
def test_absurd_numbers(tmp_path: Path, column: str, value: int) -> None:
    for write in (write_sqlite, write_folder):
        refused(write(tmp_path / write.__name__, changed(column, value)), "has .* which is not between|end before it")


@pytest.mark.parametrize("value", [None, -1, 10**6, 2**62])
def test_names_that_are_not_there(tmp_path: Path, value: int | None) -> None:
    recording = kernelscope.load(write_sqlite(tmp_path / "x.sqlite", changed("demangledName", value)))
    assert len(recording.rows("activities")) == 9
    kernelscope.load(recording.save(tmp_path / "again.kscope"))


def test_a_view_that_never_ends_is_not_read(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", nsys_tables())
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIEW NVTX AS SELECT 1")
    connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET")
    connection.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS WITH RECURSIVE n(start) AS "
                       "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n")
    connection.commit()
    connection.close()
    recording = kernelscope.load(path)
    assert "memset" not in recording.column("activities", "kind").tolist()


def test_generated_columns_are_not_computed(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", nsys_tables())
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET ADD COLUMN graphId INTEGER AS "
                       "(abs(-9223372036854775808))")
    connection.commit()
    connection.close()
    assert "memset" in kernelscope.load(path).column("activities", "kind").tolist()


@pytest.mark.parametrize("value", [7, "text", None])
def test_a_table_with_row_numbers_of_its_own(tmp_path: Path, value: Any) -> None:
    tables = nsys_tables()
    names, rows = tables["CUPTI_ACTIVITY_KIND_MEMSET"]
    tables["CUPTI_ACTIVITY_KIND_MEMSET"] = (*names, "_rowid_"), [(*row, value) for row in rows * 70_000]
    refused(write_sqlite(tmp_path / "x.sqlite", tables), "ends after .* of its 70000 rows")


def test_a_damaged_database(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", nsys_tables(launches=3_000))
    whole = path.read_bytes()
    for data in (whole[:100], whole[:5_000], whole[:len(whole) // 2], whole[:4_096] + b"\xff" * 8_192 + whole[12_288:],
                 whole[:16] + b"\xff" * 84 + whole[100:]):
        path.write_bytes(data)
        refused(path, "cannot be read as SQLite|damaged|no table of Nsight Systems|says nothing of a GPU")


def test_the_file_is_not_written_to(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "with space#?%41.sqlite", nsys_tables())
    before = path.read_bytes()
    path.chmod(0o400)
    kernelscope.load(path)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == [path.name]


def folder(path: Path, table: str, columns: dict[str, Any]) -> Path:
    target = write_folder(path / "x_pqtdir", nsys_tables())
    pq.write_table(pa.table(columns), target / f"{table}.parquet")
    return target


@pytest.mark.parametrize("column", [pa.array(["a", "b"]), pa.array([1.5, 2.5]), pa.array([[1], [2]])])
def test_parquet_columns_of_another_type(tmp_path: Path, column: Any) -> None:
    path = folder(tmp_path, KERNELS, {"start": pa.array([1, 2]), "end": pa.array([2, 3]), "gridX": column})
    if pa.types.is_nested(column.type):  # left out, as if it were not there
        kernelscope.load(path)
    else:
        refused(path, f"column {KERNELS}.gridX is of type .*, not of whole numbers")


def test_parquet_with_far_more_rows_than_bytes(tmp_path: Path) -> None:
    count = 40_000_000
    path = folder(tmp_path, "CUPTI_ACTIVITY_KIND_MEMSET", {name: pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([7])) for name in ("start", "end")})
    refused(path, "would take more than the 512 MiB of memory")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\xff" * 200 + b"PAR1"])
def test_a_damaged_parquet_file(tmp_path: Path, data: bytes) -> None:
    path = write_folder(tmp_path / "x_pqtdir", nsys_tables())
    (path / f"{KERNELS}.parquet").write_bytes(data)
    refused(path, "cannot be read as Parquet")


def test_a_parquet_file_with_any_byte_changed(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "x_pqtdir", nsys_tables())
    file = path / "CUPTI_ACTIVITY_KIND_MEMSET.parquet"
    whole = file.read_bytes()
    for place in range(7, len(whole), len(whole) // 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1:])
        with contextlib.suppress(RecordingFileError):
            kernelscope.load(path)


def test_a_report_that_was_not_exported(tmp_path: Path) -> None:
    (tmp_path / "report.nsys-rep").write_bytes(b"\x01\x02whatever")
    refused(tmp_path / "report.nsys-rep", "is a report of Nsight Systems: .* nsys export --type sqlite")
    (tmp_path / "report_arrow").mkdir()
    (tmp_path / "report_arrow" / "StringIds.arrow").write_bytes(b"ARROW1")
    (tmp_path / "report.h5").write_bytes(b"\x89HDF")
    for name in ("report_arrow", "report.h5"):
        refused(tmp_path / name, "is an export in another format of Nsight Systems: .* or --type parquetdir")
    (tmp_path / "report.qdrep").write_bytes(write_sqlite(tmp_path / "x.sqlite", nsys_tables()).read_bytes())
    assert len(kernelscope.load(tmp_path / "report.qdrep").rows("launches")) == 4  # what it is called is not what it is
