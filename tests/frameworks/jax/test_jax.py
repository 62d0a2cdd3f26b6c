"""JAX itself on the CPU: why it compiles, what comes from its cache, and that nothing of ours is left."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import monitoring, pjit

import kernelscope
from kernelscope.analysis.compiles import explain
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

LISTENERS = ("event", "scalar", "event_duration")


def listeners() -> list[list[Any]]:
    return [getattr(monitoring, f"get_{kind}_listeners")() for kind in LISTENERS]


def compiles(recording: Recording, name: str = "step") -> list[dict[str, Any]]:
    names = recording.dispatchers["name"]
    return [row for row in explain(recording).rows("compilations") if names[row["dispatcher_id"]] == name]


def make(**options: Any) -> Any:
    def step(x, more=None, *, n=2, m=1):  # type: ignore[no-untyped-def]
        return jnp.sin(x) * n + m + sum(jax.tree.leaves(more))

    return jax.jit(step, **options)


def ones(shape: Any = 8, dtype: str = "float32") -> Any:
    return jnp.asarray(np.ones(shape, dtype))


@dataclass(frozen=True)
class Change:
    """Two calls that differ, the reason of the second one's compile, and a call that its fix makes."""

    name: str
    first: Callable[[Any], Any]
    second: Callable[[Any], Any]
    fixed: Callable[[Any], Any]
    code: str
    argument: str
    says: str
    fix: str


CHANGES = [
    Change("shape", lambda f: f(ones()), lambda f: f(ones(9)), lambda f: f(jnp.pad(ones(), (0, 1))), "static_size", "x",
           "argument `x` has the shape (9); the nearest known specialization has (8)", "pad `x` to the shape (9)"),
    Change("dtype", lambda f: f(ones()), lambda f: f(ones(8, "int32")), lambda f: f(ones(8, "int32").astype("float32")),
           "new_dtype", "x", "argument `x` is int32; the nearest known specialization has float32",
           "pass `x` with the dtype float32 in every call"),
    Change("dimensions", lambda f: f(ones()), lambda f: f(ones((2, 4))), lambda f: f(ones((2, 4)).reshape(8)),
           "new_dimensions", "x", "argument `x` has 2 dimensions", "pass `x` with 1 dimension in every call"),
    Change("number", lambda f: f(jnp.float32(1)), lambda f: f(1.0), lambda f: f(jnp.asarray(1.0, "float32")),
           "new_scalar", "x", "argument `x` is a number of Python's", "pass `x` in one way, as jnp.asarray(x, dtype)"),
    Change("key of a dict", lambda f: f(ones(), {"a": ones()}), lambda f: f(ones(), {"a": ones(), "b": ones()}),
           lambda f: f(ones(), {"a": ones()}), "new_type", "more['b']", "argument `more['b']` is an array of float32",
           "pass the same keys and items in every call"),
    Change("static argument", lambda f: f(ones(), n=3), lambda f: f(ones(), n=4), lambda f: f(ones(), n=3),
           "new_constexpr", "n", "the constant `n` is 4; the nearest known specialization has 3", "call it with n=3"),
    Change("static argument's default", lambda f: f(ones()), lambda f: f(ones(), n=4), lambda f: f(ones()),
           "new_constexpr", "n", "the constant `n` is 4; the nearest known specialization has 2", "call it with n=2"),
]


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_changes_and_their_fixes(change: Change) -> None:
    step = make(static_argnames=("n",))
    with kernelscope.record() as recorder:
        change.first(step)
        change.second(step)
    first, row = compiles(recorder.recording)
    assert (first["reason_code"], first["outcome"], row["outcome"]) == ("first_use", "compiled", "compiled")
    assert (row["reason_code"], row["argument"]) == (change.code, change.argument)
    assert change.says in row["reason"] and row["fix"].startswith(change.fix)
    bare = redact(recorder.recording)
    assert change.code in [each["reason_code"] for each in bare.rows("compilations")]
    with kernelscope.record() as again:
        change.fixed(step)
    assert compiles(again.recording) == []


def test_compiles_have_stages_a_line_and_a_function() -> None:
    step = make()
    with kernelscope.record() as recorder:
        step(ones())
        step(ones())
    recording = recorder.recording
    (row,) = compiles(recording)
    passes = [each for each in recording.rows("passes") if each["compilation_id"] == row["compilation_id"]]
    assert [each["name"] for each in passes] == ["trace", "lower to StableHLO", "XLA"]
    assert sum(each["duration_ns"] for each in passes) <= row["end_ns"] - row["start_ns"]
    dispatcher = recording.rows("dispatchers")[row["dispatcher_id"]]
    assert (dispatcher["framework"], dispatcher["arguments"]) == ("jax", "x")
    assert dispatcher["lineno"] == step.__wrapped__.__code__.co_firstlineno
    assert json.loads(dispatcher["attributes"]) == {"owner": "user"}
    assert recording.rows("lines")[row["line_id"]]["function"] == "test_compiles_have_stages_a_line_and_a_function"
    assert row["signature"] == "(float32[8])"


def test_functions_that_are_defined_again() -> None:
    x = ones()
    with kernelscope.record() as recorder:
        for _ in range(2):
            make()(x)
        for _ in range(2):
            jax.jit(lambda x: x * 3)(x)
        jax.jit(lambda x: x * 4)(x)
    assert [row["reason_code"] for row in compiles(recorder.recording)] == ["first_use", "redefined"]
    rows = compiles(recorder.recording, "<lambda>")
    assert [row["reason_code"] for row in rows] == ["first_use", "redefined", "first_use"]
    assert rows[1]["fix"] == "keep the definition out of the cell, loop or function that runs again"


def test_operations_outside_of_jit_and_options() -> None:
    step = make(donate_argnums=(0,))
    with kernelscope.record() as recorder:
        jnp.zeros(8), jnp.zeros(11)
        make()(ones())
        step.lower(ones()).compile()
        jax.eval_shape(make(), ones(99))
    rows = compiles(recorder.recording, "broadcast_in_dim")
    assert rows[-1]["fix"].startswith("call it inside of a function that is jitted")
    first, second = compiles(recorder.recording)
    held = recorder.recording.rows("specializations")[second["specialization_id"]]["attributes"]
    assert json.loads(held)["options"] == {"donate_argnums": "(0,)"} and first["outcome"] == "compiled"


def test_the_persistent_cache(tmp_path: Any) -> None:
    step, before = make(), jax.config.jax_compilation_cache_dir
    from jax.experimental.compilation_cache import compilation_cache

    names = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
    kept = {name: getattr(jax.config, name) for name in names}
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        for name in names:
            jax.config.update(name, 0)
        compilation_cache.reset_cache()
        with kernelscope.record() as recorder:
            step(ones())
            jax.clear_caches()
            step(ones())
    finally:
        for name, value in {**kept, "jax_compilation_cache_dir": before}.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    assert [(row["outcome"], row["reason_code"]) for row in compiles(recorder.recording)] == [
        ("compiled", "first_use"), ("disk", "disk")]


def test_compiled_again_after_the_caches_were_cleared() -> None:
    step = make()
    with kernelscope.record() as recorder:
        step(ones())
        step.clear_cache()
        step(ones())
    _, row = compiles(recorder.recording)
    assert row["reason_code"] == "recompile" and "caches were cleared" in row["reason"]


def test_failures_pass_untouched() -> None:
    @jax.jit
    def step(x):  # type: ignore[no-untyped-def]
        return 1 if x > 0 else 2

    with pytest.raises(jax.errors.TracerBoolConversionError) as plain:
        step(1.0)
    with kernelscope.record() as recorder, pytest.raises(jax.errors.TracerBoolConversionError) as refused:
        step(1.0)
    assert str(plain.value) == str(refused.value) and len(plain.traceback) == len(refused.traceback)
    (row,) = compiles(recorder.recording)
    assert row["outcome"] == "failed" and row["error"].startswith("TracerBoolConversionError")
    try:  # a compile while the user handles another exception is none that failed
        raise ValueError
    except ValueError:
        with kernelscope.record() as recorder:
            make()(ones(5))
    assert [each["outcome"] for each in compiles(recorder.recording)] == ["compiled"]


def test_threads_and_nested_functions() -> None:
    inner = jax.jit(functools.partial(lambda x, y: x + y, y=1))
    outer = [jax.jit(lambda x, at=at: inner(x) * at) for at in range(3)]
    with kernelscope.record() as recorder:
        threads = [threading.Thread(target=each, args=(ones(),)) for each in outer]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(compiles(recorder.recording, "<lambda>")) == 3


def test_nothing_is_left_behind() -> None:
    functions = [pjit._trace_for_jit, pjit._resolve_and_lower]
    codes, heard, config = [each.__code__ for each in functions], listeners(), dict(jax.config.values)
    with kernelscope.record():
        assert [len(now) - len(was) for now, was in zip(listeners(), heard, strict=True)] == [1, 1, 1]
        assert dict(jax.config.values) == config
    assert [each.__code__ for each in functions] == codes and listeners() == heard
    with kernelscope.record() as recorder:
        monitoring._event_listeners.clear()  # as jax.monitoring.clear_event_listeners does
    assert all(row["errors"] in (None, 0) for row in recorder.recording.rows("health"))
    assert listeners()[1:] == heard[1:]


def test_what_goes_wrong_for_us_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.frameworks.jax.hooks.key_of", lambda *_: 1 // 0)
    with kernelscope.record() as recorder:
        assert make()(ones(7)).shape == (7,)
    assert any("ZeroDivisionError" in str(row["message"]) for row in recorder.recording.rows("health"))


@pytest.mark.parametrize(("name", "says"), [("_trace_for_jit", "without what was passed"), ("", "9.9 was not tried")])
def test_other_versions(monkeypatch: pytest.MonkeyPatch, name: str, says: str) -> None:
    monkeypatch.setattr(pjit, name, lambda *args: None) if name else monkeypatch.setattr(jax, "__version__", "9.9")
    with kernelscope.record() as recorder:
        pass
    assert any(says in row["message"] for row in recorder.recording.rows("health") if row["probe"] == "jax")
