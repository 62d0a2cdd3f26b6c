from __future__ import annotations

import json
from typing import Any

import pytest
from counting import lines_run
from handmade import Script

from kernelscope.analysis.compiles import compilations, compile_ns, explain
from kernelscope.schema import COMPILE_REASONS

FLOAT32 = "(array(float32, 1d, C), int64)"
PACKED = "Record(a[type=int8;offset=0],b[type=float32;offset=1];5;False)"
ALIGNED = "Record(a[type=int8;offset=0],b[type=float32;offset=4];8;True)"


def _explained(known: list[str] | None = None, **row: Any) -> dict[str, Any]:
    made = Script()
    made.kernel("axpy", arguments=row.pop("arguments", "x, n"))
    made.configuration((1,), (64,))
    made.configuration((2,), (64,))
    attributes = row.pop("attributes", {})
    if known is not None:
        attributes["known_signatures"] = known
    made.compilation(attributes=json.dumps(attributes), **({"signature": FLOAT32} | row))
    recording = made.recording()
    explained = explain(recording).rows("compilations")[0]
    assert recording.rows("compilations")[0]["reason_code"] is None, "explain is pure"
    assert explained["reason_code"] in COMPILE_REASONS
    return explained


def test_a_first_use() -> None:
    found = _explained()
    assert found["reason_code"] == "first_use"
    assert found["reason"] == "the kernel had no specialization yet: this is its first"
    assert '@cuda.jit(["void(float32[::1], int64)"])' in found["fix"]
    assert "cache=True" in found["fix"]
    assert "cache=True" not in _explained(cache_file="axpy.nbi")["fix"]


HAS = "; the nearest known specialization has "


@pytest.mark.parametrize(("signature", "code", "reason", "fix"), [
    ("(array(float64, 1d, C), int64)", "new_dtype",
     f"argument `x` is array(float64, 1d, C){HAS}array(float32, 1d, C): another dtype (float32 to float64)",
     "pass argument `x` as array.astype(np.float32) in every launch, if the values allow it"),
    ("(array(float32, 1d, C), float64)", "new_scalar",
     f"argument `n` is float64, as a Python float is{HAS}int64, as a Python int is", "float(value)"),
    ("(array(float32, 1d, C), int32)", "new_scalar",
     f"argument `n` is np.int32{HAS}int64, as a Python int is", "int(value)"),
    ("(array(float32, 1d, A), int64)", "new_layout",
     f"argument `x` is array(float32, 1d, A){HAS}array(float32, 1d, C): another layout (C to A: not contiguous)",
     "np.ascontiguousarray(array)"),
    ("(readonly array(float32, 1d, C), int64)", "new_access",
     f"argument `x` is readonly array(float32, 1d, C){HAS}array(float32, 1d, C): read-only, not writable",
     "array.copy()"),
    ("(unaligned array(float32, 1d, C), int64)", "new_alignment",
     f"argument `x` is unaligned array(float32, 1d, C){HAS}array(float32, 1d, C): unaligned, not aligned",
     "array.astype(np.float32)"),
    ("(array(float32, 2d, C), int64)", "new_dimensions",
     f"argument `x` is array(float32, 2d, C){HAS}array(float32, 1d, C): other dimensions (1 to 2)",
     "array.reshape(-1)"),
    ("(int64, int64)", "new_type",
     f"argument `x` is int64, as a Python int is{HAS}array(float32, 1d, C)", "array(float32, 1d, C)"),
    ("(none, int64)", "optional", f"argument `x` is None{HAS}array(float32, 1d, C); no launch takes None",
     "cannot be launched with None"),
    ("(array(float32, 1d, C), unicode_type)", "new_type",
     f"argument `n` is a str{HAS}int64, as a Python int is; no launch takes a str", "cannot be launched with a str"),
    ("(array(float32, 1d, C), Literal[int](3))", "literal",
     f"argument `n` is Literal[int](3){HAS}int64, as a Python int is", "its plain type"),
    ("(array(float64, 2d, C), float32)", "new_dimensions",
     f"argument `x` is array(float64, 2d, C){HAS}array(float32, 1d, C): other dimensions (1 to 2), another dtype "
     "(float32 to float64); `n` (int64 to float32) differs too",
     "pass argument `x` as array.reshape(-1).astype(np.float32), argument `n` as np.float32(value) in every launch"),
    ("(array(float32, 1d, C),)", "argument_count", f"the kernel was given 1 argument{HAS}2 arguments",
     "as many arguments"),
])
def test_new_types_name_the_argument_and_both_types(
    signature: str, code: str, reason: str, fix: str
) -> None:
    found = _explained([FLOAT32], signature=signature)
    assert (found["reason_code"], found["reason"]) == (code, reason)
    assert fix in found["fix"]
    assert found["nearest_signature"] == FLOAT32
    assert found["argument"] == (reason.split("`")[1] if "`" in reason else None)


@pytest.mark.parametrize(("known", "signature", "words"), [
    ("(UniTuple(int64 x 2),)", "(UniTuple(int64 x 3),)", "`x` is the tuple UniTuple(int64 x 3)"),
    ("(UniTuple(int64 x 2),)", "(Tuple(int64, float32),)", "`x[1]` is np.float32"),
    ("(int64,)", "(IntEnum<int64>(Color),)", "`x` is a member of an enum, IntEnum<int64>(Color)"),
    ("(P(int64 x 2),)", "(Q(int64 x 2),)", "`x` is the named tuple Q(int64 x 2)"),
    ("(array(float32, 2d, C),)", "(array(float32, 2d, F),)", "C to F: column-major"),
    ("(array(float32, 2d, F),)", "(array(float32, 2d, C),)", "F to C: row-major"),
    ("(array(float32, 2d, F),)", "(array(float32, 2d, A),)", "F to A: not contiguous"),
    ("(array(float32, 2d, A),)", "(array(float32, 2d, C),)", "the known one is strided"),
    ("(readonly array(float32, 1d, C),)", "(array(float32, 1d, C),)", "writable, not read-only"),
    ("(unaligned array(float32, 1d, C),)", "(array(float32, 1d, C),)", "aligned, not unaligned"),
    (f"(unaligned array({PACKED}, 1d, C),)", f"(array({ALIGNED}, 1d, C),)",
     "`x` is array(record(a int8, b float32), 1d, C)"),
    (f"(unaligned array({PACKED}, 1d, C),)", f"(array({ALIGNED}, 1d, C),)", "records whose fields are aligned"),
    (f"(array({ALIGNED}, 1d, C),)", f"(unaligned array({PACKED}, 1d, C),)", "packed records"),
    (f"({PACKED},)", f"({ALIGNED},)", "the same fields at other places in memory"),
    (f"({PACKED},)", f"({PACKED.replace('float32', 'float64')},)", "another dtype (field `b` float32 to float64)"),
    (f"({PACKED},)", f"({PACKED.replace('b[', 'c[')},)", "(field `c` is new, `b` is gone)"),
    (f"(array(float32, 1d, C), {PACKED})", "(array(float64, 1d, C), Record(odd))", "record(a int8, b float32)"),
    (f"(int64, array({PACKED}, 1d, C))", f"(none, readonly array({PACKED.replace('float32', 'int16')}, 1d, C))",
     "; `n` (another dtype (field `b` float32 to int16), read-only) differs too"),
    ("(" + "int64, " * 6 + ")", "(" + "int32, " * 6 + ")",
     "`x[1]` (int64 to int32), `x[2]` (int64 to int32), `x[3]` (int64 to int32) and 2 more differ too"),
])
def test_what_an_argument_is_and_was(known: str, signature: str, words: str) -> None:
    found = _explained([known], signature=signature, arguments="*x" if "x[1]" in words and len(
        signature) > 40 else "x, n")
    assert words in found["reason"]


def test_arguments_without_a_name_have_their_position_and_long_ones_are_cut() -> None:
    found = _explained(["(int64, UniTuple(int64 x 2))"], arguments=None,
                       signature="(int64, Tuple(int64, float64))")
    assert found["reason"].startswith("argument 1[1] is float64")
    assert found["argument"] is None
    found = _explained([f"({'Big' * 200},)"], arguments="x" * 300, signature=f"({'Large' * 200},)")
    assert len(found["reason"]) < 500
    assert found["argument"] == "x" * 300


@pytest.mark.parametrize(("known", "signature", "fix"), [
    ("(array(float32, 2d, F),)", "(array(float32, 2d, C),)", "np.asfortranarray(array)"),
    ("(array(float32, 2d, A),)", "(array(float32, 2d, C),)", "float32[:, :]"),
    ("(readonly array(float32, 2d, A),)", "(readonly array(float32, 2d, C),)", "np.ascontiguousarray(array)"),
    ("(array(float32, 3d, C),)", "(array(float32, 2d, C),)", "array.reshape(-1, array.shape[-1])"),
    ("(float32,)", "(float64,)", "np.float32(value)"),
    ("(bool,)", "(int64,)", "as int(value)"),
    ("(int64,)", "(bool,)", "as int(value)"),
    ("(array(int32, 1d, C),)", "(array(float32, 1d, C),)", "array.astype(np.float32)"),
    ("(datetime64[D],)", "(datetime64[s],)", 'as np.datetime64(value, "D")'),
    ("(readonly array(float32, 1d, C),)", "(array(float32, 1d, C),)", "array.copy()"),
    ("(int64,)", "(Enum<int64>(Hue),)", "member.value"),
    ("(UniTuple(int64 x 2),)", "(UniTuple(int64 x 3),)", "an array takes any number"),
    (f"(array({PACKED}, 1d, C),)", "(array(int32, 1d, C),)", "array.astype(dtype)"),
])
def test_fixes_follow_what_is_known(known: str, signature: str, fix: str) -> None:
    assert fix in _explained([known], signature=signature)["fix"]


def test_a_failed_compile_for_the_wrong_number_of_arguments() -> None:
    found = _explained(signature="(int64,)", outcome="failed", error="TypeError: Signature mismatch")
    assert found["reason_code"] == "argument_count"
    assert found["reason"] == ("the kernel was given 1 argument and takes 2: `x`, `n`; the compile failed: TypeError: "
                               "Signature mismatch")
    assert "defaults in the definition are not filled in" in found["fix"]


@pytest.mark.parametrize(("row", "code", "reason", "fix"), [
    ({"outcome": "disk"}, "disk", "the disk cache had these types", None),
    ({"outcome": "wait"}, "wait", "another thread was compiling it", "one thread"),
    ({"trigger": "eager"}, "eager", "declared in @cuda.jit", "cache=True"),
    ({"trigger": "eager", "cache_file": "x.nbi"}, "eager", "declared in @cuda.jit", "nothing avoids it"),
    ({"trigger": "specialize"}, "specialize", "dispatcher of its own", "nothing avoids a first compile"),
    ({"trigger": "recompile"}, "recompile", "recompile() was called", "recompile()"),
    ({"trigger": "eager", "attributes": {"redefined": True}}, "eager", "the definition ran again", "cache=True"),
    ({"trigger": "specialize", "attributes": {"forall": True}}, "forall", "forall made a dispatcher of its own",
     "always by forall"),
    ({"trigger": "compile"}, "first_use", "kernel.compile() asked for it", "@cuda.jit"),
    ({"attributes": {"redefined": True}}, "redefined", "the definition ran again", "out of the cell"),
    ({"attributes": {"another_dispatcher": True}, "cache_file": "x.nbi"}, "redefined",
     "@cuda.jit was applied to this function again", "apply @cuda.jit to it once"),
    ({"attributes": {"recompiled": {"unsafe": False, "captured": ["SCALE"]}}, "trigger": "recompile"}, "recompile",
     "`SCALE` changed since the last compile", "pass `SCALE` as an argument"),
    ({"attributes": {"recompiled": {"unsafe": True, "captured": []}}, "trigger": "recompile"}, "recompile",
     "what the disk cache had was made with other options or values", "none is needed"),
    ({"known": [FLOAT32]}, "unknown", "already", "nothing that is known"),
    ({"outcome": "failed", "error": "TypingError: no"}, "first_use", "the compile failed: TypingError: no",
     "each launch tries again"),
])
def test_other_causes(row: dict[str, Any], code: str, reason: str, fix: str | None) -> None:
    found = _explained(**row)
    assert found["reason_code"] == code
    assert reason in found["reason"]
    assert found["fix"] is None if fix is None else fix in found["fix"]


def test_a_redefinition_with_known_signatures_is_about_types() -> None:
    found = _explained(["(int8, int64)"], attributes={"redefined": True})
    assert found["reason_code"] == "new_type"


@pytest.mark.parametrize(("codes", "words", "fix"), [
    (("1", "1"), "the definition ran again with the same code", "out of the cell"),
    (("1", "2"), "the definition ran again with other code", "nothing avoids it: new code has to be compiled"),
    (("1", None), "the definition ran again:", "out of the cell"),
])
def test_a_redefinition_says_whether_the_code_is_the_same(
    made: Script, codes: tuple[str, str | None], words: str, fix: str | None
) -> None:
    for code in codes:
        made.compilation(made.kernel(code_sha256=code), attributes='{"redefined": true}')
    row = explain(made.recording()).rows("compilations")[1]
    assert row["reason_code"] == "redefined"
    assert words in row["reason"]
    assert row["fix"] is None if fix is None else fix in row["fix"]


def test_specialize_and_forall_compare_with_their_own_kind(made: Script) -> None:
    made.kernel(arguments="x")
    for signature, trigger in (("(int64,)", "specialize"), ("(float32,)", "specialize"), ("(int64,)", "launch"),
                               ("(int64,)", "specialize"), ("(float32,)", "launch")):
        made.compilation(signature=signature, trigger=trigger, attributes='{"forall": true}')
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["forall", "forall", "first_use", "forall", "new_scalar"]
    assert "argument `x` is np.float32; the nearest one of its kind has int64, as a Python int is" in rows[1]["reason"]
    assert (rows[1]["argument"], rows[1]["nearest_signature"]) == ("x", "(int64,)")
    assert "but for themselves alone" in rows[2]["reason"]
    assert "had compiled the same types already" in rows[3]["reason"]


def test_a_launch_configuration_that_was_noted_as_json() -> None:
    tried = [{"griddim": [1, 1, 1], "blockdim": [64, 1, 1], "sharedmem_bytes": 0}]
    row = {"launch_config_sensitive": True, "configuration_id": 1, "attributes": {"known_configurations": tried}}
    found = _explained(**row)
    assert found["reason_code"] == "launch_config"
    assert found["reason"] == ("the kernel depends on its launch configuration (LC-S); [2, 64] is new for these types: "
                               "griddim 2 instead of 1, against the nearest known [1, 64]")
    assert found["nearest_signature"] == FLOAT32
    assert "fewer distinct configurations" in found["fix"]
    noted = row | {"attributes": {"known_configurations": [json.dumps(tried[0]), "odd"]}}
    assert _explained(**noted)["reason"] == found["reason"]
    nowhere = row | {"configuration_id": None}
    assert "this one is new for these types, compiled before: [1, 64]" in _explained(**nowhere)["reason"]


def test_launch_configurations_are_remembered_from_earlier_compiles(made: Script) -> None:
    made.kernel()
    for blocks in (1, 2, 3, 4, 5):
        made.configuration((blocks,), (16, 16), sharedmem_bytes=64)
        made.compilation(configuration_id=blocks - 1, launch_config_sensitive=True, signature=FLOAT32)
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", *["launch_config"] * 4]
    assert "[5, (16, 16), 64 B shared] is new" in rows[4]["reason"]
    assert "griddim 5 instead of 4, against the nearest known [4, (16, 16), 64 B shared]" in rows[4]["reason"]
    assert rows[4]["reason"].endswith("and 1 more")


def test_each_part_of_a_launch_configuration_can_differ(made: Script) -> None:
    made.kernel()
    for grid, block, shared in ((1, 32, 0), (1, 64, 0), (1, 64, 2048), (2, 32, 2048)):
        made.configuration((grid,), (block,), sharedmem_bytes=shared)
    for at in range(4):
        made.compilation(configuration_id=at, launch_config_sensitive=True, signature=FLOAT32)
    rows = explain(made.recording()).rows("compilations")
    assert ": blockdim 64 instead of 32, against the nearest known [1, 32]" in rows[1]["reason"]
    assert ": sharedmem 2,048 B instead of 0 B, against the nearest known [1, 64]" in rows[2]["reason"]
    assert ": griddim 2 instead of 1, blockdim 32 instead of 64, against" in rows[3]["reason"]


def test_signatures_are_remembered_from_before_and_from_earlier_compiles(made: Script) -> None:
    made.kernel()
    made.specialization(0, "(int32,)", origin="before")
    made.compilation(signature="(int64,)")
    made.compilation(signature="(float32,)", trigger="specialize")
    made.compilation(signature="(float64,)", outcome="failed")
    made.compilation(signature="(float32,)")
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["new_scalar", "specialize", "new_scalar", "new_scalar"]
    assert rows[3]["reason"] == (
        "argument 0 is np.float32; the nearest known specialization has np.int32")


def test_reasons_of_a_probe_are_kept_and_explaining_twice_changes_nothing() -> None:
    made = Script()
    made.kernel()
    made.compilation(reason_code="eager", reason="said so", fix=None)
    made.compilation()
    explained = explain(made.recording())
    assert explained.rows("compilations")[0]["reason"] == "said so"
    assert explain(explained) is explained
    assert explain(Script().recording()).rows("compilations") == []


def test_the_work_grows_with_the_compilations_and_little_faster() -> None:
    """All of one kernel, whose known signatures grow, and half of them its launch configurations."""
    def recording(compilations: int) -> Any:
        made = Script()
        made.kernel(arguments="x, y, t, n")
        dtypes = ("int8", "int16", "int32", "int64", "float16", "float32", "float64")
        for at in range(compilations):
            x, y = dtypes[at % 7], dtypes[at // 7 % 7]
            made.configuration((at + 1,))
            made.compilation(
                signature=f"(array({x}, {at % 3 + 1}d, C), array({y}, 1d, A), UniTuple({x} x {at // 40}), int64)",
                configuration_id=at, launch_config_sensitive=at % 2 == 0)
        return made.recording()

    few, many = recording(200), recording(400)
    assert explain(many).rows("compilations")[399]["reason_code"] in COMPILE_REASONS
    assert lines_run(lambda: explain(many)) < 3 * lines_run(lambda: explain(few))


@pytest.mark.parametrize("attributes", ["{", "[]", '{"known_signatures": 3, "known_configurations": {}}'])
def test_attributes_that_make_no_sense_are_ignored(made: Script, attributes: str) -> None:
    made.kernel()
    made.compilation(attributes=attributes, launch_config_sensitive=True)
    assert explain(made.recording()).rows("compilations")[0]["reason_code"] == "first_use"


def test_a_thread_that_waited_and_had_asked_before_is_no_reason(made: Script) -> None:
    made.kernel("axpy", arguments="x, n")
    # It asked for the lock before the thread that compiled, got it after that one, and found what it had made.
    made.compilation(signature=FLOAT32, outcome="wait", start_ns=100, end_ns=1_000, wait_ns=890, thread_id=0,
                     attributes=json.dumps({"known_signatures": [FLOAT32]}))
    made.compilation(signature=FLOAT32, start_ns=200, end_ns=990, wait_ns=5, thread_id=0)
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["wait", "first_use"]


@pytest.mark.parametrize("kernel", [{"filename": "<string>"}, {"filename": "<stdin>"},
                                    {"options": '{"link": "[\'helper.cu\']"}'}])
def test_no_disk_cache_is_advised_where_there_can_be_none(made: Script, kernel: dict[str, str]) -> None:
    made.kernel("axpy", arguments="x, n", **kernel)
    made.compilation(signature=FLOAT32)
    made.compilation(signature=FLOAT32, attributes=json.dumps({"redefined": True}))
    made.kernel("eager", arguments="x, n", **kernel)
    made.compilation(1, signature=FLOAT32, trigger="eager")
    made.compilation(2, signature=FLOAT32)
    made.kernel("plain", arguments="x, n")
    *rows, plain = explain(made.recording()).rows("compilations")
    assert "at the definition" in rows[0]["fix"]
    assert not any("cache=True" in (row["fix"] or "") for row in rows)
    assert "cache=True" in plain["fix"]


@pytest.mark.parametrize(("framework", "is_numba"), [("numba-cuda", True), ("numba-cuda-mlir", True),
                                                     ("quadrants", False), ("toy", False)])
def test_cuda_jit_is_advised_to_who_has_it(made: Script, framework: str, is_numba: bool) -> None:
    made.kernel("axpy", arguments="x, n", framework=framework)
    made.compilation(signature="(array(float32, 1d, A), int64)")
    made.compilation(signature=FLOAT32)
    made.compilation(signature=FLOAT32, outcome="wait")
    made.compilation(signature=FLOAT32, attributes=json.dumps({"redefined": True}))
    first, layout, waited, _ = (row["fix"] for row in explain(made.recording()).rows("compilations"))
    assert ["jit" in (fix or "") for fix in (first, layout, waited)] == [is_numba] * 3
    if not is_numba:
        assert first is None
        assert layout.startswith("pass argument `x` as np.ascontiguousarray(array) in every launch")
        assert waited == "launch once in one thread before the others start"


def test_no_declaration_is_advised_for_a_launch_config_sensitive_kernel() -> None:
    found = _explained(launch_config_sensitive=True, configuration_id=0)
    assert found["reason_code"] == "first_use"
    assert found["fix"] == "cache=True in @cuda.jit keeps it on disk for the next session"


@pytest.mark.parametrize("types", [("int64", "IntEnum<int64>(Color)"), ("IntEnum<int64>(Color)", "int64"),
                                   ("Enum<int64>(A)", "IntEnum<int64>(B)")])
def test_a_number_for_the_member_of_an_enum(types: tuple[str, str]) -> None:
    found = _explained([f"({types[0]},)"], signature=f"({types[1]},)")
    assert found["fix"] == ("pass argument `x` as a number in every launch; member.value is that of an enum's member")


@pytest.mark.parametrize(("passed", "known", "signature", "fix"), [
    ("host", "float32, 1d, C", "float64, 1d, C", "as array.astype(np.float32) in every launch, if the values allow it"),
    ("device", "float32, 1d, C", "float64, 1d, C",
     "as cuda.to_device(host.astype(np.float32)) in every launch, if the values allow it; convert it on the host: "
     "a device array has no astype"),
    ("cupy", "float32, 1d, C", "float64, 1d, A", "as cupy.ascontiguousarray(array.astype(cupy.float32)) in every"),
    ("torch", "float32, 1d, C", "float64, 1d, C", "as array.to(torch.float32) in every launch"),
    ("torch", "bool, 2d, F", "bool, 2d, C", "as array.mT.contiguous().mT in every launch"),
    ("other", "float32, 1d, C", "float64, 1d, A", "with one dtype and one layout in every launch"),
    (None, "float32, 1d, C", "float64, 1d, C", "convert a device array on the host, before it goes to the device"),
])
def test_a_fix_is_for_what_was_passed(passed: str | None, known: str, signature: str, fix: str) -> None:
    found = _explained([f"(array({known}),)"], signature=f"(array({signature}),)",
                       attributes={"passed": [passed]})
    assert fix in found["fix"]


@pytest.mark.parametrize("changes", [{"same_code": True, "options": 3}, {"options": {"debug": [1]}},
                                     {"captured": 3}, {}])
def test_changes_of_a_definition_that_make_no_sense_are_ignored(changes: dict[str, Any]) -> None:
    found = _explained(attributes={"redefined": changes or True, "passed": {"x": 1}, "recompiled": 3})
    assert found["reason_code"] == "redefined"
    assert found["fix"]


def _owned(owner: str | None, **compilation: Any) -> dict[str, Any]:
    made = Script()
    made.kernel("kernel", arguments="x, n", module="package.inner",
                attributes=None if owner is None else json.dumps({"owner": owner, "function": "mine"}))
    made.compilation(**({"signature": FLOAT32} | compilation))
    made.compilation(signature="(array(float64, 1d, C), int64)")
    made.compilation(trigger="specialize", signature="(array(int8, 1d, C), int64)", attributes='{"forall": true}')
    return {row["compilation_id"]: row for row in explain(made.recording()).rows("compilations")}


def test_kernels_that_the_user_did_not_write() -> None:
    for owner in ("ufunc", "reduce", "library"):
        rows = _owned(owner)
        assert [row["reason_code"] for row in rows.values()] == ["first_use", "new_dtype", "new_dtype"]
        texts = " ".join(f"{row['reason']} {row['fix']}" for row in rows.values())
        assert not [word for word in ("cuda.jit", "griddim", "forall", "cache=True") if word in texts], texts
        words = {"ufunc": "the ufunc `mine`", "reduce": "cuda.reduce of `mine`", "library": "is of package"}
        assert words[owner] in texts
    unknown = _owned(None)
    assert [row["reason_code"] for row in unknown.values()] == ["first_use", "new_dtype", "forall"], "as a user's"


def test_compiles_come_longest_first_with_their_reasons(made: Script) -> None:
    made.kernel("axpy")
    made.compilation(duration_ns=5, specialization_id=None)
    made.compilation(duration_ns=9, signature="(int64,)", cache_file="x.nbi", wait_ns=2)
    first, second = compilations(made.recording())
    assert (first.compilation_id, first.name, first.duration_ns, first.wait_ns, first.cached_on_disk) == (
        1, "axpy", 9, 2, True)
    assert (first.reason_code, second.reason_code) == ("new_type", "first_use")


def test_a_compile_inside_another_is_counted_once() -> None:
    made = Script()
    made.kernel()
    made.compilation(start_ns=10, end_ns=50)
    made.compilation(start_ns=20, end_ns=30)
    made.compilation(start_ns=20, end_ns=30, thread_id=1)
    assert compile_ns(made.recording()) == 50
    assert compile_ns(Script().recording()) == 0


def test_fixes_ask_for_what_was_compiled_before_the_recording(made: Script) -> None:
    """Nothing has to be compiled then; what the recording itself compiled first would be one compile more."""
    made.kernel()
    made.specialization(0, "(float32,)", origin="before")
    made.launch(specialization=made.specialization(0, "(float64,)"))
    made.compilation(signature="(float64,)")
    row, = explain(made.recording()).rows("compilations")
    assert "as np.float32(value) in every launch" in row["fix"]
