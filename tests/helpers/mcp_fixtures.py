"""Folders that ``kernelscope mcp`` serves, and a client of the server."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "notebooks" / "recordings"

ODD: list[Any] = [
    "loop.kscope", "one.kscope", "pipe.kscope", "torn.kscope", "deep/dangling.kscope", "up/up/ok.kscope/x",
    "a folder.kscope", "n" * 300, "n" * 100_000, "\ud800", "\udcff.kscope", "a\nb", "~/x", "~nobody/x",
    "../../etc/passwd", "\0", "", ".", "/", 10**400, -1, 2.5, True, None, [], {}, b"ok.kscope", object()]


def one_line(text: str, folder: Path) -> str:
    """The message of an answer, after it was checked to name no folder of the machine."""
    message = json.loads(text)["error"]["message"]
    assert "\n" not in message and str(folder) not in message and str(folder.parent) not in message
    assert len(message) <= 2_000
    return message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recording in it and one below, and links that lead out of it and that do not."""
    inside = tmp_path / "inside"
    (inside / "below").mkdir(parents=True)
    shutil.copy(RECORDINGS / "specializations.kscope", inside)
    shutil.copy(RECORDINGS / "quickstart.kscope", inside / "below")
    shutil.copy(RECORDINGS / "graphs.kscope", tmp_path / "outside.kscope")
    (inside / "link.kscope").symlink_to(tmp_path / "outside.kscope")
    (inside / "away").symlink_to(tmp_path)
    (inside / "again.kscope").symlink_to(inside / "specializations.kscope")
    (inside / "torn.kscope").write_bytes(b"torn")
    return inside


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with one good recording among what makes naive readers raise, wait or follow."""
    folder = tmp_path / "some folder"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(RECORDINGS / "quickstart.kscope", folder / "ok.kscope")
    for suffix in (".kscope", ".json", ".sqlite", ""):
        (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
        (folder / "deep" / f"dangling{suffix}").symlink_to(folder / "nowhere")
        os.mkfifo(folder / f"pipe{suffix}")
        (folder / f"torn{suffix}.kscope").write_bytes((RECORDINGS / "quickstart.kscope").read_bytes()[:-100])
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
