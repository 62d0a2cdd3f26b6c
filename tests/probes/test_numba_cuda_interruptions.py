"""What comes between: signal handlers, other threads, other tools' functions, and recorders used in unusual ways."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numba.cuda.dispatcher as numba_dispatcher
import pytest
from hooked import still_hooked
from interruptions import handlers, interrupted_at, lines_of

import kernelscope
from kernelscope import native
from kernelscope.probes.base import ImportFinder
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session

#: A slow machine gets so long for what others have done in a second.
LONGEST_S = 120


@pytest.fixture
def alarm():
    """Install a handler of SIGALRM; the former one is put back."""
    previous = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_a_signal_handler_may_launch_at_any_moment(kernels, array, alarm, detail):
    made = SimpleNamespace(outer=0, inner=0, armed=False)
    outer, inner = kernels.noop[1, 1], kernels.axpy[2, 32]

    def handler(*_):
        made.inner += 1
        inner(array, 2.0, array)
        made.armed = False

    outer()
    inner(array, 2.0, array)
    alarm(handler)
    with kernelscope.record(detail=detail) as r:
        until = time.monotonic() + LONGEST_S
        while made.inner < 1000 and time.monotonic() < until:
            if not made.armed:
                made.armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-5, 2e-4))
            outer()
            made.outer += 1
        while made.armed:
            time.sleep(0.001)
    launches, names = r.recording.launches, r.recording.dispatchers.name
    counts = names[launches.dispatcher_id].value_counts()
    assert made.inner >= 1000
    assert counts.to_dict() == {"make_kernels.noop": made.outer, "make_kernels.axpy": made.inner}
    assert launches.start_ns.min() > 0
    # A launch in whose last step the handler came may not know its specialization any more: null, never another's.
    known = launches[launches.specialization_id.notna()]
    assert len(known) > 0.9 * len(launches)
    owners = r.recording.specializations.dispatcher_id
    assert owners[known.specialization_id].tolist() == known.dispatcher_id.tolist()
    assert r.recording.health.errors.isna().all()


@pytest.mark.usefixtures("interruptible")
def test_an_exception_of_a_signal_handler_is_never_swallowed(kernels, alarm, no_garbage):
    class OutOfTime(Exception):
        pass

    seen = SimpleNamespace(raised=0, caught=0)

    def handler(*_):
        seen.raised += 1
        raise OutOfTime

    def launch_until_raised(before):
        while seen.raised == before:
            launch()

    launch = kernels.noop[1, 1]
    launch()
    alarm(handler)
    with kernelscope.record() as r:
        until = time.monotonic() + LONGEST_S
        while seen.caught < 1000 and time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-5, 2e-4))
                launch_until_raised(seen.raised)
            except OutOfTime:
                seen.caught += 1
    assert seen.raised == seen.caught >= 1000
    assert r.recording.health.errors.isna().all()


def test_a_plain_function_in_the_place_of_the_driver_call(kernels, array, monkeypatch):
    original, calls = numba_dispatcher.launch, []
    names = {"original": original, "calls": calls}
    exec("def launch(*arguments):\n    calls.append(1)\n    return original(*arguments)", names)  # no closure
    monkeypatch.setattr(numba_dispatcher, "launch", names["launch"])
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert len(calls) == 1
    assert r.recording.launches.submit_start_ns.notna().all()
    assert numba_dispatcher.launch is names["launch"]


def test_a_thread_in_the_middle_of_a_launch_at_start_is_not_taken_for_the_first(kernels, array):
    """It goes on through hooks while another thread's launch is under way."""
    waiting, go, done = threading.Event(), threading.Event(), threading.Event()
    launch, other = kernels.noop[1, 1], kernels.axpy[2, 32]

    class Slow:
        @property
        def __cuda_array_interface__(self):
            if threading.current_thread() is thread and not waiting.is_set():
                waiting.set()
                assert go.wait(60)
            return array.__cuda_array_interface__

    def run():
        other(Slow(), 2.0, array)
        done.set()

    def callback(*_):
        go.set()
        assert done.wait(60)

    launch()
    other(array, 2.0, array)
    thread = threading.Thread(target=run)
    thread.start()
    assert waiting.wait(60)
    with kernelscope.record() as r:
        launch()
        launch.pre_launch_callbacks.append(callback)
        launch()
        launch.pre_launch_callbacks.clear()
    thread.join()
    launches = r.recording.launches
    assert launches.specialization_id.nunique() == 1
    assert len(r.recording.specializations) == 1


def test_a_nested_recorder_stops_while_another_thread_compiles(kernels, array):
    class Interrupted(list):
        def __iter__(self):
            if sys._getframe(1).f_code.co_name == "raw_recording" and not done:
                done.append(1)
                thread = threading.Thread(target=lambda: kernels.axpy[2, 32](array, 2.0, array))
                thread.start()
                thread.join()
            return super().__iter__()

    done = []
    with kernelscope.record():
        inner = Recorder().start()
        kernels.noop[1, 1]()
        sink = Session.active.sink
        sink.devices.rows = Interrupted(sink.devices.rows)
        assert len(inner.stop().launches) == 1
    assert done


def test_ctrl_c_while_hooks_go_in_leaves_none(kernels, monkeypatch):
    from kernelscope.probes.numba_cuda.compile import CompileHooks

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CompileHooks, "install", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Recorder().start()
    with kernelscope.record() as r:
        kernels.noop[1, 1]()
    assert len(r.recording.launches) == 1


@pytest.fixture
def signals():
    yield from handlers()


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
def test_ctrl_c_at_every_line_while_hooks_go_in(kernels):
    """Of the probes and what installs them; see tests/recorder for what is around that."""
    begun = []

    def start():
        begun.append(Recorder())
        begun[-1].__enter__()

    for _ in range(2):
        lines = lines_of(start)
        begun[-1].stop()
    assert len({file for file, _ in lines}) > 20 and len(lines) > 600
    for count, line in enumerate(lines):
        if interrupted_at(line, start):
            assert not begun[-1].is_recording
        else:  # such as a search that was made before, and is remembered
            begun[-1].stop()
        assert Session.active is None and still_hooked() == native.core.taken() == [], line
        assert not [finder for finder in sys.meta_path if isinstance(finder, ImportFinder)], line
        if count % 50 == 0:
            with kernelscope.record() as r:
                kernels.noop[1, 1]()
            assert len(r.recording.launches) == 1, line


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_a_first_launch_that_is_interrupted_is_looked_up_by_the_next(kernels, array):
    """Ctrl-C at each line of what a kernel's first launch in a recording runs."""
    def launch():
        kernels.noop[1, 1]()

    def story(line):
        with kernelscope.record() as r:
            found = lines_of(launch) if line is None else interrupted_at(line, launch)
            launch()
            kernels.axpy[2, 32](array, 2.0, array)
        assert r.recording.health.errors.isna().all(), (line, r.recording.health.message.tolist())
        names = r.recording.dispatchers.name[r.recording.launches.dispatcher_id]
        assert names.tolist()[-2:] == ["make_kernels.noop", "make_kernels.axpy"], line
        assert sorted(names.unique()) == ["make_kernels.axpy", "make_kernels.noop"], line
        return found

    launch()
    kernels.axpy[2, 32](array, 2.0, array)
    story(None)
    lines = [line for line in story(None) if Path(line[0]).name in ("kernels.py", "sink.py", "functions.py")]
    assert len(lines) > 50
    assert any([story(line) for line in lines])
