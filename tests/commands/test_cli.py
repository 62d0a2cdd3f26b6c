"""The command line's arguments and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope.commands import cli as commands_cli
from kernelscope.commands import show
from kernelscope.commands.verb import Verb, command_verbs


@pytest.mark.parametrize(("arguments", "said"), [
    ([], "VERB"),
    (["nothing"], "'nothing'"),
    (["shwo"], "did you mean 'show'? See kernelscope --help"),
    (["out.kscope"], "did you mean 'kernelscope show out.kscope'?"),
    (["script.py"], "did you mean 'kernelscope run script.py'?"),
    (["show", "a", "b"], "kernelscope show: error: unrecognized arguments: b; see kernelscope show --help"),
    (["export", "a", "--to", "perfeto"], "did you mean 'perfetto'? See kernelscope export --help"),
    (["study", "launch", "--target", "curent"], "did you mean 'current'?"),
    (["study", "launch", "--target", "numba-cud==0.29"], "did you mean 'numba-cuda==0.29'?"),
    (["graph", "3", "out.kscope"], "'out.kscope' is not a graph's number; FILE.kscope comes before it"),
    (["graph", "a", "--dot", "--svg", "a.svg"], "not allowed with"),
    (["inspect", "a", "--diff", "1", "x"], "'x' is not a number of a specialization"),
    (["inspect", "a", "--specialization", "0"], "'0' is not a number of a specialization"),
    (["inspect", "a", "--diff", "1", "2", "--specialization", "1"], "--diff names both specializations"),
    (["run"], "name a script to run"),
    (["run", "-m"], "name a module to run"),
    (["run", "missing.py"], "there is no file 'missing.py'"),
    (["show", "a", "--cells", "--lines"], "not allowed with"),
    (["show", "a", "--limit", "-1"], "'-1' is not a number of rows"),
])
def test_wrong_arguments_are_one_line_and_code_2(cli: Any, arguments: list[str], said: str) -> None:
    ran = cli(*arguments, code=2)
    assert ran.stderr.count("\n") == 1
    assert said in ran.stderr
    assert "--help" in ran.stderr
    assert ran.stdout == ""


def test_a_file_that_is_not_there_is_answered_with_the_nearest(cli: Any, tmp_path: Path) -> None:
    for name in ("out.kscope", "script.py", "today.json"):
        (tmp_path / name).touch()
    assert "did you mean 'out.kscope'?" in cli("show", "out.kscop", code=1).stderr
    assert "did you mean 'out.kscope'?" in cli("export", "ouut.kscope", "--to", "html", code=1).stderr
    assert "did you mean 'today.json'?" in cli("study", "show", "todya.json", code=1).stderr
    assert "did you mean 'script.py'? See kernelscope run --help" in cli("run", "scrip.py", code=2).stderr
    assert ("did you mean 'kernelscope inspect out.kscope axpy'? See kernelscope inspect --help"
            in cli("inspect", "axpy", "out.kscope", code=2).stderr)


def test_names_that_are_not_recorded_are_answered_with_the_nearest(cli: Any, recorded: Path) -> None:
    assert "did you mean 'axpy'?" in cli("inspect", str(recorded), "axpi", code=1).stderr
    assert "did you mean 'first'?" in cli("show", str(recorded), "--cell", "frist", code=1).stderr


def test_a_recording_is_not_run_and_stays(cli: Any, recorded: Path, tmp_path: Path) -> None:
    before = (tmp_path / "out.kscope").write_bytes(recorded.read_bytes())
    ran = cli("run", "out.kscope", code=2)
    assert "did you mean 'kernelscope show out.kscope'?" in ran.stderr
    assert (tmp_path / "out.kscope").stat().st_size == before
    (tmp_path / "folder").mkdir()
    assert "a folder without a __main__.py" in cli("run", "folder", code=2).stderr
    assert not (tmp_path / "folder.kscope").exists()
    (tmp_path / "empty.py").touch()
    assert "'x.html' is the name of an export" in cli("run", "-o", "x.html", "empty.py", code=1).stderr


def test_a_recording_is_no_study(cli: Any, recorded: Path) -> None:
    assert "it is a zip and no study" in cli("study", "show", str(recorded), code=1).stderr


def test_version_and_help(cli: Any, process: Any) -> None:
    assert process("--version").stdout == f"kernelscope {kernelscope.__version__}\n"
    listed = [line.split()[0] for line in cli("--help").stdout.splitlines() if line.startswith("    ")]
    assert listed[:len(command_verbs())] == [*command_verbs()]
    for verb, word in (("run", "-m module"), ("show", "left_out"), ("demo", "--out"), ("doctor", "--json")):
        assert word in cli(verb, "--help").stdout


def test_help_loads_nothing_large(run_python: Any) -> None:
    ran = run_python(
        "import sys, kernelscope.commands.cli as cli\n"
        "for words in ('--help', 'run --help', 'study launch --help'):\n"
        "    try:\n        cli.main(words.split())\n    except SystemExit:\n        pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('numpy', 'numba', 'pyarrow', 'IPython')\n"
        "       or name.startswith('kernelscope.studies')])", KERNELSCOPE_DRYRUN="0")
    assert ran.stdout.endswith("[]\n")


def test_an_interrupt_is_one_line(recorded: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: Any) -> int:
        raise KeyboardInterrupt

    verb = Verb(lambda parser, _: parser.add_argument("file"), interrupted)
    monkeypatch.setitem(show.VERBS, "show", verb)
    assert commands_cli.main(["show", str(recorded)]) == 130
    assert capsys.readouterr().err == "kernelscope: interrupted\n"
