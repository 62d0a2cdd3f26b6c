"""Recordings with measured kernels, from the numbers that Nsight Compute gave of them on an H200."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handmade import Script

from kernelscope.recording.model import Recording

NCU = json.loads((Path(__file__).parent / "ncu_h200.json").read_text())
#: The specializations in the order in which they were measured, twice.
_ONE, _TWO = "array(float32, 1d, C)", "array(float32, 2d, C)"
SPECIALIZATIONS = (
    ("copy", "x, y", f"({_ONE}, {_ONE})", 12, 0), ("axpy", "a, x, y", f"(float32, {_ONE}, {_ONE})", 14, 0),
    ("axpy", "a, x, y", f"(float64, {_ONE}, {_ONE})", 14, 0),
    ("naive_product", "a, b, c", f"({_TWO}, {_TWO}, {_TWO})", 28, 1),
    ("tiled_product", "a, b, c", f"({_TWO}, {_TWO}, {_TWO})", 32, 1),
    ("reduction", "x, total", f"({_ONE}, {_ONE})", 28, 2), ("naive_transpose", "x, y", f"({_TWO}, {_TWO})", 20, 3),
    ("transpose", "x, y", f"({_TWO}, {_TWO})", 24, 3), ("padded_transpose", "x, y", f"({_TWO}, {_TWO})", 24, 3),
)
CONFIGURATIONS = (((65_536,), (256,), 8), ((32, 32), (32, 32), 2), ((1_024,), (256,), 8), ((128, 128), (32, 32), 2))
#: A bandwidth that no kernel exceeds; it was not measured.
COPY = 3.64e12


def ncu(specialization: int, launch: int = 0) -> dict[str, float]:
    """Return what Nsight Compute gave of a launch."""
    at = specialization + launch * len(SPECIALIZATIONS)
    return {name: values[at] for name, values in NCU["metrics"].items() if values[at] is not None}


def script(copy: float | None = COPY, only: tuple[int, ...] = tuple(range(9)), launches: int = 2, name: str = "h200",
           **changed: Any) -> Script:
    """Write a recording of the nine specializations, or of some; `changed` are metrics in place of the measured."""
    made = Script(name=name)
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made.cell(execution_count=3)
    made.device(name="NVIDIA H200", compute_capability="9.0", multiprocessors=132, max_threads_per_multiprocessor=2048,
                max_blocks_per_multiprocessor=32, registers_per_multiprocessor=65_536,
                shared_per_multiprocessor_bytes=233_472, reserved_shared_bytes=1_024, copy_bytes_per_second=copy)
    for grid, block, _ in CONFIGURATIONS:
        made.configuration(grid, block)
    kernels: dict[str, int] = {}
    for at, (kernel, arguments, signature, regs, configuration) in enumerate(SPECIALIZATIONS):
        if kernel not in kernels:
            kernels[kernel] = made.kernel(kernel, arguments=arguments, lineno=10 * at + 7)
        made.specialization(kernels[kernel], signature, regs=regs, static_shared_bytes=0, local_bytes=0,
                            spill_store_bytes=0, spill_load_bytes=0)
        made._add("occupancies", None, {
            "specialization_id": at, "configuration_id": configuration, "device_id": 0, "occupancy": 1.0,
            "active_blocks_per_multiprocessor": CONFIGURATIONS[configuration][2]})
    for launch in range(launches):
        for at in only:
            kernel, *_, configuration = SPECIALIZATIONS[at]
            number = made.launch(kernels[kernel], specialization=at, configuration=configuration, device_id=0)
            made.measurement(at, ncu(at, launch) | changed, configuration_id=configuration, launch_id=number,
                             number=launch, cell_id=0)
    return made


def recording(**how: Any) -> Recording:
    """Return a recording of `script`."""
    return script(**how).recording()
