"""Triton itself on the null driver: compiles with stages and disk cache, and why each was needed."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
import triton
import triton.language as tl

import kernelscope
from kernelscope import dryrun
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

STAGES = ["ir_initialization", "ttir", "ttgir", "llir", "ptx", "cubin", "store_results"]


def compiles(recording: Recording) -> list[dict[str, Any]]:
    from kernelscope.analysis.compiles import explain

    return explain(recording).rows("compilations")


def test_compiles_have_stages_and_files(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    recording = recorder.recording
    (row,) = recording.rows("compilations")
    assert (row["outcome"], row["trigger"], row["launch_id"]) == ("compiled", "launch", 0)
    assert row["cache_file"].endswith("axpy.json") and row["cache_data_file"].endswith("axpy.cubin")
    assert row["cache_key"] == axpy.device_caches[0][0].popitem()[1].hash
    passes = recording.rows("passes")
    assert [(each["kind"], each["name"]) for each in passes] == [("phase", name) for name in STAGES]
    ends = [each["start_ns"] + each["duration_ns"] for each in passes]
    assert [each["start_ns"] for each in passes] == [row["start_ns"], *ends[:-1]] and ends[-1] <= row["end_ns"]
    assert recording.rows("lines")[row["line_id"]]["function"] == "test_compiles_have_stages_and_files"


def test_disk_cache_is_told_from_compiles(make: Any, x: Any) -> None:
    axpy = make()
    axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    axpy[(4,)](x, x, 1000, 2.0, BLOCK=256)
    axpy.device_caches.clear()
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        axpy[(4,)](x, x, 1000, 2.0, BLOCK=256)
    rows = compiles(recorder.recording)
    assert [(row["outcome"], row["reason_code"], row["fix"]) for row in rows] == [("disk", "disk", None)] * 2
    assert rows[0]["reason"] == "not compiled: Triton's disk cache had it"
    assert rows[1]["reason"].startswith(
        "not compiled: Triton's disk cache had it; it was asked for because argument `n` is 1000, not divisible by 16")
    assert recorder.recording.launches["cache"].tolist() == ["disk", "disk"]
    assert recorder.recording.passes.empty


def test_a_listener_of_the_users_is_called_and_put_back(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy, heard = make(), []
    knobs = triton.knobs.compilation

    def listener(**told: Any) -> None:
        heard.append(told["cache_hit"])

    monkeypatch.setattr(knobs, "listener", listener)
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        ours = knobs.listener
    assert knobs.listener is listener and heard == [False] and len(recorder.recording.passes) == len(STAGES)
    monkeypatch.setattr(knobs, "listener", ours)  # as the end of a scope of knobs does that began while we recorded
    axpy[(4,)](x, x, 1000, 2.0, BLOCK=256)
    assert heard == [False, False]


def test_a_listener_in_our_place_costs_the_stages_only(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        monkeypatch.setattr(triton.knobs.compilation, "listener", lambda **told: None)
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        axpy.device_caches.clear()
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    recording = recorder.recording
    assert recording.compilations["outcome"].tolist() == ["compiled", "disk"] and recording.passes.empty
    (health,) = [row for row in recording.rows("health") if row["status"] == "degraded"]
    assert "triton.knobs.compilation.listener" in health["message"]


def test_kernels_from_before_are_known(make: Any, x: Any) -> None:
    axpy = make()
    axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=512)
    (row,) = compiles(recorder.recording)
    assert (row["reason_code"], row["argument"]) == ("new_constexpr", "BLOCK")
    assert row["nearest_signature"] == "*fp32:16, *fp32:16, i32:16, fp32, BLOCK=256"
    assert recorder.recording.specializations["origin"].tolist() == ["before", "compiled"]


def test_other_targets(make: Any, x: Any) -> None:
    axpy = make()
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "a": "fp32", "BLOCK": "constexpr"}
    source = triton.compiler.ASTSource(axpy, types, constexprs={"BLOCK": 256})
    with kernelscope.record() as recorder:
        for arch in (90, 80):
            triton.compile(source, target=triton.backends.compiler.GPUTarget("cuda", arch, 32))
    first, second = compiles(recorder.recording)
    assert (first["trigger"], first["reason_code"]) == ("compile", "first_use")
    assert second["reason_code"] == "new_device" and "cuda:80" in second["reason"] and "cuda:90" in second["reason"]
    assert recorder.recording.specializations["compute_capability"].tolist() == ["9.0", "8.0"]


def test_two_threads_may_compile_the_same(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    together, stage = threading.Barrier(2, timeout=600), triton.compiler.ASTSource.make_ir

    def make_ir(*args: Any, **kwargs: Any) -> Any:
        together.wait()
        return stage(*args, **kwargs)

    monkeypatch.setattr(triton.compiler.ASTSource, "make_ir", make_ir)
    with kernelscope.record() as recorder:
        threads = [threading.Thread(target=lambda: axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = compiles(recorder.recording)
    assert [row["reason_code"] for row in rows] == ["first_use", "recompile"]
    assert rows[1]["fix"] == "launch once in one thread before the others start"
    assert {row["thread_id"] for row in rows} == {0, 1}
    assert recorder.recording.launches["cache"].tolist() == ["compiled", "compiled"]


def test_values_are_not_in_redacted_recordings(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0, BLOCK=256)
        axpy[(4,)](x[1:], x, 123457, 2.0, BLOCK=256)
    assert json.loads(recorder.recording.rows("compilations")[1]["attributes"])["values"] == {"n": 123457}
    bare = redact(recorder.recording)
    tables = ("compilations", "specializations", "dispatchers")
    assert "123457" not in json.dumps([bare.rows(table) for table in tables])
    assert bare.rows("dispatchers")[0]["framework"] == "triton"
    assert bare.rows("compilations")[1]["reason_code"] == "divisibility"
    assert bare.passes["name"].tolist()[:7] == STAGES


# Changes of arguments and options between two launches, and what is said of them.

def launch(kernel: Any, call: dict[str, Any]) -> None:
    arguments = dict(call)
    kernel[arguments.pop("grid", (4,))](**arguments)


def pointer(dtype: str = "float32", at: int = 0) -> Any:
    return dryrun.array(4096, dtype)[at:]


@dataclass(frozen=True)
class Change:
    """Two launches that differ, the reason of the second one's compile, and its fix."""

    name: str
    first: dict[str, Any]
    second: dict[str, Any]
    code: str
    argument: str | None
    says: str
    fix: str
    #: What the kernel is: see `make` in ``conftest.py``.
    kernel: dict[str, Any] = field(default_factory=dict)


SLOWER = "which may run slower than one made for it (not measured)"


def aligned(*names: str) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"@triton.jit(do_not_specialize_on_alignment=[{quoted}]) makes one kernel for all of them, {SLOWER}"


def not_for_1(name: str) -> str:
    return f'@triton.jit(do_not_specialize=["{name}"]) makes one kernel for all of them, {SLOWER}'


PADDED = "pass `n` padded to a multiple of 16 in every launch"
SLICED = "slice `x` at a multiple of 16 bytes (4 elements) in every launch"
CHANGES = [
    Change("dtype of a pointer", {}, {"x": pointer("float64")}, "new_dtype", "x",
           "argument `x` is *fp64; the nearest known specialization has *fp32",
           "pass `x` with the dtype fp32 in every launch, if the values allow it"),
    Change("dtypes of two pointers", {}, {"x": pointer("float16"), "y": pointer("float16")}, "new_dtype", "x",
           "`y` (*fp32 to *fp16) differs too",
           "pass `x` with the dtype fp32 in every launch; pass `y` with the dtype fp32 in every launch"),
    Change("integers behind a pointer", {"y": pointer("int32")}, {"y": pointer("int64")}, "new_dtype", "y", "*i64",
           "pass `y` with the dtype i64 in every launch"),
    Change("None and a pointer", {"y": None}, {}, "new_type", "y", "argument `y` is *fp32; the nearest known "
           "specialization has None", "pass a *fp32 as `y` in every launch: None is a constant",
           {"optional": "y"}),
    Change("a float that becomes an integer", {}, {"a": 3}, "new_scalar", "a", "argument `a` is i32 (3)",
           "annotate it in the kernel, `a: tl.float32`, which takes all of these numbers (large integers are rounded)"),
    Change("an integer that becomes a bool", {"a": 7}, {"a": True}, "new_scalar", "a", "argument `a` is u1",
           f"annotate it in the kernel, `a: tl.int32`, which takes all of these integers; {not_for_1('a')}"),
    Change("an integer that becomes a float", {"a": 1}, {"a": 3.5}, "new_scalar", "a",
           "argument `a` is fp32; the nearest known specialization has 1", "annotate it in the kernel, `a: "
           "tl.float32`, which takes all of these numbers (large integers are rounded)"),
    Change("an integer of 1 and one of 64 bits", {"n": 1}, {"n": 1 << 33}, "equal_to_1", "n",
           f"argument `n` is {1 << 33}; the nearest known specialization is for 1, as a constant",
           f"annotate it in the kernel, `n: tl.int64`, which takes all of these integers; {not_for_1('n')}"),
    Change("an annotated integer of 1", {"n": 5}, {"n": 1}, "equal_to_1", "n",
           "argument `n` is specialized for the value 1, which an annotation does not prevent; the nearest known "
           "specialization is for other integers, such as 5", not_for_1("n"), {"annotate": ("n", "tl.int64")}),
    Change("an annotated integer that is 1 no longer", {"n": 1}, {"n": 5}, "equal_to_1", "n",
           "argument `n` is 5; the nearest known specialization is for 1", not_for_1("n"),
           {"annotate": ("n", "tl.int32")}),
    Change("a tuple of another length", {"s": (2, 2.0)}, {"s": (2, 2.0, 3)}, "tuple_arity", "s",
           "the tuple `s` has 3 elements; the nearest known specialization has 2",
           "pass `s` with 3 elements in every launch", {"more": ", s"}),
    Change("a constant in a tuple", {"s": (tl.constexpr(4), 2.0)}, {"s": (tl.constexpr(8), 2.0)}, "new_constexpr",
           "s[0]", "the constexpr `s[0]` is 8; the nearest known specialization has 4", "launch it with s[0]=4 every "
           "time; or, where the kernel does not need `s[0]` as a constant, drop tl.constexpr there", {"more": ", s"}),
    Change("an integer that needs 64 bits", {}, {"n": 1 << 33}, "new_scalar", "n", f"argument `n` is i64 ({1 << 33})",
           "annotate it in the kernel, `n: tl.int64`, which takes all of these integers"),
    Change("constexpr", {}, {"BLOCK": 512}, "new_constexpr", "BLOCK",
           "the constexpr `BLOCK` is 512; the nearest known specialization has 256",
           "launch it with BLOCK=256 every time; or, where the kernel does not need `BLOCK` as a constant, drop "
           "tl.constexpr there"),
    Change("constexpr that is a bool", {"MASK": True}, {"MASK": False}, "new_constexpr", "MASK",
           "is False; the nearest", "launch it with MASK=True every time", {"more": ", MASK: tl.constexpr"}),
    Change("constexpr that is a text", {"ACT": "relu"}, {"ACT": "tanh"}, "new_constexpr", "ACT", "is 'tanh'; the",
           "launch it with ACT='relu' every time", {"more": ", ACT: tl.constexpr"}),
    Change("constexpr that is a dtype", {"D": tl.float32}, {"D": tl.float16}, "new_constexpr", "D", "has tl.float32",
           "launch it with D=tl.float32 every time", {"more": ", D: tl.constexpr"}),
    Change("integer no longer divisible", {}, {"n": 1000}, "divisibility", "n",
           "argument `n` is 1000, not divisible by 16; the nearest known specialization is for integers that are, such "
           "as 1024", f"{aligned('n')}; or {PADDED}"),
    Change("integer newly divisible", {"n": 1000}, {}, "divisibility", "n",
           "argument `n` is 1024, divisible by 16; the nearest known specialization is for integers that are not, such "
           "as 1000", f"{aligned('n')}; or {PADDED}"),
    Change("pointer no longer aligned", {}, {"x": pointer(at=1)}, "divisibility", "x",
           "pointer `x` is aligned at 4 bytes, not at 16; the nearest known specialization is for pointers aligned at "
           "16 bytes", f"{aligned('x')}; or {SLICED}"),
    Change("pointer newly aligned", {"x": pointer(at=2)}, {}, "divisibility", "x",
           "pointer `x` is aligned at 16 bytes; the nearest known specialization is for any pointer (it was made for "
           "one aligned at 8 bytes)", f"{aligned('x')}; or {SLICED}"),
    Change("integer and pointer no longer aligned", {}, {"x": pointer(at=3), "n": 1001}, "divisibility", "x",
           "`n` (i32:16 to i32) differs too", f"{aligned('x', 'n')}; or {SLICED}; or {PADDED}"),
    Change("halves that are not aligned", {"x": pointer("float16")}, {"x": pointer("float16", 1)}, "divisibility", "x",
           "pointer `x` is aligned at 2 bytes",
           f"{aligned('x')}; or slice `x` at a multiple of 16 bytes (8 elements) in every launch"),
    Change("an integer of 1", {}, {"n": 1}, "equal_to_1", "n",
           "argument `n` is 1, which Triton compiles as a constant; the nearest known specialization is for other "
           "integers, such as 1024", not_for_1("n")),
    Change("an integer that is 1 no longer", {"n": 1}, {"n": 7}, "equal_to_1", "n",
           "argument `n` is 7; the nearest known specialization is for 1, as a constant", not_for_1("n")),
    Change("num_warps", {}, {"num_warps": 8}, "new_option", None,
           "num_warps is 8; the nearest known specialization has 4", "launch it with num_warps=4 every time"),
    Change("num_stages", {"num_stages": 2}, {"num_stages": 4}, "new_option", None, "num_stages is 4",
           "launch it with num_stages=2 every time"),
    Change("num_ctas", {}, {"num_ctas": 2}, "new_option", None, "num_ctas is 2",
           "launch it with num_ctas=1 every time"),
    Change("maxnreg", {}, {"maxnreg": 64}, "new_option", None,
           "maxnreg is 64; the nearest known specialization has None", "launch it with maxnreg=None every time"),
    Change("enable_fp_fusion", {}, {"enable_fp_fusion": False}, "new_option", None, "enable_fp_fusion is False",
           "launch it with enable_fp_fusion=True every time"),
    Change("constexpr and option", {}, {"BLOCK": 128, "num_warps": 2}, "new_constexpr", "BLOCK",
           "num_warps (4 to 2) differs too", "launch it with BLOCK=256, num_warps=4 every time; or, where the kernel "
           "does not need `BLOCK` as a constant, drop tl.constexpr there"),
    Change("an element of a tuple", {"s": (16, 2.0)}, {"s": (17, 2.0)}, "divisibility", "s[0]",
           "argument `s[0]` is 17, not divisible by 16", "pass `s[0]` padded to a multiple of 16 in every launch",
           {"more": ", s"}),
    Change("an element of a tuple that is 1", {"s": (2, 2.0)}, {"s": (1, 2.0)}, "equal_to_1", "s[0]",
           "argument `s[0]` is 1", "pass `s[0]` as an argument of its own, with do_not_specialize in @triton.jit",
           {"more": ", s"}),
]


def call_of(x: Any, change: dict[str, Any]) -> dict[str, Any]:
    return {"x": x, "y": x, "n": 1024, "a": 2.0, "BLOCK": 256, **change}


def fixed(fix: str, kernel: dict[str, Any], calls: tuple[dict[str, Any], ...]) -> list[tuple[dict[str, Any], Any]]:
    """What the fix says, done: the kernel and its launches, for each alternative that the fix names."""
    options = re.search(r"@triton\.jit\((.*?)\) makes", fix)
    annotated = re.search(r"annotate it in the kernel, `(\w+): (tl\.\w+)`", fix)
    if annotated:
        given = eval(f"dict({options[1]})") if options else {}
        return [({**kernel, **given, "annotate": annotated.groups()}, calls)]
    if "as an argument of its own" in fix:
        split = tuple({**call, "s0": call["s"][0]} for call in calls)
        for call in split:
            del call["s"]
        return [({"more": ", s0", "do_not_specialize": ["s0"]}, split)]
    made = [({**kernel, **eval(f"dict({options[1]})")}, calls)] if options else []
    changed = tuple({name: argument(fix, name, value) for name, value in call.items()} for call in calls)
    for at, value in re.findall(r"launch it with s\[(\d)\]=(\d+) every time", fix):
        changed = tuple(call | {"s": (*call["s"][:int(at)], tl.constexpr(int(value)), *call["s"][int(at) + 1:])}
                        for call in changed)
    for clause in re.findall(r"launch it with (\w+=.*?) every time", fix):
        changed = tuple(call | eval(f"dict({clause})", {"tl": tl}) for call in changed)
    return [*made, (kernel, changed)] if repr(changed) != repr(calls) else made


def argument(fix: str, name: str, value: Any) -> Any:
    """What a fix says to pass as an argument."""
    def says(pattern: str) -> list[str]:
        return re.findall(pattern.replace("NAME", name), fix)

    for dtype in (*says(r"pass `NAME` with the dtype (\w+)"), *says(r"pass a \*(\w+) as `NAME`")):
        return pointer({"fp32": "float32", "i64": "int64"}[dtype])
    for count in says(r"pass `NAME` with (\d+) elements"):
        return (*value, *[3] * (int(count) - len(value)))
    if says("pass `NAME` padded to a multiple of 16"):
        return -(-value // 16) * 16
    if says(r"pass `NAME\[0\]` padded to a multiple of 16"):
        return -(-value[0] // 16) * 16, *value[1:]
    for count in says(r"slice `NAME` at a multiple of 16 bytes \((\d+) elements\)"):
        return pointer(str(value.dtype), int(count))
    return value


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_changes_of_a_launch(make: Any, x: Any, change: Change) -> None:
    first, second = call_of(x, change.first), call_of(x, change.second)
    for name in change.first:
        second.setdefault(name, first[name])
    kernel = make(**change.kernel)
    with kernelscope.record() as recorder:
        launch(kernel, first)
        launch(kernel, second)
    rows = compiles(recorder.recording)
    assert [row["outcome"] for row in rows] == ["compiled", "compiled"]
    assert (rows[1]["reason_code"], rows[1]["argument"]) == (change.code, change.argument)
    assert change.says in rows[1]["reason"]
    assert rows[1]["fix"] == change.fix
    applied = fixed(rows[1]["fix"], change.kernel, (first, second))
    assert len(applied) == 1 + ("; or pass" in change.fix or "; or slice" in change.fix), "each can be applied"
    for options, calls in applied:
        kernel = make(**options)
        with kernelscope.record() as recorder:
            for call in calls:
                launch(kernel, call)
        assert len(recorder.recording.compilations) == 1, (options, calls)


@pytest.mark.parametrize(("name", "values"), [
    ("a", (2, True, 1 << 33)), ("a", (3, 1, 3.5)), ("a", (1, 3, 3.5, True)), ("n", (2, 1, 1 << 33, 16)),
    ("n", (5, 1 << 63, 1)), ("x", ("float32", "float64", "float16")), ("y", ("int32", None, "int64", "int8")),
])
def test_the_fixes_of_all_compiles_leave_one(make: Any, x: Any, name: str, values: tuple[Any, ...]) -> None:
    kernel = {"optional": "y"} if None in values else {}
    calls = tuple(call_of(x, {name: pointer(value) if isinstance(value, str) else value}) for value in values)
    axpy = make(**kernel)
    with kernelscope.record() as recorder:
        for call in calls:
            launch(axpy, call)
    fixes = [row["fix"] for row in compiles(recorder.recording)[1:]]
    annotated = {found for fix in fixes for found in re.findall(r"`(\w+): (tl\.\w+)`", fix)}
    assert len(annotated) <= 1
    for fix in fixes:
        for options, changed in fixed(fix, kernel, calls)[:1]:
            kernel, calls = {**kernel, **options}, changed
    axpy = make(**kernel)
    with kernelscope.record() as recorder:
        for call in calls:
            launch(axpy, call)
    assert len(recorder.recording.compilations) == 1, fixes


def test_a_bool_for_an_annotated_integer(make: Any, x: Any) -> None:
    axpy = make(annotate=("n", "tl.int64"))
    with kernelscope.record() as recorder:
        for n in (5, True):
            launch(axpy, call_of(x, {"n": n}))
    row = compiles(recorder.recording)[1]
    assert "argument `n` is a bool; the nearest known specialization is for an integer" in row["reason"]


def test_an_option_that_is_the_default(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        launch(axpy, call_of(x, {}))
        launch(axpy, call_of(x, {"num_warps": 4}))
    row = compiles(recorder.recording)[1]
    assert row["outcome"] == "disk" and len(recorder.recording.specializations) == 1
    assert row["reason"].endswith("asked for because the launch gives num_warps=4, which is the default: Triton's key "
                                  "in memory tells the two apart")


# Changes of what is not an argument: definitions, what they read, the environment.

HELPED = """
import triton
import triton.language as tl

FACTOR = tl.constexpr({factor})


@triton.jit
def helper(x):
    return x * {scale}

{lines}
def axpy(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, 16)
    tl.store(y + i, helper(tl.load(x + i)) * FACTOR{more})
"""
BEFORE = {"factor": 2, "scale": 3, "lines": "", "more": ""}


@pytest.mark.parametrize(("after", "code", "says", "fix"), [
    ({"more": " + 1"}, "redefined", "the definition ran again with new source", "nothing avoids it"),
    ({"factor": 5}, "new_global", "the constexpr `FACTOR`, which it reads from outside, is 5 instead of 2",
     "pass `FACTOR` as an argument that is no tl.constexpr"),
    ({"scale": 4}, "redefined", "the function `helper`, which it calls, is another one", "nothing avoids it where"),
    ({"lines": "\n\n"}, "redefined", "has moved from line 13 to line 15: Triton's key has the line",
     "keep the definition in a module"),
])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_changes_of_a_definition(make: Any, x: Any, after: dict[str, Any], code: str, says: str, fix: str,
                                 is_recorded: bool) -> None:
    call = call_of(x, {})
    if not is_recorded:
        with kernelscope.record():
            launch(make(HELPED.format(**BEFORE)), call)
    with kernelscope.record() as recorder:
        if is_recorded:
            launch(make(HELPED.format(**BEFORE)), call)
        launch(make(HELPED.format(**{**BEFORE, **after})), call)
    row = compiles(recorder.recording)[-1]
    assert (row["outcome"], row["reason_code"]) == ("compiled", code)
    assert says in row["reason"] and row["fix"].startswith(fix)


def test_the_same_definition_again_comes_from_disk(make: Any, x: Any) -> None:
    with kernelscope.record() as recorder:
        for _ in range(2):
            launch(make(), call_of(x, {}))
    row = compiles(recorder.recording)[1]
    assert (row["outcome"], row["reason_code"]) == ("disk", "disk")
    assert row["reason"].endswith("it was asked for because the definition ran again with the same source: the new "
                                  "kernel has none of the specializations of the one before")


def test_changes_of_the_environment(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with kernelscope.record() as recorder:
        launch(make(), call_of(x, {}))
        monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
        launch(make(), call_of(x, {}))
    row = compiles(recorder.recording)[1]
    assert (row["outcome"], row["reason_code"], row["argument"]) == ("compiled", "new_setting", None)
    assert row["reason"].startswith("TRITON_DISABLE_LINE_INFO is true; the nearest known specialization has ")
    assert row["fix"].startswith("keep TRITON_DISABLE_LINE_INFO=")


def test_the_same_specialization_again(make: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        launch(axpy, call_of(x, {}))
        monkeypatch.setattr(triton.knobs.compilation, "always_compile", True)
        axpy.device_caches.clear()
        launch(axpy, call_of(x, {}))
    row = compiles(recorder.recording)[1]
    assert (row["outcome"], row["reason_code"], row["fix"]) == ("compiled", "recompile", "unset TRITON_ALWAYS_COMPILE")


def test_the_nearest_is_the_one_with_the_fewest_differences(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        for change in ({"num_stages": 2}, {"n": 1000, "BLOCK": 64}, {"n": 1000, "BLOCK": 64, "num_warps": 8},
                       {"BLOCK": 64}):
            launch(axpy, call_of(x, change))
    row = compiles(recorder.recording)[3]
    assert row["reason_code"] == "divisibility" and row["nearest_signature"].endswith("i32, fp32, BLOCK=64")


def test_budgets_of_tests_count_them(make: Any, x: Any) -> None:
    from kernelscope.pytest_plugin.checks import Limits, exceeded, message

    axpy = make()
    with kernelscope.record() as recorder:
        launch(axpy, call_of(x, {}))
        launch(axpy, call_of(x, {"n": 1000}))
    assert exceeded(recorder.recording, Limits(max_compiles=2, max_specializations={"axpy": 2}, max_launches=2)) == []
    told = message(recorder.recording, exceeded(recorder.recording, Limits(max_compiles=1)), width=200)
    assert "2 compiles, at most 1 allowed (max_compiles)" in told
    assert "argument `n` is 1000, not divisible by 16" in told and "[divisibility, argument n]" in told


def test_cards_name_them(make: Any, x: Any) -> None:
    axpy = make()
    with kernelscope.record() as recorder:
        launch(axpy, call_of(x, {}))
        launch(axpy, call_of(x, {"BLOCK": 512}))
        launch(axpy, call_of(x, {"n": 1000, "BLOCK": 512}))
    text = repr(recorder.recording)
    assert "BLOCK 256 → 512" in text
    assert "argument `n` is 1000, not divisible by 16" in text and 'do_not_specialize_on_alignment=["n"]' in text
