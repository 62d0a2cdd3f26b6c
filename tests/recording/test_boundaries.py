"""What the GPU's records add to launches whose probe saw less."""

from __future__ import annotations

import numpy as np

from kernelscope.recording.joins import add_boundaries, add_devices


def launches_of(**columns):
    return {name: np.array(values) for name, values in columns.items()}


def test_the_drivers_call_is_the_submit_phase():
    launches = launches_of(start_ns=[100, 200, 300, 400], submit_start_ns=[-1, 210, -1, -1],
                           submit_end_ns=[150, 220, -1, 450])
    calls = {"start_ns": np.array([320, 212, 120]), "end_ns": np.array([330, 215, 140])}
    add_boundaries(launches, np.array([2, 1, 0]), calls)
    # The second knows better; of the third nothing was seen, as with detail="launch"; the fourth has no call.
    assert launches["submit_start_ns"].tolist() == [120, 210, -1, -1]
    assert launches["submit_end_ns"].tolist() == [140, 220, -1, 450]


def test_a_call_stays_inside_of_its_launch():
    launches = launches_of(start_ns=[100], submit_start_ns=[-1], submit_end_ns=[150])
    before = dict(launches)
    add_boundaries(launches, np.array([0]), {"start_ns": np.array([99]), "end_ns": np.array([151])})
    assert (launches["submit_start_ns"].tolist(), launches["submit_end_ns"].tolist()) == ([100], [150])
    assert before["submit_start_ns"].tolist() == [-1], "columns may be shared: they are replaced"


def test_calls_of_nobody_change_nothing():
    launches = launches_of(start_ns=[100], submit_start_ns=[-1], submit_end_ns=[150])
    add_boundaries(launches, np.array([-1]), {"start_ns": np.array([120]), "end_ns": np.array([130])})
    assert launches["submit_start_ns"].tolist() == [-1]


def test_the_device_is_that_of_the_kernel():
    launches = launches_of(device_id=[-1, 0, -1, 0, 1])
    add_devices(launches, np.array([1, -1, 0, 3, 4]), np.array([1, 1, 1, 1, -1]))
    # Of the second no kernel is known; the fourth's stream has the same handle on both devices.
    assert launches["device_id"].tolist() == [1, 1, -1, 1, 1]
