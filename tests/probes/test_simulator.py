"""numba's CUDA simulator: launches and configurations are recorded, nothing that it does not have is made up."""

from __future__ import annotations

import pytest

CODE = """
import numpy as np
import kernelscope
from numba import cuda

@cuda.jit(device=True)
def helper(x):
    return x + 1

@cuda.jit
def touch(x):
    x[0] = helper(x[0])

x = np.zeros(4, np.float32)
with kernelscope.record() as r:
    touch[2, 4](x)
    touch[(1, 2), (2, 2), 0, 16](x)
    touch.forall(4)(x)
    try:
        touch[1, 1](None)
    except TypeError:
        pass
recording = r.recording
assert recording.is_simulated
assert len(recording.launches) == 4, recording.launches
assert recording.launches.cache.isna().all() and recording.launches.compile_ns.isna().all()
assert recording.launches.specialization_id.isna().all()
assert recording.configurations.blockdim_x.tolist() == [4, 2, 1, 1]
assert recording.configurations.sharedmem_bytes.tolist() == [0, 16, 0, 0]
assert recording.launches.error.dropna().tolist() == ["TypeError"]
from numba.cuda.simulator.kernel import FakeCUDAKernel
assert FakeCUDAKernel.__call__.__module__ == "numba.cuda.simulator.kernel"
assert "simulator" in recording.summary()
with kernelscope.record() as again:  # the simulator is there before recording begins
    touch[2, 4](x)
assert len(again.recording.launches) == 1
assert again.recording.health.empty, again.recording.health.message.tolist()
print("ok")
"""


@pytest.mark.slow
def test_the_simulator_is_recorded(run_python):
    result = run_python(CODE, NUMBA_ENABLE_CUDASIM="1", KERNELSCOPE_DRYRUN="0")
    assert result.stdout.strip() == "ok"
