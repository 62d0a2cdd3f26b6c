"""What the page is sent: complete, named so that a choice stays; and code, or why there is none."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from handmade import Script
from inspected import FIRST_LINE, SOURCE, inspected, many

from kernelscope.errors import CubinError, DisassemblerError
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.views.inspector import model
from kernelscope.views.inspector.model import (
    FORMS,
    Kernel,
    Specialization,
    code_of,
    copied_code,
    inspect_kernels,
)
from kernelscope.views.inspector.widget import code_marks, code_message, compile_parts, kernels_message
from kernelscope.views.keys import kernel_keys, specialization_keys


def facts(recording: Recording) -> dict[str, Any]:
    return json.loads(json.dumps(kernels_message(recording, inspect_kernels(recording))))


def of(recording: Recording, name: str = "demo.scale", number: int = 1) -> tuple[Kernel, Specialization]:
    kernel = next(each for each in inspect_kernels(recording) if each.name == name)
    return kernel, next(each for each in kernel.specializations if each.number == number)


def inflated(data: bytes) -> bytes:
    return zlib.decompress(data, wbits=-zlib.MAX_WBITS)


def test_all_that_is_known_is_in_it() -> None:
    held = facts(inspected(notice=True))
    assert (held["title"], held["notice"]) == ("inspected", "dry run: kernels did not execute")
    scale, plain = held["kernels"]
    assert (scale["name"], scale["place"], scale["arguments"]) == ("demo.scale", "k.py:7", ["out", "x"])
    assert (scale["options"], scale["launches"], scale["regs"]) == ({"cache": "True"}, 15, 22)
    first, second, third = sorted(scale["specializations"], key=lambda each: each["number"])
    assert second["arguments"][0] == ["out", "float64[:] C", "array(float64, 1d, C)"]
    assert [second[name] for name in ("regs", "static_shared_bytes", "spill_store_bytes", "spill_load_bytes")] == [
        21, 1024, 16, 24]
    assert (first["bound"], third["bound"]) == (None, "[4, 128]")
    assert first["code"] == ["source", "types", "llvm", "ptx"]
    use = first["uses"][0]
    assert (use["griddim"], use["blockdim"], use["launches"], use["occupancy"]) == ([4, 1, 1], [128, 1, 1], 5, 0.5)
    compiled = second["compiles"][0]
    assert (compiled["reason_code"], compiled["fix"], compiled["cell"], compiled["lcs_marker"]) == (
        "new_dtype", "cast it", "In [4]", False)
    assert compiled["cache_data_file"] == "/home/u/__pycache__/k.scale-7.2.nbc"
    # What was not recorded is nothing, and not zero.
    bare = plain["specializations"][0]
    assert {bare[name] for name in ("regs", "static_shared_bytes", "local_bytes", "spill_store_bytes", "cubin_bytes",
                                    "compile_ns", "launch_config_sensitive", "bound")} == {None}


def test_advice_is_with_its_kernel() -> None:
    held = {each["name"]: each["advice"] for each in facts(inspected())["kernels"]}
    assert any("demo.scale" in text for text in held["demo.scale"])
    assert held["demo.plain"] == []


def test_keys_are_of_what_rows_are() -> None:
    small, large = inspected(), merge([many(3), inspected()])
    known = {each.specialization_id: (kernel.name, each.signature)
             for kernel in inspect_kernels(large) for each in kernel.specializations}
    by_key = {key: known[row] for row, key in specialization_keys(large).items()}
    assert len(by_key) == len(known) == 7
    for row, key in specialization_keys(small).items():
        assert by_key[key][1] == small.rows("specializations")[row]["signature"]
    assert set(kernel_keys(small).values()) < set(kernel_keys(large).values())


def test_equal_kernels_have_keys_of_their_own() -> None:
    made = Script()
    for _ in range(2):
        made.specialization(made.kernel())
    recording = made.recording()
    assert len(set(kernel_keys(recording).values())) == len(set(specialization_keys(recording).values())) == 2


def test_compile_parts_add_up() -> None:
    recording = inspected()
    (compiled,) = compile_parts(recording, of(recording)[1])
    assert compiled["ns"] == 120_000_000
    assert sum(part[2] for part in compiled["parts"]) == compiled["ns"]
    passes = next(part for part in compiled["parts"] if part[0] == "passes")
    assert [part[1] for part in passes[3]] == ["typing", "lowering"]
    assert compile_parts(recording, of(recording, "demo.plain")[1]) == []


def test_code_with_its_lines() -> None:
    recording = inspected(6)
    kernel, first = of(recording)
    source = code_of(recording, kernel, first, "source")
    assert (source.text, source.first, source.name, source.lines) == (SOURCE, FIRST_LINE, "scale.py", None)
    ptx = code_of(recording, kernel, first, "ptx")
    assert ptx.text is not None and ptx.lines is not None
    assert len(ptx.lines) == len(ptx.text.split("\n"))
    from_lines = [line for line, text in zip(ptx.lines, ptx.text.split("\n"), strict=True) if "add.s32" in text]
    assert from_lines == [9, 10, 11, 9, 10, 11]
    message, buffers = code_message(ptx, "ptx")
    assert message == {"note": "", "fix": "", "first": 1, "name": "scale.ptx", "has_text": True, "has_lines": True,
                       "chains": [[["", 9]], [["", 10]], [["", 11]]], "counts": None}
    ties = [line - 9 if line else -1 for line in ptx.lines]
    assert [inflated(each) for each in buffers] == [
        ptx.text.encode(), *(np.array(each, "<i4").tobytes() for each in (ptx.lines, ties))]
    inferred = json.loads(inflated(code_message(code_of(recording, kernel, first, "types"), "types")[1][0]))
    assert inferred[0]["brief"] == "float32[:] C"
    assert code_of(inspected(has_lines=False), kernel, first, "ptx").lines is None


@pytest.mark.parametrize(("filename", "found"), [
    ("/home/u/k.py", True), ("k.py", True), ("C:\\k.py", True), ("In[3]", True), (None, True)])
def test_lines_of_the_kernel_s_own_file(filename: str | None, found: bool) -> None:
    recording = inspected(6)
    kernel, first = of(recording)
    renamed = Kernel(**{**vars(kernel), "filename": filename})
    assert (code_of(recording, renamed, first, "ptx").lines is not None) is found


def test_what_is_not_there_says_why() -> None:
    recording = inspected(has_code=False)
    kernel, first = of(recording)
    for form in FORMS:
        found = code_of(recording, kernel, first, form)
        assert found.text is None
        assert found.note == "Recorded without code."
        assert found.fix == "Record with --code, or code=True."
    recording = inspected()
    kernel, first = of(recording)
    no_source = Recording({**{name: recording.arrow(name) for name in TABLES}, "code": recording.arrow("code").filter(
        pc.not_equal(recording.arrow("code")["kind"], "source"))}, recording.metadata)
    assert "which exec() made" in code_of(no_source, kernel, first, "source").note
    assert code_of(recording, kernel, first, "sass").note == (
        "This recording holds no SASS of this specialization; it holds source, types, llvm, ptx.")
    loaded = Specialization(**{**vars(first), "origin": "disk"})
    made = Script(code=True)
    made.specialization(made.kernel("demo.scale"))
    made._add("code", None, {"dispatcher_id": 0, "kind": "source", "text": SOURCE, "lineno": 1})
    assert "disk cache" in code_of(made.recording(), kernel, loaded, "types").note
    with pytest.raises(ValueError, match="no code is called 'cubin'; known: source, types"):
        code_of(recording, kernel, first, "cubin")


def with_row(recording: Recording, **row: Any) -> Recording:
    from kernelscope.recording.parquet import table_of_rows
    from kernelscope.schema import TABLES

    tables = {name: recording.arrow(name) for name in TABLES}
    added = {"dispatcher_id": 0, "specialization_id": 0, **row}
    tables["code"] = table_of_rows("code", [*recording.rows("code"), added])
    return Recording(tables, recording.metadata)


def test_machine_code_is_disassembled_when_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    monkeypatch.setattr(model, "disassemble", lambda cubin: (seen.append(cubin), "/*0000*/ EXIT ;")[1])
    recording = with_row(inspected(), kind="cubin", text=base64.b64encode(b"\x7fELF").decode())
    found = code_of(recording, *of(recording), "sass")
    assert (found.text, seen) == ("/*0000*/ EXIT ;", [b"\x7fELF"])
    assert "Disassembled here" in found.note
    recorded = with_row(recording, kind="sass", text="recorded")
    assert code_of(recorded, *of(recorded), "sass").text == "recorded"
    broken = with_row(inspected(), kind="cubin", text="not base64 ☹")
    with pytest.raises(CubinError, match="the machine code of specialization 1 is torn"):
        code_of(broken, *of(broken), "sass")

    def missing(cubin: bytes) -> str:
        raise DisassemblerError("there is no nvdisasm: pip install nvidia-cuda-nvdisasm")

    monkeypatch.setattr(model, "disassemble", missing)
    with pytest.raises(DisassemblerError, match="pip install"):
        code_of(recording, *of(recording), "sass")


def test_ptx_from_before_link_time_optimization_says_so() -> None:
    made = inspected(has_code=False)
    recording = with_row(made, kind="ptx", text=".version 8", attributes=json.dumps({"before_lto": True}))
    assert "before link-time optimization" in code_of(recording, *of(recording), "ptx").note


def test_machine_code_that_changed_has_another_mark() -> None:
    first, same, other = (
        code_marks(with_row(inspected(), kind="cubin", text=text)) for text in ("AAAA", "AAAA", "AAAB"))
    assert first == same
    assert list(first) == list(other) == [specialization_keys(inspected())[0]]
    assert first != other
    assert code_marks(inspected()) == {}


def test_lines_of_functions_inlined_from_other_files() -> None:
    recording = inspected()
    kernel, first = of(recording)
    before = code_of(recording, kernel, first, "ptx")
    assert before.lines is not None
    assert before.note == ""
    own = json.loads(next(row for row in recording.rows("code") if row["kind"] == "types")["text"])
    # Line 11 is the other file's alone; line 9 is one of the kernel's, too.
    added = [{"line": 0, "name": "x", "type": "int64", "from": f"other.py:{FIRST_LINE + at}"} for at in (4, 2)]
    recording = with_row(recording, kind="types", text=json.dumps([*own, *added]))
    for found in (code_of(recording, kernel, first, "ptx"),
                  copied_code(recording, kernel, first, "ptx", {"ptx": before.text or ""})):
        assert found.lines is not None
        assert set(before.lines) - set(found.lines) == {FIRST_LINE + 4}
        assert found.note.startswith(f"Line {FIRST_LINE + 2} may be that of other.py too")
