"""``kernelscope mcp``: recordings of one folder for assistants, over the SDK's own client and stdio; read only."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import launched, nsys_tables, write_folder, write_json, write_sqlite
from mcp_fixtures import ODD, Ask, one_line

import kernelscope.commands.mcp as mcp_command
from kernelscope.commands.mcp import Folder
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.registry import Feature
from kernelscope.views.answer import MOST_LETTERS

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "notebooks" / "recordings"
TRACES = ROOT / "tests" / "importers" / "chrome" / "traces"
TOOLS = ["list_recordings", "verdict", "kernels", "compiles", "lines", "advice"]


def test_only_recordings_of_the_folder_are_listed(folder: Path) -> None:
    text, is_error = Folder(folder).list_recordings()
    assert not is_error
    assert sorted(each["recording"] for each in json.loads(text)["recordings"]) == [
        "again.kscope", "below/quickstart.kscope", "specializations.kscope", "torn.kscope"]


@pytest.mark.parametrize(("name", "said"), [
    ("../outside.kscope", "leaves the folder"), ("/etc/passwd", "leaves the folder"),
    ("below/../../outside.kscope", "leaves the folder"), ("a\0.kscope", "leaves the folder"),
    ("link.kscope", "leads out of the folder"), ("away/outside.kscope", "leads out of the folder"),
    ("below", "there is no recording"), ("", "there is no recording"),
    ("specialisations.kscope", "did you mean 'specializations.kscope'?"),
])
def test_what_is_not_in_the_folder_is_refused(folder: Path, name: str, said: str) -> None:
    with pytest.raises(RecordingFileError) as refused:
        Folder(folder).path_of(name)
    assert said in str(refused.value)
    text, is_error = Folder(folder).part(name, "kernels")
    assert is_error and json.loads(text)["error"]["kind"] == "RecordingFileError"


def test_links_inside_and_torn_files(folder: Path) -> None:
    held = Folder(folder)
    assert json.loads(held.part("again.kscope", "compiles")[0])["compiles"]
    text, is_error = held.part("torn.kscope", "compiles")
    assert is_error and "torn.kscope" in json.loads(text)["error"]["message"]
    with pytest.raises(KernelScopeError, match="there is no folder"):
        Folder(folder / "none")


def test_traces_of_other_tools(folder: Path) -> None:
    """By their content: a notebook, a study, another database and another's Parquet file are none."""
    shutil.copy(TRACES / "kineto_training.json.gz", folder / "training.gz")
    shutil.copy(TRACES / "kineto_2023.json.gz", folder.parent / "outside.json.gz")
    (folder / "link.json.gz").symlink_to(folder.parent / "outside.json.gz")
    shutil.copy(HERE / "anatomy.json", folder)
    (folder / "notebook.ipynb").write_text('{"cells": [], "nbformat": 4}')
    with gzip.open(folder / "odd.gz", "wb") as file:
        file.write(b"[1, 2]")
    (folder / "torn.gz").write_bytes(b"\x1f\x8b torn")
    write_json(folder / "list.json", [launched("axpy", 10, 5)[0]])
    write_sqlite(folder / "report.sqlite", nsys_tables())
    write_sqlite(folder / "other.sqlite", {"songs": (["name"], [("a",)])})
    write_folder(folder / "below" / "report_pqtdir", nsys_tables())
    write_folder(folder / "leaves", nsys_tables())
    (folder / "leaves" / "more.parquet").symlink_to(folder.parent / "outside.kscope")
    held = Folder(folder)
    listed = {each["recording"]: each for each in json.loads(held.list_recordings()[0])["recordings"]}
    assert sorted(name for name, each in listed.items() if each["imported"]) == [
        "below/report_pqtdir", "list.json", "report.sqlite", "training.gz"]
    assert listed["below/report_pqtdir"]["size_bytes"] > 1000 and not listed["again.kscope"]["imported"]
    for name in ("below/report_pqtdir", "report.sqlite", "training.gz"):
        found = json.loads(held.part(name, "kernels")[0])
        assert found["kernels"] and found["counts"]["compiles"] is None
    for name in ("leaves", "link.json.gz", "anatomy.json", "other.sqlite"):
        assert held.part(name, "kernels")[1]


@pytest.mark.parametrize("limit", [None, 0, 1, 7, 10**9])
def test_answers_are_bounded_whatever_is_asked_for(limit: int | None) -> None:
    held = Folder(HERE)
    for part in ("kernels", "compiles", "lines", "advice"):
        text, is_error = held.part("torch_training.kscope", part, limit=limit)
        assert not is_error and len(text) <= MOST_LETTERS
        found = json.loads(text)
        assert found["verdict"] and found["health"]["complete"] and part in found and "are data" in found["note"]
        if limit == 7:
            assert len(found[part]) <= 7


QUESTIONS: dict[str, Callable[[Folder, Any], tuple[str, bool]]] = {
    "part": lambda held, value: held.part(value, "kernels"),
    "part with a limit": lambda held, value: held.part("ok.kscope", "kernels", limit=value),
    "list_recordings": lambda held, value: held.list_recordings(value),
}


def test_links_to_themselves_pipes_and_odd_names_stop_no_listing(hostile: Path) -> None:
    text, is_error = Folder(hostile).list_recordings()
    names = {row["recording"] for row in json.loads(text)["recordings"]}
    assert not is_error and {"ok.kscope", "torn.kscope"} <= names
    assert not any("loop" in name or "pipe" in name or "dangling" in name or "line" in name for name in names)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_an_answer_whatever_is_asked(hostile: Path, question: str) -> None:
    served = Folder(hostile)
    for value in ODD:
        text, is_error = QUESTIONS[question](served, value)
        assert len(text) <= MOST_LETTERS and text.isascii()
        if is_error:
            one_line(text, hostile)


@pytest.mark.parametrize("error", [RuntimeError("in /opt/some folder/x.py"), MemoryError(), RecursionError("deep"),
                                   OSError(36, "File name too long", "/opt/secret/x"), KeyError("a\nb")])
def test_whatever_a_file_makes_a_reader_raise_is_one_line(hostile: Path, error: Exception,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr("kernelscope.commands.mcp.load", failing)
    text, is_error = Folder(hostile).part("ok.kscope", "kernels")
    assert is_error and "/opt" not in one_line(text, hostile)


def test_a_folder_that_vanishes(hostile: Path) -> None:
    held = Folder(hostile)
    shutil.rmtree(hostile)
    for question in (held.list_recordings, lambda: held.part("ok.kscope", "kernels")):
        text, is_error = question()
        assert is_error and one_line(text, hostile)


def test_a_folder_with_too_many_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.commands.mcp._MOST_FILES", 50)
    deep = tmp_path
    for at in range(60):
        (tmp_path / f"{at}.txt").write_bytes(b"")
        deep = deep / "d"
    deep.mkdir(parents=True)
    verdict = json.loads(Folder(tmp_path).list_recordings()[0])["verdict"]
    assert verdict == "0 recordings. The folder has more than 50 files: only so many were looked at."


def test_a_folder_deeper_than_pythons_stack(tmp_path: Path) -> None:
    shutil.copy(HERE / "quickstart.kscope", tmp_path)
    top = tmp_path / "d"
    top.mkdir()
    before = os.getcwd()
    try:
        os.chdir(top)
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
        Path("below.kscope").write_bytes(b"torn")
        os.chdir(before)
        assert json.loads(Folder(tmp_path).list_recordings()[0])["verdict"] == "2 recordings."
    finally:
        os.chdir(before)
        subprocess.run(["rm", "-rf", str(top)], check=True)  # what Python removes folders with is recursive too


def test_without_the_package_the_extra_is_named(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert 'pip install "kernelscope[mcp]"' in cli("mcp", str(tmp_path), code=1).stderr


def test_a_client_is_told_how_far_an_answer_is(ask: Ask) -> None:
    async def questions(session: Any) -> list[float]:
        fractions: list[float] = []

        async def progressed(fraction: float, total: float | None, message: str | None) -> None:
            assert total == 1.0 and message
            fractions.append(fraction)

        for tool, arguments in (("kernels", {"recording": "specializations.kscope"}), ("list_recordings", {})):
            before = len(fractions)
            result = await session.call_tool(tool, arguments, progress_callback=progressed)
            assert not result.is_error
            told = fractions[before:]
            assert told and told == sorted(set(told))
        return fractions

    assert all(0 <= fraction <= 1 for fraction in ask(questions))


def test_wrong_arguments_are_answered_in_one_line(ask: Ask, folder: Path) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("kernels", {"recording": 7}, "recording: "), ("kernels", {}, "recording: "), ("nothing", {}, "nothing"),
        ("kernels", {"recording": "specializations.kscope", "limit": "x" * 10_000}, "limit: "),
        ("kernels", {"recording": ["a"], "limit": 10**400}, "recording: "),
        ("verdict", {"recording": "x" * 10_000}, "10,000 letters")]

    async def questions(session: Any) -> Any:
        return [await session.call_tool(tool, arguments) for tool, arguments, _ in calls]

    for (_, _, said), result in zip(calls, ask(questions), strict=True):
        assert result.is_error and said in one_line(result.content[0].text, folder)


def test_tools_of_features_are_told_of_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Feature("toy", tools={"toys": "toys:toys"}, tool_instructions="toys counts toys.")
    monkeypatch.setattr(mcp_command, "features", lambda: (toy,))
    assert "or advice for more. toys counts toys. Times are" in mcp_command.instructions()
    assert "lines, advice and toys, each a" in mcp_command.about()
    monkeypatch.setattr(mcp_command, "features", lambda: ())
    assert "or advice for more. Times are" in mcp_command.instructions()
    assert "compiles, lines and advice, each a" in mcp_command.about()
    assert [*mcp_command.tools()] == TOOLS


def test_half_a_surrogate_pair_over_the_wire(folder: Path) -> None:
    """No client of a well-behaved library sends one; the server answers the next question all the same."""
    pytest.importorskip("mcp")
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": 2 + at, "method": "tools/call", "params": {"name": "kernels", "arguments": {
            "recording": name}}} for at, name in enumerate(("\ud800", "again.kscope")))]
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelscope", "mcp", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True)
    with process:
        assert process.stdin and process.stdout
        process.stdin.write("".join(f"{json.dumps(message)}\n" for message in messages))
        process.stdin.flush()
        answers: dict[int, Any] = {}
        while 3 not in answers:
            line = process.stdout.readline()
            assert line, "the server ended"
            message = json.loads(line)
            answers[message.get("id")] = message
        process.stdin.close()
    assert json.loads(answers[3]["result"]["content"][0]["text"])["kernels"]
    assert str(folder) not in json.dumps(answers.get(2, ""))


def test_a_client_asks_every_tool(ask: Ask, folder: Path) -> None:
    before = sorted(path.name for path in folder.rglob("*"))

    async def questions(session: Any) -> dict[str, Any]:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == [*mcp_command.tools()]
        assert [tool.name for tool in tools][:len(TOOLS)] == TOOLS
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        named = {"recording": "specializations.kscope"}
        said = {tool: await session.call_tool(tool, {} if tool == "list_recordings" else named) for tool in TOOLS}
        refused = await session.call_tool("kernels", {"recording": "link.kscope"})
        assert refused.is_error and "leads out of the folder" in refused.content[0].text
        assert all(not each.is_error for each in said.values())
        return {tool: json.loads(each.content[0].text) for tool, each in said.items()}

    found = ask(questions)
    assert "82 % compiling 7 kernels" in found["verdict"]["verdict"] and found["verdict"]["first"]["text"]
    assert found["compiles"]["compiles"][0]["why"] and found["compiles"]["compiles"][0]["fix"]
    assert found["kernels"]["kernels"][0]["kernel"] == "horner"
    assert found["advice"]["advice"] and "lines" in found["lines"]
    assert sorted(path.name for path in folder.rglob("*")) == before
