from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from study_repositories import toy_checkout

from kernelscope.errors import StudyError
from kernelscope.studies import target
from kernelscope.studies.target import Package, find_package, installed_package, usable_as_is

EXTENSION = f"_dispatcher{EXTENSION_SUFFIXES[0]}"


def extended(folder: Path, source: str = "int a;", compiled: bool = True, package: str = "numba_cuda") -> Package:
    """A checkout, or what is installed, with an extension's source and, perhaps, the extension."""
    path = toy_checkout(folder, package=package) / package
    (path / "cext").mkdir()
    (path / "cext" / "_dispatcher.cpp").write_text(source)
    (path / "include").mkdir()
    (path / "include" / "kernels.h").write_text(str(folder))  # of no extension
    if compiled:
        (path / "cext" / EXTENSION).write_text("machine code")
    return Package("numba-cuda" if package == "numba_cuda" else "numba-cuda-mlir", path)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    package = extended(tmp_path / "installed")
    monkeypatch.setattr(target, "installed_package", lambda _: package)
    return package


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("package", ["numba_cuda", "numba_cuda_mlir"])
@pytest.mark.parametrize("inside", ["", "src"])
def test_package_is_found(tmp_path: Path, package: str, inside: str) -> None:
    toy_checkout(tmp_path / inside, package=package)
    found = find_package(tmp_path)
    assert found == Package(package.replace("_", "-"), tmp_path / inside / package)
    assert found.version == "9.0"
    (found.path / "VERSION").unlink()
    assert found.version is None


def test_folder_without_a_package(tmp_path: Path) -> None:
    (tmp_path / "numba_cuda").mkdir()
    assert find_package(tmp_path) is None


def test_installed_package_is_found_without_importing_it() -> None:
    found = installed_package("numba-cuda")
    assert found is not None and (found.path / "numba" / "cuda" / "dispatcher.py").exists()
    assert found.version
    assert target._compiled(found.path) and target._sources(found.path)


def test_checkout_that_one_stands_in_is_not_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extended(tmp_path, compiled=False)
    monkeypatch.chdir(tmp_path)
    for entry in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
        found = installed_package("numba-cuda")
        assert found is not None and not found.path.is_relative_to(tmp_path)


def test_framework_that_nobody_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(target.FRAMEWORKS, "numba-cuda-mlir", "no_such_package_anywhere")
    assert installed_package("numba-cuda-mlir") is None


def test_checkout_with_its_extensions_is_used_where_it_is(tmp_path: Path, installed: Package, scratch: Path) -> None:
    package = extended(tmp_path / "checkout", source="int other;")
    assert usable_as_is(package, scratch) == (package, [])
    assert not list(scratch.iterdir())


def test_extensions_of_the_same_sources_are_borrowed(tmp_path: Path, installed: Package, scratch: Path) -> None:
    package = extended(tmp_path / "checkout", compiled=False)
    (package.path / "VERSION").write_text("10.0\n")  # the sources are what counts
    (package.path / "dispatcher.py").write_text("changed = True")
    before = contents(package.path)
    used, notes = usable_as_is(package, scratch)
    assert used.path == scratch / "numba_cuda"
    assert contents(used.path) == {**before, f"cext/{EXTENSION}": b"machine code"}
    assert contents(package.path) == before
    assert notes == ["Its compiled extensions are those of the installed numba-cuda 9.0, whose C sources are the same."]


@pytest.mark.parametrize("change", ["another", "added", "removed"])
def test_extensions_of_other_sources_are_refused(
        tmp_path: Path, installed: Package, scratch: Path, change: str) -> None:
    package = extended(tmp_path / "checkout", compiled=False)
    source = package.path / "cext" / "_dispatcher.cpp"
    if change == "another":
        source.write_text("int b;")
    elif change == "added":
        (source.parent / "_new.c").touch()
    else:
        (installed.path / "cext" / "_old.h").touch()
    name = {"another": "_dispatcher.cpp", "added": "_new.c", "removed": "_old.h"}[change]
    with pytest.raises(StudyError, match=rf"of other C sources \(cext/{name}\): leave out --no-install"):
        usable_as_is(package, scratch)


def test_extensions_whose_sources_are_not_in_the_package_need_the_same_version(
        tmp_path: Path, installed: Package, scratch: Path) -> None:
    (installed.path / "cext" / "_dispatcher.cpp").unlink()
    (installed.path / "_mlir" / "deeper").mkdir(parents=True)
    (installed.path / "_mlir" / "deeper" / "ir.py").write_text("made by the build")
    package = extended(tmp_path / "checkout", compiled=False)
    used, notes = usable_as_is(package, scratch)
    assert (used.path / "cext" / EXTENSION).exists() and (used.path / "_mlir" / "deeper" / "ir.py").exists()
    assert notes == ["Its compiled extensions are those of the installed numba-cuda 9.0: changes of the checkout's C "
                     "sources are not measured."]
    (package.path / "VERSION").write_text("10.0\n")
    with pytest.raises(StudyError, match=r"of version 10\.0, has no compiled extensions, and cannot have those of the "
                                         r"installed numba-cuda 9\.0"):
        usable_as_is(package, scratch)


def test_framework_that_is_not_installed(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "installed_package", lambda _: None)
    with pytest.raises(StudyError, match="numba-cuda is not installed in this environment"):
        usable_as_is(extended(tmp_path / "checkout"), scratch)
