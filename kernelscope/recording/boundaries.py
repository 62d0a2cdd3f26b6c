"""What a launch's probe could not see and the GPU's records say: when the driver was called, and on which device."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.schema import UNKNOWN


def add_boundaries(launches: dict[str, Any], launch_of_call: np.ndarray, calls: dict[str, np.ndarray]) -> None:
    """Give launches of which only the submit phase's end was seen the times of their driver call.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns; ``submit_start_ns`` and ``submit_end_ns`` are replaced.
    launch_of_call : ndarray of int64
        The launch that each call submitted, -1 for none.
    calls : dict of str to ndarray
        Driver and runtime calls: ``start_ns`` and ``end_ns``.
    """
    begun, ended = np.asarray(launches["submit_start_ns"]), np.asarray(launches["submit_end_ns"])
    made = np.flatnonzero(launch_of_call != UNKNOWN)
    of = launch_of_call[made]
    wanted = (begun[of] == UNKNOWN) & (ended[of] != UNKNOWN)
    made, of = made[wanted], of[wanted]
    if not len(of):
        return
    first, last = np.asarray(launches["start_ns"])[of], ended[of]
    begun, ended = begun.copy(), ended.copy()
    # Both clocks are one to within a microsecond: a call does not begin before its launch.
    begun[of] = np.clip(calls["start_ns"][made], first, last)
    ended[of] = np.clip(calls["end_ns"][made], begun[of], last)
    launches["submit_start_ns"], launches["submit_end_ns"] = begun, ended


def add_devices(launches: dict[str, Any], launch: np.ndarray, devices: np.ndarray) -> None:
    """Give launches the device of their kernel.

    What a probe says is the device that was current when it first saw a kernel and its stream. The default streams have
    one handle, and cuda.core one object, for all devices.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns; ``device_id`` is replaced.
    launch : ndarray of int64
        The launch of each activity, -1 for none.
    devices : ndarray of int
        The device's row for each activity.
    """
    known = np.asarray(launches["device_id"])
    rows = np.flatnonzero((launch != UNKNOWN) & (np.asarray(devices) != UNKNOWN))
    rows = rows[known[launch[rows]] != devices[rows]]
    if len(rows):
        known = known.copy()
        known[launch[rows]] = devices[rows]
        launches["device_id"] = known
