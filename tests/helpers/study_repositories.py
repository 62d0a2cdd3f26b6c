"""Repositories and wheels that launch-overhead studies are tried on: of the installed numba-cuda, and tiny ones."""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import subprocess
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

# Long enough for a study to find, in the method that every launch of numba-cuda goes through.
_SPIN = """\
        _spin_end = _spin_clock() + {spin_ns}
        while _spin_clock() < _spin_end:
            pass
"""
_CALL = "    def call(self, args, launch_config):\n"
_BACKEND = '''\
"""A build backend that needs nothing: an editable wheel is a .pth file."""
import os, zipfile

def _wheel(folder, files):
    name = "{package}-{version}-py3-none-any.whl"
    info = "{package}-{version}.dist-info/"
    files = dict(files)
    files[info + "METADATA"] = "Metadata-Version: 2.1\\nName: {package}\\nVersion: {version}\\n"
    files[info + "WHEEL"] = "Wheel-Version: 1.0\\nGenerator: toy\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    record = info + "RECORD"
    files[record] = "".join(each + ",,\\n" for each in [*files, record])
    with zipfile.ZipFile(os.path.join(folder, name), "w") as file:
        for path, text in files.items():
            file.writestr(path, text)
    return name

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    {fails}
    return _wheel(wheel_directory, [("toy.pth", os.getcwd() + "\\n")])

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError("only editable")
'''


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, as somebody; its output."""
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com", "-c", "init.defaultBranch=main", "-c",
           "core.excludesFile=/dev/null"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Commit everything in a folder; the commit."""
    git(folder, "add", "--all", ".")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def numba_cuda_repository(folder: Path, spin_ns: int) -> Path:
    """Make a repository of the installed numba-cuda, whose HEAD spins in `CUDADispatcher.call` and HEAD~ does not.

    It must not exist, and may have spaces. The compiled extensions are not in it.
    """
    copy_numba_cuda(folder, "*.so")
    git(folder, "init", "--quiet")
    commit(folder, "as released")
    file = folder / "numba_cuda" / "numba" / "cuda" / "dispatcher.py"
    text = file.read_text(encoding="utf-8")
    before, call, after = text.partition(_CALL)
    assert call and "class CUDADispatcher" in before, "numba-cuda's dispatcher.py has changed"
    first, end, rest = after.partition('"""\n')  # the docstring's first quotes, and its end
    assert not first.strip()
    docstring, closing, body = rest.partition('"""\n')
    file.write_text(before + call + first + end + docstring + closing + _SPIN.format(spin_ns=spin_ns) + body
                    + "\n\nfrom time import perf_counter_ns as _spin_clock\n", encoding="utf-8")
    commit(folder, "with a spin")
    return folder


def copy_numba_cuda(folder: Path, *left_out: str) -> Path:
    """Copy the installed numba-cuda into a new folder, as a checkout has it; that folder.

    With what Python has compiled of it, as else each process that imports it would compile it for seconds.
    """
    spec = importlib.util.find_spec("numba_cuda")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "numba_cuda",
                    ignore=shutil.ignore_patterns("tests", *left_out))
    (folder / ".gitignore").write_text("__pycache__/\n")
    return folder


def spin_us(spin_ns: int, times: int = 2000) -> float:
    """Return what such a spin takes on this machine, the calls of the clock included: the median, in microseconds."""
    spin = textwrap.indent(textwrap.dedent(_SPIN.format(spin_ns=spin_ns)), "    ")
    names: dict[str, Any] = {"_spin_clock": time.perf_counter_ns}
    exec(f"def spin():\n{spin}", names)
    took_ns = []
    for _ in range(times):
        begun = time.perf_counter_ns()
        names["spin"]()
        took_ns.append(time.perf_counter_ns() - begun)
    return statistics.median(took_ns) / 1000


def toy_checkout(folder: Path, version: str = "9.0", package: str = "numba_cuda", fails: str = "pass") -> Path:
    """Make a checkout of a numba-cuda of nothing but a version, which installs without a network.

    Parameters
    ----------
    folder : Path
        Where.
    version, package : str, optional
        What its package says.
    fails : str, optional
        A statement that its installation runs.
    """
    toy = folder / package
    toy.mkdir(parents=True)
    (toy / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (toy / "VERSION").write_text(version + "\n")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "toy_backend"\nbackend-path = ["."]\n')
    backend = _BACKEND.replace("{package}", package).replace("{version}", version).replace("{fails}", fails)
    (folder / "toy_backend.py").write_text(backend)
    return folder


def toy_wheels(folder: Path, *versions: str, package: str = "numba_cuda") -> Path:
    """Make a folder of wheels that pip can install without a network: a toy framework's, NumPy's and numba's."""
    folder.mkdir(exist_ok=True)
    for name, version in [*((package, version) for version in versions), ("numpy", "2.0.0"), ("numba", "0.65.0")]:
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}/__init__.py": f"__version__ = {version!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: cu12\n"
                                "Provides-Extra: cu13\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)
    return folder
