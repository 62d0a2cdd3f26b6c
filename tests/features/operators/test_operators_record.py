"""PyTorch's operators against a stand-in for its library; `tests/gpu/test_torch_on_a_gpu.py` has torch itself."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kernelscope
from kernelscope.clock import now
from kernelscope.features.operators.record import _DECLARED, TorchOperatorsProbe, layout_problem
from kernelscope.probes.scripted import Launch, ScriptedProbe
from kernelscope.recorder.recorder import Recorder

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="operators are recorded on x86-64 only")
SOURCE = Path(__file__).parents[2] / "helpers" / "toy_operators.c"
HEADER = "namespace at {\n" + "\n".join(f"  TORCH_API {each} // of it" for each in _DECLARED) + "\n}\n"


class Launches(ScriptedProbe):
    """Launches now."""

    def launch(self) -> None:
        self.emit(Launch(start_ns=now(), phases_ns=(1, 1, 1, 1)))


class Library:
    """Enters and leaves operators as PyTorch does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._library: Any = ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"))
        self._library.enter.restype = ctypes.c_void_p
        self._library.leave.argtypes = (ctypes.c_void_p, ctypes.c_void_p)

    def enter(self, name: str, scope: int = 0) -> tuple[Any, Any]:
        function = ctypes.pointer(ctypes.c_char_p(name.encode()))
        return function, self._library.enter(function, scope)

    def leave(self, entered: tuple[Any, Any]) -> None:
        self._library.leave(entered[1], ctypes.cast(entered[0], ctypes.c_void_p))

    @contextmanager
    def operator(self, name: str, scope: int = 0) -> Iterator[None]:
        entered = self.enter(name, scope)
        yield
        self.leave(entered)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    (folder / "lib").mkdir()
    (folder / "include" / "ATen").mkdir(parents=True)
    (folder / "include" / "ATen" / "record_function.h").write_text(HEADER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", folder / "lib" / "libtorch_cpu.so",
                    SOURCE], check=True)
    return folder


@pytest.fixture
def torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    module = ModuleType("torch")
    module.__file__ = str(folder / "__init__.py")
    monkeypatch.setitem(sys.modules, "torch", module)
    return Library(folder)


@contextmanager
def recorded(probe: Launches) -> Iterator[Recorder]:
    with Recorder("operators", probes=[probe, TorchOperatorsProbe()]) as recorder:
        yield recorder


def paths(recording: Any) -> list[str | None]:
    """The operators of the launches, in order, with those around them."""
    known = {row["operator_id"]: row["path"] for row in recording.rows("operators")}
    return [None if row["operator_id"] is None else known[row["operator_id"]] for row in recording.rows("launches")]


def calls(recording: Any) -> dict[str, int]:
    return {row["path"]: row["calls"] for row in recording.rows("operators")}


def test_launches_have_the_innermost_operator(torch: Library) -> None:
    probe = Launches()
    with recorded(probe) as recorder:
        probe.launch()
        with torch.operator("step", 7), torch.operator("aten::linear"):
            with torch.operator("aten::addmm"):
                probe.launch()
                probe.launch()
            probe.launch()
        with torch.operator("AddmmBackward0", 1):
            probe.launch()
        with torch.operator("not looked at", 3):
            probe.launch()
    recording = recorder.recording
    assert paths(recording) == [None, *["step / aten::linear / aten::addmm"] * 2, "step / aten::linear",
                                "AddmmBackward0", None]
    rows = {row["name"]: row for row in recording.rows("operators")}
    addmm, linear = rows["aten::addmm"], rows["aten::linear"]
    assert (len(rows), addmm["calls"], linear["calls"]) == (3, 1, 1)
    assert 0 < addmm["own_ns"] == addmm["host_ns"] <= linear["host_ns"] - linear["own_ns"]
    table = recording.by_operator()
    assert dict(zip(table.operator, table.launches, strict=True)) == {
        "aten::addmm": 2, "aten::linear": 1, "AddmmBackward0": 1, None: 2}
    assert "by aten::addmm" in str(recording) and "Operators: 3" in str(recording)


def test_each_thread_has_its_own_operators(torch: Library) -> None:
    probe = Launches()

    def backward() -> None:
        with torch.operator("MmBackward0", 1):
            probe.launch()
            inside.set()
            assert goes_on.wait(60)
            probe.launch()

    inside, goes_on = threading.Event(), threading.Event()
    with recorded(probe) as recorder, torch.operator("aten::mm"):
        thread = threading.Thread(target=backward)
        thread.start()
        assert inside.wait(60)
        probe.launch()
        goes_on.set()
        thread.join()
    assert paths(recorder.recording) == ["MmBackward0", "aten::mm", "MmBackward0"]


def test_operators_that_are_open_at_either_end(torch: Library) -> None:
    probe = Launches()
    before = torch.enter("aten::before")
    with recorded(probe) as recorder:
        torch.leave(before)
        probe.launch()
        open_still = torch.enter("aten::open")
        probe.launch()
    torch.leave(open_still)
    assert paths(recorder.recording) == [None, "aten::open"]
    probe = Launches()
    with recorded(probe) as recorder:  # nothing is left of the one before
        torch.leave(open_still)
        probe.launch()
    assert paths(recorder.recording) == [None] and recorder.recording.operators.empty


def test_a_recording_inside_another_counts_its_own_calls(torch: Library) -> None:
    probe = Launches()

    def call() -> None:
        with torch.operator("aten::add"):
            probe.launch()

    with recorded(probe) as outer:
        call()
        with torch.operator("aten::linear"):
            with kernelscope.record() as inner:
                call()
                probe.launch()
            call()
    assert paths(inner.recording) == ["aten::linear / aten::add", "aten::linear"]
    assert calls(inner.recording) == {"aten::linear": 0, "aten::linear / aten::add": 1}
    assert calls(outer.recording) == {"aten::add": 1, "aten::linear": 1, "aten::linear / aten::add": 2}


def test_many_operators_deep_ones_and_long_names(torch: Library) -> None:
    probe = Launches()
    names = [f"aten::op_{number}" for number in range(300)]
    with recorded(probe) as recorder:
        for name in names:
            with torch.operator(name):
                probe.launch()
        with torch.operator("é" * 400):
            probe.launch()
        entered = [torch.enter("aten::deep") for _ in range(400)]
        probe.launch()
        for each in reversed(entered):
            torch.leave(each)
        probe.launch()
    *named, long, deep, none = paths(recorder.recording)
    assert named == names and none is None
    assert long is not None and long.startswith("é" * 90) and deep is not None
    assert deep.count("aten::deep") == 32 and " / (224 more) / " in deep  # of 256 that are recorded


def test_what_a_library_declares_otherwise_is_not_called(folder: Path, torch: Library, tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout_problem(folder) is None
    for at in range(len(_DECLARED)):
        other = tmp_path / str(at)
        (other / "include" / "ATen").mkdir(parents=True)
        (other / "lib").symlink_to(folder / "lib")
        (other / "include" / "ATen" / "record_function.h").write_text(HEADER.replace(_DECLARED[at], "other;"))
        assert "record_function.h does not declare" in str(layout_problem(other))
    assert layout_problem(tmp_path / "nowhere") is not None
    monkeypatch.setattr(sys.modules["torch"], "__file__", str(tmp_path / "0" / "__init__.py"))
    probe = Launches()
    with recorded(probe) as recorder, torch.operator("aten::add"):
        probe.launch()
    (row,) = [row for row in recorder.recording.rows("health") if row["probe"] == "torch.operators"]
    assert row["status"] == "unavailable" and "are not recorded: record_function.h" in row["message"]
    assert paths(recorder.recording) == [None]


def test_only_a_request_installs_the_probe(torch: Library) -> None:
    with kernelscope.record():
        assert torch.enter("aten::add")[1] is None
    with kernelscope.record(torch_ops=True) as recorder:
        entered = torch.enter("aten::add")
        assert entered[1] is not None
        torch.leave(entered)
    assert "torch.operators" in recorder.recording.metadata["probes"]
    assert torch.enter("aten::add")[1] is None  # nothing is left


def test_only_pytorchs_own_names_are_in_a_redacted_recording(torch: Library) -> None:
    probe = Launches()
    names = ["secret step", "aten::addmm", "SecretBackward", "MulBackward0", "secret::op",
             "Torch-Compiled Region: 0/1", "autograd::engine::evaluate_function: MulBackward0"]
    with recorded(probe) as recorder:
        for name in names:
            with torch.operator(name), torch.operator("secret / inner"):
                probe.launch()
            with torch.operator(name):
                probe.launch()
    shown = recorder.recording.redacted()
    text = str(shown.rows("operators"))
    assert "secret" not in text.lower()
    assert {row["name"] for row in shown.rows("operators")} > {names[1], names[3], names[5], names[6]}
