"""Several devices: code that a launch has built for another one is a compile; a module that is only loaded is none."""

from __future__ import annotations

import json

import pytest

TWO_DEVICES = """
import json
import numpy as np
import kernelscope
from numba import cuda

def recorded(detail, *, before=False):
    @cuda.jit
    def touch(x):
        x[0] = 1

    def launch(*ordinals):
        for device in ordinals:
            with cuda.gpus[device]:
                touch[1, 32](cuda.device_array(4, np.float32))

    if before:
        launch(0, 1)
    with kernelscope.record(detail=detail) as r:
        launch(0, 1, 0, 1, 1)
    recording = r.recording
    assert recording.health.errors.isna().all(), recording.health.to_string()
    return {
        "tables": {name: recording.rows(name) for name in ("launches", "compilations", "passes", "specializations")},
        "ordinals": [recording.rows("devices")[row["device_id"]]["ordinal"] for row in recording.rows("launches")],
        "occupancies": sorted(recording.occupancies.device_id)}

print(json.dumps([recorded("phases"), recorded("launch"), recorded("phases", before=True)]))
"""


@pytest.fixture
def on_two_devices(run_python):
    def run(capabilities):
        found = json.loads(run_python(TWO_DEVICES, KERNELSCOPE_DRYRUN_DEVICES="2",
                                      KERNELSCOPE_DRYRUN_CC=capabilities).stdout)
        for each in found:
            assert each["ordinals"] == [0, 1, 0, 1, 1]
            assert each["occupancies"] == [0, 1]
            assert len(each["tables"]["specializations"]) == 1
        return [each["tables"] for each in found]

    return run


@pytest.mark.slow
def test_a_device_of_another_compute_capability(on_two_devices):
    recorded, _, launched_before = on_two_devices("86,90")
    first, second = recorded["compilations"]
    launches = recorded["launches"]
    assert [(row["trigger"], row["outcome"], row["launch_id"]) for row in (first, second)] == [
        ("launch", "compiled", 0), ("device", "compiled", 1)]
    assert second["reason_code"] == "new_device"
    assert "device 1 is of compute capability 9.0; it had been compiled for 8.6" in second["reason"]
    assert "launch it once on device 1 before it matters" in second["fix"]
    assert [row["cache"] for row in launches] == ["compiled", "compiled", "memory", "memory", "memory"]
    assert [row["compile_ns"] for row in launches[1:]] == [0] * 4, "it is a part of prepare"
    assert launches[0]["start_ns"] <= first["start_ns"] <= first["end_ns"] <= launches[0]["dispatch_end_ns"]
    assert launches[1]["dispatch_end_ns"] <= second["start_ns"] <= second["end_ns"] <= launches[1]["end_ns"]
    built = {row["name"] for row in recorded["passes"] if row["compilation_id"] == 1}
    assert {"link", "load"} <= built and built & {"nvvm", "lto"}
    assert all(row["compilation_id"] is not None for row in recorded["passes"])
    assert launched_before["compilations"] == [], "with the fix done the compile is gone"


@pytest.mark.slow
def test_a_second_device_of_the_same_kind_only_loads(on_two_devices):
    recorded, *_ = on_two_devices("90,90")
    assert [row["trigger"] for row in recorded["compilations"]] == ["launch"]
    assert [row["cache"] for row in recorded["launches"]] == ["compiled", *["memory"] * 4]
    assert [row["name"] for row in recorded["passes"] if row["compilation_id"] is None] == ["load"]
