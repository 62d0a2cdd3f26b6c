"""Files merged into one file: what comes of it is what merging in memory gives, whatever is refused or interrupted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq
import pytest
from worker_recordings import worker

from kernelscope.errors import RecordingFileError
from kernelscope.recording import events, file
from kernelscope.recording.file import load, save
from kernelscope.recording.merge import merge, merge_files
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import encode, make_table
from kernelscope.schema import TABLES

Same: TypeAlias = Callable[[Recording, Recording], None]
Members: TypeAlias = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three workers, of which the second launched before, between and after the others."""
    made = [worker(1, rank=0, launcher="mpi", launches=40),
            worker(2, rank=1, launcher="mpi", launches=400, start_ns=-3_000, name="/home/somebody/x"),
            worker(3, rank=2, launcher="mpi", launches=7, start_ns=1_020)]
    return [save(each, tmp_path / f"worker{at}", paths=True) for at, each in enumerate(made)]


@pytest.fixture(params=[None, 16], ids=["one piece", "pieces of 16 rows"])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        for name, value in (("_PIECE", request.param), ("_SAMPLE", 4), ("_RUN", 64), ("_IN_MEMORY", 1000)):
            monkeypatch.setattr(events, name, value)


@pytest.mark.usefixtures("piece")
def test_a_file_holds_what_merging_in_memory_gives(files: list[Path], full: Recording, tmp_path: Path,
                                                   assert_same: Same) -> None:
    again = Recording(full.tables, {**full.metadata, "merged": 1})
    files += [save(each, tmp_path / f"full{at}", paths=True) for at, each in enumerate([full, again])]
    told: list[float] = []
    made = merge_files(files, tmp_path / "all", paths=True, progress=lambda fraction, text: told.append(fraction))
    assert (made.path, made.merged, made.missing) == (tmp_path / "all.kscope", 5, {})
    whole = load(made.path)
    assert_same(whole, merge(files))
    assert made.rows == {name: table.num_rows for name, table in whole.tables.items()}
    assert made.shared.metadata == whole.metadata
    assert made.shared.rows("processes") == whole.rows("processes") and not made.shared.rows("launches")
    assert told == sorted(told) and told[-1] == 1.0
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*(each.name for each in files), "all.kscope"])


def test_paths_are_cut_and_hosts_stay(files: list[Path], tmp_path: Path) -> None:
    found = load(merge_files(files, tmp_path / "all").path)
    assert [row["host"] for row in found.rows("processes")] == ["node17"] * 3
    assert all(row["boot"] == "boot" for row in [found.metadata["clock"]])
    with pytest.raises(RecordingFileError, match="exists"):
        merge_files(files, tmp_path / "all", overwrite=False)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Two workers in one file, each with a cell and a GPU of its own, that launched alternately."""
    made = [worker(each, rank=each, launcher="mpi", launches=9_000, start_ns=1_000 + each, device={
        "ordinal": 0, "name": "H200", "uuid": f"GPU-{each}"}) for each in range(2)]
    return merge_files([save(each, tmp_path / f"long{at}") for at, each in enumerate(made)], tmp_path / "long").path


def _launches(members: dict[str, bytes]) -> tuple[set[str], dict[str, list[int]]]:
    """Columns that the launches of a file have there, and by thread in the manifest."""
    names = set(pq.read_schema(io.BytesIO(members["launches.parquet"])).names)
    return names, json.loads(members["manifest.json"])["tables"]["launches"].get("by_thread", {})


def test_what_follows_from_the_thread_is_not_in_each_row(long: Path, tmp_path: Path, members_of: Members,
                                                         assert_same: Same) -> None:
    columns, by_thread = _launches(members_of(long))
    assert {*TABLES["launches"].names} - columns == {"cell_id", "device_id"}
    assert by_thread == {"cell_id": [0, 1], "device_id": [0, 1]}
    found = load(long)
    assert_same(found, merge([tmp_path / "long0.kscope", tmp_path / "long1.kscope"]))
    assert _launches(members_of(found.save(tmp_path / "again"))) == (columns, by_thread)
    # One launch that is in no cell, and one on the other's GPU: neither column follows from the thread.
    launches = found.arrow("launches").to_pydict()
    launches["cell_id"][17_000], launches["device_id"][1] = None, 0
    assert found.column("launches", "device_id")[1] == 1
    other = Recording({**found.tables, "launches": make_table("launches", launches)}, found.metadata)
    assert _launches(members_of(other.save(tmp_path / "other"))) == ({*TABLES["launches"].names}, {})
    assert_same(load(tmp_path / "other"), other)


@pytest.mark.parametrize(("table", "said", "why"), [
    ("launches", {"device_id": [0]}, "column launches.device_id is known of 1 threads, and a row has thread 1"),
    ("launches", {"device_id": [0, 7]}, "column launches.device_id has 7 in row 1, which is no row of table 'devices'"),
    *(("launches", said, "the manifest gives table 'launches' by thread .*, not ids") for said in (
        {"device_id": [0, -2]}, {"device_id": [0, 2**31]}, {"device_id": [0, True]}, {"device_id": [0, "x"]},
        {"device_id": []}, {"device_id": 1}, {"thread_id": [0, 1]}, {"line_id": [0, 0]}, [[0, 1]], 5)),
    ("processes", {"rank": [0, 1]}, "the manifest gives table 'processes' by thread"),
    ("compilations", {"cell_id": [0, 1]}, "column compilations.cell_id is in its table and by thread in the manifest"),
])
def test_ids_by_thread_are_checked(table: str, said: Any, why: str, long: Path, rewrite: Callable[..., None]) -> None:
    rewrite(long, lambda manifest: manifest["tables"][table].update(by_thread=said))
    with pytest.raises(RecordingFileError, match=rf"^long\.kscope: {why}"):
        load(long)


def test_what_is_wrong_with_a_file_is_said_and_the_others_are_merged(
        files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, whole = files[0], worker(4, launches=3)
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "torn.kscope").write_bytes(good.read_bytes()[:-100])
    (folder / "empty.kscope").touch()
    (folder / "text.kscope").write_text("no recording")
    (folder / "copy.kscope").write_bytes(good.read_bytes())
    (folder / "link.kscope").symlink_to(good)
    save(Recording(whole.tables, {**whole.metadata, "dry_run": True}), folder / "dry.kscope")
    with monkeypatch.context() as patch:
        patch.setattr(file, "SCHEMA_VERSION", 99)
        save(whole, folder / "newer.kscope")
    launches = whole.arrow("launches").to_pydict()
    held = {**whole.tables, "launches": make_table("launches", {**launches, "cell_id": [7, 7, 7]})}
    file.write_tables(folder / "hostile.kscope", {name: encode(name, table) for name, table in held.items()},
                      {name: table.num_rows for name, table in held.items()}, whole.metadata, overwrite=False)
    wrong = {
        "torn.kscope": "is damaged, or cut off at byte", "empty.kscope": "is empty",
        "text.kscope": "is not a recording", "copy.kscope": "the same file as worker0.kscope",
        "link.kscope": "the same file as worker0.kscope",
        "dry.kscope": "recordings of different kinds cannot be merged", "newer.kscope": "written with schema 99",
        "hostile.kscope": "column launches.cell_id has 7 in row 0, which is no row of table 'cells'",
        "gone.kscope": "there is no such file", "wrong": "is a folder, not a file",
    }
    sources = [good, *(folder / name for name in wrong if name != "wrong"), folder, *files[1:]]
    made = merge_files(sources, tmp_path / "all", name="all of it")
    assert made.merged == 3 and list(made.missing) == list(wrong)
    for name, why in made.missing.items():
        assert wrong[name] in why and "\n" not in why
    found = load(made.path)
    assert found.name == "all of it" and [row["rank"] for row in found.rows("processes")] == [0, 1, 2]
    said = [row["message"] for row in found.rows("health") if row["probe"] == "recorder"]
    assert f"2 of {len(sources)} recordings not merged: copy.kscope, link.kscope: {wrong['copy.kscope']}" in said
    assert all(sum(name in each for each in said) == 1 for name in wrong if name != "wrong")
    with pytest.raises(RecordingFileError, match=r"nothing was merged: torn.kscope: its directory"):
        merge_files([folder / "torn.kscope"], tmp_path / "none")
    assert not list(tmp_path.glob("none*")) and not list(tmp_path.glob(".*"))


def test_an_interruption_keeps_what_was_read(files: list[Path], tmp_path: Path) -> None:
    def interrupt(fraction: float, text: str) -> None:
        if text == "reading worker2.kscope":
            raise KeyboardInterrupt

    made = merge_files(files, tmp_path / "all", progress=interrupt)
    assert (made.merged, made.missing) == (2, {"worker2.kscope": "merging was interrupted"})
    assert load(made.path).rows("health")[-1]["message"] == (
        "1 of 3 recordings not merged: worker2.kscope: merging was interrupted")

    def twice(fraction: float, text: str) -> None:
        if text in ("reading worker2.kscope", "writing launches"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge_files(files, tmp_path / "again", progress=twice)
    assert not list(tmp_path.glob("again*")) and not list(tmp_path.glob(".*"))


INTERRUPTED = """
import json, os, resource, signal, sys, threading, time
from pathlib import Path
from kernelscope.errors import RecordingFileError
from kernelscope.recording.file import load
from kernelscope.recording.merge import gather, merge_files

folder, target = Path(sys.argv[1]), Path(sys.argv[1]) / "all.kscope"
files = sorted(folder.glob("worker*.kscope"))
before = {each: each.read_bytes() for each in files}
found = {}

def run(name, progress=None):
    target.unlink(missing_ok=True)
    try:
        how = merge_files(files, target, progress=progress).merged
    except KeyboardInterrupt:
        how = "interrupted"
    except RecordingFileError as error:
        how = str(error)
    return name, how

def left():
    while any(thread.name == "kernelscope-work" for thread in threading.enumerate()):
        time.sleep(0.01)
    assert {each: each.read_bytes() for each in files} == before
    assert {*folder.iterdir()} == {*files, *[target] * target.exists()}
    return len(load(target).rows("processes")) if target.exists() else None

def at(*steps):
    def progress(fraction, text):
        if text in steps:
            os.kill(os.getpid(), signal.SIGINT)
    return progress

for steps in (["reading worker0.kscope"], ["reading worker2.kscope"], ["reading worker1.kscope", "writing lines"],
              ["writing processes"], ["writing launches"], ["writing health"], ["wrote all.kscope"]):
    name, how = run(", ".join(steps), at(*steps))
    found[name] = how, left()

# At any moment, and twice in a row.
begun = time.perf_counter()
run("")
took = time.perf_counter() - begun
for number in range(12):
    ended = threading.Event()
    def kill(seconds, times):
        for _ in range(times):
            if not ended.wait(seconds):
                os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=kill, args=(took * number / 12, 1 + number % 2))
    try:
        thread.start()
        how = run("")[1]
    except KeyboardInterrupt:  # after the merging, or twice
        how = "interrupted"
    ended.set()
    while True:
        try:
            thread.join()
            there = left()
            break
        except KeyboardInterrupt:
            pass
    assert there in (None, 1, 2, 3) and (not isinstance(how, int) or how == there), (how, there)

resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
found["full"] = run("")[1], left()
print(json.dumps(found))
"""


def test_ctrl_c_at_any_step_leaves_a_whole_file_or_none(files: list[Path], tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED, str(tmp_path)], capture_output=True, text=True,
                         timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "reading worker0.kscope": ["interrupted", None],
        "reading worker2.kscope": [2, 2],
        "reading worker1.kscope, writing lines": ["interrupted", None],
        "writing processes": ["interrupted", None],
        "writing launches": ["interrupted", None],
        "writing health": ["interrupted", None],
        "wrote all.kscope": ["interrupted", 3],
        "full": [f"cannot write {tmp_path / 'all.kscope'}: File too large", None],
    }


def test_without_a_source_nothing_is_merged(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        merge_files([], tmp_path / "all")
    assert not (tmp_path / "all.kscope").exists()
