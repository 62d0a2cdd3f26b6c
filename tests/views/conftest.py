"""Recordings made by hand, for the renderers' tests."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import MS, US, Script, many_launches


@pytest.fixture
def script() -> type[Script]:
    return Script


@pytest.fixture
def many() -> Any:
    return many_launches


@pytest.fixture
def story(script: type[Script]) -> Any:
    """A cell of two kernels, five launches and two compiles."""

    def make(**metadata: Any) -> Script:
        made = script(**metadata)
        made.cell(wall_ns=400 * MS, execution_count=7, name="sweep")
        axpy, total = made.kernel("axpy"), made.kernel("block_sum", lineno=20)
        made.specialization(axpy, regs=18, static_shared_bytes=0)
        made.specialization(axpy, "(array(float64, 1d, C),)", regs=22, static_shared_bytes=0)
        made.specialization(total, origin="before")
        made.configuration()
        made.configuration((16,), (256,))
        made.occupancy(0, 0, 1.0)
        made.compilation(axpy, 200 * MS, specialization_id=0, launch_id=0, cell_id=0)
        made.launch(axpy, (3_000, 200 * MS, 4_000, 2_000, 1_000), 0)
        made.compilation(axpy, 100 * MS, specialization_id=1, launch_id=1, cell_id=0,
                         signature="(array(float64, 1d, C),)")
        made.launch(axpy, (3_000, 100 * MS, 4_000, 2_000, 1_000), 1)
        for _ in range(2):
            made.launch(axpy)
        made.launch(total, specialization=2, configuration=1)
        made.health(message="numba-cuda 0.30.4", cost_ns=600.0, total_cost_ns=3_000.0)
        return made

    return make


@pytest.fixture
def long(script: type[Script]) -> Any:
    """Names, signatures and messages that are much too long."""

    def make() -> Script:
        made = script(name="recording_" * 20, dry_run=True)
        made.cell(execution_count=1_234, name="a long name " * 17)
        name = f"outer.<locals>.{'long_kernel_name_' * 12}_the_end".replace("<", "[").replace(">", "]")
        made.kernel(name, filename=f"/home/u/{'deep/' * 40}{'file' * 30}.py", module="package." * 25)
        record = "Record(a[type=int32;offset=0],b[type=nestedarray(float64, (2,));offset=4];20;False)"
        made.specialization(0, f"({', '.join([record] * 4)})")
        made.configuration((65_535, 65_535, 64), (16, 8, 8), sharedmem_bytes=232_448, stream=2**63 - 1)
        made.compilation(0, 300 * MS, signature=f"({', '.join([record] * 4)})", specialization_id=0)
        made.launch()
        made.health("a_probe_" * 8, "degraded", message="message " * 30, fix="fix " * 30)
        return made

    return make


@pytest.fixture
def hostile(script: type[Script]) -> Any:
    """One and the same hostile name wherever user code, a file or an error can put a name."""

    def make(name: str) -> Script:
        made = script(name=name)
        made.cell(execution_count=1, name=name, source=name, status="error", error=name)
        made.device(name=name)
        made.kernel(name, module=name, filename=name, options=name)
        made.specialization(0, f"({name}, int64)", launch_config=name, launch_config_sensitive=True)
        made.configuration()
        made.compilation(0, 300 * MS, signature=f"({name}, int64)", outcome="failed", error=name, trigger=name)
        made.compilation(0, 300 * MS, signature=f"(array({name}, 1d, C),)")
        for number, row in enumerate(({"file": "In[1]", "cell_id": 0}, {"file": name, "function": name, "text": name})):
            made._add("lines", "line_id", {"line": 1, **row})
            made.launch(error=name, line_id=number)
        made.range(name, domain=name, category=name, color=name, payload=name)
        made.health(name, "degraded", message=name, fix=name)
        return made

    return make


@pytest.fixture
def gpu_story(script: type[Script]) -> Any:
    """A cell of 10 ms with kernels of launches, of a graph and of another library, copies, and what went wrong."""

    def make() -> Script:
        made = script(gpu={"source": "cupti"})
        made.device(name="GPU")
        made.cell(wall_ns=10 * MS, execution_count=7)
        begin = made.now
        made.kernel("axpy")
        made.specialization()
        made.configuration()
        for at, queue in ((1 * MS, 20 * US), (2 * MS, 60 * US), (3 * MS, None), (4 * MS, None)):
            made.now = begin + at
            launch = made.launch()
            if queue is not None:
                start = made.rows["launches"][launch]["submit_end_ns"] + queue
                made.activity(launch_id=launch, start_ns=start, duration_ns=150 * US)
        made.range("step", start_ns=begin + MS, end_ns=begin + MS + 500)
        for at in (5_000, 5_020):
            made.activity(cupti_graph_id=1, correlation_id=500, specialization_id=0, start_ns=begin + at * US,
                          duration_ns=10 * US)
        made.activity(name="cupy_add", start_ns=begin + 6 * MS, duration_ns=900 * US)
        made.activity("memcpy", "HtoD", 50 * US, start_ns=begin + 6 * MS, size_bytes=1 << 19, memory="pinned to device")
        made.activity("memcpy", "HtoD", 100 * US, start_ns=begin, size_bytes=1 << 19, memory="pageable to device")
        made.activity("memset", "memset", start_ns=begin + 8 * MS, end_ns=begin)
        made.activity("memset", "memset", start_ns=None)
        made.health("cupti", clock_error_ns=850.0)
        return made

    return make
