"""Building the null driver, once for a machine, into the user's cache folder."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelscope.errors import DryRunError
from kernelscope.private_folders import make_private, why_no_place, why_not_private

if TYPE_CHECKING:
    from collections.abc import Callable


OLDEST_VERSION = 12080
"""Older headers lack types that the null driver uses."""

_DEFAULT_ROOT = "/usr/local/cuda"


class CudaHeader(NamedTuple):
    """The folder that ``cuda.h`` is in, and the CUDA version that it states, such as 13000."""

    folder: str
    version: int


def find_header() -> CudaHeader:
    """Return the first ``cuda.h`` that is new enough.

    It looks where the CUDA wheels and conda packages put it (as `cuda.pathfinder` knows), then in ``CUDA_HOME``,
    ``CUDA_PATH`` and ``/usr/local/cuda``.

    Raises
    ------
    DryRunError
        If there is none.
    """
    seen: list[str] = []
    folders = [Path(folder) for folder in _pathfinder_folders()]
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _DEFAULT_ROOT]
    folders += [Path(root) / "include" for root in roots if root]
    for folder in folders:
        version = _version(folder / "cuda.h")
        if version is not None and version >= OLDEST_VERSION:
            return CudaHeader(str(folder), version)
        seen.append(f"{folder} (CUDA {version // 1000}.{version % 1000 // 10})" if version else str(folder))
    raise DryRunError(
        "the dry run needs cuda.h of CUDA 12.8 or newer: pip install 'kernelscope[cu13]' brings it; "
        f"looked in {', '.join(seen)}"
    )


def _pathfinder_folders() -> list[str]:
    try:
        from cuda import pathfinder
    except ImportError:
        return []
    located = pathfinder.locate_nvidia_header_directory("cudart")
    return [located.abs_path] if located is not None and located.abs_path else []


def _version(header: Path) -> int | None:
    """Return what a ``cuda.h`` defines as CUDA_VERSION; None without a readable one."""
    try:
        with open(header, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^#define CUDA_VERSION (\d+)$", file.read(65536), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) if found else None


# The library is ``$XDG_CACHE_HOME/kernelscope/dryrun/<key>/libcuda.so.1``; without the variable it is below
# ``~/.cache``. The key covers all that goes into it: the C sources, the flags, ``cuda.h``, the compiler, the C library
# and the machine. A build is made in a separate folder beside the final one and is then renamed, so any number of
# processes may build at once.
#
# Machine code that somebody else could have put there is not loaded: unless folder and file are the user's alone, the
# driver is built for this process in a temporary folder.

SOURCES = Path(__file__).parent / "csrc"
LIBRARY = "libcuda.so.1"
#: What linkers look for: Triton before 3.7 links its helper with the driver by this name.
LINK = "libcuda.so"
FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
    "-fPIC",
    "-pthread",
    "-shared",
    f"-Wl,-soname,{LIBRARY}",
    "-Wl,-Bsymbolic",
)
_TIMEOUT_S = 300
# Where a driver can be built for one process, besides the folder of temporary files and the session's own.
_PLACES = ("/var/tmp",)


def build(progress: Callable[[str], None], *, rebuild: bool = False) -> Path:
    """Return the path of the null driver; compile it if the cache does not have it.

    Parameters
    ----------
    progress
        Called with one line before a compilation, and with one that says why the cache is not used.
    rebuild
        Whether to compile even so: what the cache has does not load.

    Raises
    ------
    DryRunError
        If there is no C compiler or no ``cuda.h``, if the compiler fails, if the cache folder cannot be written, or if
        there is no folder that is the user's alone.
    """
    compiler = find_compiler()
    header = find_header()
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".c", ".h", ".inc"))
    folder = cache_folder() / _key(sources, compiler, header)
    library = folder / LIBRARY
    # Again when the folder was made: meanwhile somebody else may have made one of that name.
    why = why_not_private(folder.parent) or _made(folder.parent) or why_not_private(library)
    if why:
        folder = _private_folder(os.getpid()) / folder.name
        library = folder / LIBRARY
    if not rebuild and _is_whole(library):
        return library
    progress("compiling the dry-run driver (once, about 3 s) ..." if why is None else
             f"compiling the dry-run driver in {folder.parent}, for this process only (about 3 s): {why} ...")
    try:
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as scratch:
            fresh = Path(scratch) / folder.name
            fresh.mkdir(mode=0o700)
            write_tables(header, Path(scratch))
            run_compiler(compiler, header, Path(scratch), sources, fresh / LIBRARY)
            (fresh / LINK).symlink_to(LIBRARY)
            if rebuild or not _is_whole(library):
                with contextlib.suppress(FileNotFoundError):
                    folder.rename(Path(scratch) / "damaged")
            _put_in_place(fresh, folder)
    except OSError as error:
        raise _cannot_be_written(folder.parent, error) from error
    return library


def _made(folder: Path) -> str | None:
    """Make a folder, and return why it is not the user's alone."""
    try:
        make_private(folder)
    except OSError as error:
        raise _cannot_be_written(folder, error) from error
    return why_not_private(folder)


def _cannot_be_written(folder: Path, error: OSError) -> DryRunError:
    return DryRunError(f"the dry-run driver cannot be written to {folder}: {error.strerror or error}; "
                       "set XDG_CACHE_HOME to a folder that you can write")


def cache_folder() -> Path:
    """Return the folder that the builds are in."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    return base / "kernelscope" / "dryrun"


def find_compiler() -> list[str]:
    """Return the command of the C compiler: ``$CC``, or the first of cc, gcc and clang.

    Raises
    ------
    DryRunError
        If there is none.
    """
    configured = shlex.split(os.environ.get("CC", ""))
    if configured:
        if found := shutil.which(configured[0]):
            return [found, *configured[1:]]
        raise DryRunError(f"the dry run needs a C compiler: CC names {configured[0]!r}, which is not there")
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise DryRunError(
        "the dry run needs a C compiler: none of cc, gcc, clang is on PATH; "
        "install one (Debian: apt install gcc) or set CC"
    )


@functools.cache
def _private_folder(process: int) -> Path:
    """Return a temporary folder that is the user's alone and goes with this process."""
    for base in (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), *_PLACES):
        if os.path.isabs(base) and os.path.isdir(base) and why_no_place(Path(base)) is None:
            folder = Path(tempfile.mkdtemp(prefix="kernelscope-dryrun-", dir=base))
            atexit.register(_remove, folder, process)
            return folder
    raise DryRunError(f"there is no folder that is yours alone for the dry-run driver: "
                      f"{why_no_place(Path(tempfile.gettempdir()))}; set TMPDIR to one that others cannot change")


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a child's that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _key(sources: list[Path], compiler: list[str], header: CudaHeader) -> str:
    # The compiler is known by its file rather than by what it prints, which would take a process for every start.
    file = os.stat(os.path.realpath(compiler[0]))
    libc = os.confstr("CS_GNU_LIBC_VERSION")
    digest = hashlib.sha256()
    for part in (*compiler, file.st_size, file.st_mtime_ns, *FLAGS, LINK, *header, os.uname().machine, libc):
        digest.update(f"{part}\0".encode())
    for source in sources:
        digest.update(f"{source.name}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def write_tables(header: CudaHeader, folder: Path) -> None:
    """Write the tables that CUDA's headers tell.

    ``missing.inc`` has the functions that the null driver does not have, ``older.inc`` the interfaces of functions that
    are older than all that it has, and ``error_names.inc`` the names of errors.
    """
    oldest: dict[str, int] = {}
    for name, version in re.findall(r"^ENTRY\((\w+), (\d+)", (SOURCES / "entries.inc").read_text(), re.MULTILINE):
        oldest[name] = min(int(version), oldest.get(name, int(version)))
    published: dict[str, set[int]] = {}
    for file in Path(header.folder).glob("cuda*Typedefs.h"):
        for name, version in re.findall(r"\*PFN_(cu[A-Z]\w*?)_v(\d+)\)", file.read_text(errors="replace")):
            published.setdefault(name, set()).add(int(version))
    missing = [(name, min(versions)) for name, versions in published.items() if name not in oldest]
    older = [(name, version) for name, versions in published.items() for version in versions
             if version < oldest.get(name, 0)]
    cuda_h = (Path(header.folder) / "cuda.h").read_text(errors="replace")
    errors = re.findall(r"^ +(CUDA_(?:SUCCESS|ERROR_\w+)) *=", cuda_h, re.MULTILINE)
    for table, lines in (("missing", [f"MISSING({name}, {version})" for name, version in sorted(missing)]),
                         ("older", [f"OLDER({name}, {version})" for name, version in sorted(older)]),
                         ("error_names", [f"ERROR_NAME({name})" for name in errors])):
        (folder / f"{table}.inc").write_text("\n".join([*lines, ""]))


def run_compiler(compiler: list[str], header: CudaHeader, tables: Path, sources: list[Path], output: Path,
                 *options: str) -> None:
    """Compile the null driver, or its objects with ``-c`` among the options.

    Raises
    ------
    DryRunError
        If the compiler cannot be run, fails, or takes too long; the message has its last lines.
    """
    units = [str(source) for source in sources if source.suffix == ".c"]
    command = [*compiler, *FLAGS, *options, f"-I{header.folder}", f"-I{tables}", *units, "-o", str(output)]
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise DryRunError(f"{compiler[0]} did not compile the dry-run driver in {_TIMEOUT_S} s") from error
    except OSError as error:
        raise DryRunError(f"{compiler[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0 or not output.is_file():
        last = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-8:])
        raise DryRunError(
            f"{shlex.join(compiler)} could not compile the dry-run driver (exit status {done.returncode}):\n{last}"
        )
    output.chmod(0o700)  # whatever the umask


def _is_whole(library: Path) -> bool:
    """Return whether a file is an ELF library to its end, the section table; a cut-off one would kill its loader."""
    try:
        with open(library, "rb") as file:
            head = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return False
    if len(head) < 64 or not head.startswith(b"\x7fELF"):
        return False
    table, entry_bytes, entries = struct.unpack_from("=40xQ10xHH", head)
    return table + entry_bytes * entries <= size


def _put_in_place(fresh: Path, folder: Path) -> None:
    try:
        fresh.rename(folder)
    except OSError:
        if not _is_whole(folder / LIBRARY):  # unless another process has put its own there, which is as good
            raise
