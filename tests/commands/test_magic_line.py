"""What the magics' lines accept, and how a cell's text is read."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from kernelscope.commands.cell import (
    CellOptions,
    cleaned,
    native_options,
    only_manages,
    parse_cell,
    without_heading,
)
from kernelscope.commands.magics import parse_line
from kernelscope.commands.verb import HelpAsked, magic_verbs
from kernelscope.recorder.options import RecordingOptions


@pytest.mark.parametrize(("line", "recording", "options"), [
    ("", {}, {}),
    ('--name "warm up" -q', {"name": "warm up"}, {"quiet": True}),
    ("-n <b>x</b> -o out.kscope", {"name": "<b>x</b>"}, {"output": "out.kscope"}),
    ("-r --detail launch --no-timeline", {"detail": "launch"}, {"returns": True, "timeline": False}),
    ("-n ''", {}, {}),
    ("--charts --code -n #1", {"name": "#1", "code": True}, {"charts": True}),
    ("--no-gpu", {"gpu": "none"}, {}),
    ("--events", {"gpu": "events"}, {}),
    ("--mode ring --capacity 10", {"mode": "ring", "capacity": 10}, {}),
    ("--journal -q", {"journal": True}, {"quiet": True}),
    ("--journal '/a b'", {"journal": "/a b"}, {}),
])
def test_a_cell_line_is_parsed(line: str, recording: dict[str, Any], options: dict[str, Any]) -> None:
    assert parse_cell(line) == CellOptions(RecordingOptions(**recording), **options)


@pytest.mark.parametrize(("line", "said"), [
    ("--foo", "unrecognized arguments: --foo; see"),
    ("--detial launch", "unrecognized arguments: --detial launch; did you mean '--detail'? See"),
    ("--mode=rign", "did you mean 'ring'? See"),
    ("extra", "unrecognized arguments: extra; code begins on the next line, and a name follows -n"),
    ("-q -n warm up phase -r", 'unrecognized arguments: up phase; quote what has spaces: -n "warm up phase"'),
    ("-n up up", 'quote what has spaces: -n "up up"'),
    ("on", "unrecognized arguments: on; %kernelscope on has one percent sign"),
    ("-n", "expected one argument"),
    ("-n it's", "no closing quotation"),
    ("--no-gpu --events", "not allowed with argument --no-gpu"),
    ("--capacity many --mode ring", "invalid int value: 'many'"),
    ("--capacity 10", "capacity 10 is for mode 'ring' or 'stop'"),
    ("--capacity 0 --mode ring", "capacity 0 is no number of launches"),
])
def test_a_wrong_cell_line_is_one_line_that_says_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cell(line)
    message = str(caught.value)
    assert said in message
    assert message.endswith("ee %%kernelscope?")
    assert "\n" not in message


@pytest.mark.parametrize(("line", "verb", "found"), [
    ("", None, {}), ("status", "status", {}), ("report", "report", {"cell": None}),
    ('report "warm up"', "report", {"cell": "warm up"}), ("graph 3", "graph", {"graph": 3}),
    ("save all", "save", {"file": "all"}), ("export out --to csv", "export", {"path": "out", "to": "csv"}),
    ("recover '/a b' --remove", "recover", {"folder": "/a b", "remove": True, "output": None}),
    ("attach kernels['a b'][-h]", "attach", {"kernel": "kernels['a b'][-h]"}),
    ("on", "on", {"quiet": False, "journal": None, "detail": "phases"}),
    ("on -q --detail launch --no-journal", "on", {"quiet": True, "journal": False, "detail": "launch"}),
    ("study", "study", {"study": "launch", "args": None}),
    ("study --args 0 --charts", "study", {"study": "launch", "args": "0", "charts": True}),
    ("study show x.json", "study", {"study": "show", "file": "x.json"}),
])
def test_a_line_is_parsed(line: str, verb: str | None, found: dict[str, Any]) -> None:
    name, asked = parse_line(line)
    assert (name, {each: getattr(asked, each) for each in found}) == (verb, found)


@pytest.mark.parametrize(("line", "said"), [
    ("nothing", "no sub-command 'nothing'; known: on, off, status, cells"),
    ("Timline 3 --cell 4", "no sub-command 'Timline'; did you mean 'timeline'? See %kernelscope help"),
    ("axpy[1, 1](a)", "no sub-command 'axpy[1,'; to record a cell, begin it with %%kernelscope"),
    ("-q", "no sub-command '-q'; -q is an option of %kernelscope on and %%kernelscope; see %kernelscope help"),
    ("on --detial launch", "did you mean '--detail'? See %kernelscope on --help"),
    ("on --detail all", "invalid choice: 'all'"),
    ("save", "the following arguments are required: FILE; see %kernelscope save --help"),
    ("off now", "unrecognized arguments: now; see %kernelscope off --help"),
    ("save a b", 'unrecognized arguments: b; quote what has spaces: "a b"'),
    ("cells --journal", "--journal is an option of %kernelscope on and %%kernelscope"),
    ("cells --no-journal", "--no-journal is an option of %kernelscope on; see %kernelscope cells --help"),
    ("report --charts", "--charts is an option of %%kernelscope; see"),
    ("export x --to perfeto", "did you mean 'perfetto'? See %kernelscope export --help"),
    ("graph x", "'x' is not a graph's number; see %kernelscope graph --help"),
    ("whatif", "the following arguments are required: graph"),
    ("whatif grahp", "invalid choice: 'grahp' (choose from"),
    ("study launch --case a b", 'unrecognized arguments: b; quote what has spaces: --case "a b"; see'),
    ("study launch extra", "unrecognized arguments: extra; see %kernelscope study launch --help"),
    ("study launch --json", "--json; see %kernelscope study launch --help"),
    ("study --target 'a", "no closing quotation in \"--target 'a\"; see %kernelscope study --help"),
])
def test_a_wrong_line_is_one_line_that_says_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", [f"{verb} {option}" for verb in magic_verbs() for option in ("-h", "--help")])
def test_every_verb_has_a_help(line: str) -> None:
    with pytest.raises(HelpAsked, match=f"usage: %kernelscope {line.split()[0]} "):
        parse_line(line)


def test_help_of_a_cell_is_no_recorded_cell() -> None:
    with pytest.raises(HelpAsked, match="usage: %%kernelscope .*-n NAME"):
        parse_cell("--help")
    assert native_options(["%%kernelscope --help\n", "x = 1\n"]) is None


@pytest.mark.parametrize("cell", [
    "%%kernelscope\nx = 1\n",
    "%%kernelscope -n a -q\n\n\nx = 1\n",
    "%%kernelscope -r   \nx = 1\n",
])
def test_a_recorded_cell_keeps_its_line_numbers(cell: str) -> None:
    lines = cell.splitlines(keepends=True)
    assert without_heading(lines) == ["\n", *lines[1:]]


@pytest.mark.parametrize("body", [
    "    x = 1\n    y = 2\n", "\tx = 1\n", "\n\n    x = 1\n      \n    if x:\n        y = 2\n",
    "    # a comment\n\n    x = 1\n", "  x = 1\ny = 2\n", "    !ls\n    %time x = 1\n", "    x?\n",
    "    >>> x = 1\n    >>> y = 2\n", "    s = '''\n  a\n'''\n", "    In [1]: x = 1\n    ...: y = 2\n",
])
def test_a_body_is_what_ipython_makes_of_a_cell_of_its_own(body: str) -> None:
    plain, recorded = TransformerManager(), TransformerManager()
    recorded.cleanup_transforms.append(without_heading)
    missing = 1 + len(body) - len(body.lstrip("\n"))  # a cell's leading empty lines are left out by IPython
    assert recorded.transform_cell(f"%%kernelscope -q\n{body}") == "\n" * missing + plain.transform_cell(body)


def test_an_indented_cell_magic_that_follows_becomes_the_first_line() -> None:
    assert without_heading(["%%kernelscope\n", "\n", "  %%time\n", "  x = 1\n"]) == ["%%time\n", "x = 1\n"]
    assert without_heading(["%%kernelscope\n", "%%!\n", "ls\n"]) == ["%%!\n", "ls\n"]


def test_only_a_single_line_is_read_by_what_its_names_mean() -> None:
    def called(text: str) -> str:
        return f"called({text.strip()!r})\n"

    assert without_heading(["%%kernelscope\n", "\n", "  pwd\n", "\n"], called) == ["\n", "\n", "called('pwd')\n"]
    assert without_heading(["%%kernelscope\n", "pwd\n", "x\n"], called) == ["\n", "pwd\n", "x\n"]
    assert without_heading(["%%kernelscope\n", "%%time\n"], called) == ["%%time\n"]


def test_a_cell_magic_that_follows_becomes_the_first_line() -> None:
    assert without_heading(["%%kernelscope -q\n", "\n", "%%time\n", "x = 1\n"]) == ["%%time\n", "x = 1\n"]


@pytest.mark.parametrize("cell", [
    "", "x = 1\n", "x = '''\n%%kernelscope\n'''\n", "%%time\n%%kernelscope\nx = 1\n", "%%kernelscope\n",
    "%%kernelscope\n\n",
    "%%kernelscope --foo\nx = 1\n", "%%kernelscope?\n", "%%kernelscope?\nx = 1\n", "%%kernelscopes\nx = 1\n",
    "# comment\n%%kernelscope\nx = 1\n", "%kernelscope on\n", "%%kernelscope -n it's\nx = 1\n",
])
def test_other_cells_are_left_as_they_are(cell: str) -> None:
    lines = cell.splitlines(keepends=True)
    assert native_options(lines) is None
    assert without_heading(lines) == lines


@pytest.mark.parametrize("cell", [
    "\n\n  %%kernelscope -n a\n  x = 1\n", "In [1]: %%kernelscope -n a\n   ...: x = 1\n",
    ">>> %%kernelscope -n a\n>>> x = 1\n",
])
def test_indentation_and_prompts_are_no_obstacle(cell: str) -> None:
    manager = TransformerManager()
    manager.cleanup_transforms.append(without_heading)
    assert manager.transform_cell(cell) == "\nx = 1\n"
    lines = cleaned(cell, manager.cleanup_transforms, without_heading)
    assert native_options(lines) == CellOptions(RecordingOptions("a"))


def test_transforms_with_side_effects_are_not_run_again() -> None:
    def counts(lines: list[str]) -> list[str]:
        raise AssertionError("it was run")

    counts.has_side_effects = True  # type: ignore[attr-defined]
    assert cleaned("x\n", [counts, without_heading], without_heading) == ["x\n"]


@pytest.mark.parametrize(("cell", "manages"), [
    ("%kernelscope cells", True), ("# all\n\n%kernelscope cells\n%kernelscope off", True),
    ("%reload_ext kernelscope", True), ("%load_ext kernelscope\n%kernelscope on", True), ("%load_ext other", False),
    ("x = 1\n%kernelscope off", False),
    ("%kernelscopes", False),
])
def test_cells_that_only_manage_are_recognized(cell: str, manages: bool) -> None:
    assert only_manages(cell.splitlines()) is manages
