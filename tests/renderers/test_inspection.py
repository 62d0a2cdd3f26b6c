"""The inspector as text: what it says at 80 and 140 columns, and what was not recorded."""

from __future__ import annotations

import pytest
from handmade import MS, Script

from kernelscope import Recording, UnknownKernelError
from kernelscope.views.base import width_of
from kernelscope.views.inspector.text import inspection_text

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


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_kernels(script: Script) -> None:
    lines = inspection_text(script.recording()).splitlines()
    assert lines[0] == "2 kernels"
    assert lines[2].split() == ["axpy", "0", "2", "3", "100", "ms", "32", "k.py:7"]
    assert lines[3].split()[:6] == ["total", "1", "0", "0", "–", "–"]  # noqa: RUF001


def test_one_kernel_has_all_columns(script: Script) -> None:
    text = words(inspection_text(script.recording(), "axpy"))
    assert "k.py:7 · numba-cuda · arguments out, n · options {\"fastmath\": true}" in text
    assert "2 specializations, 3 launches, 100 ms compiling and loading" in text
    assert "1 out: float32[:, :] A, n: int64" in text
    assert ("32 registers, 1,024 B shared, 16 B local, 360 B constant, spills 8 B stored, 12 B loaded, "
            "at most 1,024 threads a block") in text
    assert "machine code 4,768 B for compute capability 9.0" in text
    assert "origin compiled in 100 ms" in text
    assert "LC-S bound to [4, 128, 1,024 B shared]" in text
    assert "cache file k.axpy.nbi, k.axpy.1.nbc" in text
    assert "4 × 2 128 1,024 B 2 10.0 µs 50 % 8" in text  # noqa: RUF001
    assert "why it is the first fix none" in text


def test_what_was_not_recorded_says_so(script: Script) -> None:
    text = words(inspection_text(script.recording(), "axpy").partition("  2  out:")[2])
    assert text.startswith("float64[:] C, n: int64 resources not recorded machine code not recorded")
    assert "origin compiled before recording began launches none recorded LC-S not recorded" in text
    assert text.endswith("cache file not recorded")
    every = words(inspection_text(script.recording(), "axpy", 2))
    assert "code not recorded: record with --code, or code=True" in every


def test_one_specialization_has_its_compiles_and_passes(script: Script) -> None:
    text = words(inspection_text(script.recording(), "axpy", 1))
    assert "signature (array(float32, 2d, A), int64)" in text
    assert "lto true" in text
    assert "compiled in 100 ms, asked for by a launch, in In[3]" in text
    assert "why it is the first (first_use)" in text
    assert "cache index k.axpy.nbi cache data k.axpy.1.nbc cache key ('sig', 'cc') LC-S marker there is an .lcs" in text
    assert "nvvm 30.0 ms 30 % passes 25.0 ms 25 % other 45.0 ms 45 %" in text
    assert "passes, the longest of 2 nopython_type_inference 20.0 ms 20 %" in text


def test_recorded_code_is_listed(script: Script) -> None:
    script._add("code", None, {"dispatcher_id": 0, "kind": "source", "text": "def axpy(): ..."})
    script._add("code", None, {"dispatcher_id": 0, "specialization_id": 0, "kind": "ptx", "text": "// ptx"})
    assert "code source, ptx" in words(inspection_text(script.recording(), "axpy", 1))


def test_a_single_kernel_is_shown_at_once_and_none_is_a_sentence() -> None:
    script = Script(dry_run=True)
    text = inspection_text(script.recording())
    assert text.endswith("\nno kernels were recorded: none was launched, and none was compiled")
    script.kernel("only")
    script.specialization()
    text = inspection_text(script.recording())
    assert text.startswith("*** dry run: kernels did not execute ***\nonly\n")
    assert "1  argument 0: float32[:] C" in text


def test_unknown_names_are_an_error(script: Script) -> None:
    with pytest.raises(UnknownKernelError, match="no recorded kernel 'nope'"):
        inspection_text(script.recording(), "nope")
    with pytest.raises(UnknownKernelError, match="no specialization 9 of 'axpy'; known: 1 to 2"):
        inspection_text(script.recording(), "axpy", 9)


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
    script.specialization(0, f"({name},)", launch_config=KEY, launch_config_sensitive=True, entry_name=name)
    script.compilation(0, 9 * MS, specialization_id=0, reason_code="first_use", reason=name, fix=name, cache_file=name,
                       cache_data_file=name, cache_key=name, trigger=name)
    script._add("passes", None, {"compilation_id": 0, "kind": "phase", "name": name, "duration_ns": 5 * MS})
    recording = script.recording()
    for text in (inspection_text(recording), inspection_text(recording, "0", 1)):
        assert not set(text) & {"\x1b", "\u202e", "\r"}
        assert "a\nb" not in text.replace("asked for by a\n", "")


def test_a_recording_without_numba_opens(script: Script) -> None:
    assert isinstance(script.recording(), Recording)
    assert "numba" not in inspection_text.__globals__


def test_names_of_attributes_are_escaped_too() -> None:
    script = Script()
    script.kernel("axpy")
    script.specialization(0, attributes='{"\\u001b[31m": 1, "\\u202e": 2}')
    text = inspection_text(script.recording(), specialization=1)
    assert not set(text) & {"\x1b", "\u202e"}
    assert "\\x1b[31m" in text
