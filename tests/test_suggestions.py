"""What a mistyped word was probably meant to be."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

import pytest

from kernelscope.suggestions import did_you_mean, did_you_mean_file, explained, nearest, parse_arguments, see


def test_the_nearest_comes_first_and_case_does_not_matter() -> None:
    assert nearest("ON", ["off", "on", "open"], 2) == ["on", "open"]
    assert nearest("Axpi", ["saxpy", "axpy"]) == ["axpy"]
    assert nearest("nothing like it", ["on", "off"]) == []


def test_texts_that_are_no_mistyped_words_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare takes the product of the lengths."""
    compared: list[int] = []
    original = difflib.SequenceMatcher.set_seq1
    monkeypatch.setattr(difflib.SequenceMatcher, "set_seq1", lambda self, text: (
        compared.append(len(text)), original(self, text))[1])
    assert nearest("x" * 60_000, ["x" * 59_999]) == [] and nearest("axpi", ["x" * 60_000, "axpy"]) == ["axpy"]
    assert max(compared) <= 200


def test_a_message_s_end() -> None:
    assert did_you_mean("onn", ["on", "off"]) == "; did you mean 'on'?"
    assert did_you_mean("steam", ["stream", "streams"], 2) == "; did you mean 'stream' or 'streams'?"
    assert did_you_mean("steam", []) == ""


def test_files_are_compared_without_their_suffix(tmp_path: Path) -> None:
    for name in ("out.kscope", "second.kscope", "outt.json"):
        (tmp_path / name).touch()
    (tmp_path / "outtt.kscope").mkdir()
    assert did_you_mean_file(tmp_path / "outt.kscop", ".kscope") == f"; did you mean {str(tmp_path / 'out.kscope')!r}?"
    assert did_you_mean_file(tmp_path / "axpy.kscope", ".kscope") == ""
    assert did_you_mean_file(tmp_path / "missing" / "out.kscope", ".kscope") == ""


def test_where_to_read_more() -> None:
    assert see("a\n b", "x --help") == "a b; see x --help"
    assert see("a; did you mean b?", "x --help") == "a; did you mean b? See x --help"


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> None:  # type: ignore[override]
            raise ValueError(f"{self.prog}: {explained(self, message)}")

    parser = Parser(prog="tool", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb")
    show = verbs.add_parser("show")
    show.add_argument("--detail", choices=("launch", "phases"))
    show.add_argument("--launches", action="store_true")
    show.set_defaults(parser=show)
    verbs.add_parser("plain")
    return parser


@pytest.mark.parametrize(("words", "said"), [
    (["shwo"], "tool: argument verb: invalid choice: 'shwo' .*; did you mean 'show'\\?$"),
    (["quite other"], "tool: argument verb: invalid choice: 'quite other' .*\\)$"),
    (["show", "--detail", "phase"], "tool show: argument --detail: invalid choice: 'phase' .*; did you mean 'phases'"),
    (["show", "--launchs"], "tool show: unrecognized arguments: --launchs; did you mean '--launches'\\?$"),
    (["show", "-detail=phases"], "did you mean '--detail'\\?$"),
    (["show", "extra", "--lunches"], "tool show: unrecognized arguments: extra --lunches; did you mean '--launches'"),
    (["show", "extra"], "tool show: unrecognized arguments: extra$"),
    (["plain", "extra"], "tool: unrecognized arguments: extra$"),
])
def test_what_argparse_refuses_is_reported_by_the_verb_with_the_nearest(
        parser: argparse.ArgumentParser, words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_arguments(parser, words)


def test_right_arguments_are_parsed(parser: argparse.ArgumentParser) -> None:
    assert parse_arguments(parser, ["show", "--detail", "launch"]).detail == "launch"
