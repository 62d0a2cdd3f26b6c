"""Records one launch of a dry run with the kernelscope that is installed: what each wheel is tested with."""

import os

import kernelscope

os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
kernelscope.dryrun.enable()

from numba import cuda  # noqa: E402


@cuda.jit
def nothing():
    pass


with kernelscope.record() as recorder:
    nothing[1, 32]()
(launch,) = recorder.recording.launches.itertuples()
assert launch.start_ns < launch.dispatch_end_ns < launch.submit_start_ns < launch.submit_end_ns < launch.end_ns, launch
print(kernelscope.__file__)
