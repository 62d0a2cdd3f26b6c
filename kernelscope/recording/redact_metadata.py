"""What may be shown of a recording's metadata: versions and what was on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

#: What stands where a text that cannot be null is left out.
WITHHELD = "withheld"

_DETAILS = ("launch", "phases")
_RECORDER = {"backend": ("native", "python"), "mode": ("grow", "ring", "stop"), "capacity": (), "kept": (), "lost": ()}
#: The probes' names, which are words of KernelScope.
PROBES = ("recorder", "numba-cuda", "simulator", "cupti", "nvtx", "events", "scripted", "cuda.core", "cuda.compute",
          "numba-cuda-mlir", "quadrants")
_PACKAGES = ("numba-cuda", "numba", "cuda-core", "cuda-bindings", "numpy", "nvtx", "ipython", "cupti-python",
             "numba-cuda-mlir", "cuda-cccl", "quadrants", "pandas", "pyarrow", "kernelscope")
_VERSION = r"\d+(?:\.\d+){0,4}(?:(?:a|b|rc|\.dev|\.post)\d+)?"


def shown_metadata(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions and what was on; keys that are not known here are left out."""
    kept: dict[str, Any] = {"name": "redacted", "redacted": True}
    for key in ("schema_version", "cpus", "merged", "dry_run", "simulator"):
        if isinstance(held.get(key), bool | int):
            kept[key] = held[key]
    for key, pattern in (("created", r"[\d:T+Z.-]+"), ("detail", "|".join(_DETAILS)), ("python", _VERSION),
                         ("driver_version", _VERSION), ("platform", r"(Linux|Windows|macOS)(?:-.*)?")):
        found = re.fullmatch(pattern, held[key], re.DOTALL) if isinstance(held.get(key), str) else None
        if found:  # of the platform, the build's name can be a machine's own
            kept[key] = found[1] if found.lastindex else found[0]
    if isinstance(held.get("probes"), list):
        kept["probes"] = [each for each in held["probes"] if each in PROBES]
    kept["packages"] = {name: version for name, version in mapping(held.get("packages")).items()
                        if name in _PACKAGES and isinstance(version, str) and re.fullmatch(_VERSION, version)}
    clock = mapping(held.get("clock"))
    kept["clock"] = {key: clock[key] for key in ("host_ns", "wall_ns", "error_ns") if is_number(clock.get(key))}
    if gpu := mapping(held.get("gpu")):
        kept["gpu"] = {"source": gpu.get("source") if gpu.get("source") in PROBES else WITHHELD}
        if is_number(gpu.get("clock_error_ns")):
            kept["gpu"]["clock_error_ns"] = gpu["clock_error_ns"]
    if known := {name: mapping(facts).get("kind") for name, facts in mapping(held.get("own_cost")).items()}:
        kept["own_cost"] = {name: {"kind": kind} for name, kind in known.items() if name in PROBES
                            and re.fullmatch("(partly )?calibrated|estimated", str(kind))}
    recorder = {key: value for key, value in mapping(held.get("recorder")).items()
                if key in _RECORDER and (value in _RECORDER[key] or is_number(value))}
    return kept | ({"recorder": recorder} if recorder else {})


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def is_number(value: Any) -> bool:
    """Whether it is a number or a truth value."""
    return isinstance(value, int | float)
