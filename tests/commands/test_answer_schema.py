"""The schema of answers: the committed file is what the types of the members say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

import jsonschema
import pytest

from kernelscope.analysis.savings import GPU, NEXT_SESSION, WALL
from kernelscope.commands.answer_schema import ANSWERS, COMMAND, answer_schema, schema_of
from kernelscope.views.answer import Answer, Facts, Long, Many, OneOf, answer
from kernelscope.views.card.answer import PARTS, RecordingAnswer

ROOT = Path(__file__).resolve().parents[2]


class SizeMembers(TypedDict):
    """The size of a toy."""

    width_um: Annotated[float | None, "micrometres"]
    color: Annotated[str, OneOf(("red", "green"))]


class OldToysAnswer(Answer, total=False):
    """What a shop says."""

    sizes: Many[SizeMembers]
    best: SizeMembers | None
    prices: Mapping[str, int]
    options: Facts
    advice: Annotated[Long, "what to buy"]


def test_the_committed_file_is_what_the_types_say() -> None:
    committed = (ROOT / "docs" / "reference" / "answer.schema.json").read_text(encoding="utf-8")
    assert committed == answer_schema(), f"run  {COMMAND}"


def classes(ending: str) -> list[str]:
    """The names of the package's classes that end so."""
    return [name for file in sorted((ROOT / "kernelscope").rglob("*.py")) for name in re.findall(
        rf"^class (\w+{ending})\(", file.read_text(encoding="utf-8"), re.MULTILINE)]


def test_it_has_every_answer() -> None:
    assert sorted(kind.__name__ for kind in ANSWERS) == sorted(classes("Answer"))


def test_each_name_of_the_schema_is_one_class() -> None:
    names = classes("Members")
    assert len(names) > 50 and len({*names}) == len(names)


def test_every_part_of_a_recording_s_answer_is_a_member() -> None:
    assert RecordingAnswer.__optional_keys__ == {*PARTS, "written"}


def test_enumerations_are_those_of_the_analyses() -> None:
    parts = json.loads(answer_schema())["$defs"]
    assert parts["advice"]["properties"]["saves_of"] == {"enum": [WALL, GPU, NEXT_SESSION]}


def toys(**members: Any) -> dict[str, Any]:
    return answer(OldToysAnswer, {"verdict": "Two toys.", **members})


def test_it_accepts_what_the_types_allow() -> None:
    schema = schema_of([OldToysAnswer])
    parts = schema["$defs"]
    assert parts["answer_old_toys"]["properties"]["kind"] == {"const": "old_toys"}
    assert parts["answer_old_toys"]["properties"]["advice"] == {"description": "what to buy", "type": "string"}
    assert parts["size"]["properties"]["width_um"] == {"description": "micrometres", "type": ["number", "null"]}
    assert (parts["size"]["description"], parts["size"]["required"]) == ("The size of a toy.", ["width_um", "color"])
    size = {"width_um": 1.5, "color": "red"}
    valid = jsonschema.Draft202012Validator(schema)
    valid.validate(toys())
    valid.validate(toys(sizes=Many([size, {"width_um": float("nan"), "color": "green"}]), best=None,
                        prices={"ball": 3}, options=Facts({"of any": [1]}), advice=Long("a ball")))


@pytest.mark.parametrize("members", [
    {"verdict": None}, {"unheard_of": 1}, {"sizes": None}, {"sizes": [{"width_um": 1}]}, {"prices": {"ball": 0.5}},
    {"best": {"width_um": 1, "color": "blue"}}, {"best": {"width_um": "1", "color": "red"}}, {"options": []},
])
def test_it_refuses_what_they_do_not(members: dict[str, Any]) -> None:
    valid = jsonschema.Draft202012Validator(schema_of([OldToysAnswer]))
    assert not valid.is_valid(toys(**members))
