"""The documentation's own code: the probe of the guide works, and every Python block is Python."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kernelscope

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_blocks_parse(page: Path) -> None:
    for block in python_blocks(page):
        ast.parse(block)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The framework of the guide: a kernel whose launch returns its arguments, or raises the first."""

    class Kernel:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, grid: tuple[int, ...], block: tuple[int, ...], *args: Any) -> Any:
            if args and isinstance(args[0], BaseException):
                raise args[0]
            return args

    module = ModuleType("toy")
    vars(module)["Kernel"] = Kernel
    monkeypatch.setitem(sys.modules, "toy", module)
    return module


def test_the_guide_s_probe_records_and_undoes(toy: Any) -> None:
    probe_block, trial_block, *_ = python_blocks(DOCS / "how-to-write-a-probe.md")
    names: dict[str, Any] = {"kernelscope": kernelscope, "toy": toy, "print": lambda *_: None}
    original, code = toy.Kernel.run, toy.Kernel.run.__code__
    exec(probe_block, names)
    exec(trial_block, names)
    assert toy.Kernel.run is original
    assert toy.Kernel.run.__code__ is code

    recording = names["recorder"].recording
    assert len(recording.launches) == 1
    assert recording.dispatchers.name.tolist() == ["axpy"]
    assert recording.configurations.griddim_x.tolist() == [4]
    assert recording.health.errors.fillna(0).sum() == 0


def test_the_guide_s_probe_lets_errors_through(toy: Any) -> None:
    names: dict[str, Any] = {}
    exec(python_blocks(DOCS / "how-to-write-a-probe.md")[0], names)
    recorder = kernelscope.Recorder("trial", probes=[names["ToyProbe"]()])
    with pytest.raises(KeyboardInterrupt), recorder:
        toy.Kernel("axpy").run((4,), (128,), KeyboardInterrupt())
    launches = recorder.recording.launches
    assert launches.error.tolist() == ["KeyboardInterrupt"]
    assert recorder.recording.cells.status.tolist() == ["interrupted"]
