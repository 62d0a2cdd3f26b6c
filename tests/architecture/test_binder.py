"""Binder's files: what they install is there, and every process there is a dry run."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (BINDER / name).read_text(encoding="utf-8")


def test_its_python_is_one_that_is_supported() -> None:
    version = text("runtime.txt").strip().removeprefix("python-")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_it_installs_extras_that_there_are_and_what_compiles_the_recorder() -> None:
    (extras,) = re.findall(r"'\.\[(.*?)\]'", text("postBuild"))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert {"notebook", "cu13"} <= set(extras.split(","))
    assert text("apt.txt").split() == ["gcc", "libc6-dev"]


def test_every_process_is_a_dry_run() -> None:
    assert re.search(r"^export KERNELSCOPE_DRYRUN=1\nexec \"\$@\"$", text("start"), re.MULTILINE)
    assert all(os.access(BINDER / name, os.X_OK) for name in ("start", "postBuild"))
