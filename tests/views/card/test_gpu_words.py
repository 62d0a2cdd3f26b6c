from __future__ import annotations

from typing import Any

import pytest
from handmade import MS, US

from kernelscope.units import MISSING
from kernelscope.views.card import labels
from kernelscope.views.card.model import overview


def lines(made: Any) -> str:
    return "\n".join(labels.gpu_lines(overview(made.recording())))


def test_kernels_copies_graphs_and_others(gpu_story: Any) -> None:
    assert labels.gpu_lines(overview(gpu_story().recording())) == [
        "5 kernels ran for 1.22 ms in all, 244 µs each on average; launches queued for 40.0 µs (median), 59.6 µs "
        "(p99).",
        "HtoD: 1.0 MiB in 2 copies, 150 µs at 7.0 GB/s, 33 % hidden under kernels; 1 with pageable memory of the host.",
        "1 graph launch of 1 graph ran 2 kernels, 20.0 µs.",
        "Other: 1 kernel, 900 µs, launched by libraries that no probe records: cupy_add.",
        "2 launches have no kernel: captured into a graph, or not recorded.",
        "1 activity left out: the end is before the start, as after a jump of a clock.",
        "1 activity was not timed.",
        "GPU times are within 850 ns of the host clock.",
    ]


def test_the_headline(gpu_story: Any, script: Any) -> None:
    shown = overview(gpu_story().recording())
    assert shown.gpu is not None
    assert labels.busy_figure(shown.gpu) == ("13 %", "1.32 ms of 10.0 ms")
    made = gpu_story()
    made.device(ordinal=5)
    made.activity(device_id=1, start_ns=made.rows["cells"][0]["start_ns"], duration_ns=5 * MS)
    shown = overview(made.recording())
    assert shown.gpu is not None
    assert labels.busy_figure(shown.gpu) == ("13 % to 50 %", "2 devices, of 10.0 ms")
    assert labels.device_name(shown, 1) == "device 5"
    assert labels.device_name(shown, None) == "unknown device"
    assert "HtoD on device 0: 1.0 MiB" in lines(made)


def test_the_headline_of_nothing(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell()
    shown = overview(made.recording())
    assert shown.gpu is not None
    assert labels.busy_figure(shown.gpu) == ("0 %", "nothing was seen on it")
    assert not labels.is_shown(shown)


def test_events_perturb_and_tell_no_busy_time(script: Any) -> None:
    made = script(gpu={"source": "events"})
    made.cell()
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(execute_ns=500)
    made.launch()
    shown = overview(made.recording())
    assert shown.gpu is not None
    assert labels.busy_figure(shown.gpu) == (MISSING, "500 ns of kernels")
    assert labels.gpu_lines(shown) == [labels.EVENTS_NOTE, "1 kernel ran for 500 ns."]


@pytest.mark.parametrize(("launch", "text"), [
    ((2 * MS, 0, 0, 0, 0), "idle 90 % of the time: mostly while the host was outside of launches (7.00 ms of 9.00 ms)"),
    ((6 * MS, 0, 0, 0, 0), "idle 90 % of the time: mostly while the host was in dispatch (6.00 ms of 9.00 ms)"),
    ((0, 6 * MS, 0, 0, 0), "idle 90 % of the time: mostly while the host was compiling (6.00 ms of 9.00 ms)"),
    ((2 * MS, 0, 2 * MS, 2 * MS, 0),
     "idle 90 % of the time: mostly while the host was making launches (6.00 ms of 9.00 ms)"),
    ((2 * MS, 2 * MS, 0, 1 * MS, 0),
     "idle 90 % of the time: above all while the host was outside of launches (4.00 ms of 9.00 ms)"),
    ((9 * MS, 0, 0, 0, 0), "idle 90 % of the time: while the host was in dispatch"),
])
def test_why_the_gpu_idles(script: Any, launch: tuple[int, ...], text: str) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell(wall_ns=10 * MS)
    end = made.now + 10 * MS
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(phases=launch)
    made.activity(launch_id=0, start_ns=end - MS, duration_ns=MS)
    shown = overview(made.recording())
    assert shown.gpu is not None
    assert labels.idle_line(shown.gpu.idle[0], shown.gpu.busy[0].window_ns) == text


def test_many_other_kernels_are_named_in_part(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    for at in range(5):
        made.activity(name=f"k{at}", duration_ns=(9 - at) * US)
    assert lines(made).splitlines()[1] == (
        "Other: 5 kernels, 35.0 µs, launched by libraries that no probe records: k0, k1, k2 and 2 more names.")
    made = script(gpu={"source": "cupti"})
    made.activity(name="void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, 4> >(int)")
    assert lines(made).splitlines()[1].endswith("no probe records: void at::native::reduc…ceOp<float, 4> >(int).")
