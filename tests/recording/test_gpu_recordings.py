"""Recordings made on a real GPU open, are consistent and render where neither numba nor CUDA is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelscope
from kernelscope.analysis.compiles import explain

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
PATHS = sorted(FOLDER.glob("*.kscope"))
BOUNDARIES = ["start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_real_recording_is_consistent(path):
    assert path.stat().st_size < 1_000_000
    recording = kernelscope.load(path)
    assert not recording.is_dry_run
    assert not recording.is_simulated
    assert recording.devices.name.str.contains("NVIDIA").all()
    launches = recording.launches
    # Those of torch are made where no probe sees them.
    assert len(launches) + recording.activities.kind.eq("kernel").sum() >= 18
    made = launches[launches.error.isna()]
    # Not every probe sees all of them.
    times = made[BOUNDARIES].astype("Int64").bfill(axis=1).astype("int64").to_numpy()
    assert (np.diff(times, axis=1) >= 0).all()
    for _, rows in made.groupby("thread_id"):
        assert (rows.start_ns.to_numpy()[1:] >= rows.end_ns.to_numpy()[:-1]).all()
    assert (recording.specializations.regs > 0).all()
    assert recording.specializations.cubin_bytes.gt(0).all()
    assert set(launches.cache.dropna()) <= {"memory", "compiled", "wait", "disk"}
    compiled = recording.compilations[recording.compilations.outcome.eq("compiled")]
    # Some are for no launch, and some launches failed after them.
    assert set(made.launch_id[made.cache.eq("compiled")]) == set(compiled.launch_id.dropna()) & set(made.launch_id)
    assert recording.occupancies.occupancy.between(0, 1).all()
    assert recording.health.errors.isna().all()


def test_the_quickstart_recording_has_what_the_notebook_tells():
    recording = kernelscope.load(FOLDER / "quickstart.kscope")
    assert len(recording.cells) == 3
    assert len(recording.launches) == 157
    assert [row["reason_code"] for row in explain(recording).rows("compilations")] == [
        "first_use", "new_dtype", "new_layout", "first_use"]


BLOCKED = """
import sys

class Blocked:
    packages = ("numba", "cuda", "numba_cuda", "llvmlite", "plotly", "pandas")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.packages or name.startswith(
                ("kernelscope.recorder.recorder", "kernelscope.probes", "kernelscope.dryrun")):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import kernelscope

recordings = [kernelscope.load(path) for path in sys.argv[1:]]
def has_events(recording):
    return recording.arrow("launches").num_rows or recording.arrow("activities").num_rows

assert all(map(has_events, recordings))
Blocked.packages = Blocked.packages[:-1]
for recording in recordings:
    assert "dry run" not in recording.summary()
    assert len(recording._repr_html_()) > 1000
    assert len(recording.launches) or len(recording.activities)
    assert len(recording.health)
print("opened", len(recordings))
"""


@pytest.mark.slow
def test_they_open_and_render_without_numba_and_cuda():
    result = subprocess.run([sys.executable, "-W", "error", "-c", BLOCKED, *map(str, PATHS)],
                            capture_output=True, text=True, check=False, cwd=FOLDER.parents[1])
    assert result.returncode == 0, result.stderr
    assert len(PATHS) > 5 and result.stdout.split() == ["opened", str(len(PATHS))]
