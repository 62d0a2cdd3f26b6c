"""The command line's arguments and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope import cli as command_line


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "VERB"),
    (["nothing"], "'nothing'"),
    (["run"], "name a script to run"),
    (["run", "-m"], "name a module to run"),
    (["run", "--detail", "all", "x.py"], "invalid choice: 'all'"),
    (["run", "missing.py"], "there is no file 'missing.py'"),
    (["run", "--nothing", "x.py"], "unrecognized arguments: --nothing"),
    (["show"], "FILE.kscope"),
    (["show", "a", "--cells", "--json"], "not allowed with"),
    (["show", "a", "--limit", "-1"], "'-1' is not a number of rows"),
    (["doctor", "extra"], "unrecognized arguments: extra"),
])
def test_wrong_arguments_are_one_line_and_code_2(cli: Any, arguments: list[str], said: str) -> None:
    ran = cli(*arguments, code=2)
    assert ran.stderr.count("\n") == 1
    assert said in ran.stderr
    assert "--help" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("arguments", [["show", "missing"], ["demo", "--notebook", "missing.ipynb"]])
def test_our_errors_are_one_line_and_code_1(cli: Any, arguments: list[str]) -> None:
    ran = cli(*arguments, code=1)
    assert ran.stderr.startswith("kernelscope: ")
    assert ran.stderr.count("\n") == 1


def test_version_and_help(cli: Any) -> None:
    assert cli("--version").stdout == f"kernelscope {kernelscope.__version__}\n"
    assert "doctor" in cli("--help").stdout
    for verb, word in (("run", "-m module"), ("show", "schema_version"), ("demo", "--out"), ("doctor", "--json")):
        assert word in cli(verb, "--help").stdout


def test_main_returns_the_exit_code(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["show", str(recorded), "--cells"]) == 0
    assert "first" in capsys.readouterr().out
    assert command_line.main(["show", "missing"]) == 1


def test_an_interrupt_is_one_line(recorded: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelscope.cli_show.main", interrupted)
    assert command_line.main(["show", str(recorded)]) == 130
    assert capsys.readouterr().err == "kernelscope: interrupted\n"
