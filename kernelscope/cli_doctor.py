"""``kernelscope doctor``: what is installed, what works, and what is missing with the command that brings it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope import _native, cli_calibrate, nvdisasm
from kernelscope.cli_machine import ask, gpu

_NEEDED = ("numba-cuda", "cuda-core", "cuda-bindings", "numpy", "pyarrow", "pyelftools", "pandas", "ipython",
           "ipywidgets", "anywidget", "plotly", "nvtx")

#: Packages that something can do without, what that is, and the command.
_OPTIONAL = {
    "ipykernel": ("running notebooks", "pip install 'kernelscope[notebook]'"),
    "nbclient": ("kernelscope demo", "pip install 'kernelscope[notebook]'"),
    "nbconvert": ("kernelscope demo", "pip install 'kernelscope[notebook]'"),
}

# CUDA's libraries by the names of cuda.pathfinder, and what they are for.
_LIBRARIES = {"nvvm": "compiles kernels", "nvrtc": "compiles CUDA C++", "nvJitLink": "links kernels",
              "cupti": "what the GPU itself did"}
_GET_LIBRARIES = "pip install 'kernelscope[cu13]', or [cu12] where the driver is of CUDA 12"
_COMPILERS = ("cc", "gcc", "clang")

_FIND_LIBRARIES = f"""
import json
from cuda import pathfinder
found = {{}}
for name in {tuple(_LIBRARIES)!r}:
    try:
        found[name] = pathfinder.load_nvidia_dynamic_lib(name).abs_path or "loaded"
    except Exception as error:
        found[name] = None
print(json.dumps({{"found": found}}))
"""

# Advice on small grids, which the trial's is, is none here.
_QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}

# One launch, recorded: if this works, everything on the way does. The last line is all that is read.
_TRIAL = """
import json, os, sys
import kernelscope
kernelscope.dryrun.enable_from_environment()
out = {"dry_run": kernelscope.dryrun.status()._asdict()} if kernelscope.dryrun.is_enabled() else {}
try:
    from numba import cuda
    import numpy
    @cuda.jit
    def trial(array):
        array[0] = 1
    array = cuda.to_device(numpy.zeros(1, dtype=numpy.float32))
    with kernelscope.record("trial") as recorder:
        trial[1, 1](array)
    recording = recorder.recording
    rows = recording.rows("launches")
    out["launches"] = len(rows)
    out["simulator"] = recording.is_simulated
    out["probes"] = [{key: row[key] for key in ("probe", "status", "message", "fix")}
                     for row in recording.rows("health")]
    known = {row["probe"] for row in out["probes"]}
    out["probes"] += [{"probe": name, "status": "ok", "message": None, "fix": None}
                      for name in recording.metadata["probes"] if name not in known]
    if not rows:
        out["problem"] = "a launch was made and not seen"
except Exception as error:
    out["problem"] = " ".join(f"{type(error).__name__}: {error}".split())
print()
print(json.dumps(out))
"""


def main(arguments: argparse.Namespace) -> int:
    """Examine, print, and return 0 if recording is possible; or calibrate, and print what was measured."""
    if arguments.calibrate:
        return cli_calibrate.main(arguments)
    found = examine()
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(lines(found)))
    return 0 if found["can_record"] else 1


def examine() -> dict[str, Any]:
    """Return everything that the doctor knows, as plain JSON values."""
    packages = {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    device = gpu()
    has_gpu = not device["problem"]
    real = ask(_TRIAL, {"KERNELSCOPE_DRYRUN": "0", **_QUIET}) if has_gpu else None
    dry = ask(_TRIAL, {"KERNELSCOPE_DRYRUN": "1", "NUMBA_ENABLE_CUDASIM": "0", **_QUIET})
    best = real if real is not None and "problem" not in real else dry
    libraries: dict[str, str | None] = ask(_FIND_LIBRARIES, {}).get("found", dict.fromkeys(_LIBRARIES))
    return {
        "kernelscope": kernelscope.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "recorder": _recorder(),
        "gpu": {**device, "trial": real},
        "dry_run": dry,
        "simulator": os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
        "libraries": libraries,
        "nvdisasm": str(nvdisasm.find() or "") or None,
        "probes": best.get("probes", []),
        "own_cost": cli_calibrate.examine([None, *(each["name"] for each in device["devices"])]),
        "missing": _missing(packages, libraries, nvdisasm.find() is not None),
        "can_record": "problem" not in best,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the findings as lines of text."""
    shown = [f"KernelScope {found['kernelscope']}, Python {found['python']}, {found['platform']}", ""]
    shown += _section("GPU", _gpu_lines(found["gpu"]))
    shown += _section("dry run", _dry_run_lines(found["dry_run"]))
    if found["simulator"]:
        shown += _section("simulator", ["NUMBA_ENABLE_CUDASIM=1: times say nothing about a GPU"])
    shown += _section("recorder", _recorder_lines(found["recorder"]))
    probes = [f"{row['probe']}: {row['status']}" + (f", {row['message']}" if row["message"] else "")
              + (f"; fix: {row['fix']}" if row["fix"] else "") for row in found["probes"]]
    shown += _section("probes", probes or ["not tried, since no launch worked"])
    shown += _section("own cost", cli_calibrate.lines(found["own_cost"]))
    used = {**_LIBRARIES, "nvdisasm": "shows machine code"}
    shown += _section("CUDA", [f"{name} ({used[name]}): {path or 'not found'}"
                               for name, path in {**found["libraries"], "nvdisasm": found["nvdisasm"]}.items()])
    installed = [f"{name} {version}" for name, version in found["packages"].items() if version]
    shown += _section("packages", [", ".join(installed[start:start + 5]) for start in range(0, len(installed), 5)])
    shown += _section("missing", [f"{row['what']}: {row['command']}" for row in found["missing"]] or ["nothing"])
    return [*shown, "", _verdict(found)]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _missing(packages: dict[str, str | None], libraries: dict[str, str | None],
             disassembles: bool) -> list[dict[str, str]]:
    rows = [{"what": name, "command": f"pip install {name}"} for name in _NEEDED if packages[name] is None]
    rows += [{"what": f"{name} (for {use})", "command": command}
             for name, (use, command) in _OPTIONAL.items() if packages[name] is None]
    absent = [name for name, path in libraries.items() if path is None]
    if "cupti" in absent:
        absent.remove("cupti")
        rows.append({"what": "CUPTI (for what the GPU itself did; its licence is NVIDIA's own)",
                     "command": "pip install 'kernelscope[cupti]'"})
    if absent:
        rows.append({"what": f"CUDA's {', '.join(absent)}", "command": _GET_LIBRARIES})
    if not disassembles:
        rows.append({"what": "nvdisasm (for machine code as SASS; its licence is NVIDIA's own)",
                     "command": "pip install 'kernelscope[sass]'"})
    if not any(shutil.which(name) for name in _COMPILERS):
        rows.append({"what": "a C compiler (for the dry run, and to compile the native recorder)",
                     "command": "apt-get install gcc libc6-dev"})
    if _native.core is None:
        rows.append({"what": "the native recorder (recording costs less with it)", "command": _native.command()})
    return rows


def _recorder() -> dict[str, str | None]:
    """Where the native recorder is and what compiled it, or the problem with it; and what the environment asks for."""
    path = _native.core.__file__ if _native.core is not None else None
    return {
        "native": path,
        "compiler": _compiler(Path(path)) if path else None,
        "clock": _native.core.CLOCK if _native.core is not None else None,
        "old": _native.why_old(),
        "problem": _native.why_missing(),
        "asked": os.environ.get("KERNELSCOPE_RECORDER") or None,
    }


def _compiler(library: Path) -> str | None:
    """Return what compiled a library, as compilers write it into the section ``.comment``."""
    found = re.search(rb"(?:GCC: |[ -~]*clang version )[ -~]+", library.read_bytes())
    return found[0].decode() if found else None


def _recorder_lines(recorder: dict[str, str | None]) -> list[str]:
    if recorder["native"]:
        shown = [f"native: {recorder['native']}, compiled by {recorder['compiler'] or 'an unknown compiler'}"]
        if recorder["clock"] == "tsc":
            shown.append("its clock: the processor's counter (tsc), put right by the system's clock each millisecond")
        if recorder["old"]:
            shown.append(f"compile it anew: {recorder['old']}")
    else:
        shown = [f"in Python; the native one is missing: {recorder['problem']}"]
    if recorder["asked"]:
        shown.append(f"KERNELSCOPE_RECORDER={recorder['asked']}: recordings use that one")
    return shown


def _gpu_lines(device: dict[str, Any]) -> list[str]:
    if device["problem"]:
        return [f"none: {device['problem']}"]
    shown = [f"{each['name']}, compute capability {each['compute_capability']}" for each in device["devices"]]
    problem = (device["trial"] or {}).get("problem")
    outcome = f"a launch failed: {problem}" if problem else "a launch was recorded"
    return [*shown, f"CUDA driver {device['driver']}; {outcome}"]


def _dry_run_lines(dry: dict[str, Any]) -> list[str]:
    if dry.get("problem"):
        return [f"does not work: {dry['problem']}"]
    status = dry.get("dry_run", {})
    capabilities = ", ".join(".".join(str(part) for part in pair) for pair in status.get("compute_capabilities", []))
    return [f"works: a launch was recorded; compute capability {capabilities}, {status.get('library')}"]


def _verdict(found: dict[str, Any]) -> str:
    if not found["can_record"]:
        return "Recording is not possible here: see what is missing above."
    trial = found["gpu"]["trial"]
    if trial is not None and "problem" not in trial:
        return "Recording works here, on the GPU."
    return "Recording works here as a dry run: set KERNELSCOPE_DRYRUN=1, or use %kernelscope dryrun."


def _section(title: str, texts: list[str]) -> list[str]:
    return [f"{title if place == 0 else '':<10} {text}" for place, text in enumerate(texts)]
