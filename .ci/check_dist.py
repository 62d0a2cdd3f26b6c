"""Checks what `make dist` built: the source distribution is the repository, and the wheel records a launch.

``python .ci/check_dist.py FOLDER`` prints the sizes of both and exits with 0, or says what is wrong and exits with 1.
It needs the environment of `make demo`, whose packages the wheel is tried with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What setuptools adds.
_ADDED = ("PKG-INFO", "setup.cfg", "kernelscope.egg-info/")


def main(folder: Path) -> str:
    """Return what is wrong with the files of a folder, empty if nothing is; print what each is."""
    sources, wheels = sorted(folder.glob("*.tar.gz")), sorted(folder.glob("*.whl"))
    if len(sources) != 1 or len(wheels) != 1:
        return f"{folder} has {len(sources)} source distributions and {len(wheels)} wheels, not one of each"
    for path in (*sources, *wheels):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return wrong_source(sources[0]) or wrong_wheel(wheels[0])


def wrong_source(path: Path) -> str:
    """Return which files of the repository a source distribution lacks, or which it has besides."""
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive if not member.isdir()}
    names = {name for name in names if not name.startswith(_ADDED)}
    wanted = tracked()
    if wanted is None:
        print("no git repository: files of the source distribution were not compared")
        return ""
    missing, added = sorted(wanted - names), sorted(names - wanted)
    if missing:
        return f"{path.name} lacks {_few(missing)}: name them in MANIFEST.in"
    return f"{path.name} has {_few(added)}, not committed: commit or remove them" if added else ""


def tracked() -> set[str] | None:
    """Return the files that git tracks; None where there is no repository."""
    if not (ROOT / ".git").exists():
        return None
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split("\0") if name}


def wrong_wheel(path: Path) -> str:
    """Return what is wrong with a wheel: the index would refuse it, or what is unpacked of it does not record."""
    if "-linux_" in path.name:
        return f"{path.name} is of no manylinux platform: auditwheel repair it"
    with tempfile.TemporaryDirectory() as site:
        zipfile.ZipFile(path).extractall(site)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
        done = subprocess.run([sys.executable, ROOT / "tests/helpers/records_a_launch.py"], cwd=site, text=True,
                              env={**environment, "PYTHONPATH": site}, capture_output=True)
        if done.returncode:
            return f"{path.name} records no launch:\n{done.stderr}"
        if not done.stdout.startswith(site):
            return f"{path.name}: another kernelscope was found, {done.stdout.strip()}"
    print("the wheel records a launch")
    return ""


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


if __name__ == "__main__":
    said = main(Path(sys.argv[1]))
    if said:
        print(said, file=sys.stderr)
    sys.exit(bool(said))
