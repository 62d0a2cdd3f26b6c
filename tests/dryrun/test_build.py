"""Building the driver: the cache, two builds at once, and every way in which it can fail."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelscope.dryrun import build as building
from kernelscope.dryrun import switch
from kernelscope.errors import DryRunError


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder of its own, and one small source in the place of the driver's."""
    sources = tmp_path / "csrc"
    sources.mkdir()
    (sources / "small.c").write_text("int kernelscope_dryrun_interface(void) { return 1; }\n")
    (sources / "entries.inc").write_text("")
    monkeypatch.setattr(building, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "_private_folder", functools.cache(building._private_folder.__wrapped__))
    return sources


def lines() -> tuple[list[str], Callable[[str], None]]:
    said: list[str] = []
    return said, said.append


@pytest.mark.slow
def test_the_driver_compiles_without_a_warning(tmp_path: Path) -> None:
    output, header = tmp_path / "libcuda.so.1", building.find_header()
    building.write_tables(header, tmp_path)
    building.run_compiler(building.find_compiler(), header, tmp_path, sorted(building.SOURCES.glob("*.c")), output,
                          "-Werror", "-O0")
    names = subprocess.run(["nm", "-D", "--defined-only", str(output)], capture_output=True, text=True, check=True)
    exported = [line.split()[-1] for line in names.stdout.splitlines()]
    assert "cuMemAlloc_v2" in exported
    assert not [name for name in exported if not name.startswith(("cu", "kernelscope_dryrun_"))]


def test_it_is_built_once_and_found_again(quick: Path, tmp_path: Path) -> None:
    said, progress = lines()
    first = building.build(progress)
    assert first.is_file()
    assert first.parents[3] == tmp_path / "cache"
    assert len(said) == 1 and "compiling the dry-run driver" in said[0]
    assert building.build(progress) == first
    assert len(said) == 1
    assert [path.name for path in first.parent.parent.iterdir()] == [first.parent.name]


def test_another_source_flag_or_compiler_is_another_build(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, progress = lines()
    built = [building.build(progress)]
    (quick / "small.c").write_text("int kernelscope_dryrun_interface(void) { return 1; } /* changed */\n")
    built.append(building.build(progress))
    monkeypatch.setattr(building, "FLAGS", (*building.FLAGS, "-O1"))
    built.append(building.build(progress))
    monkeypatch.setenv("CC", "cc -DCHANGED")
    built.append(building.build(progress))
    assert len(set(built)) == len(said) == 4


def test_a_file_that_is_cut_off_is_built_again(quick: Path) -> None:
    said, progress = lines()
    library = building.build(progress)
    whole = library.read_bytes()
    for kept in (0, 10, 5000, -1):
        library.write_bytes(whole[:kept])
        assert building.build(progress) == library
        assert library.stat().st_size == len(whole)
    assert len(said) == 5
    assert len(list(library.parent.parent.iterdir())) == 1


def test_a_driver_that_does_not_load_is_built_again(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a whole ELF file of another machine."""
    said, progress = lines()
    tried: list[Path] = []

    def opened(path: Path) -> object:
        tried.append(path)
        if len(tried) == 1:
            raise OSError("wrong ELF class")
        return object()

    monkeypatch.setattr(switch, "_open", opened)
    _, path = switch._build_and_load(progress)
    assert ([str(each) for each in tried], len(said)) == ([path] * 2, 2)


def test_two_processes_may_build_at_once(quick: Path, tmp_path: Path) -> None:
    code = (f"from pathlib import Path; from kernelscope.dryrun import build; build.SOURCES = Path({str(quick)!r}); "
            "print(build.build(print))")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "KERNELSCOPE_DRYRUN": ""}
    running = [subprocess.Popen([sys.executable, "-W", "error", "-c", code], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(2)]
    paths = []
    for process in running:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        paths.append(out.split()[-1])
    assert paths[0] == paths[1]
    assert [path.name for path in building.cache_folder().iterdir()] == [Path(paths[0]).parent.name]


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert building.cache_folder() == Path.home() / ".cache" / "kernelscope" / "dryrun"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert building.cache_folder() == Path.home() / ".cache" / "kernelscope" / "dryrun"


@pytest.mark.parametrize(("cc", "message"), [
    (None, "none of cc, gcc, clang is on PATH; install one .*apt install gcc.* or set CC"),
    ("nocc -m64", "CC names 'nocc', which is not there"),
    ("true", r"true could not compile the dry-run driver \(exit status 0\)"),
    ("#!/nonexistent/interpreter\n", "cannot be run: No such file or directory"),
    ("#!/bin/sh\nexec sleep 60\n", r"did not compile the dry-run driver in 0\.2 s"),
])
def test_compilers_that_fail(quick: Path, monkeypatch, tmp_path: Path, cc: str | None, message: str) -> None:
    """What CC is, or a script that it names; None for no compiler at all."""
    if cc is None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CC", raising=False)
    elif cc.startswith("#!"):
        (tmp_path / "cc").write_text(cc)
        (tmp_path / "cc").chmod(0o755)
        monkeypatch.setenv("CC", str(tmp_path / "cc"))
        monkeypatch.setattr(building, "_TIMEOUT_S", 0.2)
    else:
        monkeypatch.setenv("CC", cc)
    with pytest.raises(DryRunError, match=message):
        building.build(lambda line: None)


def test_sources_that_do_not_compile(quick: Path) -> None:
    (quick / "wrong.c").write_text("this is no C\n")
    with pytest.raises(DryRunError, match=r"could not compile the dry-run driver \(exit status 1\)") as caught:
        building.build(lambda line: None)
    assert "wrong.c:1" in str(caught.value)
    assert not list(building.cache_folder().iterdir())


def test_a_cache_that_cannot_be_written(quick: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(DryRunError, match="cannot be written to .*file/kernelscope/dryrun: Not a directory; set XDG_"):
        building.build(lambda line: None)


# ---- Whose folder it is ----


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_what_is_made_is_the_users_alone_whatever_the_umask(quick: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        library = building.build(lambda line: None)
    finally:
        os.umask(before)
    for each in (tmp_path / "cache", *[path for path in library.parents if path.is_relative_to(tmp_path / "cache")]):
        assert mode(each) == 0o700, each
    assert mode(library) == 0o700


def test_a_file_or_folder_that_others_can_change_is_not_loaded(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, progress = lines()
    library = building.build(progress)
    cache = library.parents[3]
    for each in (library, library.parent, library.parents[1], library.parents[2], cache):
        was = mode(each)
        for bit, own_group, is_shared in ((0o002, True, True), (0o020, False, True), (0o020, True, False)):
            monkeypatch.setattr("kernelscope.private_folders._is_own_group", lambda gid, own=own_group: own)
            each.chmod(was | bit)
            found = building.build(progress)
            assert (found != library) is is_shared, (each, bit, own_group)
            assert found.is_relative_to(cache) is not is_shared
            if is_shared:
                assert mode(found) == mode(found.parent) == mode(found.parents[1]) == 0o700
        each.chmod(was)
    assert len(said) == 2  # for a process it is compiled once
    assert f"others can write to {library} ..." in said[1]
    assert len(said[1].splitlines()) == 1
    # A sticky folder is one that others cannot take the user's entries out of; but they can add some.
    cache.chmod(0o1777)
    assert building.build(progress) == library
    library.parents[1].chmod(0o1777)
    assert building.build(progress) != library


def test_what_a_link_leads_to_counts(quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "shared" / "inside").mkdir(mode=0o700)
    for name, target, is_private in (("one", "own", True), ("two", "shared/inside", False), ("three", "two", False),
                                     ("four", tmp_path / "own" / ".." / "own", True)):
        (tmp_path / name).symlink_to(target)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        assert building.build(lambda line: None).is_relative_to(tmp_path) is is_private, name
    assert list((tmp_path / "shared" / "inside").iterdir()) == []


@pytest.mark.parametrize("whose", ["kernelscope/dryrun", "", "link"])
def test_what_belongs_to_somebody_else_is_not_loaded(quick: Path, tmp_path: Path, monkeypatch, whose: str) -> None:
    said, progress = lines()
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    library = building.build(progress)
    place = tmp_path / "link" if whose == "link" else tmp_path / "cache" / whose
    real = os.lstat

    def foreign(path: str, **options: int | None) -> os.stat_result:
        found = real(path, **options)
        if not options and Path(path) == place:
            return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:]))
        return found

    monkeypatch.setattr("kernelscope.private_folders.os.lstat", foreign)
    found = building.build(progress)
    assert found.resolve() != library.resolve()
    assert f"belongs to user {os.geteuid() + 1} ..." in said[-1]
    assert not found.is_relative_to(tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to another user")
def test_root_loads_nothing_of_another_user(quick: Path, tmp_path: Path) -> None:
    said, progress = lines()
    library = building.build(progress)
    os.chown(library, 65534, 65534)
    assert not building.build(progress).is_relative_to(tmp_path)
    assert f"{library} belongs to user 65534 ..." in said[-1]


def test_a_private_build_goes_with_its_process(run_python, quick: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    code = (f"from pathlib import Path\nfrom kernelscope.dryrun import build\nbuild.SOURCES = Path({str(quick)!r})\n"
            "print(build.build(print))")
    result = run_python(code, KERNELSCOPE_DRYRUN="", XDG_CACHE_HOME=str(shared), TMPDIR=str(tmp_path))
    said, path = result.stdout.splitlines()
    assert said.startswith("compiling the dry-run driver in ") and f"others can write to {shared} ..." in said
    assert not Path(path).exists() and not Path(path).parents[1].exists()
    assert list(shared.iterdir()) == []


def test_without_any_private_folder(quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(building, "_PLACES", ())
    with pytest.raises(DryRunError, match=f"others can write to {tmp_path}; set TMPDIR to one that others cannot"):
        building.build(lambda line: None)


# ---- cuda.h ----


@pytest.fixture
def only_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """CUDA_HOME as the only place with a header."""
    monkeypatch.setattr(building, "_pathfinder_folders", list)
    monkeypatch.setattr(building, "_DEFAULT_ROOT", str(tmp_path / "none"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    (tmp_path / "include").mkdir()
    return tmp_path / "include"


def test_the_header_of_cuda_home(only_home: Path) -> None:
    (only_home / "cuda.h").write_text("/* CUDA */\n#define CUDA_VERSION 13000\n")
    assert building.find_header() == (str(only_home), 13000)


@pytest.mark.parametrize(("header", "message"), [
    (None, r"needs cuda.h .*pip install 'kernelscope\[cu13\]'.* looked in .*include, "),
    ("#define CUDA_VERSION 12040\n", r"include \(CUDA 12\.4\)"),
    ("#define SOMETHING_ELSE 1\n", "needs cuda.h"),
])
def test_headers_that_are_refused(only_home: Path, header: str | None, message: str) -> None:
    if header is not None:
        (only_home / "cuda.h").write_text(header)
    with pytest.raises(DryRunError, match=message):
        building.find_header()
