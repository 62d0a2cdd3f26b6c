"""Frameworks are never imported by a recording, and are hooked when they are imported in the middle of one."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

import pytest

from kernelscope.commands.doctor import _FRAMEWORKS as IN_DOCTOR
from kernelscope.probes.base import Probe
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.session import _probes

#: The probes of frameworks: the module whose import they wait for, by name, and the package that has it.
PACKAGES = {
    "numba-cuda": "numba-cuda", "numba-cuda-mlir": "numba-cuda-mlir", "cuda.core": "cuda-core",
    "cuda.compute": "cuda-cccl", "quadrants": "quadrants", "triton": "triton", "torch.compile": "torch",
    "cupy": "cupy-cuda13x", "cutile": "cuda-tile", "jax": "jax", "warp": "warp-lang", "cute": "nvidia-cutlass-dsl",
}
#: What is no framework, or waits for none.
OTHERS = {"simulator", "nvtx", "dask", "gc", "cupti"}
PROBES = {probe.name: probe for probe in _probes(RecordingOptions(gpu="none"))[0] if isinstance(probe, Probe)}

CODE = """
import importlib, json, sys

modules = json.loads(sys.argv[1])
sys.path.insert(0, sys.argv[2])
# numba-cuda's own finder makes numba.cuda of its files, wherever numba is from.
sys.meta_path[:] = [each for each in sys.meta_path if "redirector" not in type(each).__module__]
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.session import _probes

found = {}
for probe in _probes(RecordingOptions(gpu="none"))[0]:
    if probe.name in modules:
        module = modules[probe.name]
        with Recorder(probes=[probe]) as recorder:
            before = module in sys.modules, probe.is_idle
            importlib.import_module(module)
            after = probe.is_idle
        statuses = [row["status"] for row in recorder.recording.rows("health") if row["probe"] == probe.name]
        found[probe.name] = before, after, statuses, [type(each).__name__ for each in sys.meta_path]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each probe makes of an empty module that has the name of its framework's, imported while it records."""
    folder = tmp_path_factory.mktemp("frameworks")
    modules = {name: PROBES[name].module or name for name in PACKAGES}
    for module in modules.values():
        for parts in itertools.accumulate(module.split("."), lambda *both: "/".join(both)):
            (folder / parts).mkdir(exist_ok=True)
            (folder / parts / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", CODE, json.dumps(modules), folder], capture_output=True, text=True,
                          check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_probe_is_here_and_in_the_doctor() -> None:
    assert PROBES.keys() - OTHERS == PACKAGES.keys()
    assert set(PACKAGES.values()) <= IN_DOCTOR.keys()


@pytest.mark.parametrize("name", PACKAGES)
def test_an_import_in_the_middle_is_seen_and_none_is_ours(name: str, found: dict[str, Any]) -> None:
    before, is_idle_after, statuses, finders = found[name]
    assert before == [False, True] and not is_idle_after
    assert statuses in (["unavailable"], ["degraded"])  # it has looked at the module, which is another than it knows
    assert "ImportFinder" not in finders
