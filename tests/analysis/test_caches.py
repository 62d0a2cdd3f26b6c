from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import Script

from kernelscope.analysis.caches import CODES, disk_hit, failed_in_cache, fix_for_cache, with_disk
from kernelscope.analysis.compiles import explain
from kernelscope.schema import COMPILE_REASONS

FLOAT32 = "(array(float32, 1d, C), int64)"
NONE: dict[str, Any] = {}


def _explained(attributes: dict[str, Any], **row: Any) -> dict[str, Any]:
    made = Script()
    made.kernel("axpy")
    made.compilation(attributes=json.dumps(attributes), **({"signature": FLOAT32, "cache_file": "axpy.nbi"} | row))
    return explain(made.recording()).rows("compilations")[0]


@pytest.mark.parametrize(("disk", "code", "words", "fix"), [
    ({"state": "absent"}, "cache_absent", "the disk cache had nothing of this kernel yet", "it is on disk now"),
    ({"state": "absent", "lines": [7, 9, 12, 20]}, "cache_absent", "at line 7, 9, 12 and 1 more:", "on disk now"),
    ({"state": "absent", "pythons": ["3.10"]}, "cache_absent", "what it has is for Python 3.10", "on disk now"),
    ({"state": "absent", "other_text": True}, "cache_absent", "of that name in a cell of other text", "on disk now"),
    ({"state": "types", "signatures": 2}, "cache_absent", "for 2 other signatures, not for these types", "on disk now"),
    ({"state": "source", "source": "file", "size": [10, 12], "newer": True}, "cache_stale",
     "changed or touched after the disk cache was written (10 bytes then, 12 now)", "seldom edited"),
    ({"state": "source", "source": "file", "size": [10, 10], "newer": False}, "cache_stale",
     "replaced by an older one since the disk cache was written (its size is the same)", "seldom edited"),
    ({"state": "source", "source": "text"}, "cache_stale", "the function's text differs", "saved for the present text"),
    ({"state": "numba_version", "was": "0.60", "is": "0.61"}, "cache_stale",
     "written under numba 0.60, this is 0.61", "present versions"),
    ({"state": "keys", "differs": {"compute_capability": ["8.6", "9.0"], "numba_cuda": [None, "0.30.4"]}},
     "cache_stale", "has these types, but for compute capability 8.6 (this is 9.0) and by numba-cuda of another "
     "version (this is 0.30.4)", "present versions and device"),
    ({"state": "keys", "differs": {"cuda_runtime": ["12.9", "13.0"], "bytecode": True, "launch_config": True}},
     "cache_stale", "for CUDA runtime 12.9 (this is 13.0) and for other bytecode of the function and for another "
     "launch configuration", "present versions and device"),
    ({"state": "keys", "differs": {"closure": True}}, "cache_stale", "other values in the function's closure",
     "as an argument"),
    ({"state": "keys"}, "cache_stale", "under another key", "present versions"),
    ({"state": "unreadable", "error": "EOFError"}, "cache_stale", "could not be read (EOFError)", "delete axpy.nbi"),
    ({"state": "data_file"}, "cache_stale", "their file could not be opened", ".nbi and .nbc files together"),
    ({"state": "unmarked"}, "cache_stale", "has no launch configuration, and the kernel depends on it", "saved"),
    ({"state": "marker_gone"}, "cache_stale", "but no .lcs marker", "saved"),
    ({"state": "launch_config", "configurations": [
        {"griddim": [1, 1, 1], "blockdim": [16, 16, 1], "sharedmem_bytes": 64}]}, "launch_config",
     "has these types for [1, (16, 16), 64 B shared], not for this one", "fewer distinct configurations"),
    ({"state": "launch_config"}, "launch_config", "for other ones, not for this one", "fewer distinct"),
    ({"marker_unwritable": True}, "cache_unwritable", "without saying so", "NUMBA_CACHE_DIR"),
])
def test_states_of_the_index(disk: dict[str, Any], code: str, words: str, fix: str) -> None:
    found = _explained({"disk": disk})
    assert found["reason_code"] == code
    assert words in found["reason"]
    assert fix in found["fix"]
    assert code in COMPILE_REASONS


@pytest.mark.parametrize(("disk", "code", "words", "fix"), [
    ({"state": "unreadable", "error": "x", "load_error": "EOFError: Ran out"}, "cache_stale",
     "could not be read, and numba-cuda raised that: EOFError: Ran out", "delete axpy.nbi"),
    ({"state": "absent", "save_error": "PermissionError: Permission denied"}, "cache_unwritable",
     "could not save it in the disk cache, and raised that: PermissionError: Permission denied", "NUMBA_CACHE_DIR"),
    ({"state": "absent", "save_error": "PicklingError: Cannot serialize kernels"}, "cache_unwritable",
     "PicklingError", "leave cache=True out"),
    ({"state": "absent", "save_error": "RuntimeError: Cannot pickle CUDACodeLibrary with linking files"},
     "cache_unwritable", "linking files", "do not link files"),
    ({"key_error": "PicklingError: Cannot serialize kernels"}, "cache_unwritable",
     "could not make the disk cache's key for it", "leave cache=True out"),
])
def test_failures_of_the_cache(disk: dict[str, Any], code: str, words: str, fix: str) -> None:
    found = _explained({"disk": disk}, outcome="failed", error="E: e")
    assert found["reason_code"] == code
    assert words in found["reason"]
    assert "the compile failed" not in found["reason"]
    assert fix in found["fix"]


def test_another_failure_keeps_its_words() -> None:
    found = _explained({"disk": {"state": "absent"}}, outcome="failed", error="TypingError: no")
    assert found["reason_code"] == "cache_absent"
    assert found["reason"].endswith("; the compile failed: TypingError: no")
    assert "correct what the error names" in found["fix"]
    assert not failed_in_cache({"disk": {"state": "absent"}})


def test_other_types_in_memory_stay_the_reason() -> None:
    found = _explained({"known_signatures": ["(array(float64, 1d, C), int64)"], "disk": {"state": "absent"}})
    assert found["reason_code"] == "new_dtype"
    assert found["reason"].endswith("; the disk cache had nothing of this kernel yet")


def test_a_redefinition_would_have_been_a_hit() -> None:
    found = _explained({"redefined": True, "disk": {"state": "source", "source": "text"}})
    assert found["reason_code"] == "cache_stale"
    assert found["reason"].startswith("the definition ran again, and the function's text differs")


def test_without_a_disk_cache_nothing_is_added() -> None:
    assert with_disk({"outcome": "compiled"}, NONE, "first_use", "first") == ("first_use", "first")
    assert with_disk({"outcome": "wait"}, {"disk": {"state": "absent"}}, "wait", "it") == ("wait", "it")
    assert with_disk({"outcome": "compiled"}, {"disk": {"state": "odd"}}, "eager", "it") == ("eager", "it")
    assert with_disk({"outcome": "compiled"}, {"disk": {"state": "launch_config"}}, "launch_config", "it") == (
        "launch_config", "it")


@pytest.mark.parametrize(("attributes", "code", "words", "fix"), [
    ({}, "disk", "not compiled: the disk cache had these types", None),
    ({"captures": ["SCALE"]}, "disk", "these types", None),
    ({"captures": ["SCALE", "f.K"], "captures_not_checked": "there was no time for it"}, "disk",
     "whether the values that it captures (SCALE, f.K) are still those was not checked: there was no time", None),
    ({"unsafe": {"options": {"fastmath": [True, False], "opt": [False, True]}}}, "disk_unsafe",
     "but it was compiled with fastmath=True, this definition says fastmath=False; it was compiled with opt=False",
     "call recompile() once: it empties"),
    ({"unsafe": {"captured": ["SCALE"]}}, "disk_unsafe", "other values than its code would have now; captured: SCALE",
     "pass what changes (SCALE) as an argument"),
    ({"unsafe": {"captured": ["SCALE of leaf"], "functions": ["leaf"]}}, "disk_unsafe", "captured: SCALE of leaf (",
     "pass what changes (SCALE of leaf) as an argument"),
    ({"unsafe": {"functions": ["leaf", "clamp of leaf"]}}, "disk_unsafe",
     "compiled with other functions than it would call now: leaf, clamp of leaf (",
     "call recompile() once after a change of leaf, clamp of leaf"),
    ({"captures": [], "captures_not_checked": "ValueError: no"}, "disk",
     "whether the values that it captures are still those was not checked: ValueError: no", None),
    ({"unsafe": {"options": 3, "captured": {}}}, "disk", "these types", None),
])
def test_hits(attributes: dict[str, Any], code: str, words: str, fix: str | None) -> None:
    found = _explained(attributes, outcome="disk")
    assert found["reason_code"] == code == disk_hit(attributes)[0]
    assert words in found["reason"]
    assert found["fix"] is None if fix is None else fix in found["fix"]


def test_another_device() -> None:
    device = {"ordinal": 1, "compute_capability": "9.0", "compiled_for": ["8.6"]}
    found = _explained({"device": device}, trigger="device")
    assert found["reason_code"] == "new_device"
    assert found["reason"].startswith("device 1 is of compute capability 9.0; it had been compiled for 8.6")
    assert "once on device 1" in found["fix"]
    assert "compiled for another one" in _explained({}, trigger="device")["reason"]


def test_every_code_has_an_answer_on_fixes() -> None:
    row = {"outcome": "compiled", "cache_file": None}
    assert {code: fix_for_cache(code, row, None) is None for code in CODES} == {
        "disk": True, "disk_unsafe": False, "cache_absent": False, "cache_stale": False, "cache_unwritable": False,
        "new_device": False}
