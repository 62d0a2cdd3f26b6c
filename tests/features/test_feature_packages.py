"""A feature in a package of its own, made by following docs/how-to-write-a-feature.md to the letter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from page_packages import installed

from kernelscope import load, record
from kernelscope.schema import TABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to-write-a-feature.md").read_text(encoding="utf-8")
#: Files in the order of the page.
FILES = ("__init__.py", "tables.py", "options.py", "record.py", "analyse.py", "card.py")
USE = """
from kernelscope.commands.answer_schema import answer_schema
from kernelscope.commands.cli import main
from kernelscope.views.card.answer import recording_answer

assert list(recording.host_loads.columns) == ["start_ns", "load", "process_id"] and len(recording.host_loads) == 2
assert recording.host_load() == recording.host_loads.load.max() >= 0
assert "Host load: at most" in recording.summary()
assert "Host load" in recording._repr_html_()
assert recording_answer(recording)["host_load"] == {"largest": recording.host_load()}
assert '"host_load": {' in answer_schema()
saved = kernelscope.load(recording.save("busy.kscope"))
assert saved.host_loads.equals(recording.host_loads)
assert len(kernelscope.merge([saved, saved]).host_loads) == 4
assert saved.redacted().host_load() == recording.host_load()
with kernelscope.record("quiet") as recorder:
    pass
assert recorder.recording.host_loads.empty and "Host load" not in recorder.recording.summary()
try:
    main(["run", "--help"])
except SystemExit:
    pass
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the page's package is installed from a wheel."""
    return installed(PAGE, "kernelscope_host_load", FILES, tmp_path_factory)


@pytest.fixture(scope="module")
def used(site: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where the page's last example and `USE` ran, and what they printed."""
    folder = tmp_path_factory.mktemp("use")
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[len(FILES)]
    (folder / "use.py").write_text(f"{example}\n{USE}")
    done = subprocess.run(
        [sys.executable, "-W", "error", "use.py"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])})
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_feature_of_another_package_has_its_option_tables_section_and_member(used: tuple[Path, str]) -> None:
    assert "--host-load" in used[1] and "Host load: at most" in used[1]


def test_a_file_with_its_tables_opens_where_it_is_not_installed(used: tuple[Path, str]) -> None:
    recording = load(used[0] / "busy.kscope")
    row, = [row for row in recording.rows("health") if "host_loads" in (row["message"] or "")]
    assert row["status"] == "degraded" and "feature" in row["fix"]
    assert "host_loads" in recording.summary()


def test_a_file_without_the_tables_of_a_feature_that_is_installed_opens(tmp_path: Path) -> None:
    with record("bare") as recorder:
        pass
    path = recorder.recording.save(tmp_path / "bare.kscope")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    del members["pc_samples.parquet"], manifest["tables"]["pc_samples"]
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert load(path).pc_samples.empty


@pytest.mark.parametrize(("value", "message"), [
    ("there_is_no_such_module:FEATURE", "ModuleNotFoundError"), ("math:pi", "math:pi is a float, not a Feature")])
def test_an_entry_point_that_names_no_feature_is_left_out(value: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_text(f"[kernelscope.features]\ntoy = {value}\n")
    done = subprocess.run(
        [sys.executable, "-c", "from kernelscope.schema import TABLES; print(len(TABLES))"], cwd=tmp_path,
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(tmp_path), str(ROOT)])})
    assert int(done.stdout) == len(TABLES)
    assert "RuntimeWarning: toy of broken is left out of kernelscope.features" in done.stderr and message in done.stderr
