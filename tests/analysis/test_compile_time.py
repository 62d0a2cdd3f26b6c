"""Where compile time went: what contains what, and that nothing is counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import MS, Script

from kernelscope import Recording, load
from kernelscope.analysis.compile_time import Part, compile_times, total_parts, warm_cache
from kernelscope.analysis.compiles import compile_ns

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
PIPELINE = ("cuda_translate_bytecode", "nopython_type_inference", "cuda_native_lowering")


def passes(script: Script, compilation: int | None, *durations: int) -> None:
    for name, duration in zip(PIPELINE, durations, strict=True):
        script._add("passes", None, {"compilation_id": compilation, "kind": "pass", "name": name,
                                     "duration_ns": duration * MS})


def phase(script: Script, compilation: int | None, name: str, start: int | None, duration: int, **row: Any) -> None:
    script._add("passes", None, {
        "compilation_id": compilation, "kind": "phase", "name": name, "duration_ns": duration * MS,
        "start_ns": None if start is None else script.now + start * MS, **row})


def compiled(**row: Any) -> Script:
    script = Script()
    script.kernel()
    script.specialization()
    script.compilation(0, 100 * MS, specialization_id=0, **row)
    return script


def then(script: Script, duration_ns: int, kernel: int = 0, **row: Any) -> None:
    """A compile behind all others."""
    script.now += 500 * MS
    script.compilation(kernel, duration_ns, **row)


def by_name(parts: tuple[Part, ...]) -> dict[str, float]:
    return {part.name: part.duration_ns / MS for part in parts}


def test_a_compile_s_parts_add_up() -> None:
    script = compiled(wait_ns=1 * MS)
    passes(script, 0, 1, 20, 9)
    phase(script, 0, "nvvm", 40, 15)
    phase(script, 0, "lto", 60, 5)
    phase(script, 0, "link", 58, 25)
    phase(script, 0, "load", 90, 2)
    time, = compile_times(script.recording())
    assert by_name(time.parts) == {"wait for the compiler lock": 1, "passes": 30, "nvvm": 15, "link": 25, "load": 2,
                                   "other": 27}
    link = next(part for part in time.parts if part.name == "link")
    assert by_name(link.parts) == {"lto": 5}
    assert by_name(total_parts([time])) == {"wait for the compiler lock": 1, "passes": 30, "nvvm": 15, "lto": 5,
                                            "link": 20, "load": 2, "other": 27}


def test_pipelines_of_device_functions_are_inside_the_kernel_s() -> None:
    """As numba-cuda records ``k`` that calls ``f`` and ``h``, of which ``f`` calls ``g``: g, f, h, k."""
    script = compiled()
    passes(script, 0, 1, 1, 2)
    passes(script, 0, 1, 8, 2)
    passes(script, 0, 1, 1, 1)
    passes(script, 0, 1, 30, 6)
    time, = compile_times(script.recording())
    assert by_name(time.parts) == {"passes": 37, "other": 63}
    typing = time.parts[0].parts[1]
    assert (typing.name, by_name(typing.parts)) == ("nopython_type_inference", {"device functions (3)": 11 + 3})


def test_what_is_recorded_twice_is_counted_once() -> None:
    """A phase inside a pass: their sum is more than the compile took."""
    script = compiled()
    passes(script, 0, 5, 60, 5)
    phase(script, 0, "nvvm", 10, 50)
    time, = compile_times(script.recording())
    assert by_name(time.parts) == {"passes": 50, "nvvm": 50}
    assert by_name(time.parts[0].parts) == {"cuda_translate_bytecode": 5, "nopython_type_inference": 40,
                                            "cuda_native_lowering": 5}


def test_a_compile_inside_another_counts_once() -> None:
    script = compiled()
    begin = script.now
    script.compilation(0, 30 * MS, start_ns=begin + 10 * MS, end_ns=begin + 40 * MS)
    script.compilation(0, 10 * MS, start_ns=begin + 20 * MS, end_ns=begin + 30 * MS)
    script.compilation(0, 50 * MS, start_ns=begin + 20 * MS, end_ns=begin + 70 * MS, thread_id=1)
    recording = script.recording()
    times = compile_times(recording)
    assert [time.duration_ns / MS for time in times] == [70, 20, 10, 50]
    assert sum(time.duration_ns for time in times) == compile_ns(recording) == 150 * MS


def test_waits_failures_and_later_loads() -> None:
    script = compiled(outcome="wait")
    then(script, 10 * MS, outcome="failed")
    then(script, 10 * MS, outcome="failed", end_ns=None)
    phase(script, None, "load", 200, 3, specialization_id=0)
    phase(script, None, "load", None, 4)
    times = compile_times(script.recording())
    assert [by_name(time.parts) for time in times] == [
        {"wait for the compiler lock": 100}, {"other": 10}, {}, {"load": 3}, {"load": 4}]
    assert [(time.dispatcher_id, time.signature) for time in times[3:]] == [(0, "(array(float32, 1d, C),)"), (None, "")]
    assert compile_times(Recording({}, {})) == []
    assert warm_cache(Recording({}, {})) is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.kscope")), ids=lambda path: path.stem)
def test_recordings_of_a_gpu_add_up(path: Path) -> None:
    recording = load(path)
    times = compile_times(recording)
    assert len(times) >= recording.arrow("compilations").num_rows  # and modules that were loaded later
    for time in times:
        assert sum(part.duration_ns for part in time.parts) == time.duration_ns
        for part in time.parts:
            assert sum(each.duration_ns for each in part.parts) <= part.duration_ns
    assert sum(part.duration_ns for part in total_parts(times)) == sum(time.duration_ns for time in times)


def test_warm_cache_goes_by_the_shortest_load() -> None:
    script = compiled(wait_ns=10 * MS)
    passes(script, 0, 10, 20, 20)
    then(script, 40 * MS, trigger="eager")
    then(script, 200 * MS, outcome="disk")
    then(script, 2 * MS, outcome="disk")
    found = warm_cache(script.recording())
    assert found is not None
    assert (found.saved_ns / MS, found.compiles, found.left_out, found.load_ns / MS) == (88 + 38, 2, 0, 2)
    assert found.setup_ns / MS == 40 + 38
    assert "shortest disk-cache load" in found.basis


def test_warm_cache_without_loads() -> None:
    script = compiled()
    assert warm_cache(script.recording()).load_ns == 0  # type: ignore[union-attr]
    phase(script, 0, "load", 0, 3)
    found = warm_cache(script.recording())
    assert found is not None and found.saved_ns == 97 * MS
    assert "module load" in found.basis and "without reading the file" in found.basis


@pytest.mark.parametrize(("kernel", "row"), [
    ({}, {"trigger": "specialize"}), ({}, {"trigger": "recompile"}), ({}, {"trigger": "device"}),
    ({"options": '{"link": "[extern.cu]"}'}, {}), ({"filename": "<stdin>"}, {}), ({}, {"outcome": "disk"}),
    ({}, {"outcome": "failed"}), ({}, {"outcome": "wait"}),
])
def test_what_a_disk_cache_cannot_serve_is_left_out(kernel: dict[str, Any], row: dict[str, Any]) -> None:
    script = Script()
    script.kernel(**kernel)
    script.compilation(0, 100 * MS, **row)
    assert warm_cache(script.recording()) is None
    then(script, 400 * MS, script.kernel("served", filename="<ipython-input-3-ab>"))
    found = warm_cache(script.recording())
    assert found is not None
    assert found.compiles == 1
    assert found.left_out == (row.get("outcome", "compiled") == "compiled")
