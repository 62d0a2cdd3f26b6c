"""Files merged into one file: what comes of it is what merging in memory gives, whatever is refused or interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from worker_recordings import worker

from kernelscope.errors import RecordingFileError
from kernelscope.recording import merge as merging
from kernelscope.recording.file import load, save
from kernelscope.recording.merge import merge, merge_files
from kernelscope.recording.model import Recording

Same = Callable[[Recording, Recording], None]


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
        monkeypatch.setattr(merging, "_PIECE", request.param)
        monkeypatch.setattr(merging, "_SAMPLE", 4)


@pytest.mark.usefixtures("piece")
def test_a_file_holds_what_merging_in_memory_gives(files: list[Path], full: Recording, tmp_path: Path,
                                                   assert_same: Same) -> None:
    files += [save(each, tmp_path / f"full{at}", paths=True) for at, each in enumerate([full, full])]
    told: list[float] = []
    made = merge_files(files, tmp_path / "all", paths=True, progress=lambda fraction, text: told.append(fraction))
    assert (made.path, made.merged, made.missing) == (tmp_path / "all.kscope", 5, {})
    assert_same(load(made.path), merge(files))
    assert told == sorted(told) and told[-1] == 1.0
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*(each.name for each in files), "all.kscope"])


def test_paths_are_cut_and_hosts_stay(files: list[Path], tmp_path: Path) -> None:
    found = load(merge_files(files, tmp_path / "all").path)
    assert [row["host"] for row in found.rows("processes")] == ["node17"] * 3
    assert all(row["boot"] == "boot" for row in [found.metadata["clock"]])
    with pytest.raises(RecordingFileError, match="exists"):
        merge_files(files, tmp_path / "all", overwrite=False)


def test_a_refused_file_is_left_out_and_named(files: list[Path], tmp_path: Path) -> None:
    files[1].write_bytes(files[1].read_bytes()[:-100])
    made = merge_files([*files, tmp_path / "gone.kscope"], tmp_path / "all", name="all of it")
    assert made.merged == 2 and list(made.missing) == ["worker1.kscope", "gone.kscope"]
    found = load(made.path)
    assert found.name == "all of it" and len(found.rows("processes")) == 2
    assert [row["message"].partition(": ")[0] for row in found.rows("health") if row["probe"] == "recorder"] == [
        "1 of 4 recordings not merged"] * 2
    with pytest.raises(RecordingFileError, match=r"nothing was merged: worker1.kscope: worker1.kscope: "):
        merge_files([files[1]], tmp_path / "none")
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


def test_an_interruption_between_rows_loses_none(files: list[Path], tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch, assert_same: Same) -> None:
    # Wherever Ctrl-C arrives in the taking over of a file, the file is there whole or not at all.
    for step in range(0, 12, 3):
        with monkeypatch.context() as patch:
            held, calls = merging._Events.staged, [0]

            def staged(self: object, *arguments: object, held: Callable[..., Callable[[], None]] = held,
                       calls: list[int] = calls, step: int = step) -> Callable[[], None]:
                take_over = held(self, *arguments)

                def taking() -> None:
                    calls[0] += 1
                    if calls[0] == 10 + step:  # of the second file
                        take_over()
                        raise KeyboardInterrupt
                    take_over()

                return taking

            patch.setattr(merging._Events, "staged", staged)
            made = merge_files(files, tmp_path / f"all{step}", paths=True)
        found = load(made.path)
        assert made.merged == len(found.rows("cells")) and made.merged >= 1
        for name, table in merge(files[:made.merged]).tables.items():
            if name != "health":
                assert table.to_pylist() == found.rows(name)


def test_kinds_are_not_mixed(files: list[Path], tmp_path: Path) -> None:
    dry = worker(4)
    files.append(save(Recording(dry.tables, {**dry.metadata, "dry_run": True}), tmp_path / "dry"))
    with pytest.raises(ValueError, match="recordings of different kinds cannot be merged"):
        merge_files(files, tmp_path / "all")
    with pytest.raises(ValueError, match="at least one"):
        merge_files([], tmp_path / "all")
    assert not (tmp_path / "all.kscope").exists()
