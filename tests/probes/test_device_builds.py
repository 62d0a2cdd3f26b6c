"""Code that a launch has built for another device is a compile; a module that is only loaded there is none."""

from __future__ import annotations

import json

import pytest

QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}

TWO_DEVICES = """
import json
import numpy as np
import kernelscope
from numba import cuda

@cuda.jit
def touch(x):
    x[0] = 1

with kernelscope.record() as r:
    arrays = []
    for device in (0, 1):
        with cuda.gpus[device]:
            arrays.append(cuda.device_array(4, np.float32))
    for device in (0, 1, 0, 1):
        with cuda.gpus[device]:
            touch[1, 32](arrays[device])
recording = r.recording
assert recording.health.errors.isna().all(), recording.health.to_string()
rows, launches = recording.compilations, recording.launches
print(json.dumps({
    "trigger": rows.trigger.tolist(), "code": rows.reason_code.tolist(), "reason": rows.reason.tolist(),
    "fix": rows.fix.tolist(), "outcome": rows.outcome.tolist(), "launch": rows.launch_id.tolist(),
    "cache": launches.cache.tolist(), "compile": launches.compile_ns.tolist(),
    "passes": [recording.passes[recording.passes.compilation_id == at].name.tolist() for at in rows.compilation_id],
    "loose": recording.passes[recording.passes.compilation_id.isna()].name.tolist(),
    "inside": [bool(launches.start_ns[row.launch_id] <= row.start_ns <= row.end_ns <= launches.end_ns[row.launch_id])
               for row in rows.itertuples()],
    "after_dispatch": [bool(row.start_ns >= launches.dispatch_end_ns[row.launch_id]) for row in rows.itertuples()],
}))
"""


@pytest.mark.slow
def test_a_device_of_another_compute_capability(run_python):
    out = json.loads(run_python(TWO_DEVICES, **QUIET, KERNELSCOPE_DRYRUN_DEVICES="2",
                                KERNELSCOPE_DRYRUN_CC="86,90").stdout)
    assert out["trigger"] == ["launch", "device"]
    assert out["outcome"] == ["compiled", "compiled"]
    assert out["code"][1] == "new_device"
    assert "device 1 is of compute capability 9.0; it had been compiled for 8.6" in out["reason"][1]
    assert "on device 1 before it matters" in out["fix"][1]
    assert out["cache"] == ["compiled", "compiled", "memory", "memory"]
    assert out["launch"] == [0, 1]
    assert out["compile"][1:] == [0, 0, 0], "it is a part of prepare"
    assert out["inside"] == [True, True]
    assert out["after_dispatch"] == [False, True]
    assert {"link", "load"} <= set(out["passes"][1])
    assert set(out["passes"][1]) & {"nvvm", "lto"}
    assert out["loose"] == []


@pytest.mark.slow
def test_a_second_device_of_the_same_kind_only_loads(run_python):
    out = json.loads(run_python(TWO_DEVICES, **QUIET, KERNELSCOPE_DRYRUN_DEVICES="2",
                                KERNELSCOPE_DRYRUN_CC="90,90").stdout)
    assert out["trigger"] == ["launch"]
    assert out["cache"] == ["compiled", "memory", "memory", "memory"]
    assert out["loose"] == ["load"]
