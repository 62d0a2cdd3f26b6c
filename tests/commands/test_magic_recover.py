"""``%kernelscope recover``, and the line that says that there is something to recover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from counting import lines_run
from handmade_journals import NAME, Handmade, Launch, rows_of_axpy

from kernelscope.commands import recover
from kernelscope.commands.magics import parse_line
from kernelscope.native.journal import default_folder

NEWER = "20250103-030405-999999-abcd"
KERNEL = """
import kernelscope  # switches the dry run on
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

a = cuda.to_device(np.zeros(64, np.float32))
"""


def story() -> Handmade:
    return Handmade([Launch(0), Launch(1, is_open=True)], rows=rows_of_axpy())


@pytest.fixture
def state(notebook: Any, tmp_path: Path) -> Iterator[Path]:
    """The kernel's state folder, with a journal."""
    notebook.ok(f"import os; os.environ['XDG_STATE_HOME'] = {str(tmp_path)!r}")
    yield story().write(tmp_path / "kernelscope" / "journals").parent
    notebook.ok("del os.environ['XDG_STATE_HOME']")


@pytest.mark.slow
def test_it_lists_shows_and_keeps_what_was_recovered(notebook: Any, state: Path) -> None:
    ran = notebook.ok("%kernelscope recover")
    assert f"{NAME}  " in ran.stdout and f"recovered {NAME}" in ran.stdout
    assert "1 launch unfinished: axpy" in ran.card
    assert notebook.value("_kernelscope.metadata['recovered']['launches']") == "1"
    assert (state / NAME).is_dir()


def test_it_writes_and_removes_when_it_is_told(notebook: Any, state: Path, tmp_path: Path) -> None:
    story().write(state, NEWER)
    ran = notebook.ok(f"%kernelscope recover {NAME} --into '{tmp_path}/a b.kscope' --remove")
    assert f"wrote {tmp_path}/a b.kscope" in ran.stdout and f"removed {state / NAME}" in ran.stdout
    assert [path.name for path in state.iterdir()] == [NEWER]
    ran = notebook.ok(f"%kernelscope recover {state}")
    assert f"recovered {NEWER}" in ran.stdout


def test_others_are_named(notebook: Any, state: Path) -> None:
    story().write(state, NEWER)
    ran = notebook.ok("%kernelscope recover")
    assert f"recovered {NEWER}" in ran.stdout and f"also there, %kernelscope recover NAME: {NAME}" in ran.stdout


def test_a_new_kernel_says_that_there_is_something(notebook: Any, state: Path) -> None:
    notebook.ok("%unload_ext kernelscope")
    assert "a recording that was cut short is there: %kernelscope recover brings it back" in notebook.ok(
        "%load_ext kernelscope").stdout
    assert "cut short" not in notebook.ok("%load_ext kernelscope").stdout


@pytest.mark.slow
def test_a_kernel_that_died_is_brought_back_in_the_next(new_kernel: Callable[[], Any], tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    dying = new_kernel()
    dying.ok(KERNEL)
    assert "cut short" not in dying.ok("%load_ext kernelscope\n%kernelscope on").stdout
    dying.ok("axpy[2, 32](a, 2.0, a)")
    assert "(detail phases), each with a journal while it runs" in dying.ok("%kernelscope status").stdout
    assert list(default_folder().iterdir()) == []
    dying.run_to_death("for _ in range(100): axpy[2, 32](a, 2.0, a)\nimport os; os.kill(os.getpid(), 9)")

    following = new_kernel()
    assert "%kernelscope recover brings it back" in following.ok("%load_ext kernelscope").stdout
    card = following.ok("%kernelscope recover --remove").card
    assert "In [5] (unfinished)" in card and "Launches: 100 " in card
    assert "no journals in" in following.ok("%kernelscope recover").stdout


def test_a_disk_that_does_not_allow_it_is_said_once(base: Path) -> None:
    assert recover.journal_for(None) == (True, None)
    assert recover.journal_for(f"{base}/a b") == (f"{base}/a b", None)
    assert list((base / "a b").iterdir()) == []
    base.joinpath("file").write_text("precious")
    where, problem = recover.journal_for(f"{base}/file")
    assert where is None and problem is not None and "file that is no folder; recording goes on in memory" in problem


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return default_folder()


def test_nothing_there_is_nothing_said(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover.notice() is None
    assert recover.recover_here(parse_line("recover")[1]) is None
    assert "no journals in" in capsys.readouterr().out


def test_the_look_is_short(base: Path) -> None:
    for number in range(100):
        Handmade([]).write(base, f"20250102-030405-{number + 4_000_000}-abcd")
    told = recover.notice()
    assert told is not None and "recordings that were cut short are there" in told
    assert lines_run(recover.notice) < 200 * 100  # two hundred for each of them, as Pythons count them


def test_the_look_loads_nothing_large(run_python: Callable[..., Any], base: Path) -> None:
    story().write(base)
    code = """
import sys
import IPython.core.error
before = set(sys.modules)
from kernelscope.commands.recover import notice
assert notice() is not None
loaded = set(sys.modules) - before
assert not {"numpy", "pyarrow", "pandas"} & loaded, loaded
"""
    run_python(code, KERNELSCOPE_DRYRUN="")
