from __future__ import annotations

from typing import Any

import pytest

from kernelscope.analysis.launches import Configurations, by_configuration, by_kernel, configurations_of


def _recording(script: Any) -> Any:
    made = script()
    for name in ("a", "unused", "b"):
        made.kernel(name)
    made.specialization(0, regs=20)
    made.specialization(0, "(float64,)", regs=30)
    made.configuration((4, 2), (16, 16), sharedmem_bytes=256, stream=-7)
    made.configuration((1,), (32,), cluster_x=2, cluster_y=1, cluster_z=1)
    made.occupancy(0, 0, 0.5)
    made.occupancy(1, 0, 0.75)
    made.occupancy(1, 1, 1.0)
    made.launch(0, (1, 0, 1, 1, 1), 0, 1)
    made.launch(0, (1, 0, 1, 1, 7), 0, 0)
    made.launch(0, (1, 0, 1, 1, 1), 1, 0, error="ValueError")
    made.launch(2, (1, 0, 1, 1, 1), None, 1)
    return made.recording()


def test_configurations_by_kernel_with_most_launches_first(script: Any) -> None:
    found = by_configuration(_recording(script))
    assert list(found) == [0, 2]
    first, second = found[0]
    assert (first.griddim, first.blockdim, first.cluster) == ((4, 2, 1), (16, 16, 1), None)
    assert (first.blocks, first.threads_per_block, first.sharedmem_bytes, first.stream) == (8, 256, 256, -7)
    assert (first.launches, first.errors, first.host_ns, first.median_ns) == (2, 1, 14, 7)
    assert (first.regs, first.occupancy) == ((20, 30), (0.5, 0.75))
    assert (second.cluster, second.regs, second.occupancy) == ((2, 1, 1), (20, 20), None)
    assert (found[2][0].launches, found[2][0].regs) == (1, None)


def test_only_rows_that_are_asked_for(script: Any) -> None:
    held = Configurations(_recording(script))
    assert [held.count(dispatcher) for dispatcher in range(4)] == [2, 0, 1, 0]
    assert len(held.of(0, 1)) == 1
    assert held.of(9) == []


def test_nothing_launched(script: Any) -> None:
    assert by_configuration(script().recording()) == {}


def test_a_captured_launch_counts_to_the_configuration_of_its_shape(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    for stream in (17, 18, 0):
        made.configuration((4,), stream=stream)
    made.configuration((8,), stream=19)
    made.configuration((8,), stream=20)
    for configuration in (0, 1, 3, 4):
        made.launch(configuration=configuration, capture_event_id=0)
    made.launch(configuration=2)
    recording = made.recording()
    assert configurations_of(recording).tolist() == [2, 2, 3, 3, 2]
    found = [(each.griddim, each.stream, each.launches, each.captured) for each in by_configuration(recording)[0]]
    assert found == [((4, 1, 1), 0, 1, 2), ((8, 1, 1), None, 0, 2)], "a node has no stream"
    assert by_kernel(recording)[0].configurations == 2


def test_a_captured_launch_has_the_occupancy_of_its_shape(script: Any) -> None:
    made = script()
    for name in ("axpy", "scale"):
        made.specialization(made.kernel(name))
    for grid, stream in ((4, 0), (4, 17), (8, 18), (8, 19)):
        made.configuration((grid,), stream=stream)
    made.launch(configuration=0)
    for kernel, configuration in ((0, 1), (1, 1), (1, 2), (1, 3)):
        made.launch(kernel, specialization=kernel, configuration=configuration, capture_event_id=0)
    for specialization, configuration, share in ((0, 0, 0.5), (0, 1, 0.5), (1, 1, 0.25), (1, 2, 0.75), (1, 3, 0.75)):
        made.rows.setdefault("occupancies", []).append({
            "specialization_id": specialization, "configuration_id": configuration, "device_id": 0,
            "active_blocks_per_multiprocessor": 8, "occupancy": share})
    found = by_configuration(made.recording())
    shown = {kernel: [(each.griddim, each.occupancy) for each in held] for kernel, held in found.items()}
    assert shown == {0: [((4, 1, 1), (0.5, 0.5))], 1: [((8, 1, 1), (0.75, 0.75)), ((4, 1, 1), (0.25, 0.25))]}


def test_the_default_streams_of_two_devices_are_two(script: Any) -> None:
    from kernelscope.views.card.labels import configuration_values
    from kernelscope.views.card.model import overview

    made = script()
    for ordinal in (1, 3):
        made.device(ordinal=ordinal)
    made.kernel()
    made.specialization()
    made.configuration()
    for device in (0, 1, 1, None):
        made.launch(device_id=device)
    made.occupancy(0, 0, 0.5)
    made.rows["occupancies"].append({**made.rows["occupancies"][0], "device_id": 1, "occupancy": 0.75})
    recording = made.recording()
    found = by_configuration(recording)[0]
    assert [(each.device, each.launches, each.occupancy) for each in found] == [
        (3, 2, (0.75, 0.75)), (None, 1, None), (1, 1, (0.5, 0.5))]
    assert [configuration_values(each)["stream"] for each in found] == [
        "default on device 3", "default", "default on device 1"]
    shown = overview(recording)
    assert (shown.configurations, shown.by_kernel[0].configurations) == (3, 3)
    for row in made.rows["launches"]:
        row["device_id"] = 1
    (only,) = by_configuration(made.recording())[0]
    assert (only.device, only.launches, only.occupancy) == (None, 4, (0.5, 0.75))


@pytest.mark.slow
def test_a_dry_run_on_the_default_streams_of_two_devices(run_python: Any) -> None:
    run_python("""
import kernelscope, numpy as np
from numba import cuda
from kernelscope.analysis.launches import by_configuration

@cuda.jit
def step(a):
    a[0] += 1

with kernelscope.record(gpu="none") as recorder:
    for device, launches in ((0, 2), (1, 3)):
        with cuda.gpus[device]:
            array = cuda.to_device(np.zeros(4))
            for _ in range(launches):
                step[1, 1](array)
found = by_configuration(recorder.recording)[0]
assert [(each.stream, each.device, each.launches) for each in found] == [(0, 1, 3), (0, 0, 2)], found
text = recorder.recording.summary()
assert "default on device 0" in text and "default on device 1" in text, text
""", KERNELSCOPE_DRYRUN_DEVICES="2", NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")
