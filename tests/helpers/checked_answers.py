"""Holds answers for programs against the schema of answers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "answer.schema.json"


@cache
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def checked(text: str, *, is_whole: bool = False) -> dict[str, Any]:
    """An answer, which is valid and, unless all of it was asked for, short."""
    found: dict[str, Any] = json.loads(text)
    name = f"answer_{found['kind']}" if "kind" in found else "error"
    errors = [f"{each.json_path}: {each.message}" for each in validator().descend(
        found, {"$ref": f"#/$defs/{name}"})]
    assert errors == []
    assert is_whole or len(text) < 32_000
    return found
