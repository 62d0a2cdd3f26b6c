"""Installing with and without a C compiler: the native recorder is compiled where it can be, and nothing else fails."""

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

#: What stands in the environment where no compiler is found, and where none is on the PATH either.
NO_COMPILER = {"CC": "/nonexistent/cc"}
EMPTY_PATH = {"PATH": "/nonexistent"}

ASK = """
import json
from kernelscope import native
print(json.dumps([native.__file__, native.core is not None, native.why_missing()]))
"""

# A recording and its card, by the probe that needs no framework: what the package does where nothing is compiled.
RECORD = """
import time
from kernelscope import Recorder
from kernelscope.probes.scripted import Launch, ScriptedProbe
probe = ScriptedProbe()
recorder = Recorder("first", probes=[probe]).start()
probe.emit(Launch(kernel="axpy", start_ns=time.perf_counter_ns(), phases_ns=(1, 2, 3, 4)))
print(len(recorder.stop().launches))
"""


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


def answer(code: str, site: Path) -> str:
    """What code prints where an environment has installed that folder; our dependencies come from this one."""
    dependencies = [path for path in sys.path if path.endswith("-packages")]
    text = f"import site, sys\nsite.addsitedir({str(site)!r})\nsys.path += {dependencies!r}\n{code}"
    done = run(sys.executable, "-S", "-P", "-c", text, where=site)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_with_a_compiler(install: Install, tmp_path: Path) -> None:
    done = install()
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert (site / LIBRARY).is_file()
    assert answer(ASK, site) == f'["{site}/kernelscope/native/__init__.py", true, null]'
    assert not (site / "kernelscope" / "native" / "csrc").exists()
    assert (site / "kernelscope" / "native" / "_core.pyi").is_file()
    (wheel,) = site.glob("*.dist-info/WHEEL")
    assert "Root-Is-Purelib: false" in wheel.read_text()


@pytest.mark.parametrize("without", [NO_COMPILER, EMPTY_PATH], ids=["no CC", "empty PATH"])
def test_without_a_compiler(install: Install, tmp_path: Path, without: dict[str, str]) -> None:
    done = install(**without)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    assert list(site.rglob("_core*.so")) == []
    assert ', false, "it is not compiled for this Python: ' in answer(ASK, site)
    assert answer(RECORD, site) == "1"


def test_an_error_of_the_compiler_fails_nothing(install: Install, source: Path, tmp_path: Path) -> None:
    (source / "kernelscope" / "native" / "csrc" / "broken.c").write_text("int main(void) { return nothing; }\n")
    done = install("--verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'building extension "kernelscope.native._core" failed' in done.stdout + done.stderr
    assert list((tmp_path / "site").rglob("_core*.so")) == []
    assert answer(RECORD, tmp_path / "site") == "1"


@pytest.mark.parametrize("code", ["int main(void) { return nothing; }", "int unused(int a) { return 0; }"],
                         ids=["an error", "a warning"])
def test_strictly_it_fails(install: Install, source: Path, code: str) -> None:
    (source / "kernelscope" / "native" / "csrc" / "broken.c").write_text(f"{code}\n")
    done = install("--verbose", KERNELSCOPE_STRICT="1")
    assert done.returncode != 0
    assert "broken.c:1" in done.stdout + done.stderr


@pytest.mark.parametrize("without", [{}, NO_COMPILER], ids=["with a compiler", "without"])
def test_editable(install: Install, source: Path, tmp_path: Path, without: dict[str, str]) -> None:
    done = install("--editable", **without)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (source / LIBRARY).is_file() is not bool(without)
    said = answer(ASK, tmp_path / "site")
    assert said.startswith(f'["{source}/kernelscope/native/__init__.py", {"false" if without else "true"}, ')
    assert said.endswith(f'pip install --editable {source}"]' if without else "null]")
    assert answer(RECORD, tmp_path / "site") == "1"


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


def test_an_installation_without_a_compiler_is_mended_by_the_command_that_it_names(
        install: Install, source: Path, tmp_path: Path) -> None:
    assert install("--editable", **NO_COMPILER).returncode == 0
    said = answer("from kernelscope import native; print(native.command())", tmp_path / "site")
    assert said == f"pip install --editable {source}"
    assert install("--upgrade", "--editable").returncode == 0
    assert answer(ASK, tmp_path / "site").endswith("true, null]")
