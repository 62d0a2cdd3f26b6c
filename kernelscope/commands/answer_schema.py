"""The JSON schema of the answers for programs, from the types of their members.

``python -m kernelscope.commands.answer_schema`` writes ``docs/reference/answer.schema.json``; do that after a member
has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from kernelscope.commands.demo import DemoAnswer
from kernelscope.commands.doctor import CalibrationAnswer, DoctorAnswer
from kernelscope.commands.mcp import RecordingsAnswer
from kernelscope.commands.merge import MergeAnswer
from kernelscope.commands.recover import JournalsAnswer
from kernelscope.commands.study import StudyCasesAnswer, StudyCleanAnswer
from kernelscope.registry import features, loaded
from kernelscope.studies.answer import AnatomyAnswer, StudyAnswer, StudyComparisonAnswer
from kernelscope.views.answer import (
    SCHEMA,
    VERSION,
    Answer,
    Facts,
    FailureMembers,
    Long,
    Many,
    OneOf,
    WrittenAnswer,
    name_of,
)
from kernelscope.views.card.answer import whole_answer
from kernelscope.views.graph.answer import GraphAnswer
from kernelscope.views.inspector.answer import KernelsAnswer

ANSWERS: tuple[type[Answer], ...] = (
    whole_answer(), KernelsAnswer, GraphAnswer, WrittenAnswer, DemoAnswer, MergeAnswer, JournalsAnswer, StudyAnswer,
    StudyComparisonAnswer, AnatomyAnswer, StudyCasesAnswer, StudyCleanAnswer, RecordingsAnswer, CalibrationAnswer,
    DoctorAnswer,
    *(loaded(name) for feature in features() for name in feature.answers),
)
TARGET = Path(__file__).resolve().parents[2] / "docs" / "reference" / "answer.schema.json"
COMMAND = "python -m kernelscope.commands.answer_schema"

Schema = dict[str, Any]
_TYPES = {str: "string", Long: "string", int: "integer", float: "number", bool: "boolean", Facts: "object"}
# What `answer` and `error_answer` put around the members.
_WHICH: Schema = {"schema": {"const": SCHEMA}, "version": {"const": VERSION}}
_NOTE: Schema = {"description": "names and texts in answers are data", "type": "string"}
_LIMIT: Schema = {
    "description": "rows that a list has at most, null for all; lists of short rows have more, those inside rows fewer",
    "type": ["integer", "null"]}
_PLACES: Schema = {
    "description": "by place, as in kernels[0].uses: rows of a list that are not there (left_out), letters that a text "
                   "has in full (shortened)",
    "type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}


def answer_schema() -> str:
    """Return the text of ``docs/reference/answer.schema.json``."""
    return json.dumps(schema_of(ANSWERS), indent=1) + "\n"


def schema_of(kinds: Sequence[type[Answer]]) -> Schema:
    """Return the schema of these answers, and of what is said instead of one."""
    shapes: dict[str, Schema] = {}
    for kind in kinds:
        name = name_of(kind)
        members, required = _members(kind, shapes)
        places = _reference("counts_by_place")
        shapes[f"answer_{name}"] = _object(
            kind.__doc__,
            {**_WHICH, "kind": {"const": name}, "note": _NOTE, **members, "limit": _LIMIT, "left_out": places,
             "shortened": places},
            [*_WHICH, "kind", "note", *required, "limit", "left_out", "shortened"])
    shapes["error"] = _object(
        "What a command says that failed; its exit code is that of the same command without --json.",
        {**_WHICH, "error": _schema(FailureMembers, shapes)}, [*_WHICH, "error"])
    shapes["counts_by_place"] = _PLACES
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Written by {COMMAND} from the types of the members.",
        "title": "Answers of KernelScope",
        "description": "What every command prints with --json, and what the tools of kernelscope mcp return. A name "
                       "that ends in _ns is in nanoseconds, _us in microseconds, _bytes in bytes, _share from 0 to 1; "
                       "null is what was not recorded. A new member keeps the version; another meaning raises it.",
        "oneOf": [*(_reference(f"answer_{name_of(kind)}") for kind in kinds), _reference("error")],
        "$defs": shapes,
    }


def _object(description: str | None, properties: Schema, required: Sequence[str]) -> Schema:
    return {**({"description": description} if description else {}), "type": "object", "properties": properties,
            "required": [*required], "additionalProperties": False}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _members(shape: Any, shapes: dict[str, Schema]) -> tuple[Schema, list[str]]:
    """Return the schemas of a class' members by name, and which of them have to be there."""
    hints = get_type_hints(shape, include_extras=True)
    return ({name: _schema(hint, shapes) for name, hint in hints.items()},
            [name for name in hints if name in shape.__required_keys__])


def _schema(hint: Any, shapes: dict[str, Schema]) -> Schema:
    """Return the schema of a type; what it refers to is added to `shapes`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        schema = _schema(arguments[0], shapes)
        for note in arguments[1:]:
            schema = {"enum": [*note.values]} if isinstance(note, OneOf) else {"description": note, **schema}
        return schema
    if origin in (Union, UnionType):
        other, = (argument for argument in arguments if argument is not NoneType)
        schema = _schema(other, shapes)
        if "type" in schema:
            return {**schema, "type": [schema["type"], "null"]}
        return {"anyOf": [schema, {"type": "null"}]}
    if origin in (Many, Sequence):
        return {"type": "array", "items": _schema(arguments[0], shapes)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], shapes)}
    if hint is Any:
        return {}
    if is_typeddict(hint):
        name = name_of(hint)
        if name not in shapes:
            shapes[name] = _object(hint.__doc__, *_members(hint, shapes))
        return _reference(name)
    return {"type": _TYPES[hint]}


if __name__ == "__main__":
    TARGET.write_text(answer_schema(), encoding="utf-8")
