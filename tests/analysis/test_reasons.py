from __future__ import annotations

import json
from typing import Any

import pytest

from kernelscope.analysis.reasons import REASON_CODES, explain

FLOAT32 = "(array(float32, 1d, C), int64)"


def _explained(script: Any, known: list[str] | None = None, **row: Any) -> dict[str, Any]:
    made = script()
    made.kernel("axpy")
    made.configuration((1,), (64,))
    made.configuration((2,), (64,))
    attributes = row.pop("attributes", {})
    if known is not None:
        attributes["known_signatures"] = known
    made.compilation(attributes=json.dumps(attributes), **({"signature": FLOAT32} | row))
    recording = made.recording()
    explained = explain(recording).rows("compilations")[0]
    assert recording.rows("compilations")[0]["reason_code"] is None, "explain is pure"
    assert explained["reason_code"] in REASON_CODES
    return explained


def test_a_first_use(script: Any) -> None:
    found = _explained(script)
    assert found["reason_code"] == "first_use"
    assert found["reason"] == "the kernel had no specialization yet: this is its first"
    assert '@cuda.jit(["void(float32[::1], int64)"])' in found["fix"]
    assert "cache=True" in found["fix"]
    assert "cache=True" not in _explained(script, cache_file="axpy.nbi")["fix"]


@pytest.mark.parametrize(("signature", "code", "reason", "fix"), [
    ("(array(float64, 1d, C), int64)", "new_dtype",
     "argument 0 is array(float64, 1d, C); the nearest known signature has array(float32, 1d, C)",
     "array.astype(np.float32)"),
    ("(array(float32, 1d, C), float64)", "new_dtype",
     "argument 1 is float64; the nearest known signature has int64", "int(value)"),
    ("(array(float32, 1d, A), int64)", "new_layout",
     "argument 0 is array(float32, 1d, A); the nearest known signature has array(float32, 1d, C)",
     "np.ascontiguousarray(array)"),
    ("(readonly array(float32, 1d, C), int64)", "new_layout",
     "argument 0 is readonly array(float32, 1d, C); the nearest known signature has array(float32, 1d, C)",
     "writable"),
    ("(unaligned array(float32, 1d, C), int64)", "new_layout",
     "argument 0 is unaligned array(float32, 1d, C); the nearest known signature has array(float32, 1d, C)",
     "a copy aligns them"),
    ("(array(float32, 2d, C), int64)", "new_dimensions",
     "argument 0 is array(float32, 2d, C); the nearest known signature has array(float32, 1d, C)",
     "array.reshape(-1)"),
    ("(int64, int64)", "new_type",
     "argument 0 is int64; the nearest known signature has array(float32, 1d, C)", "array(float32, 1d, C)"),
    ("(array(float64, 2d, C), float64)", "new_dimensions",
     "argument 0 is array(float64, 2d, C); the nearest known signature has array(float32, 1d, C) "
     "(argument 1 differs too)", "array.reshape(-1)"),
    ("(array(float32, 1d, C),)", "new_type", "the kernel was given 1 argument; the nearest known signature has "
     "2 arguments", "the same number of arguments"),
])
def test_new_types_name_the_argument_and_both_types(
    script: Any, signature: str, code: str, reason: str, fix: str
) -> None:
    found = _explained(script, [FLOAT32], signature=signature)
    assert (found["reason_code"], found["reason"]) == (code, reason)
    assert fix in found["fix"]


@pytest.mark.parametrize(("known", "signature", "fix"), [
    ("(array(float32, 2d, F),)", "(array(float32, 2d, C),)", "np.asfortranarray(array)"),
    ("(array(float32, 2d, A),)", "(array(float32, 2d, C),)", "float32[:, :]"),
    ("(array(float32, 3d, C),)", "(array(float32, 2d, C),)", "3 dimensions"),
    ("(float32,)", "(float64,)", "np.float32(value)"),
    (f"(array({'Record(a[type=int32;offset=0];4;False)'}, 1d, C),)", "(array(int32, 1d, C),)", "Record("),
])
def test_fixes_follow_what_is_known(script: Any, known: str, signature: str, fix: str) -> None:
    assert fix in _explained(script, [known], signature=signature)["fix"]


@pytest.mark.parametrize(("row", "code", "reason", "fix"), [
    ({"outcome": "disk"}, "disk", "the disk cache had these types", None),
    ({"outcome": "disk", "attributes": {"options_ignored_by_cache": {"fastmath": True}}}, "disk",
     'its key leaves out the compile options {"fastmath": true}', "recompile()"),
    ({"outcome": "wait"}, "wait", "another thread was compiling it", "one thread"),
    ({"trigger": "eager"}, "eager", "declared in @cuda.jit", "cache=True"),
    ({"trigger": "eager", "cache_file": "x.nbi"}, "eager", "declared in @cuda.jit", None),
    ({"trigger": "specialize"}, "specialize", "dispatcher of its own", "kernel[griddim, blockdim]"),
    ({"trigger": "recompile"}, "recompile", "recompile() was called", "recompile()"),
    ({"attributes": {"redefined": True}}, "redefined", "the definition ran again", "out of the cell"),
    ({"known": [FLOAT32]}, "unknown", "already", "@cuda.jit"),
    ({"outcome": "failed", "error": "TypingError: no"}, "first_use", "the compile failed: TypingError: no",
     "each launch tries again"),
])
def test_other_causes(script: Any, row: dict[str, Any], code: str, reason: str, fix: str | None) -> None:
    found = _explained(script, **row)
    assert found["reason_code"] == code
    assert reason in found["reason"]
    assert found["fix"] is None if fix is None else fix in found["fix"]


def test_a_redefinition_with_known_signatures_is_about_types(script: Any) -> None:
    found = _explained(script, ["(int8, int64)"], attributes={"redefined": True})
    assert found["reason_code"] == "new_type"


def test_a_launch_configuration_that_was_noted_as_json(script: Any) -> None:
    tried = [{"griddim": [1, 1, 1], "blockdim": [64, 1, 1], "sharedmem_bytes": 0}]
    row = {"launch_config_sensitive": True, "configuration_id": 1, "attributes": {"known_configurations": tried}}
    found = _explained(script, **row)
    assert found["reason_code"] == "launch_config"
    assert "(LC-S); [2, 64] is new for these types, compiled before: [1, 64]" in found["reason"]
    assert "fewer distinct configurations" in found["fix"]
    noted = row | {"attributes": {"known_configurations": [json.dumps(tried[0]), "odd"]}}
    assert "[1, 64], odd" in _explained(script, **noted)["reason"]


def test_launch_configurations_are_remembered_from_earlier_compiles(script: Any) -> None:
    made = script()
    made.kernel()
    for blocks in (1, 2, 3, 4, 5):
        made.configuration((blocks,), (16, 16), sharedmem_bytes=64)
        made.compilation(configuration_id=blocks - 1, launch_config_sensitive=True, signature=FLOAT32)
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", *["launch_config"] * 4]
    assert "[5, (16, 16), 64 B shared] is new" in rows[4]["reason"]
    assert rows[4]["reason"].endswith("and 1 more")


def test_signatures_are_remembered_from_before_and_from_earlier_compiles(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization(0, "(int32,)", origin="before")
    made.compilation(signature="(int64,)")
    made.compilation(signature="(float32,)", trigger="specialize")
    made.compilation(signature="(float64,)", outcome="failed")
    made.compilation(signature="(float32,)")
    rows = explain(made.recording()).rows("compilations")
    assert [row["reason_code"] for row in rows] == ["new_dtype", "specialize", "new_dtype", "new_dtype"]
    assert rows[3]["reason"] == "argument 0 is float32; the nearest known signature has int64"


def test_reasons_of_a_probe_are_kept_and_explaining_twice_changes_nothing(script: Any) -> None:
    made = script()
    made.kernel()
    made.compilation(reason_code="eager", reason="said so", fix=None)
    made.compilation()
    explained = explain(made.recording())
    assert explained.rows("compilations")[0]["reason"] == "said so"
    assert explain(explained) is explained
    assert explain(script().recording()).rows("compilations") == []


@pytest.mark.parametrize("attributes", ["{", "[]", '{"known_signatures": 3, "known_configurations": {}}'])
def test_attributes_that_make_no_sense_are_ignored(script: Any, attributes: str) -> None:
    made = script()
    made.kernel()
    made.compilation(attributes=attributes, launch_config_sensitive=True)
    assert explain(made.recording()).rows("compilations")[0]["reason_code"] == "first_use"
