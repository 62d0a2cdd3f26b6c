"""The hook on ``cuda.core.launch``: each launch once, wherever its name was bound, and exact undo."""

from __future__ import annotations

import functools
import gc
import pickle
import signal
import sys
import types
from typing import Any

import cuda.core
import numpy as np
import pytest
from counting import lines_run
from cuda.core import LaunchConfig
from cuda.core import launch as launch_bound_early
from numba import cuda as numba_cuda
from together import run_together

import kernelscope
from kernelscope.probes.base import Probe, without_frames
from kernelscope.probes.cuda_core import CudaCoreProbe

# In a tuple, where no hook can replace it.
ORIGINAL = (cuda.core.launch,)
POINTER = np.intp(0)


class HookOnly(CudaCoreProbe):
    """The probe without what follows graphs; what a launch costs is not measured."""

    def install(self, sink: Any, detail: str) -> None:
        Probe.install(self, sink, detail)

    def cost_per_launch_ns(self, detail: str) -> float | None:
        return None


@pytest.fixture
def arguments(stream: Any, scale: Any) -> tuple[Any, ...]:
    """Those of a launch."""
    return stream, LaunchConfig(grid=1, block=32), scale, POINTER, np.float32(1), np.int32(0)


@pytest.fixture
def recorder() -> Any:
    return kernelscope.Recorder("launches", probes=[HookOnly()])


def test_a_launch_has_its_kernel_configuration_and_stream(recorder, stream, scale):
    config = LaunchConfig(grid=(4, 2), block=64, shmem_size=128)
    with recorder:
        assert cuda.core.launch(stream, config, scale, POINTER, np.float32(2), np.int32(8)) is None
    (launch,) = recorder.recording.launches.itertuples()
    assert launch.start_ns < launch.end_ns
    assert recorder.recording.launches[["dispatch_end_ns", "submit_start_ns", "submit_end_ns"]].isna().all(axis=None)
    (dispatcher,) = recorder.recording.dispatchers.itertuples()
    assert (dispatcher.framework, dispatcher.name) == ("cuda.core", "scale")
    (specialization,) = recorder.recording.table("specializations").itertuples()
    assert specialization.entry_name == "scale"
    assert specialization.signature == "(8 bytes, 4 bytes, 4 bytes)"
    assert specialization.regs == scale.attributes.num_regs
    (shape,) = recorder.recording.configurations.itertuples()
    assert (shape.griddim_x, shape.griddim_y, shape.blockdim_x, shape.sharedmem_bytes) == (4, 2, 64, 128)
    assert shape.stream == int(stream.handle)
    (occupancy,) = recorder.recording.occupancies.itertuples()
    assert 0 < occupancy.occupancy <= 1
    assert recorder.recording.devices.compute_capability.tolist() == [specialization.compute_capability]


def test_names_of_templates_are_readable(recorder, stream, fill):
    with recorder:
        cuda.core.launch(stream, LaunchConfig(grid=1, block=32), fill, POINTER, np.float32(1))
    assert recorder.recording.dispatchers.name.tolist() == ["void fill<float>"]
    assert recorder.recording.table("specializations").signature.tolist() == ["(float*, float)"]


def test_a_grid_of_clusters_is_counted_in_blocks(recorder, stream, scale):
    with recorder:
        cuda.core.launch(stream, LaunchConfig(grid=(3, 2), cluster=(2, 1), block=32), scale, POINTER,
                         np.float32(1), np.int32(0))
    (shape,) = recorder.recording.configurations.itertuples()
    assert (shape.griddim_x, shape.griddim_y, shape.griddim_z) == (6, 2, 1)
    assert (shape.cluster_x, shape.cluster_y, shape.cluster_z) == (2, 1, 1)


def _closure(function):
    def call(*arguments):
        return function(*arguments)

    return call


def test_names_that_were_bound_early_are_recorded_each_launch_once(recorder, arguments):
    module = types.ModuleType("somebody")
    exec("from cuda.core import launch as theirs", vars(module))
    closure, partial = _closure(ORIGINAL[0]), functools.partial(ORIGINAL[0], arguments[0])
    with recorder:
        assert launch_bound_early is not ORIGINAL[0]
        launch_bound_early(*arguments)
        module.theirs(*arguments)
        closure(*arguments)
        partial(*arguments[1:])
        from cuda.core import launch as bound_late
        module.late = bound_late
    assert len(recorder.recording.launches) == 4
    assert launch_bound_early is ORIGINAL[0] and module.theirs is ORIGINAL[0] and module.late is ORIGINAL[0]
    assert closure.__closure__[0].cell_contents is ORIGINAL[0] and partial.func is ORIGINAL[0]
    assert cuda.core.launch is ORIGINAL[0]


def test_numba_launches_are_counted_once():
    @numba_cuda.jit
    def noop():
        pass

    for detail in ("phases", "launch"):
        recorder = kernelscope.Recorder("both", probes=[kernelscope.recorder.session.NumbaCudaProbe(), HookOnly()],
                                        detail=detail)
        with recorder:
            noop[1, 1]()
        assert recorder.recording.dispatchers.framework.tolist() == ["numba-cuda"]
        assert len(recorder.recording.launches) == 1


@pytest.mark.slow
def test_numba_imported_while_recording_is_counted_once(run_python):
    result = run_python("""
import sys
import kernelscope, cuda.core
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.recorder.session import NumbaCudaProbe
assert "numba.cuda" not in sys.modules
with kernelscope.Recorder("late", probes=[NumbaCudaProbe(), CudaCoreProbe()]) as recorder:
    from numba import cuda as numba_cuda
    @numba_cuda.jit
    def noop():
        pass
    noop[1, 1]()
print(recorder.recording.dispatchers.framework.tolist(), len(recorder.recording.launches))
import numba.cuda.dispatcher
assert numba.cuda.dispatcher.launch is cuda.core.launch
assert type(cuda.core.launch).__name__ == "cython_function_or_method"
""")
    assert result.stdout.split("\n")[0] == "['numba-cuda'] 1"


def test_failures_are_the_users_and_are_recorded(recorder, stream, scale):
    with recorder:
        with pytest.raises(TypeError) as failure:
            cuda.core.launch(stream, LaunchConfig(grid=1, block=32), "no kernel")
        with pytest.raises(Exception, match="INVALID_VALUE"):
            cuda.core.launch(stream, LaunchConfig(grid=1, block=2048), scale, POINTER, np.float32(1), np.int32(0))
    assert recorder.recording.launches.error.tolist() == ["CUDAError"]
    frames = []
    entry = without_frames(failure.value.__traceback__, frozenset())
    while entry is not None:
        frames.append(entry.tb_frame.f_code.co_filename)
        entry = entry.tb_next
    assert frames
    health = recorder.recording.health
    about = health[health.probe == "cuda.core"]  # no error of ours, and no launch; what a launch costs may stand there
    assert about.dropped.isna().all()
    assert set(about.status) <= {"ok"}


def test_a_mutated_configuration_is_another_one(recorder, stream, scale):
    config = LaunchConfig(grid=1, block=32)
    with recorder:
        for grid in ((1, 1, 1), (5, 1, 1), (1, 1, 1)):
            config.grid = grid
            cuda.core.launch(stream, config, scale, POINTER, np.float32(1), np.int32(0))
    shapes = recorder.recording.configurations.griddim_x
    assert shapes[recorder.recording.launches.configuration_id].tolist() == [1, 5, 1]


@pytest.mark.filterwarnings("ignore:Passing foreign stream objects:DeprecationWarning")
def test_streams_of_others_and_graph_builders(recorder, device, stream, scale):
    class Theirs:
        __hash__ = None

        def __cuda_stream__(self):
            return 0, int(stream.handle)

    class Odd(Theirs):
        def __hash__(self):
            raise ValueError("no hash")

    arguments = LaunchConfig(grid=1, block=32), scale, POINTER, np.float32(1), np.int32(0)
    builder = device.create_graph_builder()
    with recorder:
        cuda.core.launch(Theirs(), *arguments)
        cuda.core.launch(Odd(), *arguments)
        builder.begin_building()
        cuda.core.launch(builder, *arguments)
        builder.end_building()
    streams = recorder.recording.configurations.stream[recorder.recording.launches.configuration_id].tolist()
    assert streams == [int(stream.handle)] * 2 + [int(builder.stream.handle)]
    assert not recorder.recording.health.errors.fillna(0).any()


def test_threads(recorder, device, arguments):
    def work():
        device.set_current()
        for _ in range(300):
            cuda.core.launch(*arguments)

    with recorder:
        run_together(*[work] * 4)
    assert recorder.recording.launches.thread_id.value_counts().tolist() == [300] * 4


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_reaches_the_user_and_nothing_stays(recorder, stream, scale):
    config, seen = LaunchConfig(grid=1, block=32), 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with recorder:
            for _ in range(50):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0007)  # in here: on a busy machine it may go off at once
                    for _ in range(100_000):  # Python drops what is raised in a finalizer: that must not last for ever
                        cuda.core.launch(stream, config, scale, POINTER, np.float32(1), np.int32(0))
                        seen += 1
                except KeyboardInterrupt:
                    pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    written = len(recorder.recording.launches)
    assert seen <= written <= seen + 50
    assert cuda.core.launch is ORIGINAL[0]


def test_the_hook_looks_like_the_function(recorder):
    with recorder:
        hook = cuda.core.launch
        assert (hook.__name__, hook.__module__, hook.__doc__) == (
            ORIGINAL[0].__name__, ORIGINAL[0].__module__, ORIGINAL[0].__doc__)
        assert pickle.loads(pickle.dumps(hook)) is hook


def test_a_hook_that_was_kept_is_recorded_once(recorder, arguments):
    kept = []
    with recorder:
        kept.append((cuda.core.launch,))  # a tuple cannot be changed
    kept[0][0](*arguments)
    again = kernelscope.Recorder("again", probes=[HookOnly()])
    with again:
        kept[0][0](*arguments)
    assert (len(recorder.recording.launches), len(again.recording.launches)) == (0, 1)


def test_a_hook_that_is_put_back_after_the_block_is_known(recorder, arguments):
    """As it is by who has put a wrapper over it inside, and takes that off outside."""
    with recorder:
        kept = ({"launch": cuda.core.launch},)
        cuda.core.launch = functools.wraps(cuda.core.launch)(lambda *given: kept[0]["launch"](*given))
    for _ in range(3):
        cuda.core.launch = kept[0]["launch"]
        again = kernelscope.Recorder("again", probes=[HookOnly()])
        with again:
            cuda.core.launch(*arguments)
            launch_bound_early(*arguments)
            kept[0]["launch"](*arguments)
        assert len(again.recording.launches) == 3
        assert cuda.core.launch is ORIGINAL[0] and launch_bound_early is ORIGINAL[0]


def test_starting_again_needs_no_search(stream):
    gc.collect()
    for _ in range(2):
        with kernelscope.Recorder("warm", probes=[HookOnly()]):
            pass
    searches = []
    before = gc.get_referrers
    gc.get_referrers = lambda *asked: searches.append(asked) or before(*asked)
    try:
        with kernelscope.Recorder("again", probes=[HookOnly()]):
            pass
    finally:
        gc.get_referrers = before
    assert not searches


def test_arguments_are_not_kept_alive(recorder, stream, scale):
    class Scalar(np.float32):
        pass

    counted = Scalar(1)
    with recorder:
        before = sys.getrefcount(counted)
        cuda.core.launch(stream, LaunchConfig(grid=1, block=32), scale, POINTER, counted, np.int32(0))
        assert sys.getrefcount(counted) == before


def test_it_adds_few_lines_to_a_launch(stream, scale):
    config = LaunchConfig(grid=1, block=32)
    arguments = POINTER, np.float32(1), np.int32(0)

    def launch():
        cuda.core.launch(stream, config, scale, *arguments)

    plain = lines_run(launch)
    with kernelscope.Recorder("cost", probes=[HookOnly()]):
        launch()
        assert lines_run(launch) < plain + 40
    assert lines_run(launch) == plain


def test_the_hook_takes_what_the_function_takes(recorder, stream, scale):
    config, arguments = LaunchConfig(grid=1, block=32), (POINTER, np.float32(1), np.int32(0))
    wrong = [((), {}), ((stream,), {}), ((stream, config), {}),
             ((stream, config, scale), {"nothing": 1}), ((stream, config, scale), {"kernel": scale})]
    with recorder:
        for args, named in wrong:
            with pytest.raises(TypeError):
                cuda.core.launch(*args, **named)
        cuda.core.launch(stream, config, scale, *arguments)
        with pytest.raises(TypeError):  # as without a recorder: it has no arguments for the kernel
            cuda.core.launch(stream=stream, config=object(), kernel=scale)
    assert len(recorder.recording.launches) == 1
    assert not recorder.recording.health.errors.fillna(0).any()
