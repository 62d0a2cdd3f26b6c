"""The anatomy of a launch on a real GPU: its parts add up to it, and the driver call is one of the large ones."""

from __future__ import annotations

import pytest

from kernelscope.studies.breakdown import DEFAULT_CASES, LAUNCH, UNATTRIBUTED, anatomy
from kernelscope.studies.cases import Case

pytestmark = pytest.mark.gpu

SETUP = """\
@cuda.jit
def k(a, n, pair):
    pass

a = np.zeros(256, np.float32)
held = k[1, 1]
"""


@pytest.mark.timeout(240)
def test_the_parts_of_a_launch_add_up_and_two_of_the_same_do_not_differ() -> None:
    result = anatomy({"one": "current", "again": "current"}, DEFAULT_CASES[0], processes=6, repeats=3, progress=False)
    assert not result.is_dry_run
    assert result.measured.gpu["name"]
    for target in ("one", "again"):
        parts = result.of(target, DEFAULT_CASES[0].name)
        times = {key: part.us for key, part in parts.items() if part.us is not None}
        assert {"configure", "dispatch", "set-up", "argument 0", "argument 3", "configuration object", "submit",
                "finish"} <= set(times)
        # A reading of the clock in the middle of a launch costs more where caches are cold; in sum, little.
        assert abs(times[UNATTRIBUTED]) < 0.1 * times[LAUNCH], times
        assert times["submit"] > times["configure"]
        assert times["submit"] > 0.5
    worst = max(abs(each.difference_us) for each in result.differences if each.label != LAUNCH)
    assert worst < 1.0, result


def test_host_arrays_scalars_and_tuples_are_taken_apart() -> None:
    case = Case("mixed", "held(a, 3, (1.0, 2))", SETUP)
    result = anatomy(case=case, processes=2, repeats=1, progress=False)
    times = {key: part.us for key, part in result.of("current", "mixed").items() if part.us is not None}
    # The copy to the device is in the host array's preparation, the copy back in finish.
    assert times["argument 0"] > 3 * times["argument 1"] > 0
    assert times["finish"] > times["argument 1"]


def test_a_launch_into_a_capture_is_taken_apart() -> None:
    setup = """
from cuda.core import Device
@cuda.jit
def k(a):
    pass
a = cuda.device_array(1, np.float32)
k[1, 1](a)
device = Device()
device.set_current()
"""
    case = Case("capture", "held(a)", setup, before="""
builder = device.create_graph_builder()
builder.begin_building()
held = k[1, 1, builder.stream]
""", after="builder.end_building()", most_loops=50)
    result = anatomy(case=case, processes=2, repeats=1, progress=False)
    parts = result.of("current", "capture")
    assert parts["submit"].us is not None and parts["submit"].us > 0
