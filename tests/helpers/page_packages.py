"""Packages that a page of the docs describes, installed from a wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def installed(page: str, package: str, files: Sequence[str], folders: pytest.TempPathFactory) -> Path:
    """Return the folder into which the package is installed, whose files are the page's first blocks of Python."""
    source = folders.mktemp("source")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (source / package).mkdir()
    for name, text in zip(files, blocks, strict=False):
        (source / package / name).write_text(text)
    toml, = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (source / "pyproject.toml").write_text(toml)
    subprocess.run([sys.executable, "-c", "from setuptools import build_meta; build_meta.build_wheel('dist')"],
                   cwd=source, check=True, capture_output=True)
    wheel, = (source / "dist").glob("*.whl")
    folder = folders.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder
