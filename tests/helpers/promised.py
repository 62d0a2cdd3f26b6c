"""What is public and must stay: names, arguments, columns, words and options, as ``tests/architecture/promised.json``.

``python tests/helpers/promised.py`` from the repository's root adds to that file what is new; it is run for a release.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope.analysis.advice import rules
from kernelscope.commands import cell, cli, verb
from kernelscope.schema import TABLES, Column
from kernelscope.views.answer import SCHEMA, VERSION

FILE = Path(__file__).resolve().parents[1] / "architecture" / "promised.json"
#: Packages and modules that list their names.
LISTED = ("dask", "dryrun", "graphs", "ipyparallel", "studies")


def promised() -> dict[str, dict[str, list[str]]]:
    """Return what is public today: of each subject the names, and of each name what belongs to it."""
    names = {f"kernelscope.{name}": getattr(kernelscope, name) for name in kernelscope.__all__}
    for room in LISTED:
        module = getattr(kernelscope, room)
        names |= {f"kernelscope.{room}.{name}": getattr(module, name) for name in module.__all__}
    methods = {f"{owner.__name__}.{name}": value for owner in (kernelscope.Recording, kernelscope.Recorder)
               for name, value in inspect.getmembers(owner) if not name.startswith("_")}
    magics = {name: _words(verb.notebook_parser(name, verb.load_verb(name))) for name in verb.magic_verbs()}
    return {
        "names and their arguments": {name: _arguments(name, value) for name, value in {**names, **methods}.items()},
        "columns": {table.name: [_column(each) for each in table.columns] for table in TABLES.values()},
        "command line": dict(_options(cli.parser_of())),
        "magics": {**magics, "%%kernelscope": _words(cell.cell_parser())},
        "answers": {SCHEMA: [f"version {VERSION}"]},
        "advice": {code: [] for code in rules()},
    }


def gone(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what was promised and is not there, or is another."""
    found: list[str] = []
    for subject, names in before.items():
        for name, parts in names.items():
            has = now[subject].get(name)
            missing = [""] if has is None else [part for part in parts if part not in has]
            found += [f"{subject}: {name} {each}".rstrip() for each in missing]
    return found


def written(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the file's text, of what was promised and what is new: a line for each name."""
    subjects: list[str] = []
    for subject, names in now.items():
        old = before.get(subject, {})
        lines = [f"  {json.dumps(name)}: {json.dumps(sorted({*old.get(name, ()), *names.get(name, ())}))}"
                 for name in sorted({*old, *names})]
        subjects.append(f" {json.dumps(subject)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(subjects) + "\n}\n"


def _column(column: Column) -> str:
    return " ".join(filter(None, (column.name, column.dtype, column.unit, "null" * column.nullable)))


def _arguments(name: str, value: Any) -> list[str]:
    if name == "kernelscope.annotate" or not callable(value) or (  # nvtx's own
            inspect.isclass(value) and issubclass(value, BaseException)):
        return []
    return [each for each in inspect.signature(value).parameters if each != "self"]


def _options(parser: argparse.ArgumentParser, place: str = "kernelscope") -> list[tuple[str, list[str]]]:
    below = [each for action in parser._actions if isinstance(action, argparse._SubParsersAction)
             for each in action.choices.items()]
    return [(place, _words(parser)), *(each for name, verb in below for each in _options(verb, f"{place} {name}"))]


def _words(parser: argparse.ArgumentParser) -> list[str]:
    return [word for action in parser._actions for word in action.option_strings]


if __name__ == "__main__":
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    FILE.write_text(written(kept, promised()), encoding="utf-8")
    print(f"wrote {FILE}")
