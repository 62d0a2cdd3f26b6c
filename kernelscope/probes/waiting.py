"""Waiting for the devices that a framework has launched on, without harm to a capture that is under way."""

from __future__ import annotations

from typing import Any

from kernelscope.probes.sink import Sink


def synchronize(sink: Sink, modules: Any) -> str | None:
    """Wait for every device among the sink's rows; return why that could not be done, or None.

    Parameters
    ----------
    sink : Sink
        What was launched on, and with which streams.
    modules : object
        The framework's ``devices`` and ``driver``: modules of numba-cuda, or of one that has taken them over.
    """
    if sink.is_capturing():
        return "a stream is capturing a graph: synchronizing would break the capture"
    capturing = _capturing_stream(sink, modules.driver.binding)
    if capturing is not None:
        return f"stream {capturing:#x} is capturing a graph: synchronizing would break the capture"
    try:
        for row in sink.devices.rows:
            if modules.devices.gpus[row["ordinal"]].primary_context is None:
                continue  # closed, and so finished; never start CUDA for it
            with modules.devices.gpus[row["ordinal"]]:
                modules.driver.driver.cuCtxSynchronize()
    except Exception as error:
        # A kernel's own failure shows up here: the recording tells, and the user's next call raises it.
        return f"{type(error).__name__}: {error}"
    return None


def _capturing_stream(sink: Sink, binding: Any) -> int | None:
    """Handle of a stream of this recording that is in the middle of a graph capture."""
    for stream in sink.streams():
        error, status = binding.cuStreamIsCapturing(binding.CUstream(stream))
        if not int(error) and int(status):
            return stream
    return None
