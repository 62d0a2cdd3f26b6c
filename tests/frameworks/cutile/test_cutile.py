"""cuTile itself on the null driver: launches, compiles and why each was needed, and that nothing of ours is left."""

from __future__ import annotations

import functools
import itertools
import json
import linecache
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope import dryrun

dryrun.enable(progress=lambda line: None)

import cuda.tile as ct  # noqa: E402
from cuda.tile._execution import kernel as kernel_class  # noqa: E402
from numba import cuda  # noqa: E402

from kernelscope.analysis.compiles import explain  # noqa: E402
from kernelscope.errors import ProbeUnavailableError  # noqa: E402
from kernelscope.frameworks.cutile import hooks as probes  # noqa: E402
from kernelscope.probes.base import Patches, numbers_of  # noqa: E402
from kernelscope.probes.cost import measure  # noqa: E402
from kernelscope.probes.sink import Sink  # noqa: E402
from kernelscope.recording.model import Recording  # noqa: E402
from kernelscope.recording.redact import redact  # noqa: E402

NUMBERS = itertools.count()
AXPY = """
import cuda.tile as ct

def axpy(x, y, a, N: ct.Constant[int]{more}):
    i = ct.bid(0)
    tile = ct.load(x, index={index}, shape={shape})
    ct.store(y, index={index}, tile=(tile * a{body}).astype(y.dtype))
"""


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Return what makes a kernel of a text, as running its definition does."""
    # Each test has code of its own: cuTile's disk cache is one for the process.
    unique = f" + {next(NUMBERS) + 1}.0"

    def definition(body: str = "", *, more: str = "", ndim: int = 1, path: str = "kernels.py",
                   **options: Any) -> Any:
        index, shape = ("(i,)", "(N,)") if ndim == 1 else ("(i, 0)", "(N, N)")
        source = AXPY.format(body=unique + body, more=more, index=index, shape=shape)
        file = tmp_path / path
        file.write_text(source)
        linecache.checkcache(str(file))
        module = ModuleType("kernels")
        exec(compile(source, str(file), "exec"), vars(module))
        return ct.kernel(module.axpy, **options)

    return definition


@functools.cache
def array(shape: Any = 1024, dtype: str = "float32", start: int = 0) -> Any:
    return cuda.device_array(shape, np.dtype(dtype))[start:]


def launch(kernel: Any, x: Any = None, y: Any = None, a: Any = 2.0, N: int = 16, *more: Any) -> None:
    ct.launch(0, (4,), kernel, (array() if x is None else x, array() if y is None else y, a, N, *more))


def compiles(recording: Recording) -> list[dict[str, Any]]:
    return explain(recording).rows("compilations")


def test_version_is_one_that_is_known() -> None:
    assert numbers_of(ct.__version__)[:2] in map(numbers_of, probes.KNOWN_VERSIONS)


def test_launches_and_compiles(make: Any) -> None:
    axpy, stream = make(), cuda.stream()
    with kernelscope.record() as recorder:
        for _ in range(3):
            launch(axpy)
        ct.launch(stream, (2, 3), axpy, (array(), array(), 2.0, 32))
    recording = recorder.recording
    rows = recording.rows("launches")
    assert [row["cache"] for row in rows] == ["compiled", "memory", "memory", "compiled"]
    assert all(row["end_ns"] >= row["start_ns"] and row["error"] is None for row in rows)
    assert 0 < rows[0]["compile_ns"] < rows[0]["end_ns"] - rows[0]["start_ns"]
    shapes = [tuple(recording.rows("configurations")[row["configuration_id"]][name] for name in (
        "griddim_x", "griddim_y", "griddim_z", "blockdim_x", "stream")) for row in rows]
    assert shapes == [(4, 1, 1, None, 0)] * 3 + [(2, 3, 1, None, int(stream.handle))]
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["arguments"]) == ("cutile", "axpy", "x, y, a, N")
    assert json.loads(dispatcher["attributes"]) == {"owner": "user"}
    first, second = recording.rows("specializations")
    text = "float32[1d] address:16 lengths:16"
    assert first["signature"] == f"{text}, {text}, float32, N=16" and second["signature"].endswith("N=32")
    assert (first["compute_capability"], first["origin"]) == ("9.0", "compiled")
    assert first["entry_name"].startswith("axpy_") and first["cubin_bytes"] > 0
    compilations = recording.rows("compilations")
    assert [(row["outcome"], row["trigger"], row["launch_id"]) for row in compilations] == [
        ("compiled", "launch", 0), ("compiled", "launch", 3)]
    assert all(row["cache_key"] for row in compilations)
    passes = recording.rows("passes")
    assert [each["name"] for each in passes] == ["front end", "tileiras"] * 2
    assert sum(each["duration_ns"] for each in passes[:2]) <= compilations[0]["end_ns"] - compilations[0]["start_ns"]
    assert recording.rows("lines")[compilations[0]["line_id"]]["function"] == "launch"
    assert recording.metadata["packages"]["cuda-tile"] == ct.__version__
    assert [row["specialization_id"] for row in rows] == [0, 0, 0, 1]


def test_specializations_of_later_launches_are_not_guessed(make: Any) -> None:
    axpy = make()
    launch(axpy)
    with kernelscope.record() as recorder:
        launch(axpy)
        launch(axpy, N=32)
        launch(axpy)
    assert recorder.recording.launches["specialization_id"].isna().tolist() == [True, False, True]


def test_disk_cache_is_told_from_compiles(make: Any) -> None:
    with kernelscope.record() as recorder:
        launch(make())
        launch(make())
    first, second = compiles(recorder.recording)
    assert (first["outcome"], second["outcome"], second["reason_code"], second["fix"]) == (
        "compiled", "disk", "disk", None)
    assert second["reason"].startswith("not compiled: cuTile's disk cache had it; it was asked for because the")


@dataclass(frozen=True)
class Change:
    """Two launches that differ, the reason of the second one's compile, and its fix."""

    name: str
    second: dict[str, Any]
    code: str
    argument: str | None
    says: str
    fix: str
    first: dict[str, Any] = field(default_factory=dict)
    ndim: int = 1


CHANGES = [
    Change("dtype", {"x": array(dtype="float16")}, "new_dtype", "x",
           "argument `x` is float16; the nearest known specialization has float32",
           "pass `x` with the dtype float32 in every launch, if the values allow it"),
    Change("scalar", {"a": 2}, "new_scalar", "a", "argument `a` is int32; the nearest known specialization has float32",
           "pass `a` as float32 in every launch, if the values allow it"),
    Change("constant", {"N": 32}, "new_constexpr", "N",
           "the constant `N` is 32; the nearest known specialization has 16",
           "launch with N=16 every time; or, where the kernel does not need `N` as a constant, annotate it otherwise "
           "than with Constant"),
    Change("length", {"x": array(1000)}, "divisibility", "x", "the lengths of argument `x` (its shape is 1000) are "
           "divisible by 1; the nearest known specialization is for 16",
           "pad `x` to lengths of a multiple of 16 in every launch"),
    Change("address", {"x": array(1026, start=2)}, "divisibility", "x", "the address of argument `x` is divisible by",
           "slice `x` at a multiple of 16 bytes in every launch"),
    Change("layout", {"x": array((64, 128))[:, ::2]}, "new_layout", "x", "is of strides (any, any)",
           "pass `x` in one layout in every launch", {"x": array((64, 64)), "y": array((64, 64))}, 2),
]


def fixed(fix: str, call: dict[str, Any]) -> dict[str, Any]:
    """What a fix says, done to a launch."""
    call = dict(call)
    for name, dtype in re.findall(r"pass `(\w+)` with the dtype (\w+)", fix):
        call[name] = array(call[name].shape, dtype) if name in call else array()
    for name in re.findall(r"pass `(\w+)` as float32", fix):
        call[name] = float(call.get(name, 2.0))
    for name, value in re.findall(r"launch with (\w+)=(\d+) every time", fix):
        call[name] = int(value)
    for name in re.findall(r"pad `(\w+)` to lengths of a multiple of 16", fix):
        call[name] = array(-(-call[name].shape[0] // 16) * 16) if name in call else array()
    for name in re.findall(r"slice `(\w+)` at a multiple of 16 bytes", fix):
        call[name] = array(1024 + 16, start=16)
    for name in re.findall(r"pass `(\w+)` in one layout", fix):
        call[name] = array((64, 64))
    return call


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_changes_of_a_launch(make: Any, change: Change) -> None:
    second = {**change.first, **change.second}
    with kernelscope.record() as recorder:
        kernel = make(ndim=change.ndim)
        launch(kernel, **change.first)
        launch(kernel, **second)
    first, row = compiles(recorder.recording)
    assert (first["reason_code"], row["outcome"]) == ("first_use", "compiled")
    assert (row["reason_code"], row["argument"]) == (change.code, change.argument)
    assert change.says in row["reason"] and change.fix in row["fix"]
    kernel = make("+ 0.5", ndim=change.ndim)
    with kernelscope.record() as recorder:
        launch(kernel, **change.first)
        launch(kernel, **fixed(row["fix"], second))
    assert len(recorder.recording.compilations) == 1


def test_hints_and_definitions(make: Any) -> None:
    with kernelscope.record() as recorder:
        launch(kernel := make())
        launch(kernel.replace_hints(opt_level=1))
        launch(make("+ 0.25"))
    _, hinted, redefined = compiles(recorder.recording)
    assert (hinted["reason_code"], hinted["fix"]) == (
        "new_option", "define the kernel with opt_level=3, and launch that one every time")
    assert hinted["reason"] == "opt_level is 1; in the nearest known specialization it is 3"
    assert (redefined["reason_code"], redefined["outcome"]) == ("redefined", "compiled")
    assert redefined["reason"] == "the definition ran again with new code, which has to be compiled"


def test_failures_pass_untouched(make: Any) -> None:
    axpy = make()
    with pytest.raises(TypeError) as plain:
        ct.launch(0, (4,), axpy, (array(),))
    with kernelscope.record() as recorder:
        with pytest.raises(TypeError) as refused:
            ct.launch(0, (4,), axpy, (array(),))
        with pytest.raises(Exception, match="power of two") as failed:
            launch(axpy, N=15)
    assert str(refused.value) == str(plain.value) and len(refused.traceback) == len(plain.traceback)
    assert "kernelscope/probes" not in "".join(str(each.path) for each in failed.traceback)
    rows = recorder.recording.rows("launches")
    assert [row["error"] for row in rows] == ["TypeError", type(failed.value).__name__]
    (row,) = compiles(recorder.recording)
    assert row["outcome"] == "failed" and "power of two" in row["error"]
    assert row["fix"].startswith("correct what the error names")


def test_nothing_is_left_behind(make: Any) -> None:
    import cuda.tile._compile as compiler

    bound, original, code = ct.launch, ct._cext.launch, kernel_class._compile.__code__
    names = {name: (vars(compiler)[name], vars(compiler)[name].__code__) for name in ("cache_lookup", "compile_cubin")}
    users = ModuleType("users")
    users.launch = ct.launch
    sys.modules["users"] = users
    try:
        with kernelscope.record() as recorder:
            assert ct.launch is not original and users.launch is ct.launch
            users.launch(0, (4,), make(), (array(), array(), 2.0, 16))
            held = ct.launch
        assert ct.launch is bound is original is users.launch and kernel_class._compile.__code__ is code
    finally:
        del sys.modules["users"]
    assert all((vars(compiler)[name], vars(compiler)[name].__code__) == found for name, found in names.items())
    held(0, (4,), make(), (array(), array(), 2.0, 16))  # somebody kept it: it passes calls through
    assert len(recorder.recording.launches) == 1


def test_threads_launch_at_the_same_time(make: Any) -> None:
    kernels = [make(f"+ {at}.125", path=f"kernels_{at}.py") for at in range(3)]

    def work(kernel: Any) -> None:
        cuda.current_context()
        for _ in range(20):
            launch(kernel)

    with kernelscope.record() as recorder:
        threads = [threading.Thread(target=work, args=(each,)) for each in kernels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recording = recorder.recording
    assert len(recording.launches) == 60 and len(recording.compilations) == 3
    assert recording.launches["cache"].tolist().count("compiled") == 3


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = probes.CutileProbe()
    monkeypatch.setattr(ct, "__version__", "2.0.0")
    with pytest.raises(ProbeUnavailableError, match=r"cuda.tile 2.0.0 is not known; 1.7 is recorded"):
        probe.hook(ct, Sink())
    monkeypatch.undo()
    monkeypatch.setattr(kernel_class, "_compile", lambda self, signature: None)
    with pytest.raises(ProbeUnavailableError, match=r"_compile does not take \(self, signature, context"):
        probe.hook(ct, Sink())


def test_redacted_recordings_keep_the_codes(make: Any) -> None:
    with kernelscope.record() as recorder:
        launch(kernel := make())
        launch(kernel, x=array(1000))
    bare = redact(recorder.recording)
    assert [row["reason_code"] for row in bare.rows("compilations")] == ["first_use", "divisibility"]
    assert bare.rows("dispatchers")[0]["framework"] == "cutile"
    assert "1000" not in json.dumps([bare.rows(table) for table in ("compilations", "specializations")])


def test_cards_name_them(make: Any) -> None:
    with kernelscope.record() as recorder:
        launch(kernel := make())
        launch(kernel, N=32)
    assert "the constant `N` is 32" in repr(recorder.recording)


def test_cost_is_measured() -> None:
    patches = Patches()
    try:
        cost = measure(probes.CutileProbe().trial(Sink(), patches))
    finally:
        patches.undo()
    assert 0 < cost < 100_000
