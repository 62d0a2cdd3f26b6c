"""The options of a recording: one field each, seen wherever they can be given."""

from __future__ import annotations

import argparse

import pytest

import kernelscope
from kernelscope.recorder.option import CELL, ON, RUN
from kernelscope.recorder.options import RecordingOptions, add_arguments


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
