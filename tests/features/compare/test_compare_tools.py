"""The tools compare and history of ``kernelscope mcp``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_fixtures import ODD, RECORDINGS, Ask, one_line

import kernelscope.commands.mcp as mcp_command
from kernelscope import Recording, load
from kernelscope.commands.mcp import Folder
from kernelscope.features.compare.tools import compare, history
from kernelscope.views.answer import MOST_LETTERS


def test_two_recordings_and_cells_of_them(folder: Path) -> None:
    served = Folder(folder)
    names = "below/quickstart.kscope", "specializations.kscope"
    found = json.loads(compare(served, None, *names)[0])
    assert [found[side]["recording"] for side in ("before", "after")] == [*names]
    one = json.loads(compare(served, None, *names, "first launches", limit=2)[0])
    assert one["after"]["recording"] == "In [1] first launches of specializations.kscope"
    assert one["totals"]["after"]["launches"] < found["totals"]["after"]["launches"]
    assert "no recorded cell 'none'" in compare(served, None, *names, "none")[0]
    runs = json.loads(history(served, None, "first launches")[0])
    assert len(runs["runs"]) == 2  # what a second name leads to is the same run
    assert len(runs["missing"]) == 1 and "torn.kscope" in runs["missing"][0]
    assert history(served, None, "none")[1]


QUESTIONS: dict[str, Callable[[Folder, Any], tuple[str, bool]]] = {
    "compare": lambda served, value: compare(served, None, value, "ok.kscope"),
    "compare cells": lambda served, value: compare(served, None, "ok.kscope", "ok.kscope", value),
    "compare with a cell": lambda served, value: compare(served, None, "ok.kscope", "ok.kscope", "", value),
    "history": lambda served, value: history(served, None, value),
    "history with a limit": lambda served, value: history(served, None, "first launches", value),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_an_answer_whatever_is_asked(hostile: Path, question: str) -> None:
    served = Folder(hostile)
    for value in ODD:
        text, is_error = QUESTIONS[question](served, value)
        assert len(text) <= MOST_LETTERS and text.isascii()
        if is_error:
            one_line(text, hostile)


def test_links_to_themselves_pipes_and_odd_names_stop_no_history(hostile: Path) -> None:
    runs = json.loads(history(Folder(hostile), None, "first launches")[0])
    assert [run["file"] for run in runs["runs"]] == ["ok.kscope"] and str(hostile) not in json.dumps(runs)


def test_a_folder_that_vanishes(hostile: Path) -> None:
    served = Folder(hostile)
    shutil.rmtree(hostile)
    text, is_error = history(served, None, "x")
    assert is_error and one_line(text, hostile)


def test_a_history_reads_only_what_it_shows_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 files the newest are loaded, and of the others the cells, once for all questions."""
    recording = load(RECORDINGS / "quickstart.kscope")
    for at in range(60):
        clock = {**recording.metadata["clock"], "wall_ns": (at + 1) * 10**15}
        Recording(recording.tables, {**recording.metadata, "clock": clock}).save(tmp_path / f"{at}.kscope")
    loaded, cells = list[str](), list[str]()
    for name, calls in (("load", loaded), ("load_cells", cells)):
        original = getattr(mcp_command, name)
        monkeypatch.setattr(mcp_command, name, lambda path, original=original, calls=calls, **options: (
            calls.append(path.name), original(path, **options))[1])
    served = Folder(tmp_path)
    first = json.loads(history(served, None, "first launches")[0])
    assert len(first["runs"]) == 12 and first["left_out"]["runs"] == 48
    assert first["verdict"].startswith("first launches: 60 runs.")
    assert (len(loaded), len(cells)) == (13, 60)
    (tmp_path / "7.kscope").unlink()
    shutil.copy(RECORDINGS / "specializations.kscope", tmp_path / "8.kscope")
    history(served, None, "first launches", 2)
    assert (len(loaded), cells[60:]) == (16, ["8.kscope"])


def test_a_client_is_told_how_far_a_history_is(ask: Ask) -> None:
    async def questions(session: Any) -> list[float]:
        fractions: list[float] = []

        async def progressed(fraction: float, total: float | None, message: str | None) -> None:
            assert total == 1.0 and message
            fractions.append(fraction)

        result = await session.call_tool("history", {"cell": "first launches"}, progress_callback=progressed)
        assert not result.is_error
        return fractions

    fractions = ask(questions)
    assert fractions and fractions == sorted(set(fractions)) and all(0 <= fraction <= 1 for fraction in fractions)


def test_wrong_arguments_are_answered_in_one_line(ask: Ask, folder: Path) -> None:
    async def question(session: Any) -> Any:
        return await session.call_tool("history", {"cell": ["a"], "limit": 10**400})

    result = ask(question)
    assert result.is_error and "cell: " in one_line(result.content[0].text, folder)


def test_a_client_asks_both(ask: Ask) -> None:
    two = {"before": "below/quickstart.kscope", "after": "specializations.kscope"}
    asked = [("compare", two), ("compare", {**two, "before_cell": "first launches", "limit": 1}),
             ("history", {"cell": "first launches"})]

    async def questions(session: Any) -> list[Any]:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert {"compare", "history"} <= {*tools}
        assert [*tools["compare"].input_schema["properties"]] == [
            "before", "after", "before_cell", "after_cell", "limit"]
        assert tools["history"].input_schema["required"] == ["cell"]
        assert all(tools[tool].annotations.read_only_hint and tools[tool].description for tool, _ in asked)
        results = [await session.call_tool(tool, arguments) for tool, arguments in asked]
        assert all(not result.is_error for result in results)
        return [json.loads(result.content[0].text) for result in results]

    whole, cell, runs = ask(questions)
    assert whole["sections"]["kernels"]["changed"] and len(runs["runs"]) == 2
    assert "first launches of specializations.kscope against" in cell["verdict"]
