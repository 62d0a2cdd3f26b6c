"""The package: what its wheel holds, that it records where it is installed, and what is said where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = f"kernelscope/native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"
INFO = f"kernelscope-{kernelscope.__version__}.dist-info"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")

#: Records a launch with the kernelscope that is there, and prints where that is.
RECORD = ROOT / "tests" / "helpers" / "records_a_launch.py"


def run(*command: str | Path, where: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("KERNELSCOPE_", "PIP_", "CC", "CFLAGS", "LDFLAGS", "PYTHONPATH"))}
    return subprocess.run(command, cwd=where, env={**kept, **changed}, capture_output=True, text=True, timeout=600)


def copied(folder: Path) -> Path:
    """Copy the sources, in which nothing was compiled; the compiler does not optimize: that takes most of the time."""
    for name in ("pyproject.toml", "LICENSE", "README.md", "kernelscope_at_start.py"):
        shutil.copy(ROOT / name, folder)
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert '"-O2"' in setup
    (folder / "setup.py").write_text(setup.replace('"-O2"', '"-O0"'))
    for name in ("kernelscope", "tests/architecture"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the sources."""
    (tmp_path / "source").mkdir()
    return copied(tmp_path / "source")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that pip builds."""
    target = tmp_path_factory.mktemp("wheel")
    done = run(*PIP, "wheel", *OFFLINE, "-w", target, copied(tmp_path_factory.mktemp("source")), where=target)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


def answer(script: Path | str, site: Path) -> str:
    """What a script prints where an environment has installed that folder; our dependencies come from this one."""
    dependencies = [path for path in sys.path if path.endswith("-packages")]
    text = f"import site\nsite.PREFIXES[:] = [{sys.prefix!r}]\n"  # where CUDA's libraries are looked for
    text += f"for folder in {[str(site), *dependencies]!r}: site.addsitedir(folder)\n"
    text += script if isinstance(script, str) else f"import runpy; runpy.run_path({str(script)!r})"
    done = run(sys.executable, "-S", "-P", "-c", text, where=site)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_the_wheel_has_the_package_only_and_all_of_it(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    patterns = ("kernelscope/**/*.py", "kernelscope/dryrun/csrc/*", "kernelscope/static/*", "kernelscope/native/*.pyi")
    wanted = {path for pattern in patterns for path in ROOT.glob(pattern)} | {ROOT / "kernelscope/py.typed"}
    assert {str(path.relative_to(ROOT)) for path in wanted} | {LIBRARY, f"{INFO}/licenses/LICENSE"} <= names
    assert {name.split("/")[0] for name in names} == {"kernelscope", "kernelscope.pth", "kernelscope_at_start.py", INFO}
    # One line, which Python runs at each start: it must do no more where nobody asks for a recording.
    assert wheel.read("kernelscope.pth").decode().splitlines() == [
        'import os; os.environ.get("KERNELSCOPE_RECORD") and __import__("kernelscope_at_start").wait()']
    assert {name for name in names if name.endswith((".so", ".pyc", ".kscope"))} == {LIBRARY}
    assert [name for name in names if name.startswith("kernelscope/native/csrc")] == []
    metadata = wheel.read(f"{INFO}/METADATA").decode()
    assert f"\nVersion: {kernelscope.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    points = wheel.read(f"{INFO}/entry_points.txt").decode()
    assert "[console_scripts]\nkernelscope = kernelscope.commands.cli:main\n" in points
    assert "[pytest11]\nkernelscope = kernelscope.pytest_plugin\n" in points
    assert "Root-Is-Purelib: false" in wheel.read(f"{INFO}/WHEEL").decode()


@pytest.mark.slow
def test_what_is_installed_records(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """In an environment that has nothing of this checkout."""
    wheel.extractall(tmp_path)
    assert answer(RECORD, tmp_path) == str(tmp_path / "kernelscope" / "__init__.py")


@pytest.mark.slow
def test_an_editable_installation_is_compiled(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = run(*PIP, "install", *OFFLINE, "--target", site, "--editable", source, where=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert answer("import kernelscope.native; print(kernelscope.native.core.__file__)", site) == str(source / LIBRARY)


@pytest.mark.slow
@pytest.mark.parametrize(("without", "editable"), [
    ({"CC": "/nonexistent/cc"}, ()), ({"PATH": "/nonexistent"}, ("--editable",))])
def test_without_a_compiler_one_line_says_what_to_install(
        source: Path, tmp_path: Path, without: dict[str, str], editable: tuple[str, ...]) -> None:
    done = run(*PIP, "install", *OFFLINE, "--target", tmp_path / "site", *editable, source, where=tmp_path, **without)
    assert done.returncode != 0
    (said,) = (line.strip() for line in (done.stdout + done.stderr).splitlines() if "C compiler" in line)
    assert said.startswith("KernelScope needs a C compiler to build, and there is no ")
    assert "install gcc and Python's headers (Debian, Ubuntu: apt install gcc python3-dev;" in said
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "site").exists()


def test_without_headers_one_line_says_what_to_install(source: Path, tmp_path: Path) -> None:
    code = ("import runpy, sys, sysconfig; real = sysconfig.get_path\n"
            f"sysconfig.get_path = lambda name, *more: {str(tmp_path)!r} if name == 'include' else real(name, *more)\n"
            "sys.argv = ['setup.py', '-q', 'build_ext', '--inplace']; runpy.run_path('setup.py')")
    done = run(sys.executable, "-c", code, where=source)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"KernelScope needs Python's headers to build, and there is no {tmp_path}/Python.h: install gcc and Python's")


@pytest.mark.slow
@pytest.mark.parametrize(("code", "strict", "fails"), [
    ("int main(void) { return nothing; }", "", True), ("static int unused(int a) { return 0; }", "", False),
    ("static int unused(int a) { return 0; }", "1", True)], ids=["an error", "a warning", "a warning, strictly"])
def test_errors_fail_and_warnings_where_it_is_asked_for(source: Path, code: str, strict: str, fails: bool) -> None:
    sources = source / "kernelscope" / "native" / "csrc"
    for path in sources.glob("*.c"):
        path.unlink()
    (sources / "broken.c").write_text(f"{code}\n")
    done = run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", where=source, KERNELSCOPE_STRICT=strict)
    assert (done.returncode != 0) is fails
    assert "broken.c:1" in done.stdout + done.stderr


def test_the_source_distribution_can_be_compiled(source: Path, tmp_path: Path) -> None:
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    done = run(sys.executable, "-c", code, tmp_path, where=source)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = ROOT / "kernelscope" / "native"
    wanted = [path for kind in ("*.py", "*.pyi", "csrc/*.c", "csrc/*.h") for path in native.glob(kind)]
    assert {"setup.py", *(str(path.relative_to(ROOT)) for path in wanted)} <= names
    assert [name for name in names if name.endswith(".so")] == []


def test_cupti_is_an_extra_and_notebooks_can_write_perfetto_traces() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert not [name for name in project["dependencies"] if name.startswith("cupti")]
    assert extras["cupti"] == ["cuda-toolkit[cupti]"]
    assert set(extras["perfetto"]) < set(extras["notebook"])
