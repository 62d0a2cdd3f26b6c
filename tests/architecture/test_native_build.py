"""Building and installing: the C extension is compiled, and where it cannot be, one line says what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = f"kernelscope/native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"

#: Records a launch with the kernelscope that is there, and prints where that is.
RECORD = ROOT / "tests" / "helpers" / "records_a_launch.py"


def run(*command: str | Path, where: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("KERNELSCOPE_", "PIP_", "CC", "CFLAGS", "LDFLAGS", "PYTHONPATH"))}
    return subprocess.run(command, cwd=where, env={**kept, **changed}, capture_output=True, text=True, timeout=240)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the sources, in which nothing was compiled."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("__pycache__", "node_modules", "*.so")
    shutil.copytree(ROOT / "kernelscope", folder / "kernelscope", ignore=unwanted)
    return folder


Install = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def install(source: Path, tmp_path: Path) -> Install:
    """Install the sources into the test's folder ``site`` as pip does; keyword arguments are environment variables.

    The compiler does not optimize: that takes most of the time.
    """

    def pip(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps",
                   "--no-build-isolation", "--target", tmp_path / "site", *options, source, where=tmp_path,
                   **{"CFLAGS": "-O0", **environment})

    return pip


def answer(script: Path, site: Path) -> str:
    """What a script prints where an environment has installed that folder; our dependencies come from this one."""
    dependencies = [path for path in sys.path if path.endswith("-packages")]
    text = f"import site\nsite.PREFIXES[:] = [{sys.prefix!r}]\n"  # where CUDA's libraries are looked for
    text += f"for folder in {[str(site), *dependencies]!r}: site.addsitedir(folder)\n"
    text += f"import runpy; runpy.run_path({str(script)!r})"
    done = run(sys.executable, "-S", "-P", "-c", text, where=site)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--editable",)], ids=["installed", "editable"])
def test_it_is_compiled_and_records(install: Install, source: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """In an environment that has nothing of this checkout."""
    done = install(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert ((source if options else site) / LIBRARY).is_file()
    assert answer(RECORD, site) == str((source if options else site) / "kernelscope" / "__init__.py")
    if not options:
        assert not (site / "kernelscope" / "native" / "csrc").exists()
        assert (site / "kernelscope" / "native" / "_core.pyi").is_file()
        (wheel,) = site.glob("*.dist-info/WHEEL")
        assert "Root-Is-Purelib: false" in wheel.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("without", [{"CC": "/nonexistent/cc"}, {"PATH": "/nonexistent"}], ids=["no CC", "empty PATH"])
@pytest.mark.parametrize("options", [(), ("--editable",)], ids=["installed", "editable"])
def test_without_a_compiler_one_line_says_what_to_install(install: Install, tmp_path: Path, without: dict[str, str],
                                                          options: tuple[str, ...]) -> None:
    done = install(*options, **without)
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
def test_errors_fail_and_warnings_where_it_is_asked_for(install: Install, source: Path, code: str, strict: str,
                                                        fails: bool) -> None:
    (source / "kernelscope" / "native" / "csrc" / "broken.c").write_text(f"{code}\n")
    done = install("--verbose", KERNELSCOPE_STRICT=strict)
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
