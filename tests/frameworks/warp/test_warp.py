"""Warp itself on the CPU: why its modules compile, what its kernel cache has, and that nothing of ours is left."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warp as wp

import kernelscope
from kernelscope.analysis.compiles import explain
from kernelscope.errors import ProbeUnavailableError
from kernelscope.frameworks.warp.hooks import WarpProbe
from kernelscope.probes.sink import Sink
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

SOURCE = """
from typing import Any
import warp as wp

SCALE = wp.constant(2.0)

@wp.func
def half(x: float):
    return x * 0.5

@wp.kernel
def scaled(x: wp.array(dtype=float)):
    x[wp.tid()] = half(x[wp.tid()]) * SCALE
"""
DOUBLED = """
@wp.kernel
def doubled(x: wp.array(dtype=Any)):
    x[wp.tid()] = x[wp.tid()] + x[wp.tid()]
"""
Source = Callable[..., Any]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """Return what runs source in one module, as the cells of a notebook do; Warp's kernel cache is this test's own."""
    monkeypatch.setattr(wp.config, "log_level", wp.LOG_ERROR)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    made = ModuleType("kernels")
    sys.modules["kernels"] = made

    def define(source: str) -> Any:
        file = tmp_path / f"kernels_{len(vars(made))}.py"
        file.write_text(source)
        exec(compile(source, str(file), "exec"), vars(made))
        return made

    yield define
    del sys.modules["kernels"]


def launch(kernel: Any, dtype: Any = float, **options: Any) -> None:
    wp.launch(kernel, dim=8, inputs=[wp.zeros(8, dtype=dtype, device="cpu")], device="cpu", **options)


def compiles(recording: Recording) -> list[dict[str, Any]]:
    return explain(recording).rows("compilations")


def test_compiles_and_their_reasons(module: Source) -> None:
    with kernelscope.record() as recorder:
        kernels = module(SOURCE)
        for _ in range(2):
            launch(kernels.scaled)
        module(DOUBLED)
        launch(kernels.doubled)
        launch(kernels.doubled, wp.float64)
        kernels.SCALE = wp.constant(3.0)
        kernels.scaled.module.mark_modified()
        launch(kernels.scaled)
        kernels.scaled.module.options["fast_math"] = True
        kernels.scaled.module.unload()
        launch(kernels.scaled)
        kernels.scaled.module.unload()
        launch(kernels.scaled)
    recording = recorder.recording
    rows = compiles(recording)
    assert [(row["outcome"], row["reason_code"], row["argument"]) for row in rows] == [
        ("compiled", "first_use", None), ("compiled", "redefined", None), ("compiled", "new_type", None),
        ("compiled", "new_constexpr", "SCALE"), ("compiled", "new_option", None), ("disk", "disk", None)]
    assert rows[1]["reason"] == "kernel `doubled` was added to the module, whose kernels are compiled together"
    assert '@wp.kernel(module="unique")' in rows[1]["fix"]
    assert "was called with (x: array(float64, 1d))" in rows[2]["reason"] and "wp.overload(doubled" in rows[2]["fix"]
    assert rows[3]["reason"] == "the constant `SCALE` is 3.0; the nearest known specialization has 2.0"
    assert rows[3]["fix"] == "keep `SCALE` at 2.0; or pass it to the kernel as an argument, which needs no compile"
    assert rows[4]["fix"] == "set fast_math=False once, before the first launch"
    assert rows[0]["signature"] == "scaled(x: array(float32, 1d))"
    assert rows[4]["cache_file"] == rows[5]["cache_file"] != rows[3]["cache_file"]
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"]) == ("warp", "kernels")
    first = [each for each in recording.rows("passes") if each["compilation_id"] == 0]
    assert [each["name"] for each in first] == ["clang"]
    assert first[0]["duration_ns"] <= rows[0]["end_ns"] - rows[0]["start_ns"]
    assert recording.rows("lines")[rows[0]["line_id"]]["function"] == "launch"
    bare = redact(recording)
    assert [row["reason_code"] for row in bare.rows("compilations")] == [row["reason_code"] for row in rows]
    assert "SCALE" not in json.dumps([bare.rows(name) for name in ("compilations", "specializations")])
    assert "was added to the module" in repr(recording)


def test_failures_pass_untouched(module: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def build_cpu(*args: Any, **options: Any) -> None:
        raise RuntimeError("no room on the disk")

    kernels = module(SOURCE)
    monkeypatch.setattr(sys.modules["warp._src.build"], "build_cpu", build_cpu)
    with kernelscope.record() as recorder, pytest.raises(RuntimeError, match="no room") as failed:
        launch(kernels.scaled)
    assert all("kernelscope/probes" not in str(each.path) for each in failed.traceback)
    (row,) = compiles(recorder.recording)
    assert (row["outcome"], row["error"]) == ("failed", "RuntimeError: no room on the disk")


def test_nothing_is_left_behind() -> None:
    context = sys.modules["warp._src.context"]
    functions = [context.Module._compile, sys.modules["warp._src.build"].build_cpu]
    codes = [each.__code__ for each in functions]
    with kernelscope.record():
        assert functions[0].__code__ is not codes[0]
    assert [each.__code__ for each in functions] == codes


def test_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp, "__version__", "9.9")
    with kernelscope.record() as recorder:
        pass
    assert any("9.9 was not tried" in row["message"] for row in recorder.recording.rows("health"))
    monkeypatch.setattr(sys.modules["warp._src.context"].Module, "_compile", lambda self: None)
    with pytest.raises(ProbeUnavailableError, match=r"another Module._compile .* those of 1.19 are"):
        WarpProbe().hook(wp, Sink())
