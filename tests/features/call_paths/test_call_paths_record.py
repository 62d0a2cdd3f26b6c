"""The call path of each launch: its frames, what is left out of it, and how much of it is kept."""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ways_to_launch import WITHOUT, lines_of, named_lines, names_of_numba, project, record_each, ways_of

import kernelscope
from kernelscope.native import core
from kernelscope.probes import lines, sink
from kernelscope.recording.model import Recording
from kernelscope.schema import MAX_STACK_FRAMES

OWN = str(Path(kernelscope.__file__).parent)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return names_of_numba()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with project(tmp_path_factory.mktemp("stacks")) as folder:
        yield folder


@pytest.fixture(scope="module")
def every_way(folder: Path, names: dict[str, Any]) -> dict[str, Recording]:
    return record_each(ways_of("numba") | WITHOUT, folder, names, gpu="none", stacks=True)


def path_of(recording: Recording, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a row's call path, outermost first."""
    stacks, rows = recording.rows("stacks"), recording.rows("lines")
    path: list[dict[str, Any]] = []
    at = row["stack_id"]
    while at is not None:
        path.insert(0, rows[stacks[at]["line_id"]])
        at = stacks[at]["parent_stack_id"]
    return path


def paths_of(recording: Recording, table: str = "launches") -> list[list[dict[str, Any]]]:
    return [path_of(recording, row) for row in recording.rows(table)]


@pytest.mark.parametrize("way", ways_of("numba"))
def test_the_innermost_line_of_the_users_is_the_launchs_line(
        way: str, folder: Path, every_way: dict[str, Recording]) -> None:
    recording = every_way[way]
    assert lines_of(recording) == named_lines(folder, ways_of("numba")[way])
    for row in recording.rows("launches"):
        path = path_of(recording, row)
        assert path[0]["user_code"]
        assert [line for line in path if line["user_code"]][-1]["line_id"] == row["line_id"]
        assert not any(line["file"].startswith(OWN) for line in path)


@pytest.mark.parametrize("way", WITHOUT)
def test_without_code_of_the_users_there_is_no_path(way: str, every_way: dict[str, Recording]) -> None:
    assert lines_of(every_way[way]) == {("", 0)} and every_way[way].launches.stack_id.isna().all()


#: Programs, and the functions of their path: those of libraries in brackets, beginning with the program itself.
PATHS = {
    "def f(n):\n    return f(n - 1) if n else k[1, 32](x)\nf(3)": "- f f f f (__call__)",
    "import library\nlibrary.call(lambda: k[1, 32](x))": "- (call) <lambda> (__call__)",
    "import library\nlibrary.launch(k[1, 32], x)": "- (launch) (__call__)",
    "def f():\n    [k[1, 32](x)\n     for _ in 'ab']\nf()": "- f (__call__)",
    "def f():\n    yield k[1, 32](x)\ndef g():\n    yield from f()\nlist(g())": "- g f (__call__)",
    "sorted([1], key=lambda _: k[1, 32](x) or 0)": "- <lambda> (__call__)",
    "async def f():\n    k[1, 32](x)\nasync def g():\n    await f()\n"
    "try:\n    g().send(None)\nexcept StopIteration:\n    pass": "- g f (__call__)",
    'exec("k[1, 32](x)")': "- (-) (__call__)",
    "class A:\n    def __del__(self):\n        k[1, 32](x)\na = A()\ndel a": "- A.__del__ (__call__)",
}


@pytest.mark.parametrize("program", PATHS)
def test_a_path_is_what_a_person_would_write_down(program: str, folder: Path, names: dict[str, Any]) -> None:
    recording = record_each({"way": program}, folder, names, gpu="none", stacks=True)["way"]
    for path in paths_of(recording):
        begin = next(at for at, line in enumerate(path) if "program_" in line["file"])
        said = [line["function"] or "-" for line in path[begin:]]
        said = [name.rpartition(".<locals>.")[2].replace("_LaunchConfiguration.", "") for name in said]
        assert " ".join(name if line["user_code"] else f"({name})" for name, line in
                        zip(said, path[begin:], strict=True)) == PATHS[program]


def test_tasks_and_threads_begin_where_their_code_does(folder: Path, names: dict[str, Any]) -> None:
    recording = record_each({"way": """\
import asyncio, threading
def work():
    k[1, 32](x)
async def task():
    work()
async def main():
    await asyncio.gather(asyncio.create_task(task()), asyncio.create_task(task()))
asyncio.run(main())
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()"""}, folder, names, gpu="none", stacks=True)["way"]
    found = paths_of(recording)
    assert len(found) == 6 and {path[0]["function"] for path in found[2:]} == {"work"}
    assert len(recording.launches.stack_id.unique()) == 2  # both tasks by one path, all threads by another
    for path in found[:2]:
        assert [line["function"] for line in path if line["user_code"]][-2:] == ["task", "work"]
        assert any("asyncio" in line["file"] for line in path)


def test_a_compile_has_a_path(folder: Path, names: dict[str, Any]) -> None:
    recording = record_each({"way": """\
def build():
    @cuda.jit("void(float32[::1])")
    def fresh(x):
        x[0] = 1
build()"""}, folder, names, gpu="none", stacks=True)["way"]
    (path,) = paths_of(recording, "compilations")
    assert [line["function"] for line in path if line["user_code"]][-1] == "build"
    assert path[-1]["function"] and "numba" in path[-1]["file"]


def test_of_a_deep_path_the_innermost_frames_are_kept(folder: Path, names: dict[str, Any]) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        recording = record_each({"way": """\
import library
def f(n):
    return f(n - 1) if n else k[1, 32](x)
def through(n):  # only frames of a library are within
    return library.deep(n, k[1, 32], x)
f(10_000)
f(10_000)
library.call(f, 10_001)
through(700)"""}, folder, names, gpu="none", stacks=True)["way"]
    finally:
        sys.setrecursionlimit(limit)
    first, second, third, fourth = paths_of(recording)
    assert core.MOST_FRAMES == MAX_STACK_FRAMES == len(first)
    assert {line["function"] for line in first[:-1]} == {"f"} and first == second == third
    assert fourth == [] and lines_of(recording) >= {(first[0]["file"], 5)}


def test_paths_that_are_made_again_and_again_are_bounded(
        folder: Path, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that is run once and thrown away is not held, however deep below it is that it runs."""
    monkeypatch.setattr(lines, "_MOST_FRAMES", 100)
    codes: list[weakref.ref[Any]] = []

    def fresh() -> Any:
        code = compile("k[1, 32](x)", "<string>", "exec")
        codes.append(weakref.ref(code))
        return code

    recording = record_each({"way": """\
def f(n):
    if n:
        return f(n - 1)
    for _ in range(2_300):
        exec(fresh())
f(450)"""}, folder, names | {"fresh": fresh}, gpu="none", stacks=True)["way"]
    assert len(recording.launches) == 2_300 == len(codes)
    assert codes[0]() is None and len(recording.stacks) < 600
    assert len(recording.launches.stack_id.unique()) == 1


def test_more_frames_than_are_kept_are_said(
        folder: Path, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    first = record_each({"way": "k[1, 32](x)"}, folder, names, gpu="none", stacks=True)["way"]
    monkeypatch.setattr(sink, "MOST_STACKS", len(first.stacks))
    recording = record_each({"way": "k[1, 32](x)\ndef f():\n    k[1, 32](x)\nf()"}, folder, names,
                            gpu="none", stacks=True)["way"]
    assert recording.launches.stack_id.notna().tolist() == [True, False]
    assert recording.launches.line_id.notna().all()
    (row,) = [row for row in recording.rows("health") if "call paths" in (row["message"] or "")]
    assert row["status"] == "degraded"


def test_threads_share_paths(folder: Path, names: dict[str, Any]) -> None:
    """Each looks up in a table of its own; what is new is asked by several at once."""
    together = threading.Barrier(8)
    recording = record_each({"way": """\
import threading
def f(n):
    if n:
        return f(n - 1)
    k[1, 32](x)
def work():
    together.wait()
    for n in range(60):
        f(n)
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()"""}, folder, names | {"together": together}, gpu="none", stacks=True)["way"]
    assert len(recording.launches) == 480 and recording.launches.stack_id.notna().all()
    assert sorted(recording.launches.groupby("stack_id").size().tolist()) == [8] * 60
    assert sorted(len(path) for path in paths_of(recording))[::8] == list(range(3, 63))


def test_call_paths_need_lines() -> None:
    with pytest.raises(ValueError, match=r"stacks True needs lines"):
        kernelscope.record(stacks=True, lines=False)


def test_they_are_off_without_being_asked_for(folder: Path, names: dict[str, Any]) -> None:
    recording = record_each({"way": "k[1, 32](x)"}, folder, names, gpu="none")["way"]
    assert recording.stacks.empty and recording.launches.stack_id.isna().all()
    assert recording.lines.user_code.tolist() == [True]


_KILLED = """
import os, signal, sys
import numpy as np
from numba import cuda
import kernelscope

@cuda.jit
def axpy(x):
    x[0] = 1

a = cuda.to_device(np.zeros(64, np.float32))
kernelscope.Recorder("training", journal=sys.argv[1], gpu="none", stacks=True).start()

def step(n):
    if n:
        return step(n - 1)
    axpy[2, 32](a)

for n in range(200):
    step(n)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_every_path(run_python: Any, tmp_path: Path) -> None:
    ran = run_python(_KILLED, str(tmp_path / "journals"), check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (found,) = kernelscope.journals(tmp_path / "journals")
    recording = kernelscope.recover(found)
    functions = [[line["function"] for line in path if line["user_code"]] for path in paths_of(recording)]
    assert functions == [[None, *["step"] * (n + 1)] for n in range(200)]
    assert next(len(path) for path in paths_of(recording, "compilations")) > 2
