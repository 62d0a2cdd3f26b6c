"""Without the feature no launch has an operator, and recordings that have some open as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
USE = f"""
import kernelscope

imported = kernelscope.load({str(ROOT / "tests" / "importers" / "chrome" / "traces" / "kineto_training.json.gz")!r})
assert len(imported.launches) and imported.operators.empty
assert imported.launches.operator_id.isna().all() and imported.activities.operator_id.isna().all()
recorded = kernelscope.load({str(ROOT / "notebooks" / "recordings" / "torch_training.kscope")!r})
assert recorded.launches.operator_id.notna().any() and len(recorded.operators)
assert "Operators" not in recorded.summary() and " by aten::" not in recorded.summary()
assert not hasattr(recorded, "by_operator")
try:
    kernelscope.record(torch_ops=True)
except TypeError:
    print("there are none")
"""


@pytest.mark.slow
def test_without_the_feature_there_are_no_operators(tmp_path: Path) -> None:
    copy = tmp_path / "kernelscope"
    shutil.copytree(ROOT / "kernelscope", copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / "features" / "operators")
    done = subprocess.run([sys.executable, "-W", "error", "-c", USE], cwd=tmp_path, text=True, capture_output=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "there are none\n", done.stderr[-3000:]
