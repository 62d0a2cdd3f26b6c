"""Times and cells of what CUPTI saw: clocks that drift or are set, nested recorders, many recordings."""

from __future__ import annotations

import numpy as np
import pytest
from cupti_stand_in import column, health

START = 2_000_000_000


def test_cells_have_what_was_asked_for_in_them(scripted, stand_in):
    script = scripted()
    inside = script.launch(script.clock())
    script.time_ns += 1_000_000
    script.recorder.end_cell()
    script.time_ns += 1_000_000
    between = script.launch(script.time_ns)
    script.time_ns += 1_000_000
    script.recorder.begin_cell("next")
    stand_in.kernel(inside, "kernel", script.time_ns + 1_000, script.time_ns + 2_000)  # it ran when the cell was over
    stand_in.kernel(between, "kernel", script.time_ns + 3_000, script.time_ns + 4_000)
    script.time_ns += 1_000_000
    assert column(script.stop(), "activities", "cell_id") == [0, None]


def test_clocks_that_drift_are_followed(scripted, stand_in):
    script = scripted(drift=200e-6)
    for number in range(11):
        start = START + number * 100_000_000
        stand_in.kernel(script.launch(start), "kernel", start + 10_000, start + 20_000)
    recording = script.stop()
    expected = START + np.arange(11) * 100_000_000 + 10_000
    assert np.abs(recording.column("activities", "start_ns") - expected).max() < 500
    assert recording.activities.launch_id.tolist() == list(range(11))
    assert health(recording)[0]["status"] == "ok"


@pytest.mark.parametrize("drift", [-200e-6, 200e-6])
def test_durations_are_cuptis_and_long_ones_end_on_the_host_clock(scripted, stand_in, drift):
    script = scripted(drift=drift)
    for number in range(50):
        start = START + number * 100_037
        stand_in.kernel(script.launch(start), "kernel", start + 10_000, start + 12_345)
    wait = script.at(START + 10_000_000)
    script.stand_in.wait(9_999, 3, wait, script.at(wait + 1_000_000_000))
    activities = script.stop().activities
    kernels = activities[activities.kind == "kernel"]
    assert (kernels.end_ns - kernels.start_ns == 2_345).all()
    [end] = activities[activities.kind == "sync"].end_ns
    assert abs(end - wait - 1_000_000_000) < 500


@pytest.mark.parametrize("jump", [50_000_000, -50_000_000])
def test_a_clock_that_is_set_is_stated(scripted, stand_in, jump):
    script = scripted()
    stand_in.kernel(script.launch(START), "kernel", START + 10_000, START + 20_000)
    script.jump = jump
    script.at(START + 100_000)
    recording = script.stop()
    [stated] = health(recording)
    assert stated["status"] == "degraded"
    assert f"by {jump / 1e6:.3f} ms" in stated["message"]
    assert len(recording.activities) == 1


def test_a_nested_recorder_has_only_its_own(scripted, stand_in, record):
    script = scripted()
    stand_in.kernel(script.launch(START), "kernel", START + 10_000, START + 20_000)
    script.at(START + 30_000)
    inner = record(clock=script.clock).start()
    inner.begin_cell("inner")
    start = script.time_ns + 1_000
    late = script.launch(start)
    stand_in.kernel(late, "kernel", start + 10_000, start + 20_000)
    script.at(start + 50_000)
    inside = inner.stop()
    assert inside.activities.correlation_id.tolist() == [late]
    assert inside.activities.launch_id.tolist() == [0]
    assert inside.launches.execute_ns.tolist() == [10_000]
    again = script.time_ns + 1_000
    stand_in.kernel(script.launch(again), "kernel", again + 10_000, again + 20_000)
    outer = script.stop()
    assert outer.activities.launch_id.tolist() == [0, 1, 2]
    assert outer.launches.execute_ns.tolist() == [10_000] * 3


@pytest.mark.slow
def test_a_hundred_recordings_in_a_row(gpu, stand_in, kernels, array):
    kernels.axpy[1, 32](array, 1.0, array)
    for number in range(100):
        with gpu() as recorder:
            for _ in range(number % 5):
                kernels.axpy[1, 32](array, 1.0, array)
        assert recorder.recording.activities.launch_id.tolist() == list(range(number % 5))
        assert stand_in.left_on == []
        if number == 50:
            stand_in.library.stand_in_register_other()  # torch.profiler ran meanwhile
        stand_in.launch("not recorded")
