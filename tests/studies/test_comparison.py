"""Two studies beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import handmade_studies as handmade
import pytest
from cards import Reader

from kernelscope.errors import StudyFileError
from kernelscope.studies.comparison import Comparison, card, changes, compare, text
from kernelscope.studies.result import StudyResult

COSTS = {"main": {0: 4.0, 1: 5.0}, "v2": {0: 4.4, 1: 5.5}}
SLOWER_V2 = {**COSTS, "v2": {0: 4.84, 1: 6.05}}


def study(costs: dict[str, dict[Any, float]] = COSTS, seed: int = 0, **options: Any) -> StudyResult:
    return StudyResult(handmade.measured(costs, seed=seed, **options))


@pytest.fixture(scope="module")
def slower() -> Comparison:
    return compare(study(seed=1, created="2026-11-01T00:00:00+00:00"), study(SLOWER_V2, seed=2))


def test_what_became_slower_is_found(slower: Comparison) -> None:
    verdicts = {(each.target, each.case): each.verdict for each in slower.differences}
    assert verdicts["v2", "0 args"] == verdicts["v2", "1 arg"] == "slower"
    assert {each.baseline for each in slower.differences} == {"old"}
    (first, second) = slower.over("3%")
    assert {first.target, second.target} == {"v2"}
    assert slower.check("3%").failed
    assert slower.worst in (first, second)
    assert slower.changes == () and slower.missing == {}


def test_json_for_programs(slower: Comparison) -> None:
    found = json.loads(slower.to_json())
    assert (found["format"], found["version"], found["is_dry_run"]) == ("kernelscope-study-comparison", 1, False)
    assert found["old"] == {"created": "2026-11-01T00:00:00+00:00", "targets": ["main", "v2"]}
    assert [each["verdict"] for each in found["differences"]] == [each.verdict for each in slower.differences]
    assert found["differences"][0]["old_us"] == slower.old.by_place["main", "0 args"].median_us
    alone = compare(study(processes=1), study(processes=1))
    assert json.loads(alone.to_json())["differences"][0]["high_us"] is None


def test_files_are_compared_as_well(tmp_path: Path) -> None:
    old, new = study(seed=1), study(SLOWER_V2, seed=2)
    paths = [old.save(tmp_path / "old.json"), str(new.save(tmp_path / "new.json"))]
    assert compare(*paths).differences == compare(old, new).differences
    with pytest.raises(StudyFileError, match="gone"):
        compare(tmp_path / "gone.json", new)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("2026-11-01T00:00:00+00:00", "2026-11-22T02:30:00+00:00", "the study of 2026-11-22 against that of 2026-11-01"),
    ("2026-11-22T02:30:10+00:00", "2026-11-22T05:31:00+02:00",
     "the study of 2026-11-22 03:31 UTC against that of 2026-11-22 02:30 UTC"),
    ("2026-11-22T02:30:10+00:00", "2026-11-22T02:30:40",
     "the study of 2026-11-22 02:30:40 UTC against that of 2026-11-22 02:30:10 UTC"),
    ("2026-11-22T02:30:10+00:00", "2026-11-22T02:30:10+00:00", "the newer study against the older study"),
    ("", "yesterday", "the newer study against the older study"),
    ("", "2026-11-22T02:30:10+00:00", "the study of 2026-11-22 against the older study"),
])
def test_the_title_says_which_two(old: str, new: str, said: str) -> None:
    found = compare(study(created=old, processes=2), study(created=new, processes=2))
    assert str(found).startswith(f"Launch overhead: {said}\n")
    assert f">Launch overhead: {said}<" in card(found)


def test_the_title_says_the_files_where_there_are_some(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    day = study(created="2026-11-01T00:00:00+00:00", processes=2)
    old, new = day.save(tmp_path / "one" / "r.json"), study(processes=2).save(tmp_path / "two" / "r.json")
    for before, after, said in (
        (old, new, "two/r.json of 2026-11-22 against one/r.json of 2026-11-01"),
        (old, day.save(tmp_path / "again.json"), "again.json against r.json"),
        (day, new, "r.json of 2026-11-22 against the study of 2026-11-01"),
        (old, old, "the newer study against the older study"),
    ):
        assert str(compare(before, after)).startswith(f"Launch overhead: {said}\n")
    (tmp_path / "<b>.json").write_bytes(new.read_bytes())
    assert "<b>" not in card(compare(old, tmp_path / "<b>.json")).partition("ks-list")[0]


def test_text_and_card_have_the_same_sentences(slower: Comparison) -> None:
    said, shown = text(slower, 100), " ".join(Reader(card(slower)).text.split())
    assert str(slower) == repr(slower)
    assert "v2: slower than the old study in both cases, by " in said
    for sentence in ("slower than the old study in both cases", "The two studies ran at different times"):
        assert sentence in " ".join(said.split()) and sentence in shown
    assert max(map(len, said.splitlines())) <= 100


def test_the_page(slower: Comparison, tmp_path: Path) -> None:
    path = slower.to_html(tmp_path / "compared")
    assert path.name == "compared.html"
    assert card(slower) in path.read_text(encoding="utf-8")
    assert "<script" not in path.read_text(encoding="utf-8")


def test_what_else_changed_is_said() -> None:
    old, new = study(), study(host={"processor": "Other"}, gpu={"name": "H200", "driver": "580.95.05", "cuda": "13.0"})
    new.measured.targets[1].versions["numba-cuda"] = "0.31.0"
    new.measured.targets[1].revision = "abc"
    new.measured.settings["half_width"] = 0.02
    new.measured.is_live = True
    said = changes(old.measured, new.measured)
    assert said == [
        "the old study was measured in processes of its own, the new one in a running process",
        "processor: Example CPU 9000 before, Other now",
        "number of cores: 8 before, unknown now",
        "system: Linux 6.8 before, unknown now",
        "governor: performance before, unknown now",
        "processes: pinned to a core before, not pinned now",
        "GPU: NVIDIA H100 80GB HBM3 before, H200 now",
        "numba-cuda of v2: 0.30.4 before, 0.31.0 now",
        "revision of v2: unknown before, abc now",
        "setting half_width: 0.01 before, 0.02 now",
    ]
    compared = compare(old, new)
    assert compared.changes == tuple(said)
    assert "Changed besides, so that a difference may not be the code's\n  the old study was" in text(compared, 120)
    assert "GPU: NVIDIA H100 80GB HBM3 before, H200 now" in card(compared)


def test_what_does_not_matter_is_not_said() -> None:
    old, new = study(seed=1), study(seed=2)
    new.measured.host |= {"load_before": 9.0, "noise": 0.5, "pinned_to": [7]}
    new.measured.settings |= {"args": "0-1", "limit_s": 5}
    assert changes(old.measured, new.measured) == []


def test_a_dry_run_against_a_gpu() -> None:
    old = StudyResult(handmade.dry_run())
    compared = compare(old, study({"baseline": {0: 4.1}}))
    assert compared.changes[0] == "the old study is of a dry run, the new one of a GPU"
    assert compared.is_dry_run
    assert text(compared).startswith("*** dry run") and "dry run: kernels did not execute" in card(compared)


def test_what_is_missing_is_said() -> None:
    old, new = study({**COSTS, "gone": {0: 4.0}, "broken": {0: 4.0}}), study({"main": {0: 4.0, 1: 5.0}, "broken": {},
                                                                             "more": {0: 4.0}})
    new.measured.targets[1].error = "it crashed"
    old.measured.cases[1].statement = "another"
    compared = compare(old, new)
    assert compared.missing == {
        "main, 1 arg": "its code has changed", "v2": "the new study has no such target",
        "gone": "the new study has no such target", "broken": "it crashed"}
    assert [(each.target, each.case) for each in compared.differences] == [("main", "0 args")]
    assert compared.check(5).outcome == "cannot tell"
    assert "broken is not compared: it crashed" in text(compared)


def test_nothing_in_common() -> None:
    compared = compare(study({"a": {0: 4.0}}), study({"b": {0: 4.0}}))
    assert compared.differences == () and compared.worst is None
    assert "No target and case is in both studies: nothing is compared." in text(compared)
    assert "nothing is compared" in Reader(card(compared)).text
    assert compared.check(3).outcome == "cannot tell"
    assert len(compared.to_frame()) == 0


def test_hostile_names_run_nothing() -> None:
    compared = compare(StudyResult(handmade.hostile()), StudyResult(handmade.hostile()))
    other = StudyResult(handmade.hostile())
    other.measured.host = {"processor": handmade.HOSTILE[1]}
    other.measured.settings = {handmade.HOSTILE[0]: [handmade.HOSTILE[3]]}
    for each in (compared, compare(compared.old, other)):
        read = Reader(card(each))
        assert not {"script", "img"} & read.tags
        assert not set(card(each) + text(each)) & set("\x1b\u202e")
