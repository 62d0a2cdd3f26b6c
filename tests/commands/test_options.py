"""The options of a recording: one field each, seen wherever they can be given."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope.recorder.options import CELL, ON, RUN, RecordingOptions, add_arguments

NEW = """
    tempo: str = field(default="slow", metadata=option(
        "how fast to play it", flag("--tempo"), choices=("slow", "fast")))
    mode: str ="""
SEEN = """
import contextlib, inspect, io, sys
import kernelscope
from kernelscope.commands import cli
from kernelscope.commands.magics import run_line
from IPython.core.interactiveshell import InteractiveShell

assert kernelscope.__file__.startswith(sys.argv[1]), kernelscope.__file__
for function in (kernelscope.record, kernelscope.Recorder, kernelscope.recorded):
    assert inspect.signature(function).parameters["tempo"].default == "slow"
    assert "tempo : str\\n    How fast to play it." in inspect.getdoc(function)
assert kernelscope.record(tempo="fast").options.tempo == "fast"
try:
    kernelscope.record(tempo="medium")
except ValueError as error:
    assert str(error) == "tempo 'medium' is not one of slow, fast"

def said(run):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        run()
    return out.getvalue()

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "kernelscope")
for run in (lambda: cli.main(["run", "--help"]), lambda: shell.run_line_magic("kernelscope", "on --help"),
            lambda: shell.run_cell_magic("kernelscope", "--help", "1")):
    assert "--tempo {slow,fast}" in " ".join(said(run).split())
shell.run_cell("%%kernelscope -q --tempo fast\\nimport kernelscope.recorder.session\\n"
               "tempo = kernelscope.recorder.session.Session.active.options.tempo")
assert shell.user_ns["tempo"] == "fast"
"""


@pytest.mark.slow
def test_one_field_is_an_option_everywhere(tmp_path: Path, run_python: Any) -> None:
    """In a copy of the package in which one line of one file is new."""
    package = Path(kernelscope.__file__).parent
    shutil.copytree(package, tmp_path / "kernelscope", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "kernelscope" / "recorder" / "options.py"
    text = file.read_text(encoding="utf-8")
    assert text.count("\n    mode: str =") == 1
    file.write_text(text.replace("\n    mode: str =", NEW), encoding="utf-8")
    run_python(SEEN, str(tmp_path), PYTHONPATH=str(tmp_path))


@pytest.mark.parametrize("place", [RUN, CELL, ON])
def test_a_line_without_words_asks_for_the_defaults(place: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, place)
    assert RecordingOptions.of(parser.parse_args([])) == RecordingOptions()


@pytest.mark.parametrize(("words", "journal"), [
    ("--journal", True), ("--journal-folder x", "x"), ("--journal --journal-folder x", "x"),
    ("--journal-folder x --journal", "x"), ("", None)])
def test_a_folder_implies_a_journal(words: str, journal: bool | str | None) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, RUN)
    assert RecordingOptions.of(parser.parse_args(words.split())).journal == journal


def test_a_value_that_there_is_not_is_refused_where_a_function_is_recorded() -> None:
    def function() -> None: ...

    with pytest.raises(ValueError, match="mode 'shrink' is not one of grow, ring, stop"):
        kernelscope.recorded(mode="shrink")(function)
    with pytest.raises(TypeError, match="'warm-up' is none: options are given by their names"):
        kernelscope.recorded("warm-up")
    assert kernelscope.recorded(function).recording is None  # type: ignore[attr-defined]
