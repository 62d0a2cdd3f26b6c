"""The wheel: what it must contain, and what it must not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the sources, so that nothing is left beside them."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in ("kernelscope", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    target = tmp_path_factory.mktemp("wheel")
    run = subprocess.run([sys.executable, "-c", BUILD, str(target)], cwd=source, capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


@pytest.mark.slow
def test_wheel_has_every_module_and_data_file(wheel: zipfile.ZipFile) -> None:
    wanted = {path for pattern in ("kernelscope/**/*.py", "kernelscope/dryrun/csrc/*", "kernelscope/static/*",
                                   "kernelscope/native/*.pyi")
              for path in ROOT.glob(pattern)} | {ROOT / "kernelscope/py.typed"}
    missing = {str(path.relative_to(ROOT)) for path in wanted} - set(wheel.namelist())
    assert missing == set()
    assert any(name.startswith("kernelscope/dryrun/csrc/") for name in wheel.namelist())


def test_wheel_has_the_package_only(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"kernelscope", f"kernelscope-{kernelscope.__version__}.dist-info"}
    unwanted = {name for name in wheel.namelist() if name.endswith((".so", ".pyc", ".kscope"))}
    assert unwanted <= {f"kernelscope/native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"}
    assert [name for name in wheel.namelist() if name.startswith("kernelscope/native/csrc")] == []


def test_wheel_states_version_license_and_script(wheel: zipfile.ZipFile) -> None:
    info = f"kernelscope-{kernelscope.__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {kernelscope.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    points = wheel.read(f"{info}/entry_points.txt").decode()
    assert "[console_scripts]\nkernelscope = kernelscope.commands.cli:main\n" in points
    assert "[pytest11]\nkernelscope = kernelscope.pytest_plugin\n" in points
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_cupti_stays_an_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [name for name in project["dependencies"] if name.startswith("cupti")]
    assert project["optional-dependencies"]["cupti"] == ["cuda-toolkit[cupti]"]


def test_notebooks_can_write_perfetto_traces() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras["perfetto"]) < set(extras["notebook"])
