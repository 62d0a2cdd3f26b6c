"""The inspector's fields, in the model; and as text: what it says at which width, and of two as a diff."""

from __future__ import annotations

import json

import pytest
from handmade import MS, Script

from kernelscope.views.base import width_of
from kernelscope.views.inspector.model import (
    Kernel,
    about,
    all_fields,
    fields,
    figures,
    inspect_kernels,
    use_values,
)
from kernelscope.views.inspector.text import code_diff, comparison, inspection_text

KEY = '{"griddim": [4, 1, 1], "blockdim": [128, 1, 1], "sharedmem_bytes": 1024}'


@pytest.fixture
def script() -> Script:
    """Two kernels; of the first one specialization with everything, and one with nothing."""
    made = Script()
    made.device()
    made.cell(execution_count=3)
    made.kernel("axpy", arguments="out, n", options='{"fastmath": true}', filename="/home/u/k.py", lineno=7)
    made.kernel("total")
    made.specialization(
        0, "(array(float32, 2d, A), int64)", compute_capability="9.0", regs=32, max_threads=1024,
        static_shared_bytes=1024, local_bytes=16, const_bytes=360, spill_store_bytes=8, spill_load_bytes=12,
        cubin_bytes=4_768, launch_config_sensitive=True, launch_config=KEY, attributes='{"lto": true}')
    made.specialization(0, "(array(float64, 1d, C), int64)", origin="before")
    made.configuration((4, 2), (128,), sharedmem_bytes=1024)
    made.configuration((16,), (256,))
    made.occupancy(0, 0, 0.5)
    made.compilation(
        0, 100 * MS, specialization_id=0, cell_id=0, reason_code="first_use", reason="it is the first", fix="none",
        cache_file="k.axpy.nbi", cache_data_file="k.axpy.1.nbc", cache_key="('sig', 'cc')", lcs_marker=True)
    for name, duration in (("cuda_translate_bytecode", 5), ("nopython_type_inference", 20)):
        made._add("passes", None, {"compilation_id": 0, "kind": "pass", "name": name, "duration_ns": duration * MS})
    made._add("passes", None, {"compilation_id": 0, "kind": "phase", "name": "nvvm", "duration_ns": 30 * MS})
    for configuration in (0, 0, 1):
        made.launch(0, configuration=configuration)
    return made


@pytest.fixture
def axpy(script: Script) -> Kernel:
    return next(each for each in inspect_kernels(script.recording()) if each.name == "axpy")


def test_all_that_is_known_of_a_kernel(axpy: Kernel) -> None:
    assert about(axpy) == ["k.py:7", "arguments out, n", 'options {"fastmath": true}']
    assert figures(axpy) == "2 specializations, 3 launches, 100 ms compiling and loading"
    first, second = axpy.specializations
    assert {field.label: field.text for field in fields(first)} == {
        "registers": "32", "static shared memory": "1,024 B", "local memory": "16 B", "constant memory": "360 B",
        "spills": "8 B stored and 12 B loaded", "most threads a block": "1,024", "machine code": "4,768 B",
        "compute capability": "9.0", "LC-S": "bound to [4, 128, 1,024 B shared]", "origin": "compiled",
        "took": "100 ms", "launches": "3", "median host time": "10.0 µs",
        "configurations": "4 × 2, 128: 50 %; 16, 256",  # noqa: RUF001
        "cache files": "k.axpy.nbi, k.axpy.1.nbc"}
    # What was not recorded is None, and not zero.
    bare = {field.label: field.text for field in fields(second)}
    assert {label for label, text in bare.items() if text is not None} == {"origin", "launches", "configurations"}
    assert (bare["origin"], bare["launches"]) == ("compiled before recording began", "none recorded")
    assert [use_values(use)[:5] for use in first.uses] == [
        ["4 × 2", "128", None, "1,024 B", "2"], ["16", "256", None, "0 B", "1"]]  # noqa: RUF001
    assert [(field.label, field.text) for field in all_fields(first)][-2:] == [
        ("code", "not recorded: record with --code, or code=True"), ("lto", "true")]


def test_a_single_kernel_is_shown_at_once_and_none_is_a_sentence() -> None:
    script = Script(dry_run=True)
    text = inspection_text(script.recording())
    assert text.endswith("\nno kernels were recorded: none was launched, and none was compiled")
    script.kernel("only")
    script.specialization()
    text = inspection_text(script.recording())
    assert text.startswith("*** dry run: kernels did not execute ***\nonly\n")
    assert "1  argument 0: float32[:] C" in text


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_it_keeps_to_its_width(script: Script, width: int) -> None:
    script.rows["specializations"][0]["signature"] = f"({', '.join(['array(float32, 3d, C)'] * 9)})"
    script.rows["dispatchers"][0]["name"] = "a_long_name_" * 12
    script.rows["launches"][0]["execute_ns"] = 123_456
    recording = script.recording()
    for text in (inspection_text(recording, width=width), inspection_text(recording, "0", width=width),
                 inspection_text(recording, "0", 1, width=width)):
        assert [line for line in text.splitlines() if width_of(line) > width] == []
        assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "a\u202eb"])
def test_names_cannot_steer_a_terminal(name: str) -> None:
    script = Script()
    script.kernel(name, filename=name, arguments=name, options=f'{{"{name!a}": 1}}', module=name)
    script.specialization(0, f"({name},)", launch_config=KEY, launch_config_sensitive=True, entry_name=name,
                          attributes=json.dumps({name: 1}))
    script.compilation(0, 9 * MS, specialization_id=0, reason_code="first_use", reason=name, fix=name, cache_file=name,
                       cache_data_file=name, cache_key=name, trigger=name)
    script._add("passes", None, {"compilation_id": 0, "kind": "phase", "name": name, "duration_ns": 5 * MS})
    recording = script.recording()
    for text in (inspection_text(recording), inspection_text(recording, "0", 1)):
        assert not set(text) & {"\x1b", "\u202e", "\r"}
        assert "a\nb" not in text.replace("requested by a\n", "")


def pair(**row: object):
    script = Script()
    script.kernel("axpy", arguments="x, n")
    first = {"signature": "(array(float32, 1d, C), int64)", "regs": 18, "cubin_bytes": 4_000}
    script.specialization(0, **first)
    script.specialization(0, **(first | row))
    kernel, = inspect_kernels(script.recording())
    return kernel, *sorted(kernel.specializations, key=lambda each: each.number)


def test_what_differs_stands_among_what_does_not() -> None:
    lines = comparison(*pair(signature="(array(float64, 1d, C), int64)", regs=22)).splitlines()
    assert lines[:2] == ["--- axpy specialization 1", "+++ axpy specialization 2"]
    assert {"-x: float32[:] C", "+x: float64[:] C", " n: int64", "-registers: 18", "+registers: 22",
            " machine code: 4,000 B", " local memory: not recorded"} <= set(lines)
    assert comparison(*pair()) == code_diff(*pair(), ("same", "same"), "ptx") == ""


def test_code_keeps_its_tabs_and_loses_its_escapes() -> None:
    text = code_diff(*pair(), ("\tmov.u32 %r1;\n\x1b[31m", "\tmov.u64 %r1;\n\x1b[32m"), "ptx")
    assert text.splitlines()[:2] == ["--- axpy specialization 1 ptx", "+++ axpy specialization 2 ptx"]
    assert "-\tmov.u32 %r1;" in text and "+\\x1b[32m" in text and "\x1b" not in text
