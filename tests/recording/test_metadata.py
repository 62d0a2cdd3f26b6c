"""Metadata are of their keys' types and in their ranges, or a file is refused; with what is taken, everything works."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from everything import everything
from handmade import Script
from handmade_journals import Handmade, Launch

import kernelscope
from kernelscope.errors import RecordingFileError
from kernelscope.recording import file as recording_file
from kernelscope.recording.file import load
from kernelscope.recording.integrity import check_metadata
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.schema import METADATA, Metadatum
from kernelscope.views.card.answer import recording_answer

VALUES: tuple[Any, ...] = (True, False, None, 0, 1, -1, 7, 2**61, -2**61, 2**63, 10**400, 0.5, -0.5, 1e300, "", "text",
                           "2020-01-01T00:00:00+00:00", "nul\0 and \U0001f680", [], ["text"], [1], [[1, 2, 3]],
                           [None], {}, {"x": 1}, {"x": "text"}, {"x": None}, {"x": {}}, {"x": {"y": 1}})
KEYS = {each.key: each for each in METADATA}


def placed(metadata: dict[str, Any], entry: Metadatum, value: Any) -> dict[str, Any]:
    """The metadata with a value of this key."""
    *around, last = entry.key.replace("*", "numba-cuda").split(".")
    made = json.loads(json.dumps(metadata))
    inner = made
    for part in around:
        if not isinstance(inner.get(part), dict):
            inner[part] = {}
        inner = inner[part]
    inner[last] = value
    return made


def unchecked(recording: Recording, path: Path, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with metadata that nobody has looked at."""
    with monkeypatch.context() as patch:
        patch.setattr(recording_file, "check_metadata", lambda _: None)
        return Recording(recording.tables, metadata).save(path, paths=True)


def used(recording: Recording, folder: Path) -> None:
    """Make everything that there is of a recording."""
    for shown in (recording, recording.redacted(), merge([recording, recording])):
        assert shown.summary() and shown._repr_html_() and recording_answer(shown)["counts"]
        shown.to_perfetto(folder / "x.json")
        shown.to_perfetto(folder / "x.pftrace")
        shown.to_html(folder / "x.html")
        shown.to_csv(folder / "csv")
        shown.to_parquet(folder / "parquet")
        shown.to_bmf(folder / "bmf.json")
        shown.to_pytest_benchmark(folder / "benchmark.json")
        shown.save(folder / "x.kscope")
    assert str(kernelscope.compare(recording, everything(1)))


@pytest.fixture(scope="module")
def small() -> Recording:
    script = Script()
    script.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    script.launchable()
    script.cell()
    script.launch()
    return script.recording()


def fits(metadata: dict[str, Any]) -> bool:
    try:
        check_metadata(metadata)
    except RecordingFileError:
        return False
    return True


def taken(entry: Metadatum, recording: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values of a key that are not refused; one that is, is refused by reading and by writing a file."""
    values = [value for value in VALUES if fits(placed(dict(recording.metadata), entry, value))]
    refused = placed(dict(recording.metadata), entry, next(value for value in VALUES if value not in values))
    with pytest.raises(RecordingFileError, match=rf"some\.kscope: metadata '{entry.key.partition('.')[0]}"):
        load(unchecked(recording, folder / "some.kscope", refused, monkeypatch))
    with pytest.raises(RecordingFileError, match=r"fresh\.kscope was not written: metadata"):
        Recording(recording.tables, refused).save(folder / "fresh.kscope")
    return values


@pytest.mark.parametrize("key", [each.key for each in METADATA if each.kind in ("mapping", "list", "list of texts")])
def test_a_value_is_refused_or_everything_works(key: str, small: Recording, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    legal = taken(KEYS[key], small, tmp_path, monkeypatch)
    for value in legal[:1] + legal[-2:]:
        used(Recording(small.tables, placed(dict(small.metadata), KEYS[key], value)), tmp_path)


def test_values_are_refused_or_everything_works_with_all_of_them(small: Recording, tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    simple = [each for each in METADATA if each.kind not in ("mapping", "list", "list of texts")]
    values = [taken(each, small, tmp_path, monkeypatch) for each in simple]
    for at in range(max(map(len, values))):
        metadata = dict(small.metadata)
        for entry, legal in zip(simple, values, strict=True):
            metadata = placed(metadata, entry, legal[at % len(legal)])
        used(load(Recording(small.tables, metadata).save(tmp_path / "legal.kscope")), tmp_path)


@pytest.mark.parametrize(("key", "value", "message"), [
    ("clock.host_ns", True,
     "metadata 'clock.host_ns' is True, not an integer from -2305843009213693952 to 2305843009213693952"),
    ("clock.error_ns", -1, "metadata 'clock.error_ns' is -1, not a number from 0 to 2305843009213693952 or null"),
    ("packages.*", ["1.0"], "metadata 'packages.numba-cuda' is ['1.0'], not a text or null"),
    ("probes", "numba-cuda", "metadata 'probes' is 'numba-cuda', not a list of texts"),
])
def test_what_is_refused_is_named(key: str, value: Any, message: str, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    recording = everything(1)
    metadata = placed(dict(recording.metadata), KEYS[key], value)
    path = unchecked(recording, tmp_path / "some.kscope", metadata, monkeypatch)
    with pytest.raises(RecordingFileError) as refused:
        load(path)
    assert str(refused.value) == f"some.kscope: {message}"


def test_what_is_no_number_is_refused_in_memory(tmp_path: Path) -> None:
    for value in (math.nan, math.inf):
        recording = Recording(everything(1).tables, {"clock": {"host_ns": 1, "wall_ns": 1, "error_ns": value}})
        with pytest.raises(RecordingFileError, match="metadata 'clock.error_ns' is (nan|inf), not a number"):
            recording.save(tmp_path / "x.kscope")


def test_keys_of_others_may_hold_anything(tmp_path: Path) -> None:
    more = {"mine": [1, {"deep": None}], "clock": {"mine": "x", "host_ns": 1}}
    loaded = load(Recording(everything(1).tables, more).save(tmp_path / "x.kscope"))
    assert loaded.metadata == more


def _keys(value: Any, outer: tuple[str, ...] = ()) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        path = (*outer, key)  # a probe's name may have dots
        pattern = next((each for each in KEYS if each.count(".") == len(outer) and all(
            one in ("*", two) for one, two in zip(each.split("."), path, strict=True))), None)
        yield pattern or f"not listed: {'.'.join(path)}"
        yield from () if pattern in (None, "recovered") else _keys(inner, path)


def test_what_is_recorded_is_listed() -> None:
    folder = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
    traces = Path(__file__).resolve().parents[1] / "importers" / "chrome" / "traces"
    with kernelscope.record() as recorder:
        pass
    made = [recorder.recording, *map(load, [*folder.glob("*.kscope"), *traces.glob("*.json.gz")])]
    found = {key for recording in made for key in _keys(dict(recording.metadata))}
    assert {key for key in found if key.startswith("not listed")} == {"not listed: cuda_driver_version"}


def test_a_journals_metadata_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    journal = Handmade([Launch(0)], rows=[
        ("dispatchers", 0, {"framework": "numba-cuda", "name": "k"}), ("configurations", 0, {}),
        ("threads", 0, {"ident": 5}),
        ("targets", 0, {"dispatcher_id": 0, "specialization_id": -1, "device_id": -1, "error": None})]).write(
            tmp_path / "journals")
    facts = json.loads((journal / "journal.json").read_text())
    facts["metadata"] = {**facts.get("metadata", {}), "cpus": True, "python": "3.13", "packages": {"numpy": 2},
                         "clock": {"host_ns": 1, "wall_ns": "now"}}
    (journal / "journal.json").write_text(json.dumps(facts))
    recovered = kernelscope.recover(journal)
    assert recovered.metadata["python"] == "3.13"
    assert not {"cpus", "packages", "clock"} & recovered.metadata.keys()
    assert len(load(recovered.save(tmp_path / "x.kscope")).launches) == 1
