"""``%kernelscope study`` in a real kernel: its line, what is shown, the variable, and an interruption."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
SETUP = f"""
import sys
if {str(HELPERS)!r} not in sys.path:
    sys.path.insert(0, {str(HELPERS)!r})
import time
from pytest import MonkeyPatch
from handmade_studies import COSTS, measured
from stand_in_studies import Studies
from kernelscope import studies
from kernelscope.studies.result import StudyResult
patch = MonkeyPatch()
made = Studies()
made.put_in_place(patch)
"""


@pytest.fixture(autouse=True)
def prepared(notebook: Any) -> Iterator[None]:
    notebook.ok(SETUP)
    yield
    notebook.ok("patch.undo()")


def shown(ran: Any) -> list[dict[str, str]]:
    """What was displayed: the card, the figure."""
    return [content["data"] for kind, content in ran.messages if kind == "display_data"]


def drawn(data: dict[str, str]) -> list[str]:
    """The first words of the titles of the figures in an output."""
    found = re.search(r'data-kind="figures">(.*?)</script>', data["text/html"])
    assert found is not None
    titles = [each["layout"]["title"]["text"] for each in json.loads(found[1])]
    return [re.sub("<[^>]*>", "", each.split("<br>")[0]) for each in titles]


def refused(ran: Any) -> str:
    """The one line of a UsageError."""
    assert ran.status == "error" or "UsageError" in ran.stderr, ran.messages
    assert ran.stderr.strip().count("\n") == 0
    return ran.stderr


@pytest.mark.slow
def test_the_card_is_shown_and_the_figures_on_request(notebook: Any) -> None:
    (card,) = shown(notebook.ok("%kernelscope study launch"))
    assert len(card["text/html"]) < 100_000
    ran = notebook.ok("%kernelscope study --target a=current --target \"b=../some where\" --args 0-4 --dryrun --charts")
    card, figure = shown(ran)
    assert card["text/plain"].startswith("***") and "dry run" in card["text/plain"]
    assert "ks-study" in card["text/html"]
    assert "Launch overhead by number" in figure["text/html"]
    assert drawn(figure) == ["Launch overhead by number of arguments", "Launch overhead, by process",
                             "Launch overhead over the study's time"]
    assert ran.stdout == ran.stderr == ""
    assert notebook.value("made.asked[-1][:2]") == "('launch_overhead', (('a=current', 'b=../some where'), None))"
    assert notebook.value("made.options") == "{'args': '0-4', 'dry_run': True}"
    assert notebook.value("_kernelscope_study is made.result") == "True"


@pytest.mark.slow
def test_a_real_study_shows_its_progress_and_takes_it_away(notebook: Any) -> None:
    notebook.ok("patch.undo()")
    ran = notebook.ok("%kernelscope study --args 0 --processes 5 --repeats 2 --half-width 0")
    progress, card = shown(ran)
    assert progress["text/plain"] and card["text/plain"].startswith("*** dry run")
    updates = [content["data"]["text/plain"] for kind, content in ran.messages if kind == "update_display_data"]
    assert any("process 5 of 5" in each for each in updates) and updates[-1] == ""
    assert notebook.value("[each.processes for each in _kernelscope_study.targets]") == "[5]"


def test_an_anatomy_shows_its_parts_and_where_a_target_spends_more(notebook: Any) -> None:
    notebook.ok("from handmade_anatomies import anatomy\n"
                "from kernelscope.studies.breakdown import AnatomyResult\n"
                "made.result = AnatomyResult(anatomy({'base': {}, 'v2': {'argument 1': 2000.0}}))")
    card, figure = shown(notebook.ok("%kernelscope study anatomy --charts"))
    assert card["text/plain"].startswith("Anatomy of a launch")
    said = drawn(figure)
    assert [each[:each.index(":" if ":" in each else ",")] for each in said] == [
        "Parts of a launch", "Parts of a launch", "Where v2 differs from base"] and len({*said}) == 3
    assert "--fail-over" in refused(notebook.run("%kernelscope study anatomy --fail-over 3%"))


def test_a_case_may_be_a_variable(notebook: Any) -> None:
    notebook.ok("mine = studies.case('k[1, 1](a)')\nrun = lambda: axpy[1, 1](a, 1.0, a)")
    notebook.ok("%kernelscope study --case mine --case run --case graph")
    assert notebook.value("made.asked[-1][1][1] == [mine, run, 'graph']") == "True"


def test_files_and_the_limit(notebook: Any) -> None:
    notebook.ok("made.result = StudyResult(measured({name: COSTS[name] for name in ('baseline', 'contextvar')}))\n"
                "path = 'studied.json'")
    ran = notebook.ok("%kernelscope study -o {path} --fail-over 3%")
    lines = ran.stdout.splitlines()
    assert lines[0] == "kernelscope: wrote studied.json"
    assert len(lines) == 6 and all("over the limit of 3 %" in line for line in lines[1:])
    assert json.loads((notebook.folder / "studied.json").read_text())["format"] == "kernelscope-study"
    ran = notebook.ok("%kernelscope study show studied.json")
    assert "contextvar" in shown(ran)[0]["text/plain"]
    assert notebook.value("_kernelscope_study.measured == made.result.measured") == "True"


@pytest.mark.parametrize(("line", "said"), [
    ("-o missing/x.json", "there is no folder missing"),
    ("against HEAD", "a comparison needs two refs or more"),
    ("show none.json", "none.json"),
])
def test_a_wrong_line_is_one_line(notebook: Any, line: str, said: str) -> None:
    assert said in refused(notebook.run(f"%kernelscope study {line}"))
    assert notebook.value("made.asked") == "[]"


def test_what_a_case_of_the_users_raises_is_shown_as_it_is(notebook: Any) -> None:
    notebook.ok("made.raised = ValueError('mine')")
    assert "ValueError: mine" in notebook.run("%kernelscope study").traceback


def test_help_and_the_list_of_cases_are_printed(notebook: Any) -> None:
    assert "%kernelscope study launch" in notebook.ok("%kernelscope study launch --help").stdout
    assert "Exit codes" in notebook.ok("%kernelscope study -h").stdout
    assert notebook.ok("%kernelscope study --list-cases").stdout.startswith("empty:")
    assert notebook.value("made.asked") == "[]"


def test_an_interruption_shows_what_was_measured_and_ends_the_cell(notebook: Any) -> None:
    notebook.ok("made.interrupt()")
    ran = notebook.run("%kernelscope study\nnever_reached = 1")
    assert "KeyboardInterrupt: the study was interrupted; _kernelscope_study has what was measured" in ran.traceback
    assert "stand_in_studies" not in ran.traceback and len(shown(ran)) == 1
    assert notebook.value("_kernelscope_study is made.result, 'never_reached' in globals()") == "(True, False)"
    notebook.ok("made.interrupt(is_early=True)\ndel _kernelscope_study")
    ran = notebook.run("%kernelscope study")
    assert ran.traceback.splitlines()[-1].startswith("KeyboardInterrupt: nothing was measured") and not shown(ran)
    assert notebook.value("'_kernelscope_study' in globals()") == "False"


def test_a_real_interruption(notebook: Any) -> None:
    notebook.ok("def slow(*arguments, **options):\n    print('ready', flush=True)\n    time.sleep(30)\n"
                "patch.setitem(vars(studies), 'launch_overhead', slow)")
    ran = notebook.run("%kernelscope study", interrupt=True)
    assert "KeyboardInterrupt" in ran.traceback


def test_a_figure_that_fails_is_one_line_under_the_card(notebook: Any) -> None:
    notebook.ok("patch.setattr(StudyResult, 'plot', lambda self, kind: 1 / 0)")
    ran = notebook.ok("%kernelscope study --charts")
    assert len(shown(ran)) == 1
    assert ran.stderr == "kernelscope: the figures cannot be shown: ZeroDivisionError: division by zero\n"


def test_a_terminal_is_told_where_the_figures_are(notebook: Any) -> None:
    notebook.ok("shell = get_ipython()\nkinds = shell.display_formatter.active_types\n"
                "shell.display_formatter.active_types = ['text/plain']")
    ran = notebook.ok("%kernelscope study --charts")
    notebook.ok("shell.display_formatter.active_types = kinds")
    assert ran.stderr == "kernelscope: --charts needs a notebook; _kernelscope_study.figures() has them\n"
    assert notebook.value("len(_kernelscope_study.figures())") == "3"


def test_it_leaves_with_the_extension(notebook: Any) -> None:
    for setup in ("", "made.interrupt()"):
        notebook.ok(setup)
        notebook.run("%kernelscope study")
        assert notebook.value("'_kernelscope_study' in globals()") == "True"
        notebook.ok("%unload_ext kernelscope")
        assert notebook.value("'_kernelscope_study' in globals()") == "False"
        notebook.ok("%load_ext kernelscope")
    notebook.ok("made.raised = None\n%kernelscope study\n_kernelscope_study = 'mine'")
    notebook.ok("%unload_ext kernelscope")
    assert notebook.value("_kernelscope_study") == "'mine'"
