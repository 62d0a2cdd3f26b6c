"""Fixtures: CUPTI's stand-in, and a GPU of the dry run that it watches. Conftests of folders import them."""

from __future__ import annotations

import functools
import time

import pytest
from cupti_stand_in import OFFSET, StandIn, build
from numba.cuda import dispatcher
from numba.cuda.cudadrv import driver

from kernelscope.clock import now
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.scripted import Launch, ScriptedProbe
from kernelscope.recorder.recorder import Recorder


@functools.cache
def built(folder):
    (folder / "stand_in").mkdir()
    return build(folder / "stand_in")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return built(tmp_path_factory.getbasetemp())


@pytest.fixture
def stand_in(library):
    """The library, as new; after the test nothing of it may be on."""
    stand_in = StandIn(library)
    yield stand_in
    deadline = time.monotonic() + 60
    while stand_in.library.stand_in_outstanding():
        assert time.monotonic() < deadline, "the stand-in has not given its buffers back"
        time.sleep(0.001)
    assert stand_in.left_on == []


_alive = []


@pytest.fixture
def cupti(stand_in):
    _alive.append(Cupti(stand_in.path, stand_in.stamp))  # as in a real process: it may be called as long as that lives
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


class Scripted:
    """Launches of the scripted probe with what the stand-in saw of them; a fake clock that both follow."""

    def __init__(self, stand_in, record, drift=0.0, **options):
        self.stand_in, self.drift, self.jump = stand_in, drift, 0
        self.time_ns = 1_000_000_000
        self.probe = ScriptedProbe()
        self.recorder = record(self.probe, clock=self.clock, **options).start()
        self.recorder.begin_cell("cell")

    def clock(self):
        self.time_ns += 100
        self.stand_in.set_time(self.time_ns, self.offset)
        return self.time_ns

    @property
    def offset(self):
        return OFFSET + self.jump + round((self.time_ns - 1_000_000_000) * self.drift)

    def at(self, ns):
        """Go to a time and write there."""
        self.time_ns = max(self.time_ns, ns)
        self.stand_in.offset = self.offset
        return ns

    def launch(self, start, *, result=0, call=(7_200, 8_800), **launch):
        """A launch whose submit is from 7 to 9 us; return the correlation id of its call."""
        self.probe.emit(Launch(start_ns=start, **launch))
        return self.stand_in.call("cuLaunchKernel", self.at(start) + call[0], start + call[1], result=result)

    def stop(self):
        self.recorder.end_cell()
        return self.recorder.stop()


@pytest.fixture
def scripted(stand_in, record):
    made = []

    def make(**options):
        made.append(Scripted(stand_in, record, **options))
        return made[-1]

    yield make
    for each in made:
        if each.recorder.is_recording:
            each.recorder.stop()
