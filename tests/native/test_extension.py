"""The C extension: what is said where it is missing, does not load or is old, and what works without it."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernelscope
from kernelscope import native

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
#: Prints what asking for the extension raises.
ASK = """
from kernelscope import native
from kernelscope.errors import KernelScopeError
try:
    native.core
except KernelScopeError as error:
    print(error)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with just enough of the package to ask for the extension, which is not compiled."""
    package = tmp_path / "checkout" / "kernelscope"
    (package / "native").mkdir(parents=True)
    (package.parent / "setup.py").touch()
    (package / "__init__.py").touch()
    shutil.copy(Path(kernelscope.__file__).with_name("errors.py"), package)
    shutil.copy(Path(native.__file__), package / "native")
    return package.parent


@pytest.fixture
def ask(run_python: Callable[..., Any], checkout: Path) -> Callable[[], str]:
    """Return what is said where the extension is asked for."""
    return lambda: run_python(f"import sys\nsys.path.insert(0, {str(checkout)!r})\n{ASK}",
                              KERNELSCOPE_DRYRUN="0").stdout.strip()


def test_what_was_never_compiled(ask: Callable[[], str], checkout: Path) -> None:
    folder = checkout / "kernelscope" / "native"
    said = (f"nothing can be recorded: KernelScope's C extension is not compiled for this Python, {folder} has no "
            f"_core{SUFFIX}")
    assert ask() == f"{said}: run pip install --editable {checkout}"
    for version in (98, 97):
        (folder / f"_core.cpython-{version}.so").touch()
    assert ask().startswith(f"{said}, but _core.cpython-97.so, _core.cpython-98.so: run pip install")


def test_what_does_not_load(ask: Callable[[], str], checkout: Path) -> None:
    """Such as one that was cut off, or compiled against another C library."""
    (checkout / "kernelscope" / "native" / f"_core{SUFFIX}").write_bytes(b"\x7fELF and no more")
    (checkout / "setup.py").unlink()
    said = ask()
    assert said.startswith(f"nothing can be recorded: KernelScope's C extension _core{SUFFIX} does not load (")
    assert said.endswith("): run pip install --force-reinstall --no-deps --no-cache-dir --no-binary kernelscope "
                         "kernelscope")


def test_what_is_older_than_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernelscope" / "native"
    (folder / "csrc").mkdir(parents=True)
    (tmp_path / "setup.py").touch()
    library = folder / f"_core{SUFFIX}"
    monkeypatch.setattr(native, "_FOLDER", folder)
    monkeypatch.setattr(native, "core", SimpleNamespace(__file__=str(library)))
    for file in (library, *(folder / "csrc" / name for name in ("ring.c", "ring.h", "hook.c"))):
        file.touch()
    os.utime(library, (2e9, 2e9))
    assert native.why_old() is None
    for name in ("ring.h", "hook.c"):
        os.utime(folder / "csrc" / name, (3e9, 3e9))
    assert native.why_old() == f"its sources are newer (hook.c, ring.h): pip install --editable {tmp_path}"
    monkeypatch.setattr(native, "core", SimpleNamespace(__file__="/elsewhere/_core.so"))
    assert native.why_old() is None


def test_recordings_open_where_it_cannot_be_loaded(run_python: Callable[..., Any], tmp_path: Path) -> None:
    from kernelscope.probes.scripted import Launch, ScriptedProbe

    probe = ScriptedProbe()
    recorder = kernelscope.Recorder("saved", probes=[probe]).start()
    probe.emit(Launch(kernel="axpy", start_ns=kernelscope.clock.now(), phases_ns=(1, 2, 3, 4)))
    recorder.stop().save(tmp_path / "saved.kscope")
    run_python("""
import sys
sys.modules["kernelscope.native._core"] = None
import kernelscope
recording = kernelscope.load("saved.kscope")
assert len(recording.launches) == 1 and "axpy" in recording._repr_html_()
try:
    kernelscope.record()
except kernelscope.KernelScopeError as error:
    assert "nothing can be recorded" in str(error), error
else:
    raise AssertionError("it records")
""", KERNELSCOPE_DRYRUN="0")
