"""What this machine has, asked in processes of their own: starting CUDA here could not be undone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kernelscope

_TIMEOUT_S = 120

# NVIDIA's driver, by its C interface: this works where no CUDA package is installed.
_GPU = """
import ctypes, json
def ask():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"problem": "no CUDA driver is installed: " + str(error)}
    if hasattr(cuda, "kernelscope_dryrun_interface"):
        return {"problem": "the driver that is found is the dry run's"}
    code = cuda.cuInit(0)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        return {"problem": "the CUDA driver does not start: " + (text.value or b"?").decode() + f" ({code})"}
    number, version = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(number))
    devices = []
    for ordinal in range(number.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        cuda.cuDeviceGetName(name, 256, device)
        capability = []
        for attribute in (75, 76):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            capability.append(str(value.value))
        devices.append({"name": name.value.decode(), "compute_capability": ".".join(capability)})
    found = {"driver": f"{version.value // 1000}.{version.value % 1000 // 10}", "devices": devices}
    return found if devices else {**found, "problem": "the CUDA driver sees no GPU"}
print(json.dumps(ask()))
"""


def gpu() -> dict[str, Any]:
    """Return ``driver`` and ``devices`` of NVIDIA's CUDA driver, and as ``problem`` why there is no GPU to use."""
    found = ask(_GPU, {"KERNELSCOPE_DRYRUN": "0"})
    return {"problem": None, "driver": None, "devices": [], **found}


def ask(code: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run `code` in a new interpreter and return the JSON object that it prints last; a failure is a ``problem``."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", code], env=child_environment(environment), capture_output=True, text=True,
            timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_TIMEOUT_S} s"}
    except OSError as error:
        return {"problem": f"{sys.executable} does not run: {error}"}
    try:
        found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.returncode}"]
        return {"problem": re.sub(r"^[\w.]+\.(?=\w+: )", "", last[0])}
    return found


def child_environment(changes: dict[str, str]) -> dict[str, str]:
    """Return this process' environment with `changes`, in which a child finds this very kernelscope."""
    home = str(Path(kernelscope.__file__).resolve().parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **changes}
