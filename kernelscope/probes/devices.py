"""What the driver says of a device, for every probe: through ctypes, for each framework has bindings of its own."""

from __future__ import annotations

import ctypes
from typing import Any

from kernelscope.probes.sink import Sink

#: Columns of `devices`, and the number of the attribute that the driver answers.
_ATTRIBUTES = {
    "multiprocessors": 16,
    "max_threads_per_multiprocessor": 39,
    "max_blocks_per_multiprocessor": 106,
    "registers_per_multiprocessor": 82,
    "shared_per_multiprocessor_bytes": 81,
    "reserved_shared_bytes": 111,
}
_MAJOR, _MINOR = 75, 76


def device(sink: Sink, ordinal: int) -> int:
    """Return the id of a device, by its ordinal; asked of the driver at first sight. CUDA has been started before."""
    return sink.devices.intern(("device", ordinal), lambda: {"ordinal": ordinal, **_facts(ordinal)})


def _facts(ordinal: int) -> dict[str, Any]:
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(handle), ordinal):
        return {}
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), handle)
    major, minor = (_attribute(driver, handle, number) for number in (_MAJOR, _MINOR))
    return {
        "name": name.value.decode("utf-8", "replace") or None,
        "compute_capability": None if major is None else f"{major}.{minor}",
        **{column: _attribute(driver, handle, number) for column, number in _ATTRIBUTES.items()},
    }


def _attribute(driver: Any, handle: ctypes.c_int, number: int) -> int | None:
    value = ctypes.c_int()
    # A driver that is older than the attribute does not know it.
    return None if driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle) else value.value
