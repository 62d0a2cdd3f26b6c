"""Folders of frameworks, features and importers can be removed: what is left records, opens and draws the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from foreign_traces import launched, nsys_tables, write_folder, write_json, write_sqlite

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kernelscope"
RECORDINGS = ROOT / "notebooks" / "recordings"
ROOMS = ("frameworks", "features", "importers")
FOLDERS = sorted(path.parent for room in ROOMS for path in PACKAGE.glob(f"{room}/*/__init__.py"))

USE = f"""
import sys
from pathlib import Path

import kernelscope

assert Path(kernelscope.__file__).parent == Path("kernelscope").absolute()
removed = sys.argv[1]
kernelscope.dryrun.enable()
import numpy as np
from numba import cuda

from kernelscope.commands.cli import main
from kernelscope.views.inspector.text import inspection_text

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a * x[i]

array = cuda.to_device(np.zeros(64, np.float32))
with kernelscope.record(journal="journal") as recorder:
    axpy[2, 32](array, 2.0, array)
    axpy[2, 32](array, 2, array)
assert [row["reason_code"] for row in recorder.recording.rows("compilations")] == ["first_use", "new_scalar"]
recordings = [recorder.recording, *map(kernelscope.load, sorted(Path({str(RECORDINGS)!r}).glob("*.kscope")))]
assert len(recordings) > 5
for number, recording in enumerate(recordings):
    assert recording.summary() and recording._repr_html_()
    assert inspection_text(recording)
    assert recording.redacted().summary()
    recording.to_html(f"{{number}}.html")
    recording.to_perfetto(f"{{number}}.pftrace")
    recording.save(f"{{number}}.kscope")
assert kernelscope.merge([recordings[0], recordings[0]]).summary()
for path in sorted(Path("traces").glob("*/*")):
    if removed == f"importers.{{path.parent.name}}":
        try:
            kernelscope.load(path)
        except kernelscope.RecordingFileError as error:
            assert str(error).startswith(f"{{path.name}}: ")
            assert str(error).endswith(", and no installed importer reads it")
        else:
            raise AssertionError(f"{{path}} was read")
    else:
        trace = kernelscope.load(path)
        assert trace.is_imported and trace.summary() and trace.redacted().summary()
        assert kernelscope.load(trace.save("trace.kscope", overwrite=True)).summary()
try:
    main(["show", "--help"])
except SystemExit as ended:
    assert ended.code == 0
assert not [name for name in sys.modules if name.startswith(f"kernelscope.{{removed}}")]
print("all of it works")
"""


def traces(folder: Path) -> None:
    """Write traces for each importer into a folder of its name."""
    for path in PACKAGE.glob("importers/*/__init__.py"):
        (folder / path.parent.name).mkdir(parents=True)
    write_sqlite(folder / "nsys" / "report.sqlite", nsys_tables())
    write_folder(folder / "nsys" / "report_pqtdir", nsys_tables())
    for name in ("trace.json", "trace.json.gz"):
        write_json(folder / "chrome" / name, launched("axpy", 10, 5))
    assert all([*path.iterdir()] for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_the_package_works_without_the_folder(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "kernelscope"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / folder.relative_to(PACKAGE))
    (tmp_path / "use.py").write_text(USE)
    traces(tmp_path / "traces")
    done = subprocess.run([sys.executable, "-W", "error", "use.py", ".".join(folder.parts[-2:])], cwd=tmp_path,
                          text=True, capture_output=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"})
    assert done.stdout.endswith("all of it works\n"), done.stderr[-3000:]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_else_names_a_folder(room: str) -> None:
    """A list of them would have to be kept; the words of other libraries' arrays are no such list."""
    elsewhere = [path for path in PACKAGE.rglob("*.py") if PACKAGE / room not in path.parents]
    names = [f"kernelscope.{room}.{folder.name}" for folder in FOLDERS if folder.parent.name == room]
    assert names
    assert not {f"{path.relative_to(PACKAGE)}: {name}" for path in elsewhere for name in names
                if name in path.read_text(encoding="utf-8")}
