"""The native recorder is there, or says why not; continuous integration is never without it."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelscope import native


def can_compile() -> bool:
    """Whether this Python's headers and a C compiler are there."""
    headers = Path(sysconfig.get_path("include"), "Python.h").is_file()
    return headers and any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def test_the_native_recorder_is_there() -> None:
    if native.core is None and "CI" not in os.environ and not can_compile():
        pytest.skip(f"no native recorder: {native.why_missing()}")
    assert native.core is not None, native.why_missing()
    assert native.why_missing() is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's folder in a checkout where nothing is compiled."""
    place = tmp_path / "checkout" / "kernelscope" / "native"
    place.mkdir(parents=True)
    (tmp_path / "checkout" / "setup.py").touch()
    monkeypatch.setattr(native, "_FOLDER", place)
    monkeypatch.setattr(native, "core", None)
    monkeypatch.setattr(native, "_failure", "undefined symbol: PyNothing")
    return place


SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def test_what_was_never_compiled(folder: Path) -> None:
    assert native.why_missing() == (
        f"it is not compiled for this Python: {folder} has no _core{SUFFIX}; "
        f"with a C compiler: pip install --editable {folder.parents[1]}")


def test_what_was_compiled_for_other_interpreters(folder: Path) -> None:
    for version in (98, 97):
        (folder / f"_core.cpython-{version}.so").touch()
    assert f"has no _core{SUFFIX}, but _core.cpython-97.so, _core.cpython-98.so; with" in (native.why_missing() or "")


def test_what_does_not_load(folder: Path) -> None:
    (folder / f"_core{SUFFIX}").touch()
    assert native.why_missing() == ("it does not load: undefined symbol: PyNothing; "
                                     f"compile it anew: pip install --editable {folder.parents[1]}")


def test_what_is_older_than_its_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = folder / f"_core{SUFFIX}"
    monkeypatch.setattr(native, "core", SimpleNamespace(__file__=str(library)))
    (folder / "csrc").mkdir()
    for name in ("ring.c", "ring.h", "hook.c"):
        (folder / "csrc" / name).touch()
    library.touch()
    os.utime(library, (2e9, 2e9))
    assert native.why_old() is None
    for name in ("ring.h", "hook.c"):
        os.utime(folder / "csrc" / name, (3e9, 3e9))
    assert native.why_old() == (
        f"its sources are newer (hook.c, ring.h): pip install --editable {folder.parents[1]}")
    monkeypatch.setattr(native, "core", SimpleNamespace(__file__="/elsewhere/_core.so"))
    assert native.why_old() is None
    monkeypatch.setattr(native, "core", None)
    assert native.why_old() is None


def test_outside_a_checkout_the_sources_come_from_the_index(folder: Path) -> None:
    (folder.parents[1] / "setup.py").unlink()
    assert native.command().startswith("pip install ")
    assert native.command().endswith(" --no-cache-dir --no-binary kernelscope kernelscope")


def test_an_unfit_library_is_no_error(run_python: Callable[..., object], tmp_path: Path) -> None:
    """Such as one that was cut off, or compiled against another C library."""
    package = tmp_path / "kernelscope" / "native"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    shutil.copy(Path(native.__file__), package)
    (package / f"_core{SUFFIX}").write_bytes(b"\x7fELF and no more")
    run_python("from kernelscope import native\n"
               "assert native.__file__.startswith(" + repr(str(tmp_path)) + "), native.__file__\n"
               "assert native.core is None\n"
               "assert native.why_missing().startswith('it does not load: '), native.why_missing()",
               PYTHONPATH="", KERNELSCOPE_DRYRUN="0")
