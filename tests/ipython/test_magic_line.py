"""What the magics' lines accept, and how a cell's text is read."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from kernelscope.commands import session
from kernelscope.commands.session import (
    CellOptions,
    automatic,
    native_options,
    parse_cell,
    parse_line,
    without_heading,
)
from kernelscope.native.log import MODES
from kernelscope.probes.base import DETAILS


@pytest.mark.parametrize(("line", "options"), [
    ("", CellOptions()),
    ("-n first", CellOptions(name="first")),
    ('--name "warm up" -q', CellOptions(name="warm up", quiet=True)),
    ("-n <b>x</b> -o out.kscope", CellOptions(name="<b>x</b>", output="out.kscope")),
    ("-r --detail launch --no-timeline", CellOptions(returns=True, detail="launch", timeline=False)),
    ("-n ''", CellOptions()),
    ("--charts", CellOptions(charts=True)),
    ("--code -q", CellOptions(code=True, quiet=True)),
    ("-n #1", CellOptions(name="#1")),
    ("--mode ring --capacity 10", CellOptions(mode="ring", capacity=10)),
    ("--mode stop", CellOptions(mode="stop")),
    ("--journal -q", CellOptions(journal=True, quiet=True)),
    ("--journal '/a b'", CellOptions(journal="/a b")),
])
def test_a_cell_line_is_parsed(line: str, options: CellOptions) -> None:
    assert parse_cell(line) == options


@pytest.mark.parametrize(("line", "said"), [
    ("--foo", "unrecognized arguments: --foo; see"),
    ("--detial launch", "unrecognized arguments: --detial launch; did you mean '--detail'? See"),
    ("--mode=rign", "invalid choice: 'rign'"),
    ("--mode=rign", "did you mean 'ring'? See"),
    ("extra", "unrecognized arguments: extra; code begins on the next line, and a name follows -n"),
    ("-q -n warm up phase -r", 'unrecognized arguments: up phase; quote what has spaces: -n "warm up phase"'),
    ("-o my file.kscope", 'quote what has spaces: -o "my file.kscope"'),
    ("-n up up", 'quote what has spaces: -n "up up"'),
    ("on", "unrecognized arguments: on; %kernelscope on has one percent sign"),
    ("-n", "expected one argument"),
    ("--detail all", "invalid choice: 'all'"),
    ("-n it's", "no closing quotation"),
    ("--mode shrink", "invalid choice: 'shrink'"),
    ("--capacity many --mode ring", "invalid int value: 'many'"),
    ("--capacity 10", "--capacity 10 belongs to --mode ring or stop"),
    ("--capacity 0 --mode ring", "--capacity 0 is no number of launches, from 1"),
])
def test_a_wrong_cell_line_is_one_line_that_says_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cell(line)
    message = str(caught.value)
    assert said in message
    assert message.endswith("ee %%kernelscope?")
    assert "\n" not in message


@pytest.mark.parametrize(("line", "command", "target"), [
    ("", None, None), ("on", "on", None), ("status", "status", None), ("report", "report", None),
    ("report 3", "report", "3"), ('report "warm up"', "report", "warm up"), ("save all", "save", "all"),
    ("attach axpy", "attach", "axpy"), ("recover", "recover", None),
    ("recover '/a b' --remove", "recover", "'/a b' --remove"),
])
def test_a_line_is_parsed(line: str, command: str | None, target: str | None) -> None:
    found = parse_line(line)
    assert (found.command, found.target) == (command, target)


def test_export_takes_a_format() -> None:
    found = parse_line("export out --to csv")
    assert (found.command, found.target, found.to) == ("export", "out", "csv")
    for line, said in (("export", "the PATH is missing; usage: %kernelscope export PATH [--to perfetto|html|"),
                       ("save x --to csv", "--to can follow 'export' only"), ("export x --to excel", "invalid choice"),
                       ("export x --to perfeto", "did you mean 'perfetto'? See %kernelscope help export")):
        with pytest.raises(UsageError) as caught:
            parse_line(line)
        assert said in str(caught.value)


def test_on_takes_options() -> None:
    found = parse_line("on -q --detail launch")
    assert (found.quiet, found.detail, found.code) == (True, "launch", None)
    assert parse_line("on --code").code is True
    found = parse_line("on --mode ring --capacity 5")
    assert (found.mode, found.capacity) == ("ring", 5)
    assert automatic(found) == CellOptions(mode="ring", capacity=5)
    assert automatic(parse_line("on")) == CellOptions()


@pytest.mark.parametrize(("line", "said"), [
    ("nothing", "no sub-command 'nothing'; known: on, off, status, cells"),
    ("onn", "no sub-command 'onn'; did you mean 'on'? See %kernelscope help"),
    ("Timline 3 --cell 4", "no sub-command 'Timline'; did you mean 'timeline'? See %kernelscope help"),
    ("axpy[1, 1](a)", "no sub-command 'axpy[1,'; to record a cell, begin it with %%kernelscope"),
    ("help nothing", "no sub-command 'nothing'; known: on"),
    ("-n first", "-n is an option of %%kernelscope, which records its cell; see %kernelscope help"),
    ("on --detial launch", "did you mean '--detail'? See %kernelscope help on"),
    ("save", "FILE is missing; usage: %kernelscope save FILE"),
    ("attach", "KERNEL is missing"),
    ("off now", "unexpected 'now'; usage: %kernelscope off"),
    ("save a b", 'unrecognized arguments: b; quote what has spaces: %kernelscope save "a b"'),
    ("cells -q", "-q can follow 'on' only; see %kernelscope help on"),
    ("report --code", "--code can follow 'on' only"),
    ("cells --no-journal", "--no-journal can follow 'on' only"),
    ("cells --journal", "--journal can follow 'on' only"),
    ("--code", "--code can follow 'on' only"),
    ("--capacity 5", "--capacity can follow 'on' only"),
    ("cells --mode ring", "--mode can follow 'on' only"),
    ("on --capacity 5", "--capacity 5 belongs to --mode ring or stop; see %kernelscope help on"),
    ("-q", "-q can follow 'on' only"),
    ("on --detail all", "invalid choice: 'all'"),
])
def test_a_wrong_line_is_one_line_that_says_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_details_are_the_probes_own() -> None:
    assert (session.DETAILS, session.MODES) == (DETAILS, MODES)


def test_help_comes_from_the_code() -> None:
    cell, line = session.cell_arguments.__doc__ or "", session.line_arguments.__doc__ or ""
    assert "%%kernelscope [-n NAME]" in cell
    assert "--no-timeline" in cell
    assert all(command in line for command in session.COMMANDS)


@pytest.mark.parametrize(("line", "word"), [
    ("help", None), ("help on", "on"), ("-h", None), ("--help", None), ("on --help", "on"), ("inspect -h", "inspect"),
])
def test_help_is_asked_for_in_several_ways(line: str, word: str | None) -> None:
    found = parse_line(line)
    assert (found.command, found.target) == ("help", word)


def test_help_has_a_line_for_each_word_and_the_options_of_one() -> None:
    lines = session.help_text().splitlines()
    assert [line.split()[0] for line in lines[1:lines.index("")]] == list(session.COMMANDS)
    assert "%kernelscope help on" not in session.help_text("save")
    assert session.help_text("save").splitlines()[0] == "%kernelscope save FILE"
    said = session.help_text("on")
    assert "-q, --quiet: show no cards" in said and "--no-journal: keep no journal" in said and "--to" not in said


def test_an_expression_may_have_what_looks_like_an_option() -> None:
    assert parse_line("attach kernels[-h]").target == "kernels[-h]"


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
    lines = session.cleaned(cell, manager.cleanup_transforms, without_heading)
    assert native_options(lines) == CellOptions(name="a")


def test_transforms_with_side_effects_are_not_run_again() -> None:
    def counts(lines: list[str]) -> list[str]:
        raise AssertionError("it was run")

    counts.has_side_effects = True  # type: ignore[attr-defined]
    assert session.cleaned("x\n", [counts, without_heading], without_heading) == ["x\n"]


@pytest.mark.parametrize(("cell", "manages"), [
    ("%kernelscope cells", True), ("# all\n\n%kernelscope cells\n%kernelscope off", True),
    ("%reload_ext kernelscope", True), ("%load_ext kernelscope\n%kernelscope on", True), ("%load_ext other", False),
    ("x = 1\n%kernelscope off", False),
    ("%kernelscopes", False),
])
def test_cells_that_only_manage_are_recognized(cell: str, manages: bool) -> None:
    assert session.only_manages(cell.splitlines()) is manages
