"""What goes wrong around CUPTI: other clients, refusals, lost and torn records, interruptions, forks, exits."""

from __future__ import annotations

import functools
import os
import signal
import struct
import sys
import time
import types

import pytest
from cupti_stand_in import health
from together import run_together

import kernelscope
from kernelscope.clock import now
from kernelscope.probes.cupti import CuptiProbe, library, records
from kernelscope.probes.cupti.library import Cupti, CuptiError
from kernelscope.recorder.recorder import Recorder

PREAMBLE = """
import sys
sys.path.insert(0, {helpers!r})
from cupti_stand_in import StandIn
from kernelscope.clock import now
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti
from kernelscope.recorder.recorder import Recorder
stand_in = StandIn({library!r})
cupti = Cupti(stand_in.path, stand_in.stamp)
"""


@pytest.fixture
def script(library):
    """The beginning of a program that records with the stand-in."""
    helpers = os.path.join(os.path.dirname(__file__), "..", "..", "helpers")
    return PREAMBLE.format(helpers=os.path.abspath(helpers), library=str(library))


def test_another_client_is_named_and_the_rest_is_recorded(gpu, stand_in, kernels):
    stand_in.library.stand_in_hold(b"Nsight Systems")
    with gpu() as recorder:
        kernels.noop[1, 1]()
    recording = recorder.recording
    [row] = health(recording)
    assert row["status"] == "unavailable" and "Nsight Systems" in row["message"]
    assert "torch.profiler" in row["fix"]
    assert len(recording.launches) == 1 and len(recording.activities) == 0
    assert "gpu" not in recording.metadata
    assert stand_in.library.stand_in_registrations() == 0


@pytest.mark.parametrize(("code", "word", "fix"), [
    (35, "administrators", "NVreg_RestrictProfilingToAdminUsers=0"), (40, "virtual GPU", "--no-gpu"),
    (999, "CUPTI_ERROR_UNKNOWN", "--no-gpu"), (77, "77", "--no-gpu"),
])
@pytest.mark.parametrize("function", ["cuptiSubscribe_v2", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"])
def test_a_refusal_leaves_nothing_on(record, stand_in, function, code, word, fix):
    stand_in.fail(function, code)
    with record() as recorder:
        assert stand_in.left_on == []
    [row] = health(recorder.recording)
    assert row["status"] == "unavailable" and word in row["message"] and fix in row["fix"]
    assert sys.unraisablehook.__module__ != "kernelscope.probes.cupti.library"


@pytest.mark.parametrize("accepted", [40, 33, 32])
def test_every_versions_parameters_are_tried(record, stand_in, accepted):
    stand_in.library.stand_in_version(24, accepted)
    with record() as recorder:
        assert stand_in.client == "KernelScope"
        stand_in.launch()
    assert len(recorder.recording.activities) == 1


def test_a_missing_library_and_an_old_one(tmp_path, stand_in):
    with pytest.raises(CuptiError, match="was not found") as caught:
        Cupti(str(tmp_path / "libcupti.so"))
    assert "kernelscope[cupti]" in caught.value.fix
    stand_in.library.stand_in_version(17, 40)
    with pytest.raises(CuptiError, match="CUPTI 17 is too old"):
        Cupti(stand_in.path, stand_in.stamp)


def test_no_memory_is_a_reason(stand_in, monkeypatch):
    def refused(*_):
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(records.mmap, "mmap", refused)
    with pytest.raises(CuptiError, match="64 MiB"):
        Cupti(stand_in.path, stand_in.stamp)


@pytest.mark.parametrize("function", ["cuptiActivityFlushAll", "cuptiGetTimestamp", "cuptiActivityDisable"])
def test_a_failure_at_the_end_keeps_what_there_is(record, stand_in, function):
    with record() as recorder:
        stand_in.launch()
        stand_in.library.cuptiActivityFlushAll(0)
        stand_in.fail(function, 999)
    stand_in.fail(function, 0)
    assert not stand_in.client
    for kind in range(64):
        stand_in.library.cuptiActivityDisable(kind)
    recording = recorder.recording
    assert len(recording.activities) == 1
    [own] = [row for row in health(recording) if row["errors"]]
    assert own["status"] == "degraded" and "CUPTI_ERROR_UNKNOWN" in own["message"]


def test_dropped_records_are_counted(record, stand_in, cupti, monkeypatch):
    monkeypatch.setattr(cupti.buffers, "_unused", iter(()))
    stand_in.library.stand_in_raw(b"\0" * 64, 64)  # lost before recording began: not of it
    with record() as recorder:
        for _ in range(3):
            stand_in.launch()
    [row] = health(recorder.recording)
    assert row["dropped"] == 3 and row["status"] == "degraded" and "lost 3 records" in row["message"]
    assert len(recorder.recording.activities) == 0


@pytest.mark.parametrize("delivery", [0, -1, 1])
def test_many_buffers_of_any_thread(record, stand_in, monkeypatch, delivery):
    monkeypatch.setattr(records, "BUFFER_BYTES", 4096)
    monkeypatch.setattr(library, "BUFFER_BYTES", 4096)
    monkeypatch.setattr("kernelscope.probes.cupti.tracing._WAIT_S", 60.0)
    stand_in.library.stand_in_deliver(delivery)
    stand_in.library.stand_in_release()
    with Recorder(probes=[CuptiProbe(Cupti(stand_in.path, stand_in.stamp))]) as recorder:
        stand_in.many(2_000, "axpy", now())
    activities = recorder.recording.activities
    assert len(activities) == 2_000
    assert activities.correlation_id.is_unique
    assert (activities.end_ns - activities.start_ns == 3_000).all()
    assert health(recorder.recording)[0]["status"] == "ok"


def test_a_buffer_that_comes_after_the_recording_is_not_of_the_next(record, stand_in, monkeypatch):
    monkeypatch.setattr("kernelscope.probes.cupti.tracing._WAIT_S", 0.02)
    stand_in.library.stand_in_deliver(1)
    with record() as recorder:
        stand_in.launch("late")
    assert len(recorder.recording.activities) == 0
    stand_in.library.stand_in_deliver(0)
    with record() as recorder:
        stand_in.library.stand_in_release()
        while stand_in.library.stand_in_outstanding():
            time.sleep(0.005)
        stand_in.launch("next")
    assert recorder.recording.activities.name.tolist() == ["next"]


@pytest.mark.slow
def test_a_buffer_that_cupti_keeps_is_waited_for_once(record, stand_in, cupti, monkeypatch):
    waits = []
    monkeypatch.setattr("kernelscope.probes.cupti.tracing.time", types.SimpleNamespace(
        monotonic=lambda: sum(waits), sleep=waits.append))
    stand_in.library.stand_in_deliver(1)
    with record():
        stand_in.launch("kept")
    waited_s = sum(waits)
    assert waited_s >= 1
    stand_in.library.stand_in_deliver(0)
    for _ in range(5):
        with record() as recorder:
            stand_in.launch("next")
        assert recorder.recording.activities.name.tolist() == ["next"]
    assert sum(waits) == waited_s
    stand_in.library.stand_in_release()


def test_kinds_that_nobody_knows_are_stepped_over(record, stand_in):
    stand_in.library.stand_in_size(51, 72)
    with record() as recorder:
        for number in range(5):
            stand_in.launch(f"kernel {number}")
            stand_in.raw(struct.pack("i68x", 51))
    assert recorder.recording.activities.name.tolist() == [f"kernel {number}" for number in range(5)]
    assert health(recorder.recording)[0]["status"] == "ok"


@pytest.mark.parametrize("record_bytes", [
    struct.pack("i60x", 0), struct.pack("i60x", 63), struct.pack("i60x", -5), struct.pack("i60x", 1 << 20),
    struct.pack("i60x", 10),
], ids=["size of 0", "kind without a size", "negative", "kind too high", "beyond the end"])
def test_torn_records_cost_their_buffer_only(record, stand_in, record_bytes):
    with record() as recorder:
        stand_in.launch("before")
        stand_in.raw(record_bytes)
        stand_in.library.cuptiActivityFlushAll(0)
        stand_in.launch("after")
    recording = recorder.recording
    assert recording.activities.name.tolist() == ["before", "after"]
    [row] = health(recording)
    assert row["status"] == "degraded" and "could not be read" in row["message"]
    with record() as recorder:
        stand_in.launch("again")
    assert health(recorder.recording)[0]["status"] == "ok"


@pytest.mark.usefixtures("no_garbage")
class TestInterruptions:
    def launch_with_signal(self, stand_in, number, name="kernel"):
        """A launch during which a signal comes, before CUPTI asks for a buffer."""
        stand_in.library.cuptiActivityFlushAll(0)
        stand_in.library.stand_in_signal(number)
        stand_in.launch(name)

    def test_a_ctrl_c_in_cuptis_callback_reaches_the_user(self, record, stand_in, cupti, capsys):
        before = sys.unraisablehook
        recorder = record().start()
        recorder.begin_cell()
        count = 0
        for _ in range(20):
            try:
                self.launch_with_signal(stand_in, signal.SIGINT)
                for _ in range(60_000):
                    time.sleep(0.001)
            except KeyboardInterrupt:
                count += 1
        recorder.end_cell()
        recorder.stop()
        assert count == 20
        assert sys.unraisablehook == before
        assert "Exception ignored" not in capsys.readouterr().err
        assert not cupti.buffers.collect()

    @pytest.mark.parametrize("request_us", [0, 50_000], ids=["at once", "and comes in the middle of the next request"])
    def test_an_alarm_too(self, record, stand_in, request_us):
        def ring(*_):
            raise TimeoutError("too long")

        stand_in.library.stand_in_request_time(request_us)
        before = signal.signal(signal.SIGALRM, ring)
        try:
            with pytest.raises(TimeoutError), record():
                self.launch_with_signal(stand_in, signal.SIGALRM)
                for _ in range(60_000):
                    time.sleep(0.001)
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_a_flush_is_not_broken_off(self, record, stand_in):
        recorder = record().start()
        stand_in.launch("kernel")
        with pytest.raises(KeyboardInterrupt):
            stand_in.library.stand_in_signal_at_flush(signal.SIGINT)
            stand_in.library.cuptiActivityFlushAll(0)
            for _ in range(60_000):
                time.sleep(0.001)
        assert recorder.stop().activities.name.tolist() == ["kernel"]

    def test_stopping_is_taken_up_again(self, record, stand_in):
        with record():  # what is looked up once in a process may start others, which an interrupt would leave behind
            stand_in.launch("kernel")
        arrived = 0

        def ring(*given):
            nonlocal arrived
            arrived += 1
            signal.default_int_handler(*given)

        def settle(signals):
            """Wait until the signals have arrived, and as long as it takes to raise one once more."""
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    while arrived < signals and time.monotonic() < end:
                        time.sleep(0.0001)
                    return time.sleep(0.03)
                except KeyboardInterrupt:
                    pass

        before = signal.signal(signal.SIGINT, ring)
        try:
            for delay in range(30):
                signals = arrived + 1
                recorder = record().start()
                stand_in.launch("kernel")
                try:
                    stand_in.library.stand_in_signal_later(signal.SIGINT, delay * 40)
                    recorder.stop()
                except KeyboardInterrupt:
                    pass
                settle(signals)
                if recorder.is_recording:  # it came before anything was undone
                    recorder.stop()
                assert stand_in.left_on == [], delay
                assert not recorder.is_recording
                assert sys.unraisablehook.__module__ != "kernelscope.probes.cupti.library"
        finally:
            signal.signal(signal.SIGINT, before)

    def test_an_interrupted_cell_leaves_nothing_on(self, gpu, stand_in, kernels):
        kernels.noop[1, 1]()
        recorder = gpu()
        with pytest.raises(KeyboardInterrupt), recorder:
            kernels.noop[1, 1]()
            raise KeyboardInterrupt
        assert stand_in.left_on == []
        assert recorder.recording.activities.launch_id.tolist() == [0]
        assert recorder.recording.cells.status.tolist() == ["interrupted"]


@pytest.mark.slow
def test_a_forked_child_touches_nothing(run_python, script):
    result = run_python(script + """
import os
recorder = Recorder(probes=[CuptiProbe(cupti)]).start()
stand_in.launch("kernel")
before = sys.unraisablehook
child = os.fork()
if child == 0:
    for function in ("cuptiActivityDisable", "cuptiUnsubscribe", "cuptiActivityFlushAll", "cuptiGetTimestamp"):
        setattr(cupti._library, function, lambda *_: os._exit(9))
    recording = recorder.stop()
    assert sys.unraisablehook != before
    os._exit(len(recording.activities))
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), len(recorder.stop().activities), stand_in.left_on)
""")
    assert result.stdout.split(maxsplit=2) == ["0", "1", "[]\n"]


LATE = """
import threading, time
threading.Thread(target=lambda: [stand_in.many(500, 'late', now()) for _ in range(300)], daemon=True).start()
"""


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", LATE])
def test_the_interpreter_ends_in_the_middle(run_python, script, ending):
    result = run_python(script + f"""
import atexit
recorder = Recorder(probes=[CuptiProbe(cupti)])
atexit.register(lambda: print(stand_in.left_on, flush=True))
recorder.start()
stand_in.launch("kernel")
{ending}
""")
    assert result.stdout == "[]\n"
    assert result.stderr == ""


@pytest.mark.parametrize("begin", ["probe._STARTERS = ('cupy',)", "import cupy"], ids=["late", "at once"])
def test_a_process_that_records_itself_has_what_the_gpu_did(run_python, script, begin, tmp_path):
    """Whether CUPTI begins with the recording or later, when something is imported that may start CUDA."""
    (tmp_path / "cupy.py").touch()
    result = run_python(script + f"""
import os
from pathlib import Path
import kernelscope.recorder.session
from kernelscope.probes import cupti as probe
from kernelscope.recorder.worker import start
probe._libraries[cupti.path] = os.getpid(), cupti
kernelscope.recorder.session.has_driver = lambda: True
sys.path.insert(0, {str(tmp_path)!r})
{begin}
assert start(Path({str(tmp_path / "run")!r}), "")
import cupy
stand_in.launch("kernel")
""")
    assert result.stderr == ""
    [path] = (tmp_path / "run").glob("*.kscope")
    assert kernelscope.load(path).activities.name.tolist() == ["kernel"]


def test_a_library_of_the_parent_is_not_used_in_a_child(stand_in, monkeypatch):
    from kernelscope.probes import cupti as probe

    monkeypatch.setattr(probe, "find", lambda: stand_in.path)
    monkeypatch.setattr(probe, "_libraries", {})
    assert probe._loaded() is probe._loaded()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(CuptiError, match="forked"):
        probe._loaded()


def test_threads_ask_at_once(record, stand_in, monkeypatch):
    with record() as recorder:
        run_together(*(functools.partial(stand_in.many, 1_000, f"of {number}", now()) for number in range(4)))
    assert recorder.recording.activities.name.value_counts().tolist() == [1_000] * 4
