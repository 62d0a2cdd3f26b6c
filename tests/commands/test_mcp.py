"""``kernelscope mcp``: recordings of one folder for assistants, over the SDK's own client and stdio; read only."""

from __future__ import annotations

import contextlib
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

import kernelscope.commands.mcp as mcp_command
from kernelscope import Recording, load
from kernelscope.commands.mcp import Folder
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.views.answer import MOST_LETTERS

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "notebooks" / "recordings"
TRACES = ROOT / "tests" / "importers" / "chrome" / "traces"
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


QUESTIONS: dict[str, Callable[[Folder, Any], tuple[str, bool]]] = {
    "part": lambda held, value: held.part(value, "kernels"),
    "part with a limit": lambda held, value: held.part("ok.kscope", "kernels", limit=value),
    "metrics": lambda held, value: held.metrics("ok.kscope", value),
    "compare": lambda held, value: held.compare(value, "ok.kscope", []),
    "compare cells": lambda held, value: held.compare("ok.kscope", "ok.kscope", [value]),
    "history": lambda held, value: held.history(value),
    "history with a limit": lambda held, value: held.history("first launches", value),
    "list_recordings": lambda held, value: held.list_recordings(value),
}


def one_line(text: str, folder: Path) -> str:
    """The message of an answer, after it was checked to name no folder of the machine."""
    message = json.loads(text)["error"]["message"]
    assert "\n" not in message and str(folder) not in message and str(folder.parent) not in message
    assert len(message) <= 2_000
    return message


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with one good recording among what makes naive readers raise, wait or follow."""
    folder = tmp_path / "some folder"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(HERE / "quickstart.kscope", folder / "ok.kscope")
    for suffix in (".kscope", ".json", ".sqlite", ""):
        (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
        (folder / "deep" / f"dangling{suffix}").symlink_to(folder / "nowhere")
        os.mkfifo(folder / f"pipe{suffix}")
        (folder / f"torn{suffix}.kscope").write_bytes((HERE / "quickstart.kscope").read_bytes()[:-100])
    (folder / "one.kscope").symlink_to(folder / "two.kscope")
    (folder / "two.kscope").symlink_to(folder / "one.kscope")
    (folder / "up").symlink_to(folder)
    (folder / "a folder.kscope").mkdir()
    (folder / "line\nbreak.kscope").write_bytes(b"")
    (folder / "bidi\u202e.kscope").write_bytes(b"")
    (folder / f"{'n' * 248}.kscope").write_bytes(b"PK\x03\x04")
    (folder / "report_pqtdir").mkdir()
    (folder / "report_pqtdir" / "NVTX_EVENTS.parquet").write_bytes(b"")
    (folder / "report_pqtdir" / "loop").symlink_to(folder / "report_pqtdir" / "loop")
    (folder / "empty.sqlite").write_bytes(b"SQLite format 3\0")
    (folder / "torn.json.gz").write_bytes(b"\x1f\x8b\x08\x00")
    with contextlib.suppress(OSError):  # of a file system that takes only UTF-8
        (folder / os.fsdecode(b"not utf-8 \xff.kscope")).write_bytes(b"")
    return folder


def test_links_to_themselves_pipes_and_odd_names_stop_no_listing(hostile: Path) -> None:
    text, is_error = Folder(hostile).list_recordings()
    names = {row["recording"] for row in json.loads(text)["recordings"]}
    assert not is_error and {"ok.kscope", "torn.kscope"} <= names
    assert not any("loop" in name or "pipe" in name or "dangling" in name or "line" in name for name in names)
    runs = json.loads(Folder(hostile).history("first launches")[0])
    assert [run["file"] for run in runs["runs"]] == ["ok.kscope"] and str(hostile) not in json.dumps(runs)


ODD: list[Any] = [
    "loop.kscope", "one.kscope", "pipe.kscope", "torn.kscope", "deep/dangling.kscope", "up/up/ok.kscope/x",
    "a folder.kscope", "n" * 300, "n" * 100_000, "\ud800", "\udcff.kscope", "a\nb", "~/x", "~nobody/x",
    "../../etc/passwd", "\0", "", ".", "/", 10**400, -1, 2.5, True, None, [], {}, b"ok.kscope", object()]


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
    for question in (held.list_recordings, lambda: held.history("x"), lambda: held.part("ok.kscope", "kernels")):
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


def test_a_history_reads_only_what_it_shows_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 files the newest are loaded, and of the others the cells, once for all questions."""
    recording = load(HERE / "quickstart.kscope")
    for at in range(60):
        clock = {**recording.metadata["clock"], "wall_ns": (at + 1) * 10**15}
        Recording(recording.tables, {**recording.metadata, "clock": clock}).save(tmp_path / f"{at}.kscope")
    loaded, cells = list[str](), list[str]()
    for name, calls in (("load", loaded), ("load_cells", cells)):
        original = getattr(mcp_command, name)
        monkeypatch.setattr(mcp_command, name, lambda path, original=original, calls=calls, **options: (
            calls.append(path.name), original(path, **options))[1])
    held = Folder(tmp_path)
    first = json.loads(held.history("first launches")[0])
    assert len(first["runs"]) == 12 and first["left_out"]["runs"] == 48
    assert first["verdict"].startswith("first launches: 60 runs.")
    assert (len(loaded), len(cells)) == (13, 60)
    (tmp_path / "7.kscope").unlink()
    shutil.copy(HERE / "specializations.kscope", tmp_path / "8.kscope")
    held.history("first launches", 2)
    assert (len(loaded), cells[60:]) == (16, ["8.kscope"])


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


def test_a_client_is_told_how_far_an_answer_is(ask: Ask) -> None:
    async def questions(session: Any) -> list[float]:
        fractions: list[float] = []

        async def progressed(fraction: float, total: float | None, message: str | None) -> None:
            assert total == 1.0 and message
            fractions.append(fraction)

        for tool, arguments in (("history", {"cell": "first launches"}), ("kernels", {
                "recording": "specializations.kscope"}), ("list_recordings", {})):
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
        ("history", {"cell": ["a"], "limit": 10**400}, "cell: "),
        ("verdict", {"recording": "x" * 10_000}, "10,000 letters")]

    async def questions(session: Any) -> Any:
        return [await session.call_tool(tool, arguments) for tool, arguments, _ in calls]

    for (_, _, said), result in zip(calls, ask(questions), strict=True):
        assert result.is_error and said in one_line(result.content[0].text, folder)


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
