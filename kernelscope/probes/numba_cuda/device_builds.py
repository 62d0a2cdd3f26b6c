"""Code that a launch makes for a device of another compute capability than the specialization was compiled for.

numba-cuda compiles for the device that is current. A launch on another one takes the same specialization, and links it
(and runs NVVM) once more while it prepares the launch, outside every compile: such a build is a compile of its own.
"""

from __future__ import annotations

import json
from typing import Any

from kernelscope.probes.launch_log import ThreadState
from kernelscope.probes.numba_cuda.facts import Facts, is_sensitive
from kernelscope.probes.sink import Sink


class DeviceBuilds:
    """Makes a row of ``compilations`` of each such build.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    facts : Facts
        Interns what the row refers to.
    modules : object
        numba-cuda's modules: ``devices``, ``dispatcher``.
    """

    def __init__(self, sink: Sink, facts: Facts, modules: Any) -> None:
        self._sink = sink
        self._facts = facts
        self._modules = modules
        # Rows whose module is still to be loaded, by thread.
        self._linked: dict[int, tuple[int, dict[str, Any], Any]] = {}

    def begin(self, library: Any, state: ThreadState, start: int) -> dict[str, Any] | None:
        """Return the row of a link that a launch has just begun, or None where it is another thing."""
        kernel, config = state.kernel, state.launch_config
        if config is None or state.compilation is not None or not library._cubin_cache:
            return None
        if not isinstance(kernel, self._modules.dispatcher._Kernel) or kernel._codelibrary is not library:
            return None
        device = self._modules.devices.get_context().device
        built = [".".join(str(part) for part in capability[:2]) for capability in library._cubin_cache]
        wanted = ".".join(str(part) for part in device.compute_capability[:2])
        if wanted in built:
            return None  # it is there already
        dispatcher = config.dispatcher
        row: dict[str, Any] = {
            "start_ns": start, "outcome": "failed", "thread_id": state.thread_id, "trigger": "device",
            "signature": self._facts.signature_text(kernel.argument_types),
            "dispatcher_id": self._facts.dispatcher(dispatcher),
            "specialization_id": self._facts.specialization(dispatcher, kernel),
            "configuration_id": self._facts.configuration(config),
            "launch_config_sensitive": is_sensitive(dispatcher, kernel),
            "attributes": json.dumps({"device": {"ordinal": device.id, "compute_capability": wanted,
                                                 "compiled_for": built}}),
            "_passes": [],
        }
        return row

    def end(self, row: dict[str, Any], state: ThreadState, error: BaseException | None) -> None:
        """Keep the row: it is linked, and the module load that follows will be added to it."""
        row["end_ns"] = self._sink.clock()
        passes = row.pop("_passes")
        if error is None:
            row["outcome"] = "compiled"
        else:
            row["error"] = f"{type(error).__name__}: {str(error).strip().split(chr(10), 1)[0][:300]}".removesuffix(": ")
        with self._sink.lock:
            number = len(self._sink.compilations)
            self._sink.compilations.append(row)
            for entry in passes:
                entry.update(compilation_id=number, specialization_id=row["specialization_id"])
            self._sink.passes.extend(passes)
        self._sink.flush()
        if error is None:
            self._linked[state.thread_id] = number, row, state.launch_config

    def loaded(self, entry: dict[str, Any], state: ThreadState) -> bool:
        """Add a module load to the build that this thread's launch has just made; return whether there is one."""
        number, row, config = self._linked.pop(state.thread_id, (0, None, None))
        if row is None or config is not state.launch_config:
            return False
        row["end_ns"] = entry["start_ns"] + entry["duration_ns"]
        self._sink.passes.append({**entry, "compilation_id": number, "specialization_id": row["specialization_id"]})
        return True
