"""An importer in a package of its own, made by following docs/how-to-write-an-importer.md to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from foreign_traces import refused
from page_packages import installed

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to-write-an-importer.md").read_text(encoding="utf-8")
#: Files in the order of the page.
FILES = ("__init__.py", "recognize.py", "read.py")
USE = """
import shutil
import sys

from kernelscope.commands.cli import main

assert recording.name == "train" and recording.is_imported
assert [row["name"] for row in recording.rows("activities")] == ["axpy", "axpy"]
assert recording.column("activities", "start_ns").tolist() == [1000, 4000]
assert recording.metadata["imported"]["from"] == "the kernel logger"
assert "the kernel logger" in recording.summary()
shared = recording.redacted()
assert shared.metadata["imported"] == {"from": "the kernel logger"}
assert "kernel_log" in shared.health.probe.tolist()
assert kernelscope.merge([recording, recording]).arrow("activities").num_rows == 4
Path("bad.log").write_text("kernel log 1\\naxpy,soon,later\\n")
try:
    kernelscope.load("bad.log")
except kernelscope.RecordingFileError as error:
    assert str(error).startswith("bad.log: is no log of kernels: ")
else:
    raise AssertionError("bad.log was read")
shutil.copy("train.log", "train.json")
assert main(["show", "train.json"]) == 0
try:
    main(["show", "--help"])
except SystemExit:
    pass
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the page's package is installed from a wheel."""
    return installed(PAGE, "kernelscope_kernel_log", FILES, tmp_path_factory)


def test_an_importer_of_another_package_reads_its_traces(site: Path, tmp_path: Path) -> None:
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[len(FILES)]
    (tmp_path / "use.py").write_text(f"{example}\n{USE}")
    done = subprocess.run(
        [sys.executable, "-W", "error", "use.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])})
    assert done.returncode == 0, done.stderr
    assert "a log of kernels" in " ".join(done.stdout.split())
    refused(tmp_path / "train.log", "is not a recording: .*, and no installed importer reads it")
