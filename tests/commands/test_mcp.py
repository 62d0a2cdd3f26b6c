"""``kernelscope mcp``: recordings of one folder for assistants, over the SDK's own client and stdio; read only."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import launched, nsys_tables, write_folder, write_json, write_sqlite

from kernelscope.commands.mcp import Folder
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.views.answer import MOST_LETTERS

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "notebooks" / "recordings"
TRACES = ROOT / "tests" / "recording" / "traces"
TOOLS = ["list_recordings", "verdict", "kernels", "compiles", "lines", "advice", "metrics", "compare", "history"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recording in it and one below, and links that lead out of it and that do not."""
    inside = tmp_path / "inside"
    (inside / "below").mkdir(parents=True)
    shutil.copy(HERE / "specializations.kscope", inside)
    shutil.copy(HERE / "quickstart.kscope", inside / "below")
    shutil.copy(HERE / "graphs.kscope", tmp_path / "outside.kscope")
    (inside / "link.kscope").symlink_to(tmp_path / "outside.kscope")
    (inside / "away").symlink_to(tmp_path)
    (inside / "again.kscope").symlink_to(inside / "specializations.kscope")
    (inside / "torn.kscope").write_bytes(b"torn")
    return inside


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


def test_two_recordings_and_cells_of_them(folder: Path) -> None:
    held = Folder(folder)
    names = "below/quickstart.kscope", "specializations.kscope"
    found = json.loads(held.compare(*names, [])[0])
    assert [found[side]["recording"] for side in ("before", "after")] == [*names]
    one = json.loads(held.compare(*names, ["first launches"], 2)[0])
    assert one["after"]["recording"] == "In [1] first launches of specializations.kscope"
    assert one["totals"]["after"]["launches"] < found["totals"]["after"]["launches"]
    assert "no recorded cell 'none'" in held.compare(*names, ["none"])[0]
    runs = json.loads(held.history("first launches")[0])
    assert len(runs["runs"]) == 2  # what a second name leads to is the same run
    assert len(runs["missing"]) == 1 and "torn.kscope" in runs["missing"][0]
    assert held.history("none")[1]


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


def test_without_the_package_the_extra_is_named(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert 'pip install "kernelscope[mcp]"' in cli("mcp", str(tmp_path), code=1).stderr


Ask = Callable[[Any], Any]


@pytest.fixture
def ask(folder: Path) -> Ask:
    """Give a function that is called with a session of the SDK's client, whose server is a process of its own."""
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-W", "error", "-m", "kernelscope", "mcp", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=str(folder))

    def run(questions: Any) -> Any:
        async def talk() -> Any:
            async with mcp.stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
                await session.initialize()
                return await questions(session)

        return anyio.run(talk)

    return run


def test_a_client_asks_every_tool(ask: Ask, folder: Path) -> None:
    before = sorted(path.name for path in folder.rglob("*"))

    async def questions(session: Any) -> dict[str, Any]:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        named = {"recording": "specializations.kscope"}
        two = {"before": "below/quickstart.kscope", "after": "specializations.kscope"}
        other = {"list_recordings": {}, "compare": two, "history": {"cell": "first launches"}}
        said = {tool: await session.call_tool(tool, other.get(tool, named)) for tool in TOOLS}
        one = await session.call_tool("compare", {**two, "before_cell": "first launches", "limit": 1})
        assert "first launches of specializations.kscope against" in json.loads(one.content[0].text)["verdict"]
        refused = await session.call_tool("kernels", {"recording": "link.kscope"})
        assert refused.is_error and "leads out of the folder" in refused.content[0].text
        assert all(not each.is_error for each in said.values())
        return {tool: json.loads(each.content[0].text) for tool, each in said.items()}

    found = ask(questions)
    assert "82 % compiling 7 kernels" in found["verdict"]["verdict"] and found["verdict"]["first"]["text"]
    assert found["compiles"]["compiles"][0]["why"] and found["compiles"]["compiles"][0]["fix"]
    assert found["kernels"]["kernels"][0]["kernel"] == "horner"
    assert found["advice"]["advice"] and "lines" in found["lines"]
    assert found["compare"]["sections"]["kernels"]["changed"] and len(found["history"]["runs"]) == 2
    assert "No kernel's counters were measured" in found["metrics"]["verdict"]
    assert sorted(path.name for path in folder.rglob("*")) == before
