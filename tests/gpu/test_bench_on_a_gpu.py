"""A study's benchmark process on a real GPU: what it is, how long a launch takes, and that no queue is timed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_process import Bench, empty_kernel

pytestmark = pytest.mark.gpu

#: Each launch keeps the GPU busy for some 100 µs: it cannot keep up with the host.
SLOW = {
    "name": "slow kernel",
    "setup": "@cuda.jit\ndef kernel():\n    i = 0\n    while i < 100:\n        cuda.nanosleep(1000)\n        i += 1\n"
             "held = kernel[1, 1]\n",
    "statement": "held()",
}
CAPTURED = {
    "name": "capture",
    "setup": empty_kernel(1)["setup"] + "from cuda.core import Device\n",
    "before": "builder = Device().create_graph_builder()\nbuilder.begin_building()\nheld = kernel[1, 1, builder]",
    "statement": "held(a0)",
    "after": "builder.end_building()\nbuilder.close()",
    "most_loops": 200,
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_hello_knows_the_gpu(bench: Bench) -> None:
    hello = bench.hello()
    assert hello["ok"], hello
    assert hello["is_dry_run"] is False
    gpu = hello["gpu"]
    assert "NVIDIA" in gpu["name"]
    assert int(gpu["driver"].split(".")[0]) > 500
    assert int(gpu["cuda"].split(".")[0]) >= 12
    assert 100 < gpu["clocks_mhz"]["sm"] <= gpu["clocks_mhz"]["sm_max"] < 5000


def test_a_launch_takes_microseconds_and_arguments_cost(bench: Bench) -> None:
    bench.hello()
    took = {}
    for arguments in (0, 4):
        warm = bench.must("prepare", case=empty_kernel(arguments))
        assert warm["stable"]
        assert warm["loops"] > 100
        batches = [bench.must("batch", case=f"{arguments} args", loops=warm["loops"]) for _ in range(7)]
        took[arguments] = statistics.median(batch["host_ns"] / warm["loops"] for batch in batches)
    assert 1_000 < took[0] < took[4] < 200_000


def test_a_full_queue_is_not_what_is_timed(bench: Bench) -> None:
    bench.hello()
    bench.must("prepare", case=empty_kernel())
    warm = bench.must("prepare", case=SLOW)
    assert warm["sync_share"] > 1
    batch = bench.must("batch", case="slow kernel", loops=warm["loops"])
    # A launch that waited for the device would take as long as the kernel.
    assert batch["host_ns"] / warm["loops"] < 50_000
    assert batch["sync_ns"] > batch["host_ns"]


def test_a_capture_survives_its_batch(bench: Bench) -> None:
    bench.hello()
    warm = bench.must("prepare", case=CAPTURED)
    assert warm["loops"] <= 200
    for _ in range(3):
        assert bench.must("batch", case="capture", loops=warm["loops"])["host_ns"] > 0
