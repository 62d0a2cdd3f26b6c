"""What is no recording is refused in one line by every command that takes a file, and none waits for it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from everything import everything

import kernelscope
from kernelscope.commands.cli import main
from kernelscope.commands.mcp import Folder
from kernelscope.errors import KernelScopeError


def _unreadable(path: Path) -> None:
    everything(1).save(path)
    path.chmod(0)


ODD: dict[str, Callable[[Path], object]] = {
    "empty file": Path.touch, "folder": Path.mkdir, "pipe": os.mkfifo,
    "link to nothing": lambda path: path.symlink_to("nothing"), "link to itself": lambda path: path.symlink_to(path),
    "link to a device": lambda path: path.symlink_to("/dev/zero"), "nothing": lambda path: None,
    "half a gzip": lambda path: path.write_bytes(b"\x1f\x8b"), "half JSON": lambda path: path.write_text("{"),
    "half SQLite": lambda path: path.write_bytes(b"SQLite format 3\0"), "no permission": _unreadable,
}
COMMANDS: dict[str, list[str]] = {
    "show": ["show", "FILE"], "inspect": ["inspect", "FILE"], "graph": ["graph", "FILE"],
    "metrics": ["metrics", "FILE"], "roofline": ["roofline", "FILE"],
    "export": ["export", "FILE", "--to", "csv", "-o", "out"],
    "merge": ["merge", "FILE", "-o", "out.kscope"], "merge of a folder": ["merge", "AROUND", "-o", "out.kscope"],
    "compare": ["compare", "FILE", "good.kscope"], "compare with": ["compare", "good.kscope", "FILE"],
    "history": ["history", "FILE", "steps"], "history of a folder": ["history", "AROUND", "steps"],
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """End what waits for a pipe or reads a device without an end."""
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it waits, or reads without an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd != "no permission" or os.geteuid()])  # root reads all
@pytest.mark.parametrize("command", COMMANDS)
def test_odd_inputs_are_refused_in_one_line(command: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    everything(1).save("good.kscope")
    around = tmp_path / "around"
    around.mkdir()
    ODD[odd](around / "odd.kscope")
    words = [{"FILE": str(around / "odd.kscope"), "AROUND": str(around)}.get(word, word) for word in COMMANDS[command]]
    with contextlib.suppress(SystemExit):
        assert main(words) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("kernelscope"), lines
    if "AROUND" not in COMMANDS[command] or odd not in ("nothing", "folder"):
        assert "odd.kscope" in lines[0] or "around" in lines[0]
    assert lines[0].count("odd.kscope: odd.kscope") == 0
    assert not any(word in lines[0] for word in ("unpack", "Error", "Errno", "NoneType"))
    assert not (tmp_path / "out.kscope").exists() and not (tmp_path / "out").exists()


def test_an_empty_folder_with_a_recordings_name_is_left_out_of_a_merge(tmp_path: Path,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    everything(1).save(tmp_path / "good.kscope")
    (tmp_path / "x.kscope").mkdir()
    merged = tmp_path.parent / f"{tmp_path.name}.kscope"
    assert main(["merge", str(tmp_path), "-o", str(merged)]) == 1
    assert capsys.readouterr().err == "kernelscope: left out: x.kscope: is a folder, not a file\n"
    assert kernelscope.load(merged).metadata["merged"] == 1
    with pytest.raises(KernelScopeError, match=r"there is no recording in .*x\.kscope"):
        kernelscope.processes.collect(tmp_path / "x.kscope")
    (tmp_path / "loop.kscope").symlink_to("loop.kscope")
    with pytest.raises(KernelScopeError, match=r"loop\.kscope: is a symbolic link"):
        kernelscope.processes.collect(tmp_path / "loop.kscope")


def test_an_output_may_be_a_link_to_itself(tmp_path: Path) -> None:
    everything(1).save(tmp_path / "good.kscope")
    (tmp_path / "loop.kscope").symlink_to("loop.kscope")
    assert main(["show", str(tmp_path / "good.kscope"), "--redact", "-o", str(tmp_path / "loop.kscope")]) == 0
    assert kernelscope.load(tmp_path / "loop.kscope").metadata["redacted"] is True


def test_a_link_to_itself_is_no_recording_for_an_assistant(tmp_path: Path) -> None:
    everything(1).save(tmp_path / "good.kscope")
    (tmp_path / "loop.kscope").symlink_to("loop.kscope")
    text, is_error = Folder(tmp_path).list_recordings()
    assert not is_error and "good.kscope" in text and "loop.kscope" not in text
