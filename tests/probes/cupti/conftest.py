"""CUPTI's stand-in, and a GPU of the dry run that it watches."""

from __future__ import annotations

import time

import pytest
from cupti_stand_in import StandIn, build
from numba.cuda import dispatcher
from numba.cuda.cudadrv import driver

from kernelscope.clock import now
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.recorder import Recorder


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("stand_in"))


@pytest.fixture
def stand_in(library):
    """The library, as new; after the test nothing of it may be on."""
    stand_in = StandIn(library)
    yield stand_in
    deadline = time.monotonic() + 10
    while stand_in.library.stand_in_outstanding():
        assert time.monotonic() < deadline, "the stand-in has not given its buffers back"
        time.sleep(0.001)
    assert stand_in.left_on == []


_alive = []


@pytest.fixture
def cupti(stand_in):
    _alive.append(Cupti(stand_in.path))  # as in a real process: it may be called as long as that lives
    return _alive[-1]


@pytest.fixture
def record(cupti):
    """Makes recorders of the stand-in's GPU and of the probes that are given."""

    def make(*probes, **options):
        return Recorder(probes=[*probes, CuptiProbe(cupti)], **options)

    return make


@pytest.fixture
def gpu(stand_in, record, monkeypatch):
    """Has every launch on the dry run seen by the stand-in: a driver call, and a kernel 2 us later that takes 5 us."""
    original = dispatcher.launch
    binding = driver.binding

    def launch(stream, config, kernel, *args):
        start = now()
        original(stream, config, kernel, *args)
        end = now()
        handle = int(getattr(stream, "handle", stream) or 0)
        captured = handle and int(binding.cuStreamIsCapturing(binding.CUstream(handle))[1])
        id = stand_in.call("cuLaunchKernelEx", start, end)
        if not captured:
            name = binding.cuKernelGetName(binding.CUkernel(int(kernel.handle)))[1].decode()
            stand_in.kernel(id, name, end + 2_000, end + 7_000, grid=config.grid, block=config.block,
                            shared=config.shmem_size)

    monkeypatch.setattr(dispatcher, "launch", launch)
    return lambda **options: record(NumbaCudaProbe(), **options)
