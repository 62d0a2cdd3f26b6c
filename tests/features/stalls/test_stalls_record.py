"""Samples of warps, from the stand-in for CUPTI to the table ``pc_samples``."""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
import pytest
from numba import cuda

from kernelscope import cubin
from kernelscope.analysis.code import line_map, sass_offsets
from kernelscope.features.stalls.analyse import by_kernel
from kernelscope.features.stalls.pc_sampling import PcSampling
from kernelscope.features.stalls.record import StallsProbe, begin_anew
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti, CuptiError
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.views.inspector.counts import line_counts
from kernelscope.views.inspector.model import code_of, inspect_kernels

CONTEXT = 0x5500
#: Places in the stand-in's list of reasons.
LONG_SCOREBOARD, LONG_SCOREBOARD_NOT_ISSUED, WAIT, WAIT_NOT_ISSUED, SELECTED, BARRIER = range(6)


@pytest.fixture
def sample(stand_in):
    """Has the GPU take samples: of a kernel, at an offset, with a reason."""
    def take(name, offset, reason, samples, correlation=0):
        stand_in.library.stand_in_sample(name.encode(), ctypes.c_uint64(offset), correlation, reason, samples)

    stand_in.library.stand_in_sampled_context.restype = ctypes.c_void_p
    yield take
    assert stand_in.library.stand_in_sampled_context() is None, "it samples still"


def made(stand_in, **options):
    return PcSampling(stand_in.path, CONTEXT, **options)


def test_samples_are_added_up_by_instruction_and_reason(stand_in, sample):
    sampling = made(stand_in)
    sampling.begin()
    assert (stand_in.library.stand_in_sampled_context(), stand_in.library.stand_in_sampling_mode()) == (CONTEXT, 1)
    assert sampling.period == 14
    sample("_Zaxpy", 0x10, LONG_SCOREBOARD, 5)
    sample("_Zaxpy", 0x10, LONG_SCOREBOARD_NOT_ISSUED, 3)
    sample("_Zaxpy", 0x20, SELECTED, 2)
    sampling.collect()
    sample("_Zaxpy", 0x10, LONG_SCOREBOARD, 1)
    sample("_Zcopy", 0x10, WAIT, 9)
    sampling.end()
    assert sorted(sampling.taken()) == [
        ("_Zaxpy", 0x10, 0, "long_scoreboard", 6, 3), ("_Zaxpy", 0x20, 0, "selected", 2, 0),
        ("_Zcopy", 0x10, 0, "wait", 9, 0)]
    assert sampling.taken() == []
    assert sampling.total == 20
    sampling.end()


def test_more_instructions_than_fit_at_once_are_all_taken(stand_in, sample, monkeypatch):
    monkeypatch.setattr("kernelscope.features.stalls.pc_sampling._ROOM", 3)
    sampling = made(stand_in)
    sampling.begin()
    for offset in range(0, 160, 16):
        sample("k", offset, WAIT, 1 + offset)
    sampling.end()
    assert [(each.pc_offset, each.samples) for each in sorted(sampling.taken())] == [
        (offset, 1 + offset) for offset in range(0, 160, 16)]


def test_a_full_buffer_of_the_gpu_is_no_error(stand_in, sample):
    sampling = made(stand_in)
    sampling.begin()
    sample("k", 0, WAIT, 3)
    stand_in.library.stand_in_drop_samples(ctypes.c_uint64(9))
    stand_in.fail("cuptiPCSamplingGetData", 8)
    sampling.end()
    assert [each.samples for each in sampling.taken()] == [3]
    assert (sampling.dropped, sampling.is_buffer_full) == (9, True)


def test_a_full_buffer_of_cupti_is_known(stand_in, sample, monkeypatch):
    monkeypatch.setattr("kernelscope.features.stalls.pc_sampling.MOST", 2)
    sampling = made(stand_in)
    sampling.begin()
    for offset in range(0, 160, 16):
        sample("k", offset, WAIT, 1)
    stand_in.fail("cuptiPCSamplingGetData", 8)  # all that is left for the end
    sampling.end()
    assert len(sampling.taken()) == 2
    assert (sampling.left, sampling.is_buffer_full, sampling.dropped) == (8, True, 0)


def test_launches_are_told_apart_where_kernels_run_one_by_one(stand_in, sample):
    sampling = made(stand_in, is_serialized=True, period=9)
    sampling.begin()
    assert (stand_in.library.stand_in_sampling_mode(), sampling.period) == (2, 9)
    sample("k", 0, WAIT, 1, correlation=4)
    sample("k", 0, WAIT, 2, correlation=5)
    sampling.end()
    assert sorted((each.correlation_id, each.samples) for each in sampling.taken()) == [(4, 1), (5, 2)]


@pytest.mark.parametrize("call", ["Enable", "GetNumStallReasons", "GetStallReasons", "SetConfigurationAttribute",
                                  "Start"])
def test_what_cupti_refuses_leaves_nothing_on(stand_in, sample, call):
    stand_in.fail(f"cuptiPCSampling{call}", 35)
    sampling = made(stand_in)
    with pytest.raises(CuptiError, match="only administrators"):
        sampling.begin()
    sampling.end()
    assert sampling.taken() == []


def test_a_library_without_pc_sampling_is_said():
    with pytest.raises(CuptiError, match="libc"):
        PcSampling("libc.so.6", CONTEXT)
    with pytest.raises(CuptiError, match="nowhere"):
        PcSampling("nowhere.so", CONTEXT)


@cuda.jit(device=True, lineinfo=True)
def halved(value):
    return value / (value + 2.0)


@cuda.jit(lineinfo=True)
def kernel(out, values):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = halved(values[i]) + out[i]


@pytest.fixture
def recorded(stand_in, cupti, gpu):
    """Makes recorders with samples of the stand-in."""
    def make(**options):
        begin_anew(stand_in.path)
        probe = StallsProbe(path=stand_in.path, contexts=[(CONTEXT, 0)], is_serialized=options["stalls"] == "launches")
        return Recorder(probes=[NumbaCudaProbe(), CuptiProbe(cupti), probe], **options)

    return make


@pytest.fixture
def launch():
    array = cuda.to_device(np.zeros(64))
    return lambda: kernel[2, 32](array, array)


def name_of(kernel):
    compiled, = kernel.overloads.values()
    return compiled.entry_name


def test_a_recording_has_them_by_line(recorded, launch, sample, stand_in):
    launch()
    entry, sass = name_of(kernel), sass_of(kernel)
    offsets, lines = sass_offsets(sass, entry), line_map("sass", sass)
    first = inspect.getsourcelines(halved.py_func)[1]
    inlined = [offset for offset, at in offsets.items()
               if lines.chain[at] >= 0 and lines.chains[lines.chain[at]][0][1] == first + 2]
    assert inlined, sass
    recorder = recorded(stalls=True).start()
    launch()
    sample(entry, inlined[0], LONG_SCOREBOARD, 70)
    sample(entry, inlined[0], SELECTED, 5)
    sample(entry, 0, WAIT, 20)
    sample("library_kernel", 0x30, WAIT, 5)
    stand_in.library.stand_in_drop_samples(ctypes.c_uint64(11))
    recording = recorder.stop()
    assert recording.metadata["code"] is True
    assert {row["name"] for row in recording.rows("pc_samples")} == {
        recording.rows("dispatchers")[0]["name"], "library_kernel"}
    ours, others = by_kernel(recording)
    assert (ours.samples, ours.share, others.kernel) == (95, 0.95, "library_kernel")
    hot = ours.lines[0]
    text = "return value / (value + 2.0)"
    assert (hot.line, hot.text, hot.samples, hot.main) == (first + 2, text, 75, "long_scoreboard")
    assert hot.reasons == (("long_scoreboard", 70, 0), ("selected", 5, 0))
    assert f"line {first + 2}, `{text}`: 79 % of samples, waiting for memory" in " ".join(recording.summary().split())
    health, = (row for row in recording.rows("health") if row["probe"] == "stalls")
    assert (health["status"], health["dropped"]) == ("degraded", 11)
    assert "one every 16,384 cycles" in health["message"]


def test_kernels_whose_code_was_loaded_between_two_recordings_are_sampled_too(recorded, launch, sample, stand_in,
                                                                             monkeypatch):
    monkeypatch.setattr(Cupti, "may_begin_anew", True)
    launch()
    entry = name_of(kernel)
    with recorded(stalls=True):
        sample(entry, 0, WAIT, 5)
    stand_in.library.stand_in_load(b"later")  # CUPTI does not hear of it
    with recorded(stalls=True) as recorder:
        sample("later", 0, WAIT, 9)
    assert [(row["name"], row["samples"]) for row in recorder.recording.rows("pc_samples")] == [("later", 9)]
    stand_in.library.stand_in_load(b"later")
    monkeypatch.setattr(Cupti, "may_begin_anew", False)  # CUPTI would lose whose kernels run
    with recorded(stalls=True) as recorder:
        sample("later", 0, WAIT, 9)
    assert not len(recorder.recording.pc_samples)
    health, = (row for row in recorder.recording.rows("health") if row["probe"] == "stalls")
    assert health["status"] == "degraded" and "9 samples are of kernels that CUPTI tells" in health["message"]
    assert "restart the kernel" in health["fix"]


def sass_of(kernel):
    compiled, = kernel.overloads.values()
    code, = compiled._codelibrary._cubin_cache.values()
    return cubin.disassemble(bytes(code.code))


@cuda.jit(lineinfo=True)
def waiting(out):
    held = cuda.shared.array(64, np.float64)
    held[cuda.threadIdx.x] = out[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = held[63 - cuda.threadIdx.x]


def test_waits_at_a_barrier_are_at_its_line(recorded, sample):
    array = cuda.to_device(np.zeros(64))
    waiting[1, 64](array)
    entry, sass = name_of(waiting), sass_of(waiting)
    offsets, lines = sass_offsets(sass, entry), sass.split("\n")
    barrier, = (offset for offset, at in offsets.items() if "BAR.SYNC" in lines[at])
    recorder = recorded(stalls=True).start()
    waiting[1, 64](array)
    sample(entry, barrier + 16, BARRIER, 97)
    sample(entry, barrier + 16, WAIT, 2)
    sample(entry, barrier + 32, BARRIER, 1)
    sample(entry, 0xfff0, BARRIER, 3)  # no instruction of it
    recording = recorder.stop()
    found, = by_kernel(recording)
    first = inspect.getsourcelines(waiting.py_func)[1]
    assert [(each.line, each.reasons) for each in found.lines] == [
        (first + 4, (("barrier", 98, 0),)), (first + 5, (("wait", 2, 0),))]
    # Where the GPU had them.
    assert {each.pc_offset: each.samples for each in found.instructions} == {
        barrier + 16: 99, barrier + 32: 1, 0xfff0: 3}
    table = recording.by_stall()
    assert [(line, stall, samples) for line, stall, samples in zip(
        table.line.fillna(0), table.stall, table.samples, strict=True)] == [
        (first + 4, "barrier", 98), (first + 5, "wait", 2), (0, "barrier", 3)]
    assert shares(recording, "source") == {4: 98, 5: 2}
    assert shares(recording, "sass") == {offsets[barrier + 16]: 99, offsets[barrier + 32]: 1}


def shares(recording, form):
    """The samples of each line of a form of the only kernel's code."""
    shown, = inspect_kernels(recording)
    specialization, = shown.specializations
    samples = line_counts(recording, shown, specialization, form, code_of(recording, shown, specialization, form))
    return dict(zip(samples.lines.tolist(), samples.counts.sum(axis=1).tolist(), strict=True))


def test_kernels_in_other_contexts_are_counted(recorded, launch, sample, stand_in):
    launch()
    recorder = recorded(stalls=True).start()
    launch()
    stand_in.library.stand_in_kernel_context(2)
    launch()
    launch()
    sample(name_of(kernel), 0, WAIT, 1)
    health, = (row for row in recorder.stop().rows("health") if row["probe"] == "stalls")
    assert (health["status"], "; 2 kernels ran in CUDA contexts that were made" in health["message"]) == (
        "degraded", True)


def test_where_contexts_cannot_be_told_apart_nothing_is_said_of_them(recorded, launch, sample, stand_in):
    stand_in.fail("cuptiGetContextId", 1)
    recorder = recorded(stalls=True).start()
    stand_in.library.stand_in_kernel_context(2)
    launch()
    sample(name_of(kernel), 0, WAIT, 1)
    health, = (row for row in recorder.stop().rows("health") if row["probe"] == "stalls")
    assert (health["status"], "context" in health["message"]) == ("ok", False)


def test_what_had_no_room_is_said(recorded, launch, sample, stand_in, monkeypatch):
    monkeypatch.setattr("kernelscope.features.stalls.pc_sampling.MOST", 2)
    launch()
    recorder = recorded(stalls=True).start()
    launch()
    for offset in range(0, 160, 16):
        sample(name_of(kernel), offset, WAIT, 1)
    stand_in.fail("cuptiPCSamplingGetData", 8)
    recording = recorder.stop()
    assert recording.pc_samples.samples.sum() == 2
    health, = (row for row in recording.rows("health") if row["probe"] == "stalls")
    assert health["status"] == "degraded"
    assert "; the GPU lost more samples, as its buffer was full; those of 8 instructions are missing" in health[
        "message"]
    assert "8 instructions are missing" in " ".join(recording.summary().split())


def test_each_launch_has_its_own_where_they_run_one_by_one(recorded, launch, sample, stand_in):
    launch()
    recorder = recorded(stalls="launches").start()
    for samples in (3, 4):
        launch()
        sample(name_of(kernel), 0, WAIT, samples, correlation=stand_in.library.stand_in_call(
            1, 21, ctypes.c_uint64(0), ctypes.c_uint64(0), ctypes.c_uint64(0), 0, 0) - 1)
    recording = recorder.stop()
    assert [(row["launch_id"], row["samples"]) for row in recording.rows("pc_samples")] == [(0, 3), (1, 4)]


def test_a_recording_inside_has_its_own_part(recorded, launch, sample):
    launch()
    outer = recorded(stalls=True).start()
    sample(name_of(kernel), 0, WAIT, 1)
    inner = recorded(stalls=True).start()
    sample(name_of(kernel), 0, WAIT, 2)
    assert [row["samples"] for row in inner.stop().rows("pc_samples")] == [2]
    sample(name_of(kernel), 0, WAIT, 4)
    assert [row["samples"] for row in outer.stop().rows("pc_samples")] == [7]


def test_where_cupti_refuses_the_rest_is_recorded(recorded, launch, stand_in):
    stand_in.fail("cuptiPCSamplingEnable", 35)
    recorder = recorded(stalls=True).start()
    launch()
    recording = recorder.stop()
    assert len(recording.launches) == 1 and not len(recording.pc_samples)
    health, = (row for row in recording.rows("health") if row["probe"] == "stalls")
    assert (health["status"], "only administrators" in health["message"]) == ("unavailable", True)


def test_without_a_gpu_it_is_said(launch):
    with Recorder(stalls=True) as recorder:
        launch()
    recording = recorder.recording
    health, = (row for row in recording.rows("health") if row["probe"] == "stalls")
    assert (health["status"], health["message"]) == (
        "unavailable", "stall reasons were not recorded: there is no GPU here")


def test_what_does_not_go_together_is_said():
    with pytest.raises(ValueError, match="stalls 'all' is none of True, False and 'launches'"):
        Recorder(stalls="all")
    with pytest.raises(ValueError, match="needs CUPTI"):
        Recorder(stalls=True, gpu="none")
