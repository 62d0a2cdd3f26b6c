"""Whose line each launch is of: ways to launch, and the line that a person would name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ways_to_launch import (
    WAYS,
    WITHOUT,
    lines_of,
    named_lines,
    names_of_numba,
    program_of,
    project,
    record_each,
    ways_of,
)

import kernelscope
from kernelscope.native import core
from kernelscope.probes.lines import OTHERS, USERS, USERS_IF_NO_OTHER, UserCode, place_of


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return names_of_numba()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with project(tmp_path_factory.mktemp("lines")) as folder:
        yield folder


def run(folder: Path, program: str, names: dict[str, Any], **options: Any) -> kernelscope.Recording:
    return record_each({"cell": program}, folder, names, gpu="none", **options)["cell"]


@pytest.fixture(scope="module")
def every_way(folder: Path, names: dict[str, Any]) -> dict[str, kernelscope.Recording]:
    return record_each(ways_of("numba") | WITHOUT, folder, names, gpu="none")


@pytest.mark.parametrize("way", ways_of("numba"))
def test_the_line_is_the_one_that_a_person_would_name(
        way: str, folder: Path, every_way: dict[str, kernelscope.Recording]) -> None:
    assert lines_of(every_way[way]) == named_lines(folder, ways_of("numba")[way])


@pytest.mark.parametrize("way", WITHOUT)
def test_what_cannot_be_known_is_null(way: str, every_way: dict[str, kernelscope.Recording]) -> None:
    assert lines_of(every_way[way]) == {("", 0)}


def test_the_two_ends_of_a_launch_have_a_line_too(folder: Path, names: dict[str, Any]) -> None:
    for way in ("a call of several lines", "a thread"):
        recording = run(folder, WAYS[way], names, detail="launch")
        assert lines_of(recording) == named_lines(folder, WAYS[way])


def test_without_lines_there_are_none(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, WAYS["a call"], names, lines=False)
    assert len(recording.launches) == 1 and recording.launches.line_id.isna().all()
    assert recording.lines.empty and recording.by_line().empty


@pytest.mark.parametrize("package", ["library", "."])
def test_lines_of_a_package_are_the_users_when_asked(package: str, folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, WAYS["a library that launches"], names, lines_of=[package])
    program = program_of(folder, WAYS["a library that launches"])
    file = sys.modules["library"].__file__ if package == "library" else str(program)
    assert {file for file, _ in lines_of(recording)} == {file}


def test_compiles_ranges_and_copies_have_lines(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, """\
import nvtx
from numba import cuda
@cuda.jit("void(float32[::1])")  # eager
def fresh(x):
    x[0] = 1
def step():
    with nvtx.annotate("step"):  # range
        fresh[1, 32](x)
step()
@cuda.jit
def lazy(x):
    x[0] = 1
lazy[1, 32](  # lazy
    x)""", names)
    rows = recording.rows("lines")
    text = Path(rows[0]["file"]).read_text().splitlines()

    def words(table: str) -> list[str]:
        return [text[rows[each]["line"] - 1].rpartition("# ")[2]
                for each in recording.arrow(table).column("line_id").to_pylist()]

    assert words("compilations") == ["eager", "lazy"]
    assert words("ranges") == ["range"]
    assert [rows[each["line_id"]]["function"] for each in recording.rows("launches")] == ["step", None]


def test_lines_add_up(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, """\
import threading
for _ in range(5):
    k[1, 32](x)
def f():
    other[1, 32](x)
f()
t = threading.Thread(target=k[1, 32], args=(x,))
t.start()
t.join()""", names)
    table = recording.by_line()
    assert dict(zip(table.line.fillna(0), table.launches, strict=True)) == {3: 5, 5: 1, 0: 1}
    assert table.file.isna().tolist() == [False, False, True]  # what has no line comes last
    assert table.text[:2].tolist() == ["k[1, 32](x)", "other[1, 32](x)"]
    assert table.host_ns.sum() == (recording.launches.end_ns - recording.launches.start_ns).sum()
    assert table.gpu_ns.isna().all() and table.wait_ns.isna().all()  # nothing of a GPU is known


def test_whose_code_is_whose(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = UserCode()
    site = folder.parent / "venv" / "site-packages" / "library.py"
    known = {
        "<stdin>": USERS, "<ipython-input-3-0a1b2c>": USERS, "<timed exec>": USERS,
        "/tmp/ipykernel_123/4567.py": USERS, "/tmp/marimo_9/__marimo__cell_Hbol_.py": USERS,
        "<string>": USERS_IF_NO_OTHER, "<frozen importlib._bootstrap>": OTHERS, "<attrs generated init a.B>": OTHERS,
        str(folder / "a.py"): USERS, str(folder / "deep" / "a.py"): USERS, str(folder) + "-other/a.py": OTHERS,
        "helper.py": USERS, "no_such.py": USERS_IF_NO_OTHER, str(site): OTHERS, threading_file(): OTHERS,
        str(np.__file__): OTHERS, str(Path(kernelscope.__file__).parent / "probes" / "sink.py"): OTHERS,
        str(folder / ".venv" / "lib" / "python3.11" / "site-packages" / "a.py"): OTHERS,
    }
    assert {file: code.whose(file) for file in known} == known
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert UserCode().whose("a.py") == OTHERS


def threading_file() -> str:
    import threading

    return threading.__file__


def test_frames_are_those_that_python_tells_of() -> None:
    """As CPython's own functions have them: in generators, comprehensions, callbacks, classes and coroutines."""
    def same() -> bool:
        own, public = core.frames(False), core.frames(True)
        return own[1:] == public[1:] and own[0][0] is public[0][0]

    def steps() -> Iterator[bool]:
        yield same()

    async def step() -> bool:
        return same()

    class Body:
        found = same()

        def __getattr__(self, name: str) -> bool:
            return same()

    coroutine = step()
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    found = [same(), *steps(), *(same() for _ in range(2)), *[same() for _ in range(2)], *map(lambda _: same(), "ab"),
             Body.found, Body().any, eval("same()", {"same": same}), stopped.value.value,
             sorted([2, 1], key=lambda _: same()) == [2, 1]]
    assert all(found) and core.READS_FRAMES


def test_a_line_is_that_on_which_the_call_begins() -> None:
    code = compile("f(\n  a,\n  g(\n    b))\n", "f.py", "exec")
    calls = [place_of(code, offset).line for offset, line in enumerate(code.co_positions()) if line[0] == 3]
    assert place_of(code, 10**6).line == code.co_firstlineno and calls is not None
    assert place_of(code, -1) == ("f.py", code.co_firstlineno, None)
