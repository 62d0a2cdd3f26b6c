from __future__ import annotations

from typing import Any

from handmade import MS, US

from kernelscope.analysis.gpu import gpu_summary
from kernelscope.views.card.model import overview


def test_nothing_where_the_gpu_was_not_recorded(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch()
    assert gpu_summary(made.recording()) is None
    assert overview(made.recording()).gpu is None


def test_recorded_and_nothing_ran(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell()
    found = gpu_summary(made.recording())
    assert found is not None
    assert (found.kernels, found.busy, found.idle, found.execute, found.queue) == (0, (), (), None, None)
    assert (found.copies, found.others, found.clock_error_ns, found.by_cell) == ((), (), None, {})


def test_both_sides(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    made.device(ordinal=3)
    made.cell(wall_ns=MS)
    begin = made.now
    made.kernel()
    made.specialization()
    made.configuration()
    launch = made.launch()
    made.activity(launch_id=launch, start_ns=begin + 100 * US, duration_ns=200 * US)
    made.activity(name="cupy_add", start_ns=begin + 400 * US, duration_ns=50 * US)
    made.activity(start_ns=10, end_ns=5)
    made.health("cupti", clock_error_ns=700.0)
    made.health("numba-cuda")
    found = gpu_summary(made.recording())
    assert found is not None
    assert (found.source, found.devices, found.joined, found.clock_error_ns) == ("cupti", {0: "device 3"}, 1, 700.0)
    assert (found.busy[0].busy_ns, found.by_cell, found.reversed, found.untimed) == (250 * US, {0: 0.25}, 1, 0)
    assert found.idle[0].idle_ns == 750 * US
    assert [each.name for each in found.others] == ["cupy_add", "axpy"]
    assert list(found.of_dispatcher()) == [0]


def test_only_other_kernels_are_not_nothing(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell()
    assert overview(made.recording()).is_empty
    made.activity(name="cupy_add")
    assert not overview(made.recording()).is_empty


def test_metadata_from_a_file_may_say_anything(script: Any) -> None:
    for gpu in ("yes", {"source": 7}, [1], 1, {"source": None}):
        found = gpu_summary(script(gpu=gpu).recording())
        assert found is not None
        assert found.source == "cupti"
