"""CuTe DSL's compiles, with a stand-in of its functions that compile."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import kernelscope
from kernelscope.analysis.compiles import explain
from kernelscope.errors import ProbeUnavailableError
from kernelscope.frameworks.cute.hooks import CuteProbe
from kernelscope.probes.sink import Sink
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

DSL = '''
from types import SimpleNamespace


class CompilerBackend:
    on_disk = set()

    def compile(self, ctx):
        state = self._resolve_compile_cache(ctx)
        if "error" in ctx.module_hash:
            raise ValueError("ptxas failed")
        self.on_disk.add(ctx.module_hash)
        return state

    def _resolve_compile_cache(self, ctx):
        return SimpleNamespace(load_from_file_cache=ctx.module_hash in self.on_disk)


class BaseDSL:
    def __init__(self):
        self.compile_options = SimpleNamespace(gpu_arch="sm_90a", options={})
        self.envar = SimpleNamespace(arch="sm_80")
        self.memory = set()

    def generate_mlir(self, funcBody, function_name, gpu_module_attrs, args, kwonlyargs, sig, pipeline, no_cache,
                      no_jit_engine, compile_only, location=None, compile_to_precompiled_mlir=False):
        traced = funcBody(*args, **kwonlyargs)
        key = repr((function_name, traced, args, kwonlyargs))
        if no_cache or key not in self.memory:
            CompilerBackend().compile(SimpleNamespace(module_hash=key))
            self.memory.add(key)
        if not compile_only:
            raise RuntimeError("cudaErrorInsufficientDriver")
        return key
'''


class OptLevel:
    _default = 3

    def __init__(self, value: int) -> None:
        self.value = value


class Int32:
    """CuTe DSL's name of a type."""


@pytest.fixture
def dsl() -> Iterator[Any]:
    """The stand-in, imported as CuTe DSL is."""
    module = ModuleType("cutlass.base_dsl.dsl")
    exec(compile(DSL, "dsl.py", "exec"), vars(module))
    names = ("cutlass", "cutlass.cute", "cutlass.base_dsl", "cutlass.base_dsl.compile_backend")
    sys.modules.update({name: ModuleType(name) for name in names})
    sys.modules["cutlass"].__version__ = "4.8.1"  # type: ignore[attr-defined]
    sys.modules["cutlass.base_dsl.dsl"] = module
    sys.modules["cutlass.base_dsl.compile_backend"].CompilerBackend = module.CompilerBackend  # type: ignore[attr-defined]
    yield module
    for name in (*names, "cutlass.base_dsl.dsl"):
        del sys.modules[name]


def step(a: Int32, n: Constexpr) -> str:  # type: ignore[name-defined]  # noqa: F821
    return "traced"


def generate(dsl: Any, a: Any, n: int, function: Any = step, *, no_cache: bool = True, only: bool = True) -> Any:
    parameters = inspect.signature(function).parameters.values()
    signature = inspect.Signature([each.replace(annotation=Int32 if each.name == "a" else "Constexpr")
                                   for each in parameters])
    return dsl.generate_mlir(function, function.__name__, {}, (a, n), {}, signature, None, no_cache, False, only)


def compiles(recording: Recording) -> list[dict[str, Any]]:
    return explain(recording).rows("compilations")


def test_compiles_and_their_reasons(dsl: Any) -> None:
    made = dsl.BaseDSL()
    tensor = SimpleNamespace(type="!cute.memref<f32, gmem>")
    with kernelscope.record() as recorder:
        for a, n in ((1, 8), (1, 16), (tensor, 16)):
            generate(made, a, n)
        made.compile_options.options[OptLevel] = OptLevel(1)
        generate(made, tensor, 16)
        generate(made, tensor, 16, no_cache=False)  # in memory
        made.compile_options.gpu_arch = "sm_100a"
        generate(made, 2, 16)
    recording = recorder.recording
    rows = compiles(recording)
    assert [(row["outcome"], row["reason_code"], row["argument"]) for row in rows] == [
        ("compiled", "first_use", None), ("compiled", "new_constexpr", "n"), ("compiled", "new_scalar", "a"),
        ("disk", "disk", None), ("compiled", "new_device", None)]
    assert rows[0]["signature"] == "(Int32, n=8)" and rows[2]["signature"] == "(!cute.memref<f32, gmem>, n=16)"
    assert rows[1]["fix"] == "call it with n=8 every time, or keep what was compiled for each value"
    assert "OptLevel is 1" in rows[3]["reason"]
    assert rows[0]["cache_key"] == repr(("step", "traced", (1, 8), {}))
    assert [each["name"] for each in recording.rows("passes") if each["compilation_id"] == 0] == ["trace", "compile"]
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["arguments"]) == ("cute", "step", "a, n")
    held = recording.rows("specializations")[0]
    assert held["compute_capability"] == "9.0" and json.loads(held["attributes"])["target"] == "sm_90a"
    bare = redact(recording)
    assert [row["reason_code"] for row in bare.rows("compilations")] == [row["reason_code"] for row in rows]
    assert "memref" not in json.dumps([bare.rows(name) for name in ("compilations", "specializations")])
    assert "the constant `n` is 16" in repr(recording)


def test_compiled_again(dsl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsl.CompilerBackend, "_resolve_compile_cache", lambda self, ctx: SimpleNamespace())
    with kernelscope.record() as recorder:
        for _ in range(2):
            generate(dsl.BaseDSL(), 1, 8)
    _, row = compiles(recorder.recording)
    assert (row["reason_code"], row["fix"]) == ("recompile", "keep what cute.compile has returned, and call that")


def test_failures_pass_untouched(dsl: Any) -> None:
    def untraced(a: Any, n: int) -> None:
        raise TypeError("not a tensor")

    def error(a: Any, n: int) -> str:
        return "error"

    with kernelscope.record() as recorder:
        cases = ((untraced, True, TypeError), (error, True, ValueError), (step, False, RuntimeError))
        for function, only, kind in cases:
            with pytest.raises(kind) as failed:
                generate(dsl.BaseDSL(), 1, 32, function, only=only)
            assert all("kernelscope/probes" not in str(each.path) for each in failed.traceback)
    assert [(row["outcome"], row["error"]) for row in compiles(recorder.recording)] == [
        ("failed", "TypeError: not a tensor"), ("failed", "ValueError: ptxas failed"), ("compiled", None)]


def test_nothing_is_left_behind_and_others_are_refused(dsl: Any) -> None:
    functions = [dsl.BaseDSL.generate_mlir, dsl.CompilerBackend.compile, dsl.CompilerBackend._resolve_compile_cache]
    codes = [each.__code__ for each in functions]
    with kernelscope.record():
        assert all(each.__code__ is not code for each, code in zip(functions, codes, strict=True))
    assert [each.__code__ for each in functions] == codes
    sys.modules["cutlass"].__version__ = "5.0"  # type: ignore[attr-defined]
    with kernelscope.record() as recorder:
        pass
    assert any("5.0 was not tried" in row["message"] for row in recorder.recording.rows("health"))
    del dsl.CompilerBackend.compile
    with pytest.raises(ProbeUnavailableError, match=r"cutlass 5.0 has no compile\(self, ctx, .* of 4.8 are"):
        CuteProbe().hook(sys.modules["cutlass.cute"], Sink())
