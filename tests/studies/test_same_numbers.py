"""Whoever reads a study, as text, card, JSON, table or comparison, reads the same numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import handmade_studies as handmade
import pytest
from cards import Reader

from kernelscope import studies
from kernelscope.commands.cli import main
from kernelscope.studies.comparison import Comparison, compare
from kernelscope.studies.comparison import text as comparison_text
from kernelscope.studies.result import StudyResult
from kernelscope.studies.text import text

#: Small and large ones, slower, faster and neither, and a case that a target lacks.
COSTS = {"base": {0: 4.1, 1: 0.42, "own": 1234.5}, "v2": {0: 6.2, 1: 0.38, "own": 1230.0}, "v3": {0: 4.1}}
NUMBER = r"([+-]?[\d,]+(?:\.\d+)?)"
CHANGE = rf"{NUMBER} +\[{NUMBER}, {NUMBER}\]"


@pytest.fixture(scope="module")
def result() -> StudyResult:
    study = handmade.measured(COSTS, processes=12)
    study.cases[2].against = "0 args"
    return StudyResult(study)


@pytest.fixture(scope="module")
def compared(result: StudyResult) -> Comparison:
    return compare(result, StudyResult(handmade.measured({**COSTS, "v3": {0: 5.1}}, seed=3)))


def same(said: str, value: float) -> bool:
    """Whether a number that was printed is this one, rounded to the digits that it is printed with."""
    decimals = len(said.partition(".")[2])
    return abs(float(said.replace(",", "")) - value) <= 0.5000001 * 10.0 ** -decimals


def rows_of(card: str) -> dict[tuple[str, str], list[str]]:
    """The card's rows by target and case, without what is compared within a target."""
    rows: dict[tuple[str, str], list[str]] = {}
    case = ""
    for row in Reader(card).rows:
        if not any(row[1:]):
            case = row[0]
        else:
            rows.setdefault((row[0], case), row)
    return rows


def test_the_frame_is_what_the_json_has(result: StudyResult) -> None:
    found = json.loads(result.to_json())["found"]
    frame = result.to_frame().set_index(["target", "case"])
    assert len(frame) == len(found["estimates"]) == 7
    for each in found["estimates"]:
        row = frame.loc[(each["target"], each["case"])]
        assert all(row[name] == each[name] for name in each if name not in ("target", "case"))
    against = [each for each in found["differences"] if not each["within"]]
    assert len(against) == frame["verdict"].notna().sum() == 4
    for each in against:
        row = frame.loc[(each["target"], each["case"])]
        assert all(row[name] == each[name] for name in ("difference_us", "percent", "low_percent", "high_percent",
                                                        "verdict", "advice"))
        assert (row["difference_low_us"], row["difference_high_us"]) == (each["low_us"], each["high_us"])


def test_the_text_says_what_the_frame_has(result: StudyResult) -> None:
    lines = text(result, 120).splitlines()
    frame = result.to_frame().set_index(["target", "case"])
    costs, deltas, intervals = (next(place for place, line in enumerate(lines) if line.startswith(title))
                                for title in ("case ", "Deltas vs base", "  target "))
    for place, case in enumerate(["0 args", "1 arg", "own"]):
        printed = re.findall(rf"{NUMBER} \+/- {NUMBER}", lines[costs + 1 + place])
        changes = re.findall(rf"{NUMBER} \({NUMBER}%\)", lines[deltas + 1 + place])
        for target, (mean, sd) in zip(COSTS, printed, strict=False):
            assert same(mean, frame.loc[(target, case), "mean_us"]) and same(sd, frame.loc[(target, case), "sd_us"])
        for target, (delta, percent) in zip([*COSTS][1:], changes, strict=False):
            assert same(delta, frame.loc[(target, case), "difference_us"])
            assert same(percent, frame.loc[(target, case), "percent"])
        assert len(printed) == len(changes) + 1 == sum(case in (handmade.case(name).name for name in held)
                                                       for held in COSTS.values())
    rows = [re.match(rf"  (v\d) +(.*?) +{CHANGE} +{CHANGE}  (.*)", line) for line in lines[intervals + 1:intervals + 5]]
    for row in rows:
        assert row is not None
        target, case, *printed, verdict = row.groups()
        found = frame.loc[(target, case)]
        for said, name in zip(printed, ("difference_us", "difference_low_us", "difference_high_us", "percent",
                                        "low_percent", "high_percent"), strict=True):
            assert same(said, found[name]), (row.group(), name)
        assert verdict == found["verdict"]


def test_the_card_says_what_the_frame_has(result: StudyResult) -> None:
    rows, said = rows_of(result._repr_html_()), 0
    for (target, case), found in result.to_frame().set_index(["target", "case"]).iterrows():
        row = rows[str(target), str(case)]
        cost = re.fullmatch(CHANGE, row[1])
        assert cost is not None
        assert all(map(same, cost.groups(), (found["median_us"], found["low_us"], found["high_us"])))
        if target != "base":
            change = re.fullmatch(CHANGE.replace(" +", " % ", 1), row[3])
            assert change is not None
            assert all(map(same, change.groups(), (found["percent"], found["low_percent"], found["high_percent"])))
            assert row[4].endswith(str(found["verdict"]))
            said += 1
    assert said == 4


def test_comparisons_say_what_the_studies_have(result: StudyResult, compared: Comparison) -> None:
    frame = compared.to_frame().set_index(["target", "case"])
    by_json = json.loads(compared.to_json())["differences"]
    lines, rows = comparison_text(compared, 120).splitlines(), rows_of(compared._repr_html_())
    assert len(frame) == len(by_json) == 7
    for each in by_json:
        place = each["target"], each["case"]
        found = frame.loc[place]
        assert all(found[name] == each[name] for name in found.index)
        assert found["old_us"] == result.by_place[place].median_us
        assert found["new_us"] == compared.new.by_place[place].median_us
        line = next(line for line in lines if re.match(rf"  {place[0]} +{place[1]} ", line))
        printed = re.search(rf" {CHANGE} +{CHANGE}  (.*)", line)
        assert printed is not None
        assert all(map(same, printed.groups()[:6], (found[name] for name in (
            "difference_us", "low_us", "high_us", "percent", "low_percent", "high_percent"))))
        row = rows[place]
        assert all(map(same, re.findall(NUMBER + r"(?:, |$)", row[1]), (found["old_us"], found["new_us"])))
        assert printed[7] == found["verdict"] and row[-1].endswith(found["verdict"])


def test_the_command_line_prints_the_same(result: StudyResult, compared: Comparison, tmp_path: Path,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (str(each.save(tmp_path / name)) for each, name in ((result, "old.json"), (compared.new, "new.json")))
    for words, expected in ((["show", old], json.loads(result.to_json())["found"]),
                            (["compare", old, new], json.loads(compared.to_json()))):
        assert main(["study", *words, "--json", "--limit", "0"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["left_out"] == {} and found["differences"] == expected["differences"]
        assert "estimates" not in expected or found["estimates"] == expected["estimates"]
    again = studies.load(old)
    assert isinstance(again, StudyResult)
    assert str(again) == str(result) and again._repr_html_() == result._repr_html_()
    assert again.to_frame().equals(result.to_frame())
